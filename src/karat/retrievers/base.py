"""What a retriever is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from karat.corpus import Corpus
from karat.registry import Registry


class Retriever:
    """Indexes a corpus and answers queries with ranked (id, score) pairs, best first."""

    name: ClassVar[str]

    def index(self, corpus: Corpus) -> None:
        raise NotImplementedError

    def search(self, query: str, k: int, *, language: str | None = None) -> list[tuple[str, float]]:
        raise NotImplementedError

    def settings(self) -> dict[str, object]:
        """What made this index what it is, for the run log."""
        return {"name": self.name}


REGISTRY: Registry[Retriever] = Registry("retriever", "karat.retrievers", Retriever)


def ranked(ids: Sequence[str], scores: Sequence[float], k: int) -> list[tuple[str, float]]:
    """The k best, ties by id, descending, as everywhere in Karat."""
    pairs = sorted(zip(scores, ids, strict=True), reverse=True)[:k]
    return [(i, float(s)) for s, i in pairs]
