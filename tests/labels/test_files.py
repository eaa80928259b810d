"""Labels and pool files: what is read, what is refused and how."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from refusals import refused

from karat.errors import ConfigError, InputError
from karat.labels.files import Key, Label, LabelLog, Origin, PoolEntry, read_labels, read_pool, write_pairs

GOOD = {"query_id": "q1", "chunk_id": "a#1", "grade": 2, "annotator": "ann"}


def write(path: Path, *entries: dict[str, Any] | str) -> Path:
    path.write_text("".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in entries))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    labels = [
        Label(query_id="q1", chunk_id="a", grade=0.5, annotator="ann", note="n", time="2025-06-01T10:00:00+00:00"),
        Label(query_id="q1", doc_id="d", grade=None, reason="timeout", annotator="m", kind="judge", model="m-1"),
    ]
    write_pairs(tmp_path / "l.jsonl", labels)
    found = read_labels(tmp_path / "l.jsonl")
    assert msgspec.to_builtins(found.entries) == msgspec.to_builtins(labels)
    assert [place.line for place in found.places] == [1, 2]
    assert found.annotators == ["ann", "m"]
    assert list(found.by_pair()) == [Key("q1", "a")], "what has no grade is missing, not 0"


def test_ids_may_be_numbers_and_unknown_fields_stand_there(tmp_path: Path) -> None:
    found = read_labels(write(tmp_path / "l.jsonl", {**GOOD, "query_id": 7, "chunk_id": 8, "mood": "good"}))
    assert found.entries[0].key == Key("7", "8")


def test_a_document_is_no_chunk_of_the_same_name() -> None:
    chunk = Label(query_id="q", chunk_id="a", grade=1, annotator="x")
    document = Label(query_id="q", doc_id="a", grade=1, annotator="x")
    both = Label(query_id="q", chunk_id="a", doc_id="d", grade=1, annotator="x")
    assert chunk.key == both.key != document.key


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"grade": 3}, "grade", "bad-value"),
        ({"grade": -1}, "grade", "bad-value"),
        ({"grade": "good"}, "grade", "wrong-type"),
        ({"grade": None}, "reason", "missing-field"),
        ({"reason": "timeout"}, "reason", "contradiction"),
        ({"kind": "robot"}, "kind", "bad-value"),
        ({"annotator": ""}, "annotator", "bad-value"),
        ({"chunk_id": None}, "chunk_id", "missing-field"),
        ({"query_id": None}, "query_id", "wrong-type"),
        ({"inclusion_probability": 0}, "inclusion_probability", "bad-value"),
        ({"inclusion_probability": 1.5}, "inclusion_probability", "bad-value"),
    ],
)
def test_bad_lines_are_refused_with_their_place(tmp_path: Path, change: dict[str, Any], field: str, code: str) -> None:
    path = write(tmp_path / "l.jsonl", GOOD, {**GOOD, "chunk_id": "b", **change})
    with refused(code, InputError, file=path, line=2, field=field):
        read_labels(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ann.csv", "query_id,chunk_id,grade\nq1,a,2\nq1,b,0\n"),
        ("x.csv", "qid;chunk;relevance;annotator\nq1;a;2;ann\nq1;b;0;ann\n"),
        ("ann.csv", "query_id;chunk_id;grade\nq1;a;2,0\nq1;b;0,0\n"),
        ("ann.tsv", "query_id\tchunk_id\trating\nq1\ta\t2\nq1\tb\t0\n"),
        ("ann.jsonl", '{"query_id": "q1", "chunk_id": "a", "label": 2}\n{"qid": "q1", "chunk_id": "b", "label": 0}\n'),
        ("ann.json", '[{"query_id": "q1", "chunk_id": "a", "rel": 2}, {"qid": "q1", "chunk_id": "b", "rel": 0}]'),
    ],
)
def test_labels_made_by_hand(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_labels(tmp_path / name)
    assert [(label.key, label.grade, label.annotator) for label in found] == [
        (Key("q1", "a"), 2, "ann"),
        (Key("q1", "b"), 0, "ann"),
    ]


def test_a_table_of_labels_keeps_ids_and_empty_grades(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text('query_id,doc_id,grade,note\n007,a,1,"yes, it is"\n007,b,,\n')
    first, second = read_labels(tmp_path / "l.csv")
    assert (first.key, first.note) == (Key("007", "a", True), "yes, it is")
    assert (second.grade, bool(second.reason)) == (None, True)


@pytest.mark.parametrize(
    ("text", "code", "field", "word"),
    [
        ("query,text,grade\nq1,a,2\n", "missing-field", "query_id", "the columns are query_id"),
        ("query_id,grade\nq1,2\n", "missing-field", "chunk_id", "the columns are query_id"),
        ("query_id,chunk_id,grade\nq1,a,high\n", "wrong-type", "grade", "the columns are query_id"),
        ("query_id,chunk_id,grade\nq1,a,5\n", "bad-value", "grade", "--max-grade 5"),
    ],
)
def test_bad_tables_of_labels_say_what_to_write(tmp_path: Path, text: str, code: str, field: str, word: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    with refused(code, InputError, file=tmp_path / "l.csv", line=2, field=field) as caught:
        read_labels(tmp_path / "l.csv")
    assert word in (caught.value.hint or "")


@pytest.mark.parametrize("field", ["grade", "query_id"])
def test_fields_that_are_needed(tmp_path: Path, field: str) -> None:
    entry = {name: value for name, value in GOOD.items() if name != field}
    with refused("missing-field", InputError, file=tmp_path / "l.jsonl", line=1, field=field):
        read_labels(write(tmp_path / "l.jsonl", entry))


@pytest.mark.parametrize(
    ("text", "code"), [("", "empty-file"), ('{"query_id": "q', "cut-off"), ('{"grade": NaN}', "bad-value")]
)
def test_files_that_are_no_labels(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "l.jsonl").write_text(text)
    with refused(code, InputError):
        read_labels(tmp_path / "l.jsonl")


def test_other_scales_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", {**GOOD, "grade": 3.5})
    assert read_labels(path, highest=4).entries[0].grade == 3.5


def test_two_grades_of_one_annotator_are_refused_with_both_places(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.jsonl", GOOD), write(tmp_path / "b.jsonl", {}, {**GOOD, "grade": 1})
    write(second, {**GOOD, "chunk_id": "b"}, {**GOOD, "grade": 1})
    with refused("contradiction", InputError, file=second, line=2, field="grade", query="q1") as caught:
        read_labels(first, second)
    assert f"{first}:1" in caught.value.what


def test_a_grade_stands_in_for_a_failure_and_repeats_are_counted(tmp_path: Path) -> None:
    failed = {**GOOD, "grade": None, "reason": "timeout"}
    found = read_labels(write(tmp_path / "l.jsonl", failed, GOOD, GOOD, failed))
    assert [label.grade for label in found] == [2.0]
    assert (found.replaced, found.repeated) == (2, 1)


def test_only_those_of_people(tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", GOOD, {**GOOD, "annotator": "m", "kind": "judge", "grade": 0})
    assert read_labels(path, kind="human").annotators == ["ann"]


def test_a_log_goes_on_after_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(json.dumps({**GOOD, "grade": 1}) + '\n{"query_id":"q1","chu')
    with LabelLog(path) as log:
        assert len(log.labels) == 1
        log.add(Label(query_id="q1", chunk_id="b", grade=0, annotator="ann"))
    assert [label.grade for label in read_labels(path)] == [1.0, 0.0]


def test_a_log_keeps_a_whole_last_line_without_its_break(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(json.dumps(GOOD))
    with LabelLog(path) as log:
        log.add(Label(query_id="q1", chunk_id="b", grade=0, annotator="ann"))
        log.drop(1)
    assert path.read_text() == json.dumps(GOOD) + "\n"


def test_one_line_is_taken_back_and_the_others_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    lines = [json.dumps({**GOOD, "annotator": name, "field of mine": 1}) for name in ("ann", "ben", "eve")]
    path.write_text(f"{lines[0]}\n\n{lines[1]}\n{lines[2]}\n")
    path.chmod(0o640)
    with LabelLog(path) as log:
        assert log.drop(1).annotator == "ben"
        with refused("file-in-use", ConfigError):  # the new file is as locked as the old one
            LabelLog(path)
        log.add(Label(query_id="q1", chunk_id="b", grade=0, annotator="ann"))
    assert path.read_text().startswith(f"{lines[0]}\n\n{lines[2]}\n{{")
    assert len(read_labels(path)) == 3
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_no_half_label(tmp_path: Path) -> None:
    """In a process of its own, which may write only so much."""
    script = """if True:
        import resource, sys
        from karat.errors import ConfigError
        from karat.labels.files import LabelLog
        from karat.labels.files import Label
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        with LabelLog(sys.argv[1]) as log:
            for limit in (1000, 80, most):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
                try:
                    log.add(Label(query_id="q", chunk_id=str(limit), grade=0, annotator="ann"))
                except ConfigError as error:
                    sys.stdout.write(f"{error.code} {error}")
    """
    path = tmp_path / "l.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("not-writable ")
    assert "File too large" in done.stdout
    assert [label.chunk_id for label in read_labels(path)] == ["1000", "-1"]


def test_an_undo_that_failed_on_a_full_disk_can_be_tried_again(tmp_path: Path) -> None:
    """Of a label that is not the last line: the file is written again without it, if there is room."""
    script = """if True:
        import resource, sys
        from karat.errors import ConfigError
        from karat.labels.files import Label, LabelLog
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        with LabelLog(sys.argv[1]) as log:
            for name in ("ann", "ben", "cyd"):
                log.add(Label(query_id="q", chunk_id=name, grade=0, annotator=name))
            for limit in (80, 80, most):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
                try:
                    sys.stdout.write(f"{log.drop(0).annotator} ")
                except ConfigError as error:
                    sys.stdout.write(f"{error.code} ")
            assert [label.annotator for label in log.lines] == ["ben", "cyd"]
            log.add(Label(query_id="q", chunk_id="dan", grade=0, annotator="dan"))
    """
    path = tmp_path / "l.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["not-writable", "not-writable", "ann"]
    assert [label.annotator for label in read_labels(path)] == ["ben", "cyd", "dan"]
    assert list(tmp_path.iterdir()) == [path]


def test_labels_that_are_no_lines_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    path.write_text(f"[{json.dumps(GOOD)}]\n")
    with refused("not-a-labels-file", ConfigError):
        LabelLog(path)
    assert path.read_text() == f"[{json.dumps(GOOD)}]\n"


def test_pools_are_read_as_written(tmp_path: Path) -> None:
    entry = PoolEntry(query_id="q", chunk_id="a", query="?", text="t", origin=Origin({"run": 3}, 0.25))
    write_pairs(tmp_path / "p.jsonl", [entry])
    assert msgspec.to_builtins(read_pool(tmp_path / "p.jsonl")) == msgspec.to_builtins([entry])


def test_a_pair_stands_in_a_pool_once(tmp_path: Path) -> None:
    pair = {"query_id": "q", "chunk_id": "a"}
    with refused("duplicate-pair", InputError, file=tmp_path / "p.jsonl", line=2, query="q") as caught:
        read_pool(write(tmp_path / "p.jsonl", pair, pair))
    assert "p.jsonl:1" in caught.value.what
