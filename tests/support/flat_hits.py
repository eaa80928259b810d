"""Hits as plain lists by query, to compare what two ways of reading say."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import isnan
from typing import Any

from karat.data.hits import Hits
from karat.data.ids import Floats, as_list


def by_query(slices: Iterable[Hits]) -> dict[tuple[str, str], dict[str, Any]]:
    """(system, query) → what is said of its hits; a query must come once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for hits in slices:
        columns = {
            "ids": as_list(hits.ids),
            "score": numbers(hits.score, len(hits.ids)),
            "rank": numbers(hits.rank, len(hits.ids)),
            "docs": [""] * len(hits.ids) if hits.docs is None else as_list(hits.docs),
            **hits.columns,
        }
        for query, (start, end) in zip(hits.queries, pairwise(hits.offsets.tolist()), strict=True):
            assert (hits.system, query) not in found
            found[hits.system, query] = {name: values[start:end] for name, values in columns.items()}
    return found


def numbers(column: Floats | None, size: int) -> list[float | None]:
    return [None] * size if column is None else [None if isnan(value) else value for value in column.tolist()]


def places(slices: Iterable[Hits]) -> dict[tuple[str, str], int]:
    """(system, query) → where it can be read again."""
    found: dict[tuple[str, str], int] = {}
    for hits in slices:
        assert hits.places is not None
        found |= {(hits.system, q): place for q, place in zip(hits.queries, hits.places.tolist(), strict=True)}
    return found
