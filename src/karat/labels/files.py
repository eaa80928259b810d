"""Pools (pairs of query and passage to be labelled) and labels as JSONL files (docs/labels.md)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from karat.errors import ConfigError, InputError
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import check_writable, write_whole
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source, SourcePlace
from karat.formats.records import RecordDecoder, read_records

HIGHEST = 2  # strong 2, partial 1, irrelevant 0

CONFLICT = "conflict"  # start of the reason of a label on which annotators disagree

Kind = Literal["human", "judge", "clicks"]
Probability = Annotated[float, msgspec.Meta(gt=0, le=1)]

_EXPECTED = {"kind": "human, judge or clicks", "annotator": "a name"}


class Key(NamedTuple):
    """Identifies a pair."""

    query: str
    item: str
    is_document: bool = False


class Pair(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A query and a chunk, or a document if only `doc_id` is given."""

    query_id: str | int
    chunk_id: str | int | None = None
    doc_id: str | int | None = None

    @property
    def key(self) -> Key:
        if self.chunk_id is None:
            return Key(str(self.query_id), str(self.doc_id), True)
        return Key(str(self.query_id), str(self.chunk_id))


P = TypeVar("P", bound=Pair)


def _read_pairs(path: str, kind: type[P]) -> list[tuple[P, SourcePlace]]:
    """Every line of a JSONL file (or entry of a JSON list), with its place. Unknown fields are ignored."""
    source = Source(path)
    source.refuse_nonsense()
    found = []
    for entry, place in read_records(source, RecordDecoder(kind)):
        if entry.chunk_id is None and entry.doc_id is None:
            hint = "or use doc_id for a whole document"
            raise place.error("the field is missing", code="missing-field", field="chunk_id", hint=hint)
        found.append((entry, place))
    return found


def write_pairs(path: str | PathLike[str], pairs: Iterable[Pair]) -> None:
    """Write a whole file at once. Use `LabelLog` for labels that come one by one."""
    write_whole(Path(path), as_lines(pairs))


def as_lines(pairs: Iterable[Pair]) -> bytes:
    return b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs)


class Origin(msgspec.Struct, omit_defaults=True):
    """Where a pair comes from, for statistics. Annotators must not see it."""

    ranks: dict[str, int] = {}  # run → place in its list
    influence: float | None = None  # how much its label is expected to change the comparison


class PairTexts(Pair, kw_only=True, omit_defaults=True):
    """A pair as its annotators see it."""

    query: str | None = None  # its text
    title: str | None = None
    text: str | None = None
    language: str | None = None
    near_duplicate_of: str | None = None  # another item of the same query in the pool with nearly the same text


class PoolEntry(PairTexts, kw_only=True, omit_defaults=True):
    """One pair to be labelled. Without a `place`, the order of a pool has no meaning."""

    place: int | None = None  # in the queue, from 1: the pairs that settle a comparison soonest come first
    inclusion_probability: Probability | None = None  # of being sampled into the pool; null: picked, not sampled
    origin: Origin | None = None


def read_pool(path: str | PathLike[str]) -> list[PoolEntry]:
    """The pairs of a pool, each once."""
    seen: dict[Key, SourcePlace] = {}
    found = []
    for entry, place in _read_pairs(str(path), PoolEntry):
        before = seen.setdefault(entry.key, place)
        if before is not place:
            what = f"{entry.key.item} is already in the pool ({before})"
            hint = "remove one of the lines"
            raise place.error(what, code="duplicate-pair", query=entry.key.query, hint=hint)
        found.append(entry)
    return found


def by_key(entries: Sequence[PoolEntry]) -> dict[Key, PoolEntry]:
    return {entry.key: entry for entry in entries}


class ClickEvidence(msgspec.Struct, frozen=True):
    """What a label from clicks rests on."""

    attraction: float  # probability of a click by someone who looks at the item
    low: float
    high: float
    shown: int
    clicked: int


class Label(Pair, kw_only=True, omit_defaults=True):
    """One annotator's label of one pair. A pair that could not be judged has a reason instead of a grade: it is
    missing, which is not the same as irrelevant."""

    grade: float | None
    annotator: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Kind = "human"
    reason: str | None = None  # why there is no grade: skipped, refusal, timeout …
    note: str | None = None
    saw: Literal["ranking"] | None = None  # what the annotator saw besides the pair: its rank and the gold
    quote: str | None = None  # words of the passage that support the grade
    time: str | None = None  # ISO 8601
    inclusion_probability: Probability | None = None  # of the pair being sampled into the pool
    model: str | None = None
    prompt_version: str | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # of a label from clicks
    clicks: ClickEvidence | None = None


class Labels(msgspec.Struct):
    """Labels with their places, at most one per pair and annotator, in the order of the files."""

    entries: list[Label] = []
    places: list[SourcePlace] = []
    repeated: int = 0  # lines that repeat an earlier label
    replaced: int = 0  # lines without a grade, replaced by another line of the same annotator
    _at: dict[tuple[str, Key], int] = {}  # annotator and pair → place in entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.entries)

    def __repr__(self) -> str:
        return f"Labels({self.files!r}, labels={len(self)}, annotators={self.annotators})"

    @property
    def annotators(self) -> list[str]:
        return list(dict.fromkeys(label.annotator for label in self.entries))

    @property
    def files(self) -> str:
        """The files they were read from."""
        return " and ".join(dict.fromkeys(place.file for place in self.places))

    def add(self, label: Label, place: SourcePlace) -> None:
        """Add a label. A grade replaces a missing grade of the same annotator; a different grade is an error."""
        at = self._at.setdefault((label.annotator, label.key), len(self))
        if at == len(self):
            self.entries.append(label)
            self.places.append(place)
            return
        before = self.entries[at]
        if before.grade is None:
            self.entries[at], self.places[at] = label, place
            self.replaced += 1
        elif label.grade is None:
            self.replaced += 1
        elif label.grade == before.grade:
            self.repeated += 1
        else:
            what = f"{label.annotator} already gave {label.key.item} a different grade ({self.places[at]})"
            hint = "remove the wrong line; two annotators need two names"
            raise contradiction(what, before, label, place, hint)

    def of(self, pairs: Container[Key], kind: Kind | None = None) -> Labels:
        """The labels of some pairs, by default of all kinds."""
        both = zip(self.entries, self.places, strict=True)
        chosen = [(label, at) for label, at in both if label.key in pairs and kind in (None, label.kind)]
        return Labels([label for label, _ in chosen], [at for _, at in chosen])

    def of_kind(self, kind: Kind) -> Labels:
        return self.of({label.key for label in self.entries}, kind)

    def blind(self) -> Labels:
        """Labels whose annotators saw nothing but the pair."""
        if not any(label.saw for label in self.entries):
            return self
        both = zip(self.entries, self.places, strict=True)
        chosen = [(label, at) for label, at in both if label.saw is None]
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
    """The labels of one or more files. `kind`: only labels of this kind. Raises for two different grades by one
    annotator for one pair."""
    labels = Labels()
    for path in paths:
        for label, place in _read_file(str(path), may_be_empty):
            _check(label, place, highest)
            if kind is None or label.kind == kind:
                labels.add(label, place)
    return labels


class Labelled(Protocol):
    """What holds labels, such as what `judge_pool` returns."""

    @property
    def labels(self) -> list[Label]: ...


HeldLabels = Labels | Labelled | Iterable[Label | Mapping[str, Any]]
LabelsGiven = str | PathLike[str] | HeldLabels


def as_labels(given: HeldLabels, name: str, highest: float = HIGHEST) -> Labels:
    """Labels that a program holds: of `judge_pool`, or one by one, as `Label`s or dicts with the same fields."""
    if isinstance(given, Labels):
        return given
    labels = Labels()
    held: Any = given
    for number, one in enumerate(getattr(held, "labels", held), 1):
        place = SourcePlace(name, number)
        try:
            label = one if isinstance(one, Label) else msgspec.convert(one, Label)
        except msgspec.ValidationError as error:
            raise refusal(error, name, number, one) from error
        _check(label, place, highest)
        labels.add(label, place)
    return labels


def gathered(given: Sequence[Label], file: str) -> Labels:
    """Labels already read from a file, one per pair and annotator."""
    labels = Labels()
    for label in given:
        labels.add(label, SourcePlace(file, None))
    return labels


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_file(path: str, may_be_empty: bool) -> list[tuple[Label, SourcePlace]]:
    """The labels of a file: as Karat writes them, or as people do by hand."""
    from karat.labels.by_hand import NAMES, is_by_hand, is_table

    try:
        source = Source(path)
        source.refuse_nonsense()
        return _read_by_hand(source) if is_by_hand(source) else _read_pairs(path, Label)
    except InputError as error:
        if error.code == "missing-field" and error.field in NAMES and not is_table(source):
            return _read_by_hand(source)
        if error.field in _EXPECTED and error.what.startswith(("Invalid", "Expected")):  # msgspec's wording
            error.what, error.expected = "invalid value", _EXPECTED[error.field]
        if may_be_empty and error.code == "empty-file":
            return []
        raise


def _read_by_hand(source: Source) -> list[tuple[Label, SourcePlace]]:
    from karat.labels.by_hand import hint_for, read_by_hand

    found = []
    for record, place in read_by_hand(source):
        try:
            label = msgspec.convert(record, Label, strict=False)
            if label.chunk_id is None and label.doc_id is None:
                raise place.error("the field is missing", code="missing-field", field="chunk_id")
        except msgspec.ValidationError as error:
            problem = refusal(error, source.label, place.line, record)
            problem.hint = hint_for(source)
            raise problem from error
        except InputError as error:
            error.hint = hint_for(source)
            raise
        found.append((label, place))
    return found


def _check(label: Label, place: SourcePlace, highest: float) -> None:
    if label.grade is None:
        if not label.reason:
            hint = "say why there is no grade; an irrelevant passage has grade 0"
            what = "a label without a grade and without a reason"
            raise place.error(what, code="missing-field", field="reason", hint=hint)
        return
    if label.reason is not None:
        hint = "reason is only for labels without a grade; use note for comments"
        what = "a label with both a grade and a reason"
        raise place.error(what, code="contradiction", field="reason", hint=hint)
    if not 0 <= label.grade <= highest:
        longer = f"for a longer scale, use --max-grade {label.grade:g}"
        hint = longer if label.grade > 0 else "for an unknown grade, use null and a reason"
        expected = f"a grade from 0 to {highest:g}"
        what = "outside the scale"
        raise place.error(what, code="bad-value", field="grade", expected=expected, got=label.grade, hint=hint)


def contradiction(what: str, before: Label, label: Label, place: SourcePlace, hint: str) -> InputError:
    expected = f"{before.grade:g}, as there"
    about = {"query": label.key.query, "field": "grade", "expected": expected, "got": label.grade, "hint": hint}
    return place.error(what, code="contradiction", **about)


def refuse_unknown(labels: Labels, pool: Sequence[PoolEntry]) -> None:
    """Raise if a label's pair is not in the pool."""
    known = {entry.key for entry in pool}
    for label, place in zip(labels.entries, labels.places, strict=True):
        if label.key not in known:
            what = f"{label.key.item} is not in the pool for this query"
            hint = "labels and pool do not match: use the pool that was labelled"
            raise place.error(what, code="unknown-pair", query=label.key.query, hint=hint)


class LabelLog:
    """Opens or continues a labels file. A partial last line, left by a crash, is removed. `labels`: what it had."""

    def __init__(self, path: str | PathLike[str], *, highest: float = HIGHEST) -> None:
        self.path: Path = Path(path)
        self._file = LineFile(self.path)
        self._given: dict[str, dict[Key, float | None]] = {}
        try:
            lines = self._file.lines()
            self.labels: Labels = read_labels(path, highest=highest, may_be_empty=True)
            # With replaced ones.
            self.lines: list[Label] = [msgspec.json.decode(line, type=Label) for line in lines if line.strip()]
        except (NotContinued, msgspec.MsgspecError):  # or not JSONL: a JSON list, a compressed file
            self._file.close()
            hint = "choose another file with -o"
            what = "not a labels file; it was not changed"
            raise ConfigError(what, code="not-a-labels-file", file=str(path), hint=hint) from None
        except InputError:
            self._file.close()
            raise

    def given(self, annotator: str) -> dict[Key, float | None]:
        """An annotator's grades, the latest last; a grade wins over a skip. Cached, so that adding a label does not
        reread all of them."""
        found = self._given.get(annotator)
        if found is None:
            found = {}
            for label in self.lines:
                if label.annotator == annotator:
                    _note(found, label)
            if found:  # annotators without labels are not cached
                self._given[annotator] = found
        return found

    def add(self, label: Label) -> None:
        """Add a label. When this returns, it is on disk."""
        self._file.append(msgspec.json.encode(label) + b"\n")
        self.lines.append(label)
        if label.annotator in self._given:
            _note(self._given[label.annotator], label)

    def drop(self, at: int) -> Label:
        """Remove one of `lines`."""
        try:
            self._file.drop(at)
        except ConfigError:  # after a disk error the file decides what is stored
            with suppress(OSError, msgspec.MsgspecError):
                there = self.path.read_bytes().splitlines()
                self.lines = [msgspec.json.decode(line, type=Label) for line in there if line.strip()]
                self._given.clear()
            raise
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
    before = given.pop(label.key, None)  # so that the latest comes last
    given[label.key] = before if label.grade is None else label.grade


def check_labels(path: Path) -> None:
    """Raise if the file is not a labels file, before any model is called."""
    check_writable(path)
    _lines(path)


def write_beside(path: Path, labels: Sequence[Label], annotator: str) -> int:
    """Write labels into a file. Lines by other annotators or for other pairs are kept, first. Returns their number."""
    replaced = {label.key for label in labels}
    kept = [line for line, there in _lines(path) if there.annotator != annotator or there.key not in replaced]
    write_whole(path, b"".join(line + b"\n" for line in (*kept, *map(msgspec.json.encode, labels))))
    return len(kept)


def _lines(path: Path) -> list[tuple[bytes, Label]]:
    found = []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            if line.strip():
                found.append((line, msgspec.json.decode(line, type=Label)))
        except DECODE_ERRORS as error:
            hint = "labels are added to an existing file: choose another file with -o"
            what = f"not a labels file: {error}"
            raise ConfigError(what, code="not-a-labels-file", file=str(path), line=number, hint=hint) from None
    return found
