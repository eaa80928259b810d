"""A gold set too large for every worker: cut into one row a query, which travels with the query's hits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Ints, as_list

if TYPE_CHECKING:
    import pyarrow as pa

GOLD = "_gold"
_STEP = 100_000


class _Row(msgspec.Struct, array_like=True):
    """One query of a gold set, and where in it the query and its first item stand."""

    row: int
    first: int
    query: str
    items: list[str]
    grades: list[float]
    kinds: list[int]
    k: int
    no_answer: int
    fields: dict[str, Any]
    tags: dict[str, Any]


@dataclass(frozen=True)
class PartOfGold:
    """Some queries of a gold set, and where in the whole their rows and items stand."""

    gold: Gold
    rows: Ints
    items: Ints


def gold_rows(gold: Gold) -> Iterator[pa.Table]:
    """All queries, some at a time."""
    import pyarrow as pa

    for start in range(0, len(gold.queries), _STEP):
        rows = range(start, min(start + _STEP, len(gold.queries)))
        packed = [msgspec.msgpack.encode(_row(gold, row)) for row in rows]
        yield pa.table({"query_id": gold.queries[rows.start : rows.stop], GOLD: pa.array(packed, pa.binary())})


def _row(gold: Gold, row: int) -> _Row:
    first, end = int(gold.offsets[row]), int(gold.offsets[row + 1])
    return _Row(
        row,
        first,
        gold.queries[row],
        as_list(gold.items[first:end]),
        gold.grades[first:end].tolist(),
        gold.kinds[first:end].tolist(),
        int(gold.k[row]),
        int(gold.no_answer[row]),
        {name: values[row] for name, values in gold.fields.items()},
        {name: values[row] for name, values in gold.tags.items()},
    )


def part_of_gold(packed: list[bytes]) -> PartOfGold:
    rows = [msgspec.msgpack.decode(row, type=_Row) for row in packed]
    counts = np.array([len(row.items) for row in rows], np.int64)
    offsets = np.append(0, np.cumsum(counts))
    first = np.array([row.first for row in rows], np.int64)
    gold = Gold(
        queries=[row.query for row in rows],
        offsets=offsets,
        items=[item for row in rows for item in row.items],
        grades=np.array([grade for row in rows for grade in row.grades], np.float64),
        kinds=np.array([kind for row in rows for kind in row.kinds], np.int8),
        k=np.array([row.k for row in rows], np.int64),
        no_answer=np.array([row.no_answer for row in rows], np.int64),
        fields={name: [row.fields[name] for row in rows] for name in (rows[0].fields if rows else ())},
        tags={name: [row.tags[name] for row in rows] for name in (rows[0].tags if rows else ())},
    )
    items = np.repeat(first - offsets[:-1], counts) + np.arange(offsets[-1])
    return PartOfGold(gold, np.array([row.row for row in rows], np.int64), items)
