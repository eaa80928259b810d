"""What was labelled beside the gold set, and whether hits without a label are to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from karat.data.bulk import Bulk
from karat.data.gold import Gold

Named: TypeAlias = tuple[str, str]  # query and item


class JudgedStratum(msgspec.Struct, frozen=True):
    """All pairs to which a judge gave one grade."""

    grade: float
    pairs: int
    labelled: int  # by people
    relevant: int  # of these


class KnownJudge(msgspec.Struct, frozen=True):
    """A judge as another calibration found it."""

    sensitivity: float
    specificity: float
    rel: float | None  # lowest grade that counted as relevant; null: any above 0


class Labelling(Bulk, frozen=True):
    """Grades by pair. A pair that a judge failed on, or people disagree on, is not there."""

    bounds: bool = False
    judge: Mapping[Named, float] = {}
    human: Mapping[Named, float] = {}
    probability: Mapping[Named, float] = {}  # with which people were asked
    known: KnownJudge | None = None
    borrow: bool = False  # error rates from other pairs, where people labelled too few of a run's own hits
    with_judge: Callable[[Gold], Gold] | None = None
    prepare: Callable[[Gold], Gold] | None = None  # scale, and people's labels
    highest: int = 0  # grade of that scale; 0: there are no labels
    pooled: Sequence[Named] = ()  # what other runs found
    given: Sequence[tuple[str, str]] = ()  # options that change the gold set, and their values, to say again

    @property
    def asked(self) -> bool:
        return self.bounds or bool(self.judge)

    @property
    def levels(self) -> list[float]:
        """Every grade that a label may have, whether one has it yet or not; without labels nothing is known of that."""
        return sorted({*self.judge.values(), *range(self.highest + 1 if self.highest else 0)})

    @property
    def weighted(self) -> bool:
        """Whether people labelled some pairs with more chance than others."""
        return len(set(self.probability.values())) > 1
