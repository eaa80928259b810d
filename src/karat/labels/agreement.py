"""Agreement between annotators, and one label per pair from several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.saved import SavedObject
from karat.errors import ConfigError, did_you_mean
from karat.labels.files import CONFLICT, Key, Kind, Label, Labels, PoolEntry
from karat.statistics.kappa import cohen_kappa, fleiss_kappa
from karat.statistics.sampling import Sampling

Measure = Literal["cohen", "fleiss"]
_PRECEDENCE: tuple[Kind, ...] = ("human", "judge", "clicks")
ONE_QUERY = (
    "An interval of kappa from −1 to 1 says nothing: intervals need several queries, and nearly all pairs with two "
    "labels are of one."
)


class Annotator(msgspec.Struct, frozen=True):
    """One annotator and their number of labels."""

    name: str
    kind: Kind
    labels: int
    missing: int  # pairs without a grade: skipped, failed
    mean_grade: float | None


class KappaRow(msgspec.Struct, frozen=True):
    """Agreement of some annotators on the pairs that they share; kappa is null if undefined."""

    annotators: list[str]
    measure: Measure
    of: Literal["grades", "relevant or not"]
    pairs: int
    agreed: float  # share of agreement
    kappa: float | None
    low: float | None
    high: float | None
    inverted: bool = False  # beyond noise: they agree less often than by chance


class Conflict(msgspec.Struct, frozen=True):
    """A pair that annotators grade differently."""

    query_id: str
    item: str
    grades: dict[str, float]  # annotator → grade


class Agreement(SavedObject, frozen=True, kw_only=True):
    """What `karat labels agree` saves."""

    schema: Literal["karat/agreement/1"] = "karat/agreement/1"
    files: list[str]
    annotators: list[Annotator]
    pairs: int  # with a grade
    shared: int  # with grades by two or more annotators
    repeated: int  # lines that repeat an earlier label
    kappas: list[KappaRow]
    conflicts: list[Conflict]  # largest difference first
    level: float
    saw_ranking: int = 0  # labels whose annotator saw rank and gold: not part of the kappas


def find_agreement(labels: Labels, sampling: Sampling | None = None) -> Agreement:
    """Cohen's kappa for each pair of annotators, Fleiss' kappa for all if more than two, and the conflicts.

    Annotators who saw the same ranking agree more often than two who judge a pair by itself, so the kappas leave out
    labels that were given with the ranking in sight."""
    sampling = sampling or Sampling()
    by_pair, shared = _by_pair(labels)
    blind = labels.blind()
    return Agreement(
        karat=__version__,
        files=list(dict.fromkeys(place.file for place in labels.places)),
        annotators=[_annotator(name, [x for x in labels if x.annotator == name]) for name in labels.annotators],
        pairs=len(by_pair),
        shared=len(shared),
        repeated=labels.repeated,
        kappas=_kappas(blind.annotators, _by_pair(blind)[1], sampling),
        conflicts=_conflicts(shared),
        level=sampling.level,
        saw_ranking=len(labels) - len(blind),
    )


_Grades = dict[Key, dict[str, float]]  # pair → annotator → grade


def _by_pair(labels: Labels) -> tuple[_Grades, _Grades]:
    """The grades of each pair, and of those with two or more."""
    found = {key: {label.annotator: label.grade or 0.0 for label in of} for key, of in labels.by_pair().items()}
    return found, {key: grades for key, grades in found.items() if len(grades) > 1}


def _annotator(name: str, labels: list[Label]) -> Annotator:
    grades = [label.grade for label in labels if label.grade is not None]
    mean = sum(grades) / len(grades) if grades else None
    return Annotator(name, labels[0].kind, len(grades), len(labels) - len(grades), mean)


def _conflicts(shared: dict[Key, dict[str, float]]) -> list[Conflict]:
    found = [Conflict(key.query, key.item, grades) for key, grades in shared.items() if len(set(grades.values())) > 1]
    return sorted(found, key=lambda c: min(c.grades.values()) - max(c.grades.values()))


def _kappas(names: list[str], shared: dict[Key, dict[str, float]], sampling: Sampling) -> list[KappaRow]:
    """Kappas of the grades and, if there are more than two grades, of relevant or not."""
    groups: list[tuple[Measure, list[str], dict[Key, dict[str, float]]]] = [
        ("cohen", list(two), {key: grades for key, grades in shared.items() if all(name in grades for name in two)})
        for two in combinations(names, 2)
    ]
    groups += [("fleiss", names, shared)] if len(names) > 2 else []
    rows = []
    for measure, of, pairs in groups:
        binary = {key: {name: float(grade > 0) for name, grade in grades.items()} for key, grades in pairs.items()}
        rows += [_row(measure, "grades", of, pairs, sampling)] if pairs else []
        rows += [_row(measure, "relevant or not", of, binary, sampling)] if binary != pairs else []
    return rows


def _row(
    measure: Measure,
    of: Literal["grades", "relevant or not"],
    names: list[str],
    pairs: dict[Key, dict[str, float]],
    sampling: Sampling,
) -> KappaRow:
    queries: dict[str, int] = {}
    groups = np.array([queries.setdefault(key.query, len(queries)) for key in pairs], np.int64)
    options: dict[str, Any] = {"level": sampling.level, "resamples": sampling.resamples, "seed": sampling.seed}
    known = sorted({grade for grades in pairs.values() for grade in grades.values()})
    if measure == "cohen":
        one, other = np.array([[known.index(grades[name]) for name in names] for grades in pairs.values()]).T
        found = cohen_kappa(one, other, groups, **options)
    else:
        given = [list(grades.values()) for grades in pairs.values()]
        counts = np.array([[grades.count(grade) for grade in known] for grades in given], np.int64)
        found = fleiss_kappa(counts, groups, **options)
    kappa, low, high = (None if np.isnan(value) else round(value, 6) for value in found[:3])
    return KappaRow(names, measure, of, len(pairs), found.observed, kappa, low, high, high is not None and high < 0)


def settle(labels: Labels, adjudicator: str | None = None) -> list[Label]:
    """One label per pair: the adjudicator's, else the majority's, else no grade, with the conflict as its reason. If
    humans labelled a pair, labels by models and from clicks do not count; if models did, those from clicks do not."""
    if adjudicator is not None and adjudicator not in labels.annotators:
        what, hint = f"no labels by {adjudicator!r}", did_you_mean(adjudicator, labels.annotators)
        raise ConfigError(what, code="unknown-annotator", hint=hint)
    by_pair: dict[Key, list[Label]] = {}
    for label in labels:
        by_pair.setdefault(label.key, []).append(label)
    return [_one(of, adjudicator) for of in by_pair.values()]


def _one(labels: list[Label], adjudicator: str | None) -> Label:
    """The settled label: from graded human labels, else from those by models, else from clicks, else one that says why
    there is none."""
    graded = [label for label in labels if label.grade is not None]
    first = min((label.kind for label in graded), key=_PRECEDENCE.index, default=None)
    labels = [label for label in graded if label.kind == first] or labels[:1]
    if len(labels) == 1:
        return labels[0]
    by_adjudicator = [label for label in labels if label.annotator == adjudicator]
    if by_adjudicator:
        return by_adjudicator[0]
    votes = ", ".join(f"{label.annotator} {label.grade:g}" for label in labels)
    grade, count = Counter(label.grade for label in labels).most_common(1)[0]
    agreed = 2 * count > len(labels)
    winners = [label for label in labels if label.grade == grade or not agreed]
    return Label(
        query_id=labels[0].query_id,
        chunk_id=labels[0].chunk_id,
        doc_id=labels[0].doc_id,
        grade=grade if agreed else None,
        reason=None if agreed else f"{CONFLICT}: {votes}",
        note=votes if agreed and count < len(labels) else None,
        annotator="+".join(label.annotator for label in winners),
        kind=labels[0].kind,
        saw=next((label.saw for label in labels if label.saw), None),
        time=max((label.time for label in labels if label.time), default=None),
        inclusion_probability=labels[0].inclusion_probability,
    )


def is_conflict(label: Label) -> bool:
    """Whether a settled label has no grade because its annotators disagree."""
    return label.grade is None and (label.reason or "").startswith(CONFLICT)


def conflict_pool(pool: Sequence[PoolEntry], settled: Sequence[Label]) -> list[PoolEntry]:
    """The pairs of a pool on which annotators disagree, in its order."""
    conflicts = {label.key for label in settled if is_conflict(label)}
    return [entry for entry in pool if entry.key in conflicts]
