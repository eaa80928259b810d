"""Labels in addition to the gold set, and whether hits without a label are analysed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

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
    """A judge with the error rates of another calibration."""

    sensitivity: float
    specificity: float
    rel: float | None  # lowest grade that counted as relevant; null: any above 0


class Labelling(Bulk, frozen=True):
    """Grades by pair. Pairs that a judge failed on, or that people disagree on, are left out."""

    bounds: bool = False
    judge: Mapping[Named, float] = {}
    source: Literal["judge", "clicks"] = "judge"  # of these labels
    human: Mapping[Named, float] = {}
    probability: Mapping[Named, float] = {}  # of being selected for human labels
    known: KnownJudge | None = None
    borrow: bool = False  # error rates from other pairs, where a run's own hits have too few human labels
    with_judge: Callable[[Gold], Gold] | None = None
    prepare: Callable[[Gold], Gold] | None = None  # applies the scale and human labels
    highest: int = 0  # highest grade of that scale; 0: there are no labels
    pooled: Sequence[Named] = ()  # pairs that other runs found
    given: Sequence[tuple[str, str]] = ()  # options that change the gold set, and their values, to show again

    @property
    def asked(self) -> bool:
        return self.bounds or bool(self.judge)

    @property
    def levels(self) -> list[float]:
        """Every grade that a label may have, whether used or not; empty without labels."""
        return sorted({*self.judge.values(), *range(self.highest + 1 if self.highest else 0)})

    @property
    def weighted(self) -> bool:
        """Whether pairs had different chances of a human label."""
        return len(set(self.probability.values())) > 1
