"""The judged table: every metric that asks for ids only is a function of it, however the run was cut."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.scoring.metrics.test_every_metric import forms

import karat
from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import DocRule, Floats
from karat.scoring.judge import judge
from karat.scoring.judged import Judged, Rules, judge_missing
from karat.scoring.metrics.base import Metric
from karat.scoring.table import JudgedTable, TablePart
from karat.scoring.top_lists import reference_lists
from karat.scoring.unjudged import FAR
from karat.scoring.views import Need, View, level_of

RULE = DocRule()
CHUNKS = [f"d{doc}#p{part}" for doc in range(4) for part in range(3)]
DOCS = [f"d{doc}" for doc in range(4)]
GRADES = st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0])
SCORES = st.sampled_from([-1.0, 0.0, 0.5, 1.0])  # few: there are ties
EVERY = [metric for kind in karat.Metric.all().values() for metric in forms(kind)]
BY_ID = [metric for metric in EVERY if not metric.needs_hits]


class World(NamedTuple):
    """A run, a gold set and how the run is cut into slices."""

    run: list[dict[str, Any]]
    gold: list[dict[str, Any]]
    cuts: list[int]
    rules: Rules


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Ties, repeats, gold of chunks and of documents, negative grades, queries that one side lacks, their own k."""
    names = [f"q{i}" for i in range(draw(st.integers(1, 5)))]
    gold = []
    for name in names:
        wanted = draw(st.sampled_from([CHUNKS, DOCS, CHUNKS + DOCS]))
        entry: dict[str, Any] = {"query_id": name, "gold": draw(st.dictionaries(st.sampled_from(wanted), GRADES))}
        if draw(st.booleans()):
            entry["k"] = draw(st.integers(1, 4))
        gold.append(entry)
    scored, ranked = draw(st.booleans()), draw(st.booleans())
    run = []
    for name in draw(st.permutations([*names, "unknown"])):
        if name == names[-1] and draw(st.booleans()) and len(names) > 1:
            continue  # the run lacks it
        listed = draw(st.lists(st.sampled_from(CHUNKS + DOCS), max_size=9))
        hits: list[dict[str, Any]] = [{"chunk_id": item} for item in listed]
        for place, hit in enumerate(hits):
            if scored:
                hit["score"] = draw(SCORES)
            if ranked:
                hit["rank"] = place + 1
        run.append({"query_id": name, "topk": hits})
    rules = Rules(
        k=draw(st.integers(1, 6)),
        min_score=draw(st.sampled_from([None, None, 0.5])) if scored else None,  # without scores it is refused
        top_k=draw(st.sampled_from([None, None, 3])),
    )
    return World(run, gold, draw(st.lists(st.integers(0, 6), max_size=3)), rules)


def slices(hits: Hits, cuts: list[int]) -> list[Hits]:
    part = np.zeros(len(hits.queries), np.int64)
    for cut in cuts:
        part[cut:] += 1
    return [hits.select_queries(part == number) for number in np.unique(part)]


def read(world: World) -> tuple[Hits, dict[str, Gold]]:
    (hits,) = karat.read_run(world.run).slices(frozenset(), Audit())
    gold = karat.read_gold(world.gold)
    return hits, {"chunk": gold, "doc": gold.documents(RULE, {})}


def scored(metric: Metric, sides: list[Judged], size: int) -> tuple[Floats, Floats | None]:
    """Values and votes of all queries of the gold set."""
    values, votes = np.full(size, np.nan), None
    for judged in sides:
        values[judged.queries] = metric.score(judged)
        said = metric.votes(judged)
        if said is not None:
            votes = np.full(size, np.nan) if votes is None else votes
            votes[judged.queries] = said
    return values, votes


def same(one: Any, other: Any) -> bool:
    return (one is None and other is None) or one.tobytes() == other.tobytes()


DOCUMENT_FOUND_TWICE = World(
    [{"query_id": "q0", "topk": ["d0#p1", "d0#p0", "d0#p1", "d1"]}, {"query_id": "q1", "topk": ["d1#p0"]}],
    [{"query_id": "q1", "gold": {"d0": -1.0}}, {"query_id": "q0", "gold": {"d0": 1.0, "d0#p0": 3.0}, "k": 1}],
    [1],
    Rules(),
)


@settings(max_examples=25)
@given(worlds())
@example(DOCUMENT_FOUND_TWICE)
def test_every_metric_of_ids_is_a_function_of_the_table(world: World) -> None:
    """Of slices that were judged one by one, against the whole run judged at once; to the last bit."""
    hits, golds = read(world)
    for level, gold in golds.items():
        size = len(gold.queries)
        whole = judge(hits, gold, world.rules, Audit(), FAR)
        parts = [TablePart.of(judge(some, gold, world.rules, Audit())) for some in slices(hits, world.cuts)]
        table = JudgedTable.joined(gold, parts, Audit())
        assert np.flatnonzero(table.present).tolist() == sorted(whole.queries.tolist())
        judged = table.judged(np.arange(size), world.rules)
        lacking = np.flatnonzero(~table.present)
        sides = [whole, judge_missing(gold, lacking, world.rules)]
        for metric in BY_ID:
            if level_of(metric) == level:
                values, votes = scored(metric, sides, size)
                assert same(metric.score(judged), values), metric
                assert same(metric.votes(judged), votes), metric


@settings(max_examples=12)
@given(worlds())
@example(DOCUMENT_FOUND_TWICE)
def test_any_metric_of_ids_can_be_asked_for_after_the_pass(world: World) -> None:
    """A result that was asked for one metric, and for documents, tells all others as if they had been named."""
    options = {"k": world.rules.k, "min_score": world.rules.min_score, "top_k": world.rules.top_k}
    named = karat.evaluate(world.run, world.gold, BY_ID, **options)

    def by_document(setup: Any) -> Need:
        return Need(views={View.own(setup.rules).but(level="doc"): []})

    later = karat.evaluate(world.run, world.gold, ["mrr"], consumers=[by_document], **options).measure(BY_ID)
    for name, values in named.values.items():
        assert same(values, later.values[name]), name
    assert named.votes.keys() == later.votes.keys()
    assert all(same(votes, later.votes[name]) for name, votes in named.votes.items())
    assert [(row.metric, row.ceiling) for row in named.summary_rows] == [
        (row.metric, row.ceiling) for row in later.summary_rows
    ]


@settings(max_examples=25)
@given(worlds())
@example(DOCUMENT_FOUND_TWICE)
def test_a_metric_that_needs_no_hits_does_not_look_at_them(world: World) -> None:
    hits, golds = read(world)
    for level, gold in golds.items():
        with_hits = judge(hits, gold, world.rules, Audit(), FAR)
        without = replace(with_hits, hits=None, order=None)
        for metric in BY_ID:
            if level_of(metric) == level:
                assert same(metric.score(with_hits), metric.score(without)), metric
                assert same(metric.votes(with_hits), metric.votes(without)), metric


# A run in which there is something for every metric that looks at hits, times, costs, routes or entities.
RICH_RUN: list[dict[str, Any]] = [
    {
        "query_id": "q0",
        "route": "faq",
        "latency_ms": {"retrieve": 3.0, "total": 7.0},
        "usage": [{"stage": "retrieve", "model": "m", "prompt_tokens": 10, "completion_tokens": 5, "calls": 1}],
        "entities": ["e1", "e2"],
        "topk": [
            {"chunk_id": "d0#p0", "score": 0.9, "text": "a refund takes five days", "doc_version": "2025-01-01"},
            {"chunk_id": "d0#p1", "score": 0.8, "text": "a refund takes five days or", "doc_version": "2026-01-01"},
            {"chunk_id": "d1#p0", "score": 0.1, "text": "cards ship in two weeks", "doc_version": "2025-02-01"},
        ],
    },
    {"query_id": "q1", "topk": [{"chunk_id": "d0#p0", "score": 0.4, "text": "something"}]},
]
RICH_GOLD: list[dict[str, Any]] = [
    {
        "query_id": "q0",
        "gold": {"d0#p0": 1, "d1#p0": 2},
        "evidence": ["a refund takes five days"],
        "answer_span": "five days",
        "as_of": "2025-06-01",
        "source": "faq",
        "entities": ["e1"],
        "forbidden": ["d0#p1"],
    },
    {"query_id": "q1", "no_answer": True},
]
# What needs passages whose place in a document is known; tests/scoring/metrics/test_span.py has some.
PLACED = {"span_recall", "span_precision", "span_iou"}
# What needs another run; tests/results/comparison/test_overlap.py has some.
REFERRED = {"rbo", "jaccard"}
# What needs hops or steps; tests/results/analyses/test_searches.py has some.
SEARCHED = {"all_hops", "hops_covered", "union_recall"}


@pytest.mark.parametrize(
    "name", [name for name, kind in karat.Metric.all().items() if name not in PLACED | REFERRED | SEARCHED]
)
def test_a_metric_that_says_so_does_look_at_hits(name: str) -> None:
    """In one of its forms at least, the hits change what it says."""
    needing = [metric for metric in forms(karat.Metric.all()[name]) if metric.needs_hits]
    columns = frozenset({"text", "doc_version", "tokens", "source", "latency", "usage", "route", "entities"})
    (hits,) = karat.read_run(RICH_RUN).slices(columns, Audit())
    gold = karat.read_gold(RICH_GOLD)
    prices = {"currency": "USD", "models": {"m": {"per_1k": {"prompt": 0.1, "completion": 0.3}, "per_call": 0.2}}}
    rules = karat.evaluate(RICH_RUN, RICH_GOLD, ["mrr"], prices=prices).rules
    gold = replace(gold, reference=reference_lists(karat.read_run(RICH_RUN), gold, rules, 50))
    judged = judge(hits, gold, rules, Audit(), FAR)
    without = replace(judged, hits=None, order=None)
    assert not needing or any(not same(metric.score(judged), metric.score(without)) for metric in needing)
