"""What a judge's labels are worth, told by the people's labels of some of the same pairs.

The judge's grades part all pairs into strata. What share of a stratum people call relevant is known from those that
people labelled: this holds however these were picked within a stratum at random, a plain sample as well as one that
prefers some grades. Everything else follows: the share of relevant pairs, sensitivity, specificity and kappa.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from karat.errors import ConfigError
from karat.statistics.resampling import bayesian_sums
from karat.statistics.sampling import Sampling
from karat.statistics.special import normal_quantile
from karat.statistics.sums import Floats, Ints, ratio

LEAST_YOUDEN = 0.3  # under it a judge tells relevant from irrelevant so badly that correcting it blows up its noise


FEW = 10  # labels of a stratum, under which its share is not known well enough to stand alone


class CalibratedValue(NamedTuple):
    """A number with its interval; NaN where nothing can be said."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Strata:
    """One entry for each grade of the judge."""

    pairs: Ints  # that the judge gave this grade
    labelled: Ints  # of them by people
    relevant: Ints  # of these
    positive: NDArray[np.bool_]  # does the judge mean relevant by this grade

    @property
    def shares(self) -> Floats:
        """What share of each stratum is relevant; NaN where nobody looked."""
        return np.where(self.labelled > 0, self.relevant / np.maximum(self.labelled, 1), np.nan)

    @property
    def expected(self) -> Floats:
        """The same for planning, where a guess will do: drawn towards a half, the more the fewer looked."""
        return (self.relevant + 0.5) / (self.labelled + 1)

    @property
    def told(self) -> bool:
        """Whether people have labelled something of every stratum; else nothing follows for the whole."""
        return bool((self.labelled > 0).all())

    def draws(self, sampling: Sampling) -> Floats:
        """Shares as they may be: Jeffreys' posterior of each."""
        rng = np.random.default_rng([sampling.seed, 2])
        wrong = self.labelled - self.relevant
        return rng.beta(self.relevant + 0.5, wrong + 0.5, (sampling.resamples, len(self.pairs)))


def strata_by(positive: NDArray[np.bool_], pairs: Ints, labelled: Ints, relevant: Ints) -> tuple[Strata, Ints]:
    """A stratum for each grade of a judge, and where each grade belongs. Where people labelled too few pairs of some
    grade, grades are taken together by what the judge means by them: relevant or not."""
    place = np.arange(len(pairs))
    if (labelled < FEW).any():
        place = np.unique(positive, return_inverse=True)[1]
    size = int(place.max(initial=-1)) + 1
    means = np.zeros(size, np.bool_)
    means[place] = positive
    sums = [np.bincount(place, column, size).astype(np.int64) for column in (pairs, labelled, relevant)]
    return Strata(sums[0], sums[1], sums[2], means), place


@dataclass(frozen=True)
class Rates:
    """How a judge compares with people. Youden's index: sensitivity + specificity − 1; 0 is a coin."""

    sensitivity: CalibratedValue
    specificity: CalibratedValue
    kappa: CalibratedValue

    @property
    def youden(self) -> float:
        return self.sensitivity.value + self.specificity.value - 1


def rates(strata: Strata, sampling: Sampling) -> Rates:
    if not strata.told:
        nothing = CalibratedValue(math.nan, math.nan, math.nan)
        return Rates(nothing, nothing, nothing)
    exact = _rates(strata, strata.shares[None, :])[:, 0]
    drawn = _rates(strata, strata.draws(sampling))
    if not strata.relevant.sum():
        drawn[0] = exact[0] = np.nan  # people found nothing that it could have missed
    if strata.relevant.sum() == strata.labelled.sum():
        drawn[1] = exact[1] = np.nan
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(drawn, sampling.tails, axis=1)
        low, high = (
            np.minimum(low, exact),
            np.maximum(high, exact),
        )  # with few labels the middle of all draws is elsewhere
    found = (CalibratedValue(*map(float, values)) for values in zip(exact, low, high, strict=True))
    return Rates(*found)


def _rates(strata: Strata, shares: Floats) -> Floats:
    """Sensitivity, specificity and kappa, a column for each row of shares."""
    said, pairs = strata.positive, strata.pairs
    right, wrong = shares * pairs, (1 - shares) * pairs
    hits, misses = right[:, said].sum(axis=1), right[:, ~said].sum(axis=1)
    alarms, rejects = wrong[:, said].sum(axis=1), wrong[:, ~said].sum(axis=1)
    total = pairs.sum()
    agreed = (hits + rejects) / total
    chance = ((hits + misses) * (hits + alarms) + (alarms + rejects) * (misses + rejects)) / total**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([hits / (hits + misses), rejects / (rejects + alarms), (agreed - chance) / (1 - chance)])


def post_stratified(
    known: Floats, open_: Floats, strata: Strata, sampling: Sampling, clusters: Ints | None = None
) -> CalibratedValue:
    """Mean over units (pairs, queries) of what is known plus what is open × the share of its stratum; NaN where people
    have labelled nothing of a stratum.

    `open_`: unit × stratum. The interval allows for both: other units might have been drawn, and other pairs labelled.
    """
    if not strata.told:
        return CalibratedValue(math.nan, math.nan, math.nan)
    units = np.column_stack([known, open_])
    sums = ratio(units, np.ones_like(units), clusters)
    above, below = bayesian_sums(sums, sampling.seed, sampling.resamples)
    drawn = np.column_stack([np.ones(sampling.resamples), _for_the_rest(strata, strata.draws(sampling))])
    low_end, high_end = np.random.default_rng([sampling.seed, 1]).standard_gamma(0.5, (2, sampling.resamples))
    size = sums.usual[0]  # half a unit at either end of the range, as every interval of a mean has it
    means = ((above * drawn).sum(axis=1) + high_end * size) / (below[:, 0] + (low_end + high_end) * size)
    value = float((units.sum(axis=0) / len(units)) @ np.concatenate([[1.0], strata.shares]))
    low, high = np.quantile(means, sampling.tails)
    return CalibratedValue(value, min(float(low), value), max(float(high), value))


def _for_the_rest(strata: Strata, drawn: Floats) -> Floats:
    """Shares of the pairs without a label. What the labelled ones happen to be moves the known part in the same
    direction: of n labels in N pairs the variance is that of n, and not (1 − n/N)² of it."""
    share = np.minimum(strata.labelled / np.maximum(strata.pairs, 1), 0.999)  # where all are labelled, no rest is left
    away = (drawn - strata.shares) * np.sqrt((1 + share) / (1 - share))
    return np.asarray(np.clip(strata.shares + away, 0.0, 1.0))


def prediction_powered(
    judge_all: Floats, judge: Floats, human: Floats, probability: Floats, sampling: Sampling
) -> CalibratedValue:
    """PPI++ (Angelopoulos, Duchi and Zrnic 2023) for a mean, with labels that were drawn with unequal chances.

    The judge's mean over all pairs, corrected by how far it is off on those that people labelled, each counted by the
    inverse of its chance; the judge is trusted only as far as this narrows the interval.
    """
    weight = 1 / probability
    weight = weight / weight.sum()

    def spread(one: Floats, other: Floats) -> float:
        return float((weight**2 * (one - weight @ one) * (other - weight @ other)).sum()) * _few(len(weight))

    own = float(judge_all.var()) / len(judge_all)
    total = own + spread(judge, judge)
    trust = min(max(spread(human, judge) / total, 0.0), 1.0) if total else 0.0
    left = human - trust * judge
    value = trust * float(judge_all.mean()) + float(weight @ left)
    error = math.sqrt(trust**2 * own + spread(left, left))
    z = normal_quantile(sampling.tails[1])
    return CalibratedValue(min(max(value, 0.0), 1.0), max(value - z * error, 0.0), min(value + z * error, 1.0))


def _few(n: int) -> float:
    return n / (n - 1) if n > 1 else 1.0


def rogan_gladen(
    positive: float,
    pairs: int,
    sensitivity: float,
    relevant: float,
    specificity: float,
    irrelevant: float,
    level: float,
) -> CalibratedValue:
    """The share of relevant pairs from that which a judge of known sensitivity and specificity calls relevant.

    Both come from another set, on `relevant` and `irrelevant` pairs of it (Rogan and Gladen 1978); the interval is that
    of Lang and Reiczigel (2014). Refused where the judge hardly tells one from the other.
    """
    if not sensitivity + specificity - 1 >= LEAST_YOUDEN:
        raise ConfigError(
            f"this judge cannot be corrected: sensitivity {sensitivity:.2f} + specificity {specificity:.2f} − 1 = "
            f"{sensitivity + specificity - 1:.2f} is under {LEAST_YOUDEN}",
            code="not-correctable",
            hint="its labels say too little about relevance: try another prompt or model, or label by hand",
        )
    z = normal_quantile((1 + level) / 2)
    value = _uncovered(positive / pairs, sensitivity, specificity)
    n, n_se, n_sp = pairs + z**2, relevant + 2, irrelevant + 2
    p, se, sp = (positive + z**2 / 2) / n, (relevant * sensitivity + 1) / n_se, (irrelevant * specificity + 1) / n_sp
    middle = _uncovered(p, se, sp)
    of_se, of_sp = se * (1 - se) / n_se, sp * (1 - sp) / n_sp
    shift = 2 * z**2 * (middle * of_se - (1 - middle) * of_sp)
    error = math.sqrt(p * (1 - p) / n + middle**2 * of_se + (1 - middle) ** 2 * of_sp) / (se + sp - 1)
    low, high = (_share(middle + shift + side * z * error) for side in (-1, 1))
    return CalibratedValue(_share(value), low, high)


def _uncovered(apparent: float, sensitivity: float, specificity: float) -> float:
    return (apparent + specificity - 1) / (sensitivity + specificity - 1)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def standard_error(values: Floats, clusters: Ints | None) -> float:
    """Of the mean of units, or of clusters of them, as drawn."""
    sums = ratio(values[:, None], np.ones((len(values), 1)), clusters)
    away = sums.above - sums.estimate * sums.below
    return float(np.sqrt(sums.counts @ away**2)[0] / (sums.counts @ sums.below)[0])


def labels_for_width(strata: Strata, width: float, units_error: float, level: float) -> Ints | None:
    """How many labels of each stratum bring the interval of the corrected share down to a width.

    Spread where they help most: by size and by how mixed a stratum is (Neyman). `units_error`: standard error that
    labels cannot take away. None: not even labels of all pairs would.
    """
    z = normal_quantile((1 + level) / 2)
    error = (width / (2 * z)) ** 2 - units_error**2
    if error <= 0:
        return None
    helps = strata.pairs / strata.pairs.sum() * np.sqrt(strata.expected * (1 - strata.expected))
    wanted = np.ceil(helps.sum() * helps / error).astype(np.int64)
    return np.asarray(np.minimum(np.maximum(wanted, strata.labelled), strata.pairs))
