"""Where several people label at once, each at their own pace: pools, one labels file, and what judges said."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import chain, count
from pathlib import Path
from threading import Lock

import msgspec

from karat.errors import ConfigError, InputError, is_whole
from karat.files.atomic_write import refuse_overwriting
from karat.labels.base import Key, Pair
from karat.labels.labelling import Session
from karat.labels.labels_file import Kind, Label, LabelLog, Labels, gathered, read_labels
from karat.labels.pool_file import PoolEntry, by_key, read_pool

LONGEST_NAME = 64
_ORDERS = 64  # annotators of a pool whose order is kept at hand
_ENDING = re.compile(r"(\.jsonl?)?(\.gz|\.zst)?$")


class Progress(msgspec.Struct, frozen=True):
    """How far an annotator has come."""

    annotator: str
    graded: int
    skipped: int
    left: int


class ShownPair(Pair, kw_only=True, omit_defaults=True):
    """What an annotator sees of a pair: neither where it comes from nor what anybody else said of it."""

    query: str | None = None
    title: str | None = None
    text: str | None = None
    language: str | None = None
    near_duplicate_of: str | None = None
    graded_duplicate: float | None = None  # what the annotator gave that one


class JudgeSays(msgspec.Struct, frozen=True):
    """What a judge said of a pair; without a grade it failed."""

    judge: str
    grade: float | None


class Given(msgspec.Struct, frozen=True):
    """A label that was given, and what judges said of the same pair: nobody sees that before."""

    label: Label
    judges: list[JudgeSays]
    title: str | None = None


class Turn(msgspec.Struct, frozen=True):
    """What an annotator has to do next; no pair: nothing."""

    progress: Progress
    pair: ShownPair | None
    last: Given | None


class PoolAtDesk:
    """A pool, and in which order an annotator goes through it."""

    def __init__(self, name: str, entries: Sequence[PoolEntry]) -> None:
        self.name = name
        self.entries = by_key(entries)
        self.queries = len({key.query for key in self.entries})
        self.order = lru_cache(_ORDERS)(self._order)

    def _order(self, annotator: str) -> dict[Key, PoolEntry]:
        """At random, but always the same for one annotator, and the passages of a query together."""

        def place(pair: Key) -> tuple[str, str]:
            return _digest(annotator, pair.query), _digest(annotator, *pair)

        return {pair: self.entries[pair] for pair in sorted(self.entries, key=place)}

    @cached_property
    def by_mark(self) -> dict[str, Key]:
        return {mark_of(key): key for key in self.entries}


class Desk:
    """All that a server needs to let people label. Every label is on the disk when it is said to be given."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[PoolEntry]] | None = None,
        log: LabelLog | None = None,
        judges: Labels | None = None,
        highest: int = 2,
    ) -> None:
        self.pools = {name: PoolAtDesk(name, entries) for name, entries in (pools or {}).items()}
        self.highest = highest
        self._log, self._lock = log, Lock()
        self._judges = judges or Labels()
        self._said: dict[Key, list[JudgeSays]] = {}
        for label in self._judges:
            self._said.setdefault(label.key, []).append(JudgeSays(label.annotator, label.grade))

    def turn(self, pool: PoolAtDesk, annotator: str, *, skipped: bool = False) -> Turn:
        """`skipped`: once more through what was skipped."""
        with self._lock:
            session = self._session(pool, annotator)
            entry = session.longest_skipped if skipped else session.current
            pair = None if entry is None else _shown(entry, session)
            last = session.last()
            return Turn(_progress(session), pair, None if last is None else self._given(pool, last))

    def give(self, pool: PoolAtDesk, annotator: str, pair: Key, grade: float | None, note: str | None = None) -> Given:
        """Store a grade; None: skip. The same grade twice is one: a key may have been pressed twice."""
        if pair not in pool.entries:
            raise InputError(
                f"this pair is not in the pool {pool.name}", code="unknown-pair", query=pair.query, got=pair.item
            )
        if grade is not None and not 0 <= grade <= self.highest:
            raise InputError(
                "out of the scale", code="bad-value", field="grade", expected=f"0 to {self.highest}", got=grade
            )
        with self._lock:
            session = self._session(pool, annotator)
            before = session.given.get(pair)
            if before is None:
                session.give(grade, note, pair=pair)
            elif before != grade:
                hint = "undo goes back to it"
                raise ConfigError(
                    f"this pair has a grade of yours already: {before:g}",
                    code="labelled-already",
                    query=pair.query,
                    hint=hint,
                )
            stored = session.last(pair)
            assert stored is not None
            return self._given(pool, stored)

    def undo(self, pool: PoolAtDesk, annotator: str) -> Label:
        """Take the annotator's last label of this pool back."""
        with self._lock:
            session = self._session(pool, annotator)
            last = session.last()
            if last is None or not session.undo():
                raise ConfigError(f"there is no label of {annotator} to undo", code="nothing-to-undo")
            return last

    def progress(self, pool: PoolAtDesk) -> list[Progress]:
        """Of everybody who has given this pool a label."""
        with self._lock:
            log = self._labels_file
            names = dict.fromkeys(label.annotator for label in log.lines if label.kind == "human")
            found = [_progress(Session(pool.entries, log, name)) for name in names]
        return [one for one in found if one.graded or one.skipped]

    def not_yet_graded(self, pool: PoolAtDesk, annotator: str) -> set[Key]:
        """Of a pool that the annotator has begun: what others said of these would be in the way."""
        with self._lock:
            given = self._session(pool, annotator).given
        return {pair for pair in pool.entries if given.get(pair) is None} if given else set()

    def labels(self, pool: PoolAtDesk, kind: Kind | None = None) -> Labels:
        """What stands in the labels file of this pool."""
        log = self._labels_file
        with self._lock:
            lines = list(log.lines)
        return gathered(lines, str(log.path)).of(pool.entries, kind)

    def judged_pairs(self, pool: PoolAtDesk) -> int:
        """Pairs to which a judge gave a grade."""
        return sum(any(one.grade is not None for one in self._said.get(pair, ())) for pair in pool.entries)

    def judged(self, pool: PoolAtDesk) -> Labels:
        """What judges said of this pool."""
        return self._judges.of(pool.entries)

    def _session(self, pool: PoolAtDesk, annotator: str) -> Session:
        return Session(pool.order(annotator), self._labels_file, annotator)

    @property
    def _labels_file(self) -> LabelLog:
        assert self._log is not None  # there is one wherever there are pools
        return self._log

    def _given(self, pool: PoolAtDesk, label: Label) -> Given:
        return Given(label, self._said.get(label.key, []), pool.entries[label.key].title)


@contextmanager
def open_desk(
    pools: Sequence[str], labels: str | None, judges: Sequence[str] = (), *, highest: int = 2
) -> Iterator[Desk]:
    """Files of pools, the file that labels go to, and files of what judges said. Without a pool, an empty desk."""
    if not pools:
        if labels or judges:
            raise ConfigError(
                "labels, but nothing to label", code="missing-option", hint="--pool FILE; `karat pool` writes one"
            )
        yield Desk()
        return
    if labels is None:
        raise ConfigError(
            "a pool, but no place for its labels",
            code="missing-option",
            hint="--labels FILE; it is continued if it is there",
        )
    refuse_overwriting(Path(labels), [*pools, *judges])
    read = {name: read_pool(path) for name, path in _named(pools).items()}
    said = read_labels(*judges, highest=highest)
    for label, place in zip(said.entries, said.places, strict=True):
        if label.kind != "judge":
            hint = "people label into --labels; what `karat judge` wrote says `kind: judge`"
            raise InputError(
                "a label of a person, not of a judge",
                code="wrong-annotator",
                file=place.file,
                line=place.line,
                hint=hint,
            )
    with LabelLog(labels, highest=highest) as log:
        own = log.labels.of({label.key for label in log.labels}, "judge")  # a file may hold both
        yield Desk(read, log, Labels([*said.entries, *own.entries], [*said.places, *own.places]), highest)


def checked_name(given: str) -> str:
    """The name of an annotator, as it is written into labels."""
    name = " ".join(given.split())
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or not is_whole(name):
        expected = f"1 to {LONGEST_NAME} characters that can be read"
        raise ConfigError("no usable name", code="bad-name", field="annotator", expected=expected, got=given)
    return name


def mark_of(pair: Key) -> str:
    """A short name of a pair, of letters and digits only."""
    return _digest(*pair)


def _digest(*parts: str | bool) -> str:
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()


def _named(paths: Sequence[str]) -> dict[str, str]:
    """Pools by names that can stand in an address.

    >>> _named(["a/pool.jsonl", "b/pool.jsonl.gz", "what? ever.json"])
    {'pool': 'a/pool.jsonl', 'pool-2': 'b/pool.jsonl.gz', 'what-ever': 'what? ever.json'}
    """
    found: dict[str, str] = {}
    for path in paths:
        name = re.sub(r"[^\w.]+", "-", _ENDING.sub("", Path(path).name))[:60].strip(".-") or "pool"
        free = (n for n in chain([name], (f"{name}-{i}" for i in count(2))) if n not in found)
        found[next(free)] = path
    return found


def _shown(entry: PoolEntry, session: Session) -> ShownPair:
    shown = msgspec.convert(entry, ShownPair, from_attributes=True)
    return msgspec.structs.replace(shown, graded_duplicate=session.grade_of_duplicate(entry))


def _progress(session: Session) -> Progress:
    left = len(session.pool) - len(session.given)
    return Progress(session.annotator, session.graded, session.skipped, left)
