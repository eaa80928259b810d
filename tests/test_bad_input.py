"""What must be refused: always with a KaratError that says where, what was expected, what was found, what to do."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import karat
from karat.errors import ConfigError, KaratError
from karat.results.evaluate import evaluate_all
from karat.results.save import saved_form

pytestmark = pytest.mark.usefixtures("reader")

GOLD = {"q1": ["a"]}
RUN = {"q1": ["a", "b"]}
GOOD_LINE = '{"query_id":"q1","topk":[{"chunk_id":"a","score":1}]}\n'
GOOD_ENTRY = '{"query_id":"q1","gold":["a"]}\n'


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def refused(call: Callable[[], object], code: str | None = None, *named: str) -> KaratError:
    """The error of the call, which must be ours, short, with this code, and name all these files, ids and values."""
    with pytest.raises(KaratError) as caught:
        call()
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert len(message) < 1500, "nobody reads that"
    assert "\x00" not in message
    assert "np.float64" not in message
    assert code is None or caught.value.code == code, message
    for part in named:
        assert part in message
    return caught.value


def refused_run(path: Path, code: str | None = None, *named: str) -> KaratError:
    return refused(lambda: evaluate_all(path, GOLD), code, str(path), *named)


def refused_gold(path: Path, code: str | None = None, *named: str) -> KaratError:
    return refused(lambda: karat.evaluate(RUN, path), code, str(path), *named)


# A line of a run log


@pytest.mark.parametrize(
    ("line", "field", "code", "got"),
    [
        ('{"query_id": oops}', None, "not-json", '{"query_id": oops}'),
        ("not json at all", None, "not-json", "not json at all"),
        ("[1, 2]", None, "wrong-type", "[1, 2]"),
        ("5", None, "wrong-type", "5"),
        ('"text"', None, "wrong-type", "'text'"),
        ("null", None, "wrong-type", "null"),
        ('{"query_id":"q2","topk":["a"]} trailing', None, "not-json", '{"query_id":"q2","topk":["a"]} trailing'),
        ('{"query_id":"q2"}', "topk", "missing-field", None),
        ('{"topk":["a"]}', "query_id", "missing-field", None),
        ('{"query_id":"q2","topk":5}', "topk", "wrong-type", "5"),
        ('{"query_id":"q2","topk":"a"}', "topk", "wrong-type", "'a'"),
        ('{"query_id":"q2","topk":null}', "topk", "wrong-type", "null"),
        ('{"query_id":"q2","topk":{"a":1}}', "topk", "wrong-type", "{'a': 1}"),
        ('{"query_id":1.5,"topk":["a"]}', "query_id", "wrong-type", "1.5"),
        ('{"query_id":["q2"],"topk":["a"]}', "query_id", "wrong-type", "['q2']"),
        ('{"query_id":"q2","topk":["a",1.5]}', "topk[1]", "wrong-type", "1.5"),
        ('{"query_id":"q2","topk":["a",null]}', "topk[1]", "wrong-type", "null"),
        ('{"query_id":"q2","topk":["a",["b",1]]}', "topk[1]", "wrong-type", "['b', 1]"),
        ('{"query_id":"q2","topk":["a",{"score":1}]}', "topk[1].chunk_id", "missing-field", None),
        ('{"query_id":"q2","topk":["a",{}]}', "topk[1].chunk_id", "missing-field", None),
        ('{"query_id":"q2","topk":["a",""]}', "topk[1].chunk_id", "empty-id", None),
        ('{"query_id":"q2","topk":[{"chunk_id":"","score":1}]}', "topk[0].chunk_id", "empty-id", None),
        ('{"query_id":"q2","topk":[{"chunk_id":"","text":"t"}]}', "topk[0].chunk_id", "empty-id", None),
        ('{"query_id":"q2","topk":[{"chunk_id":true}]}', "topk[0].chunk_id", "wrong-type", "True"),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","score":"high"}]}', "topk[0].score", "wrong-type", "'high'"),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","score":true}]}', "topk[0].score", "wrong-type", "True"),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","rank":1.5}]}', "topk[0].rank", "wrong-type", "1.5"),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","rank":"1st"}]}', "topk[0].rank", "wrong-type", "'1st'"),
        ('{"query_id":"q2","topk":["a"],"latency_ms":true}', "latency_ms", "wrong-type", "True"),
        ('{"query_id":"q2","topk":["a"],"latency_ms":{"x":"fast"}}', "latency_ms[x]", "wrong-type", "'fast'"),
        ('{"query_id":"q2","topk":["a"],"usage":5}', "usage", "wrong-type", "5"),
        ('{"query_id":"q2","topk":["a"],"usage":{"model":"m"}}', "usage", "wrong-type", "{'model': 'm'}"),
        ('{"query_id":"q2","topk":["a"],"usage":["m"]}', "usage[0]", "wrong-type", "'m'"),
        (
            '{"query_id":"q2","topk":["a"],"usage":[{"prompt_tokens":-5}]}',
            *("usage[0].prompt_tokens", "bad-value", "-5"),
        ),
        (
            '{"query_id":"q2","topk":["a"],"usage":[{"completion_tokens":1.5}]}',
            *("usage[0].completion_tokens", "wrong-type", "1.5"),
        ),
        ('{"query_id":"q2","topk":["a"],"usage":[{"calls":"two"}]}', "usage[0].calls", "wrong-type", "'two'"),
        ('{"query_id":"q2","topk":["a"],"usage":[{"model":5}]}', "usage[0].model", "wrong-type", "5"),
        ('{"query_id":"q2","topk":["a"],"usage":[{"calls":1e99}]}', "usage[0].calls", "wrong-type", "1e+99"),
        ('{"query_id":"q2","topk":["a"],"latency_ms":{"x":-1}}', "latency_ms.x", "bad-value", "-1.0"),
        ('{"query_id":"q2","topk":["a"],"entities":["a",{}]}', "entities[1].id", "missing-field", None),
        ('{"query_id":"q2","topk":["a"],"system":5}', "system", "wrong-type", "5"),
    ],
)
def test_a_bad_line_of_a_run_log(tmp_path: Path, line: str, field: str | None, code: str, got: str | None) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE + "\n" + line + "\n")
    error = refused_run(path, code)
    assert (error.file, error.line, error.field) == (str(path), 3, field)
    assert f"{path}:3: " in str(error)
    assert (None if error.got is None else str(error.got)) == got
    assert code != "empty-id" or error.hint


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400], ids=lambda n: n[:9]
)
def test_scores_that_are_not_finite(tmp_path: Path, number: str) -> None:
    line = f'{{"query_id":"q2","topk":["a",{{"chunk_id":"b","score":{number}}}]}}\n'
    path = write(tmp_path / "run.jsonl", GOOD_LINE + line)
    error = refused_run(path, "bad-value")
    assert (error.file, error.line) == (str(path), 2)
    assert error.expected is not None
    if not number.endswith(("NaN", "Infinity")):  # those are no JSON: the parser does not get as far as the field
        assert error.field == "topk[1].score"
        assert "got" in str(error)
    else:
        assert error.hint is not None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 10**400], ids=lambda n: str(n)[:9])
def test_scores_in_memory_that_are_not_finite(number: float) -> None:
    run = [{"query_id": "q1", "topk": ["a", {"chunk_id": "b", "score": number}]}]
    error = refused(lambda: karat.evaluate(run, GOLD), "bad-value", "got " + str(number)[:9])
    assert error.field == "topk[1].score"


@pytest.mark.parametrize("rank", [10**400, -(10**400)], ids=lambda n: str(n)[:9])
def test_ranks_beyond_any_list(tmp_path: Path, rank: int) -> None:
    path = write(tmp_path / "run.jsonl", f'{{"query_id":"q1","topk":[{{"chunk_id":"a","rank":{rank}}}]}}\n')
    error = refused_run(path)
    assert (error.line, error.field) == (1, "topk[0].rank")


def test_the_same_query_twice(tmp_path: Path) -> None:
    path = write(
        tmp_path / "run.jsonl", GOOD_LINE + '{"query_id":"q2","topk":["a"]}\n' + GOOD_LINE.replace("{", "{ ", 1)
    )
    error = refused_run(path, "duplicate-query", "(line 1)")
    assert (error.line, error.query) == (3, "q1")
    assert error.hint


def test_the_same_system_and_query_twice_far_apart(tmp_path: Path) -> None:
    lines = [
        json.dumps({"query_id": f"q{i}", "system": s, "topk": ["a"], "note": "x" * 300})
        for s in ("one", "two")
        for i in range(1500)
    ]
    path = write(tmp_path / "run.jsonl", "\n".join([*lines, lines[1501].replace("{", "{ ", 1)]))
    error = refused_run(path, "duplicate-query", "'two'", "(line 1502)")
    assert (error.line, error.query) == (3001, "q1")


@pytest.mark.parametrize("ms", [-1, -0.001, 1e999])
def test_a_latency_that_cannot_be(ms: float) -> None:
    run = [{"query_id": "q1", "topk": ["a"], "latency_ms": {"retrieve": 5, "rerank": ms}}]
    error = refused(lambda: karat.evaluate(run, GOLD), "bad-value")
    assert (error.field, error.query, error.line, error.got) == ("latency_ms.rerank", "q1", 1, ms)


# An entry of a gold set


@pytest.mark.parametrize(
    ("entry", "field", "code", "got"),
    [
        ({"query_id": "q2", "gold": 5}, "gold", "wrong-type", "5"),
        ({"query_id": "q2", "gold": "a"}, "gold", "wrong-type", "'a'"),
        ({"query_id": "q2", "gold": [1.5]}, "gold[0]", "wrong-type", "1.5"),
        ({"query_id": "q2", "gold": [None]}, "gold[0]", "wrong-type", "null"),
        ({"query_id": "q2", "gold": [{"grade": 1}]}, "gold[0].chunk_id", "missing-field", None),
        ({"query_id": "q2", "gold": ["a", {"chunk_id": ""}]}, "gold[1].chunk_id", "empty-id", None),
        ({"query_id": "q2", "gold": [{"doc_id": "", "quote": "x"}]}, "gold[0].doc_id", "empty-id", None),
        ({"query_id": "q2", "gold": ["a", ""]}, "gold[1]", "empty-id", None),
        ({"query_id": "q2", "gold": {"a": 2, "": 1}}, "gold[1]", "empty-id", None),
        ({"query_id": "q2", "gold": {"a": "good"}}, "gold[a]", "wrong-type", "'good'"),
        ({"query_id": "q2", "gold": {"a": None}}, "gold[a]", "wrong-type", "null"),
        ({"query_id": "q2", "gold": {"a": True}}, "gold[a]", "wrong-type", "True"),
        ({"query_id": "q2", "gold": [{"chunk_id": "a", "grade": "2"}]}, "gold[0].grade", "wrong-type", "'2'"),
        ({"query_id": "q2", "gold": {"a": 10**400}}, "gold[...]", "bad-value", None),
        ({"gold": ["a"]}, "query_id", "missing-field", None),
        ({"query_id": "q2"}, "gold", "nothing-to-find", None),
        ({"query_id": "q2", "topic": "x"}, "gold", "nothing-to-find", None),
        ({"query_id": "q2", "gold": ["a"], "k": 0}, "k", "bad-value", "0"),
        ({"query_id": "q2", "gold": ["a"], "k": -5}, "k", "bad-value", "-5"),
        ({"query_id": "q2", "gold": ["a"], "k": 2.5}, "k", "wrong-type", "2.5"),
        ({"query_id": "q2", "gold": ["a"], "k": 2**70}, "k", "bad-value", "1180591620717411303424"),
        ({"query_id": "q2", "gold": ["a"], "evidence": 5}, "evidence", "wrong-type", "5"),
        ({"query_id": "q2", "gold": ["a"], "negatives": "n"}, "negatives", "wrong-type", "'n'"),
        ({"query_id": "q2", "gold": ["a"], "tags": "x"}, "tags", "wrong-type", "'x'"),
        ({"query_id": "q2", "gold": ["a"], "tags": [["x"]]}, "tags[0]", "wrong-type", "['x']"),
        ({"query_id": "q2", "no_answer": "yes"}, "no_answer", "wrong-type", "'yes'"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_a_bad_entry_of_a_gold_set(
    tmp_path: Path, entry: dict[str, Any], field: str, code: str, got: str | None
) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + json.dumps(entry) + "\n")
    error = refused_gold(path, code)
    assert (error.file, error.line, error.field) == (str(path), 2, field)
    assert got is None or str(error.got) == got
    assert code != "empty-id" or error.hint


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_grades_that_are_not_finite(tmp_path: Path, number: str) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + f'{{"query_id":"q2","gold":{{"a":{number}}}}}\n')
    assert refused_gold(path, "bad-value").line == 2


@pytest.mark.parametrize("number", [".nan", ".inf"])
def test_grades_in_yaml_that_are_not_finite(tmp_path: Path, number: str) -> None:
    path = write(tmp_path / "gold.yaml", f"- query_id: q1\n  gold: [a]\n- query_id: q2\n  gold: {{a: {number}}}\n")
    error = refused_gold(path, "bad-value", "'a'")
    assert (error.line, error.query, str(error.got)) == (3, "q2", number[1:])


def test_no_answer_and_relevant_gold(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + '{"query_id":"q2","gold":["a"],"no_answer":true}\n')
    error = refused_gold(path, "contradiction", "no_answer")
    assert (error.line, error.query) == (2, "q2")
    assert error.hint


def test_no_answer_and_relevant_gold_of_an_entry_without_id(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.jsonl", '{"query":"what?","gold":["a"],"no_answer":true}\n')
    assert refused_gold(path, "contradiction").query == "what?"


def test_two_grades_for_one_item(tmp_path: Path) -> None:
    items = [{"chunk_id": "a", "grade": 1}, {"chunk_id": "b"}, {"chunk_id": "a", "grade": 2}]
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + json.dumps({"query_id": "q2", "gold": items}))
    error = refused_gold(path, "contradiction", "'a'")
    assert (error.line, error.query, error.got) == (2, "q2", 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gold.csv", "query_id,chunk_id,grade\nq1,a,1\nq1,a,2\n"),
        ("qrels", "q1 0 a 1\nq1 0 a 2\n"),
    ],
)
def test_two_grades_for_one_item_in_other_formats(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path / name, text)
    assert refused_gold(path, "contradiction", "'a'", "got 2").query == "q1"


def test_a_query_twice_in_gold(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + '{"query_id":"q2","gold":["a"]}\n' + GOOD_ENTRY)
    error = refused_gold(path, "duplicate-query", "(line 1)")
    assert (error.line, error.query) == (3, "q1")
    assert error.hint


# Whole files


@pytest.mark.parametrize("data", [b"", b"\n", b"  \n\t\n\r\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "file", data)
    refused_run(path, "empty-file")
    refused_gold(path, "empty-file")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02" * 100,
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"PK\x03\x04\x14\x00\x00\x00",
        GOOD_LINE.encode("utf-16"),
    ],
    ids=["bytes", "png", "zip", "utf-16"],
)
def test_a_binary_file(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "file", data)
    refused_run(path, "binary-file")
    refused_gold(path, "binary-file")


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1" + b"x" * 100, b"PAR1" + b"\x00" * 100 + b"\x10\x00\x00\x00PAR1"])
def test_a_broken_parquet_file(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "file.parquet", data)
    refused_run(path, "unreadable-table")
    refused_gold(path, "unreadable-table")


def test_no_overlap_of_run_and_gold(tmp_path: Path) -> None:
    run = write(tmp_path / "run.jsonl", '{"query_id":"Q-001","topk":["a"]}\n')
    gold = write(tmp_path / "gold.jsonl", '{"query_id":"q1","gold":["a"]}\n')
    error = refused(lambda: karat.evaluate(run, gold), "no-overlap", str(run), str(gold))
    assert error.hint is not None
    assert all(query in error.hint for query in ("'q1'", "'Q-001'"))


def test_no_overlap_of_one_of_two_systems() -> None:
    run = [{"query_id": "q1", "system": "A", "topk": ["a"]}, {"query_id": "x", "system": "B", "topk": ["a"]}]
    refused(lambda: evaluate_all(run, GOLD), "no-overlap", "B", "'x'")


def test_empty_ids_in_memory_and_in_a_corpus(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus.jsonl", '{"id":"a","text":"t"}\n{"chunk_id":"","text":"t"}\n')
    errors = [
        refused(lambda: karat.evaluate({"q1": {"a": 1.0, "": 0.5}}, GOLD), "empty-id"),
        refused(lambda: karat.evaluate({"q1": ["a", ""]}, GOLD), "empty-id"),
        refused(lambda: karat.evaluate(RUN, {"q1": {"a": 1, "": 1}}), "empty-id"),
        refused(lambda: karat.evaluate(RUN, GOLD, corpus=corpus), "empty-id", str(corpus)),
    ]
    places = [(None, "q1", None), (1, "q1", "topk[1].chunk_id"), (None, "q1", "gold[1]"), (2, None, "id")]
    assert [(e.line, e.query, e.field) for e in errors] == places
    assert all(e.hint for e in errors)


@pytest.mark.parametrize("empty", [[], {}])
def test_nothing_in_memory(empty: Any) -> None:
    assert refused(lambda: karat.evaluate(empty, GOLD), "no-queries").hint
    assert refused(lambda: karat.evaluate(RUN, empty), "no-queries").hint


@pytest.mark.parametrize("thing", [5, None, 1.5, b"bytes", object(), iter([])], ids=lambda t: type(t).__name__)
def test_things_that_are_no_input(thing: Any) -> None:
    name = type(thing).__name__
    assert refused(lambda: karat.evaluate(thing, GOLD), "unreadable-object", name).expected
    if thing is None:
        assert refused(lambda: karat.evaluate(RUN, thing), "no-gold").hint
        return
    assert refused(lambda: karat.evaluate(RUN, thing), "unreadable-object", name).expected


@pytest.mark.parametrize("record", [5, None, "text", ["q1", ["a"]], {1: 2}], ids=repr)
def test_records_in_memory_that_are_none(record: Any) -> None:
    assert refused(lambda: karat.evaluate([RECORD, record], GOLD), "wrong-type").line == 2
    assert refused(lambda: karat.evaluate(RUN, [ENTRY, record]), "wrong-type").line == 2


RECORD = {"query_id": "q1", "topk": ["a"]}
ENTRY = {"query_id": "q1", "gold": ["a"]}


@pytest.mark.parametrize("at", [5, 20, 40, len(GOOD_LINE) - 2])
def test_a_truncated_last_line(tmp_path: Path, at: int) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE + GOOD_LINE.replace("q1", "q2")[:at])
    error = refused_run(path, "cut-off")
    assert error.line == 2
    assert error.hint


@pytest.mark.parametrize("at", [12, 24])
def test_a_truncated_last_line_of_gold(tmp_path: Path, at: int) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + GOOD_ENTRY.replace("q1", "q2")[:at])
    error = refused_gold(path, "cut-off")
    assert error.line == 2
    assert error.hint


@pytest.mark.parametrize("at", [24, 25, 40])
def test_a_truncated_first_line(tmp_path: Path, at: int) -> None:
    """It may also be the start of one value over several lines, so that the second line can be the one named."""
    path = write(tmp_path / "run.jsonl", GOOD_LINE[:at] + "\n" + GOOD_LINE.replace("q1", "q2"))
    error = refused_run(path)
    assert error.code in ("not-json", "cut-off")
    assert error.line in (1, 2)


def test_a_truncated_json_document(tmp_path: Path) -> None:
    text = json.dumps([ENTRY, {"query_id": "q2", "gold": ["b"]}], indent=1)
    error = refused_gold(write(tmp_path / "gold.json", text[:-20]), "not-json")
    assert error.line is not None


def test_a_truncated_trec_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run", "q1 Q0 a 1 2.0 tag\nq1 Q0 b 2")
    error = refused_run(path, "bad-row")
    assert (error.line, error.got) == (2, "4 columns")


@pytest.mark.parametrize(("line", "got"), [("q1", "1 column"), ("q1 Q0 b", "3 columns"), ("q1 Q0 b 2", "4 columns")])
def test_the_wrong_number_of_trec_columns(tmp_path: Path, line: str, got: str) -> None:
    path = write(tmp_path / "run", f"q1 Q0 a 1 2.0 tag\n\n{line}\n")
    error = refused_run(path, "bad-row")
    assert (error.line, error.got) == (3, got)


@pytest.mark.parametrize(("line", "got"), [("q1 0 b", 3), ("q1 0 b 1 x", 5)])
def test_the_wrong_number_of_qrels_columns(tmp_path: Path, line: str, got: int) -> None:
    path = write(tmp_path / "qrels", f"q1 0 a 1\n\n{line}\n")
    error = refused_gold(path, "bad-row")
    assert (error.line, error.got) == (3, f"{got} columns")


def test_a_csv_without_a_query_column(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", "question_no,chunk_id,score\nq1,a,1\n")
    assert refused_run(path, "unrecognised", "question_no,chunk_id,score").hint
    error = refused(
        lambda: karat.evaluate(karat.read_run(path, format="table"), GOLD), "missing-column", "query_id", "qid"
    )
    assert (error.file, error.got) == (str(path), "question_no, chunk_id, score")
    assert error.hint


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        (GOOD_LINE, "q2 Q0 b 1 2.0 tag\n", 2),
        (GOOD_LINE, GOOD_ENTRY.replace("q1", "q2"), 2),
        (GOOD_LINE, "query_id,chunk_id,score\nq2,b,1\n", 2),
        (GOOD_LINE, '{"id":"q2","actualOutput":["a"]}\n', 2),
        ('{"id":"q1","actualOutput":["a"]}\n', GOOD_LINE.replace("q1", "q2"), 2),
        ("q1 Q0 a 1 2.0 tag\n", GOOD_LINE.replace("q1", "q2"), 2),
        ("q1 Q0 a 1 2.0 tag\n", "q2 0 b 1\n", 2),
        ("query_id,chunk_id,score\nq1,a,1\n", "q2 Q0 b 1 2.0 tag\n", 3),
        ("query_id,chunk_id,score\nq1,a,1\n", GOOD_LINE.replace("q1", "q2"), 3),
    ],
    ids=[
        "log to trec",
        "log to gold",
        "log to csv",
        "log to samples",
        "samples to log",
        "trec to log",
        "trec to qrels",
        "csv to trec",
        "csv to log",
    ],
)
def test_a_run_that_changes_its_shape_half_way(tmp_path: Path, first: str, second: str, line: int) -> None:
    path = write(tmp_path / "run", first + second)
    error = refused_run(path)
    assert (error.file, error.line) == (str(path), line)


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        (GOOD_ENTRY, GOOD_LINE.replace("q1", "q2"), [2]),
        (GOOD_ENTRY, "q2 0 a 1\n", [2]),
        (GOOD_ENTRY, "- query_id: q2\n  gold: [a]\n", [2]),
        ("q1 0 a 1\n", GOOD_ENTRY.replace("q1", "q2"), [2]),
        ("q1 0 a 1\n", "q2 Q0 a 1 2.0 tag\n", [2]),
        ("- query_id: q1\n  gold: [a]\n", GOOD_ENTRY.replace("q1", "q2"), [3, 4]),  # or where YAML gives up
        ("query_id,chunk_id,grade\nq1,a,1\n", GOOD_ENTRY.replace("q1", "q2"), [3]),
    ],
    ids=[
        "gold to log",
        "gold to qrels",
        "gold to yaml",
        "qrels to gold",
        "qrels to trec",
        "yaml to json",
        "csv",
    ],
)
def test_gold_that_changes_its_shape_half_way(tmp_path: Path, first: str, second: str, lines: list[int]) -> None:
    path = write(tmp_path / "gold", first + second)
    error = refused_gold(path)
    assert error.file == str(path)
    assert error.line in lines


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("run", GOOD_LINE.replace('"a"', '"§"')),
        ("run", GOOD_LINE + '{"query_id":"q2","topk":["§"]}\n'),
        ("run", GOOD_LINE + '{"query_id":"q2","topk":["a"],"note":"§"}\n'),
        ("run", '{"§": {"a": 1}}'),
        ("run", "q1 Q0 § 1 2.0 tag\n"),
        ("run", "query_id,chunk_id\nq1,§\n"),
        ("run", '{"id":"q1","actualOutput":["§"]}\n'),
        ("gold", GOOD_ENTRY.replace('"a"', '"§"')),
        ("gold", GOOD_ENTRY + '{"query_id":"q2","gold":["§"]}\n'),
        ("gold", "- query_id: q1\n  gold: [§]\n"),
        ("gold", "q1 0 § 1\n"),
        ("gold", "query_id,chunk_id\nq1,§\n"),
        ("gold", '{"q1": ["§"]}\n'),
        ("gold", '{"samples":[{"id":"q1","expected_output":["§"]}]}'),
        ("gold", "samples:\n- id: q1\n  expected_output: [§]\n"),
    ],
)
def test_files_that_are_not_utf8(tmp_path: Path, kind: str, text: str) -> None:
    path = write(tmp_path / "file", text.encode("latin-1"))
    error = (refused_run if kind == "run" else refused_gold)(path)
    assert error.code in ("not-utf8", "not-yaml", "not-json", "bad-row")
    assert "utf-8" in str(error).lower()


@pytest.mark.parametrize("keep", [5, 12, 30, -8, -1])
def test_gzip_that_is_cut_off(tmp_path: Path, keep: int) -> None:
    lines = "".join(GOOD_LINE.replace("q1", f"q{i}") for i in range(200)).encode()
    path = write(tmp_path / "run.jsonl.gz", gzip.compress(lines)[:keep])
    refused_run(path, "unreadable")


def test_a_directory(tmp_path: Path) -> None:
    refused_run(tmp_path, "unrecognised")
    refused_gold(tmp_path, "unrecognised")


@pytest.mark.parametrize("name", ["run-log", "trec-run", "table", "dict", "samples"])
def test_a_directory_with_a_named_format(tmp_path: Path, name: str) -> None:
    refused(lambda: karat.evaluate(karat.read_run(tmp_path, format=name), GOLD), None, str(tmp_path))


@pytest.mark.parametrize("name", ["gold", "trec-qrels", "table", "dict", "samples", "beir"])
def test_a_directory_with_a_named_gold_format(tmp_path: Path, name: str) -> None:
    refused(lambda: karat.read_gold(tmp_path, format=name), None, str(tmp_path))


def test_a_missing_file_with_a_near_name(tmp_path: Path) -> None:
    write(tmp_path / "baseline.jsonl", GOOD_LINE)
    for error in (
        refused_run(tmp_path / "baselin.jsonl", "no-such-file"),
        refused_gold(tmp_path / "Baseline.json", "no-such-file"),
    ):
        assert "baseline.jsonl" in str(error.hint)


def test_a_missing_file_in_a_missing_folder(tmp_path: Path) -> None:
    assert str(tmp_path / "no") in str(refused_run(tmp_path / "no" / "run.jsonl", "no-such-file").hint)


def test_the_text_of_a_file_given_as_its_path() -> None:
    """A mistake that is easily made: the content instead of the name."""
    for text in (GOOD_LINE * 200, "q1 0 a 1\n" * 1000, "x" * 5000):
        refused(lambda text=text: karat.evaluate(text, GOLD))
        refused(lambda text=text: karat.evaluate(RUN, text))


def test_a_file_under_a_file(tmp_path: Path) -> None:
    refused_run(write(tmp_path / "run.jsonl", GOOD_LINE) / "run.jsonl")


@pytest.mark.parametrize("k", [0, -1])
def test_a_cutoff_that_is_none(k: int) -> None:
    assert refused(lambda: karat.evaluate(RUN, GOLD, k=k), "bad-setting").got == k


@pytest.mark.parametrize("metric", ["recall@0", "recall@-1", "recall@x", "ndcg@99999999999999999999999"])
def test_a_cutoff_in_a_name_that_is_none(metric: str) -> None:
    with pytest.raises(ConfigError, match=metric):
        karat.evaluate(RUN, GOLD, [metric])


@pytest.mark.parametrize("size", [0, -10])
def test_a_corpus_size_that_is_none(size: int) -> None:
    assert refused(lambda: karat.evaluate(RUN, GOLD, corpus_size=size), "bad-setting").got == size


def test_a_threshold_that_is_none() -> None:
    refused(lambda: karat.evaluate({"q1": {"a": 1.0}}, GOLD, min_score=float("nan")), "bad-setting", "nan")


@pytest.mark.parametrize("name", ["treck", "json", "", "RUN-LOG "])
def test_an_unknown_name_of_a_format(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE)
    assert refused(lambda: karat.read_run(path, format=name), "unknown-format").hint
    assert refused(lambda: karat.read_gold(path, format=name), "unknown-format").hint


def test_a_file_read_in_a_named_format_that_it_is_not_of(tmp_path: Path) -> None:
    texts = [
        GOOD_LINE,
        GOOD_ENTRY,
        "q1 Q0 a 1 1 t\n",
        "q1 0 a 1\n",
        "a,b\n1,2\n",
        "samples: [1]\n",
        "[1]\n",
        "{}\n",
        "5\n",
    ]
    for text in texts:
        path = write(tmp_path / "file", text)
        for name in ("run-log", "trec-run", "table", "dict", "samples"):
            outcome(lambda name=name, path=path: karat.evaluate(karat.read_run(path, format=name), GOLD))
        for name in ("gold", "trec-qrels", "table", "dict", "samples"):
            outcome(lambda name=name, path=path: karat.evaluate(RUN, karat.read_gold(path, format=name)))
    path = write(tmp_path / "file", "q1 0 a 1\n")
    refused(lambda: karat.evaluate(karat.read_run(path, format="run-log"), GOLD), None, str(path))
    refused(lambda: karat.read_gold(path, format="gold"), None, str(path))


def outcome(call: Callable[[], object]) -> None:
    """A result or a KaratError; anything else goes through and fails the test."""
    with contextlib.suppress(KaratError):
        call()


HALF = "\ud800"  # half of a surrogate pair: text for Python, and for no file


@pytest.mark.parametrize(
    ("run", "gold"),
    [
        ({HALF: ["a"], "q1": ["a"]}, GOLD),
        ({"q1": [HALF, "a"]}, GOLD),
        ({"q1": {HALF: 1.0, "a": 1.0, "b": 1.0}}, GOLD),
        ([{"query_id": HALF, "topk": ["a"]}, {"query_id": "q1", "topk": ["a"]}], GOLD),
        ([{"query_id": "q1", "topk": [HALF]}], GOLD),
        ([{"query_id": "q1", "topk": ["a"], HALF: HALF}], GOLD),
        ([HALF], GOLD),
        (RUN, {"q1": ["a"], HALF: ["b"]}),
        (RUN, {"q1": [HALF]}),
        (RUN, [{"query_id": "q1", "gold": [HALF], "topic": HALF}]),
        (RUN, [{"query_id": HALF, "gold": ["a"]}]),
        (RUN, [HALF]),
    ],
)
def test_half_characters_never_break_anything(run: Any, gold: Any) -> None:
    def whole_way() -> None:
        msgspec.json.encode(saved_form(karat.evaluate(run, gold)))

    outcome(whole_way)


# Very long, very deep, very many


def long_file(path: Path, head: str, tail: str) -> Path:
    """A line of 32 MB, written in pieces."""
    piece = b"y" * (1 << 20)
    with path.open("wb") as out:
        out.write(head.encode())
        for _ in range(32):
            out.write(piece)
        out.write(tail.encode())
    return path


@pytest.mark.parametrize(
    ("kind", "head", "tail", "line"),
    [
        ("run", GOOD_LINE + '{"query_id":"q2","note":"', '","topk":7}\n', 2),
        ("run", GOOD_LINE + '{"query_id":"q2","topk":["', "", 2),
        ("run", "q1 Q0 a 1 1.0 t\nq1 Q0 b 2 ", "\n", 2),
        ("run", "query_id,chunk_id,score\nq1,a,", "\n", 2),
        ("run", "", "", None),
        ("gold", GOOD_ENTRY + '{"query_id":"q2","gold":{"a":"', '"}}\n', 2),
        ("gold", "- query_id: q1\n  gold: ", "\n", 1),
    ],
    ids=["type", "cut off", "trec", "csv", "nothing", "grade", "yaml"],
)
def test_a_line_of_32_mb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, head: str, tail: str, line: int | None
) -> None:
    monkeypatch.setenv("KARAT_MAX_LINE", "64M")
    path = long_file(tmp_path / "file", head, tail)
    try:
        error = (refused_run if kind == "run" else refused_gold)(path)
        assert error.line == line
    finally:
        path.unlink()  # pytest keeps what is left here for a while


def test_a_good_line_of_32_mb_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_MAX_LINE", "64M")
    path = long_file(tmp_path / "run", '{"query_id":"q1","topk":["x","a"],"note":"', '"}\n')
    try:
        assert karat.evaluate(path, GOLD, ["mrr"]).means == {"mrr": 0.5}
    finally:
        path.unlink()


DEEP = 100_000
NESTED = "[" * DEEP + "]" * DEEP
OBJECTS = '{"a":' * DEEP + "1" + "}" * DEEP


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("run", NESTED),
        ("run", OBJECTS),
        ("run", '{"query_id":"q1","topk":' + NESTED + "}\n"),
        ("run", '{"query_id":"q1","topk":["a"],"note":' + NESTED + "}\n"),
        ("run", GOOD_LINE + '{"query_id":"q2","topk":["a"],"note":' + OBJECTS + "}\n"),
        ("run", '{"q1":' + NESTED + "}"),
        ("run", '{"id":"q1","actualOutput":' + NESTED + "}\n"),
        ("run", '{"id":"q1","actualOutput":"' + NESTED + '"}\n'),
        ("gold", NESTED),
        ("gold", OBJECTS),
        ("gold", '{"query_id":"q1","gold":' + NESTED + "}\n"),
        ("gold", GOOD_ENTRY + '{"query_id":"q2","gold":["a"],"note":' + NESTED + "}\n"),
        ("gold", '[{"query_id":"q1","gold":' + NESTED + "}]\n"),
        ("gold", '{"q1":' + NESTED + "}"),
        ("gold", '{"samples":[{"id":"q1","expected_output":' + NESTED + "}]}"),
        ("gold", '{"samples":[{"id":"q1","expected_output":"' + NESTED + '"}]}'),
    ],
    ids=[
        "run",
        "run of objects",
        "hits",
        "unknown field",
        "unknown field of the second line",
        "dict",
        "output",
        "output in a string",
        "gold",
        "gold of objects",
        "items",
        "tag",
        "list of entries",
        "dict of gold",
        "expected",
        "expected in a string",
    ],
)
def test_json_with_100_000_brackets(tmp_path: Path, kind: str, text: str) -> None:
    path = write(tmp_path / "file", text)
    if kind == "run":
        refused_run(path)
    else:
        refused_gold(path)


def test_records_in_memory_that_are_nested_very_deeply() -> None:
    deep: list[Any] = []
    for _ in range(DEEP):
        deep = [deep]
    refused(lambda: karat.evaluate([{"query_id": "q1", "topk": deep}], GOLD))
    refused(lambda: karat.evaluate({"q1": [deep]}, GOLD))
    refused(lambda: karat.evaluate(RUN, [{"query_id": "q1", "gold": deep}]))
    refused(lambda: karat.evaluate(RUN, {"q1": [deep]}))


GUARDED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
import karat
try:
    karat.evaluate({"q1": ["a"]}, sys.argv[1], ["recall@5"])
except karat.KaratError as error:
    print("refused:", error)
else:
    print("accepted")
"""


def guarded(path: Path) -> str:
    """What becomes of a gold file in a process of its own: YAML's parser can crash, and memory is limited."""
    done = subprocess.run([sys.executable, "-c", GUARDED, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-300:]}"
    return done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "- query_id: q1\n  gold: " + NESTED + "\n",
        "- query_id: q1\n  gold: " + "{a: " * DEEP + "1" + "}" * DEEP + "\n",
        "- query_id: q1\n  gold: [a]\n- " + "- " * DEEP + "x\n",
        "samples:\n- id: q1\n  expected_output: " + NESTED + "\n",
    ],
    ids=["lists", "mappings", "dashes", "samples"],
)
def test_yaml_with_100_000_brackets(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "gold.yaml", text)
    said = guarded(path)
    assert said.startswith(f"refused: {path}")
    assert len(said) < 1500


@pytest.mark.parametrize("field", ["gold", "entities", "note", "query_id", "evidence"])
def test_yaml_whose_aliases_explode(tmp_path: Path, field: str) -> None:
    """A few lines that stand for ten thousand million values."""
    lines = ["defs:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    entry = {"query_id": "q1", "gold": "[a]", field: "*a9"}
    lines += ["queries:", "- query_id: q0", "  gold: [a]", "-", *(f"  {k}: {v}" for k, v in entry.items())]
    said = guarded(write(tmp_path / "gold.yaml", "\n".join(lines) + "\n"))
    assert len(said) < 1500


def test_yaml_that_holds_itself(tmp_path: Path) -> None:
    for field in ("gold", "entities", "note", "tags"):
        path = write(
            tmp_path / f"{field}.yaml", f"- query_id: q1\n  gold: [a]\n- &me\n  query_id: q2\n  {field}: [*me]\n"
        )
        outcome(lambda path=path: saved_form(karat.evaluate(RUN, path, ["recall@5"])))


def test_a_very_long_id_is_cut_in_messages(tmp_path: Path) -> None:
    query = "q" * 100_000
    path = write(tmp_path / "run.jsonl", (json.dumps({"query_id": query, "topk": ["a"]}) + "\n") * 2)
    refused_run(path)
    refused(lambda: karat.evaluate({query: ["a"]}, GOLD))
    refused(lambda: karat.evaluate(RUN, {query: ["a"]}))
    refused(lambda: karat.evaluate({"q1": {query: "high"}}, GOLD))
    refused(lambda: karat.evaluate(RUN, {"q1": {query: float("nan")}}))
    refused(lambda: karat.evaluate([{"query_id": "q1", "topk": ["a"], "latency_ms": {query: -1}}], GOLD))
    refused(lambda: karat.evaluate([{"query_id": "q1", "system": query, "topk": ["a"]}] * 2, GOLD))
    refused(lambda: karat.evaluate(write(tmp_path / "t", f"q1,{query}\n1,2\n"), GOLD))
    refused(lambda: karat.evaluate(RUN, GOLD, [query]))


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE + '\x1b[31mred {"query_id"\x07\n')
    error = refused_run(path)
    assert "\x1b" not in str(error)
    assert "\x07" not in str(error)
    evil = "q\x1b[2J\x07"
    for call in (
        lambda: karat.evaluate({"q1": {evil: "high"}}, GOLD),
        lambda: karat.evaluate(RUN, {"q1": {evil: "high"}}),
        lambda: karat.evaluate([{"query_id": evil, "topk": 5}], GOLD),
        lambda: karat.evaluate([{"query_id": evil, "topk": ["a"]}] * 2, GOLD),
        lambda: karat.evaluate([{"query_id": "q1", "topk": ["a"], "latency_ms": {evil: -1}}], GOLD),
        lambda: karat.evaluate({evil: ["a"]}, GOLD),
    ):
        assert "\x1b" not in str(refused(call))


def test_a_bad_grade_is_named_by_its_id_without_the_whole_map(tmp_path: Path) -> None:
    grades = {f"doc {i}.html": i for i in range(50)} | {"doc 7.html": "high"}
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"query_id": "q", "gold": grades}) + "\n")
    error = refused(lambda: karat.read_gold(path), "wrong-type")
    assert (error.file, error.line, error.field, error.got) == (str(path), 1, "gold[doc 7.html]", "'high'")
    assert "doc 8.html" not in str(error)
