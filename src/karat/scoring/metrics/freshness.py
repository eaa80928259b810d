"""Are the hits older than the question."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats
from karat.scoring.dates import newer
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


class Freshness(Metric, frozen=True, kw_only=True):
    """Share of the top k hits whose `doc_version` is not newer than the query's `as_of`.

    Hits that say no version are left out of the share, so that only what is known counts; undefined where the query has
    no `as_of`, or no hit a version. Dates, times and version numbers are compared as `docs/time_and_no_answer.md` says.

    >>> import karat
    >>> versions = {"a": "2025-04-01", "b": "2025-07-15", "c": "2024-12", "d": None}
    >>> hits = [{"chunk_id": chunk, "doc_version": version} for chunk, version in versions.items()]
    >>> gold = [{"query_id": "q", "gold": ["a"], "as_of": "2025-06-30"}]
    >>> round(karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["freshness@5"]).means["freshness@5"], 4)
    0.6667
    """

    name = "freshness"
    cutoff = "required"
    uses_hits = True
    needs = frozenset({"doc_version"})

    def lacks(self, judged: Judged) -> str | None:
        if not any(judged.gold.as_of):
            return "the queries have no as_of"
        versions = [] if judged.hits is None else judged.hits.columns.get("doc_version", [])
        return None if any(version is not None for version in versions) else "the hits have no doc_version"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None:
            return np.full(judged.n, np.nan)
        query, rows = judged.top(self.limit(judged))
        late = newer(judged.hits, judged.gold, judged.queries, rows)
        known = ~np.isnan(late)
        shown, fresh = judged.per_query(query[known]), judged.per_query(query[late == 0])
        with np.errstate(invalid="ignore"):
            return np.where(shown > 0, fresh / shown, np.nan)
