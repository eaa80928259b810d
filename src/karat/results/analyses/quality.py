"""Whether the metrics track user feedback: rank correlation over all queries and by segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
import numpy as np

from karat.data.gold import SIGNAL
from karat.results.analyses.base import Analysis, NotAsked, Setup
from karat.results.summary import number
from karat.scoring.metrics.base import Relevance
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

GATED = "recall@5"
_USUAL = (GATED, "mrr", "ndcg@10")


class Tracking(msgspec.Struct, frozen=True):
    """One metric compared with the signal, on some queries."""

    metric: str
    segment: str | None  # attribute and value; null: all queries
    n: int  # queries with both
    rho: float | None  # Spearman's; null if either is constant or n is below ten
    low: float | None
    high: float | None
    reading: Literal["tracks", "not shown", "opposite", "cannot tell"]


class QualityFound(msgspec.Struct, frozen=True):
    """How well the metrics agree with an external signal."""

    rows: list[Tracking]
    queries: int  # with the signal
    mean: float  # of the signal
    metric: str = GATED  # the one used for segments


class QualityAnalysis(Analysis):
    """Analyses the signal from `--quality`: thumbs, resolved or not, answer scores."""

    name = "quality"
    title = "Does it track quality"
    finds: ClassVar[type[msgspec.Struct]] = QualityFound

    def need(self, setup: Setup) -> Need:
        if SIGNAL not in setup.gold.fields:
            raise NotAsked
        own = [str(m) for m in setup.metrics if isinstance(m, Relevance) and m.budget is None]
        return Need(metrics=tuple(dict.fromkeys((*_USUAL, *own))))

    def find(self, side: Result) -> QualityFound:
        from karat.statistics.rank_correlation import FEWEST

        given = side.gold.fields[SIGNAL]
        signal = np.array([np.nan if given[row] is None else given[row] for row in side.rows.tolist()], np.float64)
        everywhere = np.arange(len(signal))
        shown = [str(m) for m in side.metrics if isinstance(m, Relevance) and m.budget is None]
        rows = [_tracking(side, name, None, signal, everywhere) for name in shown]
        for tag in side.segmented_by or side.telling_tags():
            for value, at in side.groups(tag):
                if (~np.isnan(signal[at])).sum() >= FEWEST:
                    rows.append(_tracking(side, GATED, f"{tag} {value}", signal, at))
        return QualityFound(rows, int((~np.isnan(signal)).sum()), float(np.nanmean(signal)))


def _tracking(side: Result, name: str, segment: str | None, signal: np.ndarray, at: np.ndarray) -> Tracking:
    from karat.statistics.rank_correlation import rank_correlation

    clusters = side.columns.clusters
    unit = None if clusters is None else clusters[at]
    found = rank_correlation(side.values[name][at], signal[at], side.sampling, unit)
    rho, low, high = (number(value) for value in found[:3])
    reading: Literal["tracks", "not shown", "opposite", "cannot tell"] = "not shown"
    if low is None or high is None:
        reading = "cannot tell"
    elif low > 0 or high < 0:
        reading = "tracks" if low > 0 else "opposite"
    return Tracking(name, segment, found.n, rho, low, high, reading)
