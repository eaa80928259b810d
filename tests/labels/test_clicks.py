"""Labels from click logs: from a log file to labels, next to the gold set and never silently in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click_logs import simulate
from refusals import refused

import karat
from karat.labels.click_log import read_click_log
from karat.labels.clicks import NOT_COMPARABLE, RARE, UNCERTAIN, labels_from_clicks
from karat.labels.files import read_labels

Call = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., karat.KaratError]


def write(path: Path, records: list[Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture(scope="module")
def lists() -> list[dict[str, Any]]:
    """A simulated log: 10 queries with 6 items each, 60 lists of 4."""
    log = simulate(np.random.default_rng(0), queries=10, lists=60, length=4, items=6)
    shown, clicked = (values.reshape(-1, 4) for values in (log.item, log.clicked))
    return [
        {
            "query_id": f"q{row[0] // 6}",
            "shown": [f"d{item % 6}" for item in row.tolist()],
            "clicked": [f"d{item % 6}" for item, click in zip(row.tolist(), clicks.tolist(), strict=True) if click],
            "session": f"s{at}",
        }
        for at, (row, clicks) in enumerate(zip(shown, clicked, strict=True))
    ]


@pytest.fixture
def log(tmp_path: Path, lists: list[dict[str, Any]]) -> str:
    return write(tmp_path / "log.jsonl", lists)


@pytest.fixture
def gold(tmp_path: Path) -> str:
    entries = [{"query_id": f"q{i}", "query": f"Question  number {i}?", "gold": ["d0"]} for i in range(10)]
    return write(tmp_path / "gold.jsonl", entries)


def test_a_log_becomes_labels_with_their_evidence(karat_command: Call, log: str, tmp_path: Path) -> None:
    code, out, err = karat_command("labels", "clicks", log, "-o", str(tmp_path / "clicks.jsonl"))
    assert (code, "clicks.jsonl" in err) == (0, True)
    assert out.count("[") == 3  # intervals of positions 2 to 4
    labels = read_labels(tmp_path / "clicks.jsonl")
    assert len(labels) == 60
    assert {label.kind for label in labels} == {"clicks"}
    assert labels.annotators == ["clicks"]
    grades = {label.grade for label in labels}
    assert grades == {0.0, 2.0, None}
    for label in labels:
        assert label.clicks is not None
        assert label.confidence is not None
        assert label.clicks.low <= label.clicks.attraction <= label.clicks.high
        assert (label.grade is None) == (label.reason in (UNCERTAIN, RARE))
        assert label.grade is None or label.confidence >= 0.95


def test_the_labels_are_right_about_the_simulated_truth(log: str) -> None:
    truth = simulate(np.random.default_rng(0), queries=10, lists=60, length=4, items=6).attraction
    found = labels_from_clicks(log)
    graded = [label for label in found if label.grade is not None]
    above = [truth[int(str(x.query_id)[1:]) * 6 + int(str(x.chunk_id)[1:])] > found.model.threshold for x in graded]
    right = [bool(label.grade) == good for label, good in zip(graded, above, strict=True)]
    assert np.mean(right) > 0.9
    assert len(graded) > 15


def test_json_and_tables(karat_command: Call, log: str, tmp_path: Path) -> None:
    labels, table = str(tmp_path / "l.jsonl"), tmp_path / "positions.csv"
    code, out, _ = karat_command("labels", "clicks", log, "-o", labels, "--json")
    found = json.loads(out)
    assert (code, found["schema"], found["has_sessions"], found["reference"]) == (0, "karat/clicks/1", True, 1)
    assert found["positions"][0]["examination"] == 1
    assert all(row["low"] <= row["examination"] <= row["high"] for row in found["positions"])
    labels_from_clicks(log).model.save(f"positions={table}")
    assert table.read_text().startswith("position,shown,clicked,examination")


def test_rows_of_a_table_say_the_same(log: str, lists: list[dict[str, Any]], tmp_path: Path) -> None:
    rows = [
        f"{one['query_id']},{item},{at},{int(item in one['clicked'])},{one['session']}"
        for one in lists
        for at, item in enumerate(one["shown"], 1)
    ]
    table = tmp_path / "log.csv"
    table.write_text("\n".join(["qid,chunk_id,rank,click,session_id", *rows]) + "\n")
    assert labels_from_clicks(table).labels == labels_from_clicks(log).labels
    items = [
        {
            "query_id": one["query_id"],
            "chunk_id": item,
            "position": at,
            "clicked": item in one["clicked"],
            "user": one["session"],
        }
        for one in lists
        for at, item in enumerate(one["shown"], 1)
    ]
    assert labels_from_clicks(write(tmp_path / "rows.jsonl", items)).labels == labels_from_clicks(log).labels


def test_objects_positions_and_other_names(lists: list[dict[str, Any]], log: str, tmp_path: Path) -> None:
    other = [
        {
            "qid": one["query_id"],
            "results": [{"doc_id": item, "position": at} for at, item in enumerate(one["shown"], 1)],
            "clicked_positions": [one["shown"].index(item) + 1 for item in one["clicked"]],
            "session_id": one["session"],
        }
        for one in lists
    ]
    found, before = labels_from_clicks(write(tmp_path / "other.jsonl", other)), labels_from_clicks(log)
    assert [label.grade for label in found] == [label.grade for label in before]
    assert {label.chunk_id for label in found} == {None}
    by_option = labels_from_clicks(log, documents=True)
    assert [label.doc_id for label in by_option] == [label.doc_id for label in found]


def test_queries_are_found_by_their_text(lists: list[dict[str, Any]], log: str, gold: str, tmp_path: Path) -> None:
    texts = [{**one, "query": f"question number {one['query_id'][1:]}?", "query_id": None} for one in lists]
    more = [{**lists[0], "query": "unknown", "query_id": None}, {**lists[0], "query_id": "q99"}]
    path = write(tmp_path / "texts.jsonl", [*texts, *more])
    found = labels_from_clicks(path, gold)
    assert found.labels == labels_from_clicks(log).labels
    assert found.model.counts.unknown_queries == 2
    with refused("missing-field", line=1, field="query_id"):
        labels_from_clicks(path)


def test_what_cannot_be_used_is_counted(tmp_path: Path, lists: list[dict[str, Any]]) -> None:
    odd = [
        {"query_id": "q0", "shown": [], "clicked": [], "session": "x1"},
        {"query_id": "q0", "shown": ["d0", "d1", "d0"], "clicked": ["d0"], "session": "x2"},
        {"query_id": "q0", "shown": ["d0", "d1"], "clicked": ["d9", "d9"], "session": "x3"},
        {"query_id": "q0", "shown": ["d0", "d1"], "clicked_positions": [1, 7], "session": "x4"},
        {"query_id": "q0", "shown": ["d0", "d1"], "clicked": ["d1"], "session": "x4"},  # again in the same session
        {"query_id": "q0", "shown": [f"e{i}" for i in range(103)], "session": "x5"},
    ]
    counts = read_click_log(write(tmp_path / "log.jsonl", [*lists, *odd])).counts
    assert counts.lines == len(lists) + 6
    assert counts.empty_lists == 1
    assert counts.repeated_items == 1
    assert counts.clicks_not_shown == 2
    assert counts.repeated_showings == 2
    assert counts.too_deep == 3


def test_the_first_showing_in_a_session_counts(tmp_path: Path) -> None:
    again = [{"query_id": "q", "shown": ["a", "b"], "clicked": [who], "session": 1} for who in ("a", "b", "b")]
    found = read_click_log(write(tmp_path / "log.jsonl", again))
    assert (found.showings.clicked.tolist(), found.showings.shown.tolist()) == ([1, 0], [1, 1])


@pytest.mark.parametrize(
    ("line", "code", "field"),
    [
        ({"query_id": "q", "shown": [{"chunk_id": "a", "position": -1}]}, "bad-value", "position"),
        ({"query_id": "q", "shown": [{"chunk_id": "a", "position": 0}]}, "bad-value", "position"),
        ({"query_id": "q", "chunk_id": "a", "position": -3, "clicked": 1}, "bad-value", "position"),
        (
            {"query_id": "q", "shown": [{"chunk_id": "a", "position": 2}, {"chunk_id": "b", "position": 2}]},
            "bad-value",
            "position",
        ),
        ({"query_id": "q", "shown": ["a"], "clicked_positions": [0]}, "bad-value", "position"),
        ({"query_id": "q", "shown": ["a"], "clicked": True}, "wrong-type", "clicked"),
        ({"query_id": "q", "shown": [{"position": 2}]}, "missing-field", "shown"),
        ({"query_id": "q", "chunk_id": "a", "clicked": 1}, "missing-field", "position"),
        ({"query_id": "q", "chunk_id": "a", "position": 1, "clicked": "maybe"}, "bad-value", "clicked"),
        ({"query_id": "q"}, "missing-field", "shown"),
        ({"shown": ["a"]}, "missing-field", "query_id"),
        ({"query_id": "q", "shown": "a"}, "wrong-type", "shown"),
        ({"query_id": "q", "shown": [1.5]}, "wrong-type", "shown"),
    ],
)
def test_bad_lines_are_refused_with_their_place(
    tmp_path: Path, lists: list[dict[str, Any]], line: dict[str, Any], code: str, field: str
) -> None:
    path = write(tmp_path / "log.jsonl", [*lists[:3], line])
    with refused(code, line=4, file=path) as caught:
        labels_from_clicks(path)
    assert str(caught.value.field).startswith(field)


def test_two_items_at_one_position_of_a_list_in_a_table(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text("query_id,chunk_id,position,clicked,impression_id\nq,a,1,1,i1\nq,b,1,0,i1\n")
    with refused("bad-value", field="position", got=1):
        labels_from_clicks(table)
    table.write_text("query_id,chunk_id,position,clicked\nq,a,first,1\n")
    with refused("bad-value", field="position", line=2, got="first"):
        labels_from_clicks(table)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty-file"),
        ('{"query_id": "q", "shown": []}\n', "empty-file"),
        ('{"query_id": "q", "shown": ["a"], "clicked": ["b"]}\n', "no-clicks"),
        ('{"query_id": "q", "shown": ["a"]\n', "cut-off"),
    ],
)
def test_logs_that_say_nothing(karat_refuses: Refuses, tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    assert karat_refuses("labels", "clicks", str(path), "-o", str(tmp_path / "out.jsonl")).code == code
    assert not (tmp_path / "out.jsonl").exists()


def test_settings_outside_their_range(log: str) -> None:
    with refused("bad-setting", got=1.0):
        labels_from_clicks(log, confidence=1.0)
    with refused("bad-setting", got=0):
        labels_from_clicks(log, threshold=0)


def test_one_fixed_order_identifies_the_first_position_only(karat_command: Call, tmp_path: Path) -> None:
    fixed = [
        {"query_id": f"q{i % 4}", "shown": ["a", "b"], "clicked": ["a"] if i % 3 else ["b"], "session": i}
        for i in range(80)
    ]
    log, out = write(tmp_path / "log.jsonl", fixed), str(tmp_path / "clicks.jsonl")
    _, text, _ = karat_command("labels", "clicks", log, "-o", out, "--json")
    assert [row["examination"] for row in json.loads(text)["positions"]] == [1, None]
    assert json.loads(text)["not_comparable"] == 4
    reasons = {(label.chunk_id, label.reason) for label in read_labels(out)}
    assert ("b", NOT_COMPARABLE) in reasons
    assert ("a", NOT_COMPARABLE) not in reasons


@pytest.fixture
def clicks(log: str, tmp_path: Path) -> str:
    return str(labels_from_clicks(log).save(tmp_path / "clicks.jsonl"))


@pytest.fixture
def run(tmp_path: Path) -> str:
    lines = [{"query_id": f"q{i}", "topk": [{"chunk_id": f"d{j}"} for j in range(6)]} for i in range(10)]
    return write(tmp_path / "run.jsonl", lines)


def test_an_evaluation_shows_them_next_to_the_gold(
    karat_command: Call, run: str, gold: str, clicks: str, tmp_path: Path
) -> None:
    saved = str(tmp_path / "r.json")
    code, out, _ = karat_command("eval", run, "--gold", gold, "--labels", clicks, "-o", saved)
    assert code == 0
    assert "plus clicks" in out
    assert not re.search(r"\bjudge\b", out)
    bounds = json.loads(Path(saved).read_text())["analyses"]["bounds"]
    assert bounds["source"] == "clicks"
    without = karat.evaluate(run, gold, ["precision@5"])["precision@5"].mean
    rows = {row["kind"]: row["value"] for row in bounds["rows"] if row["metric"] == "precision@5"}
    assert rows["gold only"] == without
    assert rows["gold plus judge"] > without
    karat.load(saved).save(tmp_path / "again.md")
    assert "plus clicks" in (tmp_path / "again.md").read_text()


def test_a_comparison_shows_them_next_to_the_gold(karat_command: Call, run: str, gold: str, clicks: str) -> None:
    code, out, _ = karat_command("compare", run, run, "--gold", gold, "--labels", clicks, "-m", "precision@5")
    assert code == 0
    assert out.count("precision@5") >= 2


def test_they_are_no_gold_and_no_judge(
    karat_refuses: Refuses, karat_command: Call, run: str, gold: str, clicks: str, tmp_path: Path
) -> None:
    assert karat_refuses("eval", run, "--gold", gold, "--gold-labels", clicks).code == "labels-of-a-judge"
    merged = str(tmp_path / "gold2.jsonl")
    assert karat_refuses("labels", "merge", clicks, "--gold", gold, "-o", merged).code == "no-labels"
    judge = write(tmp_path / "judge.jsonl", [_label("q0", "d1", 2, "m", kind="judge")])
    mixed = karat_refuses("eval", run, "--gold", gold, "--labels", clicks, "--labels", judge)
    assert mixed.code == "mixed-labels"
    people = write(tmp_path / "people.jsonl", [_label(f"q{i}", f"d{j}", 0, "ann") for i in range(10) for j in (1, 2)])
    gate = ("--gate", "precision@5 >= 0.1 on bound by judge", "--labels", clicks, "--calibration", people)
    assert karat_command("gate", run, "--gold", gold, *gate)[0] == 2


def _label(query: str, item: str, grade: float, annotator: str, **more: Any) -> dict[str, Any]:
    return {"query_id": query, "chunk_id": item, "grade": grade, "annotator": annotator, **more}


def test_merging_keeps_their_origin(karat_command: Call, gold: str, clicks: str, tmp_path: Path) -> None:
    people = write(tmp_path / "people.jsonl", [_label("q0", "d1", 1, "ann")])
    merged = tmp_path / "gold2.jsonl"
    code, out, _ = karat_command("labels", "merge", people, clicks, "--gold", gold, "-o", str(merged))
    assert (code, "clicks" in out) == (0, True)
    code, out, _ = karat_command("labels", "merge", people, clicks, "--gold", gold, "-o", str(merged), "--clicks")
    assert (code, "clicks" in out) == (0, True)
    head, *entries = map(json.loads, merged.read_text().splitlines())
    added = [item for entry in entries for item in entry["gold"] if isinstance(item, dict) and "annotator" in item]
    kinds = {(item["annotator"], item.get("kind")) for item in added}
    assert kinds == {("ann", None), ("clicks", "clicks")}
    assert head["provenance"]["from_clicks"] == len(added) - 1
    assert karat.read_gold(merged).queries == [f"q{i}" for i in range(10)]


def test_people_and_judges_overrule_them(karat_command: Call, clicks: str, tmp_path: Path) -> None:
    labels = read_labels(clicks).graded()
    one, other = labels[0], labels[1]
    people = [_label(str(one.query_id), str(one.chunk_id), 1, "ann")]
    judge = [_label(str(other.query_id), str(other.chunk_id), 1, "m", kind="judge")]
    files = [clicks, write(tmp_path / "p.jsonl", people), write(tmp_path / "j.jsonl", judge)]
    settled = tmp_path / "settled.jsonl"
    code, out, _ = karat_command("labels", "agree", *files, "-o", str(settled))
    assert (code, "clicks" in out) == (0, True)
    found = {label.key: label for label in read_labels(settled)}
    assert (found[one.key].grade, found[one.key].kind) == (1, "human")
    assert (found[other.key].grade, found[other.key].kind) == (1, "judge")
    assert {label.kind for label in found.values()} == {"human", "judge", "clicks"}


def test_python_names(log: str) -> None:
    found = karat.labels.labels_from_clicks(log)
    assert isinstance(found, karat.labels.ClickLabels)
    assert repr(found).startswith("ClickLabels of")
    assert len(found) == 60


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "labels.md").read_text().split())
    lists: list[tuple[int, list[str], list[str]]] = [
        (20, ["a", "c", "b"], ["a", "b"]),
        (20, ["a", "c", "b"], ["a"]),
        (60, ["a", "c", "b"], []),
        (10, ["c", "e", "a"], ["a"]),
        (90, ["c", "e", "a"], []),
    ]
    log = [{"query_id": "q", "shown": shown, "clicked": which} for n, shown, which in lists for _ in range(n)]
    found = labels_from_clicks(write(tmp_path / "log.jsonl", log))
    seen = {label.chunk_id: label for label in found}
    third = found.model.positions[2].examination
    a, b = (seen[name].clicks for name in "ab")
    assert third is not None
    assert a is not None
    assert b is not None
    assert (a.shown, a.clicked, b.shown, b.clicked) == (200, 50, 100, 20)
    assert seen["b"].grade is None
    for number in (third, a.attraction, b.attraction, b.low, b.high):
        assert f"{number:.2f}" in page
