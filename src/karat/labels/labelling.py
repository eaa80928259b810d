"""Labelling one pair after the other: what comes next, what was given, what is taken back. Knows no terminal."""

from __future__ import annotations

from collections.abc import Container, Mapping

from karat.labels.base import Key
from karat.labels.labels_file import Label, LabelLog, now
from karat.labels.pool_file import PoolEntry

SKIPPED = "skipped"
_WORDS = {2: ("irrelevant", "partial", "strong"), 1: ("irrelevant", "relevant")}


def grade_words(highest: int) -> tuple[str, ...]:
    """What the grades from 0 on mean.

    >>> grade_words(2), grade_words(4)
    (('irrelevant', 'partial', 'strong'), ('irrelevant', '', '', '', 'perfect'))
    """
    return _WORDS.get(highest, ("irrelevant", *[""] * (highest - 1), "perfect"))


class Session:
    """One annotator's way through a pool. Everything is stored the moment it is given, and read again to go on."""

    def __init__(
        self, pool: Mapping[Key, PoolEntry], log: LabelLog, annotator: str, *, only_skipped: bool = False
    ) -> None:
        self.pool, self._log, self.annotator = pool, log, annotator
        self._only_skipped = only_skipped
        self._passed: set[Key] = set()  # skipped once more in this session
        self._read()

    def _read(self) -> None:
        self.given = {pair: grade for pair, grade in self._log.given(self.annotator).items() if pair in self.pool}

    @property
    def current(self) -> PoolEntry | None:
        return next((entry for pair, entry in self.pool.items() if self._waits(pair)), None)

    def grade_of_duplicate(self, entry: PoolEntry) -> float | None:
        """What this annotator gave the pair of which another is nearly a copy."""
        return self.given.get(Key(str(entry.query_id), entry.near_duplicate_of or ""))

    @property
    def longest_skipped(self) -> PoolEntry | None:
        """Of the skipped pairs the one that has waited longest: skipped once more, it comes last."""
        return next((self.pool[key] for key, grade in self.given.items() if grade is None), None)

    def last(self, pair: Key | None = None) -> Label | None:
        """What this annotator gave last, to any pair or to one."""
        at = self._last(self.pool if pair is None else (pair,))
        return None if at is None else self._log.lines[at]

    def _last(self, pairs: Container[Key]) -> int | None:
        lines = self._log.lines
        own = (i for i in reversed(range(len(lines))) if lines[i].annotator == self.annotator)
        return next((i for i in own if lines[i].key in pairs), None)

    def _waits(self, key: Key) -> bool:
        if self._only_skipped:
            return key in self.given and self.given[key] is None and key not in self._passed
        return key not in self.given

    @property
    def graded(self) -> int:
        return sum(grade is not None for grade in self.given.values())

    @property
    def skipped(self) -> int:
        return len(self.given) - self.graded

    def give(self, grade: float | None, note: str | None = None, *, pair: Key | None = None) -> None:
        """The grade of a pair, where none is named of the current one; None: skip it."""
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
        """Take this annotator's last label back, also one of an earlier session; False where there is none."""
        at = self._last(self.pool)
        if at is None:
            return False
        self._passed.discard(self._log.drop(at).key)
        self._read()
        return True
