"""Labelling sessions of one annotator, and a desk where several annotators label at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import chain, count
from pathlib import Path
from threading import Lock

import msgspec

from karat.errors import ConfigError, InputError, is_whole
from karat.files.atomic_write import refuse_overwriting
from karat.labels.files import (
    Key,
    Kind,
    Label,
    LabelLog,
    Labels,
    PairTexts,
    PoolEntry,
    by_key,
    gathered,
    now,
    read_labels,
    read_pool,
)

LONGEST_NAME = 64
SKIPPED = "skipped"
_WORDS = {2: ("irrelevant", "partial", "strong"), 1: ("irrelevant", "relevant")}
_ORDERS = 64  # annotators per pool whose order is cached
_ENDING = re.compile(r"(\.jsonl?)?(\.gz|\.zst)?$")


def grade_words(highest: int) -> tuple[str, ...]:
    """The meaning of each grade, from 0.

    >>> grade_words(2), grade_words(4)
    (('irrelevant', 'partial', 'strong'), ('irrelevant', '', '', '', 'perfect'))
    """
    return _WORDS.get(highest, ("irrelevant", *[""] * (highest - 1), "perfect"))


class Session:
    """One annotator's session with a pool. Labels are stored at once, and a later session continues."""

    def __init__(
        self, pool: Mapping[Key, PoolEntry], log: LabelLog, annotator: str, *, only_skipped: bool = False
    ) -> None:
        self.pool = pool
        self.annotator = annotator
        self._log = log
        self._only_skipped = only_skipped
        self._passed: set[Key] = set()  # skipped once more in this session
        self._read()

    def _read(self) -> None:
        self.given: dict[Key, float | None] = {
            pair: grade for pair, grade in self._log.given(self.annotator).items() if pair in self.pool
        }

    @property
    def current(self) -> PoolEntry | None:
        waiting = (key for key in self.pool if key not in self.given)
        if self._only_skipped:
            waiting = (key for key in self.pool if self.given.get(key, 0) is None and key not in self._passed)
        return next((self.pool[key] for key in waiting), None)

    def grade_of_duplicate(self, entry: PoolEntry) -> float | None:
        """The grade that this annotator gave to the near duplicate of a pair."""
        return self.given.get(Key(str(entry.query_id), entry.near_duplicate_of or ""))

    def last(self, pair: Key | None = None) -> Label | None:
        """This annotator's last label, of any pair or of one."""
        at = self._last(self.pool if pair is None else (pair,))
        return None if at is None else self._log.lines[at]

    def _last(self, pairs: Container[Key]) -> int | None:
        lines = self._log.lines
        own = (i for i in reversed(range(len(lines))) if lines[i].annotator == self.annotator)
        return next((i for i in own if lines[i].key in pairs), None)

    @property
    def graded(self) -> int:
        return sum(grade is not None for grade in self.given.values())

    @property
    def skipped(self) -> int:
        return len(self.given) - self.graded

    def give(self, grade: float | None, note: str | None = None, *, pair: Key | None = None) -> None:
        """Grade a pair, by default the current one; None: skip it."""
        entry = self.current if pair is None else self.pool[pair]
        assert entry is not None
        self._log.add(
            Label(
                query_id=entry.query_id,
                chunk_id=entry.chunk_id,
                doc_id=entry.doc_id,
                grade=grade,
                annotator=self.annotator,
                reason=SKIPPED if grade is None else None,
                note=note or None,
                time=now(),
                inclusion_probability=entry.inclusion_probability,
            )
        )
        if grade is None:
            self._passed.add(entry.key)
        self._read()

    def undo(self) -> bool:
        """Undo this annotator's last label, even of an earlier session; False if there is none."""
        at = self._last(self.pool)
        if at is None:
            return False
        self._passed.discard(self._log.drop(at).key)
        self._read()
        return True


class Progress(msgspec.Struct, frozen=True):
    """The progress of an annotator."""

    annotator: str
    graded: int
    skipped: int
    left: int


class ShownPair(PairTexts, kw_only=True, omit_defaults=True):
    """What an annotator sees of a pair: neither its origin nor other labels."""

    graded_duplicate: float | None = None  # the annotator's grade of the near duplicate


class JudgeSays(msgspec.Struct, frozen=True):
    """A judge's label of a pair; no grade: it failed."""

    judge: str
    grade: float | None


class Given(msgspec.Struct, frozen=True):
    """A stored label, and judge labels of the same pair, which are hidden until then."""

    label: Label
    judges: list[JudgeSays]
    title: str | None = None


class Turn(msgspec.Struct, frozen=True):
    """What an annotator has to do next; no pair: done."""

    progress: Progress
    pair: ShownPair | None
    last: Given | None


class PoolAtDesk:
    """A pool, and each annotator's order of it."""

    def __init__(self, name: str, entries: Sequence[PoolEntry]) -> None:
        self.name = name
        self.entries: dict[Key, PoolEntry] = by_key(entries)
        self.queries: int = len({key.query for key in self.entries})
        self.order: Callable[[str], dict[Key, PoolEntry]] = lru_cache(_ORDERS)(self._order)

    def _order(self, annotator: str) -> dict[Key, PoolEntry]:
        """A random order, always the same for one annotator, with the passages of a query together; or the pool's
        own, if it is a queue."""
        if all(entry.place is not None for entry in self.entries.values()):
            return dict(sorted(self.entries.items(), key=lambda pair: pair[1].place or 0))
        place = {pair: (_digest(annotator, pair.query), _digest(annotator, *pair)) for pair in self.entries}
        return {pair: self.entries[pair] for pair in sorted(self.entries, key=place.__getitem__)}

    @cached_property
    def by_mark(self) -> dict[str, Key]:
        return {mark_of(key): key for key in self.entries}


class Desk:
    """Everything a server needs for labelling. A label is on disk before it is confirmed."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[PoolEntry]] | None = None,
        log: LabelLog | None = None,
        judges: Labels | None = None,
        highest: int = 2,
    ) -> None:
        self.pools: dict[str, PoolAtDesk] = {name: PoolAtDesk(name, entries) for name, entries in (pools or {}).items()}
        self.highest = highest
        self._log, self._lock = log, Lock()
        self._judges = judges or Labels()
        self._said: dict[Key, list[JudgeSays]] = {}
        for label in self._judges:
            self._said.setdefault(label.key, []).append(JudgeSays(label.annotator, label.grade))

    def turn(self, pool: PoolAtDesk, annotator: str, *, skipped: bool = False) -> Turn:
        """The annotator's next pair. `skipped`: go through skipped pairs again."""
        with self._lock:
            session = self._session(pool, annotator)
            entry = session.current
            if skipped:  # the one that has waited longest; skipped again, it comes last
                entry = next((pool.entries[key] for key, grade in session.given.items() if grade is None), None)
            pair = None
            if entry is not None:
                shown = msgspec.convert(entry, ShownPair, from_attributes=True)
                pair = msgspec.structs.replace(shown, graded_duplicate=session.grade_of_duplicate(entry))
            last = session.last()
            return Turn(_progress(session), pair, None if last is None else self._given(pool, last))

    def give(self, pool: PoolAtDesk, annotator: str, pair: Key, grade: float | None, note: str | None = None) -> Given:
        """Store a grade; None: skip. Repeating a grade has no effect, since a key may be pressed twice."""
        if pair not in pool.entries:
            what = f"this pair is not in the pool {pool.name}"
            raise InputError(what, code="unknown-pair", query=pair.query, got=pair.item)
        if grade is not None and not 0 <= grade <= self.highest:
            expected = f"0 to {self.highest}"
            raise InputError("outside the scale", code="bad-value", field="grade", expected=expected, got=grade)
        with self._lock:
            session = self._session(pool, annotator)
            before = session.given.get(pair)
            if before is None:
                session.give(grade, note, pair=pair)
            elif before != grade:
                hint = "use undo to change it"
                what = f"you already graded this pair: {before:g}"
                raise ConfigError(what, code="labelled-already", query=pair.query, hint=hint)
            stored = session.last(pair)
            assert stored is not None
            return self._given(pool, stored)

    def undo(self, pool: PoolAtDesk, annotator: str) -> Label:
        """Undo the annotator's last label in this pool."""
        with self._lock:
            session = self._session(pool, annotator)
            last = session.last()
            if last is None or not session.undo():
                raise ConfigError(f"{annotator} has no label to undo", code="nothing-to-undo")
            return last

    def progress(self, pool: PoolAtDesk) -> list[Progress]:
        """The progress of everyone who has labelled in this pool."""
        with self._lock:
            log = self._labels_file
            names = dict.fromkeys(label.annotator for label in log.lines if label.kind == "human")
            found = [_progress(Session(pool.entries, log, name)) for name in names]
        return [one for one in found if one.graded or one.skipped]

    def not_yet_graded(self, pool: PoolAtDesk, annotator: str) -> set[Key]:
        """Pairs without a grade by this annotator, for which other labels must stay hidden."""
        with self._lock:
            given = self._session(pool, annotator).given
        return {pair for pair in pool.entries if given.get(pair) is None}

    def labels(self, pool: PoolAtDesk, kind: Kind | None = None) -> Labels:
        """The labels of this pool in the labels file."""
        log = self._labels_file
        with self._lock:
            lines = list(log.lines)
        return gathered(lines, str(log.path)).of(pool.entries, kind)

    def judged_pairs(self, pool: PoolAtDesk) -> int:
        return sum(any(one.grade is not None for one in self._said.get(pair, ())) for pair in pool.entries)

    def judged(self, pool: PoolAtDesk) -> Labels:
        return self._judges.of(pool.entries)

    def _session(self, pool: PoolAtDesk, annotator: str) -> Session:
        return Session(pool.order(annotator), self._labels_file, annotator)

    @property
    def _labels_file(self) -> LabelLog:
        assert self._log is not None  # always set if there are pools
        return self._log

    def _given(self, pool: PoolAtDesk, label: Label) -> Given:
        return Given(label, self._said.get(label.key, []), pool.entries[label.key].title)


@contextmanager
def open_desk(
    pools: Sequence[str], labels: str | None, judges: Sequence[str] = (), *, highest: int = 2
) -> Iterator[Desk]:
    """Open a desk with pool files, the labels file to write, and files of judge labels. Without pools, it is empty."""
    if not pools:
        if labels or judges:
            hint = "--pool FILE; `karat labels pool` writes one"
            raise ConfigError("labels need a pool", code="missing-option", hint=hint)
        yield Desk()
        return
    if labels is None:
        hint = "-o FILE; an existing file is continued"
        raise ConfigError("a pool needs a file for its labels", code="missing-option", hint=hint)
    refuse_overwriting(Path(labels), [*pools, *judges])
    read = {name: read_pool(path) for name, path in _named(pools).items()}
    said = read_labels(*judges, highest=highest)
    for label, place in zip(said.entries, said.places, strict=True):
        if label.kind == "human":
            hint = "human labels go to -o; labels by `karat labels judge` have `kind: judge`"
            raise place.error("a human label, not a judge label", code="wrong-annotator", hint=hint)
    with LabelLog(labels, highest=highest) as log:
        own = log.labels.of_kind("judge")  # a file may have both
        yield Desk(read, log, Labels([*said.entries, *own.entries], [*said.places, *own.places]), highest)


def checked_name(given: str) -> str:
    """Check and normalize the name of an annotator."""
    name = " ".join(given.split())
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or not is_whole(name):
        expected = f"1 to {LONGEST_NAME} printable characters"
        raise ConfigError("invalid name", code="bad-name", field="annotator", expected=expected, got=given)
    return name


def mark_of(pair: Key) -> str:
    """A short id of a pair, with letters and digits only."""
    return _digest(*pair)


def _digest(*parts: str | bool) -> str:
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()


def _named(paths: Sequence[str]) -> dict[str, str]:
    """Pools by names that are valid in a URL.

    >>> _named(["a/pool.jsonl", "b/pool.jsonl.gz", "what? ever.json"])
    {'pool': 'a/pool.jsonl', 'pool-2': 'b/pool.jsonl.gz', 'what-ever': 'what? ever.json'}
    """
    found: dict[str, str] = {}
    for path in paths:
        name = re.sub(r"[^\w.]+", "-", _ENDING.sub("", Path(path).name))[:60].strip(".-") or "pool"
        free = (n for n in chain([name], (f"{name}-{i}" for i in count(2))) if n not in found)
        found[next(free)] = path
    return found


def _progress(session: Session) -> Progress:
    left = len(session.pool) - len(session.given)
    return Progress(session.annotator, session.graded, session.skipped, left)
