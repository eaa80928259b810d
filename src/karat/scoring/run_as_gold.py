"""A run as gold: its first hits of each query are relevant. For approximate against exact search, and the like."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.equal_items import EqualItems
from karat.data.gold import BARE, Dataset, Gold
from karat.data.hits import Hits, Run
from karat.data.ids import Bools, Ints, Packed, take_list
from karat.data.packed_ids import pack
from karat.errors import InputError
from karat.options.option import part_of
from karat.scoring.judge import judge
from karat.scoring.judged import Judged, Rules
from karat.scoring.metrics.base import INFINITE
from karat.scoring.options import CountingOptions
from karat.scoring.top_lists import TOP, in_order, one_system, plain_rules, tied_hits, top_lists
from karat.statistics.rank_overlap import Rankings

DEPTH = 10  # hits that are relevant, if nothing else is said
_READ = frozenset({"error", "query"})


def run_as_gold(run: Run, depth: int | None = None, rules: CountingOptions | None = None) -> Gold:
    """The first `depth` hits of each query are relevant (grade 1). Hits after them with the same score as the last one
    are as right: any of them may fill its place."""
    ordered = Rules() if rules is None else part_of(rules, Rules, prices=None)
    return in_order(run, lambda whole: _GoldOfRun(whole, depth or DEPTH, ordered).made())


def gold_of_queries(run: Run) -> Gold:
    """A gold set with the queries of a run (of all its systems), and without labels."""
    texts: dict[str, Any] = {}
    for hits in run.slices(_READ, Audit()):
        said = hits.fields.get("query") or [None] * len(hits.queries)
        for query, text in zip(hits.queries, said, strict=True):
            texts[query] = texts.get(query) or text
    if not texts:
        raise InputError("the run has no queries", code="no-queries", file=run.label, hint="it needs at least one line")
    return _without_items(list(texts), list(texts.values()), run.label, made_of="queries")


def _without_items(queries: list[str], texts: list[Any], label: str, **more: Any) -> Gold:
    size, none = len(queries), np.zeros(0)
    return Gold(
        queries=queries,
        offsets=np.zeros(size + 1, np.int64),
        items=[],
        grades=none,
        kinds=none.astype(np.int8),
        k=np.zeros(size, np.int64),
        no_answer=np.zeros(size, np.int64),
        fields={"query": texts} if any(texts) else {},
        label=label,
        **more,
    )


class _GoldOfRun:
    """Collects the gold set slice by slice."""

    def __init__(self, run: Run, depth: int, rules: Rules) -> None:
        self._run, self._depth, self._rules = run, depth, plain_rules(rules)
        self._audit = Audit()
        self._queries: list[str] = []
        self._texts: list[Any] = []
        self._counts: list[Ints] = []
        self._items: list[str] = []
        self._places: list[Ints] = []  # that equal hits may fill
        self._equal_counts: list[Ints] = []
        self._equal: list[str] = []
        self._lists: list[Rankings] = []

    def made(self) -> Gold:
        for hits in one_system(self._run, _READ):
            self._add(hits)
        if not self._items:
            what, hint = "no query has hits, so nothing would be relevant", "was it written by a search that worked?"
            raise InputError(what, code="no-hits", file=self._run.label, hint=hint)
        items, size = pack(self._items), len(self._items)
        equals = EqualItems(np.concatenate(self._places), _bounds(self._equal_counts), pack(self._equal))
        bare = _without_items(self._queries, self._texts, f"run:{self._run.label}", made_of="run", depth=self._depth)
        return replace(
            bare,
            offsets=_bounds(self._counts),
            k=np.full(len(self._queries), self._depth),
            items=items,
            grades=np.ones(size),
            kinds=np.full(size, BARE, np.int8),
            dataset=Dataset(hash=self._hash(items, equals)),
            audit=self._audit,
            equals=equals if self._equal else None,
            reference=Rankings(*(np.concatenate(parts) for parts in zip(*self._lists, strict=True))),
            run=self._run,
        )

    def _hash(self, items: Packed, equals: EqualItems) -> str:
        content = hashlib.sha256(f"{self._depth}\n".encode())
        for part in (_bounds(self._counts), items, equals.places, equals.offsets, equals.ids):
            content.update(np.ascontiguousarray(part).tobytes())
        content.update("\n".join(self._queries).encode("utf-8", "backslashreplace"))
        return f"sha256:{content.hexdigest()[:16]}"

    def _add(self, hits: Hits) -> None:
        gold = _without_items(hits.queries, [], self._run.label)
        judged = judge(hits, gold, self._rules, Audit(), max(self._depth, TOP))
        assert judged.hits is not None
        errors = hits.fields.get("error") or [None] * judged.n
        failed = np.fromiter(map(bool, errors), np.bool_, judged.n)
        self._count(hits.queries, judged, failed)
        length = np.where(failed, 0, judged.depth)
        query, rows = judged.top(int(INFINITE))
        place = np.arange(len(query)) - np.searchsorted(query, query)
        tied = tied_hits(judged, query, rows)
        kept = (place < self._depth) & ~failed[query]
        after = (place >= self._depth) & ~failed[query]
        broken = np.cumsum(after & ~tied)  # how many hits after the depth differ from the one before them
        before = np.append(0, broken)[np.searchsorted(query, query)]
        equal = after & (broken == before)
        self._queries += hits.queries
        self._texts += hits.fields.get("query") or [None] * judged.n
        self._counts.append(np.minimum(length, self._depth))
        self._items += take_list(judged.hits.ids, rows[kept])
        more = np.bincount(query[equal], minlength=judged.n)
        self._equal_counts.append(more)
        self._equal += take_list(judged.hits.ids, rows[equal])
        self._places.append(self._filled_by_equals(judged, more, tied))
        lists = top_lists(judged, max(self._depth, TOP))
        self._lists.append(lists._replace(length=np.where(failed, -1, lists.length)))
        named = np.flatnonzero(more)
        self._audit.count("gold_run_ties", len(named), (hits.queries[i] for i in named[:3]))
        ends = np.searchsorted(query, np.arange(judged.n)) + self._depth - 1
        full = np.flatnonzero((length == self._depth) & (self._depth > 1))
        hidden = full[tied[ends[full]]]
        self._audit.count("gold_run_hidden_ties", len(hidden), (hits.queries[i] for i in hidden[:3]))

    def _filled_by_equals(self, judged: Judged, more: Ints, tied: Bools) -> Ints:
        """How many of the relevant hits have the same score as hits after them."""
        places = np.zeros(judged.n, np.int64)
        assert judged.hits is not None
        for query in np.flatnonzero(more).tolist():
            start = int(judged.hits.offsets[query])
            at = start + self._depth - 1
            while tied[at]:
                at -= 1
            places[query] = start + self._depth - at
        return places

    def _count(self, queries: list[str], judged: Judged, failed: Bools) -> None:
        empty = (judged.depth == 0) & ~failed
        short = (judged.depth > 0) & (judged.depth < self._depth) & ~failed
        for code, which in (("gold_run_failed", failed), ("gold_run_empty", empty), ("gold_run_short", short)):
            found = np.flatnonzero(which)
            self._audit.count(code, len(found), (queries[i] for i in found[:3]))


def _bounds(counts: list[Ints]) -> Ints:
    return np.append(0, np.cumsum(np.concatenate(counts)))
