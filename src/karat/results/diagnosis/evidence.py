"""The evidence for rules: estimates with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.results.analyses.label_health import LabelHealth
from karat.results.diagnosis.finding import MissingEvidence, Number
from karat.results.diagnosis.thresholds import DEPTHS
from karat.results.summary import FEW
from karat.scoring.ceilings import Bounds
from karat.scoring.metrics.base import share
from karat.statistics.intervals import Range, mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.special import normal_quantile
from karat.statistics.sums import Sums, sum_up
from karat.statistics.tally import Tally, tally, tally_kinds

# Enough for a yes or no, and for two digits.
_RESAMPLES = 2_000
SHARE: Range = (0.0, 1.0)
DIFFERENCE: Range = (-1.0, 1.0)


Limits = tuple[float, float]
T = TypeVar("T")


class LazyInterval(msgspec.Struct, frozen=True, dict=True):
    """A number whose interval is computed on first use."""

    name: str
    value: float
    limits_at: Callable[[float], Limits]  # level → (low, high)
    level: float

    @cached_property
    def limits(self) -> Limits:
        return self.limits_at(self.level)

    @cached_property
    def wide_limits(self) -> Limits:
        """Limits with a fifth of the error probability: 99 % for 95 %."""
        return self.limits_at(1 - (1 - self.level) / 5)

    @property
    def number(self) -> Number:
        return Number(self.name, self.value, *self.limits)

    def mirrored(self, name: str, around: float) -> LazyInterval:
        """`around` minus the number: 1 − a share, or with 0 the opposite sign."""

        def limits_at(level: float) -> Limits:
            low, high = self.limits_at(level)
            return around - high, around - low

        return LazyInterval(name, around - self.value, limits_at, self.level)

    def above(self, line: float) -> int:
        """How sure it is that the true value is above a line: 0 not, 1 likely, 2 strong."""
        if self.value <= line or self.limits[0] <= line:  # the value first: it is cheap
            return 0
        return 2 if self.wide_limits[0] > line else 1

    def below(self, line: float) -> int:
        """The same for below. For all of several conditions take the min, for any of them the max."""
        if self.value >= line or self.limits[1] >= line:
            return 0
        return 2 if self.wide_limits[1] < line else 1


def above_zero(numbers: Mapping[str, LazyInterval]) -> dict[str, int]:
    """Those that are above 0, and how sure that is (1 likely, 2 strong), corrected with Holm's method."""
    likely, strong = _above_zero(numbers, 1), _above_zero(numbers, 5)  # strong: a fifth of the error probability
    return {name: 2 if name in strong else 1 for name in numbers if name in likely}


def _above_zero(numbers: Mapping[str, LazyInterval], stricter: int) -> set[str]:
    found: set[str] = set()
    while len(found) < len(numbers):
        tests = stricter * (len(numbers) - len(found))
        left = {name: one for name, one in numbers.items() if name not in found and one.value > 0}
        more = {name for name, one in left.items() if one.limits_at(1 - (1 - one.level) / tests)[0] > 0}
        if not more:
            break
        found |= more
    return found


class Evidence(msgspec.Struct, frozen=True, dict=True):
    """The scores of one system, query by query, with everything they depend on."""

    values: dict[str, Floats]  # by metric, of the panel and of the background
    ceilings: Bounds
    floors: Bounds
    depths: Ints  # number of hits of each query
    clusters: Ints | None
    sampling: Sampling
    corpus_size: int | None = None
    repeats: int = 0  # repeated hits in the same list
    wrong_hits_judged: bool = False  # the gold set marks some items as not relevant
    attributes: tuple[str, ...] = ()  # by which queries can be grouped
    groups: Callable[[str], list[tuple[str, Ints]]] = lambda name: []
    bm25: Mapping[str, Floats] = msgspec.field(default_factory=dict)  # BM25's scores on the same queries, if known
    labels: LabelHealth | None = None  # if there is a corpus to check the gold set against
    analyses: Callable[[], Mapping[str, Any]] = dict  # computed when a rule needs them
    counted: Callable[[Floats], Tally] = tally  # may know columns that were counted before

    def analysis(self, name: str) -> Any:
        found = self.analyses().get(name)
        if found is None:
            raise MissingEvidence(name)
        return found

    def told(self, name: str, value: float | None, limits: tuple[float | None, float | None], n: int) -> LazyInterval:
        """A number that an analysis measured on n queries. Its limits at other levels assume a normal distribution."""
        low, high = limits
        if value is None or low is None or high is None or n < FEW:
            raise MissingEvidence(name)

        def limits_at(level: float) -> Limits:
            wider = normal_quantile((1 + level) / 2) / normal_quantile((1 + self.sampling.level) / 2)
            return value - (value - low) * wider, value + (high - value) * wider

        return LazyInterval(name, value, limits_at, self.sampling.level)

    def column(self, name: str) -> Floats:
        if name not in self.values:
            raise MissingEvidence(name)
        return self.values[name]

    def ceiling(self, name: str) -> Floats:
        self.column(name)
        return self.ceilings[name]

    def score(self, name: str, of: Bools | None = None) -> LazyInterval:
        """A metric's mean, over all queries or over some."""
        if of is not None:
            return self.estimate(name, _only(self.column(name), of))
        return self._once(("score", name), lambda: self.estimate(name, self.column(name)))

    def reached(self, name: str) -> Floats:
        """A metric as a share of its ceiling: with seven relevant items, five of them in the top 5 is perfect."""
        column, ceiling = self.column(name), self.ceiling(name)
        return self._once(("reached", name), lambda: column if (ceiling == 1).all() else share(column, ceiling))

    def reach(self, name: str, of: Bools | None = None) -> LazyInterval:
        told = name if self.uncapped(name) else f"{name} / ceiling"
        if of is not None:
            return self.estimate(told, _only(self.reached(name), of))
        return self._once(("reach", name), lambda: self.estimate(told, self.reached(name)))

    def uncapped(self, name: str) -> bool:
        """Whether every query can reach 1."""
        return self._once(("uncapped", name), lambda: _all_ones(self.ceiling(name)))

    def _once(self, key: tuple[str, str], found: Callable[[], T]) -> T:
        """Several rules use the same numbers."""
        known: dict[tuple[str, str], T] = self.__dict__.setdefault("_known", {})
        if key not in known:
            known[key] = found()
        return known[key]

    def reordered(self, depth: int) -> Floats:
        """The share of recall@5's ceiling that a perfect order of the first `depth` hits would reach."""
        # Five places, R relevant items, f of them found: min(f, 5) / min(R, 5).
        return np.minimum(share(self.column(f"recall@{depth}"), self.ceiling("recall@5")), 1.0)

    def estimate(self, name: str, values: Floats, ends: Range = SHARE, few: int = FEW) -> LazyInterval:
        """The mean of a column. Raises MissingEvidence with fewer than `few` queries."""
        found = self.counted(values)
        if found.mean is None or found.n < few:
            raise MissingEvidence(name)
        sums: list[Sums] = []  # filled on first use

        def limits_at(level: float) -> Limits:
            if not sums:
                sums.append(found.sums if self.clusters is None else _by_cluster(values, self.clusters))
            sampling = self.sampling.replace(level=level, resamples=min(self.sampling.resamples, _RESAMPLES))
            low, high = mean_intervals(sums[0], [ends], sampling)[0].tolist()
            return low, high

        return LazyInterval(name, found.mean, limits_at, self.sampling.level)

    def quantile(self, name: str, values: Floats, at: float) -> LazyInterval:
        """A quantile of a column."""
        found = self.counted(values)
        if found.n < FEW:
            raise MissingEvidence(name)

        def limits_at(level: float) -> Limits:
            return found.quantile_interval(at, level) or (-np.inf, np.inf)

        return LazyInterval(name, found.quantiles([at])[0], limits_at, self.sampling.level)

    @cached_property
    def length(self) -> float:
        """How many hits half of the lists have at least, of those that are not empty."""
        counts = np.bincount(self.depths)
        some = np.flatnonzero(counts[1:]) + 1
        return tally_kinds(some.astype(np.float64), counts[some]).quantiles([0.5])[0] if len(some) else 0.0

    @cached_property
    def depth(self) -> int:
        """The deepest k that half of the lists reach and at which recall was measured.

        Beyond the end of a list, nothing is known.
        """
        for k in DEPTHS:
            if self.length >= k:
                if f"recall@{k}" not in self.values:
                    break  # the lists are deeper, but recall was not requested
                return k
        raise MissingEvidence("recall at any depth")


def _by_cluster(values: Floats, clusters: Ints) -> Sums:
    defined = ~np.isnan(values)
    return sum_up(values[defined, None], None, clusters[defined])


def _all_ones(ceiling: Floats) -> bool:
    return bool(((ceiling == 1) | np.isnan(ceiling)).all())


def _only(values: Floats, of: Bools | None) -> Floats:
    return values if of is None else np.where(of, values, np.nan)
