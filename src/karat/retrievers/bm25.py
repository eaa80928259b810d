"""BM25 over the text of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from karat.data.corpus import Corpus
from karat.errors import ConfigError
from karat.retrievers.base import Nothing, Retriever, best, refuse_empty
from karat.retrievers.words import ANALYZER, words

_Floats = NDArray[np.float32]


class BM25(Retriever):
    """Lexical search in title and text (or one of them: `bm25:title`), stemmed in the language that the corpus names.

    Compared with bm25s and Lucene in benchmarks/BM25.md.
    Lucene's form of BM25: idf = ln(1 + (N − n + ½) / (n + ½)), and tf / (tf + k1 · (1 − b + b · length / mean length)).
    """

    name = "bm25"

    def __init__(
        self,
        field: Literal["all", "title", "text"] = "all",
        k1: float = 1.5,
        b: float = 0.75,
        language: str | None = None,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            raise ConfigError(
                "BM25 parameters are out of range", expected="k1 ≥ 0 and 0 ≤ b ≤ 1", got=f"k1={k1}, b={b}"
            )
        self.field = field
        self.k1 = k1
        self.b = b
        self.language = language

    def index(self, corpus: Corpus) -> None:
        refuse_empty(corpus)
        told = [None if name is None else str(name) for name in corpus.fields.get("language") or []]
        self._told = any(told)
        self._usual = self.language or next((name for name, _ in Counter(filter(None, told)).most_common(1)), None)
        languages = [language or self._usual for language in told] or [self._usual] * len(corpus)
        texts = corpus.titles if self.field == "title" else corpus.texts
        if self.field == "all":
            texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        if not any(map(str.strip, texts)):
            what = "titles" if self.field == "title" else "texts"
            raise Nothing(f"the {what} of the corpus are all empty", code="empty-corpus", file=corpus.label)
        self._ids = corpus.ids
        self._postings = _Postings(map(words, texts, languages), self.k1, self.b)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "analyzer": ANALYZER}

    def search(self, query: str, k: int, *, language: str | None = None) -> list[tuple[str, float]]:
        # If the corpus has no languages, the language of a query is ignored, so that both are stemmed in the same way.
        language = (language if self._told else None) or self._usual
        # If a query has only stop words ("Who are you?"), those in the index count.
        scores = self._postings.scores(words(query, language, asked=True) or words(query, language))
        if scores is None:
            return []
        return best(self._ids, scores, np.flatnonzero(scores > 0), k)


class _Postings:
    """Term → its documents, with precomputed BM25 scores."""

    def __init__(self, texts: Iterable[list[str]], k1: float, b: float) -> None:
        self.terms: dict[str, int] = {}
        flat: list[int] = []
        sizes: list[int] = []
        for text in texts:
            flat += [self.terms.setdefault(word, len(self.terms)) for word in text]
            sizes.append(len(text))
        lengths = np.array(sizes, np.int64)
        self.size = size = len(lengths)
        keys = np.array(flat, np.int64) * size + np.repeat(np.arange(size), lengths)
        pairs, counts = np.unique(keys, return_counts=True)  # sorted by term, then by document
        term, self.docs = pairs // size, (pairs % size).astype(np.int32)
        found_in = np.bincount(term, minlength=len(self.terms))
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(found_in)])
        idf = np.log(1 + (size - found_in + 0.5) / (found_in + 0.5))
        norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9))
        self.weights: _Floats = (idf[term] * counts / (counts + norm[self.docs])).astype(np.float32)

    def scores(self, query: list[str]) -> _Floats | None:
        """Return the score of every document; None if none has a word of the query."""
        known = [self.terms[word] for word in query if word in self.terms]
        if not known:
            return None
        scores = np.zeros(self.size, np.float32)
        for term in known:
            at = slice(self.offsets[term], self.offsets[term + 1])
            scores[self.docs[at]] += self.weights[at]
        return scores
