"""Runs that are read once and looked at again."""

from __future__ import annotations

from collections.abc import Iterator

from karat.data.audit import Audit
from karat.data.hits import Hits, Run


class HeldRun(Run):
    """Reads a run once, and hands out the same slices again."""

    def __init__(self, run: Run, columns: frozenset[str], lists: frozenset[str]) -> None:
        self._run, self._columns, self._lists, self.label = run, columns, lists, run.label
        self._held: list[Hits] | None = None

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        if self._held is None:
            self._held = list(self._run.slices(self._columns, audit, self._lists))
        return iter(self._held)

    def lists(self, name: str) -> Run:
        return self if name == "topk" else _HeldLists(self, name)

    def grouped(self) -> Run:
        return HeldRun(self._run.grouped(), self._columns, self._lists)

    def provenance(self) -> dict[str, object]:
        return self._run.provenance()


class _HeldLists(Run):
    def __init__(self, held: HeldRun, name: str) -> None:
        self._held, self._name, self.label = held, name, held.label

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        return (hits.others[self._name] for hits in self._held.slices(columns, audit) if self._name in hits.others)
