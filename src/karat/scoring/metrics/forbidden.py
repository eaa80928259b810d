"""Metrics of forbidden hits: what a query must not get, such as another tenant's document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from karat.data.audit import Audit
from karat.data.forbidden import CheckedHits, ForbidRule, check_rules, fields_of, named_forbidden, read_rules
from karat.data.gold import FORBIDDEN
from karat.data.hits import METADATA
from karat.data.ids import Floats, Ints, take, take_list
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Basis, CutoffUse, Direction, Metric, share

LEAKS = "leaks"  # name of the fact
_LOOKED = 1000  # hits of a slice whose fields are named


class Leak(NamedTuple):
    """What one query got."""

    ids: list[str]  # forbidden hits
    unchecked: int  # hits that a rule could not check


class CheckedTop(NamedTuple):
    """The first hits of some queries, checked."""

    query: Ints  # of each hit, among the judged ones
    rows: Ints
    found: CheckedHits


def check(judged: Judged, k: Ints | int) -> CheckedTop:
    """Checks the first k hits of each query."""
    cache: dict[bytes, CheckedTop] = judged.__dict__.setdefault("_forbidden", {})
    key = np.asarray(k, np.int64).tobytes()
    if key not in cache:
        query, rows = judged.top(k)
        cache[key] = CheckedTop(query, rows, _check(judged, rows, query))
    return cache[key]


def _check(judged: Judged, rows: Ints, query: Ints) -> CheckedHits:
    assert judged.hits is not None
    of_gold = judged.queries[query]
    ids = take(judged.hits.ids, rows)
    named = named_forbidden(judged.gold, of_gold, ids, lambda some: judged.docs_of(rows[some]))
    by_rule = check_rules(read_rules(judged.forbid), lambda name: _column(judged, name, rows), judged.gold, of_gold)
    return CheckedHits(by_rule.forbidden | named, by_rule.unknown & ~named, by_rule.used)


def _column(judged: Judged, name: str, rows: Ints) -> list[Any]:
    values = None if judged.hits is None else judged.hits.columns.get(name)
    return [None] * len(rows) if values is None else [values[row] for row in rows.tolist()]


class RuleUse(NamedTuple):
    """What rules of `--forbid` could do with some hits."""

    used: frozenset[ForbidRule] = frozenset()  # rules that could check a hit
    fields: frozenset[str] = frozenset()  # some fields of hits, if a rule could check none

    def __or__(self, other: RuleUse) -> RuleUse:
        return RuleUse(self.used | other.used, self.fields | other.fields)


def rule_use(judged: Judged, metrics: Iterable[Metric], audit: Audit) -> RuleUse:
    """Which rules could check a hit. Hits that some rule could not check are counted, as deep as the metrics look."""
    rules = read_rules(judged.forbid)
    if not rules or judged.hits is None:
        return RuleUse()
    depths = [metric.limit(judged) for metric in metrics if isinstance(metric, _Forbids)]
    query, _, found = check(judged, np.maximum.reduce([judged.k, *depths]))
    of = judged.queries[query[found.unknown]]
    audit.count("unchecked_hits", len(of), (judged.gold.queries[row] for row in np.unique(of)[:3].tolist()))
    if len(found.used) == len(set(rules)):
        return RuleUse(found.used)
    query, rows = judged.top(judged.depth)  # what is further down may have the field
    deep = check_rules(rules, lambda name: _column(judged, name, rows), judged.gold, judged.queries[query])
    return RuleUse(found.used | deep.used, fields_of(_column(judged, METADATA, rows[:_LOOKED])))


def leaks(judged: Judged) -> list[Leak | None]:
    """Forbidden hits of each query in its top k."""
    if judged.hits is None:
        return [None] * judged.n
    query, rows, found = check(judged, judged.k)
    told: list[Leak | None] = [None] * judged.n
    for at in np.flatnonzero(found.forbidden | found.unknown).tolist():
        leak = told[query[at]] or Leak([], 0)
        ids = take_list(judged.hits.ids, rows[at : at + 1]) if found.forbidden[at] else []
        told[query[at]] = Leak([*leak.ids, *ids], leak.unchecked + int(found.unknown[at]))
    return told


class _Forbids(Metric, frozen=True, kw_only=True):
    """What both metrics have in common."""

    rests_on: ClassVar[frozenset[Basis]] = frozenset()
    direction: ClassVar[Direction] = "lower"
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True

    def lacks(self, judged: Judged) -> str | None:
        if judged.forbid or any(judged.gold.fields.get(FORBIDDEN, ())):
            return None
        return "no query names forbidden ids, and no rule says what is forbidden (--forbid)"

    def _counts(self, judged: Judged) -> tuple[Floats, Floats]:
        """Forbidden hits and all hits in the top of each query."""
        query, _, found = check(judged, self.limit(judged))
        return judged.per_query(query[found.forbidden]), judged.per_query(query)

    def _asked(self, judged: Judged) -> Floats:
        """1 for queries that could get a forbidden hit, else NaN: with ids only, those that name some."""
        if judged.forbid:
            return np.ones(judged.n)
        column = judged.gold.fields.get(FORBIDDEN) or [None] * len(judged.gold.queries)
        return np.array([1.0 if column[row] else np.nan for row in judged.queries.tolist()])


class Forbidden(_Forbids, frozen=True, kw_only=True):
    """1 if a hit among the top k is forbidden, else 0; the mean is the leak rate.

    A hit is forbidden if its id is in the query's `forbidden` (a document's id forbids all of its chunks), or if a
    rule of `--forbid` holds. The interval is exact (Clopper–Pearson): without a leak in n queries, at most about 3/n
    of all queries leak. Undefined for a query that is missing from the run and, without rules, for one without
    `forbidden`.

    >>> import karat
    >>> gold = [{"query_id": query, "gold": ["a"], "forbidden": ["x"]} for query in "qr"]
    >>> karat.evaluate({"q": ["a", "x"], "r": ["a", "b"]}, gold, ["forbidden@2", "forbidden_hits@2"]).means
    {'forbidden@2': 0.5, 'forbidden_hits@2': 0.25}
    """

    name = "forbidden"
    exact = True

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None:
            return np.full(judged.n, np.nan)
        return (self._counts(judged)[0] > 0) * self._asked(judged)


class ForbiddenHits(_Forbids, frozen=True, kw_only=True):
    """Share of the top k hits that are forbidden; see `forbidden`.

    Divides by the number of hits if that is less than k. Undefined without hits.

    >>> import karat
    >>> gold = [{"query_id": "q", "gold": ["a"], "forbidden": ["x"]}]
    >>> karat.evaluate({"q": ["a", "x#1", "x#2", "b"]}, gold, ["forbidden_hits@4"]).means
    {'forbidden_hits@4': 0.5}
    """

    name = "forbidden_hits"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None:
            return np.full(judged.n, np.nan)
        return share(*self._counts(judged)) * self._asked(judged)
