"""Two runs, query by query: where the hits changed, with both lists side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np

from karat.data.ids import DocRule, Ints
from karat.results.analyses.base import Setup
from karat.results.comparison.rankings import other_lists
from karat.results.differences import SAME
from karat.results.queries.lists import ListedHit
from karat.results.queries.shown import Passages, ShownGold, ShownHit, Texts, passage_length
from karat.results.queries.triage import sample_of
from karat.results.result import Result
from karat.scoring.metrics.base import Metric
from karat.scoring.views import Need

DEPTH = 10
Kind = Literal["lost", "gained", "changed"]


class ChangedQuery(msgspec.Struct, frozen=True):
    """A query that lost or gained, or whose first hits changed although its score is the same."""

    query_id: str
    query: str | None
    kind: Kind
    metric: str
    before: float | None
    after: float | None
    tags: dict[str, str]
    gold: list[ShownGold]  # with its place in the candidate's list
    gold_items: int
    baseline: list[ShownHit]
    candidate: list[ShownHit]


class ChangedQueries(msgspec.Struct, frozen=True):
    """How many queries changed, and some of them: the biggest losses first, then the biggest gains."""

    counts: dict[Kind, int]
    shown: list[ChangedQuery]
    sampled: int  # how many of those shown are a sample of all others


def changes_need(setup: Setup) -> Need:
    """What `changed_queries` needs."""
    return Need(lists=DEPTH, texts=True, hashes=True)


def changed_queries(
    baseline: Result, candidate: Result, metric: Metric, most: int, *, sample: int, letters: int | None = None
) -> ChangedQueries:
    """The biggest losses and gains in a metric, and a sample of the rest; none if a side keeps no hits.

    `letters`: maximum characters per text; default: as many as stay readable.
    """
    if baseline.lists is None or candidate.lists is None:
        return ChangedQueries({"lost": 0, "gained": 0, "changed": 0}, [], 0)
    deltas = _deltas(baseline, candidate, metric)
    same = _same_lists(baseline, candidate, list(deltas))
    kinds = {q: kind for (q, delta), equal in zip(deltas.items(), same, strict=True) if (kind := _kind(delta, equal))}
    order = sorted(kinds, key=lambda q: (("lost", "gained", "changed").index(kinds[q]), -abs(deltas[q]), q))
    lost, rest = [q for q in order if kinds[q] == "lost"], [q for q in order if kinds[q] != "lost"]
    # At least half of the places are for losses, which matter most; the rest for gains.
    first = [*lost[: max(most // 2, most - len(rest))], *rest[: max(most // 2, most - len(lost))]]
    others = [q for q in order if q not in set(first)]
    drawn = [others[i] for i in sample_of(list(range(len(others))), sample, candidate.sampling.seed)]
    counts: dict[Kind, int] = {kind: list(kinds.values()).count(kind) for kind in ("lost", "gained", "changed")}
    shown = _shown(baseline, candidate, metric, {q: kinds[q] for q in (*first, *drawn)}, letters)
    return ChangedQueries(counts, shown, len(drawn))


def _deltas(baseline: Result, candidate: Result, metric: Metric) -> dict[str, float]:
    """Query → by how much it got better, for queries with a score on both sides."""
    before, after = baseline.score(metric), candidate.score(metric)
    sign = 1.0 if metric.direction == "higher" else -1.0
    shared = ((q, before[q], after[q]) for q in before if q in after and q not in baseline.missing)
    return {q: sign * (new - old) for q, old, new in shared if old is not None and new is not None}


def _kind(delta: float, same: bool) -> Kind | None:
    if abs(delta) > SAME:
        return "lost" if delta < 0 else "gained"
    return None if same else "changed"


def _same_lists(baseline: Result, candidate: Result, queries: list[str]) -> list[bool]:
    """Whether both sides have the same first hits in the same order, for each query."""
    differ = other_lists(baseline, candidate, _places(baseline, queries), _places(candidate, queries), DEPTH)
    if differ is not None:
        return (~differ).tolist()  # type: ignore[no-any-return]
    old, new = (_first_hits(side, queries) for side in (baseline, candidate))
    first_ids, second_ids = ({q: [hit.id for hit in hits] for q, hits in lists.items()} for lists in (old, new))
    return [first_ids.get(query) == second_ids.get(query) for query in queries]


def _places(side: Result, queries: list[str]) -> Ints:
    place = {query: i for i, query in enumerate(side.queries)}
    return np.array([place[query] for query in queries], np.int64)


def _first_hits(side: Result, queries: Iterable[str], *, texts: bool = False) -> dict[str, list[ListedHit]]:
    assert side.lists is not None
    return side.lists.first(dict.fromkeys(queries, DEPTH), texts=texts)


def _shown(
    baseline: Result, candidate: Result, metric: Metric, kinds: dict[str, Kind], letters: int | None
) -> list[ChangedQuery]:
    before, after = (_first_hits(side, kinds, texts=True) for side in (baseline, candidate))
    gold, old, new = candidate.gold, baseline.score(metric), candidate.score(metric)
    texts = Texts(candidate.corpus or baseline.corpus, {**before, **after}, DocRule(candidate.rules.doc_of))
    length = letters or passage_length(len(kinds) * 3 * DEPTH)
    found = []
    for query_id, kind in kinds.items():
        passages = Passages(gold, gold.index[query_id], texts, length)
        lists = [side.get(query_id, []) for side in (before, after)]
        first, second = ([passages.hit(hit) for hit in hits] for hits in lists)
        found.append(
            ChangedQuery(
                query_id=query_id,
                kind=kind,
                metric=str(metric),
                before=old[query_id],
                after=new[query_id],
                **passages.about(lists[1]),
                baseline=first,
                candidate=second,
            )
        )
    return found
