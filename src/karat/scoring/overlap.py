"""What of the gold set the run covers: which queries it lacks, and whether it names items as the gold set does."""

from __future__ import annotations

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import DocRule, Hashes, Ids, Ints, Keys, equal, hashes, like, lookup, take, take_list
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

    def _relevant(self) -> list[str]:
        return [self._gold.ids[i] for i in relevant_items(self._gold)]


def count_no_shared_items(gold: Gold, shared: bool, seen: str | None, audit: Audit) -> None:
    """`shared`: whether a relevant gold item was returned for any query; `seen`: an id of the run."""
    if shared or seen is None:
        return
    relevant = [gold.ids[i] for i in relevant_items(gold)]
    if relevant:
        audit.count("no_shared_items", len(relevant), (f"gold {relevant[0]}", f"run {seen}"))


class ReturnedNames:
    """Which of the things that the gold set names were returned, for whichever query."""

    def __init__(self, gold: Gold, rule: DocRule) -> None:
        names = list(dict.fromkeys(gold.ids[i] for i in relevant_items(gold)))
        told = (passage.doc for passage in gold.passages if passage is not None and passage.doc is not None)
        self._rule = rule
        self._ids = _Wanted(names)
        self._documents = _Wanted(list(dict.fromkeys([*names, *map(rule.doc, names), *told])))

    def look(self, hits: Hits) -> None:
        self._ids.look(hits.ids)
        chunks = self._rule.any_chunk(hits.ids, hits.written)
        self._documents.look(self._rule.docs(hits.ids) if chunks else hits.ids)
        if hits.docs is not None:
            self._documents.look(hits.docs)

    def taken(self) -> tuple[list[str], list[str]]:
        """Ids and documents that were found since the last call."""
        return self._ids.taken(), self._documents.taken()


class _Wanted:
    """Names that are looked for until they are found."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._set = set(names)
        self._left = np.ones(len(names), np.bool_)
        self._found: list[str] = []
        self._tables: dict[type, tuple[Ids, Hashes]] = {}

    def look(self, ids: Ids) -> None:
        if not self._set:
            return
        if isinstance(ids, list):
            self._note(self._set.intersection(ids))
        elif isinstance(ids, Keys):
            self._note(self._set.intersection(ids.listed))
        else:
            self._note(self._looked_up(ids))

    def _looked_up(self, ids: Ids) -> set[str]:
        """By hash, and then confirmed as text; what was found before is no longer looked for."""
        if type(ids) not in self._tables:
            names = like(ids, self._names)
            self._tables[type(ids)] = names, hashes(names)
        names, hashed = self._tables[type(ids)]
        left = np.flatnonzero(self._left)
        rows, at = lookup(hashes(ids), hashed[left])
        at = left[at]
        at = at[equal(take(ids, rows), take(names, at))]
        return {self._names[i] for i in set(at.tolist())}

    def _note(self, found: set[str]) -> None:
        if not found:
            return
        self._found += sorted(found)
        self._set -= found
        if self._tables:
            self._left &= np.array([name in self._set for name in self._names], np.bool_)

    def taken(self) -> list[str]:
        found, self._found = self._found, []
        return found


def relevant_items(gold: Gold) -> list[int]:
    """Rows of the gold items that should be found."""
    rows: list[int] = np.flatnonzero(gold.grades > 0).tolist()
    return rows
