"""How much of the relevant text was found, in characters: independent of the chunking."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from karat.data.bulk import Bulk
from karat.data.ids import Floats, Ints, take_list
from karat.data.passages.passage import Place, Stretch, merged, shared, size
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import CutoffUse, Metric

Stretches = dict[str, list[Stretch]]  # by document


class _Sizes(Bulk, frozen=True):
    """Characters, one number per query; NaN where unknown."""

    wanted: Floats  # of the gold passages
    found: Floats  # of these, in the top k
    returned: Floats  # of the top k, chunk by chunk
    different: Floats  # of the top k, each once


class _Span(Metric, frozen=True, kw_only=True):
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True

    def lacks(self, judged: Judged) -> str | None:
        located = judged.gold.located
        if located is None:
            return "no gold item is a passage of a document"
        if not any(place is not None for place in located.places):
            return "the positions of quotes are unknown"
        return "the chunks have no start and end" if np.isnan(self.score(judged)).all() else None

    def score(self, judged: Judged) -> Floats:
        if judged.gold.located is None:
            return np.full(judged.n, np.nan)
        cache: dict[int | None, _Sizes] = judged.__dict__.setdefault("_spans", {})
        if self.k not in cache:
            cache[self.k] = _measure(judged, self.limit(judged))
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.share(cache[self.k])

    def share(self, sizes: _Sizes) -> Floats:
        raise NotImplementedError


class SpanRecall(_Span, frozen=True, kw_only=True):
    """Share of the characters of the gold passages that are in the top k.

    A gold passage is a `doc_id` with `start` and `end`, or with a `quote` that is found in the document. Grade 0 does
    not count. Characters that several chunks or passages share count once. A passage that is not in its document
    counts as not found. Undefined if a relevant item is not a passage, or if the position of a chunk in the top k is
    unknown.

    >>> import karat
    >>> gold = [{"query_id": "q", "gold": [{"doc_id": "d", "start": 80, "end": 120}]}]
    >>> from karat.data.corpus import Corpus
    >>> corpus = Corpus("two", ["d#1", "d#2"], ["", ""], ["", ""], {"start": [0, 100], "end": [100, 200]})
    >>> karat.evaluate({"q": ["d#1", "d#2"]}, gold, ["span_recall@1", "span_recall@2"], corpus=corpus).means
    {'span_recall@1': 0.5, 'span_recall@2': 1.0}
    """

    name = "span_recall"

    def share(self, sizes: _Sizes) -> Floats:
        return sizes.found / sizes.wanted


class SpanPrecision(_Span, frozen=True, kw_only=True):
    """Share of the characters of the top k that belong to gold passages.

    If chunks overlap, repeated characters count each time as returned, but only once as right: they take space and add
    nothing. 0 if nothing was returned. See `span_recall` for what a gold passage is.

    >>> import karat
    >>> from karat.data.corpus import Corpus
    >>> gold = [{"query_id": "q", "gold": [{"doc_id": "d", "start": 0, "end": 50}]}]
    >>> corpus = Corpus("overlap", ["d#1", "d#2"], ["", ""], ["", ""], {"start": [0, 50], "end": [100, 150]})
    >>> karat.evaluate({"q": ["d#1", "d#2"]}, gold, ["span_precision@2", "span_iou@2"], corpus=corpus).means
    {'span_precision@2': 0.25, 'span_iou@2': 0.3333333333333333}
    """

    name = "span_precision"

    def share(self, sizes: _Sizes) -> Floats:
        return np.where(sizes.returned == 0, 0.0, sizes.found / sizes.returned)


class SpanIoU(_Span, frozen=True, kw_only=True):
    """Characters that the top k and the gold passages share, divided by the characters in either.

    Each character counts once, even if several chunks repeat it. (Published evaluations of chunkers count repeats in
    the denominator; without overlap both are the same.) See `span_recall` for what a gold passage is.

    >>> import karat
    >>> from karat.data.corpus import Corpus
    >>> gold = [{"query_id": "q", "gold": [{"doc_id": "d", "start": 80, "end": 120}]}]
    >>> corpus = Corpus("two", ["d#1", "d#2"], ["", ""], ["", ""], {"start": [0, 100], "end": [100, 200]})
    >>> karat.evaluate({"q": ["d#1", "d#2"]}, gold, ["span_iou@1", "span_iou@2"], corpus=corpus).means
    {'span_iou@1': 0.16666666666666666, 'span_iou@2': 0.2}
    """

    name = "span_iou"

    def share(self, sizes: _Sizes) -> Floats:
        return sizes.found / (sizes.different + sizes.wanted - sizes.found)


def _measure(judged: Judged, limit: Ints) -> _Sizes:
    sizes = _Sizes(*(np.full(judged.n, np.nan) for _ in _Sizes.__struct_fields__))
    for query, places in enumerate(_top_places(judged, limit)):
        wanted = _wanted(judged, int(judged.queries[query]))
        if wanted is None:
            continue
        known = [place for place in places if place is not None]
        returned: Stretches = {}
        for doc, start, end in known:
            returned.setdefault(doc, []).append((start, end))
        returned = {doc: merged(stretches) for doc, stretches in returned.items()}
        gold = _chosen(wanted, returned)
        sizes.wanted[query] = sum(map(size, gold.values()))
        if len(known) < len(places):
            continue
        sizes.found[query] = sum(shared(stretches, returned.get(doc, ())) for doc, stretches in gold.items())
        sizes.returned[query] = sum(place.end - place.start for place in known)
        sizes.different[query] = sum(map(size, returned.values()))
    return sizes


def _top_places(judged: Judged, limit: Ints) -> list[list[Place | None]]:
    """Where the top hits of each query are."""
    found: list[list[Place | None]] = [[] for _ in range(judged.n)]
    located = judged.gold.located
    if judged.hits is not None and located is not None:
        query, rows = judged.top(limit)
        for at, item in zip(query.tolist(), take_list(judged.hits.ids, rows), strict=True):
            found[at].append(located.place_of(item))
    return found


def _wanted(judged: Judged, query: int) -> list[tuple[str, list[Stretch]]] | None:
    """Document and positions of every relevant passage of a query; None where some relevant item is not a passage."""
    gold, located = judged.gold, judged.gold.located
    found: list[tuple[str, list[Stretch]]] = []
    for item in range(int(gold.offsets[query]), int(gold.offsets[query + 1])):
        passage, places = gold.passages[item], located.places[item] if located else None
        if gold.grades[item] <= 0:
            continue
        if passage is None or passage.doc is None or places is None:
            return None
        found.append((passage.doc, list(places)))
    return found or None


def _chosen(wanted: list[tuple[str, list[Stretch]]], returned: Stretches) -> Stretches:
    """The gold by document. For a quote with several positions, the one that was found most, else the first."""
    gold: Stretches = {}
    for doc, places in wanted:
        best = max(places, key=lambda place: shared([place], returned.get(doc, ())))
        gold.setdefault(doc, []).append(best)
    return {doc: merged(stretches) for doc, stretches in gold.items()}
