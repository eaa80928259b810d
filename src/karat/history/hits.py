"""The kept form of every query of a run: gold, hits and scores, so that one query opens without reading the others.

Queries are spread over parts of about a hundred by a hash of their ids. A part is one row of the table `hits`: columns
of numbers and texts, compressed, and beside them the keys of its texts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from karat.data.ids import Floats, Ints, Packed
from karat.errors import InputError
from karat.files.decode_errors import DECODE_ERRORS
from karat.history.statements import Connection
from karat.history.texts import KEY, add_texts, key_of, read_texts, split_keys, unpack_text
from karat.results.analyses.waterfall import STAGES
from karat.results.kept_hits import ALL_TEXTS, KeptHits, KeptLists
from karat.results.kept_run import FAILED, SCORE, TAG, KeptRun, columns_named
from karat.results.queries.shown import Mark
from karat.results.queries.triage import Kind, kind_of

if TYPE_CHECKING:
    import polars as pl

QUERIES = 100  # per part
LONGEST_LIST = 100  # ids of a query; Karat keeps fewer
_LARGEST = 32 << 20  # bytes of a part, unpacked
_LARGEST_RUN = 1 << 30  # bytes of all parts of a run, unpacked
_DEEPEST = 10**9  # rank
_LANGUAGE = "language"  # the tag that says how to find shared words
_LEVEL = 1  # of compression
_COUNT, _NUMBER = np.dtype("<u4"), np.dtype("<f8")


class RecordedHit(msgspec.Struct, frozen=True):
    """One place of a list: relevant (hit), judged not relevant (miss), or not judged."""

    rank: int
    id: str
    mark: Mark
    grade: float | None
    score: float | None
    text: str | None  # its first 2,000 characters; null: not kept


class RecordedGold(msgspec.Struct, frozen=True):
    """A relevant item, and its rank in the whole list; null: missing."""

    id: str
    grade: float
    rank: int | None
    text: str | None


class QueryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One query of one run, with everything that is kept about it."""

    query_id: str
    query: str | None
    tags: dict[str, Any]
    scores: dict[str, float | None]
    first_rank: int | None
    missing: bool
    kind: Kind | None  # null: it has nothing to find
    gold: list[RecordedGold]  # best grades first
    gold_items: int  # relevant items in total
    hits: list[RecordedHit]
    bm25: list[RecordedHit] | None  # null: not searched for every query
    lost: dict[str, int]  # stage → relevant items that it lost


class _Lists(msgspec.Struct, array_like=True):
    counts: bytes
    sizes: bytes  # bytes of each id
    ids: bytes
    first: bytes
    second: bytes
    texts: bytes  # number of its text among those of the part, from 1; empty: no texts


class _Part(msgspec.Struct, array_like=True):
    queries: list[str]
    asked: list[str | None]
    missing: list[bool]
    first_ranks: list[int | None]
    scores: dict[str, bytes]
    tags: dict[str, list[str | None]]  # JSON
    failed: bytes
    gold_items: bytes
    lost: dict[str, bytes]
    hits: _Lists
    gold: _Lists
    bm25: _Lists | None


class StoredPart(msgspec.Struct, frozen=True, array_like=True):
    """A row of the table `hits`, without its run and number."""

    content: bytes
    keys: bytes  # of its texts, joined


def part_of(query_id: str, parts: int) -> int:
    return zlib.crc32(query_id.encode("utf-8", "replace")) % parts


def stored_parts(run: KeptRun) -> Iterator[StoredPart]:
    """All parts of a run, in order; none if its hits are not kept."""
    kept = run.hits
    if kept is None:
        return
    queries = run.rows["query_id"].to_list()
    parts = -(-len(queries) // QUERIES)
    part = np.array([part_of(query, parts) for query in queries], np.int64)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(parts + 1))
    tags = [name for name in columns_named(run.rows, TAG) if name in (*kept.tags, _LANGUAGE)]
    scores = [name for name in run.rows.columns if name.startswith(SCORE)]
    rows = run.rows.select("query_id", "query", "missing", "first_rank", *scores, *(TAG + name for name in tags))[order]
    columns = {name: rows[SCORE + name].cast(float).to_numpy().astype(_NUMBER) for name in columns_named(rows, SCORE)}
    failed, gold_items = kept.failed[order].astype(_NUMBER), kept.gold_items[order].astype(_COUNT)
    lost = {stage: counts[order].astype(_COUNT) for stage, counts in kept.lost.items()}
    lists = [None if one is None else _Ordered(one, order) for one in (kept.hits, kept.gold, kept.bm25)]
    keys = [key_of(*text) for text in kept.texts]
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        some, at = rows[start:stop], slice(start, stop)
        used = np.unique(np.concatenate([one.texts_of(start, stop) for one in lists if one is not None]))
        used = used[used > 0]
        hits, gold, bm25 = (None if one is None else one.packed(start, stop, used) for one in lists)
        assert hits is not None
        assert gold is not None
        made = _Part(
            queries=some["query_id"].to_list(),
            asked=some["query"].to_list(),
            missing=some["missing"].to_list(),
            first_ranks=some["first_rank"].to_list(),
            scores={name: values[at].tobytes() for name, values in columns.items()},
            tags={name: some[TAG + name].to_list() for name in tags},
            failed=failed[at].tobytes(),
            gold_items=gold_items[at].tobytes(),
            lost={stage: counts[at].tobytes() for stage, counts in lost.items()},
            hits=hits,
            gold=gold,
            bm25=bm25,
        )
        joined = b"".join(keys[number - 1] for number in used.tolist())
        yield StoredPart(zlib.compress(msgspec.msgpack.encode(made), _LEVEL), joined)


def add_hits(connection: Connection, run_id: str, parts: Sequence[StoredPart], kept: KeptHits) -> None:
    add_texts(connection, {key_of(*text): text[1] for text in kept.texts})
    for number, part in enumerate(parts):
        connection.execute("INSERT INTO hits VALUES (?, ?, ?, ?)", (run_id, number, part.content, part.keys))


def has_hits(connection: Connection, run_id: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM hits WHERE run_id = ? LIMIT 1", (run_id,)).fetchall())


def all_parts(connection: Connection, run_id: str) -> list[StoredPart]:
    statement = "SELECT content, keys FROM hits WHERE run_id = ? ORDER BY part"
    found = connection.execute(statement, (run_id,)).fetchall()
    return [StoredPart(bytes(content), bytes(keys)) for content, keys in found]


def check_hits(connection: Connection, run_id: str) -> None:
    """Raises InputError if the kept hits of a run are damaged."""
    for part in all_parts(connection, run_id):
        _QueryPart(part, f"run {run_id[:10]}")


def read_record(connection: Connection, run_id: str, query_id: str, *, texts: bool = True) -> QueryRecord | None:
    """One query of a run; None if the run does not keep its hits, or does not have the query."""
    last = connection.execute("SELECT max(part) FROM hits WHERE run_id = ?", (run_id,)).fetchall()[0][0]
    if last is None:
        return None
    statement = "SELECT content, keys FROM hits WHERE run_id = ? AND part = ?"
    found = connection.execute(statement, (run_id, part_of(query_id, last + 1))).fetchall()
    if not found:
        return None
    content, keys = map(bytes, found[0])
    part = _QueryPart(StoredPart(content, keys), f"run {run_id[:10]}")
    return part.record(query_id, read_texts(connection, part.keys_of(query_id)) if texts else {})


def all_hits(connection: Connection, run_id: str) -> Iterator[tuple[str, list[tuple[str, float | None]]]]:
    """Every query of a run, with id and grade of its hits in order; nothing if the run does not keep its hits."""
    last = connection.execute("SELECT max(part) FROM hits WHERE run_id = ?", (run_id,)).fetchall()[0][0]
    statement = "SELECT content, keys FROM hits WHERE run_id = ? AND part = ?"
    for number in range(0 if last is None else last + 1):
        for content, keys in connection.execute(statement, (run_id, number)).fetchall():
            part = _QueryPart(StoredPart(bytes(content), bytes(keys)), f"run {run_id[:10]}")
            hits = part.lists[0]
            assert hits is not None
            listed = list(zip(hits.names(), _nullable(hits.second), strict=True))
            for query_id, (low, high) in zip(part.part.queries, pairwise(hits.ends.tolist()), strict=True):
                yield query_id, listed[low:high]


class _Ordered:
    """Lists in the order of the parts."""

    def __init__(self, lists: KeptLists, order: Ints) -> None:
        self.lists = lists.select(order)
        self.sizes, self.ids = _joined(self.lists.ids)
        self.ends = np.append(0, np.cumsum(self.lists.counts))
        self.stops = np.append(0, np.cumsum(self.sizes))

    def texts_of(self, start: int, stop: int) -> Ints:
        return self.lists.texts[self.ends[start] : self.ends[stop]]

    def packed(self, start: int, stop: int, used: Ints) -> _Lists:
        one, (low, high) = self.lists, self.ends[[start, stop]].tolist()
        numbers = one.texts[low:high]
        local = np.where(numbers > 0, np.searchsorted(used, numbers) + 1, 0) if len(used) else numbers[:0]
        return _Lists(
            counts=one.counts[start:stop].astype(_COUNT).tobytes(),
            sizes=self.sizes[low:high].astype(_COUNT).tobytes(),
            ids=self.ids[self.stops[low] : self.stops[high]].tobytes(),
            first=one.first[low:high].astype(_NUMBER).tobytes(),
            second=one.second[low:high].astype(_NUMBER).tobytes(),
            texts=local.astype(_COUNT).tobytes(),
        )


def _joined(ids: list[str] | Packed) -> tuple[Ints, NDArray[np.uint8]]:
    """Bytes of each id, and all ids joined."""
    if isinstance(ids, np.ndarray):
        letters = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), ids.itemsize)
        there = letters != 0
        return there.sum(axis=1), letters[there]
    encoded = [name.encode("utf-8", "replace") for name in ids]
    return np.fromiter(map(len, encoded), np.int64, len(encoded)), np.frombuffer(b"".join(encoded), np.uint8)


class _Read:
    """The lists of one kind in a part. Raises ValueError if its columns do not fit together."""

    def __init__(self, lists: _Lists, queries: int, keys: int) -> None:
        self.counts, self.sizes = _array(lists.counts, _COUNT, queries), _array(lists.sizes, _COUNT)
        self.size = size = int(self.counts.sum())
        self.first, self.second = _array(lists.first, _NUMBER, size), _array(lists.second, _NUMBER, size)
        self.texts = _array(lists.texts, _COUNT, size) if lists.texts else np.zeros(size, np.int64)
        self.ids = lists.ids
        self.ends, self.stops = np.append(0, np.cumsum(self.counts)), np.append(0, np.cumsum(self.sizes))
        if len(self.sizes) != size or self.stops[-1] != len(lists.ids) or self.counts.max(initial=0) > LONGEST_LIST:
            raise ValueError("lists")
        if self.texts.max(initial=0) > keys or np.isinf([*self.first, *self.second]).any():
            raise ValueError("numbers of hits")

    def names(self, low: int = 0, high: int | None = None) -> list[str]:
        high = self.size if high is None else high
        ends = self.stops[low : high + 1].tolist()
        return [self.ids[a:b].decode("utf-8", "replace") for a, b in pairwise(ends)]

    def at(self, row: int) -> list[tuple[str, float | None, float | None, int]]:
        """(id, first, second, number of its text) of each place of a query."""
        low, high = self.ends[[row, row + 1]].tolist()
        numbers = (_nullable(column[low:high]) for column in (self.first, self.second))
        return list(zip(self.names(low, high), *numbers, self.texts[low:high].tolist(), strict=True))


class _QueryPart:
    """Some queries. Raises InputError if it is not what Karat writes."""

    def __init__(self, stored: StoredPart, label: str, most: int = _LARGEST) -> None:
        """`most`: bytes to unpack."""
        try:
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(stored.content, min(max(most, 1), _LARGEST))
            self.size = len(content)
            if not unpacking.eof or len(stored.keys) % KEY:
                raise ValueError("too large, or cut off")
            self.part = part = msgspec.msgpack.decode(content, type=_Part)
            self.keys, size = split_keys(stored.keys), len(part.queries)
            listed: list[Sequence[Any]] = [part.asked, part.missing, part.first_ranks, *part.tags.values()]
            if any(len(column) != size for column in listed):
                raise ValueError("columns")
            self.failed, self.gold_items = _array(part.failed, _NUMBER, size), _array(part.gold_items, _COUNT, size)
            self.scores = {name: _array(values, _NUMBER, size) for name, values in part.scores.items()}
            self.lost = {stage: _array(values, _COUNT, size) for stage, values in part.lost.items()}
            self.lists = [
                None if one is None else _Read(one, size, len(self.keys)) for one in (part.hits, part.gold, part.bm25)
            ]
        except (*DECODE_ERRORS, zlib.error, ValueError) as error:
            raise InputError(f"the kept hits are damaged: {error}", code="damaged-run", file=label) from error

    def keys_of(self, query_id: str) -> list[bytes]:
        """The keys of the texts of a query."""
        row = self._row(query_id)
        places = [] if row is None else [place for one in self.lists if one is not None for place in one.at(row)]
        return [self.keys[number - 1] for *_, number in places if number]

    def record(self, query_id: str, texts: Mapping[bytes, str]) -> QueryRecord | None:
        row, part = self._row(query_id), self.part
        if row is None:
            return None
        hits, gold, bm25 = self.lists
        assert hits is not None
        assert gold is not None

        def text(number: int) -> str | None:
            return texts.get(self.keys[number - 1]) if number else None

        def listed(lists: _Read) -> list[RecordedHit]:
            return [
                RecordedHit(rank, name, _mark(grade), grade, score, text(number))
                for rank, (name, score, grade, number) in enumerate(lists.at(row), 1)
            ]

        try:
            tags = {name: msgspec.json.decode(said) for name, column in part.tags.items() if (said := column[row])}
        except DECODE_ERRORS as error:
            raise InputError("the kept hits are damaged: a tag", code="damaged-run") from error
        shortfall = float(self.failed[row])
        return QueryRecord(
            query_id=query_id,
            query=part.asked[row],
            tags=tags,
            scores={name: _nullable(values[row : row + 1])[0] for name, values in self.scores.items()},
            first_rank=part.first_ranks[row],
            missing=part.missing[row],
            kind=None if np.isnan(shortfall) else kind_of(shortfall),
            gold=[
                RecordedGold(name, grade or 0.0, _rank(rank), text(number))
                for name, grade, rank, number in gold.at(row)
            ],
            gold_items=int(self.gold_items[row]),
            hits=listed(hits),
            bm25=None if bm25 is None else listed(bm25),
            lost={stage: int(counts[row]) for stage, counts in self.lost.items() if counts[row] and stage in STAGES},
        )

    def _row(self, query_id: str) -> int | None:
        return self.part.queries.index(query_id) if query_id in self.part.queries else None


def _rank(rank: float | None) -> int | None:
    return int(rank) if rank is not None and 1 <= rank <= _DEEPEST else None


def _mark(grade: float | None) -> Mark:
    return "unjudged" if grade is None else "hit" if grade > 0 else "miss"


def _array(content: bytes, kind: np.dtype[Any], size: int | None = None) -> Any:
    found = np.frombuffer(content, kind)
    if size is not None and len(found) != size:
        raise ValueError("a column has the wrong length")
    return found.astype(np.int64 if kind == _COUNT else np.float64)


def _nullable(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def restored_hits(
    rows: pl.DataFrame, stored: Sequence[StoredPart], texts: Mapping[bytes, bytes], label: str
) -> KeptHits:
    """The hits of a run from its parts, as found in an archive. Only what the rows do not have is taken from the parts,
    so that both always agree. Raises InputError if they are not what Karat writes."""
    parts: list[_QueryPart] = []
    for one in stored:
        parts.append(_QueryPart(one, label, _LARGEST_RUN - sum(part.size for part in parts)))
    if not parts or FAILED not in rows.columns:
        raise InputError("the run does not fit the kept hits", code="damaged-run", file=label)
    queries = [query for part in parts for query in part.part.queries]
    place = {query: at for at, query in enumerate(queries)}
    if len(place) < len(queries) or sorted(place) != sorted(rows["query_id"].to_list()):
        raise InputError("the kept hits have other queries than the run", code="damaged-run", file=label)
    order = np.array([place[query] for query in rows["query_id"].to_list()], np.int64)
    numbered = _Numbers(texts)
    lists = [_restored([part.lists[kind] for part in parts], parts, numbered) for kind in range(3)]
    hits, gold, bm25 = (None if one is None else one.select(order) for one in lists)
    assert hits is not None
    assert gold is not None
    stages = dict.fromkeys(stage for part in parts for stage in part.lost)
    none = {id(part): np.zeros(len(part.part.queries), np.int64) for part in parts}
    return KeptHits(
        failed=rows[FAILED].cast(float).to_numpy(),
        hits=hits,
        gold=gold,
        gold_items=np.concatenate([part.gold_items for part in parts])[order],
        bm25=bm25,
        lost={s: np.concatenate([part.lost.get(s, none[id(part)]) for part in parts])[order] for s in stages},
        tags=list(parts[0].part.tags),
        texts=numbered.texts,
    )


class _Numbers:
    """Numbers the texts of an archive. A text counts only if its key is that of the id and the text."""

    def __init__(self, texts: Mapping[bytes, bytes]) -> None:
        self._known, self._numbers, self._left = texts, dict[bytes, int](), ALL_TEXTS
        self.texts: list[tuple[str, str]] = []

    def of(self, name: str, key: bytes) -> int:
        found = self._numbers.get(key)
        if found is None:
            packed = self._known.get(key)
            text = "" if packed is None else unpack_text(packed)
            self._left -= len(text)
            if self._left < 0:
                raise InputError("the texts of a run are too large", code="too-large")
            if not text or key_of(name, text) != key:
                return 0
            self.texts.append((name, text))
            found = self._numbers[key] = len(self.texts)
        return found


def _restored(lists: Sequence[_Read | None], parts: Sequence[_QueryPart], numbered: _Numbers) -> KeptLists | None:
    found = [one for one in lists if one is not None]
    if len(found) < len(lists):
        return None
    names = [one.names() for one in found]
    numbers = [
        [numbered.of(name, part.keys[number - 1]) if number else 0 for name, number in zip(own, one.texts, strict=True)]
        for one, own, part in zip(found, names, parts, strict=True)
    ]
    return KeptLists(
        counts=np.concatenate([one.counts for one in found]),
        ids=[name for own in names for name in own],
        first=np.concatenate([one.first for one in found]),
        second=np.concatenate([one.second for one in found]),
        texts=np.array([number for own in numbers for number in own], np.int64),
    )
