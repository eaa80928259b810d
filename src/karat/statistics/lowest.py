"""The lowest rows of a table, without sorting all of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karat.statistics.sums import Floats, Ints


def lowest_rows(columns: Sequence[Floats], rows: Ints, most: int, digits: int | None = None) -> Ints:
    """The first of these rows if they are sorted by the columns, one after the other; equal rows keep their order.

    Undefined values come last. `digits`: values that agree in so many are equal. Only rows that the columns so far do
    not tell apart are looked at in the next one.

    >>> lowest_rows([np.array([1.0, 0.0, 1.0, 1.0]), np.array([5.0, 9.0, np.nan, 4.0])], np.arange(4), 3).tolist()
    [1, 3, 0]
    """

    def keys(column: Floats, at: Ints) -> Floats:
        values = column[at] if digits is None else np.round(column[at], digits)
        return np.where(np.isnan(values), np.inf, values)

    chosen, tied = np.zeros(0, np.int64), rows
    for column in columns:
        left = most - len(chosen)
        if len(tied) <= left:
            break
        values = keys(column, tied)
        last = np.partition(values, left - 1)[left - 1]
        chosen, tied = np.append(chosen, tied[values < last]), tied[values == last]
    found = np.sort(np.append(chosen, tied[: most - len(chosen)]))
    return found[np.lexsort([keys(column, found) for column in reversed(columns)])]
