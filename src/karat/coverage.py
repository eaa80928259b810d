"""What of the gold set the run covers: which queries it lacks, and whether it names items as the gold set does."""

from __future__ import annotations

import numpy as np

from karat.audit import Audit
from karat.gold import Gold
from karat.ids import Ints, take_list
from karat.judged import Judged


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
        self._shared = False
        self._seen: str | None = None  # an id of the run

    def look(self, judged: Judged) -> None:
        """Costs something only as long as nothing relevant was found."""
        if self._shared or judged.hits is None or not len(judged.hits.ids):
            return
        self._shared = bool((judged.hit_grade > 0).any())
        if not self._shared:
            rows = np.arange(len(judged.hits.ids))
            ids = take_list(judged.hits.ids, rows)
            self._seen = self._seen or ids[0]
            wanted = set(self._relevant())
            self._shared = not (wanted.isdisjoint(ids) and wanted.isdisjoint(judged.docs_of(rows)))

    def report(self, audit: Audit) -> None:
        if self._shared or self._seen is None:
            return
        relevant = self._relevant()
        if relevant:
            audit.count("no_shared_items", len(relevant), (f"gold {relevant[0]}", f"run {self._seen}"))

    def _relevant(self) -> list[str]:
        return [self._gold.ids[i] for i in np.flatnonzero(self._gold.grades > 0).tolist()]
