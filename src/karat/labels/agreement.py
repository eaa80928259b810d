"""How far annotators agree, and where they do not."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.ids import Ints
from karat.data.saved import SavedObject
from karat.labels.base import Key
from karat.labels.labels_file import Kind, Label, Labels
from karat.statistics.intervals import Sampling
from karat.statistics.kappa import cohen_kappa, fleiss_kappa


class Annotator(msgspec.Struct, frozen=True):
    """One who labelled, and how much."""

    name: str
    kind: Kind
    labels: int
    missing: int  # pairs without a grade: skipped, failed
    mean_grade: float | None


class KappaRow(msgspec.Struct, frozen=True):
    """Agreement of some annotators on the pairs that they share; kappa is null where it is not defined."""

    annotators: list[str]
    measure: Literal["cohen", "fleiss"]
    of: Literal["grades", "relevant or not"]
    pairs: int
    agreed: float  # share of agreement
    kappa: float | None
    low: float | None
    high: float | None


class Conflict(msgspec.Struct, frozen=True):
    """A pair that annotators grade differently."""

    query_id: str
    item: str
    grades: dict[str, float]  # annotator → grade


class Agreement(SavedObject, frozen=True, kw_only=True):
    """What `karat agree` says."""

    schema: Literal["karat/agreement/1"] = "karat/agreement/1"
    files: list[str]
    annotators: list[Annotator]
    pairs: int  # that have a grade
    shared: int  # that have grades of two or more annotators
    repeated: int  # lines that said again what stood there already
    kappas: list[KappaRow]
    conflicts: list[Conflict]  # the widest apart first
    level: float


def find_agreement(labels: Labels, sampling: Sampling | None = None) -> Agreement:
    """Cohen's kappa of every two annotators, Fleiss' kappa of all where there are more than two, and the conflicts."""
    sampling = sampling or Sampling()
    by_pair = {key: {label.annotator: label.grade or 0.0 for label in of} for key, of in labels.by_pair().items()}
    shared = {key: grades for key, grades in by_pair.items() if len(grades) > 1}
    return Agreement(
        karat=__version__,
        files=list(dict.fromkeys(place.file for place in labels.places)),
        annotators=[_annotator(name, [x for x in labels if x.annotator == name]) for name in labels.annotators],
        pairs=len(by_pair),
        shared=len(shared),
        repeated=labels.repeated,
        kappas=_kappas(labels.annotators, shared, sampling),
        conflicts=_conflicts(shared),
        level=sampling.level,
    )


def _annotator(name: str, labels: list[Label]) -> Annotator:
    grades = [label.grade for label in labels if label.grade is not None]
    mean = sum(grades) / len(grades) if grades else None
    return Annotator(name, labels[0].kind, len(grades), len(labels) - len(grades), mean)


def _conflicts(shared: dict[Key, dict[str, float]]) -> list[Conflict]:
    found = [Conflict(key.query, key.item, grades) for key, grades in shared.items() if len(set(grades.values())) > 1]
    return sorted(found, key=lambda c: min(c.grades.values()) - max(c.grades.values()))


def _kappas(names: list[str], shared: dict[Key, dict[str, float]], sampling: Sampling) -> list[KappaRow]:
    rows = []
    for two in combinations(names, 2):
        both = {key: grades for key, grades in shared.items() if all(name in grades for name in two)}
        if both:
            rows += _rows("cohen", list(two), both, sampling)
    if len(names) > 2 and shared:
        rows += _rows("fleiss", names, shared, sampling)
    return rows


def _rows(
    measure: Literal["cohen", "fleiss"], names: list[str], pairs: dict[Key, dict[str, float]], sampling: Sampling
) -> list[KappaRow]:
    """Of the grades and, where they say more than that, of relevant or not."""
    binary = {key: {name: float(grade > 0) for name, grade in grades.items()} for key, grades in pairs.items()}
    rows = [_row(measure, "grades", names, pairs, sampling)]
    return rows if binary == pairs else [*rows, _row(measure, "relevant or not", names, binary, sampling)]


def _row(
    measure: Literal["cohen", "fleiss"],
    of: Literal["grades", "relevant or not"],
    names: list[str],
    pairs: dict[Key, dict[str, float]],
    sampling: Sampling,
) -> KappaRow:
    queries: dict[str, int] = {}
    groups = np.array([queries.setdefault(key.query, len(queries)) for key in pairs], np.int64)
    options = {"level": sampling.level, "resamples": sampling.resamples, "seed": sampling.seed}
    if measure == "cohen":
        one, other = _codes([[grades[name] for name in names] for grades in pairs.values()]).T
        found = cohen_kappa(one, other, groups, **options)  # type: ignore[arg-type]
    else:
        found = fleiss_kappa(_counts([list(grades.values()) for grades in pairs.values()]), groups, **options)  # type: ignore[arg-type]
    kappa, low, high = (None if np.isnan(value) else round(value, 6) for value in found[:3])
    return KappaRow(names, measure, of, len(pairs), found.observed, kappa, low, high)


def _codes(grades: list[list[float]]) -> Ints:
    """Grades as whole numbers from 0 on."""
    return np.unique(np.array(grades), return_inverse=True)[1].reshape(len(grades), -1)


def _counts(grades: list[list[float]]) -> Ints:
    known = {grade: i for i, grade in enumerate(sorted({g for given in grades for g in given}))}
    counts = np.zeros((len(grades), len(known)), np.int64)
    for row, given in enumerate(grades):
        for grade in given:
            counts[row, known[grade]] += 1
    return counts
