"""Hashes of ordered lists, to recognise identical rankings without the hits."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Hashes, Ids, Ints, as_list, hashes
from karat.data.packed_ids import hash_texts
from karat.files.native import native
from karat.scoring.judged import Judged

DEPTHS = (1, 3, 5, 10, 20)  # those of a sweep; the last column is the whole list
_DEPTHS = np.array(DEPTHS)
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
    hashed = hits.hashed if isinstance(hits.ids, np.ndarray) else stable_hashes(hits.ids)
    assert hashed is not None
    library = native()
    if library is None:
        return _plain(hashed if judged.order is None else hashed[judged.order], hits.offsets)
    found = np.empty((judged.n, len(DEPTHS) + 1), np.uint64)
    hashed, offsets = np.ascontiguousarray(hashed), np.ascontiguousarray(hits.offsets)
    order = None if judged.order is None else np.ascontiguousarray(judged.order)
    library.karat_list_hashes(
        hashed.ctypes.data,
        None if order is None else order.ctypes.data,
        offsets.ctypes.data,
        judged.n,
        _DEPTHS.ctypes.data,
        len(_DEPTHS),
        found.ctypes.data,
    )
    return found


def _plain(hashed: Hashes, offsets: Ints) -> Hashes:
    """Running sums over all lists of a number for each id and its rank; differences of two are sums of a stretch."""
    counts = np.diff(offsets)
    place = np.arange(len(hashed)) - np.repeat(offsets[:-1], counts) + 1
    mixed = (hashed ^ (place.astype(np.uint64) * _PLACE)) * _SPREAD
    mixed ^= mixed >> _HALF
    sums = np.zeros(len(mixed) + 1, np.uint64)
    np.cumsum(mixed * _SPREAD, out=sums[1:])
    ends = [offsets[:-1] + np.minimum(counts, depth) for depth in DEPTHS] + [offsets[1:]]
    return np.stack([sums[end] - sums[offsets[:-1]] for end in ends], axis=1)


def stable_hashes(ids: Ids) -> Hashes:
    """Hashes of the bytes of each id: the same in every process and for every container of ids."""
    if isinstance(ids, np.ndarray):
        return hashes(ids)
    names = as_list(ids)
    try:
        return hash_texts(names)
    except UnicodeEncodeError:  # a lone surrogate cannot be encoded as UTF-8
        return hash_texts([name.encode("utf-8", "backslashreplace").decode() for name in names])
