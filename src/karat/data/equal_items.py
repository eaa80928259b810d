"""Items that are as right as the last relevant ones of a query: hits of an exact search at the same distance."""

from __future__ import annotations

import numpy as np

from karat.data.bulk import Bulk
from karat.data.ids import Bools, Ints, Packed, rows_of


class EqualItems(Bulk, frozen=True):
    """Query i owns ids offsets[i] … offsets[i+1]; each may stand for one of the last `places[i]` items of the query."""

    places: Ints
    offsets: Ints
    ids: Packed

    def of(self, queries: Ints) -> Ints:
        """Rows of the ids of some queries."""
        return rows_of(self.offsets, queries)


def fill_places(items: Ints, query: Ints, equal: Bools, firsts: Ints) -> None:
    """Give each hit that is an equal item a place that no hit above it has. `items`, `query`, `equal`: of the judged
    hits, by query and rank; `firsts`: of each hit, the first of its query's items that equal ones may stand for.

    Hits that are left when all places are filled repeat a place: they are right, but nothing new.
    """
    list_of = np.append(0, np.cumsum(query[1:] != query[:-1]))
    for start, end in np.searchsorted(list_of, np.unique(list_of[equal])[:, None] + [0, 1]).tolist():
        first, last = int(firsts[start]), int(items[start + np.argmax(equal[start:end])])
        tied = [row for row in range(start, end) if items[row] >= first]
        filling = tied[: last - first + 1]
        own = {int(items[row]) for row in filling if not equal[row]}
        free = iter([item for item in range(first, last + 1) if item not in own])
        for row in filling:
            items[row] = next(free) if equal[row] else items[row]
        items[tied[len(filling) :]] = items[filling[0]]
