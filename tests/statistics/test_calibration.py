"""A judge corrected by people: against simulated truth, by hand, and where it must refuse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused

from karat.errors import ConfigError
from karat.statistics.calibration import (
    CalibratedValue,
    JudgedPairs,
    Strata,
    independent,
    labels_for_width,
    no_strata,
    post_stratified,
    rates,
    rogan_gladen,
    standard_error,
)
from karat.statistics.kappa import cohen_kappa
from karat.statistics.sampling import Sampling
from karat.statistics.special import beta_quantile
from karat.statistics.sums import Floats, Ints

SAID = np.array([False, True])
QUICK = Sampling(resamples=500)
Bools = NDArray[np.bool_]


class World(NamedTuple):
    """Query × pair: what is relevant, what a judge says, and which pairs people labelled."""

    truth: Bools
    judge: Bools
    labelled: Bools

    def pairs(self, chance: Floats | None = None) -> JudgedPairs:
        queries, each = self.truth.shape
        people = np.where(self.labelled, self.truth, np.nan).ravel()
        unit, judge = np.repeat(np.arange(queries), each), self.judge.ravel().astype(np.int64)
        return JudgedPairs(unit, queries, judge, SAID, people, chance=None if chance is None else chance.ravel())

    @property
    def strata(self) -> Strata:
        return self.pairs().strata()


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def said(
    rng: np.random.Generator, queries: int, each: int, alike: bool, right: tuple[float, float] = (0.9, 0.8)
) -> World:
    """A judge and the truth. `alike`: what is relevant and how the judge errs depends on the query and on the rank."""
    rank = np.linspace(-0.5, 0.5, each) if each > 1 else np.zeros(1)
    relevant, shift = np.full((queries, 1), 0.3), np.zeros((queries, 1))
    if alike:
        relevant, shift = (
            rng.beta(0.6, 1.4, (queries, 1)) * (1 - 0.6 * rank),
            rng.normal(0, 1, (queries, 1)) - 0.8 * rank,
        )
    truth = rng.random((queries, each)) < relevant
    yes, no = (1 / (1 + np.exp(-logit(p) - sign * shift)) for p, sign in zip(right, (1, -1), strict=True))
    return World(truth, rng.random(truth.shape) < np.where(truth, yes, 1 - no), np.ones(truth.shape, np.bool_))


def drawn(rng: np.random.Generator, world: World, labels: int) -> World:
    """People labelled some pairs at random."""
    labelled = np.zeros(world.truth.size, np.bool_)
    labelled[rng.permutation(labelled.size)[:labels]] = True
    return world._replace(labelled=labelled.reshape(world.truth.shape))


def exact_rates(world: World) -> Floats:
    """Sensitivity, specificity, kappa and the share that is relevant, straight from the definitions."""
    truth, judge = world.truth, world.judge
    agreed = (truth == judge).mean()
    chance = truth.mean() * judge.mean() + (1 - truth.mean()) * (1 - judge.mean())
    return np.array([judge[truth].mean(), 1 - judge[~truth].mean(), (agreed - chance) / (1 - chance), truth.mean()])


def corrected(world: World) -> CalibratedValue:
    strata = world.strata
    return post_stratified(np.zeros(len(strata.size)), strata.size.sum(axis=1), strata, QUICK)


@pytest.mark.parametrize(
    "shapes",
    [
        [(50, 1, 50), (200, 1, 200), (400, 1, 400)],  # every pair has both labels, the usual case
        [(10, 5, 50), (20, 10, 200), (40, 10, 400)],  # the same, pairs of a query are alike
        [(300, 10, 50), (300, 10, 200), (300, 10, 400)],  # people labelled some pairs
    ],
)
def test_every_interval_of_a_calibration_holds_the_truth(shapes: list[tuple[int, int, int]]) -> None:
    """95 % intervals of sensitivity, specificity, kappa and the corrected share. By pairs instead of queries, and with
    the judge's share taken as fixed, specificity came to 83 %. benchmarks/calibration_coverage.py has more trials."""
    inside = []
    for queries, each, labels in shapes:
        rng, alike = np.random.default_rng([queries, labels]), each > 1
        true = exact_rates(said(rng, 400_000 // each, each, alike))
        for _ in range(200):
            world = drawn(rng, said(rng, queries, each, alike), labels)
            found = rates(world.strata, QUICK)
            every = (found.sensitivity, found.specificity, found.kappa, corrected(world))
            inside.append([one.low <= truth <= one.high for one, truth in zip(every, true, strict=True)])
    held = np.array(inside).reshape(len(shapes), -1, 4).mean(axis=1)
    assert (held.mean(axis=0) >= 0.93).all()
    assert (held >= 0.90).all()  # 200 trials of a true 93 % come to less once in twenty times


def test_the_corrected_interval_is_narrower_than_that_of_people_alone() -> None:
    """Sensitivity .9, specificity .8, 200 labels of 5,000."""
    rng = np.random.default_rng(5)
    made = [drawn(rng, said(rng, 5_000, 1, False), 200) for _ in range(30)]
    found = [corrected(world) for world in made]
    ones = [int(world.truth[world.labelled].sum()) for world in made]
    alone = [beta_quantile(0.975, n + 0.5, 200.5 - n) - beta_quantile(0.025, n + 0.5, 200.5 - n) for n in ones]
    assert np.mean([e.high - e.low for e in found]) < 0.85 * np.mean(alone)
    assert abs(np.mean([e.value - w.truth.mean() for e, w in zip(found, made, strict=True)])) < 0.015


def test_a_sample_that_prefers_what_the_judge_likes_does_not_mislead() -> None:
    """Half of the labels on what the judge calls relevant: by people alone it would look far too good."""
    rng = np.random.default_rng(3)
    found, alone, truths = [], [], []
    for _ in range(60):
        world = said(rng, 1_500, 1, False)
        order = rng.random(world.judge.shape)
        picked = [(world.judge == kind) & (order < 100 / (world.judge == kind).sum()) for kind in (False, True)]
        uneven = world._replace(labelled=picked[0] | picked[1])
        found.append(corrected(uneven).value)
        alone.append(uneven.truth[uneven.labelled].mean())
        truths.append(world.truth.mean())
    assert np.mean(found) == pytest.approx(np.mean(truths), abs=0.01)
    assert np.mean(alone) > np.mean(truths) + 0.05


def test_weights_mend_labels_that_were_drawn_with_unequal_chances() -> None:
    rng = np.random.default_rng(4)
    true = exact_rates(said(rng, 60_000, 5, True))[3]
    errors, inside = [], []
    for _ in range(300):
        world = said(rng, 300, 5, True)
        chance = np.where(world.truth, 0.25, 0.1)  # people were shown more of what is relevant
        strata = world._replace(labelled=rng.random(chance.shape) < chance).pairs(chance).strata()
        e = post_stratified(np.zeros(300), strata.size.sum(axis=1), strata, QUICK)
        errors.append(e.value - world.truth.mean())
        inside.append(e.low <= true <= e.high)
    assert abs(np.mean(errors)) < 0.005
    assert np.mean(inside) >= 0.93


def test_a_label_without_a_chance_tells_nothing_beside_labels_with_one() -> None:
    world = said(np.random.default_rng(1), 40, 5, False)
    chance = np.where(np.arange(40)[:, None] < 30, 0.5, np.nan) * np.ones((1, 5))
    assert world.pairs(chance).strata().labels.sum() == 150


def test_rogan_and_gladen_by_hand() -> None:
    assert rogan_gladen(0.4, 0.9, 0.8) == pytest.approx((0.4 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert rogan_gladen(0.0, 0.9, 0.8) == 0  # fewer than its false alarms: never under 0


@pytest.mark.parametrize(
    ("rate", "code"), [(0.5, "not-correctable"), (0.64, "not-correctable"), (float("nan"), "not-correctable")]
)
def test_a_judge_that_hardly_tells_one_from_the_other_is_refused(rate: float, code: str) -> None:
    with refused(code, ConfigError):
        rogan_gladen(0.4, rate, 0.65)


def test_an_inverted_judge_is_refused_as_such() -> None:
    with refused("inverted-judge", ConfigError):
        rogan_gladen(0.4, 0.2, 0.3)


def test_rates_where_people_labelled_everything_are_the_plain_ones() -> None:
    """8 right and 2 wrong of what the judge calls relevant, 27 right and 3 wrong of the rest."""
    judge, human = np.array([1] * 10 + [0] * 30), np.array([1] * 8 + [0] * 2 + [1] * 3 + [0] * 27)
    found = rates(counted([30, 10], [30, 10], [3, 8]), QUICK)
    assert found.sensitivity.value == pytest.approx(8 / 11)
    assert found.specificity.value == pytest.approx(27 / 29)
    assert found.kappa.value == pytest.approx(cohen_kappa(judge, human, np.arange(40)).kappa)
    for rate in (found.sensitivity, found.specificity, found.kappa):
        assert rate.low < rate.value < rate.high


def counted(pairs: list[int], labelled: list[int], relevant: list[int]) -> Strata:
    """Each pair of a query of its own."""
    grade = np.repeat([0, 1], pairs)
    kinds = zip(pairs, labelled, relevant, strict=True)
    people = [[1.0] * r + [0.0] * (n - r) + [np.nan] * (size - n) for size, n, r in kinds]
    return JudgedPairs(np.arange(len(grade)), len(grade), grade, SAID, np.concatenate(people)).strata()


def test_kappa_is_as_sure_as_the_agreement_of_two_annotators() -> None:
    """Of the same pairs, by query: sixty queries of ten pairs that share their fate."""
    world = said(np.random.default_rng(2), 60, 10, True)
    found = rates(world.strata, Sampling(resamples=4_000)).kappa
    groups: Ints = np.repeat(np.arange(60), 10)
    agreed = cohen_kappa(world.judge.ravel().astype(int), world.truth.ravel().astype(int), groups)
    assert found.value == pytest.approx(agreed.kappa)
    assert (found.low, found.high) == pytest.approx((agreed.low, agreed.high), abs=0.025)


def test_rates_allow_for_labels_that_prefer_some_grades() -> None:
    """What the judge rejects is 9 times as common and was labelled as often as the rest."""
    assert rates(counted([900, 100], [50, 50], [5, 40]), QUICK).sensitivity.value == pytest.approx(80 / (80 + 90))


def test_errors_that_nobody_could_see_are_not_told() -> None:
    none = rates(counted([30, 10], [5, 5], [0, 0]), QUICK)
    assert np.isnan(none.sensitivity).all()
    assert none.specificity.value == pytest.approx(30 / 40)
    every = rates(counted([30, 10], [5, 5], [5, 5]), QUICK)
    assert np.isnan(every.specificity).all()


def test_a_value_lies_in_its_interval_however_few_labels_there_are() -> None:
    found = rates(counted([200, 100], [2, 1], [0, 1]), QUICK)
    for rate in (found.sensitivity, found.specificity, found.kappa):
        assert rate.low < rate.value == rate.high == 1


def test_many_labels_of_one_query_say_as_much_as_one() -> None:
    one = World(*(np.arange(60)[None, :] % 2 == 0,) * 2, np.ones((1, 60), np.bool_))
    assert independent(one.strata.labelled) == 1
    assert corrected(one)[1:] == (0, 1)


@pytest.mark.parametrize(("sizes", "units"), [([3, 3, 3, 3], 4), ([9, 1, 1, 1], 144 / 84), ([5, 0, 0, 5], 2)])
def test_how_many_equal_units_say_as_much(sizes: list[int], units: float) -> None:
    assert independent(np.array(sizes, float)[:, None]) == pytest.approx(units)


def test_what_may_be_anything_widens_the_interval_by_just_that() -> None:
    known, below = np.tile([0.0, 1.0], 100), np.ones(200)
    plain = post_stratified(known, below, no_strata(200), QUICK)
    loose = post_stratified(known, below, no_strata(200), QUICK, np.full(200, 0.2), 10.0)
    assert (loose.low, loose.value) == pytest.approx((plain.low, plain.value + 0.05), abs=0.003)
    assert loose.high == pytest.approx(plain.high + 0.2, abs=0.005)


def test_grades_with_few_labels_are_taken_together() -> None:
    grade = np.repeat([0, 1, 2], [50, 30, 20])
    people = [1.0] * 1 + [0.0] * 19 + [np.nan] * 30 + [1.0] * 9 + [0.0] * 6 + [np.nan] * 15 + [1.0] * 4 + [np.nan] * 16
    positive = np.array([False, True, True])
    pairs = JudgedPairs(np.arange(100), 100, grade, positive, np.array(people))
    found = pairs.strata()
    assert found.place.tolist() == [0, 1, 1]
    assert (found.pairs.tolist(), found.labels.tolist()) == ([50, 50], [20, 19])
    assert found.shares.tolist() == [1 / 20, 13 / 19]
    alone = JudgedPairs(np.arange(100), 100, grade, positive, np.ones(100)).strata()
    assert alone.place.tolist() == [0, 1, 2]
    assert alone.positive.tolist() == [False, True, True]


def test_the_planned_number_of_labels_gives_the_wanted_width() -> None:
    """On average: a plan from 200 labels is off by some 8 % for a single set."""
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(25):
        world = drawn(rng, said(rng, 5_000, 1, False), 200)
        error = standard_error(world.strata.shares[world.judge.ravel().astype(int)], None, 0.95)
        wanted = labels_for_width(world.strata, 0.06, error, 0.95)
        assert wanted is not None
        order = rng.random(world.judge.shape)
        kinds = [np.where(world.judge == kind, order, 2.0) for kind in (False, True)]
        picked = [of < np.sort(of.ravel())[n] for of, n in zip(kinds, wanted.tolist(), strict=True)]
        found = corrected(world._replace(labelled=picked[0] | picked[1]))
        widths.append(found.high - found.low)
        assert labels_for_width(world.strata, 0.001, error, 0.95) is None
    assert np.mean(widths) == pytest.approx(0.06, rel=0.05)
    assert max(widths) < 0.08
