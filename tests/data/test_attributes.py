"""Attributes that hold several values: a query belongs to each of their segments."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import karat
from karat.data.attributes import NOT_GIVEN, segment_members
from karat.statistics.sampling import Sampling

TOPICS = ["appliance", "timing", "technique"]
QUICK = Sampling(resamples=200)


@pytest.fixture
def recipes(tmp_path: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """A set as the seed has it, its run, and its entries: every query has a text, a target and a list of tags."""
    rng = random.Random(5)
    entries = [
        {"query": f"question {i}?", "source_recipe_id": i, "tags": rng.sample(TOPICS, rng.randrange(4))}
        for i in range(60)
    ]
    gold, run = tmp_path / "queries.jsonl", tmp_path / "run.json"
    gold.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    hits = {entry["query"]: [str(entry["source_recipe_id"] + (i % 3 == 0)), "x"] for i, entry in enumerate(entries)}
    run.write_text(json.dumps(hits))
    return str(run), str(gold), entries


def naive_segments(entries: list[dict[str, Any]]) -> dict[str, tuple[int, float]]:
    """Label → how many queries have it, and their recall."""
    found: dict[str, list[float]] = {}
    for i, entry in enumerate(entries):
        for tag in entry["tags"] or [NOT_GIVEN]:
            found.setdefault(tag, []).append(float(i % 3 != 0))
    return {tag: (len(values), round(sum(values) / len(values), 6)) for tag, values in found.items()}


def segments(result: karat.Result, name: str = "tags") -> dict[str, tuple[int, float]]:
    return {row.value: (row.queries, round(row.summary[0].mean or 0.0, 6)) for row in result.segment_by(name)}


def test_a_query_counts_in_each_of_its_segments(recipes: tuple[str, str, list[dict[str, Any]]]) -> None:
    run, gold, entries = recipes
    result = karat.evaluate(run, gold, ["recall@5"], sampling=QUICK)
    assert segments(result) == naive_segments(entries)


def test_commands_and_files_know_the_segments(
    recipes: tuple[str, str, list[dict[str, Any]]], tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    run, gold, entries = recipes
    expected = naive_segments(entries)
    for name in ("result.json", "result=result.parquet"):
        target = name.replace("=", f"={tmp_path}/") if "=" in name else str(tmp_path / name)
        code, *_ = karat_command("eval", run, "--gold", gold, "-m", "recall@5", "--segment", "tags", "-o", target)
        assert code == 0
        assert segments(karat.load(target.rpartition("=")[2])) == expected
    each = "gates:\n  - metric: recall@5\n    threshold: 0.0\n    each: tags\n"
    one = "  - metric: recall@5\n    threshold: 0.0\n    segment: {tags: timing}\n"
    (tmp_path / "criteria.yaml").write_text(each + one)
    criteria = str(tmp_path / "criteria.yaml")
    verdict = str(tmp_path / "verdict.json")
    assert karat_command("gate", run, "--gold", gold, "--criteria", criteria, "-o", verdict)[0] == 0
    checks = [(check["gate"], check["n"]) for check in json.loads(Path(verdict).read_text())["verdicts"]]
    assert sorted(n for _, n in checks[:-1]) == sorted(n for n, _ in expected.values())
    assert checks[-1][1] == expected["timing"][0]
    assert karat_command("eval", "triage", run, "--gold", gold)[0] == 0
    assert karat_command("compare", run, run, "--gold", gold, "--segment", "tags")[0] == 0


def test_every_form_of_lists(tmp_path: Path) -> None:
    expected = [["a", "b"], ["b"], None]
    in_tags = [{"query_id": f"q{i}", "gold": ["x"], "tags": {"topic": t}} for i, t in enumerate(expected)]
    table = pl.DataFrame({"query_id": ["q0", "q1", "q2"], "chunk_id": ["x"] * 3, "topic": expected})
    table.write_parquet(tmp_path / "gold.parquet")
    samples = {
        "samples": [
            {"id": f"q{i}", "expected_output": ["x"], "metadata": {"topic": t} if t else {}}
            for i, t in enumerate(expected)
        ]
    }
    (tmp_path / "samples.json").write_text(json.dumps(samples))
    for gold in (in_tags, table, tmp_path / "gold.parquet", tmp_path / "samples.json"):
        read = karat.read_gold(gold)
        assert read.tags == {"topic": expected}
        rows, labels = segment_members(read, "topic")
        assert list(zip(rows.tolist(), labels, strict=True)) == [(0, "a"), (0, "b"), (1, "b"), (2, NOT_GIVEN)]


def test_combinations_of_lists_and_of_other_fields() -> None:
    entries = [
        {"query_id": "p", "gold": ["x"], "cats": ["a", "b", "a"], "language": "en"},
        {"query_id": "q", "gold": ["x"], "cats": [], "language": "pt"},
        {"query_id": "r", "gold": ["x"], "cats": [1, True], "language": "pt"},
    ]
    gold = karat.read_gold(entries)
    rows, labels = segment_members(gold, "cats×language")
    assert list(zip(rows.tolist(), labels, strict=True)) == [
        (0, "a × en"),
        (0, "b × en"),
        (1, f"{NOT_GIVEN} × pt"),
        (2, "1 × pt"),
        (2, "yes × pt"),
    ]
    assert gold.tags == {"language": ["en", "pt", "pt"]}  # of other fields only those that are asked for


def test_no_answer_by_one_of_several_values() -> None:
    entries = [
        {"query_id": "p", "gold": ["x"], "tags": ["a"]},
        {"query_id": "q", "gold": {"x": 0}, "tags": ["b", "unanswerable"]},
    ]
    result = karat.evaluate({"p": ["x"], "q": ["x"]}, entries, ["recall@5"], no_answer="tags=unanswerable")
    assert result.gold.no_answer.tolist() == [0, 1]
