"""Recall by the `source` of hits, whether or not the log has routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.ids import DocRule, Floats, Ints
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import SummaryRow, mean_row
from karat.scoring.judged import cutoffs
from karat.scoring.sources import NO_SOURCE, SOURCES, FromSource
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result


class SourceRecall(msgspec.Struct, frozen=True):
    """One source: how often it is among the first hits, and what it finds."""

    source: str
    queries: SummaryRow  # share of the queries with a hit from it in the top k
    hits: int  # in the top k of all queries
    share: float  # of all hits in the top k
    brought: SummaryRow  # relevant items among its hits / all relevant items of the query; sources add up to recall
    recall: SummaryRow | None  # of the relevant items in this source; null: unknown without a corpus


class BySource(msgspec.Struct, frozen=True):
    """Recall by source."""

    metric: str
    sources: list[SourceRecall]


class SourcesAnalysis(Analysis):
    """Analyses the `source` of the hits, from the log or the corpus."""

    name = "sources"
    title = "Recall by source"
    finds: ClassVar[type[msgspec.Struct]] = BySource

    def need(self, setup: Setup) -> Need:
        if not setup.sourced:
            raise Lacking("`source` in `topk` of the run log, or in a corpus (--corpus)")
        k = setup.rules.k
        # Counting documents needs all hits of the top k in their exact order.
        return Need(metrics=[f"recall@{k}", f"distinct_docs@{k}"], facts=frozenset({SOURCES, "source"}))

    def find(self, side: Result) -> BySource:
        told: list[dict[str, FromSource]] = [of or {} for of in side.facts(SOURCES)]
        names = sorted({source for of in told for source in of})
        if not set(names) - {NO_SOURCE}:
            raise Lacking("`source` in `topk` of the run log, or in a corpus (--corpus)")
        total = sum(part.hits for of in told for part in of.values())
        own = _own_sources(side)
        found = [_of_source(side, name, told, total, own) for name in names]
        return BySource(f"recall@{side.rules.k}", sorted(found, key=lambda one: (-one.hits, one.source)))


def _of_source(
    side: Result, source: str, told: list[dict[str, FromSource]], total: int, own: list[str | None] | None
) -> SourceRecall:
    parts = [of.get(source, FromSource(0, 0)) for of in told]
    relevant = side.gold.count_items(side.gold.grades > 0)[side.rows]

    def mean(name: str, values: Floats) -> SummaryRow:
        return mean_row(name, values, side.columns.clusters, side.sampling)

    hits = sum(part.hits for part in parts)
    return SourceRecall(
        source=source,
        queries=mean("queries", np.array([float(part.hits > 0) for part in parts])),
        hits=hits,
        share=hits / total,
        brought=mean("brought", _share(np.array([part.found for part in parts]), relevant)),
        recall=None if own is None else mean("recall", _recall(side, source, own)),
    )


def _share(part: Ints, whole: Ints) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _own_sources(side: Result) -> list[str | None] | None:
    """The source of each gold item from the corpus; None if it has no sources."""
    corpus, gold = side.corpus, side.gold
    column = None if corpus is None else corpus.column("source")
    if column is None or corpus is None:
        return None
    rule = DocRule(side.rules.doc_of)
    chunks: dict[str, list[str]] = {}
    if gold.names_document(rule).any():
        for item, document in zip(corpus.ids, corpus.documents(rule), strict=True):
            chunks.setdefault(document, []).append(item)
    holders = [[]] * len(gold.ids) if gold.located is None else gold.located.holders

    def source_of(item: str, held_by: Sequence[str]) -> str | None:
        """The source of the item, of the chunks that contain it, or of all chunks of the document, if they agree."""
        named = [item] if item in corpus.index else held_by or chunks.get(item, [])
        said = {column[corpus.index[name]] for name in named if name in corpus.index}
        return str(only) if len(said) == 1 and (only := said.pop()) is not None else None

    return [source_of(item, held_by) for item, held_by in zip(gold.ids, holders, strict=True)]


def _recall(side: Result, source: str, own: list[str | None]) -> Floats:
    """Found / all among the relevant items in this source; NaN if a query has none."""
    gold = side.gold
    here = np.array([of == source for of in own], np.bool_) & (gold.grades > 0)
    limits = np.zeros(len(gold.queries), np.int64)
    limits[side.rows] = cutoffs(gold, side.rows, side.rules)
    found = here & (side.places > 0) & (side.places <= limits[gold.query_of_item])
    return _share(gold.count_items(found)[side.rows], gold.count_items(here)[side.rows])
