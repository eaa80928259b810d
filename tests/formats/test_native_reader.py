"""The native reader says what the plain one says, or leaves a block to it; and it is never needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import choose_reader, plainly
from refusals import refused

import karat
from karat import KaratError, evaluate, read_gold, read_run
from karat.data.audit import Audit
from karat.data.ids import HashTable, Owners, Seen, as_list, hashes, match, may_repeat
from karat.data.packed_ids import cut_packed, hash_cut, hash_texts, pack
from karat.errors import InputError
from karat.files.native import build, native, reader_name
from karat.formats.trec_rows import read_rows
from karat.results.save import saved_form

needs_native = pytest.mark.skipif(native() is None, reason="no native reader: it is made by `make native`")
needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler")


# ---- numbers ----

REST = b"z Q0 z 1 0.5 tag\n" * 300  # after so many bytes, many lines are looked at together
WRITTEN = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1).map(repr),
    st.from_regex(r"[0-9]{0,5}\.[0-9]{1,5}", fullmatch=True),
    st.tuples(st.integers(0, 10**21), st.integers(0, 24)).map(lambda n: f"{n[0]}.{'0' * (n[1] // 2)}{n[1]}"),
    st.from_regex(r"-?[0-9]{1,22}(\.[0-9]{1,24})?", fullmatch=True),
    st.sampled_from(
        ["9007199254740993", "9007199254740992.5", "18446744073709551615", "-0", "-0.0", "1e5", ".5", "5."]
    ),
)


@needs_native
@settings(max_examples=100)
@given(st.lists(WRITTEN, min_size=1, max_size=20))
def test_every_number_is_rounded_once(numbers: list[str]) -> None:
    block = "".join(f"q 0 d{i} {number}\n" for i, number in enumerate(numbers)).encode()
    rows = read_rows(block, columns=4, exactly=True, number=3)
    assert rows is not None
    assert [repr(n) for n in rows.numbers.tolist()] == [repr(float(n)) for n in numbers]
    block = "".join(f"query{i // 3} Q0 d{i} 1 {number} tag\n" for i, number in enumerate(numbers)).encode()
    rows = read_rows(block + REST, columns=5, number=4)
    assert rows is not None
    assert [repr(n) for n in rows.numbers[: len(numbers)].tolist()] == [repr(float(n)) for n in numbers]


# ---- TREC ----


def run_text(size: int) -> list[bytes]:
    return [f"q{i // 4} Q0 d{i % 7}é {i % 4 + 1} {9 - i % 4 + i / 7} tag\n".encode() for i in range(size)]


def qrels_text(size: int) -> list[bytes]:
    return [f"q{i // 3} 0 d{i % 7}é {i % 3}\n".encode() for i in range(size)]


def run_outcome(path: Path) -> Any:
    try:
        found: list[Any] = []
        for hits in read_run(path, format="trec-run").slices(frozenset(), Audit()):
            numbers = [None if n is None else n.tolist() for n in (hits.offsets, hits.score, hits.places)]
            found.append([hits.system, hits.queries, as_list(hits.ids), *numbers])
        return found
    except KaratError as error:
        return str(error)


def qrels_outcome(path: Path) -> Any:
    try:
        gold = read_gold(path, format="trec-qrels")
        return [gold.queries, gold.ids, gold.grades.tolist(), gold.offsets.tolist(), repr(gold.audit)]
    except KaratError as error:
        return str(error)


PIECES = [
    b"",
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"  ",
    b"\x0b",
    b"\x00",
    b"\x01",
    b"\xff",
    b"\xc3",
    b"-",
    b"+",
    b".",
]
PIECES += [b"1e999", b"1e5", b"nan", b"1_0", b"x" * 140, b" extra", b"q0 Q0 late 1 2 tag\n", b"q0 0 late 1\n", b"0x1p3"]
PIECES += [
    "٣".encode(),
    "\u00a0".encode(),
    "\u2028".encode(),
    b"3.4e38",
    b"3.5e38",
    b"340282356779733661637539395458142568448",
]


@needs_native
@pytest.mark.parametrize("kind", ["run", "qrels"])
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_trec_files_are_the_same_whatever_is_changed(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = (run_text if kind == "run" else qrels_text)(12)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(lines) - 1))
        at = data.draw(st.integers(0, len(lines[place])))
        end = data.draw(st.integers(at, min(len(lines[place]), at + 8)))
        lines[place] = lines[place][:at] + data.draw(st.sampled_from(PIECES)) + lines[place][end:]
    path = tmp_path_factory.getbasetemp() / f"native.{kind}"
    path.write_bytes(b"".join([*lines, REST if kind == "run" and data.draw(st.booleans()) else b""]))
    outcome = run_outcome if kind == "run" else qrels_outcome
    assert outcome(path) == plainly(lambda: outcome(path))


@needs_native
def test_everyday_white_space_does_not_fall_back() -> None:
    block = b"\n q1  Q0\td1 1 2.5 tag more\r\n\nq1 Q0 d2 2 2.25\nq2 Q0 d1 1 1e-3 tag"
    rows = read_rows(block, columns=5, number=4)
    assert rows is not None
    assert (rows.queries, rows.counts.tolist(), rows.lines.tolist()) == (["q1", "q2"], [2, 1], [1, 4])
    assert as_list(rows.ids) == ["d1", "d2", "d1"]
    assert rows.numbers.tolist() == [2.5, 2.25, 1e-3]
    assert [block[start:].lstrip()[:2] for start in rows.starts.tolist()] == [b"q1", b"q2"]


# ---- run logs and gold ----

GOLD = [
    {"query_id": f"q{i}", "gold": [{"chunk_id": f"d{j}#p1", "grade": j % 3} for j in range(i % 4)]} for i in range(50)
]
RUN = [
    {
        "query_id": f"q{i}",
        "system": "ab"[i % 2],
        "topk": [{"rank": r, "chunk_id": f"d{(r * 7 + i) % 9}#p1", "score": 1 / r} for r in range(1, 8)],
        "latency_ms": {"retrieve": i},
        "index_version": f"v{i % 3}",
        "seen": i,
    }
    for i in range(50)
]


def written(path: Path, entries: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@needs_native
@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"topk": [{"rank": 1, "chunk_id": "d1#p1"}]},
        {"topk": ["d1#p1", "d2#p1"]},
        {"topk": []},
        {"topk": [{"chunk_id": 5}, {"chunk_id": "d1#p1"}]},
        {"topk": [{"chunk_id": "d1#p1", "doc_id": "d1"}, {"chunk_id": "d2#p1"}]},
        {"topk": [{"chunk_id": "d1#p1", "score": None}, {"chunk_id": "d2#p1", "score": 1e-7}]},
        {"topk": [{"chunk_id": 'd"1', "text": 'a\\"\n\u2028'}]},
        {"latency_ms": None, "query": 'was "ist" das?\n', "new": [1]},
        {"latency_ms": {"retrieve": None, "rerank": 1e-30}},
        {"latency_ms": {}},
        {"error": "timeout", "route": ["a"]},
    ],
)
def test_an_evaluation_is_the_same_either_way(odd: dict[str, Any], tmp_path: Path) -> None:
    run = written(tmp_path / "run.jsonl", [*RUN[:-1], {**RUN[-1], **odd}])
    gold = written(tmp_path / "gold.jsonl", GOLD)
    names = ["recall@3", "mrr", "map", "ndcg@5", "latency_p50", "judged@5", "distinct_docs@5"]

    def both() -> list[Any]:
        return [msgspec.to_builtins(saved_form(evaluate(run, gold, names, system=s))) for s in "ab"]

    assert both() == plainly(both)


@needs_native
@pytest.mark.parametrize(
    "odd", [{}, {"gold": ["a", "b"]}, {"gold": {"a": 2}}, {"gold": [{"id": 7}]}, {"gold": [{"chunk_id": "a"}]}]
)
def test_gold_is_the_same_either_way(odd: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "gold.jsonl", [*GOLD[:-1], {**GOLD[-1], **odd}])
    fast, slow = read_gold(path), plainly(lambda: read_gold(path))
    for name in ("queries", "ids", "fields", "tags"):
        assert getattr(fast, name) == getattr(slow, name)
    for name in ("offsets", "grades", "kinds", "k", "no_answer"):
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()


@needs_native
@pytest.mark.parametrize("key", ["chunk_id", "id", "doc_id", "nothing"])
def test_every_way_to_name_an_item(key: str, tmp_path: Path) -> None:
    run = written(tmp_path / "run.jsonl", [{"query_id": "q", "topk": [{key: "a"}, {key: "b"}]}])
    gold = written(tmp_path / "gold.jsonl", [{"query_id": "q", "gold": [{key: "b"}]}])

    def outcome() -> list[Any]:
        found: list[Any] = []
        try:
            found += [as_list(slice_.ids) for slice_ in read_run(run).slices(frozenset(), Audit())]
        except KaratError as error:
            found.append(str(error))
        try:
            read = read_gold(gold)
            found += [read.ids, read.kinds.tolist(), read.grades.tolist()]
        except KaratError as error:
            found.append(str(error))
        return found

    assert outcome() == plainly(outcome)


# ---- files that change ----


@pytest.mark.parametrize("pure", ["0", "1"])
@pytest.mark.parametrize("kind", ["run.jsonl", "run.trec"])
def test_a_file_that_shrinks_while_it_is_read_is_refused(
    kind: str, pure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is cut between two lines, and what is left looks whole."""
    choose_reader(monkeypatch, pure)
    monkeypatch.setattr("karat.formats.records._BATCH_BYTES", 1000)
    monkeypatch.setattr("karat.formats.run_log._SLICE_HITS", 50)
    monkeypatch.setattr("karat.formats.trec._SMALL", 0)
    monkeypatch.setattr("karat.formats.trec._BLOCK", 1000)
    if kind == "run.jsonl":
        lines = [json.dumps({**RUN[i % 50], "query_id": f"q{i}", "system": "a"}).encode() + b"\n" for i in range(2000)]
    else:
        lines = [f"q{i // 4} Q0 d{i} 1 {i} tag\n".encode() for i in range(20_000)]
    path = tmp_path / kind
    path.write_bytes(b"".join(lines))
    slices = read_run(path).slices(frozenset(), Audit())
    next(slices)
    os.truncate(path, len(b"".join(lines[: len(lines) // 2])))
    with refused("changed-while-read", InputError):
        list(slices)


# ---- ids ----


@needs_native
@given(st.lists(st.text("ab\0é", max_size=18), max_size=40), st.lists(st.text("ab\0é", max_size=18), max_size=40))
def test_hashes_and_look_ups_are_the_same_either_way(ids: list[str], table: list[str]) -> None:
    offsets = np.array([0, len(ids) // 2, len(ids)])

    def found() -> list[Any]:
        hashed, listed = hashes(pack(ids)), hashes(pack(list(dict.fromkeys(table))))
        rows, at = HashTable(listed).find(hashed)
        return [hashed.tolist(), rows.tolist(), at.tolist(), may_repeat(pack(ids), offsets)]

    assert found() == plainly(found)


@needs_native
@given(
    st.lists(st.text("ab#\0\né\ud800", max_size=20) | st.integers(100, 5000).map(lambda size: "é#" * size), max_size=20)
)
def test_texts_and_their_documents_hash_the_same_either_way(texts: list[str]) -> None:
    packed = pack(texts)
    assert hash_texts(texts).tolist() == plainly(lambda: hash_texts(texts)).tolist() == hashes(packed).tolist()
    assert hash_cut(packed, ord("#")).tolist() == hashes(cut_packed(packed, ord("#"))).tolist()


@needs_native
@given(st.lists(st.lists(st.integers(0, 30), max_size=30), max_size=6))
def test_what_was_seen_is_the_same_either_way(parts: list[list[int]]) -> None:
    def told() -> list[bool]:
        seen = Seen()
        return [seen.add(part) for part in parts]

    assert told() == plainly(told)


@needs_native
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 40), max_size=30), st.lists(st.integers(0, 40), max_size=20)), max_size=5
    )
)
def test_items_of_a_query_are_found_the_same_either_way(lists: list[tuple[list[int], list[int]]]) -> None:
    """Queries with few items and with many; some items are left out."""
    hits, items = ([list(dict.fromkeys(one[side])) for one in lists] for side in (0, 1))
    bounds = [np.append(0, np.cumsum([len(part) for part in side])) for side in (hits, items)]
    hashed, table = (np.array([x for part in side for x in part], np.uint64) for side in (hits, items))
    left_out = table % 5 == 0
    rows, at = match(hashed, Owners(bounds[0], np.arange(len(lists))), table, bounds[1], left_out)
    wanted = [
        (row, item)
        for q in range(len(lists))
        for row in range(bounds[0][q], bounds[0][q + 1])
        for item in range(bounds[1][q], bounds[1][q + 1])
        if hashed[row] == table[item] and not left_out[item]
    ]
    assert list(zip(rows.tolist(), at.tolist(), strict=True)) == wanted


# ---- the library ----


def started(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


NAME = "from karat.files.native import reader_name; print(reader_name())"


def test_the_version_says_which_reader_there_is() -> None:
    done = subprocess.run([sys.executable, "-m", "karat", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"karat, version {karat.__version__}, {reader_name()}\n"
    assert started(NAME, KARAT_PURE="1") == "plain reader"


def test_a_library_that_is_none_is_ignored(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF nothing")
    assert started(NAME, KARAT_READER=str(broken)) == "plain reader"
    assert started(NAME, KARAT_READER=str(tmp_path / "missing.so")) == "plain reader"


@needs_compiler
def test_a_library_of_another_source_is_ignored(tmp_path: Path) -> None:
    fresh, stale = tmp_path / "fresh.so", tmp_path / "stale.so"
    quick = ("-std=c11", "-O0", "-shared", "-fPIC")  # optimizing takes seconds
    assert build.compile_reader(fresh, quick) is None
    with pytest.MonkeyPatch.context() as patch:
        other = tmp_path / "reader.c"
        other.write_bytes(build.SOURCES[0].read_bytes() + b"/* changed */\n")
        patch.setattr(build, "SOURCES", [other, *build.SOURCES[1:]])
        assert build.compile_reader(stale, quick) is None
    assert started(NAME, KARAT_READER=str(fresh)) == "native reader"
    assert started(NAME, KARAT_READER=str(stale)) == "plain reader"


def test_without_a_compiler_there_is_no_library_and_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert build.compile_reader(tmp_path / "none.so") == "no C compiler"
    assert list(tmp_path.iterdir()) == []
