"""Does the list say the same thing over and over."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


def _distinct_docs(judged: Judged, limit: Ints) -> Floats:
    """Distinct documents in the top of each query, NaN for a query that the run lacks."""
    if judged.hits is None:
        return np.full(judged.n, np.nan)
    query, rows = judged.top(limit)
    codes = judged.doc_codes(rows)
    order = np.lexsort((codes, query))
    query, codes = query[order], codes[order]
    fresh = np.ones(len(query), np.bool_)
    fresh[1:] = (query[1:] != query[:-1]) | (codes[1:] != codes[:-1])
    return np.where(judged.present, judged.per_query(query[fresh]), np.nan)


class DistinctDocs(Metric, frozen=True, kw_only=True):
    """Number of different documents among the top k hits.

    A hit's document is its doc_id, else the part of its chunk id before `#` (or another rule, `--doc-of`).

    >>> import karat
    >>> karat.evaluate({"q": ["a#1", "a#2", "b#1"]}, {"q": ["a#1"]}, ["distinct_docs@3"]).means
    {'distinct_docs@3': 2.0}
    """

    name = "distinct_docs"
    range = (0.0, float("inf"))
    cutoff = "required"
    uses_hits = True
    aliases = {"distinct-docs": "distinct_docs"}

    def score(self, judged: Judged) -> Floats:
        return _distinct_docs(judged, self.limit(judged))


class Redundancy(Metric, frozen=True, kw_only=True):
    """1 − distinct documents / hits in the top k.

    Divides by the hits returned where they are fewer than k, so that a short list is not called redundant;
    undefined where there is no hit.

    >>> import karat
    >>> karat.evaluate({"q": ["a#1", "a#2", "b#1", "b#2"]}, {"q": ["a#1"]}, ["redundancy@4"]).means
    {'redundancy@4': 0.5}
    """

    name = "redundancy"
    direction = "lower"
    cutoff = "required"
    uses_hits = True

    def score(self, judged: Judged) -> Floats:
        limit = self.limit(judged)
        shown = np.minimum(judged.depth, limit)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 1.0 - _distinct_docs(judged, limit) / shown
        return np.where(shown > 0, share, np.nan)


_WORD = re.compile(r"\w+")


class Novelty(Metric, frozen=True, kw_only=True):
    """Share of the top k hits whose text is new: less than `threshold` of its word shingles stand higher up.

    A shingle is `shingle` words in a row, lower-cased; the first hit is always new. Divides by the hits
    returned where they are fewer than k; undefined where the run has no texts.

    >>> import karat
    >>> texts = {"a": "refunds take five days", "b": "Refunds take five days!", "c": "cards ship in two weeks"}
    >>> hits = [{"chunk_id": chunk, "text": text} for chunk, text in texts.items()]
    >>> round(karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["a"]}, ["novelty@3"]).means["novelty@3"], 4)
    0.6667
    """

    name = "novelty"
    cutoff = "required"
    uses_hits = True
    needs = frozenset({"text"})

    threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    shingle: Annotated[int, msgspec.Meta(ge=1)] = 3

    def lacks(self, judged: Judged) -> str | None:
        texts = [] if judged.hits is None else judged.hits.columns.get("text", [])
        return None if any(text is not None for text in texts) else "the hits have no text"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None or "text" not in judged.hits.columns:
            return np.full(judged.n, np.nan)
        texts = judged.hits.columns["text"]
        fresh, shown = np.zeros(judged.n), np.zeros(judged.n)
        seen: set[tuple[str, ...]] = set()
        last = -1
        for query, row in zip(*(a.tolist() for a in judged.top(self.limit(judged))), strict=True):
            if query != last:
                seen, last = set(), query
            if texts[row] is None:
                fresh[query] = np.nan
                continue
            shingles = self._shingles(texts[row])
            shown[query] += 1
            fresh[query] += len(shingles & seen) < self.threshold * max(len(shingles), 1)
            seen |= shingles
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(shown > 0, fresh / shown, np.nan)

    def _shingles(self, text: str) -> set[tuple[str, ...]]:
        words = _WORD.findall(text.lower())
        last = max(len(words) - self.shingle, 0)
        return {tuple(words[i : i + self.shingle]) for i in range(last + 1)}
