"""Any bytes, and any thing in memory, give a result or a KaratError. Nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from fuzz_targets import GOLD, GOLD_FILES, METRICS, RUN, RUN_FILES, TARGETS, TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from fuzz import CORPUS, fails, fuzz
from karat.errors import KaratError
from karat.formats import records, run_log, trec
from karat.results.evaluate import evaluate_all
from karat.results.save import saved_form


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
    survives(lambda: evaluate_all(karat.read_run(file, format=name), GOLD, METRICS))


def check_gold(file: Path, data: bytes, name: str | None = None) -> None:
    file.write_bytes(data)
    survives(lambda: karat.evaluate(RUN, karat.read_gold(file, format=name), METRICS))


def test_the_files_that_are_mutated_are_good(file: Path) -> None:
    """Otherwise only the first refusal would be tested."""
    for name, data in RUN_FILES.items():
        file.write_bytes(data)
        read = karat.read_run(file, format="run-log" if name == "log in a list" else None)
        assert evaluate_all(read, GOLD, METRICS), name
    for data in GOLD_FILES.values():
        file.write_bytes(data)
        assert karat.evaluate(RUN, file, METRICS).queries


@settings(max_examples=80)
@given(data=st.binary(max_size=200))
def test_any_bytes(file: Path, data: bytes) -> None:
    check_run(file, data)
    check_gold(file, data)


@settings(max_examples=50)
@given(
    head=st.sampled_from([b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"PAR1", b'{"query_id":', b"- query_id: "]),
    data=st.binary(),
)
def test_any_bytes_after_a_known_beginning(file: Path, head: bytes, data: bytes) -> None:
    check_run(file, head + data)
    check_gold(file, head + data)


@settings(max_examples=100)
@given(data=mutated(RUN_FILES))
def test_wounded_runs(file: Path, data: bytes) -> None:
    check_run(file, data)


@settings(max_examples=100)
@given(data=mutated(GOLD_FILES))
def test_wounded_gold(file: Path, data: bytes) -> None:
    check_gold(file, data)


@settings(max_examples=60)
@given(data=mutated(RUN_FILES), name=st.sampled_from(["run-log", "samples", "dict", "trec-run", "table"]))
def test_wounded_runs_in_a_named_format(file: Path, data: bytes, name: str) -> None:
    check_run(file, data, name)


@settings(max_examples=60)
@given(data=mutated(GOLD_FILES), name=st.sampled_from(["gold", "samples", "dict", "trec-qrels", "table"]))
def test_wounded_gold_in_a_named_format(file: Path, data: bytes, name: str) -> None:
    check_gold(file, data, name)


@settings(max_examples=50)
@given(data=mutated({"trec": RUN_FILES["trec"] * 3, "log": RUN_FILES["log"]}))
def test_wounded_runs_on_the_way_of_large_files(file: Path, data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec, "_SMALL", 0)
        patch.setattr(trec, "_BLOCK", 50)
        patch.setattr(run_log, "_SLICE_HITS", 2)
        patch.setattr(records, "_BATCH_BYTES", 100)
        check_run(file, data)


@settings(max_examples=50)
@given(data=mutated({"dataset": b"dataset_version: v1\nas_of_range: [2025-01-01, 2025-02-01]\nname: x\n"}))
def test_a_wounded_dataset_yaml(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "beside"
    folder.mkdir(exist_ok=True)
    (folder / "dataset.yaml").write_bytes(data)
    check_gold(folder / "gold", GOLD_FILES["qrels"])


@settings(max_examples=50)
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


@settings(max_examples=80)
@given(
    run=RECORDS
    | VALUES
    | st.dictionaries(st.sampled_from(["q1", "q2", 1]) | st.text(max_size=2), HITS | ITEMS | VALUES, max_size=3)
)
def test_any_run_in_memory(run: Any) -> None:
    survives(lambda: evaluate_all(run, GOLD, METRICS))


@settings(max_examples=80)
@given(
    gold=ENTRY_LISTS
    | VALUES
    | st.dictionaries(st.sampled_from(["q1", "q2", 1]) | st.text(max_size=2), ITEMS | VALUES, max_size=3)
)
def test_any_gold_in_memory(gold: Any) -> None:
    survives(lambda: karat.evaluate(RUN, gold, METRICS))


@settings(max_examples=80)
@given(records=RECORDS)
def test_any_records_in_a_file(file: Path, records: list[Any]) -> None:
    check_run(file, b"".join(line(r) for r in [{"query_id": "q0", "topk": []}, *records]))


@settings(max_examples=80)
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


@settings(max_examples=80)
@given(columns=COLUMNS, kinds=st.booleans())
def test_any_frame(columns: dict[str, list[Any]], kinds: bool) -> None:
    try:
        base: dict[str, list[Any]] = {"query_id": ["q1", "q1", "q2"], "chunk_id": ["a#1", "b#1", "c"]} if kinds else {}
        frame = pl.DataFrame({**base, **columns}, strict=False)
    except (pl.exceptions.PolarsError, TypeError, OverflowError):
        return  # polars itself will not hold it
    survives(lambda: evaluate_all(frame, GOLD, METRICS))
    survives(lambda: karat.evaluate(RUN, frame, METRICS))


# The fuzzer of every reader, history file and endpoint (tests/support/fuzz.py)

PAST = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", PAST, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_failed_once(tmp_path: Path, path: Path) -> None:
    with TARGETS[path.parent.name]().open(tmp_path) as take:
        assert fails(take, path.read_bytes()) is None


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_damaged_is_good(tmp_path: Path, name: str) -> None:
    """Otherwise only the first refusal would be tested."""
    target = TARGETS[name]()
    for label, data in target.seeds.items():
        folder = tmp_path / hashlib.sha256(label.encode()).hexdigest()[:8]
        folder.mkdir()
        with target.open(folder) as take:
            take(data)


def test_damaged_inputs() -> None:
    """A short run of `make fuzz`."""
    counts = fuzz(list(TARGETS), seconds=0.25, seed=1)
    assert counts.keys() == TARGETS.keys()
    assert all(counts.values())
