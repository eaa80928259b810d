"""Labels become gold: a new version of the gold set, and people's labels beside it in an evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.gold import Gold
from karat.formats.gold_writer import gold_lines
from karat.labels.labelled_gold import read_labelling
from karat.labels.merge import merge_labels

Call = Callable[..., tuple[int, str, str]]
METRICS = ["recall@3", "ndcg@3", "precision@3", "judged@3", "bpref"]
ROOT = Path(__file__).parents[2]


def write(path: Path, records: list[Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def label(query: str, item: str, grade: float | None, annotator: str = "ann", **more: Any) -> dict[str, Any]:
    return {"query_id": query, "chunk_id": item, "grade": grade, "annotator": annotator, **more}


def contents(gold: Gold) -> dict[str, Any]:
    items = zip(gold.query_of_item.tolist(), gold.ids, gold.grades.tolist(), gold.kinds.tolist(), strict=True)
    return {
        "queries": gold.queries,
        "items": list(items),
        "passages": [p for p in gold.passages if p is not None],
        "k": gold.k.tolist(),
        "no_answer": gold.no_answer.tolist(),
        "fields": gold.fields,
        "tags": gold.tags,
    }


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    entries = [
        {"query_id": "q1", "query": "how?", "gold": ["a"], "negatives": ["n"], "tags": {"language": "en"}, "k": 3},
        {"query_id": "q2", "query": "why?", "gold": [{"doc_id": "d", "quote": "so it is"}], "evidence": ["so it is"]},
        {"query_id": "q3", "query": "when?", "no_answer": True},
    ]
    human = [
        label("q1", "b", 2, time="2026-01-02T00:00:00+00:00"),
        label("q1", "a", 0),
        label("q2", "c", 1, "ben"),
        label("q1", "x", 2, "m", kind="judge"),
        label("q9", "b", 2),
    ]
    run = [{"query_id": "q1", "topk": ["b", "x", "a"]}, {"query_id": "q2", "topk": ["c", "y"]}]
    return {
        "gold": write(tmp_path / "gold.jsonl", [{"dataset": {"name": "help", "version": "v1"}}, *entries]),
        "human": write(tmp_path / "human.jsonl", human),
        "run": write(tmp_path / "run.jsonl", run),
        "new": str(tmp_path / "gold_v2.jsonl"),
    }


def test_a_new_version_from_the_command_line(files: dict[str, str], karat_command: Call) -> None:
    asked = (
        "labels",
        "merge",
        files["human"],
        "--gold",
        files["gold"],
        "-o",
        files["new"],
        "--version",
        "v2",
        "--json",
    )
    code, out, _ = karat_command(*asked)
    said = json.loads(out)
    assert code == 0
    assert (said["added"], said["relevant"], said["queries"], said["by_judges"]) == (2, 2, 2, 1)
    assert said["annotators"] == {"ann": 1, "ben": 1}
    assert {entry["code"]: entry["count"] for entry in said["audit"]} == {
        "labels_added": 2,
        "labels_overruled": 1,
        "labels_unknown": 1,
        "gold_raised": 2,
    }
    header, *entries = map(json.loads, Path(files["new"]).read_text().splitlines())
    assert header["dataset"] == {"name": "help", "version": "v2"}
    assert header["provenance"] == said
    before = header["provenance"]["dataset"]
    assert (before["version"], before["hash"]) == ("v1", karat.read_gold(files["gold"]).dataset.hash)
    assert (header["provenance"]["labels"][0]["labels"], header["provenance"]["last"][:10]) == (4, "2026-01-02")
    assert entries[0]["gold"] == [
        {"id": "a", "grade": 2},
        {"id": "n", "grade": 0},
        {"chunk_id": "b", "grade": 2, "annotator": "ann"},
    ]
    gold = karat.read_gold(files["new"])
    assert (gold.dataset.name, gold.dataset.version) == ("help", "v2")


def test_the_new_version_scores_as_labels_in_memory_do(files: dict[str, str], karat_command: Call) -> None:
    assert karat_command("labels", "merge", files["human"], "--gold", files["gold"], "-o", files["new"])[0] == 0
    people = karat.labels.read_labels(files["human"], kind="human")
    one = karat.evaluate(files["run"], karat.labels.with_labels(karat.read_gold(files["gold"]), people), METRICS)
    other = karat.evaluate(files["run"], files["new"], METRICS)
    beside = karat.evaluate(files["run"], files["gold"], METRICS, labelling=read_labelling(people=[files["human"]]))
    for metric in METRICS:
        np.testing.assert_array_equal(one.values[metric], other.values[metric])
        np.testing.assert_array_equal(one.values[metric], beside.values[metric])


def test_a_second_round_goes_on_from_the_first(files: dict[str, str], tmp_path: Path, karat_command: Call) -> None:
    assert (
        karat_command(
            "labels", "merge", files["human"], "--gold", files["gold"], "-o", files["new"], "--version", "v2"
        )[0]
        == 0
    )
    more, third = write(tmp_path / "more.jsonl", [label("q1", "x", 1)]), str(tmp_path / "gold_v3.jsonl")
    assert karat_command("labels", "merge", more, "--gold", files["new"], "-o", third)[0] == 0
    gold = karat.read_gold(third)
    assert dict(zip(gold.ids, gold.grades.tolist(), strict=True)) == {"a": 2, "n": 0, "b": 2, "x": 1, "d": 2, "c": 1}
    assert str(gold.dataset.version).startswith("v2+")


@pytest.mark.parametrize("name", ["helpdesk", "files"])
def test_what_is_written_reads_back_as_the_same(name: str, files: dict[str, str], tmp_path: Path) -> None:
    gold = karat.read_gold(ROOT / "examples" / "helpdesk" / "gold.jsonl" if name == "helpdesk" else files["gold"])
    (tmp_path / "written.jsonl").write_bytes(b"".join(gold_lines(gold, {})))
    assert contents(karat.read_gold(tmp_path / "written.jsonl")) == contents(gold)


def test_bare_queries_and_qrels_become_a_gold_set(tmp_path: Path, karat_command: Call) -> None:
    queries = write(tmp_path / "queries.jsonl", [{"query_id": "q", "query": "how"}])
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    labels, new = write(tmp_path / "labels.jsonl", [label("q", "b", 2)]), tmp_path / "new.jsonl"
    for gold, expected in ((queries, {"b": 2}), (str(tmp_path / "qrels"), {"a": 1, "b": 2})):
        assert karat_command("labels", "merge", labels, "--gold", gold, "-o", str(new))[0] == 0
        read = karat.read_gold(new)
        assert dict(zip(read.ids, read.grades.tolist(), strict=True)) == expected


def test_labels_of_judges_and_open_conflicts_are_no_gold(files: dict[str, str], tmp_path: Path) -> None:
    gold = karat.read_gold(files["gold"])
    judge = write(tmp_path / "judge.jsonl", [label("q1", "b", 2, "m", kind="judge")])
    with refused("no-labels", file=judge):
        merge_labels(gold, [judge])
    two = write(tmp_path / "two.jsonl", [label("q1", "b", 2), label("q1", "b", 0, "ben")])
    with refused("contradiction", file=two, line=2):
        merge_labels(gold, [two])


def test_people_are_gold_and_judges_are_judges(files: dict[str, str], karat_command: Call) -> None:
    """In recall a label of a person counts, and one of a judge does not; in precision both do, each in its reading."""
    asked = ("eval", files["run"], "--gold", files["gold"], "-m", "recall@3", "-m", "precision@3", "--json")
    both = ("--gold-labels", files["human"], "--labels", files["human"])
    found = json.loads(karat_command(*asked, *both)[1])["analyses"]["bounds"]["rows"]
    values = {(row["metric"], row["kind"]): row["value"] for row in found}
    assert values["recall@3", "gold only"] == pytest.approx((2 / 2 + 1 / 2) / 2)  # q1: a and b; q2: c, and not d
    assert values["precision@3", "gold only"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert values["precision@3", "gold plus judge"] == pytest.approx((3 / 3 + 1 / 3) / 2)


def test_a_gate_takes_peoples_labels_as_gold(files: dict[str, str], karat_command: Call) -> None:
    asked = ("gate", files["run"], "--gold", files["gold"], "--gate", "precision@3 >= 0.5")
    assert karat_command(*asked)[0] == 1
    assert karat_command(*asked, "--gold-labels", files["human"])[0] == 0


def test_a_saved_result_takes_no_labels(
    files: dict[str, str], tmp_path: Path, karat_command: Call, karat_refuses: Callable[..., Any]
) -> None:
    saved = str(tmp_path / "result.json")
    assert karat_command("eval", files["run"], "--gold", files["gold"], "-o", saved)[0] == 0
    error = karat_refuses("gate", saved, "--gate", "precision@3 >= 0.5", "--gold-labels", files["human"])
    assert error.code == "no-hits-kept"
