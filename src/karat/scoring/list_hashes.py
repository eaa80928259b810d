"""Hashes of ordered lists, to recognise identical rankings without the hits."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Hashes, Ids, Ints, as_list, hashes, take
from karat.data.packed_ids import pack
from karat.scoring.judged import Judged

DEPTHS = (1, 3, 5, 10, 20)  # those of a sweep; the last column is the whole list
_PLACE, _SPREAD = np.uint64(0xD6E8FEB86659FD93), np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def list_hashes(judged: Judged) -> Hashes | None:
    """One row per query: hashes of its first ids in order, at each depth and over the whole list.

    Equal hashes mean the same ids in the same order. Below the greatest depth, hits with equal scores are in file
    order, so the last hashes of equal lists may differ.
    """
    hits = judged.hits
    if hits is None:
        return None
    found = np.zeros((judged.n, len(DEPTHS) + 1), np.uint64)
    query, rows = judged.top(DEPTHS[-1])
    sums = _prefix_sums(take(hits.ids, rows), query, judged.n)
    counts = np.minimum(judged.depth, DEPTHS[-1])
    first = np.cumsum(counts) - counts
    for column, depth in enumerate(DEPTHS):
        found[:, column] = sums[first + np.minimum(counts, depth)] - sums[first]
    if int(judged.depth.max(initial=0)) <= DEPTHS[-1]:
        found[:, -1] = found[:, -2]
        return found
    ids = hits.ids if judged.order is None else take(hits.ids, judged.order)
    sums = _prefix_sums(ids, hits.query_of_row, judged.n)
    found[:, -1] = sums[hits.offsets[1:]] - sums[hits.offsets[:-1]]
    return found


def _prefix_sums(ids: Ids, query: Ints, queries: int) -> Hashes:
    """Running sums over all lists of a number for each id and its rank; differences of two are sums of a stretch."""
    place = np.arange(len(query)) - np.searchsorted(query, np.arange(queries))[query] + 1
    mixed = (stable_hashes(ids) ^ (place.astype(np.uint64) * _PLACE)) * _SPREAD
    mixed ^= mixed >> _HALF
    sums = np.zeros(len(mixed) + 1, np.uint64)
    np.cumsum(mixed * _SPREAD, out=sums[1:])
    return sums


def stable_hashes(ids: Ids) -> Hashes:
    """Hashes of the bytes of each id: the same in every process and for every container of ids."""
    if isinstance(ids, np.ndarray):
        return hashes(ids)
    names = as_list(ids)
    try:
        return hashes(pack(names))
    except UnicodeEncodeError:  # a lone surrogate cannot be encoded as UTF-8
        return hashes(pack([name.encode("utf-8", "backslashreplace").decode() for name in names]))
