"""Every system against every other, held against comparisons of two."""

from __future__ import annotations

import csv
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.report.leaderboard import leaderboard_report, to_frame, to_latex
from karat.results.leaderboard import rank_systems
from karat.results.result import Result
from karat.statistics.sampling import Sampling
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
    return karat.evaluate(run, gold, METRICS, sampling=Sampling(resamples=500))


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


SYSTEMS = {"bad": 0.1, "bm25": 0.45, "dense_v2": 0.5, "hybrid & co": 0.62, "rerank": 0.8}


@pytest.fixture(scope="module")
def user_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gold set and the logs of five systems, as a user has them."""
    folder, rng = tmp_path_factory.mktemp("many"), np.random.default_rng(9)
    gold = {f"q{i}": [f"d{i}", f"e{i}"] for i in range(100)}
    (folder / "gold.jsonl").write_text("".join(json.dumps({"query_id": q, "gold": g}) + "\n" for q, g in gold.items()))
    for system, quality in SYSTEMS.items():
        lines = []
        for query, wanted in gold.items():
            hits = [f"x{n}" for n in range(10)]
            for item in wanted:
                if rng.random() < quality:
                    hits[rng.integers(10)] = item
            lines.append(json.dumps({"query_id": query, "system": system, "topk": hits}) + "\n")
        (folder / f"{system.split()[0]}.jsonl").write_text("".join(lines))
    return folder


def by_hand(folder: Path) -> list[list[float]]:
    """recall@5 of every query, system by system, without any of Karat's code."""
    gold = {r["query_id"]: set(r["gold"]) for r in map(json.loads, (folder / "gold.jsonl").read_text().splitlines())}
    runs = [(folder / f"{system.split()[0]}.jsonl").read_text().splitlines() for system in SYSTEMS]
    return [
        [len(gold[r["query_id"]] & set(r["topk"][:5])) / len(gold[r["query_id"]]) for r in map(json.loads, run)]
        for run in runs
    ]


def letters_by_hand(scores: list[list[float]]) -> list[str]:
    """Sign flips of paired differences, then Holm's rule step by step."""
    rng, values, found = np.random.default_rng(1), np.array(scores), []
    for i, j in combinations(range(len(values)), 2):
        difference = values[j] - values[i]
        flips = rng.choice([-1.0, 1.0], (20_000, len(difference))) @ difference
        found.append((float(np.mean(np.abs(flips) >= abs(difference.sum()) - 1e-9)), i, j))
    beats = [""] * len(values)
    for left, (p, i, j) in zip(range(len(found), 0, -1), sorted(found), strict=True):
        assert not 0.04 < p * left < 0.06, "too near to the limit for a test"
        if p * left > 0.05:
            break
        winner, loser = (i, j) if values[i].mean() > values[j].mean() else (j, i)
        beats[winner] += "abcde"[loser]
    return ["".join(sorted(each)) for each in beats]


def test_letters_and_values_in_every_form_by_other_code(user_files: Path, tmp_path: Path, karat_command: Any) -> None:
    runs = [str(user_files / f"{system.split()[0]}.jsonl") for system in SYSTEMS]
    files = {ending: tmp_path / f"table.{ending}" for ending in ("csv", "tex", "md", "html")}
    outputs = [part for file in files.values() for part in ("-o", str(file))]
    asked = ("--gold", str(user_files / "gold.jsonl"), "-m", "recall@5")
    code, printed, _ = karat_command("eval", *runs, *asked, *outputs)
    assert code == 0
    scores = by_hand(user_files)
    letters, means = letters_by_hand(scores), [float(np.mean(each)) for each in scores]
    assert len(set(letters)) > 2
    rows = list(csv.DictReader(files["csv"].open()))
    assert [row["recall@5 beats"] for row in rows] == letters
    assert [float(row["recall@5"]) for row in rows] == pytest.approx(means, abs=1e-12)
    best = means.index(max(means))
    for at, system in enumerate(SYSTEMS):
        low, high = (f"{float(rows[at][f'recall@5 {end}']):.2f}" for end in ("low", "high"))
        star, beaten = r" \*" if at == best else "", f" {letters[at]}" if letters[at] else ""
        shown = rf"{means[at]:.3f} \[{low}, {high}\]{star}{beaten}"
        assert re.search(rf"{'abcde'[at]}  {re.escape(system)} +{shown} *$", printed, re.M)
        plain = files["md"].read_text().replace("\\", "")
        assert re.search(rf"\| {'abcde'[at]}  {re.escape(system)} \| {shown} \|", plain)
        value = rf"\textbf{{{means[at]:.3f}}}" if at == best else f"{means[at]:.3f}"
        raised = f"$^{{{letters[at]}}}$" if letters[at] else ""
        name = system.replace("_", r"\_").replace("&", r"\&")
        line = rf"{'abcde'[at]} & {name} & {value}{raised} {{\scriptsize [{low}, {high}]}} \\"
        assert line in files["tex"].read_text().splitlines()
    assert all(system.split()[0] in files["html"].read_text() for system in SYSTEMS)
