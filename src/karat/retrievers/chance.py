"""Random documents, as the lowest baseline."""

from __future__ import annotations

import random

from karat.data.corpus import Corpus
from karat.retrievers.base import Retriever, refuse_empty


class Chance(Retriever):
    """Returns k random documents, the same for the same query and seed."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def index(self, corpus: Corpus) -> None:
        refuse_empty(corpus)
        self._ids = corpus.ids

    def search(self, query: str, k: int, *, language: str | None = None) -> list[str]:
        return random.Random(f"{self.seed}:{query}").sample(self._ids, min(k, len(self._ids)))
