"""Lines read as columns say what lines decoded one by one say, or are not read so at all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import plainly

from karat import KaratError, read_gold, read_run
from karat.data.audit import Audit
from karat.data.hits import METADATA, OPTIONAL_COLUMNS, OTHER_LISTS, Hits, Run, Ungrouped
from karat.data.ids import as_list
from karat.files.native import native
from karat.formats import records
from karat.formats.gold_parts import ITEMS
from karat.formats.gold_records import GoldEntry
from karat.formats.records import RecordDecoder
from karat.formats.run_log import _TOPK, _with_values
from karat.formats.run_records import SlimRecord, hits_record, slim_record

pytestmark = pytest.mark.skipif(native() is None, reason="no native reader: it is made by `make native`")

LATENCY = frozenset({"latency"})
OTHERS = frozenset(OTHER_LISTS)
VALUES = OPTIONAL_COLUMNS - {METADATA}


def run_lines(size: int = 30) -> list[bytes]:
    """A log as it is written every day."""
    entries = [
        {
            "query_id": f"q{i}",
            "system": "a",
            "k_raw": 50,
            "topk": [{"rank": r, "chunk_id": f"d{r}#p{i}", "score": r / 7, "text": "olá"} for r in range(1, 2 + i % 5)],
            "latency_ms": {"retrieve": i / 4, "rerank": i},
            "index_version": f"v{i % 3}",
            "chunker": {"name": "recursive", "size": 600},
            "cached": i % 2 == 0,
            "note": f"n{i}",
        }
        for i in range(size)
    ]
    return [json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in entries]


def list_lines(size: int = 30) -> list[bytes]:
    """A log with the lists before reranking and before rewriting, which are of any length in each line."""
    raw = [[{"rank": r, "chunk_id": f"r{r}", "score": r / 3} for r in range(1, 1 + i * 7 % 5)] for i in range(size)]
    original = [[{"chunk_id": f"o{r}"} for r in range(1 + i % 3)] for i in range(size)]
    entries = [json.loads(line) for line in run_lines(size)]
    entries = [
        {"query_id": e["query_id"], "topk_original": o, "x": 1, "topk": e["topk"], "y": "z", "raw": r, **e}
        for e, r, o in zip(entries, raw, original, strict=True)
    ]
    return [json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in entries]


def column_lines(size: int = 30) -> list[bytes]:
    """A log with columns of hits that are read on request: a version of any kind, and values that are missing."""
    versions = ["2025-01-01", 7, 1.5, None, "v\\2"]
    entries = [
        {
            "query_id": f"q{i}",
            "topk": [
                {"chunk_id": f"d{r}", "text": f'a "b"\n{r}é', "doc_version": versions[(i + r) % 5], "rank": r + 1}
                | ({"source": "web"} if i % 3 else {})
                | ({"tokens": r * 10} if r % 2 else {})
                for r in range(1 + i % 4)
            ],
            "raw": [{"chunk_id": f"r{i}", "text": ""}, "bare"] if i % 2 else None,
        }
        for i in range(size)
    ]
    return [json.dumps(entry, ensure_ascii=i % 2 == 0).encode() + b"\n" for i, entry in enumerate(entries)]


def gold_lines(size: int = 30) -> list[bytes]:
    entries = [
        {
            "query_id": f"q{i}",
            "query": f"what is {i}?",
            "gold": [{"chunk_id": f"d{j}#p{i}", "grade": j % 3} for j in range(i % 4)],
            "k": 3 + i % 2,
            "segment": f"s{i % 4}",
            "evidence": ["x", f"y{i}"],
            "tags": {"language": "pt"},
        }
        for i in range(size)
    ]
    return [json.dumps(entry).encode() + b"\n" for entry in entries]


def outcome(lines: list[bytes], kind: str, path: Path) -> Any:
    """All that the reader says of a file, or what it complains of."""
    path.write_bytes(b"".join(lines))
    try:
        if kind == "gold":
            gold = read_gold(path, format="gold")
            columns = (gold.offsets, gold.grades, gold.kinds, gold.k, gold.no_answer)
            return [gold.queries, gold.ids, gold.fields, gold.tags, *(c.tolist() for c in columns)]
        run = read_run(path, format="run-log")
        found: list[Any] = []
        for hits in slices(
            run, OTHERS if kind in ("lists", "columns") else frozenset(), VALUES if kind == "columns" else LATENCY
        ):
            for one in (hits, *(hits.others[name] for name in sorted(hits.others))):
                numbers = [one.offsets, one.score, one.rank, one.lines, one.places, *one.latency.values()]
                found += [sorted((name, repr(values)) for name, values in one.columns.items())]
                found += [one.system, one.queries, as_list(one.ids), one.fields, sorted(one.latency)]
                found += [None if column is None else repr(column.tolist()) for column in numbers]
            found.append(sorted(hits.others))
        return [found, run.provenance()]
    except KaratError as error:
        return str(error)


def slices(run: Run, lists: frozenset[str], columns: frozenset[str]) -> list[Hits]:
    try:
        return list(run.slices(columns, Audit(), lists))
    except Ungrouped:  # lines of one query must be compared
        return list(run.grouped().slices(columns, Audit(), lists))


def both_ways(lines: list[bytes], kind: str, path: Path) -> tuple[Any, Any]:
    """By the native reader, in one block and in many, which must not differ; and by the plain one."""
    fast = outcome(lines, kind, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_BATCH_BYTES", 600)
        patch.setattr(records, "_COLUMN_BATCHES", 1)
        assert outcome(lines, kind, path) == fast
    return fast, plainly(lambda: outcome(lines, kind, path))


DECODERS = {
    "run": (SlimRecord, _TOPK, run_lines),
    "lists": (slim_record(OTHERS), _TOPK, list_lines),
    "columns": (hits_record(OTHERS), _with_values(VALUES), column_lines),
    "gold": (GoldEntry, ITEMS, gold_lines),
}


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_file_of_one_shape_does_not_fall_back(kind: str, end: bytes) -> None:
    struct, lists, lines = DECODERS[kind]
    table = RecordDecoder(struct, lists=lists).read_lines(b"".join(lines()).removesuffix(b"\n") + end)  # type: ignore[type-var]
    assert table is not None
    assert len(table) == 30
    assert len(table.columns) == (3 if kind in ("lists", "columns") else 1)
    assert table.column("query_id") == [f"q{i}" for i in range(30)]


@pytest.mark.parametrize("kind", DECODERS)
def test_it_says_what_the_decoder_says(kind: str, tmp_path: Path) -> None:
    fast, slow = both_ways(DECODERS[kind][2](), kind, tmp_path / "lines.jsonl")
    assert fast == slow
    assert not isinstance(fast, str)


PIECES = [b"", b"null", b"1", b"01", b"1.", b".5", b"-", b"--1", b'"', b'"a"', b"\\n", b"\\", b",", b"{}", b"[]", b"{"]
PIECES += [
    b"}",
    b"]",
    b":",
    b" ",
    b"\t",
    b"\x01",
    b"\x00",
    b"\xff",
    b"\r",
    b"\n",
    b"\n\n",
    b"true",
    b"1e999",
    b"x" * 200,
]
PIECES += [b'"query_id":"q1",', b'"system":"b",', b'"topk":[],', b'"gold":[],', b'"new":1,', "日本".encode()]
PIECES += [b'"raw":[],', b'"raw": null,', b'}], "raw": [{', b'"topk_original": [{}],']


@pytest.mark.parametrize("kind", DECODERS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_whatever_is_changed_both_ways_agree(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A piece of a file is replaced by another: the same content, or the same complaint with the same line."""
    lines = DECODERS[kind][2](6)
    place = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[place])))
    end = data.draw(st.integers(at, min(len(lines[place]), at + 8)))
    lines[place] = lines[place][:at] + data.draw(st.sampled_from(PIECES)) + lines[place][end:]
    fast, slow = both_ways(lines, kind, tmp_path_factory.getbasetemp() / f"{kind}.jsonl")
    assert fast == slow


NUMBERS = st.one_of(
    st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?", fullmatch=True),
    st.floats(0, 1).map(repr),
    st.sampled_from(["0", "-0", "0.0", "-0.5", "1e3", "5E-1", "1.50", "9999999", "99999999", "12345678.5"]),
)
FIELDS = st.one_of(
    st.tuples(st.sampled_from(["rank"]), st.one_of(st.integers(-3, 10**16).map(str), st.just("null"))),
    st.tuples(st.sampled_from(["score", "other"]), st.one_of(NUMBERS, st.just("null"))),
    st.tuples(st.sampled_from(["doc_id", "chunk_id"]), st.one_of(st.integers(0, 10**9).map(str), st.just('"d#1"'))),
    st.tuples(
        st.sampled_from(["text", "title"]),
        st.one_of(st.text('a"\\\né \x01', max_size=40).map(json.dumps), st.sampled_from(["null", "true", "[1]", "{}"])),
    ),
)
OBJECTS = st.lists(FIELDS, max_size=5, unique_by=lambda pair: pair[0]).map(
    lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in [("id", '"x"'), *pairs]) + "}"
)


@settings(max_examples=60, deadline=None)
@given(objects=st.lists(st.tuples(OBJECTS, st.integers(1, 4)), min_size=1, max_size=8))
def test_objects_whose_fields_and_values_change(
    objects: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Several alike are read in a shorter way."""
    hits = [text.replace('"x"', f'"x{i}{j}"') for i, (text, times) in enumerate(objects) for j in range(times)]
    lines = [f'{{"query_id":"q{i}","topk":[{",".join(hits)}],"note":"{"n" * 70}"}}\n'.encode() for i in range(3)]
    fast, slow = both_ways(lines, "run", tmp_path_factory.getbasetemp() / "objects.jsonl")
    assert fast == slow


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"k_raw": 50', b'"k_raw": 50.5'),
        (b'"k_raw": 50', b'"k_raw": 050'),
        (b'"retrieve": 1.0', b'"retrieve": "1"'),
        (b'"retrieve": 1.0', b'"retrieve": -1.0'),
        (b'"retrieve": 1.0', b'"retrieve": NaN'),
        (b'"rank": 1', b'"rank": 01'),
        (b'"rank": 1', b'"rank": 1.'),
        (b'"rank": 1', b'"rank": .1'),
        (b'"rank": 1', b'"rank": --1'),
        (b'"score": 0.14285714285714285', b'"score": 0.14285714285714285,1'),
        (b"v1", b"v\x011"),
        (b"v1", b"v\xff"),
        (b"q4", b"q3"),
        (b', "note": "n4"', b""),
        (b'"note": "n4"', b'"note": "n4", "note": "n5"'),
        (b"n4", b'n4"'),
        (b"}\n", b"} \n"),
        (b"}\n", b"}\r\n"),
        (b'"note": "n4"}', b'"note": "n4"'),
        (b'"rerank": 4}', b'"rerank": 4}null'),
        (b'"rerank": 4}', b'"rerank": 4}{}'),
        (b'{"retrieve": 1.0, "rerank": 4}', b""),
    ],
)
def test_mistakes_and_oddities_are_told_as_ever(old: bytes, new: bytes, tmp_path: Path) -> None:
    lines = run_lines()
    assert old in lines[4]
    lines[4] = lines[4].replace(old, new)
    fast, slow = both_ways(lines, "run", tmp_path / "run.jsonl")
    assert fast == slow


def test_two_values_in_one_line_do_not_make_up_for_none_in_another(tmp_path: Path) -> None:
    lines = run_lines()
    lines[4] = lines[4].replace(b'"rerank": 4}', b'"rerank": 4}{}')
    lines[5] = lines[5].replace(b'{"retrieve": 1.25, "rerank": 5}', b"")
    fast, slow = both_ways(lines, "run", tmp_path / "run.jsonl")
    assert fast == slow
    assert "line 5" in fast or ":5" in fast


def test_lists_that_nobody_asked_for_are_passed_over() -> None:
    table = RecordDecoder(SlimRecord, lists=_TOPK).read_lines(b"".join(list_lines()))
    assert table is not None
    assert list(table.columns) == ["topk"]
    assert "raw" not in table


@pytest.mark.parametrize("odd", [b'"raw": null', b'"raw": ["a"]', b'"raw": [{"id": 1}]', b'"other": 1'])
def test_lists_of_which_some_are_odd_are_decoded(odd: bytes, tmp_path: Path) -> None:
    lines = list_lines()
    lines[4] = re.sub(rb'"raw": \[[^]]*\]', odd, lines[4])
    fast, slow = both_ways(lines, "lists", tmp_path / "run.jsonl")
    assert fast == slow
    assert not isinstance(fast, str)


@pytest.mark.parametrize(
    ("odd", "field"),
    [
        (b'[{"chunk_id": "a"}, {"chunk_id": "b", "score": "high"}]', "raw[1].score"),
        (b'[{"chunk_id": "a"}, {"rank": 1}]', "raw[1].chunk_id"),
        (b'[{"chunk_id": "a"}, {"chunk_id": ""}]', "raw[1].chunk_id"),
        (b'[{"chunk_id": "a", "score": 1}, {"chunk_id": "b", "score": 1e999}]', "raw[1].score"),
        (b"1", "raw"),
    ],
)
@pytest.mark.parametrize("hits", ["topk", "raw"])
def test_mistakes_in_other_lists_name_their_field(odd: bytes, field: str, hits: str, tmp_path: Path) -> None:
    lines = list_lines()
    lines[4] = re.sub(rb'"raw": \[[^]]*\]', b'"raw": ' + odd, lines[4])
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines))
    with pytest.raises(KaratError) as caught:
        list(read_run(path, hits=hits).slices(frozenset(), Audit(), OTHERS))  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.line) == (field, 5)


def test_files_that_are_too_odd_are_not_tried_for_ever() -> None:
    decoder = RecordDecoder(SlimRecord, lists=_TOPK)
    lines = run_lines()
    odd = b"".join(lines[:5]) + lines[5].replace(b'"d1#p5"', b'"d\\u0031#p5"')
    assert all(decoder.read_lines(odd) is None for _ in range(3))
    assert decoder.read_lines(b"".join(lines)) is None


@pytest.mark.parametrize("key", ["chunk_id", "id"])
def test_ids_that_grow_from_block_to_block(key: str, tmp_path: Path) -> None:
    """Ids are packed in as many bytes as the last block needed; longer ones need more, and some too many."""
    names = [f"{'x' * size}{number}" for number, size in enumerate([1, 2, 9, 3, 40, 7, 127, 5, 130, 6, 8, 300, 4])]
    entries = [{"query_id": f"q{i}", "topk": [{key: name}, {key: "é#1"}, {key: i}]} for i, name in enumerate(names)]
    fast, slow = both_ways([json.dumps(entry).encode() + b"\n" for entry in entries], "run", tmp_path / "lines.jsonl")
    assert fast == slow
    assert not isinstance(fast, str)


def test_fields_that_are_alike_for_some_lines_only(tmp_path: Path) -> None:
    """What all lines so far had alike is compared as one piece; it may change, vanish and come back at any line."""
    entries = [json.loads(line) for line in run_lines(40)]
    for at, entry in enumerate(entries):
        entry["system"] = "b" if at == 11 else "a"
        entry["k_raw"] = 5 if at in (7, 8) else 501 if at == 21 else 50
        entry["note"] = 'a "quote"' if at == 14 else "é" * at
        entry["latency_ms"] = {9: None, 16: {}, 17: {"rerank": 1, "new": 2.5}, 23: {"retrieve": 1e-9}}.get(
            at, entry["latency_ms"]
        )
        if at in (3, 4, 30):
            del entry["chunker"]
        if at == 26:
            entry = entries[at] = dict(reversed(entry.items()))
    for gap in (None, (",", ":"), (" , ", " : ")):
        lines = [json.dumps(entry, separators=gap).encode() + b"\n" for entry in entries]
        fast, slow = both_ways(lines, "run", tmp_path / "lines.jsonl")
        assert fast == slow
        assert not isinstance(fast, str)
