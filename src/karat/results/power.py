"""Power analysis: the smallest difference a query set can detect, and how many queries a given difference needs."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.gold import Dataset
from karat.data.ids import Floats
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.results.comparison.compare import paired_sides
from karat.results.result import DETECT, Result
from karat.results.summary import FEW, Scores
from karat.scoring.metrics.base import Metric
from karat.statistics.significance import detectable_difference, units_needed

# Assumed correlation between the scores of two versions of a system. Measured instead if there is a second run.
_ASSUMED = 0.5
_SMALLEST = 1e-6  # no query set could detect less
_NO_SPREAD = 1e-9


class PlanRow(msgspec.Struct, frozen=True):
    """What the query set can detect in one metric."""

    metric: str
    n: int  # queries on which it is defined
    units: int  # what is resampled: conversations if queries are grouped, else queries
    spread: float | None  # standard deviation of the paired difference of one unit
    detectable: float | None  # smallest true difference that is detected; null if all units are the same
    detect: float  # the difference to detect
    needed: int | None  # queries in total to detect it
    enough: bool | None
    few: bool = False


class Plan(SavedObject, frozen=True, kw_only=True):
    """What `karat eval power` saves."""

    schema: Literal["karat/plan/1"] = "karat/plan/1"
    run: str
    against: str | None  # the second run that the spread was measured with
    correlation: float | None  # assumed if there is no second run
    gold: str
    dataset: Dataset
    level: float
    power: float
    cluster: str | None
    rows: list[PlanRow]


def plan(
    result: Result,
    against: Result | None = None,
    *,
    detect: float = DETECT,
    power: float = 0.8,
    correlation: float = _ASSUMED,
) -> Plan:
    """Compute what a query set can detect from the spread of a result's scores.

    `detect`: the difference to detect (in the metric's unit: 0.03 is three percentage points).
    `against`: another result on the same queries; the spread of the differences is then measured, otherwise
    `correlation` between the scores of the two versions is assumed.
    """
    level = result.sampling.level
    _check(detect, power, correlation, level)
    metrics = [m for m in result.metrics if m.aggregate is None and m.range == (0.0, 1.0) and m.is_quality]
    if against is None:
        # The spread of the difference of two versions with the same spread and this correlation.
        apart = (2 * (1 - correlation)) ** 0.5
        rows = [_row(m, result.values[str(m)], result.columns, detect, level, power, apart) for m in metrics]
    else:
        paired = paired_sides(result, against)
        metrics = [m for m in metrics if m in paired.baseline.metrics]
        rows = [_row(m, paired.deltas(m), paired.baseline, detect, level, power) for m in metrics]
    if not rows:
        raise ConfigError(
            "no metric measures quality as a share between 0 and 1",
            code="unsuitable-metric",
            hint="add one, such as -m recall@5",
        )
    return Plan(
        karat=__version__,
        run=result.system or result.run,
        against=None if against is None else against.system or against.run,
        correlation=correlation if against is None else None,
        gold=result.gold.label,
        dataset=result.gold.dataset,
        level=level,
        power=power,
        cluster=result.cluster,
        rows=rows,
    )


def _check(detect: float, power: float, correlation: float, level: float) -> None:
    if not _SMALLEST <= detect < 1:
        what = "the difference to detect must be between 0 and 1"
        raise ConfigError(what, got=detect, expected="such as 0.03 for three percentage points")
    chance = (1 - level) / 2  # how often a difference is "found" in this direction although there is none
    if not chance < power < 1:
        raise ConfigError(f"the power must be between {chance:g} (chance) and 1", got=power, expected="such as 0.8")
    if not -1 <= correlation < 1:
        raise ConfigError("the correlation must be between -1 and 1", got=correlation, expected="such as 0.5")


def _row(
    metric: Metric, values: Floats, scores: Scores, detect: float, level: float, power: float, apart: float = 1.0
) -> PlanRow:
    """`apart`: the spread of the difference as a share of the spread of the values."""
    n, units, spread = int((~np.isnan(values)).sum()), *_unit_spread(metric, values, scores)
    detectable = needed = enough = None
    if spread is not None:
        spread *= apart
    # If all units are the same, nothing is known about how they could differ, and 0 would promise too much.
    if spread is not None and spread > _NO_SPREAD:
        detectable = detectable_difference(spread, units, level, power)
        wanted = units_needed(spread, detect, level, power)
        needed = -(-wanted * n // units)  # the queries in these units, rounded up
        enough = units >= wanted
    return PlanRow(str(metric), n, units, spread, detectable, detect, needed, enough, few=n < FEW)


def _unit_spread(metric: Metric, values: Floats, scores: Scores) -> tuple[int, float | None]:
    """The number of units (queries or conversations), and the standard deviation of what each adds to the mean."""
    sums = Scores([metric], {str(metric): values}, scores.weights, scores.clusters).sums([str(metric)])
    units = int(sums.defined[0])
    if units < 2:
        return units, None
    away = (sums.above - sums.estimate * sums.below)[:, 0] / sums.usual[0]
    return units, float(np.sqrt(sums.counts @ away**2 / (units - 1)))
