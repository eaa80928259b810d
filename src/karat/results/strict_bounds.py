"""Strict bounds: how low and how high a score, or a difference of two, could be if every hit had a label."""

from __future__ import annotations

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints
from karat.results.differences import SAME
from karat.scoring.metrics.base import Metric
from karat.scoring.unjudged import OpenLists
from karat.statistics.fewest import fewest_changes

Bounds = tuple[Floats, Floats]


def strict_bounds(metric: Metric, lists: OpenLists) -> Bounds | None:
    """(low, high) of `second − first` for every query, NaN where undefined; None for a metric without such bounds."""
    influence = None if metric.budget else metric.influence(lists)
    if influence is None:
        return None
    low, high = metric.lowest(lists, influence), -metric.lowest(lists.swapped, -influence)
    ends = metric.range[1] - metric.range[0]
    return np.clip(low, -ends, ends) + 0.0, np.clip(high, -ends, ends) + 0.0  # removes rounding errors and −0


class Flip(msgspec.Struct, frozen=True):
    """Items that would bring the difference of two means down to 0 if all of them were relevant."""

    items: Ints  # of the open lists
    exact: bool  # no smaller set exists; otherwise one may


def flip(metric: Metric, lists: OpenLists, rows: Ints) -> Flip | None:
    """The smallest set of labels that would cost the second side its lead in the mean over these queries.

    None if it does not lead, or if no labels could cost it the lead.
    """
    influence = None if metric.budget else metric.influence(lists)
    if influence is None:
        return None
    known = metric.lowest(lists, influence, labels=0)[rows]
    rows, known = rows[~np.isnan(known)], known[~np.isnan(known)]
    if not known.sum() > SAME:
        return None
    lowered = [np.zeros(len(rows))]
    every = int(np.bincount(lists.query).max(initial=0))
    best = known - metric.lowest(lists, influence, labels=every)[rows]
    while not np.allclose(lowered[-1], best, rtol=0, atol=1e-12):
        lowered.append(known - metric.lowest(lists, influence, labels=len(lowered))[rows])
    found = fewest_changes(np.column_stack(lowered), float(known.sum()))
    if found is None:
        return None
    wanted = np.zeros(lists.second.n, np.int64)
    wanted[rows] = found.changes
    item, place = lists.place(influence)
    return Flip(item[place < wanted[lists.query[item]]], found.exact)
