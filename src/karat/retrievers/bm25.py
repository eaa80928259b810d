"""BM25 over the text of a corpus."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.corpus import Corpus
from karat.errors import InputError, MissingExtra
from karat.retrievers.base import Retriever, ranked
from karat.retrievers.words import words


class BM25(Retriever):
    """Lexical search: title and text, words stemmed in the language that the corpus names."""

    name = "bm25"

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        self.k1, self.b = k1, b
        self._index: Any = None
        self._ids: list[str] = []

    def index(self, corpus: Corpus) -> None:
        try:
            import bm25s
        except ImportError:
            raise MissingExtra("BM25", "bm25s", "baselines") from None
        if not len(corpus):
            raise InputError("the corpus is empty", file=corpus.label)
        languages = corpus.fields.get("language", [None] * len(corpus))
        texts = (f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True))
        tokens = [words(text, language) for text, language in zip(texts, languages, strict=True)]
        self._ids = corpus.ids
        self._index = bm25s.BM25(k1=self.k1, b=self.b)
        self._index.index(tokens, show_progress=False)

    def search(self, query: str, k: int, *, language: str | None = None) -> list[tuple[str, float]]:
        tokens = [w for w in words(query, language) if w in self._index.vocab_dict]
        if not tokens:
            return []
        scores = self._index.get_scores(tokens)
        found = np.flatnonzero(scores > 0)
        if len(found) > k:
            # Everything that could be among the k best, ties included; the exact order is settled after.
            least = np.partition(scores[found], -k)[-k]
            found = found[scores[found] >= least]
        return ranked([self._ids[i] for i in found.tolist()], scores[found].tolist(), k)

    def settings(self) -> dict[str, object]:
        return {"name": self.name, "k1": self.k1, "b": self.b}
