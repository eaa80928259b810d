"""What must be refused: always with a KaratError that says where, what was expected, what was found, what to do."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import karat
from karat.errors import ConfigError, InputError, KaratError
from karat.results.save import saved_form

GOLD = {"q1": ["a"]}
RUN = {"q1": ["a", "b"]}
GOOD_LINE = '{"query_id":"q1","topk":[{"chunk_id":"a","score":1}]}\n'
GOOD_ENTRY = '{"query_id":"q1","gold":["a"]}\n'


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def refused(call: Callable[[], object], *said: str) -> KaratError:
    """The error of the call, which must be ours, short, and hold all that must be said."""
    with pytest.raises(KaratError) as caught:
        call()
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert len(message) < 1500, "nobody reads that"
    assert "\x00" not in message
    assert "np.float64" not in message
    for part in said:
        assert part in message
    return caught.value


def refused_run(path: Path, *said: str) -> KaratError:
    return refused(lambda: karat.evaluate_all(path, GOLD), str(path), *said)


def refused_gold(path: Path, *said: str) -> KaratError:
    return refused(lambda: karat.evaluate(RUN, path), str(path), *said)


# A line of a run log


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ('{"query_id": oops}', None, ["not JSON", "expected one JSON object a line", '{"query_id": oops}']),
        ("not json at all", None, ["expected one JSON object a line", "got not json at all"]),
        ("[1, 2]", None, ["expected an object", "[1, 2]"]),
        ("5", None, ["expected an object", "5"]),
        ('"text"', None, ["expected an object", "text"]),
        ("null", None, ["expected an object"]),
        ('{"query_id":"q2","topk":["a"]} trailing', None, ["not JSON", "trailing"]),
        ('{"query_id":"q2"}', "topk", ["topk: the field is missing"]),
        ('{"topk":["a"]}', "query_id", ["query_id: the field is missing"]),
        ('{"query_id":"q2","topk":5}', "topk", ["expected a list", "got 5"]),
        ('{"query_id":"q2","topk":"a"}', "topk", ["expected a list", "got 'a'"]),
        ('{"query_id":"q2","topk":null}', "topk", ["expected a list", "got"]),
        ('{"query_id":"q2","topk":{"a":1}}', "topk", ["expected a list", "got {'a': 1}"]),
        ('{"query_id":1.5,"topk":["a"]}', "query_id", ["expected a whole number or text", "got 1.5"]),
        ('{"query_id":["q2"],"topk":["a"]}', "query_id", ["expected a whole number or text", "got ['q2']"]),
        ('{"query_id":"q2","topk":["a",1.5]}', "topk[1]", ["got 1.5"]),
        ('{"query_id":"q2","topk":["a",null]}', "topk[1]", ["expected a whole number or text or an object"]),
        ('{"query_id":"q2","topk":["a",["b",1]]}', "topk[1]", ["got ['b', 1]"]),
        ('{"query_id":"q2","topk":["a",{"score":1}]}', "topk[1].chunk_id", ["query 'q2'", "the field is missing"]),
        ('{"query_id":"q2","topk":["a",{}]}', "topk[1].chunk_id", ["query 'q2'", "the field is missing"]),
        ('{"query_id":"q2","topk":["a",""]}', "topk[1].chunk_id", ["query 'q2'", "the id is empty", "hint: "]),
        ('{"query_id":"q2","topk":[{"chunk_id":"","score":1}]}', "topk[0].chunk_id", ["the id is empty", "hint: "]),
        ('{"query_id":"q2","topk":[{"chunk_id":"","text":"t"}]}', "topk[0].chunk_id", ["the id is empty", "hint: "]),
        ('{"query_id":"q2","topk":[{"chunk_id":true}]}', "topk[0].chunk_id", ["got True"]),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","score":"high"}]}', "topk[0].score", ["a number", "got 'high'"]),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","score":true}]}', "topk[0].score", ["a number", "got True"]),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","rank":1.5}]}', "topk[0].rank", ["a whole number", "got 1.5"]),
        ('{"query_id":"q2","topk":[{"chunk_id":"a","rank":"1st"}]}', "topk[0].rank", ["a whole number", "got '1st'"]),
        ('{"query_id":"q2","topk":["a"],"latency_ms":12}', "latency_ms", ["expected an object", "got 12"]),
        ('{"query_id":"q2","topk":["a"],"latency_ms":{"x":"fast"}}', "latency_ms", ["a number", "fast"]),
        ('{"query_id":"q2","topk":["a"],"usage":5}', "usage", ["a list", "got 5"]),
        ('{"query_id":"q2","topk":["a"],"usage":{"model":"m"}}', "usage", ["a list"]),
        ('{"query_id":"q2","topk":["a"],"usage":["m"]}', "usage[0]", ["an object", "got 'm'"]),
        (
            '{"query_id":"q2","topk":["a"],"usage":[{"prompt_tokens":-5}]}',
            *("usage[0].prompt_tokens", ["a whole number >= 0", "got -5"]),
        ),
        (
            '{"query_id":"q2","topk":["a"],"usage":[{"completion_tokens":1.5}]}',
            *("usage[0].completion_tokens", ["a whole number", "got 1.5"]),
        ),
        ('{"query_id":"q2","topk":["a"],"usage":[{"calls":"two"}]}', "usage[0].calls", ["a whole number", "got 'two'"]),
        ('{"query_id":"q2","topk":["a"],"usage":[{"model":5}]}', "usage[0].model", ["text", "got 5"]),
        ('{"query_id":"q2","topk":["a"],"usage":[{"calls":1e99}]}', "usage[0].calls", ["a whole number"]),
        ('{"query_id":"q2","topk":["a"],"latency_ms":{"x":-1}}', "latency_ms.x", ["0 or more", "got -1"]),
        ('{"query_id":"q2","topk":["a"],"entities":["a",{}]}', "entities[1].id", ["the field is missing"]),
        ('{"query_id":"q2","topk":["a"],"system":5}', "system", ["text", "got 5"]),
    ],
)
def test_a_bad_line_of_a_run_log(tmp_path: Path, line: str, field: str | None, said: list[str]) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE + "\n" + line + "\n")
    error = refused_run(path, *said)
    assert (error.file, error.line) == (str(path), 3)
    assert f"{path}:3: " in str(error)
    if field is not None:
        assert error.field is not None
        assert error.field.startswith(field)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400], ids=lambda n: n[:9]
)
def test_scores_that_are_not_finite(tmp_path: Path, number: str) -> None:
    line = f'{{"query_id":"q2","topk":["a",{{"chunk_id":"b","score":{number}}}]}}\n'
    path = write(tmp_path / "run.jsonl", GOOD_LINE + line)
    error = refused_run(path, "finite")
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
    error = refused(lambda: karat.evaluate(run, GOLD), "finite", "got " + str(number)[:9])
    assert error.field == "topk[1].score"


@pytest.mark.parametrize("rank", [10**400, -(10**400)], ids=lambda n: str(n)[:9])
def test_ranks_beyond_any_list(tmp_path: Path, rank: int) -> None:
    path = write(tmp_path / "run.jsonl", f'{{"query_id":"q1","topk":[{{"chunk_id":"a","rank":{rank}}}]}}\n')
    error = refused_run(path)
    assert (error.line, error.field) == (1, "topk[0].rank")


def test_the_same_query_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE + '{"query_id":"q2","topk":["a"]}\n' + GOOD_LINE)
    error = refused_run(path, "query 'q1'", "(line 1)", "hint: ")
    assert (error.line, error.query) == (3, "q1")


def test_the_same_system_and_query_twice_far_apart(tmp_path: Path) -> None:
    lines = [
        json.dumps({"query_id": f"q{i}", "system": s, "topk": ["a"], "note": "x" * 300})
        for s in ("one", "two")
        for i in range(1500)
    ]
    path = write(tmp_path / "run.jsonl", "\n".join([*lines, lines[1501]]))
    error = refused_run(path, "'two'", "(line 1502)")
    assert (error.line, error.query) == (3001, "q1")


@pytest.mark.parametrize("ms", [-1, -0.001, 1e999])
def test_a_latency_that_cannot_be(ms: float) -> None:
    run = [{"query_id": "q1", "topk": ["a"], "latency_ms": {"retrieve": 5, "rerank": ms}}]
    error = refused(
        lambda: karat.evaluate(run, GOLD), "impossible latency: expected a number of milliseconds, 0 or more"
    )
    assert (error.field, error.query, error.line) == ("latency_ms.rerank", "q1", 1)
    assert f"got {ms}" in str(error)


# An entry of a gold set


@pytest.mark.parametrize(
    ("entry", "field", "said"),
    [
        ({"query_id": "q2", "gold": 5}, "gold", ["a list", "got 5"]),
        ({"query_id": "q2", "gold": "a"}, "gold", ["a list", "got 'a'"]),
        ({"query_id": "q2", "gold": [1.5]}, "gold[0]", ["got 1.5"]),
        ({"query_id": "q2", "gold": [None]}, "gold[0]", ["expected"]),
        ({"query_id": "q2", "gold": [{"grade": 1}]}, "gold[0].chunk_id", ["the field is missing"]),
        ({"query_id": "q2", "gold": ["a", {"chunk_id": ""}]}, "gold[1].chunk_id", ["the id is empty", "hint: "]),
        ({"query_id": "q2", "gold": [{"doc_id": "", "quote": "x"}]}, "gold[0].doc_id", ["the id is empty", "hint: "]),
        ({"query_id": "q2", "gold": ["a", ""]}, "gold[1]", ["the id is empty", "hint: "]),
        ({"query_id": "q2", "gold": {"a": 2, "": 1}}, "gold[1]", ["the id is empty", "hint: "]),
        ({"query_id": "q2", "gold": {"a": "good"}}, "gold", ["a number", "good"]),
        ({"query_id": "q2", "gold": {"a": None}}, "gold", ["a number", "a"]),
        ({"query_id": "q2", "gold": {"a": True}}, "gold", ["a number", "True"]),
        ({"query_id": "q2", "gold": [{"chunk_id": "a", "grade": "2"}]}, "gold[0].grade", ["a number", "got '2'"]),
        ({"query_id": "q2", "gold": {"a": 10**400}}, "gold", ["finite"]),
        ({"gold": ["a"]}, "query_id", ["the field is missing"]),
        ({"query_id": "q2"}, "gold", ["nothing says what should be found", "expected gold, evidence"]),
        ({"query_id": "q2", "topic": "x"}, "gold", ["nothing says what should be found", "hint: ", "--target"]),
        ({"query_id": "q2", "gold": ["a"], "k": 0}, "k", ["bad cutoff", "1 or more", "got 0"]),
        ({"query_id": "q2", "gold": ["a"], "k": -5}, "k", ["bad cutoff", "1 or more", "got -5"]),
        ({"query_id": "q2", "gold": ["a"], "k": 2.5}, "k", ["a whole number", "got 2.5"]),
        ({"query_id": "q2", "gold": ["a"], "k": 2**70}, "k", ["got"]),
        ({"query_id": "q2", "gold": ["a"], "evidence": 5}, "evidence", ["a list", "got 5"]),
        ({"query_id": "q2", "gold": ["a"], "negatives": "n"}, "negatives", ["a list", "got 'n'"]),
        ({"query_id": "q2", "gold": ["a"], "tags": ["x"]}, "tags", ["an object", "got ['x']"]),
        ({"query_id": "q2", "no_answer": "yes"}, "no_answer", ["true or false", "got 'yes'"]),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_a_bad_entry_of_a_gold_set(tmp_path: Path, entry: dict[str, Any], field: str, said: list[str]) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + json.dumps(entry) + "\n")
    error = refused_gold(path, *said)
    assert (error.file, error.line) == (str(path), 2)
    assert error.field is not None
    assert error.field.startswith(field)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_grades_that_are_not_finite(tmp_path: Path, number: str) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + f'{{"query_id":"q2","gold":{{"a":{number}}}}}\n')
    assert refused_gold(path, "finite").line == 2


@pytest.mark.parametrize("number", [".nan", ".inf"])
def test_grades_in_yaml_that_are_not_finite(tmp_path: Path, number: str) -> None:
    path = write(tmp_path / "gold.yaml", f"- query_id: q1\n  gold: [a]\n- query_id: q2\n  gold: {{a: {number}}}\n")
    error = refused_gold(path, "grade of 'a'", "query 'q2'", "expected a finite number", "got " + number[1:])
    assert error.line == 3


def test_no_answer_and_relevant_gold(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + '{"query_id":"q2","gold":["a"],"no_answer":true}\n')
    error = refused_gold(path, "no_answer", "query 'q2'", "hint: ")
    assert (error.line, error.query) == (2, "q2")


def test_no_answer_and_relevant_gold_of_an_entry_without_id(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.jsonl", '{"query":"what?","gold":["a"],"no_answer":true}\n')
    assert refused_gold(path, "what?").query == "what?"


def test_two_grades_for_one_item(tmp_path: Path) -> None:
    items = [{"chunk_id": "a", "grade": 1}, {"chunk_id": "b"}, {"chunk_id": "a", "grade": 2}]
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + json.dumps({"query_id": "q2", "gold": items}))
    error = refused_gold(path, "grade of 'a'", "expected one grade (1 stands before), got 2")
    assert (error.line, error.query) == (2, "q2")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gold.csv", "query_id,chunk_id,grade\nq1,a,1\nq1,a,2\n"),
        ("qrels", "q1 0 a 1\nq1 0 a 2\n"),
    ],
)
def test_two_grades_for_one_item_in_other_formats(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path / name, text)
    assert refused_gold(path, "grade of 'a'", "got 2").query == "q1"


def test_a_query_twice_in_gold(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + '{"query_id":"q2","gold":["a"]}\n' + GOOD_ENTRY)
    error = refused_gold(path, "already (line 1)", "hint: ")
    assert (error.line, error.query) == (3, "q1")


# Whole files


@pytest.mark.parametrize("data", [b"", b"\n", b"  \n\t\n\r\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "file", data)
    refused_run(path, "empty")
    refused_gold(path, "empty")


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
    refused_run(path, "binary", "expected text")
    refused_gold(path, "binary", "expected text")


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1" + b"x" * 100, b"PAR1" + b"\x00" * 100 + b"\x10\x00\x00\x00PAR1"])
def test_a_broken_parquet_file(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "file.parquet", data)
    refused_run(path, "table")
    refused_gold(path, "table")


def test_no_overlap_of_run_and_gold(tmp_path: Path) -> None:
    run = write(tmp_path / "run.jsonl", '{"query_id":"Q-001","topk":["a"]}\n')
    gold = write(tmp_path / "gold.jsonl", '{"query_id":"q1","gold":["a"]}\n')
    refused(lambda: karat.evaluate(run, gold), str(run), str(gold), "hint: ", "'q1'", "'Q-001'")


def test_no_overlap_of_one_of_two_systems() -> None:
    run = [{"query_id": "q1", "system": "A", "topk": ["a"]}, {"query_id": "x", "system": "B", "topk": ["a"]}]
    refused(lambda: karat.evaluate_all(run, GOLD), "B", "'x'")


def test_empty_ids_in_memory_and_in_a_corpus(tmp_path: Path) -> None:
    refused(lambda: karat.evaluate({"q1": {"a": 1.0, "": 0.5}}, GOLD), "query 'q1'", "the id is empty", "hint: ")
    refused(lambda: karat.evaluate({"q1": ["a", ""]}, GOLD), "topk[1].chunk_id", "the id is empty", "hint: ")
    refused(lambda: karat.evaluate(RUN, {"q1": {"a": 1, "": 1}}), "gold[1]", "query 'q1'", "the id is empty")
    corpus = write(tmp_path / "corpus.jsonl", '{"id":"a","text":"t"}\n{"chunk_id":"","text":"t"}\n')
    refused(lambda: karat.evaluate(RUN, GOLD, corpus=corpus), f"{corpus}:2: id: the id is empty", "hint: ")


@pytest.mark.parametrize("empty", [[], {}])
def test_nothing_in_memory(empty: Any) -> None:
    refused(lambda: karat.evaluate(empty, GOLD), "no query in the run", "hint: ")
    refused(lambda: karat.evaluate(RUN, empty), "no query in the gold set", "hint: ")


@pytest.mark.parametrize("thing", [5, None, 1.5, b"bytes", object(), iter([])], ids=lambda t: type(t).__name__)
def test_things_that_are_no_input(thing: Any) -> None:
    name = type(thing).__name__
    refused(lambda: karat.evaluate(thing, GOLD), name, "expected a path, dict")
    refused(lambda: karat.evaluate(RUN, thing), name, "expected a path, dict")


@pytest.mark.parametrize("record", [5, None, "text", ["q1", ["a"]], {1: 2}], ids=repr)
def test_records_in_memory_that_are_none(record: Any) -> None:
    assert refused(lambda: karat.evaluate([RECORD, record], GOLD), "expected").line == 2
    assert refused(lambda: karat.evaluate(RUN, [ENTRY, record]), "expected").line == 2


RECORD = {"query_id": "q1", "topk": ["a"]}
ENTRY = {"query_id": "q1", "gold": ["a"]}


@pytest.mark.parametrize("at", [5, 20, 40, len(GOOD_LINE) - 2])
def test_a_truncated_last_line(tmp_path: Path, at: int) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE + GOOD_LINE.replace("q1", "q2")[:at])
    assert refused_run(path, "cut off", "hint: ").line == 2


@pytest.mark.parametrize("at", [12, 24])
def test_a_truncated_last_line_of_gold(tmp_path: Path, at: int) -> None:
    path = write(tmp_path / "gold.jsonl", GOOD_ENTRY + GOOD_ENTRY.replace("q1", "q2")[:at])
    assert refused_gold(path, "cut off", "hint: ").line == 2


@pytest.mark.parametrize("at", [24, 25, 40])
def test_a_truncated_first_line(tmp_path: Path, at: int) -> None:
    """It may also be the start of one value over several lines, so that the second line can be the one named."""
    path = write(tmp_path / "run.jsonl", GOOD_LINE[:at] + "\n" + GOOD_LINE.replace("q1", "q2"))
    assert refused_run(path, "JSON").line in (1, 2)


def test_a_truncated_json_document(tmp_path: Path) -> None:
    text = json.dumps([ENTRY, {"query_id": "q2", "gold": ["b"]}], indent=1)
    error = refused_gold(write(tmp_path / "gold.json", text[:-20]), "JSON")
    assert error.line is not None


def test_a_truncated_trec_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run", "q1 Q0 a 1 2.0 tag\nq1 Q0 b 2")
    assert refused_run(path, "wrong number of columns", "expected 6: query Q0 document rank score tag, got 4").line == 2


@pytest.mark.parametrize(("line", "got"), [("q1", 1), ("q1 Q0 b", 3), ("q1 Q0 b 2", 4)])
def test_the_wrong_number_of_trec_columns(tmp_path: Path, line: str, got: int) -> None:
    path = write(tmp_path / "run", f"q1 Q0 a 1 2.0 tag\n\n{line}\n")
    assert refused_run(path, "expected 6: query Q0 document rank score tag", f"got {got} columns").line == 3


@pytest.mark.parametrize(("line", "got"), [("q1 0 b", 3), ("q1 0 b 1 x", 5)])
def test_the_wrong_number_of_qrels_columns(tmp_path: Path, line: str, got: int) -> None:
    path = write(tmp_path / "qrels", f"q1 0 a 1\n\n{line}\n")
    assert refused_gold(path, "expected 4: query iteration document grade", f"got {got} columns").line == 3


def test_a_csv_without_a_query_column(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", "question_no,chunk_id,score\nq1,a,1\n")
    refused_run(path, "question_no,chunk_id,score", "hint: ")
    refused(
        lambda: karat.evaluate(karat.read_run(path, format="table"), GOLD),
        str(path),
        "no column for query_id",
        "expected one of query_id, qid",
        "got question_no, chunk_id, score",
        "hint: rename the column",
    )


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
        ('{"q1": {"a": 1}}\n', GOOD_LINE, 2),
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
        "dict to log",
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
        ('{"q1": {"a": 1}}\n', GOOD_ENTRY, [2]),
    ],
    ids=[
        "gold to log",
        "gold to qrels",
        "gold to yaml",
        "qrels to gold",
        "qrels to trec",
        "yaml to json",
        "csv",
        "dict",
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
    assert "utf-8" in str(error).lower()


@pytest.mark.parametrize("keep", [5, 12, 30, -8, -1])
def test_gzip_that_is_cut_off(tmp_path: Path, keep: int) -> None:
    lines = "".join(GOOD_LINE.replace("q1", f"q{i}") for i in range(200)).encode()
    path = write(tmp_path / "run.jsonl.gz", gzip.compress(lines)[:keep])
    refused_run(path, "cannot be read")


def test_a_directory(tmp_path: Path) -> None:
    refused_run(tmp_path, "folder")
    refused_gold(tmp_path, "folder")


@pytest.mark.parametrize("name", ["run-log", "trec-run", "table", "dict", "samples"])
def test_a_directory_with_a_named_format(tmp_path: Path, name: str) -> None:
    refused(lambda: karat.evaluate(karat.read_run(tmp_path, format=name), GOLD), str(tmp_path), "folder")


@pytest.mark.parametrize("name", ["gold", "trec-qrels", "table", "dict", "samples", "beir"])
def test_a_directory_with_a_named_gold_format(tmp_path: Path, name: str) -> None:
    refused(lambda: karat.read_gold(tmp_path, format=name), str(tmp_path))


def test_a_missing_file_with_a_near_name(tmp_path: Path) -> None:
    write(tmp_path / "baseline.jsonl", GOOD_LINE)
    refused_run(tmp_path / "baselin.jsonl", "no such file", "hint: did you mean baseline.jsonl?")
    refused_gold(tmp_path / "Baseline.json", "no such file", "hint: did you mean baseline.jsonl?")


def test_a_missing_file_in_a_missing_folder(tmp_path: Path) -> None:
    refused_run(tmp_path / "no" / "run.jsonl", "no such file", "hint: ", f"{tmp_path / 'no'} does not exist")


def test_the_text_of_a_file_given_as_its_path() -> None:
    """A mistake that is easily made: the content instead of the name."""
    for text in (GOOD_LINE * 200, "q1 0 a 1\n" * 1000, "x" * 5000):
        refused(lambda text=text: karat.evaluate(text, GOLD))
        refused(lambda text=text: karat.evaluate(RUN, text))


def test_a_file_under_a_file(tmp_path: Path) -> None:
    refused_run(write(tmp_path / "run.jsonl", GOOD_LINE) / "run.jsonl")


@pytest.mark.parametrize("k", [0, -1])
def test_a_cutoff_that_is_none(k: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 1 or more, got {k}"):
        karat.evaluate(RUN, GOLD, k=k)


@pytest.mark.parametrize("metric", ["recall@0", "recall@-1", "recall@x", "ndcg@99999999999999999999999"])
def test_a_cutoff_in_a_name_that_is_none(metric: str) -> None:
    with pytest.raises(ConfigError, match=metric):
        karat.evaluate(RUN, GOLD, [metric])


@pytest.mark.parametrize("size", [0, -10])
def test_a_corpus_size_that_is_none(size: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 1 or more, got {size}"):
        karat.evaluate(RUN, GOLD, corpus_size=size)


def test_a_threshold_that_is_none() -> None:
    with pytest.raises(ConfigError, match="score"):
        karat.evaluate({"q1": {"a": 1.0}}, GOLD, min_score=float("nan"))


@pytest.mark.parametrize("name", ["treck", "json", "", "RUN-LOG "])
def test_an_unknown_name_of_a_format(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "run.jsonl", GOOD_LINE)
    refused(lambda: karat.read_run(path, format=name), "unknown format", "hint: ")
    refused(lambda: karat.read_gold(path, format=name), "unknown format", "hint: ")


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
    refused(lambda: karat.evaluate(karat.read_run(path, format="run-log"), GOLD), str(path))
    refused(lambda: karat.read_gold(path, format="gold"), str(path))


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
    """A line of 100 MB, written in pieces."""
    piece = b"y" * (1 << 20)
    with path.open("wb") as out:
        out.write(head.encode())
        for _ in range(100):
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
def test_a_line_of_100_mb(tmp_path: Path, kind: str, head: str, tail: str, line: int | None) -> None:
    path = long_file(tmp_path / "file", head, tail)
    try:
        start = time.process_time()
        error = (refused_run if kind == "run" else refused_gold)(path)
        assert time.process_time() - start < 10
        assert error.line == line
    finally:
        path.unlink()  # pytest keeps what is left here for a while


def test_a_good_line_of_100_mb_is_read(tmp_path: Path) -> None:
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
    done = subprocess.run([sys.executable, "-c", GUARDED, str(path)], capture_output=True, text=True, timeout=20)
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
    with pytest.raises(InputError) as refused:
        karat.read_gold(path)
    assert str(refused.value) == f"{path}:1: gold[doc 7.html]: wrong type: expected a number, got 'high'"
