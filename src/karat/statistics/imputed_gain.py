"""Mean nDCG where some grades come only from a judge: human grades are drawn for them.

People labelled some of the pairs of each stratum (a grade of the judge, in or below the top k). Weights of the Bayesian
bootstrap are drawn for whole queries. The weighted labels show how often each grade occurs in a stratum, and missing
human grades are drawn from that. The same weights give the mean over queries, so one distribution
covers the uncertainty of the queries, the labels and the missing grades.

Hits of one query are similar: where one is better than the judge says, others may be, too. A few labels per
query cannot show how much, and nDCG depends on it. So grades are drawn in two ways, independently and equal within a
query; the value is in the middle, and the interval covers both.

The errors of a judge also depend on the rank, and a hit counts by its rank: strata of the top k are split by rank as
far as labels allow. Where they are few, stratum and rank are combined (see `_chances`).
"""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np

from karat.statistics.calibration import CalibratedValue
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Floats, Ints

_MOST = 500  # draws: each sorts the items of all queries
_PRIOR = 2.0  # labels that weigh as much as the expectation for a stratum at some ranks
_BAND = 5  # minimum labels of neighbouring ranks
_END = 0.5  # of an observation at each end, as in all intervals


class GradedItems(msgspec.Struct, frozen=True):
    """All graded items of the queries, query by query."""

    query: Ints  # from 0
    rank: Ints  # in the list, 0 = not in it
    level: Ints  # index of its grade in `gains`; meaningless where only a judge graded it
    stratum: Ints  # −1: the gold's own; else of the judge
    labelled: np.ndarray  # by people, of those in a stratum
    gains: Floats  # of each grade, ascending, the first 0
    limit: Ints  # k of each query
    unit: Ints  # query or conversation that each query belongs to, from 0


def imputed_ndcg(items: GradedItems, sampling: Sampling) -> CalibratedValue:
    """The mean over queries, and its interval."""
    rng = np.random.default_rng([sampling.seed, 5])
    draws, queries, units = min(sampling.resamples, _MOST), len(items.limit), int(items.unit.max()) + 1
    weights = rng.standard_exponential((draws, units))
    band = rank_bands(items)
    chances = _chances(items, band, weights, rng)
    open_ = np.flatnonzero((items.stratum >= 0) & ~items.labelled)
    column, discount, ideal = _layout(items)
    gains = np.zeros((queries, int(column.max(initial=0)) + 1))
    gains[items.query, column] = items.gains[items.level]
    ends = rng.gamma(_END, size=(draws, 2))
    plain, drawn = np.zeros((2, draws)), np.zeros((2, draws))
    for way, at in product(range(2), range(draws)):
        chance = rng.random(len(open_)) if way == 0 else rng.random(queries)[items.query[open_]]
        level = (chance[:, None] > chances[at, items.stratum[open_], band[open_], :-1]).sum(axis=1)
        gains[items.query[open_], column[open_]] = items.gains[level]
        best = -np.sort(-gains, axis=1)
        above, below = (gains * discount).sum(axis=1), (best * ideal).sum(axis=1)
        values = np.divide(above, below, out=np.zeros(queries), where=below > 0)
        weight = weights[at, items.unit]
        plain[way, at] = values.mean()
        drawn[way, at] = ((weight * values).sum() + ends[at, 1]) / (weight.sum() + ends[at].sum())
    value, (low, high) = float(plain.mean()), np.quantile(drawn, sampling.tails, axis=1)
    return CalibratedValue(value, min(float(low.min()), value), max(float(high.max()), value))


def rank_bands(items: GradedItems) -> Ints:
    """For each item: 0 outside the top k, else its band of neighbouring ranks, each with enough labels."""
    top = (items.stratum >= 0) & (items.rank > 0) & (items.rank <= items.limit[items.query])
    if not top.any():
        return np.zeros(len(top), np.int64)
    labels = np.bincount(items.rank[top], items.labelled[top])
    found, band, inside, left = np.zeros(len(labels), np.int64), 1, 0.0, labels.sum()
    for rank, count in enumerate(labels.tolist()):
        if inside >= _BAND and left >= _BAND:
            band, inside = band + 1, 0.0
        found[rank] = band
        inside, left = inside + count, left - count
    return np.where(top, found[np.where(top, items.rank, 0)], 0)


def _chances(items: GradedItems, band: Ints, weights: Floats, rng: np.random.Generator) -> Floats:
    """The cumulative probability of each grade, draw × stratum × band × grade.

    A stratum may have few labels at some ranks. The expectation comes from all labels of the stratum and all
    of these ranks, as if the judge's errors did not depend on the rank; it counts as much as a few labels.
    """
    at = np.flatnonzero((items.stratum >= 0) & items.labelled)
    shape = (int(items.stratum.max()) + 1, int(band.max()) + 1, len(items.gains))
    cell = np.ravel_multi_index((items.stratum[at], band[at], items.level[at]), shape)
    units, unit = np.unique(items.unit[items.query[at]], return_inverse=True)
    table = np.zeros((len(units), int(np.prod(shape))))
    np.add.at(table, (unit, cell), 1.0)
    counts = (weights[:, units] @ table).reshape(len(weights), *shape)
    prior = np.zeros_like(counts)
    for part in (np.s_[:, :, :1], np.s_[:, :, 1:]):
        prior[part] = _expected(counts[part], rng)
    counts = counts + rng.gamma(np.maximum(_PRIOR * prior, 1e-9))
    return np.asarray(np.cumsum(counts / counts.sum(axis=3, keepdims=True), axis=3))


def _expected(counts: Floats, rng: np.random.Generator) -> Floats:
    """The probability of each grade from stratum and ranks separately, as if they were independent."""
    more = rng.gamma(1 / counts.shape[3], size=(len(counts), 1, 1, counts.shape[3]))
    stratum, ranks, all_ = (counts.sum(axis=axes, keepdims=True) + more for axes in (2, 1, (1, 2)))
    odds = _shares(stratum) * _shares(ranks) / np.maximum(_shares(all_), 1e-12)
    return _shares(odds)


def _shares(counts: Floats) -> Floats:
    return np.asarray(counts / counts.sum(axis=3, keepdims=True))


def _layout(items: GradedItems) -> tuple[Ints, Floats, Floats]:
    """The position of each item in a table of query × item, the discounts of its ranks, and those of an ideal list."""
    queries = len(items.limit)
    order = np.argsort(items.query, kind="stable")
    sizes = np.bincount(items.query, minlength=queries)
    column = np.empty(len(order), np.int64)
    column[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    width = int(sizes.max(initial=1))
    discount = np.zeros((queries, width))
    inside = (items.rank > 0) & (items.rank <= items.limit[items.query])
    discount[items.query[inside], column[inside]] = 1 / np.log2(items.rank[inside] + 1)
    place = np.arange(1, width + 1)
    ideal = np.where(place <= items.limit[:, None], 1 / np.log2(place + 1), 0.0)
    return column, discount, ideal
