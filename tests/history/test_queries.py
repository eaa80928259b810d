"""Runs query by query, as the dashboard asks for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from refusals import refused

from karat.errors import ConfigError, UnknownName
from karat.history.queries import case_of, cases_of, query_over_time, scores_of, side_by_side
from karat.history.rows import Filter
from karat.history.store import Store
from karat.results.kept_run import KeptRun

Maker = Callable[..., KeptRun]


@pytest.fixture
def ids(store: Store, made_run: Maker) -> list[str]:
    days = [f"2025-06-{n:02}T08:00:00.000000Z" for n in range(1, 5)]
    return [store.save(made_run(i), branch="main", saved_at=days[i]).id for i in range(4)]


def test_queries_are_paged_in_their_order(store: Store, ids: list[str]) -> None:
    page = scores_of(store, ids[0], offset=5, limit=3)
    assert (page.total, [row.query_id for row in page.rows]) == (20, ["q5", "q6", "q7"])
    five, six, _ = page.rows
    assert (five.first_rank, five.scores, five.tags) == (2, {"recall@5": 0.5}, {"language": "de"})
    assert (six.first_rank, six.scores, six.has_case) == (None, {"recall@5": 0.0}, True)
    assert five.query == "What about q5?"
    assert scores_of(store, ids[0], offset=100).rows == []


def test_queries_by_what_they_scored(store: Store, ids: list[str]) -> None:
    worst = scores_of(store, ids[0], metric="recall@5", order="worst", limit=3).rows
    assert [row.query_id for row in worst] == ["q6", "q13", "q3"]
    best = scores_of(store, ids[0], metric="recall@5", order="best", limit=2).rows
    assert [row.query_id for row in best] == ["q0", "q4"]
    with refused("unknown-metric", UnknownName, name="recall@50"):
        scores_of(store, ids[0], metric="recall@50", order="worst")
    with refused("missing-metric", ConfigError):
        scores_of(store, ids[0], order="worst")


def test_queries_by_text_tag_and_case(store: Store, ids: list[str]) -> None:
    assert [row.query_id for row in scores_of(store, ids[0], text="ABOUT Q19").rows] == ["q19"]
    assert scores_of(store, ids[0], text="q.*").total == 0  # a text, no pattern
    assert scores_of(store, ids[0], only={"language": "de"}).total == 10
    assert [row.query_id for row in scores_of(store, ids[0], cases=True).rows] == ["q6"]
    with refused("unknown-tag", UnknownName, name="langage"):
        scores_of(store, ids[0], only={"langage": "de"})


def test_the_triage_queue(store: Store, ids: list[str]) -> None:
    [case] = cases_of(store, ids[0])
    assert (case["query_id"], case["hits"]) == ("q6", [{"rank": 1, "id": "d9#1"}])
    assert cases_of(store, ids[0], offset=1) == []
    assert case_of(store, ids[0], "q6") == case
    assert case_of(store, ids[0], "q1") is None
    assert case_of(store, ids[0], "unknown") is None


def test_runs_side_by_side(store: Store, ids: list[str], made_run: Maker) -> None:
    page = side_by_side(store, [ids[0], ids[1]], "recall@5", limit=2)
    assert page.total == 20
    first = page.rows[0]
    assert (first.query_id, first.values, first.first_ranks, first.delta) == ("q3", [0.25, 1.0], [4, 1], 0.75)
    losses = side_by_side(store, [ids[0], ids[1]], "recall@5", order="worst", limit=1).rows
    assert (losses[0].query_id, losses[0].values) == ("q0", [1.0, 0.5])
    given = side_by_side(store, ids, "recall@5", order="given", offset=1, limit=1).rows
    assert (given[0].query_id, given[0].values) == ("q1", [0.5, 1 / 3, 0.25, 1.0])
    small = store.save(made_run(7, 3)).id
    page = side_by_side(store, [small, ids[0]], "recall@5", order="given", limit=50)
    assert page.total == 20
    assert (page.rows[5].values[0], page.rows[5].delta) == (None, None)
    assert [row.query_id for row in side_by_side(store, ids, "recall@5", text="q19").rows] == ["q19"]
    with pytest.raises(UnknownName):
        side_by_side(store, ids, "mrr")


def test_a_query_over_time(store: Store, ids: list[str]) -> None:
    found = query_over_time(store, "q0")
    assert found.query == "What about q0?"
    assert [point.run_id for point in found.points] == ids[::-1]
    assert [point.first_rank for point in found.points] == [4, 3, 2, 1]
    assert found.points[-1].scores == {"recall@5": 1.0}
    page = query_over_time(store, "q0", Filter(branch="main"), limit=3)
    rest = query_over_time(store, "q0", Filter(branch="main"), limit=3, after=page.after)
    assert [len(page.points), len(rest.points), rest.after] == [3, 1, None]
    nothing = query_over_time(store, "nobody asked this")
    assert (nothing.query, nothing.points) == (None, [])
