"""The sources of the first hits of a query, and what each contributes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karat.data.hits import Run
from karat.scoring.judged import Judged

if TYPE_CHECKING:
    from karat.data.corpus import Corpus

SOURCES = "sources_returned"  # a fact of each query that analyses request: see `returned_sources`
NO_SOURCE = "(none)"  # for a hit without a source


class FromSource(msgspec.Struct, frozen=True):
    """What one source contributes to the top k of one query."""

    hits: int
    found: int  # relevant gold items, each counted at its first hit


def may_say_source(run: Run, corpus: Corpus | None) -> bool:
    """Whether hits may have a source: reading it for every hit takes time."""
    return (corpus is not None and corpus.column("source") is not None) or run.may_say("source")


def returned_sources(judged: Judged) -> list[dict[str, FromSource]]:
    """Source → its contribution to the top k of each query; hits of this slice without a source count as NO_SOURCE."""
    said = None if judged.hits is None else judged.hits.columns.get("source")
    if said is None:
        return []
    query, rows = judged.top(judged.k)
    sources = [NO_SOURCE if said[row] is None else str(said[row]) for row in rows.tolist()]
    first = np.searchsorted(query, np.arange(judged.n))  # where the hits of each query begin
    found = (judged.hit_grade > 0) & judged.hit_new & (judged.hit_rank <= judged.k[judged.hit_query])
    at = first[judged.hit_query[found]] + judged.hit_rank[found] - 1
    hits = Counter(zip(query.tolist(), sources, strict=True))
    relevant = Counter((q, sources[i]) for q, i in zip(judged.hit_query[found].tolist(), at.tolist(), strict=True))
    told: list[dict[str, FromSource]] = [{} for _ in range(judged.n)]
    for (of, source), count in hits.items():
        told[of][source] = FromSource(count, relevant[of, source])
    return told
