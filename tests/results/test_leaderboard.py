"""Every system against every other, held against comparisons of two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.report.leaderboard import leaderboard_report, to_frame, to_latex
from karat.results.leaderboard import rank_systems
from karat.results.result import Result
from karat.statistics.significance import holm

METRICS = ["recall@3", "mrr", "miss@3"]


def scored(quality: float, seed: int, system: str) -> Result:
    rng = np.random.default_rng(seed)
    gold = {f"q{i}": ["a"] for i in range(60)}
    run = [
        {"query_id": q, "system": system, "topk": ["a", "b", "c"] if rng.random() < quality else ["b", "c", "a", "d"]}
        for q in gold
    ]
    run[0]["topk"] = ["x"]
    return karat.evaluate(run, gold, METRICS, sampling=karat.Sampling(resamples=500))


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [scored(0.2, 1, "weak"), scored(0.9, 2, "strong"), scored(0.85, 3, "strong_2")]


def test_letters_are_those_of_paired_tests_after_holm(results: list[Result]) -> None:
    board = rank_systems(results)
    for at, metric in enumerate(METRICS):
        lower = metric in board.lower_is_better
        found: dict[tuple[int, int], Any] = {
            (i, j): next(d for d in karat.compare(results[j], results[i]).pairs[0].differences if d.metric == metric)
            for i in range(3)
            for j in range(i)
        }
        adjusted = holm(np.array([d.p for d in found.values()]))
        expected = ["", "", ""]
        for ((i, j), d), p in zip(found.items(), adjusted.tolist(), strict=True):
            if p <= 0.05 and d.certain:
                winner, loser = (i, j) if (d.delta > 0) != lower else (j, i)
                expected[winner] += "abc"[loser]
        assert [s.metrics[at].beats for s in board.systems] == ["".join(sorted(letters)) for letters in expected]
        assert [s.metrics[at].value for s in board.systems] == [r.means[metric] for r in results]
    assert board.systems[1].metrics[1].beats == "a"
    assert [s.metrics[1].best for s in board.systems] == [False, True, False]


def test_letters_say_no_more_than_a_comparison() -> None:
    """Six queries that gain a little each: p is 2 / 2⁶, and the interval holds 0."""
    gold = {f"q{i}": ["a"] for i in range(6)}
    below = [f"x{i}" for i in range(9)]
    sides = [
        karat.evaluate([{"query_id": q, "system": s, "topk": hits} for q in gold], gold, ["mrr"])
        for s, hits in (("old", [*below[:8], "a"]), ("new", [*below[:7], "a"]))
    ]
    (difference,) = karat.compare(*sides).pairs[0].differences
    assert difference.p == 2 / 2**6
    assert not difference.certain
    assert [system.metrics[0].beats for system in rank_systems(sides).systems] == ["", ""]


def test_the_table_in_every_form(results: list[Result]) -> None:
    board = rank_systems(results)
    latex = to_latex(board)
    assert r"strong\_2" in latex
    assert latex.count(r"\\") == 4
    assert to_frame(board)["system"].to_list() == ["weak", "strong", "strong_2"]
    assert len(leaderboard_report(board).sections) == 1
    assert len(leaderboard_report(board, pictures=True).sections) == 1 + len(METRICS)


def test_letters_end(results: list[Result]) -> None:
    with refused("too-many-runs"):
        rank_systems(results * 9)


def test_many_files_make_one_table(tmp_path: Path, karat_command: Any) -> None:
    demo = Path(__file__).parents[2] / "examples" / "helpdesk"
    files = [f"{tmp_path}/table.{ending}" for ending in ("tex", "csv", "parquet", "json", "md", "html")]
    runs = [str(demo / "bm25.jsonl"), str(demo / "bm25_rerank.jsonl")]
    outputs = [part for file in files for part in ("-o", file)]
    code, printed, _ = karat_command("eval", *runs, "--gold", str(demo / "gold.jsonl"), "-m", "recall@5,mrr", *outputs)
    assert code == 0
    assert all(Path(file).stat().st_size for file in files)
    assert "bm25 + static rerank" in printed
