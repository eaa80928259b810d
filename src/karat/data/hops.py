"""Hops of queries: lists of gold items, of each of which one is needed."""

from __future__ import annotations

import numpy as np

from karat.data.bulk import Bulk
from karat.data.gold import HOPS, Gold
from karat.data.ids import Bools, Ints


class HopItems(Bulk, frozen=True):
    """All hops of a gold set, and the gold items of each."""

    query: Ints  # of each hop, a row of the gold set; in order
    hop: Ints  # of each pair of a hop and one of its items
    item: Ints

    def covered(self, found: Bools) -> Bools:
        """Which hops have an item among `found`, which has one entry per gold item."""
        return np.bincount(self.hop[found[self.item]], minlength=len(self.query)) > 0

    def lowest(self, steps: Ints) -> Ints:
        """The lowest number of the items of each hop; 0 counts as none."""
        none = np.iinfo(np.int64).max
        found = np.full(len(self.query), none)
        np.minimum.at(found, self.hop, np.where(steps > 0, steps, none)[self.item])
        return np.where(found == none, 0, found)


def hop_items(gold: Gold) -> HopItems:
    """An id may name several items, such as passages of one document: each covers its hops."""
    cache: dict[str, HopItems] = gold.__dict__
    if "_hop_items" not in cache:
        queries, hops, items = list[int](), list[int](), list[int]()
        for row, said in enumerate(gold.fields.get(HOPS) or ()):
            own = (
                list(enumerate(gold.ids[gold.offsets[row] : gold.offsets[row + 1]], gold.offsets[row])) if said else ()
            )
            for hop in said or ():
                named = [at for at, name in own if name in hop]
                hops += [len(queries)] * len(named)
                items += named
                queries.append(row)
        cache["_hop_items"] = HopItems(*(np.array(column, np.int64) for column in (queries, hops, items)))
    return cache["_hop_items"]
