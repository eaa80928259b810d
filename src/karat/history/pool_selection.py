"""Pools from runs of a history: which of their hits are worth a label."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Annotated, Literal

import msgspec
import numpy as np

from karat.errors import ConfigError, InputError
from karat.history.hits import QueryRecord, all_hits, has_hits, read_record
from karat.history.queries import side_by_side
from karat.history.report import leading
from karat.history.statements import Connection
from karat.history.store import Store, short
from karat.labels.files import Key, Origin, PoolEntry
from karat.labels.influence import FoundPair
from karat.labels.pool import choose, shuffled
from karat.matching.near_duplicates import near_duplicates
from karat.results.numbers import counted

MOST_PAIRS = 10_000
_CHANGED = 500  # queries
_RUNS = {"unjudged": 1, "disagreement": 2, "changed": 2, "queries": 1}
_Text = Annotated[str, msgspec.Meta(max_length=500)]
Choice = Literal["unjudged", "disagreement", "changed", "queries"]


class PoolSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pool is made of.

    `unjudged`: hits of one run without a grade. `disagreement`: hits without a grade that only one of two runs has.
    `changed`: hits without a grade, of queries whose score differs between two runs, largest difference first.
    `queries`: all hits of some queries of one run.
    """

    choice: Choice
    runs: Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=2)]
    k: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10  # first hits of each list
    metric: _Text | None = None  # for `changed`; null: the run's first key metric
    queries: Annotated[list[_Text], msgspec.Meta(max_length=500)] = []
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_PAIRS)] | None = None  # pairs; null: all


class PoolPairs(msgspec.Struct, frozen=True):
    """The pairs of a new pool, in labelling order. `found`: pairs to choose from; `labelled`: left out, since people at
    the desk have graded them; `source`: the selection in words."""

    entries: list[PoolEntry]
    found: int
    labelled: int
    source: str

    @property
    def queries(self) -> int:
        return len({entry.query_id for entry in self.entries})

    @property
    def without_text(self) -> int:
        return sum(entry.text is None for entry in self.entries)


def choose_pairs(store: Store, asked: PoolSelection, labelled: Container[Key] = ()) -> PoolPairs:
    """Pairs for a pool. If there is a limit, they are a random sample with a known probability; changed queries and
    queries chosen by hand are picked in order instead."""
    if len(asked.runs) != _RUNS[asked.choice]:
        expected = counted(_RUNS[asked.choice], "run")
        raise InputError("the number of runs is wrong", code="bad-value", field="runs", expected=expected)
    runs = [store.find(run) for run in asked.runs]
    if len(set(runs)) < len(runs):
        raise InputError("both runs are the same", code="bad-value", field="runs", expected="two different runs")
    changed = _changed(store, runs, asked.metric) if asked.choice == "changed" else []
    wanted = asked.queries if asked.choice == "queries" else changed if asked.choice == "changed" else None
    pairs = _found(store, runs, asked.k, wanted)
    if asked.choice == "disagreement":
        pairs = [pair for pair in pairs if len(pair.ranks) == 1]
    if asked.choice != "queries":
        pairs = [pair for pair in pairs if pair.grade is None]
    left = [pair for pair in pairs if asked.choice == "queries" or Key(pair.query, pair.item) not in labelled]
    source = _in_words(store, asked, runs)
    if not left:
        known = counted(len(pairs), "pair")
        what = f"people have already graded all {known}" if pairs else "no hit fits"
        raise InputError(f"nothing to label: {what} ({source})", code="nothing-to-label", hint="choose other runs or k")
    rng = np.random.default_rng(0)
    by_hand = asked.choice in ("changed", "queries")
    picked, probability = (left[: asked.limit], None) if by_hand else choose(left, None, asked.limit, rng)
    refuse_too_many(len(picked))
    entries = _entries(store, runs, shuffled(picked, rng), probability)
    return PoolPairs(entries, len(left), len(pairs) - len(left), source)


def refuse_too_many(pairs: int) -> None:
    if pairs > MOST_PAIRS:
        hint = f"set a limit of at most {MOST_PAIRS:,}"
        raise ConfigError(f"too many pairs: {pairs:,}", code="too-many-pairs", field="limit", hint=hint)


def _changed(store: Store, runs: list[str], metric: str | None) -> list[str]:
    by = metric or str(leading([store.row(runs[1])])[0])
    page = side_by_side(store, runs, by, order="changed", limit=_CHANGED)
    return [row.query_id for row in page.rows if row.delta]


def _found(store: Store, runs: list[str], k: int, wanted: list[str] | None) -> list[FoundPair]:
    """The first hits of the runs, each pair once, by query in the order wanted, then by rank. `wanted`: None for
    all."""
    by_query: dict[str, dict[str, FoundPair]] = {query: {} for query in wanted or ()}
    with store.transaction() as connection:
        for run in runs:
            if not has_hits(connection, run):
                what = f"the run {short(run)} does not keep the hits of every query"
                raise InputError(what, code="no-hits", hint="save it again: karat eval … --save")
            for query, hits in all_hits(connection, run) if wanted is None else _hits_of(connection, run, wanted):
                own = by_query.setdefault(query, {})
                for rank, (item, grade) in enumerate(hits[:k], 1):
                    pair = own.get(item) or own.setdefault(item, FoundPair(query, item, {}))
                    pair.ranks.setdefault(run, rank)
                    pair.grade = grade if pair.grade is None else pair.grade
    return [p for own in by_query.values() for p in sorted(own.values(), key=lambda p: (min(p.ranks.values()), p.item))]


def _hits_of(
    connection: Connection, run: str, queries: list[str]
) -> Iterator[tuple[str, list[tuple[str, float | None]]]]:
    for query in queries:
        if (record := read_record(connection, run, query, texts=False)) is not None:
            yield query, [(hit.id, hit.grade) for hit in record.hits]


def _entries(store: Store, runs: list[str], pairs: list[FoundPair], probability: float | None) -> list[PoolEntry]:
    """The pairs with their texts, and which of them nearly repeat another one of their query."""
    by_query: dict[str, list[FoundPair]] = {}
    for pair in pairs:
        by_query.setdefault(pair.query, []).append(pair)
    told: dict[str, QueryRecord] = {}
    with store.transaction() as connection:
        for query, own in by_query.items():
            texts: dict[str, str] = {}
            for run in runs:
                if (record := read_record(connection, run, query)) is not None:
                    told[query] = record
                    texts |= {hit.id: hit.text for hit in record.hits if hit.text is not None}
            for pair in own:
                pair.text = texts.get(pair.item)
            for pair, first in zip(own, near_duplicates([p.text for p in own]), strict=True):
                pair.near_duplicate_of = None if first is None else own[first].item
    return [
        PoolEntry(
            query_id=pair.query,
            chunk_id=pair.item,
            query=told[pair.query].query,
            text=pair.text,
            language=_language(told[pair.query]),
            near_duplicate_of=pair.near_duplicate_of,
            inclusion_probability=probability,
            origin=Origin(pair.ranks),
        )
        for pair in pairs
    ]


def _language(record: QueryRecord) -> str | None:
    found = record.tags.get("language")
    return None if found is None else str(found)


def _system(store: Store, run: str) -> str:
    head = store.row(run).head
    return head.system or head.run


def _in_words(store: Store, asked: PoolSelection, runs: list[str]) -> str:
    named = " and ".join(f"{_system(store, run)} ({short(run)})" for run in runs)
    return {
        "unjudged": f"unjudged hits in the first {asked.k} of {named}",
        "disagreement": f"unjudged hits in the first {asked.k} of only one of {named}",
        "changed": f"unjudged hits in the first {asked.k}, of queries that changed between {named}",
        "queries": f"the first {asked.k} hits of {counted(len(set(asked.queries)))} of {named}",
    }[asked.choice]
