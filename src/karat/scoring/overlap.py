"""What of the gold set the run covers: which queries it lacks, and whether it names items as the gold set does."""

from __future__ import annotations

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Ints, take_list
from karat.scoring.judged import Judged


def count_missing(gold: Gold, missing: Ints, audit: Audit, code: str = "missing_queries") -> None:
    """Queries that the run lacks; one that has no answer has nothing to lose, so it is counted apart."""
    lost = gold.no_answer[missing] == 0
    for kind, rows in ((code, missing[lost]), ("missing_no_answer", missing[~lost])):
        audit.count(kind, len(rows), (gold.queries[i] for i in rows[:3]))


class SharedItems:
    """Whether any relevant gold item was returned, for whichever query.

    Even a bad retriever returns one now and then. None at all means that run and gold name items in two ways,
    which scores 0 everywhere and looks like an honest failure.
    """

    def __init__(self, gold: Gold) -> None:
        self._gold = gold
        self.found = False
        self.seen: str | None = None  # an id of the run

    def look(self, judged: Judged) -> None:
        """Costs something only as long as nothing relevant was found."""
        if self.found or judged.hits is None or not len(judged.hits.ids):
            return
        self.found = bool((judged.hit_grade > 0).any())
        if not self.found:
            rows = np.arange(len(judged.hits.ids))
            ids = take_list(judged.hits.ids, rows)
            self.seen = self.seen or ids[0]
            wanted = set(self._relevant())
            self.found = not (wanted.isdisjoint(ids) and wanted.isdisjoint(judged.docs_of(rows)))

    def merge(self, found: bool, seen: str | None) -> None:
        """What another saw of other hits."""
        self.found, self.seen = self.found or found, self.seen or seen

    def report(self, audit: Audit) -> None:
        if self.found or self.seen is None:
            return
        relevant = self._relevant()
        if relevant:
            audit.count("no_shared_items", len(relevant), (f"gold {relevant[0]}", f"run {self.seen}"))

    def _relevant(self) -> list[str]:
        return [self._gold.ids[i] for i in relevant_items(self._gold)]


def relevant_items(gold: Gold) -> list[int]:
    """Rows of the gold items that should be found."""
    rows: list[int] = np.flatnonzero(gold.grades > 0).tolist()
    return rows
