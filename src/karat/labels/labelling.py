"""Labelling one pair after the other: what comes next, what was given, what is taken back. Knows no terminal."""

from __future__ import annotations

from collections.abc import Sequence

from karat.labels.base import Key
from karat.labels.label_log import LabelLog
from karat.labels.labels_file import Label, now
from karat.labels.pool_file import PoolEntry

SKIPPED = "skipped"


class Session:
    """One annotator's way through a pool. Everything is stored the moment it is given, and read again to go on."""

    def __init__(self, pool: Sequence[PoolEntry], log: LabelLog, annotator: str, *, only_skipped: bool = False) -> None:
        self.pool, self._log, self.annotator = pool, log, annotator
        self._keys = {entry.key for entry in pool}
        self._only_skipped = only_skipped
        self._passed: set[Key] = set()  # skipped once more in this session
        self._read()

    def _read(self) -> None:
        """Who was given what, by this annotator; a grade counts more than having been skipped."""
        self.given: dict[Key, float | None] = {}
        for label in self._log.lines:
            if label.annotator == self.annotator and label.key in self._keys:
                grade = label.grade
                self.given[label.key] = self.given.get(label.key) if grade is None else grade

    @property
    def current(self) -> PoolEntry | None:
        return next((entry for entry in self.pool if self._waits(entry.key)), None)

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

    def give(self, grade: float | None, note: str | None = None) -> None:
        """The grade of the current pair; None: skip it."""
        entry = self.current
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
        """Take the last label back, also one of an earlier session; False where the last is not this annotator's."""
        last = self._log.lines[-1] if self._log.lines else None
        if last is None or last.annotator != self.annotator or last.key not in self._keys:
            return False
        self._passed.discard(self._log.drop_last().key)
        self._read()
        return True
