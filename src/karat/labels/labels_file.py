"""Files of labels: read, continued line by line, and written beside what others said."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from karat.errors import ConfigError, InputError
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import check_writable, write_whole
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


class LabelLog:
    """Opens or continues a labels file. Half a last line, left by a crash, is cut; `labels` is what was there."""

    def __init__(self, path: str | PathLike[str], *, highest: float = HIGHEST) -> None:
        self.path = Path(path)
        self._file = LineFile(self.path)
        self._given: dict[str, dict[Key, float | None]] = {}
        try:
            lines = self._file.lines()
            self.labels: Labels = read_labels(path, highest=highest, may_be_empty=True)
            self.lines = [msgspec.json.decode(line, type=Label) for line in lines if line.strip()]  # replaced ones, too
        except (NotContinued, msgspec.MsgspecError):  # or labels that are no lines: a list, a compressed file
            self._file.close()
            hint = "-o names another file"
            raise ConfigError(
                "this is no labels file, and is left alone", code="not-a-labels-file", file=str(path), hint=hint
            ) from None
        except InputError:
            self._file.close()
            raise

    def given(self, annotator: str) -> dict[Key, float | None]:
        """What an annotator gave, the latest last; a grade counts more than having been skipped. It is kept up to date,
        so that one label more does not cost reading all of them."""
        found = self._given.get(annotator)
        if found is None:
            found = {}
            for label in self.lines:
                if label.annotator == annotator:
                    _note(found, label)
            if found:  # whoever only looks on leaves nothing behind
                self._given[annotator] = found
        return found

    def add(self, label: Label) -> None:
        """When this returns, the label is on the disk."""
        self._file.append(msgspec.json.encode(label) + b"\n")
        self.lines.append(label)
        if label.annotator in self._given:
            _note(self._given[label.annotator], label)

    def drop(self, at: int) -> Label:
        """Take one of `lines` back."""
        self._file.drop(at)
        label = self.lines.pop(at)
        self._given.pop(label.annotator, None)
        return label

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> LabelLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _note(given: dict[Key, float | None], label: Label) -> None:
    before = given.pop(label.key, None)  # so that the latest stands last
    given[label.key] = before if label.grade is None else label.grade


def check_labels(path: Path) -> None:
    """Refuse a file that holds something else, before anything is paid for."""
    check_writable(path)
    _lines(path)


def write_beside(path: Path, labels: Sequence[Label], annotator: str) -> int:
    """Lines of others, and of other pairs, stay as they are and come first. How many that were."""
    replaced = {label.key for label in labels}
    kept = [line for line, there in _lines(path) if there.annotator != annotator or there.key not in replaced]
    write_whole(path, b"".join(line + b"\n" for line in (*kept, *map(msgspec.json.encode, labels))))
    return len(kept)


def _lines(path: Path) -> list[tuple[bytes, Label]]:
    """What stands in the file already."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            if line.strip():
                found.append((line, msgspec.json.decode(line, type=Label)))
        except (msgspec.MsgspecError, UnicodeError) as error:
            hint = "labels are added to what is there: name another file with -o"
            raise ConfigError(
                f"this is no labels file: {error}", code="not-a-labels-file", file=str(path), line=number, hint=hint
            ) from None
    return found
