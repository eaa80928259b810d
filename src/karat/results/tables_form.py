"""The saved form of judged tables: columns of plain numbers and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Bools, Floats, Ints
from karat.data.passages.passage import Located
from karat.errors import InputError
from karat.results.summary import nullable
from karat.scoring.collect import Columns, RunData
from karat.scoring.list_hashes import DEPTHS
from karat.scoring.table import JudgedTable
from karat.scoring.top_lists import TOP, restored_lists, saved_columns
from karat.scoring.views import Level, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

Labels = Literal["gold", "judge"]
_DIGITS = 16  # of a hash of 64 bits


class SavedPassages(msgspec.Struct):
    """Which chunks contain the passages of a gold set."""

    settled: list[int]  # items that were searched for in chunks
    chunks: list[str]
    bounds: list[int]  # query i owns chunks bounds[i] … bounds[i + 1]
    firsts: list[int]  # chunk j contains items[firsts[j] … firsts[j + 1]]
    items: list[int]
    several: list[int]  # queries with a chunk that contains more than one item
    known: Literal["corpus", "hits"]


class SavedGold(msgspec.Struct):
    """The gold items of the queries, as some views see them."""

    level: Level
    labels: Labels
    lists: str | None  # only for these lists, if passages were searched for in their hits
    counts: list[int]  # items of each query
    items: list[str]
    grades: list[float]
    kinds: list[int]
    in_corpus: list[int] | None = None  # corpus items that each item covers
    passages: SavedPassages | None = None


class SavedView(msgspec.Struct):
    """One view of the lists: their length, and rank and gold item of every judged hit."""

    view: View
    gold: int  # index of the gold set
    depth: list[int]  # hits of each query
    absent: list[int]  # queries without a list
    counts: list[int]  # judged hits of each query
    rank: list[int]
    item: list[int]  # place among the items of the query
    by_document: list[int] | None = None  # queries with hits matched by document or passage
    columns: dict[str, list[float | None]] = {}  # metrics that need the hits themselves
    votes: dict[str, list[float | None]] = {}


class SavedTables(msgspec.Struct):
    """Everything needed to measure a saved result again. Queries are numbered in the order of the result."""

    golds: list[SavedGold]
    views: list[SavedView]
    k: list[int] = []  # cutoff of each query; empty: no query has its own
    no_answer: list[int] = []
    # depth (or `all`) → hash of the ordered ids of each query, hexadecimal; `top …` → the first hits (`top_lists.py`)
    hashes: dict[str, list[str]] = {}
    hits: Any = None  # reserved for the hits themselves
    steps: Any = None  # reserved for queries with several searches


def saved_tables(data: RunData, gold: Gold, rows: Ints) -> SavedTables:
    """The tables of these queries."""
    golds: list[Gold] = []
    saved: list[SavedGold] = []
    views = []
    for view, table in data.tables.items():
        at = next((i for i, known in enumerate(golds) if known is table.gold), len(golds))
        if at == len(golds):
            golds.append(table.gold)
            saved.append(_saved_gold(table.gold, view, rows))
        views.append(_saved_view(view, at, table, rows, data))
    hashes = {}
    if data.hashes is not None:
        names = [*map(str, DEPTHS), "all"]
        hashes = {name: hexadecimal(data.hashes[rows, at]) for at, name in enumerate(names)}
    if data.tops is not None:
        hashes |= {name: hexadecimal(column) for name, column in saved_columns(data.tops.cut(TOP), rows).items()}
    return SavedTables(
        golds=saved,
        views=views,
        k=gold.k[rows].tolist() if gold.k[rows].any() else [],
        no_answer=np.flatnonzero(gold.no_answer[rows]).tolist(),
        hashes=hashes,
    )


def _saved_gold(gold: Gold, view: View, rows: Ints) -> SavedGold:
    items = gold.items_of(rows)
    whole = len(rows) == len(gold.queries)
    return SavedGold(
        level=view.level,
        labels=view.labels,
        lists=view.lists if gold.located is not None and gold.located.known == "hits" else None,
        counts=(gold.offsets[rows + 1] - gold.offsets[rows]).tolist(),
        items=gold.ids if whole else [gold.ids[i] for i in items.tolist()],
        grades=gold.grades[items].tolist(),
        kinds=gold.kinds[items].tolist(),
        in_corpus=None if gold.in_corpus is None else gold.in_corpus[items].tolist(),
        passages=None if gold.located is None else _saved_passages(gold.located, gold, rows),
    )


def _saved_passages(located: Located, gold: Gold, rows: Ints) -> SavedPassages:
    place = np.full(len(gold.grades), -1)
    items = gold.items_of(rows)
    place[items] = np.arange(len(items))
    chunks = [i for row in rows.tolist() for i in range(int(located.bounds[row]), int(located.bounds[row + 1]))]
    held = [place[located.items[located.firsts[i] : located.firsts[i + 1]]].tolist() for i in chunks]
    counts = np.diff(located.bounds)[rows]
    return SavedPassages(
        settled=np.flatnonzero(located.settled[items]).tolist(),
        chunks=[located.chunks[i] for i in chunks],
        bounds=[0, *np.cumsum(counts).tolist()],
        firsts=[0, *np.cumsum(list(map(len, held))).tolist()],
        items=[item for some in held for item in some],
        several=np.flatnonzero(located.several[rows]).tolist(),
        known=located.known,
    )


def _saved_view(view: View, gold: int, table: JudgedTable, rows: Ints, data: RunData) -> SavedView:
    place = np.full(len(table.present), -1)
    place[rows] = np.arange(len(rows))
    kept = np.flatnonzero(place[table.query] >= 0)
    query = table.query[kept]
    return SavedView(
        view=view,
        gold=gold,
        depth=table.depth[rows].tolist(),
        absent=np.flatnonzero(~table.present[rows]).tolist(),
        counts=np.bincount(place[query], minlength=len(rows)).tolist(),
        rank=table.rank[kept].tolist(),
        item=(table.item[kept] - table.gold.offsets[query]).tolist(),
        by_document=None if table.by_document is None else np.flatnonzero(table.by_document[rows]).tolist(),
        columns={name: nullable(values[rows]) for name, values in data.values.get(view, {}).items()},
        votes={name: nullable(values[rows]) for name, values in data.votes.get(view, {}).items()},
    )


def restored_tables(saved: SavedTables, system: str, gold: Gold, missing: frozenset[str]) -> RunData:
    """Restore the data of a result. `gold`: its queries, without items. Raises InputError if parts do not fit."""
    try:
        return _restored(saved, system, gold, missing)
    except (IndexError, KeyError, OverflowError, ValueError) as error:
        raise InputError(
            f"the parts of the saved result do not fit together: {error}",
            code="damaged-result",
            hint="save it again: karat eval … -o result.json",
        ) from error


def _restored(saved: SavedTables, system: str, gold: Gold, missing: frozenset[str]) -> RunData:
    size = len(gold.queries)
    golds = [_restored_gold(one, gold) for one in saved.golds]
    tables: dict[View, JudgedTable] = {}
    values: Columns = {}
    votes: Columns = {}
    for one in saved.views:
        if not 0 <= one.gold < len(golds):
            raise ValueError("a view without its gold set")
        tables[one.view] = _restored_table(one, golds[one.gold], size)
        for into, columns in ((values, one.columns), (votes, one.votes)):
            if columns:
                into[one.view] = {name: _column(column, size) for name, column in columns.items()}
    hashes = None
    first = {name: from_hexadecimal(column) for name, column in saved.hashes.items() if name.startswith("top ")}
    if len(saved.hashes) > len(first):
        names = (*map(str, DEPTHS), "all")
        if any(len(saved.hashes[name]) != size for name in names):
            raise ValueError("hashes of lists")
        hashes = np.column_stack([from_hexadecimal(saved.hashes[name]) for name in names])
    tops = restored_lists(first, size)
    return RunData(system, tables, values, votes, hashes=hashes, tops=tops, missing=missing)


def hexadecimal(hashes: NDArray[np.uint64]) -> list[str]:
    """16 digits per hash."""
    digits = hashes.astype(">u8").tobytes().hex()
    return [digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS)]


def from_hexadecimal(hashes: Sequence[str] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hashes as numbers; an array is returned as it is. Raises ValueError for other texts."""
    if isinstance(hashes, np.ndarray):
        return hashes
    if any(len(digits) != _DIGITS for digits in hashes):
        raise ValueError("a hash does not have 16 digits")
    return np.frombuffer(bytes.fromhex("".join(hashes)), ">u8").astype(np.uint64)


def _column(values: list[float | None], size: int) -> Floats:
    if len(values) != size:
        raise ValueError("columns of metrics")
    return np.array(values, np.float64)


def _restored_gold(saved: SavedGold, gold: Gold) -> Gold:
    from msgspec.structs import replace

    counts = np.array(saved.counts, np.int64)
    sizes = {int(counts.sum()), len(saved.items), len(saved.grades), len(saved.kinds)}
    if saved.in_corpus is not None:
        sizes.add(len(saved.in_corpus))
    if len(counts) != len(gold.queries) or len(sizes) > 1 or (counts < 0).any():
        raise ValueError("gold items")
    return replace(
        gold,
        offsets=np.append(0, np.cumsum(counts)),
        items=saved.items,
        grades=np.array(saved.grades, np.float64),
        kinds=np.array(saved.kinds, np.int8),
        in_corpus=None if saved.in_corpus is None else np.array(saved.in_corpus, np.int64),
        located=None if saved.passages is None else _located(saved.passages, len(saved.items), len(gold.queries)),
    )


def _located(saved: SavedPassages, items: int, queries: int) -> Located:
    return Located(
        settled=_flags(saved.settled, items),
        chunks=saved.chunks,
        bounds=np.array(saved.bounds, np.int64),
        firsts=np.array(saved.firsts, np.int64),
        items=np.array(saved.items, np.int64),
        several=_flags(saved.several, queries),
        places=[None] * items,
        place_of=_nowhere,
        known=saved.known,
    )


def _nowhere(chunk: str) -> None:
    """Where chunks begin and end is not saved."""


def _flags(rows: Sequence[int], size: int) -> Bools:
    at = np.array(rows, np.int64)
    if (at < 0).any():
        raise ValueError("numbers of queries")
    flags = np.zeros(size, np.bool_)
    flags[at] = True
    return flags


def _restored_table(saved: SavedView, gold: Gold, size: int) -> JudgedTable:
    query = np.repeat(np.arange(size), np.array(saved.counts, np.int64))
    rank, item = np.array(saved.rank, np.int64), np.array(saved.item, np.int64)
    if not len(query) == len(rank) == len(item) or (item >= np.diff(gold.offsets)[query]).any() or (item < 0).any():
        raise ValueError("judged hits")
    depth = np.array(saved.depth, np.int64)
    if len(depth) != size or (depth < 0).any() or (rank < 1).any() or (rank > depth[query]).any():
        raise ValueError("depths of lists")
    return JudgedTable(
        gold=gold,
        present=~_flags(saved.absent, size),
        depth=depth,
        query=query,
        rank=rank,
        item=gold.offsets[query] + item,
        by_document=None if saved.by_document is None else _flags(saved.by_document, size),
    )
