"""Metrics of the overlap with the lists of a reference run. They need no labels."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
import numpy as np

from karat.data.ids import Floats
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import CutoffUse, Metric
from karat.scoring.top_lists import no_lists, top_lists
from karat.statistics.rank_overlap import Rankings, Ties, jaccard, rank_biased_overlap


class AgainstRun(Metric, frozen=True, kw_only=True):
    """Compares the top k hits with those of a reference run."""

    cutoff: ClassVar[CutoffUse] = "required"
    by_tokens = False
    uses_hits = True
    is_quality = False

    def lacks(self, judged: Judged) -> str | None:
        return "there is no reference run (--reference RUN)" if judged.gold.reference is None else None

    def score(self, judged: Judged) -> Floats:
        reference = judged.gold.reference
        if reference is None:
            return np.full(judged.n, np.nan)
        limit = self.limit(judged)
        theirs, deepest = reference.rows_at(judged.queries).cut(limit), int(limit.max(initial=1))
        own = no_lists(judged.n, 1) if judged.hits is None else top_lists(judged, deepest).cut(limit)
        return np.where(theirs.length >= 0, self.overlap(theirs, own), np.nan)

    def overlap(self, first: Rankings, other: Rankings) -> Floats:
        """Overlap of the rankings in each row, NaN where both are empty."""
        raise NotImplementedError


class RankBiasedOverlap(AgainstRun, frozen=True, kw_only=True):
    """Rank-biased overlap (RBO) of the top k hits with those of a reference run; 1 means the same list.

    The overlap of the first d hits, averaged over every depth d with weight (1 − p) p^(d − 1), so high ranks count
    most. Extrapolated beyond k, and for lists of different length (Webber, Moffat and Zobel 2010, eq. 32). Hits with
    equal scores are tied: `ties=b` corrects for ties, so that equal lists score 1; `ties=a` is the mean over all
    orders; `ties=w` puts tied hits at the same rank (Corsi and Urbano 2024). 0 for a query without hits. Undefined if
    the reference lacks the query, or both have no hits.

    >>> import karat
    >>> old, new = {"q": ["a", "b", "c", "d"]}, {"q": ["b", "a", "c", "x"]}
    >>> round(karat.evaluate(new, {"q": ["a"]}, ["rbo@4"], reference=old).means["rbo@4"], 3)
    0.718
    """

    name = "rbo"
    aliases: ClassVar[dict[str, str]] = {"rank_biased_overlap": "rbo"}

    p: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.9
    ties: Ties = "b"

    def overlap(self, first: Rankings, other: Rankings) -> Floats:
        return rank_biased_overlap(first, other, self.p, self.ties)


class Jaccard(AgainstRun, frozen=True, kw_only=True):
    """Hits in the top k of both the run and a reference run / hits in the top k of either.

    The order does not matter. 0 for a query without hits. Undefined if the reference lacks the query, or both have no
    hits.

    >>> import karat
    >>> old, new = {"q": ["a", "b", "c", "d"]}, {"q": ["b", "a", "c", "x"]}
    >>> karat.evaluate(new, {"q": ["a"]}, ["jaccard@4"], reference=old).means
    {'jaccard@4': 0.6}
    """

    name = "jaccard"

    def overlap(self, first: Rankings, other: Rankings) -> Floats:
        return jaccard(first, other)
