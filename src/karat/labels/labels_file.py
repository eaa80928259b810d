"""Labels files: JSONL, one judgement a line, by people and by models alike (docs/labels.md)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from typing import Annotated, Literal

import msgspec

from karat.errors import InputError
from karat.labels.base import Key, Pair, Probability, SourcePlace, read_pairs, write_pairs

HIGHEST = 2.0  # strong 2, partial 1, irrelevant 0

CONFLICT = "conflict"  # how the reason of a label begins on which annotators could not settle

Kind = Literal["human", "judge"]

_EXPECTED = {"kind": "human or judge", "annotator": "a name"}


class Label(Pair, kw_only=True, omit_defaults=True):
    """What one annotator says of one pair. A pair that could not be judged has no grade but a reason: it is missing,
    which is not the same as irrelevant."""

    grade: float | None
    annotator: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Kind = "human"
    reason: str | None = None  # why there is no grade: skipped, refusal, timeout …
    note: str | None = None
    quote: str | None = None  # words of the passage that show it
    time: str | None = None  # ISO 8601
    inclusion_probability: Probability | None = None  # with which the pair came into the pool
    model: str | None = None
    prompt_version: str | None = None


@dataclass
class Labels:
    """Labels with their places: of one pair at most one by each annotator, in the order of the files."""

    entries: list[Label] = field(default_factory=list)
    places: list[SourcePlace] = field(default_factory=list)
    repeated: int = 0  # lines that said again what stood there already
    replaced: int = 0  # lines without a grade for which another line of the same annotator has one

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.entries)

    @property
    def annotators(self) -> list[str]:
        return list(dict.fromkeys(label.annotator for label in self.entries))

    @property
    def files(self) -> str:
        """Where they were read, in words."""
        return " and ".join(dict.fromkeys(place.file for place in self.places))

    def of(self, pairs: Container[Key], kind: Kind | None = None) -> Labels:
        """Those of some pairs, and of people or judges only."""
        both = zip(self.entries, self.places, strict=True)
        chosen = [(label, at) for label, at in both if label.key in pairs and kind in (None, label.kind)]
        return Labels([label for label, _ in chosen], [at for _, at in chosen])

    def graded(self) -> list[Label]:
        return [label for label in self.entries if label.grade is not None]

    def by_pair(self) -> dict[Key, list[Label]]:
        """The labels of each pair that have a grade."""
        found: dict[Key, list[Label]] = {}
        for label in self.graded():
            found.setdefault(label.key, []).append(label)
        return found


def read_labels(
    *paths: str | PathLike[str], highest: float = HIGHEST, kind: Kind | None = None, may_be_empty: bool = False
) -> Labels:
    """The labels of one or more files; `kind` takes those of people, or of judges, only. Two different grades of one
    annotator for one pair are refused; a grade stands in for an earlier or later failure of the same annotator."""
    labels = Labels()
    seen: dict[tuple[str, Key], int] = {}
    for path in paths:
        for label, place in _read_file(str(path), may_be_empty):
            _check(label, place, highest)
            if kind is None or label.kind == kind:
                _add(labels, label, place, seen)
    return labels


def gathered(given: Sequence[Label], file: str) -> Labels:
    """Labels that were read from a file before, of each annotator one a pair."""
    labels, seen = Labels(), dict[tuple[str, Key], int]()
    for label in given:
        _add(labels, label, SourcePlace(file, None), seen)
    return labels


def write_labels(path: str | PathLike[str], labels: Sequence[Label]) -> None:
    """The whole file at once; `LabelLog` is for labels that come one by one."""
    write_pairs(str(path), list(labels))


def now() -> str:
    """The time of a label."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_file(path: str, may_be_empty: bool) -> list[tuple[Label, SourcePlace]]:
    try:
        return read_pairs(path, Label)
    except InputError as error:
        if error.field in _EXPECTED and error.what.startswith(("Invalid", "Expected")):  # not said in plain words
            error.what, error.expected = "not usable", _EXPECTED[error.field]
        if may_be_empty and error.code == "empty-file":
            return []
        raise


def _check(label: Label, place: SourcePlace, highest: float) -> None:
    if label.grade is None:
        if not label.reason:
            hint = "say why there is no grade; a passage that is irrelevant has the grade 0"
            raise place.error(
                "a label without a grade and without a reason", code="missing-field", field="reason", hint=hint
            )
        return
    if label.reason is not None:
        hint = "reason says why there is no grade; what else there is to say goes into note"
        raise place.error(
            "a label with a grade and a reason for having none", code="contradiction", field="reason", hint=hint
        )
    if not 0 <= label.grade <= highest:
        longer = f"--max-grade {label.grade:g} names a longer scale"
        hint = longer if label.grade > 0 else "a grade that is not known is null, with a reason"
        expected = f"a grade from 0 to {highest:g}"
        raise place.error(
            "out of the scale", code="bad-value", field="grade", expected=expected, got=label.grade, hint=hint
        )


def _add(labels: Labels, label: Label, place: SourcePlace, seen: dict[tuple[str, Key], int]) -> None:
    at = seen.setdefault((label.annotator, label.key), len(labels))
    if at == len(labels):
        labels.entries.append(label)
        labels.places.append(place)
        return
    before = labels.entries[at]
    if before.grade is None:
        labels.entries[at], labels.places[at] = label, place
        labels.replaced += 1
    elif label.grade is None:
        labels.replaced += 1
    elif label.grade == before.grade:
        labels.repeated += 1
    else:
        raise place.error(
            f"{label.annotator} has given {label.key.item} another grade before ({labels.places[at]})",
            code="contradiction",
            query=label.key.query,
            field="grade",
            expected=f"{before.grade:g}, as there",
            got=label.grade,
            hint="remove the line that is wrong; two people have two names",
        )
