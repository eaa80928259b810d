"""Unjudged hits in a comparison: how much is judged, what labels could change, and the differences by judge labels."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.ids import Ints
from karat.results.analyses.base import Lacking
from karat.results.analyses.bounds import BY_JUDGE, judged_side, judged_values
from karat.results.differences import SAME, Difference, Paired
from karat.results.result import Result
from karat.results.strict_bounds import flip, strict_bounds
from karat.results.summary import Scores, mean_of
from karat.scoring.metrics.base import Metric, Relevance
from karat.scoring.metrics.lists import JudgedShare
from karat.scoring.unjudged import OpenLists, open_lists
from karat.statistics.sampling import Sampling

FAR_APART = 0.05  # difference in judged@k above which the gold favours one of the runs
_NAMED = 100  # most pairs listed for a set of labels


class JudgedAt(msgspec.Struct, frozen=True):
    """How much of the top k of both runs is judged, on the compared queries."""

    k: int
    baseline: float
    candidate: float
    warning: str | None = None  # if they differ enough for the gold to favour one


class OpenPair(msgspec.Struct, frozen=True):
    """A pair that has no label yet."""

    query_id: str
    item: str


class FlipSet(msgspec.Struct, frozen=True):
    """The smallest set of pairs that would cost the leading run its lead if all of them were relevant."""

    labels: int
    exact: bool  # no smaller set exists; otherwise it was found greedily, and a smaller one may exist
    pairs: list[OpenPair]  # the first 100


class BoundedDifference(msgspec.Struct, frozen=True):
    """The difference of two means by the gold alone, and the range in which any labels would leave it."""

    metric: str
    n: int
    delta: float
    low: float
    high: float
    flip: FlipSet | None  # null: neither leads, or no labels could change which one does

    @property
    def settled(self) -> bool:
        return self.low > SAME or self.high < -SAME


def judged_at(first: Result, other: Result, at: Ints, of: Ints, k: int) -> JudgedAt | None:
    """The judged share of both runs. None if it was not measured and cannot be: saved results keep no hits."""
    name = str(JudgedShare(k=k))
    try:
        sides = first.measure([name]), other.measure([name])
    except Lacking:
        return None
    shares = mean_of(sides[0].values[name][at]), mean_of(sides[1].values[name][of])
    if shares[0] is None or shares[1] is None:
        return None
    apart = abs(shares[1] - shares[0]) > FAR_APART
    return JudgedAt(
        k, shares[0], shares[1], _warning(k, shares[0] > shares[1], first.wrong_hits_judged) if apart else None
    )


def _warning(k: int, baseline: bool, wrong_hits_judged: bool | None) -> str:
    known, less = ("baseline", "candidate") if baseline else ("candidate", "baseline")
    said = f"The gold set judges more of the {known}'s top {k}, and unjudged hits count as irrelevant. "
    if wrong_hits_judged is False:  # then a run that finds more of the gold always has more judged hits
        said += "It judges only relevant items, so a better run always has more judged hits. "
        said += "The difference may be real. "
    return (
        said + f"Label the {less}'s hits (`karat labels pool … --only-differences`), "
        "or see what they could change (--bounds)."
    )


def bounded_differences(first: Result, other: Result, metrics: list[Metric], rows: Ints) -> list[BoundedDifference]:
    """Differences with bounds, for every metric that has bounds, on these queries. Raises Lacking if impossible."""
    if not (first.data.opened and other.data.opened):
        raise Lacking("bounds need the runs themselves: a saved result keeps no hits.")
    one, another = first.gold, other.gold
    located = one.located is not None or another.located is not None
    if located or one.queries != another.queries or one.ids != another.ids:
        raise Lacking("no bounds: the gold is in different chunks of each run, so no label would count for both.")
    asked = [m for m in metrics if isinstance(m, Relevance)]
    lists = {
        level: open_lists(first.unjudged_lists(level), other.unjudged_lists(level), grades=first.labelling.levels)
        for level in {m.level for m in asked}
    }
    found = [_bounded(metric, lists[metric.level], rows) for metric in asked]
    return [one for one in found if one is not None]


def _bounded(metric: Metric, lists: OpenLists, rows: Ints) -> BoundedDifference | None:
    found = strict_bounds(metric, lists)
    if found is None:
        return None
    low, high = (mean_of(values[rows]) for values in found)
    values = metric.score(lists.second)[rows] - metric.score(lists.first)[rows]
    delta = mean_of(values)
    if low is None or high is None or delta is None:
        return None
    ahead = lists if delta > 0 else lists.swapped
    taken, queries = flip(metric, ahead, rows), ahead.second.gold.queries
    pairs = [] if taken is None else [(queries[ahead.query[i]], ahead.names[i]) for i in taken.items[:_NAMED].tolist()]
    return BoundedDifference(
        metric=str(metric),
        n=int((~np.isnan(values)).sum()),
        delta=delta,
        low=low,
        high=high,
        flip=None if taken is None else FlipSet(len(taken.items), taken.exact, [OpenPair(*pair) for pair in pairs]),
    )


def differences_by_judge(
    first: Result, other: Result, metrics: list[Metric], at: Ints, of: Ints, sampling: Sampling
) -> list[Difference]:
    """Differences of precision, nDCG, RBP and judged share by judge labels. Other metrics use gold. Raises Lacking."""
    if not any(isinstance(metric, BY_JUDGE) for metric in metrics):
        raise Lacking("judge labels are used for precision, nDCG and RBP only, and none of them is compared.")
    asked: list[Metric] = [metric for metric in metrics if isinstance(metric, (*BY_JUDGE, JudgedShare))]
    sides = _scores(first, asked).select(at), _scores(other, asked).select(of)
    return Paired(*sides).differences(sampling, 10 * sampling.resamples)


def _scores(side: Result, metrics: list[Metric]) -> Scores:
    names = [str(metric) for metric in metrics]
    judged = judged_side(side, names)
    if judged is None:
        raise Lacking("judge labels cover one side only: a saved result keeps no hits to label.")
    return replace(side.columns, metrics=metrics, values={name: judged_values(side, judged, name) for name in names})
