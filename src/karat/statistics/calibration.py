"""How good a judge's labels are, measured by human labels of some of the same pairs.

The judge's grades divide all pairs into strata. The share of relevant pairs in a stratum is estimated from its human
labels. This works for any random selection within a stratum, whether a plain sample or one that
prefers some grades, and with known probabilities for any other. Everything else follows: the share of relevant pairs,
sensitivity, specificity and kappa.

Pairs of one query are similar, so whole queries are resampled, with their labels: sizes of strata and shares in them
are drawn together (docs/decisions/050-calibrated-intervals.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from karat.errors import ConfigError
from karat.statistics.resampling import bayesian_sums
from karat.statistics.sampling import Sampling
from karat.statistics.special import normal_quantile, student_quantile
from karat.statistics.sums import Floats, Ints, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Sensitivity + specificity − 1, where 0 is a coin: below this, correcting a judge amplifies its noise.
LEAST_YOUDEN = 0.3
FEWEST = 2  # units needed to estimate a spread
FEW = 10  # labels of a stratum, below which its share is too uncertain on its own


class CalibratedValue(NamedTuple):
    """A number with its interval; NaN where unknown."""

    value: float
    low: float
    high: float

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.high < 0


NOTHING = CalibratedValue(math.nan, math.nan, math.nan)


class JudgedPairs(msgspec.Struct, frozen=True):
    """Pairs that a judge graded, with human labels for some of them."""

    unit: Ints  # query or conversation of each pair, from 0
    units: int
    grade: Ints  # index of the judge's grade
    positive: NDArray[np.bool_]  # of each grade: whether it means relevant
    people: Floats  # 1 relevant, 0 not, NaN without a label
    weight: Floats | None = None  # what each pair adds to the score
    chance: Floats | None = None  # chance of a human label; NaN: not random, so its label is not used

    @property
    def labelled(self) -> NDArray[np.bool_]:
        people = ~np.isnan(self.people)
        return people if self.chance is None else people & ~np.isnan(self.chance)

    def strata(self) -> Strata:
        """One stratum per grade. Where some grade has too few human labels, grades are merged by
        their meaning: relevant or not."""
        labelled, grades = self.labelled, len(self.positive)
        counts, used = (np.bincount(self.grade[at], minlength=grades) for at in (labelled, labelled | True))
        place = np.arange(grades)
        if (counts[used > 0] < FEW).any():
            place = np.unique(self.positive, return_inverse=True)[1]
        size = int(place.max(initial=-1)) + 1
        means = np.zeros(size, np.bool_)
        means[place] = self.positive
        weight = np.ones(len(self.grade)) if self.weight is None else self.weight
        by_label = weight if self.chance is None else weight / np.where(labelled, self.chance, 1.0)
        at = self.unit * size + place[self.grade]

        def table(values: Floats) -> Floats:
            return np.bincount(at, values, self.units * size).reshape(self.units, size).astype(np.float64)

        return Strata(
            size=table(weight),
            labelled=table(np.where(labelled, by_label, 0.0)),
            relevant=table(np.where(labelled & (self.people > 0), by_label, 0.0)),
            positive=means,
            pairs=np.bincount(place[self.grade], minlength=size),
            labels=np.bincount(place, counts, size).astype(np.int64),
            place=place,
        )


class Strata(msgspec.Struct, frozen=True):
    """The judge's grades in sums, unit × stratum; a unit is a query or a conversation."""

    size: Floats  # total weight of the pairs
    labelled: Floats  # the same for those with a human label
    relevant: Floats  # of these
    positive: NDArray[np.bool_]  # whether the judge's grade means relevant
    pairs: Ints  # of each stratum
    labels: Ints  # human labels among them
    place: Ints  # the stratum of each grade

    @property
    def shares(self) -> Floats:
        """The relevant share of each stratum; NaN without labels."""
        labelled = self.labelled.sum(axis=0)
        return np.where(labelled > 0, self.relevant.sum(axis=0) / np.where(labelled > 0, labelled, 1), np.nan)

    @property
    def expected(self) -> Floats:
        """The same for planning, where a guess is enough: shrunk towards a half, more with fewer labels."""
        return (np.nan_to_num(self.shares) * self.labels + 0.5) / (self.labels + 1)

    @property
    def told(self) -> bool:
        """Whether every stratum has human labels; otherwise no total can be estimated."""
        return bool((self.labels[self.pairs > 0] > 0).all())

    @property
    def usual(self) -> Floats:
        """The average weight of the labels of one unit, by stratum."""
        return np.asarray(self.labelled.sum(axis=0) / np.maximum((self.labelled > 0).sum(axis=0), 1))


def no_strata(units: int) -> Strata:
    """Whether nothing is left to a judge."""
    table, none = np.zeros((units, 0)), np.zeros(0, np.int64)
    return Strata(table, table, table, np.zeros(0, np.bool_), none, none, none)


def independent(table: Floats) -> float:
    """The number of equally weighted units with the same information (Kish), in the column with the fewest."""
    used = table[:, table.any(axis=0)]
    return float((used.sum(axis=0) ** 2 / (used**2).sum(axis=0)).min(initial=math.inf))


class Rates(msgspec.Struct, frozen=True):
    """How a judge compares with people."""

    sensitivity: CalibratedValue
    specificity: CalibratedValue
    kappa: CalibratedValue


def rates(strata: Strata, sampling: Sampling) -> Rates:
    if not strata.told:
        return Rates(NOTHING, NOTHING, NOTHING)
    exact = _rates(strata.positive, strata.size.sum(axis=0)[None, :], np.nan_to_num(strata.shares)[None, :])[:, 0]
    _, size, shares = _resampled(np.zeros((len(strata.size), 0)), strata, sampling)
    drawn = _rates(strata.positive, size, shares)
    right, wrong = strata.relevant.sum(axis=1), (strata.labelled - strata.relevant).sum(axis=1)
    if not right.any():
        exact[0] = np.nan  # there was nothing relevant that it could have missed
    if not wrong.any():
        exact[1] = np.nan
    looked, found, refused = (independent(t) for t in (strata.labelled, right[:, None], wrong[:, None]))
    units = (min(looked, found), min(looked, refused), min(looked, found, refused))
    ranges = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))
    return Rates(*map(_with_limits, exact.tolist(), drawn, drawn, units, ranges, [sampling] * 3))


def _rates(said: NDArray[np.bool_], size: Floats, shares: Floats) -> Floats:
    """Sensitivity, specificity and kappa, one column per row of sizes and shares."""
    right, wrong = shares * size, (1 - shares) * size
    hits, misses = right[:, said].sum(axis=1), right[:, ~said].sum(axis=1)
    alarms, rejects = wrong[:, said].sum(axis=1), wrong[:, ~said].sum(axis=1)
    total = size.sum(axis=1)
    agreed = (hits + rejects) / total
    chance = ((hits + misses) * (hits + alarms) + (alarms + rejects) * (misses + rejects)) / total**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([hits / (hits + misses), rejects / (rejects + alarms), (agreed - chance) / (1 - chance)])


def post_stratified(
    known: Floats, below: Floats, strata: Strata, sampling: Sampling, loose: Floats | None = None, guess: float = 0.0
) -> CalibratedValue:
    """The known sum plus size × share of each stratum, over `below`, as a mean over units; NaN where a stratum has no
    human labels.

    `known`, `below`: sums of each unit. `loose`: sums of further pairs, of which any part may be relevant; `guess`: how
    much of all of them counts in the value. The interval covers other units, with other labels.
    """
    if not strata.told or not len(known):
        return NOTHING
    more = np.zeros(len(known)) if loose is None else loose
    value = float((known.sum() + (strata.size @ np.nan_to_num(strata.shares)).sum() + guess) / below.sum())
    sums, size, shares = _resampled(np.column_stack([known, more, below]), strata, sampling)
    ends = np.random.default_rng([sampling.seed, 1]).standard_gamma(0.5, (2, sampling.resamples)) * below.mean()
    total = sums[:, 2] + ends.sum(axis=0)  # half a unit at either end of the range, as in every interval of a mean
    least = (sums[:, 0] + (size * shares).sum(axis=1) + ends[1]) / total
    units = independent(np.column_stack([strata.labelled, below]))
    return _with_limits(value, least, least + sums[:, 1] / total, units, (0.0, 1.0), sampling)


def _resampled(columns: Floats, strata: Strata, sampling: Sampling) -> tuple[Floats, Floats, Floats]:
    """Sums of the columns, sizes of the strata, and shares in them, by resample: a Bayesian bootstrap over
    units, with half a unit's labels of either kind in each stratum, so that unanimous labels are not certain."""
    table = np.column_stack([columns, strata.size, strata.labelled, strata.relevant])
    drawn, _ = bayesian_sums(ratio(table, np.ones((len(table), 1))), sampling.seed, sampling.resamples)
    sums, size, labelled, relevant = np.split(drawn, columns.shape[1] + len(strata.pairs) * np.arange(3), axis=1)
    shape = (2, sampling.resamples, len(strata.pairs))
    more = np.random.default_rng([sampling.seed, 2]).standard_gamma(0.5, shape) * strata.usual
    with np.errstate(invalid="ignore"):
        shares = (relevant + more[1]) / (labelled + more.sum(axis=0))
    return sums, size, np.nan_to_num(shares)  # no label in a stratum without pairs


def _with_limits(
    value: float, least: Floats, most: Floats, units: float, ends: tuple[float, float], sampling: Sampling
) -> CalibratedValue:
    """Quantiles of the draws, further from the value the fewer independent units there are: a bootstrap of m units
    underestimates their spread by (m − 1) / (m + 1), and Student's t accounts for the uncertainty of the spread."""
    if math.isnan(value):
        return NOTHING
    if units < FEWEST:
        return CalibratedValue(value, *ends)
    low, high = np.nanquantile(least, sampling.tails[0]), np.nanquantile(most, sampling.tails[1])
    if math.isfinite(units):
        upper, whole = sampling.tails[1], math.floor(units)
        wider = student_quantile(upper, whole - 1) / normal_quantile(upper) * math.sqrt((whole + 1) / (whole - 1))
        low, high = value + wider * (low - value), value + wider * (high - value)
    # With few labels the center of the draws is shifted.
    return CalibratedValue(value, min(max(float(low), ends[0]), value), max(min(float(high), ends[1]), value))


def rogan_gladen(positive: float, sensitivity: float, specificity: float) -> float:
    """The share of relevant pairs, corrected for a judge of known sensitivity and specificity.

    Both come from other pairs (Rogan and Gladen 1978), so the result is right only if the judge makes the same errors
    here; no interval can tell. Raises where the judge hardly separates relevant from irrelevant.
    """
    youden = sensitivity + specificity - 1
    if not youden >= LEAST_YOUDEN:
        inverted = youden <= -LEAST_YOUDEN
        said = f"sensitivity {sensitivity:.2f} + specificity {specificity:.2f} − 1 = {youden:.2f}".replace("-", "−")
        raise ConfigError(
            f"this judge is inverted: {said}"
            if inverted
            else f"this judge cannot be corrected: {said} is below {LEAST_YOUDEN}",
            code="inverted-judge" if inverted else "not-correctable",
            hint="it calls relevant what people call irrelevant: is its scale or the prompt reversed?"
            if inverted
            else "its labels say too little about relevance: try another prompt or model, or label by hand",
        )
    return min(max((positive + specificity - 1) / youden, 0.0), 1.0)


def standard_error(values: Floats, clusters: Ints | None, level: float) -> float:
    """Standard error of the mean of units, or of clusters of them; larger for few units, whose spread is uncertain."""
    sums = ratio(values[:, None], np.ones((len(values), 1)), clusters)
    if sums.units < FEWEST:
        return math.inf
    away = sums.above - sums.estimate * sums.below
    upper = (1 + level) / 2
    few = math.sqrt(sums.units / (sums.units - 1)) * student_quantile(upper, sums.units - 1) / normal_quantile(upper)
    return few * float(np.sqrt(sums.counts @ away**2)[0] / (sums.counts @ sums.below)[0])


def labels_for_width(strata: Strata, width: float, units_error: float, level: float) -> Ints | None:
    """How many labels per stratum reduce the interval of the corrected share to a width.

    Allocated where they help most: by size and by how mixed a stratum is (Neyman). `units_error`: standard error that
    labels cannot reduce. None: not even labels of all pairs are enough.
    """
    z = normal_quantile((1 + level) / 2)
    error = (width / (2 * z)) ** 2 - units_error**2 if math.isfinite(units_error) else 0.0
    if error <= 0:
        return None
    helps = _helps(strata)
    wanted = np.ceil(helps.sum() * helps / error).astype(np.int64)
    return np.asarray(np.minimum(np.maximum(wanted, strata.labels), strata.pairs))


def expected_width(strata: Strata, units_error: float, level: float) -> float:
    """The width that the same formula expects of the labels that there are; every stratum must have some."""
    some = strata.pairs > 0
    error = float((_helps(strata)[some] ** 2 / strata.labels[some]).sum())
    return 2 * normal_quantile((1 + level) / 2) * math.sqrt(error + units_error**2)


def _helps(strata: Strata) -> Floats:
    """How much the labels of each stratum help."""
    return np.asarray(strata.pairs / strata.pairs.sum() * np.sqrt(strata.expected * (1 - strata.expected)))
