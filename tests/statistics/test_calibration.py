"""A judge corrected by people: against simulated truth, by hand, and where it must refuse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from refusals import refused

from karat.errors import ConfigError
from karat.statistics.calibration import (
    CalibratedValue,
    Strata,
    labels_for_width,
    post_stratified,
    prediction_powered,
    rates,
    rogan_gladen,
    standard_error,
    strata_by,
)
from karat.statistics.intervals import Sampling
from karat.statistics.kappa import cohen_kappa
from karat.statistics.special import beta_quantile
from karat.statistics.sums import Floats, Ints

PAIRS, LABELS = 5_000, 200
SAID = np.array([False, True])
QUICK = Sampling(resamples=1_000)


class World(NamedTuple):
    """A judge of sensitivity .9 and specificity .8, and people who labelled some of its pairs."""

    truth: Floats
    judge: Floats
    labelled: Ints


def worlds(count: int, prevalence: float, seed: int) -> list[World]:
    rng = np.random.default_rng(seed)
    truth = rng.random((count, PAIRS)) < prevalence
    judge = rng.random((count, PAIRS)) < np.where(truth, 0.9, 0.2)
    labelled = rng.random((count, PAIRS)).argpartition(LABELS, axis=1)[:, :LABELS]
    return [World(*parts) for parts in zip(truth.astype(float), judge.astype(float), labelled, strict=True)]


def strata(world: World) -> Strata:
    said, truth = world.judge.astype(int), world.truth
    of = said[world.labelled]
    return Strata(
        np.bincount(said, minlength=2),
        np.bincount(of, minlength=2),
        np.bincount(of[truth[world.labelled] > 0], minlength=2),
        SAID,
    )


def corrected(world: World) -> CalibratedValue:
    people = np.zeros(PAIRS, np.bool_)
    people[world.labelled] = True
    open_ = np.column_stack([~people & (world.judge == 0), ~people & (world.judge == 1)]).astype(float)
    return post_stratified(world.truth * people, open_, strata(world), QUICK)


def people_alone(world: World) -> CalibratedValue:
    ones = int(world.truth[world.labelled].sum())
    low, high = (beta_quantile(at, ones + 0.5, LABELS - ones + 0.5) for at in (0.025, 0.975))
    return CalibratedValue(ones / LABELS, low, high)


def weighted(world: World) -> CalibratedValue:
    at = world.labelled
    return prediction_powered(world.judge, world.judge[at], world.truth[at], np.full(LABELS, LABELS / PAIRS), QUICK)


@pytest.mark.parametrize("correct", [corrected, weighted])
def test_the_corrected_interval_covers_the_truth_and_is_narrower_than_that_of_people_alone(correct: object) -> None:
    """Sensitivity .9, specificity .8, 200 labels of 5,000."""
    made = worlds(800, 0.3, seed=5)
    found = [correct(world) for world in made]  # type: ignore[operator]
    alone = [people_alone(world) for world in made]
    for truths in ([world.truth.mean() for world in made], [0.3] * len(made)):  # of these pairs, and of all like them
        covered = [e.low <= truth <= e.high for e, truth in zip(found, truths, strict=True)]
        assert np.mean(covered) >= 0.93
    widths = np.array([[e.high - e.low for e in both] for both in (found, alone)])
    assert widths[0].mean() < 0.8 * widths[1].mean()
    assert (widths[0] < widths[1]).mean() > 0.99
    assert abs(np.mean([e.value - w.truth.mean() for e, w in zip(found, made, strict=True)])) < 0.004


def test_a_sample_that_prefers_what_the_judge_likes_does_not_mislead() -> None:
    """Half of the labels on what the judge calls relevant: by people alone it would look far too good."""
    rng = np.random.default_rng(3)
    found, alone, truths = [], [], []
    for world in worlds(60, 0.1, seed=1):
        by_judge = [np.flatnonzero(world.judge == said) for said in (0, 1)]
        picked = np.concatenate([rng.choice(of, LABELS // 2, replace=False) for of in by_judge])
        uneven = world._replace(labelled=picked)
        found.append(corrected(uneven).value)
        alone.append(people_alone(uneven).value)
        truths.append(world.truth.mean())
    assert np.mean(found) == pytest.approx(np.mean(truths), abs=0.01)
    assert np.mean(alone) > np.mean(truths) + 0.05


def test_weights_mend_labels_that_were_drawn_with_unequal_chances() -> None:
    rng = np.random.default_rng(4)
    errors, covered = [], []
    for world in worlds(300, 0.3, seed=2):
        chance = np.where(world.truth > 0, 0.08, 0.03)  # people were shown more of what is relevant
        at = np.flatnonzero(rng.random(PAIRS) < chance)
        e = prediction_powered(world.judge, world.judge[at], world.truth[at], chance[at], QUICK)
        errors.append(e.value - world.truth.mean())
        covered.append(e.low <= world.truth.mean() <= e.high)
    assert abs(np.mean(errors)) < 0.005
    assert np.mean(covered) >= 0.92


def test_a_judge_known_from_another_set() -> None:
    """Rogan and Gladen's estimate with the interval of Lang and Reiczigel, on a set with another prevalence."""
    rng = np.random.default_rng(6)
    covered = []
    for world in worlds(500, 0.15, seed=3):
        relevant, irrelevant = 90, 110
        sensitivity, specificity = rng.binomial(relevant, 0.9) / relevant, rng.binomial(irrelevant, 0.8) / irrelevant
        e = rogan_gladen(world.judge.sum(), PAIRS, sensitivity, relevant, specificity, irrelevant, 0.95)
        covered.append(e.low <= world.truth.mean() <= e.high)
    assert np.mean(covered) >= 0.93


def test_rogan_and_gladen_by_hand() -> None:
    found = rogan_gladen(400, 1_000, 0.9, 100, 0.8, 100, 0.95)
    assert found.value == pytest.approx((0.4 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert found.low < found.value < found.high
    sure = rogan_gladen(400, 1_000, 0.9, 1e9, 0.8, 1e9, 0.95)
    assert sure.high - sure.low == pytest.approx(2 * 1.96 * np.sqrt(0.24 / 1_000) / 0.7, rel=0.01)
    assert rogan_gladen(0, 1_000, 0.9, 100, 0.8, 100, 0.95).value == 0  # fewer than its false alarms: never under 0


@pytest.mark.parametrize("rate", [0.5, 0.64, float("nan")])
def test_a_judge_that_hardly_tells_one_from_the_other_is_refused(rate: float) -> None:
    with refused("not-correctable", ConfigError):
        rogan_gladen(400, 1_000, rate, 100, 0.65, 100, 0.95)


def test_rates_where_people_labelled_everything_are_the_plain_ones() -> None:
    """8 right and 2 wrong of what the judge calls relevant, 27 right and 3 wrong of the rest."""
    found = rates(Strata(np.array([30, 10]), np.array([30, 10]), np.array([3, 8]), SAID), QUICK)
    judge = np.array([1] * 10 + [0] * 30)
    human = np.array([1] * 8 + [0] * 2 + [1] * 3 + [0] * 27)
    assert found.sensitivity.value == pytest.approx(8 / 11)
    assert found.specificity.value == pytest.approx(27 / 29)
    assert found.youden == pytest.approx(8 / 11 + 27 / 29 - 1)
    assert found.kappa.value == pytest.approx(cohen_kappa(judge, human, np.arange(40)).kappa)
    for rate in (found.sensitivity, found.specificity, found.kappa):
        assert rate.low < rate.value < rate.high


def test_rates_allow_for_labels_that_prefer_some_grades() -> None:
    """What the judge rejects is 9 times as common and was labelled as often as the rest."""
    found = rates(Strata(np.array([900, 100]), np.array([50, 50]), np.array([5, 40]), SAID), QUICK)
    assert found.sensitivity.value == pytest.approx(80 / (80 + 90))


def test_errors_that_nobody_could_see_are_not_told() -> None:
    none = rates(Strata(np.array([30, 10]), np.array([5, 5]), np.array([0, 0]), SAID), QUICK)
    assert np.isnan(none.sensitivity).all()
    assert none.specificity.value == pytest.approx(30 / 40)
    every = rates(Strata(np.array([30, 10]), np.array([5, 5]), np.array([5, 5]), SAID), QUICK)
    assert np.isnan(every.specificity).all()


def test_a_value_lies_in_its_interval_however_few_labels_there_are() -> None:
    found = rates(Strata(np.array([200, 100]), np.array([2, 1]), np.array([0, 1]), SAID), QUICK)
    for rate in (found.sensitivity, found.specificity, found.kappa):
        assert rate.low < rate.value == rate.high == 1


def test_grades_with_few_labels_are_taken_together() -> None:
    pairs, labelled, relevant = np.array([50, 30, 20]), np.array([20, 15, 4]), np.array([1, 9, 4])
    found, place = strata_by(np.array([False, True, True]), pairs, labelled, relevant)
    assert place.tolist() == [0, 1, 1]
    assert (found.pairs.tolist(), found.labelled.tolist(), found.relevant.tolist()) == ([50, 50], [20, 19], [1, 13])
    alone, place = strata_by(np.array([False, True, True]), pairs, labelled + 10, relevant)
    assert place.tolist() == [0, 1, 2]
    assert alone.positive.tolist() == [False, True, True]


def test_the_planned_number_of_labels_gives_the_wanted_width() -> None:
    """On average: a plan from 200 labels is off by some 8 % for a single set."""
    rng = np.random.default_rng(0)
    widths = []
    for world in worlds(40, 0.3, seed=9):
        error = standard_error(strata(world).shares[world.judge.astype(int)], None)
        wanted = labels_for_width(strata(world), 0.06, error, 0.95)
        assert wanted is not None
        by_judge = [rng.permutation(np.flatnonzero(world.judge == said)) for said in (0, 1)]
        picked = np.concatenate([of[:n] for of, n in zip(by_judge, wanted.tolist(), strict=True)])
        found = corrected(world._replace(labelled=picked))
        widths.append(found.high - found.low)
        assert labels_for_width(strata(world), 0.001, error, 0.95) is None
    assert np.mean(widths) == pytest.approx(0.06, rel=0.04)
    assert max(widths) < 0.08
