"""Which sources the first hits of a query come from, and what each of them brings."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from karat.data.corpus import Corpus
from karat.data.hits import Run
from karat.scoring.judged import Judged

SOURCES = "sources_returned"  # what an analysis asks for as a fact of each query: what `returned_sources` tells
NO_SOURCE = "(none)"  # of a hit that says none


class FromSource(msgspec.Struct, frozen=True):
    """What the top k of one query has from one source."""

    hits: int
    found: int  # relevant gold items, each at the first hit that is one


def may_say_source(run: Run, corpus: Corpus | None) -> bool:
    """Whether hits may say which source they are from: to read that of every hit costs time."""
    return (corpus is not None and corpus.column("source") is not None) or run.may_say("source")


def returned_sources(judged: Judged) -> list[dict[str, FromSource]]:
    """Source → what the top k of each query has from it; hits of this slice that say no source are from NO_SOURCE."""
    said = None if judged.hits is None else judged.hits.columns.get("source")
    if said is None:
        return []
    query, rows = judged.top(judged.k)
    sources = [NO_SOURCE if said[row] is None else str(said[row]) for row in rows.tolist()]
    first = np.searchsorted(query, np.arange(judged.n))  # where the hits of each query begin among these
    found = (judged.hit_grade > 0) & judged.hit_new & (judged.hit_rank <= judged.k[judged.hit_query])
    at = first[judged.hit_query[found]] + judged.hit_rank[found] - 1
    hits = Counter(zip(query.tolist(), sources, strict=True))
    relevant = Counter((q, sources[i]) for q, i in zip(judged.hit_query[found].tolist(), at.tolist(), strict=True))
    told: list[dict[str, FromSource]] = [{} for _ in range(judged.n)]
    for (of, source), count in hits.items():
        told[of][source] = FromSource(count, relevant[of, source])
    return told
