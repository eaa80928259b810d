"""Metrics of lists: documents, new texts, judged and fresh hits, and length."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints, count_distinct
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Basis, CutoffUse, Direction, Metric, share


def _distinct_docs(judged: Judged, limit: Ints) -> Floats:
    """Distinct documents in the top of each query, NaN for a query that the run lacks."""
    if judged.hits is None:
        return np.full(judged.n, np.nan)
    _, rows = judged.top(limit)
    offsets = np.append(0, np.cumsum(np.minimum(judged.depth, limit)))
    return np.where(judged.present, count_distinct(judged.doc_codes(rows), offsets), np.nan)


class DistinctDocs(Metric, frozen=True, kw_only=True):
    """Number of different documents among the top k hits.

    The document of a hit is its `doc_id`. Without one, it is the part of the chunk id before `#`, or what `--doc-of`
    says.

    >>> import karat
    >>> karat.evaluate({"q": ["a#1", "a#2", "b#1"]}, {"q": ["a#1"]}, ["distinct_docs@3"]).means
    {'distinct_docs@3': 2.0}
    """

    name = "distinct_docs"
    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    counts_places = True
    within_list = True
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    aliases: ClassVar[dict[str, str]] = {"distinct-docs": "distinct_docs"}

    def score(self, judged: Judged) -> Floats:
        return _distinct_docs(judged, self.limit(judged))


class Redundancy(Metric, frozen=True, kw_only=True):
    """1 − distinct documents in the top k / k.

    In a list shorter than k, the empty places count as redundant; the audit counts such lists. `by=returned` divides
    by the number of hits if that is less than k, as with a token budget. Undefined without hits.

    >>> import karat
    >>> asked = ["redundancy@4", "redundancy@5", "redundancy(by=returned)@5"]
    >>> karat.evaluate({"q": ["a#1", "a#2", "b#1", "b#2"]}, {"q": ["a#1"]}, asked).means
    {'redundancy@4': 0.5, 'redundancy@5': 0.6, 'redundancy(by=returned)@5': 0.5}
    """

    name = "redundancy"
    direction: ClassVar[Direction] = "lower"
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    version = 2

    by: Literal["k", "returned"] = "k"

    @property
    def counts_empty_places(self) -> bool:
        return self.by == "k" and self.budget is None

    def score(self, judged: Judged) -> Floats:
        limit = self.limit(judged)
        shown = np.minimum(judged.depth, limit)
        places = np.where(shown > 0, limit, 0) if self.by == "k" else shown
        return 1.0 - share(_distinct_docs(judged, limit), places)


_WORD = re.compile(r"\w+")


class Novelty(Metric, frozen=True, kw_only=True):
    """Share of the top k hits whose text is new: less than `threshold` of its word shingles occur in hits above.

    A shingle is `shingle` consecutive words; case does not matter. The first hit is always new. Divides by the number
    of hits if that is less than k. Undefined if the run has no texts.

    >>> import karat
    >>> texts = {"a": "refunds take five days", "b": "Refunds take five days!", "c": "cards ship in two weeks"}
    >>> hits = [{"chunk_id": chunk, "text": text} for chunk, text in texts.items()]
    >>> round(karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["a"]}, ["novelty@3"]).means["novelty@3"], 4)
    0.6667
    """

    name = "novelty"
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    needs: ClassVar[frozenset[str]] = frozenset({"text"})

    threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    shingle: Annotated[int, msgspec.Meta(ge=1)] = 3

    def lacks(self, judged: Judged) -> str | None:
        texts = [] if judged.hits is None else judged.hits.columns.get("text", [])
        return None if any(text is not None for text in texts) else "the hits have no text"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None or "text" not in judged.hits.columns:
            return np.full(judged.n, np.nan)
        query, rows = judged.top(self.limit(judged))
        return share(judged.per_query(query, self.new_hits(judged, query, rows)), judged.per_query(query))

    def new_hits(self, judged: Judged, query: Ints, rows: Ints) -> Floats:
        """For hits in ranking order, 1 for each whose text is new and 0 for one that repeats; NaN without a text."""
        texts = [] if judged.hits is None else judged.hits.columns.get("text", [])
        new = np.full(len(rows), np.nan)
        seen: set[tuple[str, ...]] = set()
        last = -1
        for at, (of, row) in enumerate(zip(query.tolist(), rows.tolist(), strict=True)):
            if of != last:
                seen, last = set(), of
            if texts and texts[row] is not None:
                shingles = self._shingles(texts[row])
                new[at] = len(shingles & seen) < self.threshold * max(len(shingles), 1)
                seen |= shingles
        return new

    def _shingles(self, text: str) -> set[tuple[str, ...]]:
        words = _WORD.findall(text.lower())
        last = max(len(words) - self.shingle, 0)
        return {tuple(words[i : i + self.shingle]) for i in range(last + 1)}


class JudgedShare(Metric, frozen=True, kw_only=True):
    """Share of the top k hits that have a grade in the gold set, including grade 0.

    Low values mean that the other scores are lower bounds, because an unjudged hit counts as not relevant. Divides by
    the number of hits if that is less than k. Undefined without hits or without gold.

    >>> import karat
    >>> karat.evaluate({"q": ["a", "x", "n", "y"]}, {"q": {"a": 1, "n": 0}}, ["judged@4"]).means
    {'judged@4': 0.5}
    """

    name = "judged"
    rests_on: ClassVar[frozenset[Basis]] = frozenset({"ids", "order"})
    is_quality = False
    version = 2  # negatives of the gold set are judged
    cutoff: ClassVar[CutoffUse] = "required"

    def score(self, judged: Judged) -> Floats:
        limit = self.cut(judged)
        inside = judged.once_a_hit(judged.within(limit))
        shown = np.minimum(judged.depth, limit)
        shown[np.bincount(judged.gold_query, minlength=judged.n) == 0] = 0  # without gold
        return share(judged.per_query(judged.hit_query, inside.astype(np.float64)), shown)


class Returned(Metric, frozen=True, kw_only=True):
    """Number of hits in the top k; with a token budget, how many fit into it.

    Duplicates are removed first. Undefined for a query that is missing from the run.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "tokens": 900}, {"chunk_id": "b", "tokens": 800}, {"chunk_id": "c", "tokens": 400}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["a"]}, ["returned@5", "returned@2000tok"]).means
    {'returned@5': 3.0, 'returned@2000tok': 2.0}
    """

    name = "returned"
    rests_on: ClassVar[frozenset[Basis]] = frozenset()
    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    counts_places = True
    cutoff: ClassVar[CutoffUse] = "required"

    def score(self, judged: Judged) -> Floats:
        return np.where(judged.present, np.minimum(judged.depth, self.limit(judged)).astype(np.float64), np.nan)


class Freshness(Metric, frozen=True, kw_only=True):
    """Share of the top k hits whose `doc_version` is not newer than the query's `as_of`.

    Hits without a version are left out. Undefined if the query has no `as_of`, or no hit has a version.
    `docs/time_and_no_answer.md` describes how dates, times and version numbers are compared.

    >>> import karat
    >>> versions = {"a": "2025-04-01", "b": "2025-07-15", "c": "2024-12", "d": None}
    >>> hits = [{"chunk_id": chunk, "doc_version": version} for chunk, version in versions.items()]
    >>> gold = [{"query_id": "q", "gold": ["a"], "as_of": "2025-06-30"}]
    >>> round(karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["freshness@5"]).means["freshness@5"], 4)
    0.6667
    """

    name = "freshness"
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    needs: ClassVar[frozenset[str]] = frozenset({"doc_version"})

    def lacks(self, judged: Judged) -> str | None:
        if not any(judged.gold.as_of):
            return "the queries have no as_of"
        versions = [] if judged.hits is None else judged.hits.columns.get("doc_version", [])
        return None if any(version is not None for version in versions) else "the hits have no doc_version"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None:
            return np.full(judged.n, np.nan)
        from karat.scoring.dates import newer

        query, rows = judged.top(self.limit(judged))
        late = newer(judged.hits, judged.gold, judged.queries, rows)
        known = ~np.isnan(late)
        return share(judged.per_query(query[late == 0]), judged.per_query(query[known]))
