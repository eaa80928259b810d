"""The retriever apart from the reranker: what was found, and what became of its order."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from karat.analyses.base import PERMUTATIONS, Analysis, Side, pair
from karat.differences import Difference
from karat.summary import SummaryRow

_RAW = ("recall@50", "recall@100", "mrr@50")
_EXAMPLES = 5


class Reranked(msgspec.Struct, frozen=True):
    """What the retriever found (raw lists), and what the reranker made of it."""

    k: int
    raw_depth: int  # hits in the longest raw list
    raw: list[SummaryRow]
    differences: list[Difference]  # of the final lists against the raw ones
    rescued: int  # queries that have a relevant hit in the top k only since reranking
    demoted: int  # queries that had one, and lost it
    rescued_examples: list[str]
    demoted_examples: list[str]


class Reranker(Analysis):
    """Final lists against `raw` lists of the same log."""

    name = "reranker"
    title = "Retriever and reranker"
    finds = Reranked

    def metrics(self, side: Side) -> Sequence[str]:
        k = side.rules.k
        return [f"ndcg@{k}", f"precision@{k}", f"recall@{k}", f"hit@{k}"]

    def find(self, side: Side) -> Reranked:
        k, names = side.rules.k, self.metrics(side)
        raw = side.measure([*names, *_RAW], hits="raw")
        depth = int(raw.depths.max(initial=0))
        paired, rows = pair(raw, side, names)
        hit = f"hit@{k}"
        was, now = paired.baseline.values[hit] > 0, paired.candidate.values[hit] > 0
        queries = [side.gold.queries[row] for row in rows.tolist()]
        rescued, demoted = (
            [queries[i] for i in np.flatnonzero(changed).tolist()] for changed in (now & ~was, was & ~now)
        )
        return Reranked(
            k=k,
            raw_depth=depth,
            raw=[row for row in raw.summary_rows if row.metric in _RAW and _cutoff(row.metric) <= depth],
            differences=paired.differences(side.sampling, PERMUTATIONS),
            rescued=len(rescued),
            demoted=len(demoted),
            rescued_examples=rescued[:_EXAMPLES],
            demoted_examples=demoted[:_EXAMPLES],
        )


def _cutoff(metric: str) -> int:
    return int(metric.partition("@")[2])
