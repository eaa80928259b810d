"""Any bytes, and any thing in memory, give a result or a KaratError. Nothing else."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat.errors import KaratError
from karat.formats import records, run_log, trec
from karat.results.save import saved_form

RUN = {"q1": {"a#1": 2.0, "b#1": 1.0}, "q2": {"c#1": 1.0}}
GOLD = {"q1": {"a#1": 2, "b": 1}, "q2": {"c#1": 0}}
METRICS = [
    "recall@5",
    "ndcg@5",
    "precision",
    "map",
    "mrr",
    "bpref",
    "judged@5",
    "distinct_docs@5",
    "novelty@5",
    "latency",
]


def survives(call: Callable[[], karat.Result | dict[str, karat.Result]]) -> None:
    """The whole way: a result that can be saved, or an error that can be shown."""
    message = "a result"
    try:
        outcome = call()
        results = outcome.values() if isinstance(outcome, dict) else [outcome]
        for result in results:
            msgspec.json.encode(saved_form(result))
    except KaratError as error:
        message = str(error)
    except BaseException as error:  # polars' PanicException is no Exception
        raise AssertionError(f"{type(error).__name__} instead of a KaratError: {str(error)[:300]}") from error
    assert 0 < len(message) < 3000


def parquet(columns: dict[str, list[Any]]) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


LOG = (
    '{"query_id":"q1","system":"s","topk":[{"rank":1,"chunk_id":"a#1","score":0.5,"text":"one two"},'
    '{"rank":2,"chunk_id":"b#1","score":0.25,"doc_id":"b"}],"latency_ms":{"all":3.5},"index_version":"v1"}\n'
    '{"query_id":"q2","system":"s","topk":["c#1",7],"k_raw":50,"chunker":{"size":9},"note":[1,null]}\n'
)
ENTRIES = (
    '{"dataset_version":"v1","as_of_range":["2025-01-01","2025-02-01"]}\n'
    '{"query_id":"q1","query":"why?","gold":{"a#1":2,"b":1},"k":3,"tags":{"topic":"x"},"as_of":"2025-01-01"}\n'
    '{"query_id":"q2","gold":["c#1",{"doc_id":"d","grade":0.5,"quote":"so"}],"evidence":["e"],"negatives":["n"]}\n'
    '{"query_id":"q3","no_answer":true,"level":1.5}\n'
)
YAML = (
    "dataset_version: v1\nname: x\nqueries:\n- query_id: q1\n  gold: {a#1: 2, b: 1}\n  as_of: 2025-01-01\n"
    "- query_id: q2\n  gold:\n  - c#1\n  - {doc_id: d, grade: 0.5}\n  tags: {topic: no}\n"
)
RUN_FILES: dict[str, bytes] = {
    "log": LOG.encode(),
    "log in a list": json.dumps([json.loads(line) for line in LOG.splitlines()]).encode(),
    "outputs": b'{"id":"q1","actualOutput":{"retrieved":[{"id":"a#1","text":"t"}]}}\n'
    b'{"id":"q2","actualOutput":"[\\"c\\"]"}\n',
    "dict": json.dumps(RUN).encode(),
    "dict of lists": b'{\n "q1": ["a#1", ["b#1", 0.5]],\n "q2": [{"chunk_id": "c#1"}]\n}',
    "trec": b"q1 Q0 a#1 1 2.5 tag\nq1 Q0 b#1 2 1e-3 tag\nq2 Q0 c#1 1 -1 tag\n",
    "csv": b'system,query_id,chunk_id,score,text\ns,q1,a#1,2,one\ns,q1,b#1,1,"t,w"\ns,q2,c#1,,x\n',
    "tsv": b"qid\tdocno\trank\tdoc_id\nq1\ta#1\t1\ta\nq1\tb#1\t2\tb\nq2\tc#1\t1\t\n",
    "parquet": parquet({"query_id": ["q1", "q2"], "chunk_id": ["a#1", "c#1"], "score": [1.0, None]}),
    "gzip": gzip.compress(LOG.encode(), mtime=0),
    "zstd": zstandard.compress(LOG.encode()),
}
GOLD_FILES: dict[str, bytes] = {
    "entries": ENTRIES.encode(),
    "entries in a list": json.dumps([json.loads(line) for line in ENTRIES.splitlines()[1:]], indent=1).encode(),
    "yaml": YAML.encode(),
    "samples": b'{"samples":[{"id":"q1","input":{"question":"?"},"expected_output":{"a#1":2},'
    b'"metadata":{"k":3,"l":"en"}}]}',
    "samples in yaml": b"samples:\n- id: q1\n  input: {question: why}\n  expected_output: [a#1, b]\n"
    b"  metadata: {k: 2}\n",
    "targets": b'{"query":"q1","source_recipe_id":"a#1"}\n{"query":"q2","target_id":["c",3]}\n',
    "dict": json.dumps(GOLD).encode(),
    "qrels": b"q1 0 a#1 2\nq1 0 b 1\nq2 0 c#1 -1\n",
    "csv": b"query_id,chunk_id,grade,language\nq1,a#1,2,en\nq1,b,1,en\nq2,c#1,0.5,pt\n",
    "parquet": parquet({"query_id": ["q1", "q2"], "doc_id": ["a", "c"], "grade": [1, 2]}),
    "gzip": gzip.compress(ENTRIES.encode(), mtime=0),
    "zstd": zstandard.compress(YAML.encode()),
}

TOKENS: list[bytes] = [
    *(c.encode() for c in "{}[]\",:\\'#&*!|>%@`?- \t\n\r"),
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"0", b"1.5", b"null", b"true", b"nan", b"inf", b"1_0"),
    *(b"9" * 30, b"9" * 400, b"-" + b"9" * 400, b"0x1F", b"12:30", b"007", b"2025-01-01", b".inf", b"~", b"no"),
    *(b'"topk"', b'"gold"', b'"query_id"', b'"samples"', b'"actualOutput"', b'"k":0', b'"rank":0,', b'"score":null,'),
    *(
        b"samples:\n",
        b"queries:\n",
        b"gold:",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!binary ",
        b"!!set ",
        b"!!python/object:x ",
        b"---\n",
    ),
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xc2\xa0",
        b"\\ud800",
        b"\\u0000",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"PAR1",
        b"\x85",
    ),
    *(
        b"q1 Q0 a 1 1 t\n",
        b"q1 0 a 1\n",
        b"q1,a,1\n",
        b'{"query_id":"q1","topk":[]}\n',
        b'{"query_id":"q1","gold":[]}\n',
        b"[" * 50,
    ),
]


@st.composite
def mutated(draw: st.DrawFn, files: dict[str, bytes]) -> bytes:
    """A valid file with a few wounds."""
    data = draw(st.sampled_from(list(files.values())))
    for _ in range(draw(st.integers(1, 5))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        end = draw(st.integers(at, min(len(data), at + 40)))
        match draw(st.sampled_from(["flip", "cut", "delete", "double", "insert", "replace", "bytes", "line"])):
            case "flip":
                data = data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
            case "cut":
                data = data[:at]
            case "delete":
                data = data[:at] + data[end:]
            case "double":
                data = data[:end] + data[at:]
            case "insert":
                data = data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]
            case "replace":
                data = data[:at] + draw(st.sampled_from(TOKENS)) + data[end:]
            case "bytes":
                data = data[:at] + draw(st.binary(max_size=8)) + data[at:]
            case "line":
                lines = data.split(b"\n")
                data = b"\n".join([*lines, draw(st.sampled_from(lines))])
    return data


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file that is written anew for each example; alone in its folder, for dataset.yaml is read beside it."""
    return tmp_path_factory.mktemp("fuzz") / "file"


def check_run(file: Path, data: bytes, name: str | None = None) -> None:
    file.write_bytes(data)
    survives(lambda: karat.evaluate_all(karat.read_run(file, format=name), GOLD, METRICS))


def check_gold(file: Path, data: bytes, name: str | None = None) -> None:
    file.write_bytes(data)
    survives(lambda: karat.evaluate(RUN, karat.read_gold(file, format=name), METRICS))


def test_the_files_that_are_mutated_are_good(file: Path) -> None:
    """Otherwise only the first refusal would be tested."""
    for name, data in RUN_FILES.items():
        file.write_bytes(data)
        read = karat.read_run(file, format="run-log" if name == "log in a list" else None)
        assert karat.evaluate_all(read, GOLD, METRICS), name
    for data in GOLD_FILES.values():
        file.write_bytes(data)
        assert karat.evaluate(RUN, file, METRICS).queries


@settings(max_examples=200)
@given(data=st.binary(max_size=200))
def test_any_bytes(file: Path, data: bytes) -> None:
    check_run(file, data)
    check_gold(file, data)


@settings(max_examples=100)
@given(
    head=st.sampled_from([b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"PAR1", b'{"query_id":', b"- query_id: "]),
    data=st.binary(),
)
def test_any_bytes_after_a_known_beginning(file: Path, head: bytes, data: bytes) -> None:
    check_run(file, head + data)
    check_gold(file, head + data)


@settings(max_examples=300)
@given(data=mutated(RUN_FILES))
def test_wounded_runs(file: Path, data: bytes) -> None:
    check_run(file, data)


@settings(max_examples=300)
@given(data=mutated(GOLD_FILES))
def test_wounded_gold(file: Path, data: bytes) -> None:
    check_gold(file, data)


@settings(max_examples=150)
@given(data=mutated(RUN_FILES), name=st.sampled_from(["run-log", "samples", "dict", "trec-run", "table"]))
def test_wounded_runs_in_a_named_format(file: Path, data: bytes, name: str) -> None:
    check_run(file, data, name)


@settings(max_examples=150)
@given(data=mutated(GOLD_FILES), name=st.sampled_from(["gold", "samples", "dict", "trec-qrels", "table"]))
def test_wounded_gold_in_a_named_format(file: Path, data: bytes, name: str) -> None:
    check_gold(file, data, name)


@settings(max_examples=100)
@given(data=mutated({"trec": RUN_FILES["trec"] * 3, "log": RUN_FILES["log"]}))
def test_wounded_runs_on_the_way_of_large_files(file: Path, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec, "_SMALL", 0)
        patch.setattr(trec, "_BLOCK", 50)
        patch.setattr(run_log, "_LARGE", 0)
        patch.setattr(run_log, "_SLICE_HITS", 2)
        patch.setattr(records, "_BATCH_BYTES", 100)
        check_run(file, data)


@settings(max_examples=100)
@given(data=mutated({"dataset": b"dataset_version: v1\nas_of_range: [2025-01-01, 2025-02-01]\nname: x\n"}))
def test_a_wounded_dataset_yaml(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "beside"
    folder.mkdir(exist_ok=True)
    (folder / "dataset.yaml").write_bytes(data)
    check_gold(folder / "gold", GOLD_FILES["qrels"])


@settings(max_examples=100)
@given(
    qrels=mutated({"qrels": b"query-id\tcorpus-id\tscore\nq1\ta#1\t2\nq2\tc#1\t1\n"}),
    queries=mutated(
        {"queries": b'{"_id":"q1","text":"why?","metadata":{"lang":["en"]}}\n{"_id":"q2","text":"how?"}\n'}
    ),
)
def test_a_wounded_beir_folder(tmp_path_factory: pytest.TempPathFactory, qrels: bytes, queries: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "beir"
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    (folder / "qrels" / "test.tsv").write_bytes(qrels)
    (folder / "queries.jsonl").write_bytes(queries)
    survives(lambda: karat.evaluate(RUN, folder, METRICS))


# Things in memory

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([10**400, -(10**400), 2**63, -(2**63) - 1])
    | st.floats()
    | st.sampled_from(["q1", "q2", "a#1", "b", "", "\ud800", "x\x00y"])
    | st.text(max_size=4)
    | st.binary(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=6,
)
HITS = st.lists(
    st.sampled_from(["a#1", "b#1", "c"])
    | VALUES
    | st.fixed_dictionaries(
        {"chunk_id": st.sampled_from(["a#1", "b#1", 3]) | VALUES},
        optional={"rank": st.integers(-2, 3) | VALUES, "score": st.floats() | VALUES, "doc_id": VALUES, "text": VALUES},
    ),
    max_size=4,
)
RECORDS = st.lists(
    VALUES
    | st.fixed_dictionaries(
        {"query_id": st.sampled_from(["q1", "q2", 1]) | VALUES, "topk": HITS | VALUES},
        optional={"system": VALUES, "latency_ms": VALUES, "error": VALUES, "other": VALUES, 'we"ird': VALUES},
    ),
    max_size=3,
)
ITEMS = st.dictionaries(st.sampled_from(["a#1", "b", 3]) | st.text(max_size=2), st.floats() | VALUES, max_size=3) | HITS
ENTRY_LISTS = st.lists(
    VALUES
    | st.fixed_dictionaries(
        {"query_id": st.sampled_from(["q1", "q2", 1]) | VALUES, "gold": ITEMS | VALUES},
        optional={
            "k": VALUES,
            "no_answer": VALUES,
            "tags": VALUES,
            "tier": VALUES,
            "evidence": VALUES,
            "dataset_version": VALUES,
            "as_of_range": VALUES,
            "other": VALUES,
        },
    ),
    max_size=3,
)


@settings(max_examples=200)
@given(
    run=RECORDS
    | VALUES
    | st.dictionaries(st.sampled_from(["q1", "q2", 1]) | st.text(max_size=2), HITS | ITEMS | VALUES, max_size=3)
)
def test_any_run_in_memory(run: Any) -> None:
    survives(lambda: karat.evaluate_all(run, GOLD, METRICS))


@settings(max_examples=200)
@given(
    gold=ENTRY_LISTS
    | VALUES
    | st.dictionaries(st.sampled_from(["q1", "q2", 1]) | st.text(max_size=2), ITEMS | VALUES, max_size=3)
)
def test_any_gold_in_memory(gold: Any) -> None:
    survives(lambda: karat.evaluate(RUN, gold, METRICS))


@settings(max_examples=200)
@given(records=RECORDS)
def test_any_records_in_a_file(file: Path, records: list[Any]) -> None:
    check_run(file, b"".join(line(r) for r in [{"query_id": "q0", "topk": []}, *records]))


@settings(max_examples=200)
@given(entries=ENTRY_LISTS)
def test_any_entries_in_a_file(file: Path, entries: list[Any]) -> None:
    check_gold(file, b"".join(line(e) for e in [{"query_id": "q1", "gold": ["a#1"]}, *entries]))


def line(value: Any) -> bytes:
    """As Python's json writes it: NaN, huge numbers and lone surrogates included."""
    return json.dumps(value, default=repr, ensure_ascii=True).encode() + b"\n"


COLUMNS = st.dictionaries(
    st.sampled_from(
        [
            "query_id",
            "chunk_id",
            "doc_id",
            "score",
            "rank",
            "grade",
            "system",
            "text",
            "query",
            "target_id",
            "Score",
            "topic",
        ]
    ),
    st.lists(
        st.sampled_from(["q1", "q2", "a#1", "b"])
        | st.integers(-2, 2)
        | st.floats()
        | st.none()
        | st.lists(st.integers(0, 2), max_size=2)
        | st.binary(max_size=2)
        | st.dates()
        | st.booleans(),
        min_size=3,
        max_size=3,
    ),
    max_size=6,
)


@settings(max_examples=200)
@given(columns=COLUMNS, kinds=st.booleans())
def test_any_frame(columns: dict[str, list[Any]], kinds: bool) -> None:
    try:
        base: dict[str, list[Any]] = {"query_id": ["q1", "q1", "q2"], "chunk_id": ["a#1", "b#1", "c"]} if kinds else {}
        frame = pl.DataFrame({**base, **columns}, strict=False)
    except (pl.exceptions.PolarsError, TypeError, OverflowError):
        return  # polars itself will not hold it
    survives(lambda: karat.evaluate_all(frame, GOLD, METRICS))
    survives(lambda: karat.evaluate(RUN, frame, METRICS))
