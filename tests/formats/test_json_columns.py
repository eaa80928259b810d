"""Columns read at once equal what decoding every object gives, or are not given at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat import KaratError, evaluate, read_gold, read_run
from karat.data.audit import Audit
from karat.data.ids import as_list
from karat.formats.base import Source
from karat.formats.json_columns import read_columns
from karat.formats.records import RecordDecoder, column, extra_columns, read_column_batches
from karat.formats.run_log import _RANKED, _TOPK
from karat.formats.run_records import RankedId, SlimRecord
from karat.results.save import saved_form

FIELDS = ("rank", "chunk_id", "score", "doc_id", "id")


def hits(columns: Any) -> list[tuple[Any, ...]]:
    size = int(columns.counts.sum())
    lists = []
    for name in FIELDS:
        values = columns.values.get(name)
        is_number = isinstance(values, np.ndarray) and values.dtype == np.float64
        lists.append([None] * size if values is None else values.tolist() if is_number else as_list(values))
    return list(zip(*lists, strict=True))


def decoded(lists: list[bytes]) -> list[tuple[Any, ...]]:
    found = [msgspec.json.decode(text, type=list[RankedId]) for text in lists]
    return [tuple(getattr(hit, name) for name in FIELDS) for of_list in found for hit in of_list]


WHOLE = st.integers(-3, 10**9).map(str)
NUMBERS = st.one_of(
    WHOLE,
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000, 1000, places=3).map(str),
    st.sampled_from(
        ["0.1", "-0.0", "-0", "1e5", "2E-3", "1e999", "0.30000000000000004", "12345678", "1234567.8", "9" * 25]
    ),
)
TEXTS = st.one_of(
    st.text("ab#_1.,:{}[] é", max_size=20), st.sampled_from(["", "x" * 128, "y" * 129, "doc_12#p3", "日本"])
)
VALUES = {"rank": WHOLE, "score": NUMBERS, "extra": NUMBERS}
SHAPES = st.lists(st.sampled_from([*FIELDS, "extra", "text"]), unique=True, min_size=1)
SPACES = st.sampled_from(["", " ", "  "])


@st.composite
def same_shape(draw: st.DrawFn) -> list[bytes]:
    """Lists of objects as one program writes them."""
    names, space, comma = draw(SHAPES), draw(SPACES), draw(SPACES)

    def value(name: str) -> str:
        return draw(VALUES[name]) if name in VALUES else json.dumps(draw(TEXTS), ensure_ascii=False)

    def one() -> str:
        return "{" + f",{comma}".join(f'"{name}":{space}{value(name)}' for name in names) + "}"

    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    return [("[" + f",{comma}".join(one() for _ in range(size)) + "]").encode() for size in sizes]


@settings(max_examples=300)
@given(same_shape())
def test_columns_equal_decoded_objects(lists: list[bytes]) -> None:
    columns = read_columns(lists, _RANKED)
    if columns is not None:
        assert hits(columns) == decoded(lists)
        assert columns.counts.tolist() == [len(msgspec.json.decode(text)) for text in lists]


@settings(max_examples=500)
@given(same_shape(), st.data())
def test_whatever_is_changed_columns_never_differ(lists: list[bytes], data: st.DataObject) -> None:
    """One piece of the JSON is replaced by another: as long as it is JSON, the columns are right or not given."""
    place = data.draw(st.integers(0, len(lists) - 1))
    text = lists[place]
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(len(text), at + 6)))
    piece = data.draw(
        st.sampled_from([b"", b"{}", b"null", b"1", b'"', b",", b'"a"', b"{},", b"[]", b"\\n", b" ", b"-", b"."])
    )
    lists[place] = text[:at] + piece + text[end:]
    try:
        msgspec.json.decode(lists[place], type=msgspec.Raw)  # checks that it is JSON, and no more
    except msgspec.DecodeError:
        return
    columns = read_columns(lists, _RANKED)
    if columns is not None:
        assert hits(columns) == decoded(lists)


def test_hits_of_one_shape_are_read_as_columns() -> None:
    """A log as it is written every day must not fall back."""
    log = [
        [{"rank": r, "chunk_id": f"doc_{r}#p1", "score": r / 7, "text": "olá"} for r in range(1, n)] for n in (4, 1, 9)
    ]
    lists = [json.dumps(topk, ensure_ascii=False).encode() for topk in log]
    columns = read_columns(lists, _RANKED)
    assert columns is not None
    assert columns.counts.tolist() == [3, 0, 8]
    assert hits(columns) == decoded(lists)


@pytest.mark.parametrize(
    "lists",
    [
        ['[{"rank":1}]', '[{"rank":null}]'],
        ['[{"rank":1}]', '[{"rank":1.5}]'],
        ['[{"rank":1}]', '{"rank":1}'],
        ['[{"rank":1}]', "null"],
        ['[{"rank":1}]', "[5]"],
        ['[{"rank":1}]', "10"],
        ['[{"rank":1},{}]', '[{"rank":1}]'],
        ['[{"rank":1},{},{"rank":2}]'],
        ['[{"rank":1,"rank":2}]'],
        ['[{"chunk_id":5}]'],
        ['[{"chunk_id":"a\\u0020"}]'],
        ['[{"score":"0.5"}]'],
        ['[{"score":0.5}]', '[{"score":1e999}]'],
        ['["a","b"]'],
        ["[]"],
    ],
)
def test_anything_else_is_left_to_the_decoder(lists: list[str]) -> None:
    assert read_columns([text.encode() for text in lists], _RANKED) is None


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


def test_a_file_is_read_by_columns_also_where_fields_come_late(tmp_path: Path) -> None:
    lines = [*RUN, {**RUN[0], "query_id": "late", "error": "timeout"}, {**RUN[1], "query_id": "later", "new": 1}]
    source = Source(written(tmp_path / "run.jsonl", lines))
    decoder = RecordDecoder(SlimRecord, lists=_TOPK)
    decoder.decode(json.dumps(lines[-1]).encode())  # learns the fields that the contract does not know
    [(records, _, columns, _)] = read_column_batches(source, decoder)
    assert list(columns) == ["topk"]
    assert [r.error for r in records] == [None] * 50 + ["timeout", None]
    assert extra_columns(records, decoder.extra_names)["new"] == [None] * 51 + [1]
    assert column(records, "query") == [None] * 52


def without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordDecoder, "read_lines", lambda self, block: None)
    monkeypatch.setattr(RecordDecoder, "read_known_lists", lambda self, block: None)


@pytest.mark.parametrize("odd", [{}, {"topk": [{"rank": 1, "chunk_id": "d1#p1"}]}, {"topk": ["d1#p1"]}, {"topk": []}])
def test_an_evaluation_is_the_same_either_way(
    odd: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path / "run.jsonl", [*RUN[:-1], {**RUN[-1], **odd}])
    gold = written(tmp_path / "gold.jsonl", GOLD)
    names = ["recall@3", "mrr", "map", "ndcg@5", "latency_p50", "judged@5", "distinct_docs@5"]
    fast = [msgspec.to_builtins(saved_form(evaluate(run, gold, names, system=s))) for s in "ab"]
    without_columns(monkeypatch)
    assert fast == [msgspec.to_builtins(saved_form(evaluate(run, gold, names, system=s))) for s in "ab"]


def test_gold_is_the_same_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "gold.jsonl", GOLD)
    fast = read_gold(path)
    without_columns(monkeypatch)
    slow = read_gold(path)
    for name in ("queries", "ids", "fields", "tags"):
        assert getattr(fast, name) == getattr(slow, name)
    for name in ("offsets", "grades", "kinds", "k", "no_answer"):
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()


@pytest.mark.parametrize("key", ["chunk_id", "id", "doc_id", "nothing"])
def test_every_way_to_name_an_item(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    fast = outcome()
    without_columns(monkeypatch)
    assert fast == outcome()
