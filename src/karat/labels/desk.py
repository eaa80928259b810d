"""A desk where several annotators label at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import chain, count
from pathlib import Path
from threading import Lock
from typing import Literal

import msgspec

from karat.errors import ConfigError, InputError, is_whole
from karat.files.atomic_write import refuse_overwriting
from karat.labels.desk_folder import DeskFolder, PoolNotes
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
    read_labels,
    read_pool,
)
from karat.labels.session import Session

LONGEST_NAME = 64
_ORDERS = 64  # annotators per pool whose order is cached
_ENDING = re.compile(r"(\.jsonl?)?(\.gz|\.zst)?$")


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

    def __init__(self, name: str, entries: Sequence[PoolEntry], log: Callable[[], LabelLog]) -> None:
        self.name = name
        self.given: Sequence[PoolEntry] = entries
        self.log: Callable[[], LabelLog] = log  # of its labels
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
        folder: DeskFolder | None = None,
    ) -> None:
        self.highest = highest
        self.folder: DeskFolder | None = folder
        self._log, self._lock = log, Lock()
        self._listed = {name: PoolAtDesk(name, entries, self._given_log) for name, entries in (pools or {}).items()}
        self._own: dict[str, PoolAtDesk] = {}
        self._judges = judges or Labels()
        self._said: dict[Key, list[JudgeSays]] = {}
        for label in self._judges:
            self._said.setdefault(label.key, []).append(JudgeSays(label.annotator, label.grade))

    @property
    def pools(self) -> dict[str, PoolAtDesk]:
        """The pools that were given, and those in the folder."""
        if self.folder is None:
            return self._listed
        with self._lock:
            there = self.folder.pools()
            for name, entries in there.items():
                if name not in self._own or self._own[name].given is not entries:
                    self._own[name] = PoolAtDesk(name, entries, self.folder.log)
            self._own = {name: self._own[name] for name in there}
            return {**self._own, **self._listed}

    def notes(self, name: str) -> PoolNotes:
        """Who made, assigned and closed a pool; nothing for a pool that was given."""
        return (
            PoolNotes() if self.folder is None or name in self._listed else self.folder.notes().get(name, PoolNotes())
        )

    def is_own(self, name: str) -> bool:
        """Whether a pool is in the folder."""
        return self.folder is not None and name not in self._listed

    def in_folder(self, name: str) -> DeskFolder:
        """The folder of a pool that can be changed."""
        if self.folder is None or name in self._listed:
            what = f"the pool {name} was given with --pool, so it cannot be changed here"
            raise ConfigError(what, code="given-pool", hint="change the file, then start the server again")
        return self.folder

    @property
    def can_label(self) -> bool:
        """Whether there is a file for labels outside of pools."""
        return self.folder is not None or self._log is not None

    def log(self) -> LabelLog:
        """The file for labels outside of pools."""
        return self._given_log() if self.folder is None else self.folder.log()

    def people(self) -> list[Label]:
        """All labels of people outside of given pools, as they were written."""
        if not self.can_label or (self.folder is not None and not self.folder.has_labels):
            return []
        with self._lock:
            return [label for label in self.log().lines if label.kind == "human"]

    def hidden(self, annotator: str) -> set[Key]:
        """Pairs of open pools that this annotator has not graded yet: grades by others must stay hidden."""
        pools = [pool for pool in self.pools.values() if not self.notes(pool.name).closed]
        return {pair for pool in pools for pair in self.not_yet_graded(pool, annotator)}

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

    def give(
        self,
        pool: PoolAtDesk,
        annotator: str,
        pair: Key,
        grade: float | None,
        note: str | None = None,
        *,
        saw: Literal["ranking"] | None = None,
    ) -> Given:
        """Store a grade; None: skip. Repeating a grade has no effect, since a key may be pressed twice."""
        self._refuse_closed(pool)
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
                session.give(grade, note, pair=pair, saw=saw)
            elif before != grade:
                hint = "use undo to change it"
                what = f"you already graded this pair: {before:g}"
                raise ConfigError(what, code="labelled-already", query=pair.query, hint=hint)
            stored = session.last(pair)
            assert stored is not None
            return self._given(pool, stored)

    def undo(self, pool: PoolAtDesk, annotator: str) -> Label:
        """Undo the annotator's last label in this pool."""
        self._refuse_closed(pool)
        with self._lock:
            session = self._session(pool, annotator)
            last = session.last()
            if last is None or not session.undo():
                raise ConfigError(f"{annotator} has no label to undo", code="nothing-to-undo")
            return last

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Store labels of pairs that are in no pool."""
        with self._lock:
            log = self.log()
            for label in labels:
                log.add(label)

    def undo_seen(self, pool: PoolAtDesk, annotator: str, pair: Key | None = None) -> Label:
        """Undo a label that was given with the ranking in sight: of one pair, or the annotator's last one. A label of a
        pool stays: its annotator has now seen the ranking and could not give it again."""
        with self._lock:
            log = pool.log()
            own = [
                at
                for at, label in enumerate(log.lines)
                if label.annotator == annotator
                and label.saw
                and label.key in pool.entries
                and pair in (None, label.key)
            ]
            if not own:
                what = f"{annotator} has no label to undo here"
                raise ConfigError(what, code="nothing-to-undo", hint="labels given in a pool are undone there")
            return log.drop(own[-1])

    def given_by(self, annotator: str, pool: PoolAtDesk) -> dict[Key, Label]:
        """The annotator's label of each pair; a grade wins over a skip."""
        found: dict[Key, Label] = {}
        for label in self.people():
            if label.annotator == annotator and label.key in pool.entries:
                before = found.get(label.key)
                if before is None or label.grade is not None:
                    found[label.key] = label
        return found

    def progress(self, pool: PoolAtDesk) -> list[Progress]:
        """The progress of everyone who has labelled in this pool."""
        with self._lock:
            log = pool.log()
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
        log = pool.log()
        with self._lock:
            lines = list(log.lines)
        return gathered(lines, str(log.path)).of(pool.entries, kind)

    def judged_pairs(self, pool: PoolAtDesk) -> int:
        return sum(any(one.grade is not None for one in self._said.get(pair, ())) for pair in pool.entries)

    def judged(self, pool: PoolAtDesk) -> Labels:
        return self._judges.of(pool.entries)

    def _session(self, pool: PoolAtDesk, annotator: str) -> Session:
        return Session(pool.order(annotator), pool.log(), annotator)

    def _refuse_closed(self, pool: PoolAtDesk) -> None:
        notes = self.notes(pool.name)
        if notes.closed:
            what = f"the pool {pool.name} was closed by {notes.closed_by}"
            raise ConfigError(what, code="pool-closed", hint="an editor can open it again")

    def _given_log(self) -> LabelLog:
        assert self._log is not None  # always set if there are pools
        return self._log

    def _given(self, pool: PoolAtDesk, label: Label) -> Given:
        return Given(label, self._said.get(label.key, []), pool.entries[label.key].title)


@contextmanager
def open_desk(
    pools: Sequence[str],
    labels: str | None,
    judges: Sequence[str] = (),
    *,
    highest: int = 2,
    folder: str | Path | None = None,
) -> Iterator[Desk]:
    """Open a desk with pool files, the labels file to write, and files of judge labels. `folder`: with more pools,
    which can be changed, and their labels. Without any of these, it is empty."""
    own = None if folder is None else DeskFolder(folder, highest=highest)
    try:
        with _opened(pools, labels, judges, highest, own) as desk:
            yield desk
    finally:
        if own is not None:
            own.close()


@contextmanager
def _opened(
    pools: Sequence[str], labels: str | None, judges: Sequence[str], highest: int, own: DeskFolder | None
) -> Iterator[Desk]:
    if not pools:
        if labels or (judges and own is None):
            hint = "--pool FILE; `karat labels pool` writes one"
            raise ConfigError("labels need a pool", code="missing-option", hint=hint)
        yield Desk(judges=_judge_labels(judges, highest), highest=highest, folder=own)
        return
    if labels is None:
        hint = "-o FILE; an existing file is continued"
        raise ConfigError("a pool needs a file for its labels", code="missing-option", hint=hint)
    refuse_overwriting(Path(labels), [*pools, *judges])
    read = {name: read_pool(path) for name, path in _named(pools).items()}
    if own is not None and (twice := next((name for name in own.pools() if name in read), None)) is not None:
        what = f"two pools are called {twice}: one of --pool, one in {own.path}"
        raise ConfigError(what, code="pool-exists", hint="rename one of the files")
    said = _judge_labels(judges, highest)
    with LabelLog(labels, highest=highest) as log:
        more = log.labels.of_kind("judge")  # a file may have both
        every = Labels([*said.entries, *more.entries], [*said.places, *more.places])
        yield Desk(read, log, every, highest, own)


def _judge_labels(files: Sequence[str], highest: int) -> Labels:
    said = read_labels(*files, highest=highest)
    for label, place in zip(said.entries, said.places, strict=True):
        if label.kind == "human":
            hint = "human labels go to -o; labels by `karat labels judge` have `kind: judge`"
            raise place.error("a human label, not a judge label", code="wrong-annotator", hint=hint)
    return said


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
