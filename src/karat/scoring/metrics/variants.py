"""Metrics over groups of queries that ask the same in other words (`variant_of`)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.data.variants import variant_groups
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import CutoffUse, Direction, Relevance
from karat.scoring.metrics.discounted import NDCG
from karat.scoring.metrics.recall import AnyHit, Complete, Recall

_OF: dict[str, type[Relevance]] = {"recall": Recall, "hit": AnyHit, "complete": Complete, "ndcg": NDCG}


def grouped_values(group: Ints, values: Floats) -> tuple[Ints, Ints, Floats]:
    """The measured queries of groups with at least two of them: place and group number of each, ordered by group and
    then by place, and their values. `group`: of each query, -1 for none."""
    there = np.flatnonzero((group >= 0) & ~np.isnan(values))
    there = there[np.argsort(group[there], kind="stable")]
    _, number, counts = np.unique(group[there], return_inverse=True, return_counts=True)
    several = counts[number] > 1
    there = there[several]
    _, number = np.unique(group[there], return_inverse=True)
    return there, number, values[there]


class OfVariants(Relevance, frozen=True, kw_only=True):
    """What both metrics have in common. The value of a group is at its first measured query; all others are undefined.

    All queries of a group are needed at once: both are computed from the judged table, never during the pass.
    """

    cutoff: ClassVar[CutoffUse] = "required"
    by_tokens = False

    of: Literal["recall", "hit", "complete", "ndcg"] = "recall"

    def score(self, judged: Judged) -> Floats:
        return self._scored(judged, _OF[self.of](k=self.k, rel=self.rel, level=self.level).score(judged))

    def ceiling(self, judged: Judged) -> Floats:
        """Unknown if some queries of the group are not among these."""
        base = _OF[self.of](k=self.k, rel=self.rel, level=self.level)
        found, groups = self._scored(judged, base.ceiling(judged)), variant_groups(judged.gold)
        if groups is None:
            return found
        here = np.bincount(groups[judged.queries] + 1, minlength=len(groups) + 1)
        return np.where(_whole(groups, here)[judged.queries], found, np.nan)

    def _scored(self, judged: Judged, values: Floats) -> Floats:
        found, groups = np.full(judged.n, np.nan), variant_groups(judged.gold)
        if groups is None:
            return found
        at, number, measured = grouped_values(groups[judged.queries], values)
        if len(at):
            starts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
            found[at[starts]] = self.of_groups(measured, starts)
        return found

    def of_groups(self, values: Floats, starts: Ints) -> Floats:
        """The value of each group; its queries begin at `starts`."""
        raise NotImplementedError


def _whole(groups: Ints, here: Ints) -> Bools:
    """Of which queries the whole group is here. `here`: queries of each group, from group -1 on."""
    return np.asarray((here == np.bincount(groups + 1, minlength=len(groups) + 1))[groups + 1])


class WorstVariant(OfVariants, frozen=True, kw_only=True):
    """The lowest recall@k among a query and its variants (`variant_of`): what the least lucky wording gets.

    One value per group, so the mean is over groups. Undefined for queries in no group, and for groups with fewer than
    two measured queries. `of=hit`, `of=complete` and `of=ndcg` use another metric than recall.

    >>> import karat
    >>> gold = [{"query_id": "q", "gold": ["a"]}, {"query_id": "r", "variant_of": "q"}]
    >>> karat.evaluate({"q": ["a"], "r": ["x"]}, gold, ["recall@5", "worst_variant@5"]).means
    {'recall@5': 0.5, 'worst_variant@5': 0.0}
    """

    name = "worst_variant"

    def of_groups(self, values: Floats, starts: Ints) -> Floats:
        return np.minimum.reduceat(values, starts)


class VariantSpread(OfVariants, frozen=True, kw_only=True):
    """The highest minus the lowest recall@k among a query and its variants (`variant_of`).

    One value per group, as in `worst_variant`, which has the same parameters.

    >>> import karat
    >>> gold = [{"query_id": "q", "gold": ["a", "b"]}, {"query_id": "r", "variant_of": "q"}]
    >>> karat.evaluate({"q": ["a", "b"], "r": ["b"]}, gold, ["variant_spread@5"]).means
    {'variant_spread@5': 0.5}
    """

    name = "variant_spread"
    direction: ClassVar[Direction] = "lower"

    def ceiling(self, judged: Judged) -> Floats:
        """A perfect ranking is perfect for every wording, unless their gold differs."""
        return np.full(judged.n, np.nan)

    def of_groups(self, values: Floats, starts: Ints) -> Floats:
        return np.asarray(np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts))
