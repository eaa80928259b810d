"""What cannot be read from the middle is kept on the way, for a second look or a second pass."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from flat_hits import by_query, places
from hypothesis import given, settings
from hypothesis import strategies as st

from karat import KaratError, read_run
from karat.data.audit import Audit
from karat.data.hits import Hits, NoLists, Run, Ungrouped
from karat.data.ids import as_list
from karat.data.packed_ids import pack
from karat.formats import spill
from karat.formats.base import PARSED
from karat.formats.spill import HeldRun, Spilling

NOTHING = frozenset[str]()
RAW = frozenset({"raw"})
TEXT = frozenset({"text"})


def entries(size: int = 30) -> list[dict[str, Any]]:
    """Short lists, and some that are longer than what is kept; some queries have raw lists."""
    return [
        {
            "query_id": f"q{i}\n" if i == 7 else f"q{i}",
            "system": "ab"[i % 2],
            "topk": [
                {
                    "rank": 1 + (r * 7) % 31,
                    "chunk_id": f"d{r}#é{i}",
                    "score": r / 3,
                    "text": f"{r}\nof {i}",
                    "doc_id": "d",
                }
                for r in range(31 if i % 3 == 0 else i % 5)
            ],
            "query": f"what is {i}?",
            "latency_ms": {"retrieve": i / 4},
            **({"raw": [{"chunk_id": f"r{r}", "text": "raw"} for r in range(i % 4)]} if i % 4 else {}),
        }
        for i in range(size)
    ]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(entry) + "\n" for entry in entries()).encode()))
    return path


def first(hits: dict[str, Any], depth: int) -> dict[str, Any]:
    """The plain twin of what is kept of one list."""
    size = len(hits["ids"])
    if size <= 4 * depth:
        return hits
    key = next(
        (column for column in (hits["rank"], [None if s is None else -s for s in hits["score"]]) if None not in column),
        list(range(size)),
    )
    last = sorted(key)[depth - 1]
    return {name: [value for value, k in zip(values, key, strict=True) if k <= last] for name, values in hits.items()}


def looked_at(run: Run, found: list[Hits], queries: set[str], columns: frozenset[str]) -> dict[Any, Any]:
    known, answers = places(found), dict[Any, Any]()
    for system in {system for system, _ in known}:
        names = [query for s, query in known if s == system and query in queries]
        at = np.array([known[system, query] for query in names], np.int64)
        answers |= by_query(run.look(system, names, at, columns))
    return answers


class Slices(Run):
    """Given slices, and how often they were read."""

    def __init__(self, *slices: Hits) -> None:
        self._slices, self.passes = slices, 0

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = NOTHING) -> Iterator[Hits]:
        self.passes += 1
        audit.count("empty_results", 2, ["q1"])
        yield from self._slices


class Scattered(Slices):
    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = NOTHING) -> Iterator[Hits]:
        yield from super().slices(columns, audit, lists)
        raise Ungrouped

    def grouped(self) -> Run:
        return Slices(*self._slices)


@pytest.mark.parametrize("depth", [1, 5, 10])
@pytest.mark.parametrize("columns", [NOTHING, TEXT], ids=["bare", "text"])
def test_first_hits_of_a_compressed_log_can_be_looked_at(packed: Path, depth: int, columns: frozenset[str]) -> None:
    run = Spilling(read_run(packed), depth)
    found = list(run.slices(columns, Audit(), RAW))
    said = by_query(found)
    assert said == by_query(read_run(packed).slices(columns, Audit()))
    PARSED.reset()
    queries = {"q0", "q3", "q7\n", "q9", "q8", "nowhere"}
    expected = {key: first(hits, depth) for key, hits in said.items() if key[1] in queries}
    assert looked_at(run, found, queries, columns) == expected
    assert by_query(run.look("a", ["q0", "q8"], None, columns)) == {k: expected[k] for k in (("a", "q0"), ("a", "q8"))}
    assert PARSED.bytes == 0
    assert run.can_look
    assert set(run.provenance()) == {"a", "b"}


def test_columns_that_the_pass_did_not_read_are_read_from_the_run(packed: Path) -> None:
    run = Spilling(read_run(packed), 5)
    before = by_query(run.look("a", ["q0"], None, NOTHING))
    found = list(run.slices(NOTHING, Audit(), RAW))
    (hits,) = looked_at(run, found, {"q0"}, TEXT).values()
    assert hits["text"][:1] == ["0\nof 0"]
    assert len(before["a", "q0"]["ids"]) == 31


KEYS = st.lists(st.integers(0, 6) | st.none(), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=5), st.integers(1, 4))
def test_what_is_kept_is_what_stands_first(lists: list[tuple[list[Any], list[Any]]], depth: int) -> None:
    """Whatever is ranked or scored, tied or not."""
    sizes = [min(len(rank), len(score)) for rank, score in lists]
    numbers = [
        np.array([value for pair in lists for value in pair[at][: min(map(len, pair))]], np.float64) for at in (0, 1)
    ]
    hits = Hits(
        "",
        [f"q{i}" for i in range(len(lists))],
        np.cumsum([0, *sizes]),
        [f"d{i}" for i in range(sum(sizes))],
        rank=numbers[0],
        score=numbers[1],
    )
    run = Spilling(Slices(hits), depth)
    said = by_query(run.slices(NOTHING, Audit()))
    kept = by_query(run.look("", hits.queries, None, NOTHING))
    assert kept == {key: first(one, depth) for key, one in said.items()}


IDS = ["a", "é\n", "", "日本", "\ud800"]
VALUES = [None, "text\n", 2**70, 1.5, "\ud800"]


@pytest.mark.parametrize(
    "ids", [IDS, IDS[:3], ["a"], ["\n"], [""], [], pack(["a", "é" * 9]), pl.Series(["x", "y\n", "z"])]
)
def test_slices_come_back_as_they_were(ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_IN_MEMORY", -1)
    size = len(ids)
    other = Hits("s", ["q"], np.array([0, size]), ids, lines=np.array([3]), places=np.array([4]))
    hits = Hits(
        "s",
        ["q", "p\n"],
        np.array([0, size, size]),
        ids,
        score=np.arange(size) / 3,
        rank=np.full(size, np.nan),
        docs=ids,
        columns={"text": VALUES[:size], "tokens": [1] * size},
        latency={"a": np.array([1.0, np.nan])},
        fields={"usage": [object(), None]},
        lines=np.array([1, 2]),
        written=b"block",
        others={"raw": other},
        places=np.array([10, 20]),
    )
    run = HeldRun(Slices(hits), frozenset({"text", "tokens", "latency"}), RAW)
    list(run.slices(NOTHING, Audit()))
    (again,) = run.slices(TEXT | {"tokens"}, Audit(), RAW)
    for one, was in ((again, hits), (again.others["raw"], other)):
        assert type(one.ids) is type(was.ids)
        assert as_list(one.ids) == as_list(was.ids)
        assert (one.system, one.queries, one.columns) == (was.system, was.queries, was.columns)
        assert one.offsets.tolist() == was.offsets.tolist()
        assert one.lines is not None
        assert was.lines is not None
        assert one.lines.tolist() == was.lines.tolist()
        assert one.places is not None
        assert was.places is not None
        assert one.places.tolist() == was.places.tolist()
    assert by_query([again]) == by_query([hits])
    assert again.docs is not None
    assert as_list(again.docs) == as_list(ids)
    assert again.latency is hits.latency
    assert again.fields is hits.fields


@pytest.mark.parametrize("room", [64 << 20, 4_000, 0], ids=["memory", "both", "file"])
def test_a_held_run_is_read_once(packed: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_IN_MEMORY", room)
    monkeypatch.setattr("karat.formats.run_log._SLICE_HITS", 40)
    run, plain = HeldRun(read_run(packed), TEXT | {"latency"}, RAW), read_run(packed)
    PARSED.reset()
    said = by_query(run.slices(TEXT, Audit()))
    once = PARSED.bytes
    assert said == by_query(plain.slices(TEXT, Audit()))
    PARSED.reset()
    assert by_query(run.slices(TEXT, Audit())) == said
    bare = list(run.slices(frozenset({"latency"}), Audit(), RAW))
    assert by_query(bare) == {key: {n: v for n, v in hits.items() if n != "text"} for key, hits in said.items()}
    assert {stage for hits in bare for stage in hits.latency} == {"retrieve"}
    assert {"q5": "what is 5?"}.items() <= {
        query: text for hits in bare for query, text in zip(hits.queries, hits.fields["query"], strict=True)
    }.items()
    raw = run.lists("raw")
    assert PARSED.bytes == 0
    assert by_query(raw.slices(TEXT, Audit())) == by_query(plain.lists("raw").slices(TEXT, Audit()))
    PARSED.reset()
    assert by_query(run.look("b", ["q9", "q4"], None, TEXT)) == {("b", "q9"): said["b", "q9"]}
    assert PARSED.bytes == 0
    assert once > 0
    assert run.can_look
    assert run.provenance() == plain.provenance()


def test_a_held_run_that_is_asked_for_more_reads_again(packed: Path) -> None:
    run = HeldRun(read_run(packed), NOTHING)
    assert by_query(run.look("a", ["q0"], None, NOTHING))["a", "q0"]["ids"][0] == "d0#é0"
    assert by_query(run.look("a", ["q0"], None, TEXT))["a", "q0"]["text"][0] == "0\nof 0"
    assert ("b", "q1") in by_query(run.lists("raw").slices(NOTHING, Audit()))
    with pytest.raises(NoLists):
        list(
            HeldRun(read_run(packed), NOTHING, frozenset({"topk_original"}))
            .lists("topk_original")
            .slices(TEXT, Audit())
        )


def test_a_pass_that_was_left_is_not_held() -> None:
    hits = [Hits("", [f"q{i}"], np.array([0, 1]), ["a"]) for i in range(3)]
    run = Slices(*hits)
    held = HeldRun(run, NOTHING)
    next(held.slices(NOTHING, Audit()))
    audit = Audit()
    for _ in range(2):
        audit = Audit()
        assert [hits.queries for hits in held.slices(NOTHING, audit)] == [["q0"], ["q1"], ["q2"]]
    assert run.passes == 2
    assert audit["empty_results"] == 2


@pytest.mark.parametrize("wrap", [lambda run: Spilling(run, 3), lambda run: HeldRun(run, NOTHING, RAW)])
def test_scattered_runs_are_grouped_first(wrap: Any) -> None:
    run = wrap(Scattered(Hits("", ["q"], np.array([0, 1]), ["a"])))
    with pytest.raises(Ungrouped):
        list(run.slices(NOTHING, Audit()))
    (hits,) = run.grouped().slices(NOTHING, Audit())
    assert hits.ids == ["a"]


@pytest.mark.parametrize("lists", [False, True])
def test_parquet_can_be_looked_at(lists: bool, tmp_path: Path) -> None:
    rows = [(f"q{q}", f"d{r}", float(-r)) for q in range(9) for r in range(30 if q % 2 else 3)]
    frame = pl.DataFrame(rows, schema=["query_id", "chunk_id", "score"], orient="row")
    if lists:
        frame = frame.group_by("query_id", maintain_order=True).agg(topk=pl.struct("chunk_id", "score"))
    frame.write_parquet(tmp_path / "run.parquet")
    run = Spilling(read_run(tmp_path / "run.parquet"), 5)
    PARSED.reset()
    found = list(run.slices(NOTHING, Audit()))
    answers = looked_at(run, found, {"q1", "q2"}, NOTHING)
    assert {query: hits["ids"] for (_, query), hits in answers.items()} == {
        "q1": [f"d{r}" for r in range(5)],
        "q2": ["d0", "d1", "d2"],
    }
    assert PARSED.bytes <= 1.01 * (tmp_path / "run.parquet").stat().st_size


def test_a_full_disk_is_an_error_that_says_what_to_do(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def seek(self, place: int) -> None: ...

        def write(self, written: bytes) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    with pytest.raises(KaratError) as caught:
        list(Spilling(read_run(packed), 5).slices(NOTHING, Audit()))
    assert "TMPDIR" in (caught.value.hint or "")


@pytest.mark.parametrize("kind", ["folder", "delta", "pattern", "zst"])
def test_whatever_has_no_offsets_can_be_looked_at(kind: str, tmp_path: Path) -> None:
    rows = [(f"q{q}", f"d{r}", float(-r)) for q in range(4) for r in range(3)]
    frame = pl.DataFrame(rows, schema=["query_id", "chunk_id", "score"], orient="row")
    path = tmp_path / "run"
    if kind == "delta":
        pytest.importorskip("deltalake")
        frame.write_delta(path)
    elif kind == "zst":
        zstandard = pytest.importorskip("zstandard")
        lines = "".join(f"{q} Q0 {i} 1 {s} tag\n" for q, i, s in rows)
        path.write_bytes(zstandard.compress(lines.encode()))
    else:
        path.mkdir()
        frame[:6].write_parquet(path / "a.parquet")
        frame[6:].write_parquet(path / "b.parquet")
    plain = read_run(f"{path}/*.parquet" if kind == "pattern" else path)
    assert not plain.can_look
    run = Spilling(plain, 5)
    found = list(run.slices(NOTHING, Audit()))
    queries = {"q1", "q3"}
    expected = {key: hits for key, hits in by_query(found).items() if key[1] in queries}
    assert looked_at(run, found, queries, NOTHING) == expected
    assert len(expected) == 2
