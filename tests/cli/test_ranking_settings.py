"""`--top-k`, `--prices`, and settings that a log carries; nothing is taken from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.cli.main import main

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "helpdesk"
SETTINGS = {"RAG_TOP_K": 20, "RAG_SCORE_THRESHOLD": 0.4, "HYBRID_PREFETCH_LIMIT": 100, "RERANK_TOP_N": 30}
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["karat", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a run that has used something, a gold set and a price table."""
    monkeypatch.chdir(tmp_path)
    usage = [{"stage": "rerank", "model": "cross", "calls": 2}]
    write("run.jsonl", [{"query_id": f"q{i}", "topk": ["x", "a", "b"], "usage": usage, **SETTINGS} for i in range(5)])
    write("gold.jsonl", [{"query_id": f"q{i}", "gold": ["a", "b"]} for i in range(5)])
    Path("prices.yaml").write_text("currency: USD\nmodels: {cross: {per_call: 0.25}}\n")
    return tmp_path


def write(name: str, records: list[Any]) -> None:
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))


def means(out: str) -> dict[str, float]:
    return {row["metric"]: row["mean"] for row in json.loads(out)["summary"]}


# --- never from the environment


@pytest.mark.parametrize("command", ["eval", "eval sweep", "gate"])
def test_settings_in_the_environment_change_no_byte(command: str, tmp_path: Path) -> None:
    more = {"gate": ("--gate", "recall@5 >= 0.3")}.get(command, ())
    arguments = (
        *command.split(),
        str(DEMO / "bm25.jsonl"),
        "--gold",
        str(DEMO / "gold.jsonl"),
        "--resamples",
        "200",
        *more,
    )
    plain = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    strange = plain | dict.fromkeys(SETTINGS, "1")
    outputs = [
        subprocess.run(
            [sys.executable, "-m", "karat.cli.main", *arguments, "--json"],
            capture_output=True,
            cwd=tmp_path,
            env=environment,
            check=True,
        ).stdout
        for environment in (plain, strange)
    ]
    assert len(outputs[0]) > 1000
    assert outputs[0] == outputs[1]


# --- kept as provenance


def test_settings_that_a_log_carries_are_kept_and_shown(call: Call, folder: Path) -> None:
    nested = {"fusion": {"k": 60}, "RERANK_TOP_N": 30}
    run = [{"query_id": "q0", "topk": ["a"], **SETTINGS, "settings": nested}]
    assert karat.evaluate(run, {"q0": ["a"]}, ["mrr"]).provenance == {**SETTINGS, "settings": nested}
    write("run.jsonl", run)
    code, out, _ = call("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "mrr", "--missing", "skip", "--explain")
    assert code == 0
    shown = [" ".join(line.split()) for line in out.splitlines()]
    for name, value in SETTINGS.items():
        assert f"{name} {value}" in shown
    assert "settings fusion k 60, RERANK_TOP_N 30" in shown


def test_settings_that_change_within_a_run_are_counted() -> None:
    run = [{"query_id": f"q{i}", "topk": ["a"], "RAG_TOP_K": 10 + i} for i in range(3)]
    gold = {f"q{i}": ["a"] for i in range(3)}
    assert karat.evaluate(run, gold, ["mrr"]).provenance == {"RAG_TOP_K": {"values": 3, "first": 10}}


def test_settings_of_the_log_do_not_cut_its_lists() -> None:
    """They say how the lists were made; the lists are what was returned."""
    run = [
        {"query_id": "q", "RAG_TOP_K": 1, "RAG_SCORE_THRESHOLD": 9, "topk": [{"chunk_id": c, "score": 1} for c in "ba"]}
    ]
    assert karat.evaluate(run, {"q": ["a", "b"]}, ["recall@5"]).means == {"recall@5": 1.0}


# --- --top-k


@pytest.mark.parametrize(("top_k", "recall", "cut"), [(1, 0.0, 2), (2, 0.5, 1), (3, 1.0, 0), (50, 1.0, 0)])
def test_lists_are_cut(call: Call, folder: Path, top_k: int, recall: float, cut: int) -> None:
    code, out, _ = call("eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "recall@10", "--top-k", str(top_k), "--json")
    assert code == 0
    assert means(out) == {"recall@10": recall}
    audit = {entry["code"]: entry["count"] for entry in json.loads(out)["audit"]}
    assert audit.get("cut_hits", 0) == 5 * cut
    assert json.loads(out)["settings"]["top_k"] == top_k


def test_the_first_hits_are_those_of_the_ranking() -> None:
    def recall(topk: list[Any], **options: Any) -> float | None:
        return karat.evaluate([{"query_id": "q", "topk": topk}], {"q": ["a"]}, ["recall@9"], **options).means[
            "recall@9"
        ]

    assert recall([{"chunk_id": "b", "rank": 2}, {"chunk_id": "a", "rank": 1}], top_k=1) == 1.0
    assert recall([{"chunk_id": "b", "score": 0.1}, {"chunk_id": "a", "score": 0.9}], top_k=1) == 1.0
    assert recall([{"chunk_id": "b", "score": 1.0}, {"chunk_id": "a", "score": 1.0}], top_k=1) == 0.0  # ties: b first
    assert recall(["b", "b", "a"], top_k=2) == 0.0  # what was returned twice took two places
    scored = [{"chunk_id": "b", "score": 0.9}, {"chunk_id": "a", "score": 0.5}, {"chunk_id": "c", "score": 0.4}]
    assert recall(scored, top_k=2, min_score=0.45) == 1.0
    assert recall(scored, top_k=2, min_score=0.6) == 0.0


def test_the_raw_lists_of_the_reranker_are_not_cut() -> None:
    run = [{"query_id": "q", "topk": ["a", "b"], "raw": ["x", "y", "a", "b"]}]
    result = karat.evaluate(run, {"q": ["a", "b"]}, ["recall@5"], top_k=1, analyses=True)
    assert result.means == {"recall@5": 0.5}
    assert result.analyses.found["reranker"].raw_depth == 4


def test_a_cut_that_is_none(call: Call, folder: Path) -> None:
    code, _, err = call("eval", "run.jsonl", "--gold", "gold.jsonl", "--top-k", "0")
    assert code == 2
    assert "--top-k" in err
    with refused("bad-setting", got=0):
        karat.evaluate({"q": ["a"]}, {"q": ["a"]}, top_k=0)


# --- --prices


def test_prices_from_the_command_line_or_from_karat_yaml(call: Call, folder: Path) -> None:
    asked = ("eval", str(folder / "run.jsonl"), "--gold", str(folder / "gold.jsonl"), "-m", "cost", "--json")
    code, out, _ = call(*asked, "--prices", "prices.yaml")
    assert (code, means(out)) == (0, {"cost": 0.5})
    Path("karat.yaml").write_text("prices: prices.yaml\n")
    (folder / "deeper").mkdir()
    os.chdir(folder / "deeper")  # the path is seen from karat.yaml, not from here
    assert means(call(*asked)[1]) == {"cost": 0.5}
    Path("dear.yaml").write_text("currency: USD\nmodels: {cross: {per_call: 4}}\n")
    assert means(call(*asked, "--prices", "dear.yaml")[1]) == {"cost": 8.0}


def test_gates_and_comparisons_take_prices(call: Call, folder: Path) -> None:
    gate = ("gate", "run.jsonl", "--gold", "gold.jsonl", "--prices", "prices.yaml", "--gate")
    assert call(*gate, "cost <= 0.5")[0] == 0
    assert call(*gate, "cost <= 0.4")[0] == 1
    code, out, _ = call("gate", "run.jsonl", "--gold", "gold.jsonl", "--gate", "cost <= 0.5", "--json")
    assert code == 2
    assert [(v["metric"], v["outcome"]) for v in json.loads(out)["verdicts"]] == [("cost", "invalid")]
    same = ("compare", "run.jsonl", "run.jsonl", "--gold", "gold.jsonl", "-m", "cost", "--prices", "prices.yaml")
    assert call(*same)[0] == 0


def test_a_bad_price_table_is_told_with_its_line(karat_refuses: Callable[..., karat.KaratError], folder: Path) -> None:
    Path("prices.yaml").write_text("currency: USD\nmodels:\n  cross: {per_call: -0.25}\n")
    error = karat_refuses("eval", "run.jsonl", "--gold", "gold.jsonl", "--prices", "prices.yaml")
    assert (error.code, error.file, error.line, error.column) == ("bad-value", "prices.yaml", 3, 21)
    assert (error.field, error.got) == ("models.cross.per_call", -0.25)
    error = karat_refuses("eval", "run.jsonl", "--gold", "gold.jsonl", "--prices", "nowhere.yaml")
    assert (error.code, error.file) == ("unreadable", "nowhere.yaml")


def test_the_report_fits_and_names_the_prices(call: Call, folder: Path) -> None:
    code, out, _ = call("eval", "run.jsonl", "--gold", "gold.jsonl", "--prices", "prices.yaml")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "0.500 USD" in out
    assert "sha256:" in out
