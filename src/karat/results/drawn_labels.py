"""Check whether human labels are a fair sample of a run's hits, as far as the data shows.

A judge's error rates are estimated from hits that humans labelled too. That is valid if these hits were sampled at
random within each grade. Three violations can be detected: humans labelled the first ranks only, some ranks more than
others, or the hits of another run (docs/decisions/050-calibrated-intervals.md).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from karat.data.ids import Bools, Ints
from karat.scoring.extra_labels import Named
from karat.statistics.calibration import FEW

_EXPECTED = 3  # if this many labels were expected by chance and there are none, these hits were never sampled
_UNEVEN = 1.0  # deviations of the mean rank of labels: below it, a share shifts by at most half its error
_SURELY_UNEVEN = 3.0
_ELSEWHERE = -2.33  # deviations: one fair sample in a hundred has so few labels on the run's own hits
_BANDS = 4


def deepest_rank(rank: Ints, labelled: Bools) -> int | None:
    """The rank below which no hits were sampled for human labels, if there is one."""
    deepest, labels = int(rank[labelled].max(initial=0)), int(labelled.sum())
    never = labels * (rank > deepest).sum() >= _EXPECTED * max(len(rank), 1)
    return deepest if labels and never else None


class RankBands(NamedTuple):
    """Bands of neighbouring ranks that are estimated separately."""

    of: Ints | None  # the band of each hit; None: all ranks together
    fair: bool = True  # False: labels favour some ranks, and there are too few to correct for it


def rank_bands(rank: Ints, kind: Bools, labelled: Bools) -> RankBands:
    """Bands with enough labels of either kind, if labels are uneven over the ranks. `kind`: whether the judge calls the
    hit relevant."""
    uneven = abs(_uneven(rank, kind, labelled))
    if uneven <= _UNEVEN:
        return RankBands(None)
    kinds = np.unique(kind)
    counts = np.array([np.bincount(rank[labelled & (kind == k)], minlength=int(rank.max()) + 1) for k in kinds])
    # Bands with about the same number of labels, so that the first ranks do not take most of them.
    most = min(_BANDS, int(counts.sum(axis=1).min()) // FEW)
    for bands in range(most, 1, -1):
        found = _bands(counts, bands)
        if found is not None:
            return RankBands(found[rank])
    return RankBands(None, fair=uneven <= _SURELY_UNEVEN)


def _bands(counts: Ints, bands: int) -> Ints | None:
    """The band of each rank; None if not every band can have enough labels."""
    of_rank, band, inside = np.zeros(counts.shape[1], np.int64), 0, np.zeros(len(counts))
    left, wanted = counts.sum(axis=1), counts.sum() / bands
    for rank in range(counts.shape[1]):
        if band < bands - 1 and inside.min() >= FEW and inside.sum() >= wanted and left.min() >= FEW:
            band, inside = band + 1, np.zeros(len(counts))
        of_rank[rank] = band
        inside, left = inside + counts[:, rank], left - counts[:, rank]
    return of_rank if band == bands - 1 and inside.min() >= FEW else None


def _uneven(rank: Ints, kind: Bools, labelled: Bools) -> float:
    """How many deviations the ranks of the labels are from those of a fair sample."""
    away = spread = 0.0
    for which in (kind, ~kind):
        ranks, labels = rank[which].astype(np.float64), int(labelled[which].sum())
        if 0 < labels < len(ranks):
            away += float(ranks[labelled[which]].sum() - labels * ranks.mean())
            spread += labels * float(ranks.var(ddof=1)) * (1 - labels / len(ranks))
    return away / math.sqrt(spread) if spread > 0 else 0.0


def drawn_elsewhere(
    judge: Mapping[Named, float], people: Container[Named], own: Container[Named], known: Iterable[Named] = ()
) -> bool:
    """Whether fewer of the run's own hits have human labels than of the judge's other pairs.

    Then the labels come from another run. Hits that both runs found are not a fair sample of this one. Compared query
    by query and grade by grade (Mantel-Haenszel). `known`: pairs of the gold set, which do not count.
    """
    skipped = set(known)
    cells: dict[tuple[str, float], list[int]] = {}
    for pair, grade in judge.items():
        if pair in skipped:
            continue
        cell = cells.setdefault((pair[0], grade), [0, 0, 0, 0])  # pairs, own, labelled, both
        is_own, has_label = pair in own, pair in people
        for place, counts in enumerate((True, is_own, has_label, is_own and has_label)):
            cell[place] += counts
    pairs, mine, told, both = np.array([*cells.values()], np.float64).reshape(-1, 4).T
    spread = told * (pairs - told) * mine * (pairs - mine) / (pairs**2 * np.maximum(pairs - 1, 1))
    if not spread.sum() > 0:
        return False
    return float((both - told * mine / pairs).sum()) / math.sqrt(spread.sum()) < _ELSEWHERE
