"""One annotator's session with a pool, and the words for grades."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Literal

from karat.labels.files import Key, Label, LabelLog, PoolEntry, now

SKIPPED = "skipped"
_WORDS = {2: ("irrelevant", "partial", "strong"), 1: ("irrelevant", "relevant")}


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

    def give(
        self,
        grade: float | None,
        note: str | None = None,
        *,
        pair: Key | None = None,
        saw: Literal["ranking"] | None = None,
    ) -> None:
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
                saw=saw,
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
