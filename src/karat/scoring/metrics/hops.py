"""Metrics of hops: questions that need several items, each of which may have alternatives."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from karat.data.gold import HOPS
from karat.data.ids import Bools, Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Basis, CutoffUse, Metric, share


class HopsCovered(Metric, frozen=True, kw_only=True):
    """Share of the hops of a query that have an item in the top k; without k, in the whole list.

    A question that needs several facts has several hops. `hops` in the gold set has a list of ids for each; one id of
    a list is enough. Undefined for queries without hops; 0 for a query that is missing from the run.

    >>> import karat
    >>> gold = [{"query_id": "q", "hops": [["a", "b"], ["c"], ["d"]]}]
    >>> karat.evaluate({"q": ["b", "x", "d"]}, gold, ["hops_covered@2", "hops_covered", "all_hops"]).means
    {'hops_covered@2': 0.3333333333333333, 'hops_covered': 0.6666666666666666, 'all_hops': 0.0}
    """

    name = "hops_covered"
    rests_on: ClassVar[frozenset[Basis]] = frozenset({"ids", "order"})
    cutoff: ClassVar[CutoffUse] = "optional"
    uses_hits = True

    def lacks(self, judged: Judged) -> str | None:
        return None if any(judged.gold.fields.get(HOPS) or ()) else "no query of the gold set has hops"

    def score(self, judged: Judged) -> Floats:
        from karat.data.hops import hop_items

        hops = hop_items(judged.gold)
        covered = hops.covered(found_items(judged, self.limit(judged)))
        size = len(judged.gold.queries)
        whole, part = np.bincount(hops.query, minlength=size), np.bincount(hops.query[covered], minlength=size)
        return self._value(part, whole)[judged.queries]

    def _value(self, covered: Ints, hops: Ints) -> Floats:
        return share(covered.astype(np.float64), hops)


class AllHops(HopsCovered, frozen=True, kw_only=True):
    """1 if every hop of a query has an item in the top k, else 0; without k, in the whole list. See `hops_covered`.

    >>> import karat
    >>> gold = [{"query_id": "q", "hops": [["a", "b"], ["c"]]}, {"query_id": "r", "gold": ["e"]}]
    >>> karat.evaluate({"q": ["b", "x", "c"], "r": ["e"]}, gold, ["all_hops@2", "all_hops@3"]).means
    {'all_hops@2': 0.0, 'all_hops@3': 1.0}
    """

    name = "all_hops"

    def _value(self, covered: Ints, hops: Ints) -> Floats:
        return np.where(hops > 0, (covered == hops).astype(np.float64), np.nan)


def found_items(judged: Judged, limit: Ints) -> Bools:
    """Which items of the gold set are in the top of their lists."""
    found = np.zeros(len(judged.gold.grades), np.bool_)
    if judged.hit_item is not None:
        inside = judged.hit_rank <= limit[judged.hit_query]
        found[judged.hit_item[inside]] = True
    return found
