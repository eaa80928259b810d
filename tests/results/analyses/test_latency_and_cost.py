"""What a log tells of time, money and entities."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karat
from karat.report.build import evaluation_report
from karat.report.export import export
from karat.report.renderers.markdown import render_markdown
from karat.results.analyses.cost import Costs
from karat.results.analyses.entities import Linked
from karat.results.analyses.latency import Latencies
from karat.results.save import restore
from karat.results.saved import read_result
from karat.statistics.tally import tally

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"


def evaluate(fields: list[dict[str, Any]], gold: list[dict[str, Any]] | None = None, **options: Any) -> karat.Result:
    run = [{"query_id": f"q{i}", "topk": ["a"], **more} for i, more in enumerate(fields)]
    more = gold or [{} for _ in fields]
    return karat.evaluate(run, [{"query_id": f"q{i}", "gold": ["a"], **g} for i, g in enumerate(more)], **options)


def section(result: karat.Result, title: str) -> str:
    page = render_markdown(evaluation_report(result)).replace("\\", "")
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


# --- latency


def test_every_stage_and_the_whole_with_limits() -> None:
    times = [float(t) for t in np.random.default_rng(1).gamma(2, 10, 400)]
    result = evaluate([{"latency_ms": {"retrieve": t, "rerank": 3 * t}} for t in times])
    found: Latencies = result.analyses.found["latency"]
    assert [timing.stage for timing in found.stages] == ["rerank", "retrieve"]  # the slowest first
    assert found.total.stage is None
    retrieve = found.stages[1]
    assert retrieve.queries == 400
    assert retrieve.mean.value == pytest.approx(np.mean(times))
    for at, measured in ((0.5, retrieve.p50), (0.9, retrieve.p90), (0.99, retrieve.p99)):
        assert measured.value == pytest.approx(np.quantile(times, at))
        assert (measured.low, measured.high) == tally(np.array(times)).quantile_interval(at)
    assert found.total.p99.value == pytest.approx(4 * retrieve.p99.value)
    assert "no interval" not in section(result, "Latency")


def test_too_few_queries_for_limits_are_said() -> None:
    found: Latencies = evaluate([{"latency_ms": {"a": i, "b": 1}} for i in range(40)]).analyses.found["latency"]
    assert found.total.p90.low is not None
    assert (found.total.p99.low, found.total.p99.high) == (None, None)
    few = evaluate([{"latency_ms": {"a": i, "b": 1}} for i in range(10)])
    assert few.analyses.found["latency"].total.p90.low is None
    assert re.search(r"\bp50\b.*\b6\b.*\bp90\b.*\b36\b.*\bp99\b.*\b368\b", section(few, "Latency"))


def test_a_stage_of_some_queries_and_a_total_that_was_logged() -> None:
    result = evaluate([{"latency_ms": {"a": 5, "total": 50}}, {"latency_ms": {"a": 7, "b": 1}}, {}])
    found: Latencies = result.analyses.found["latency"]
    assert [(t.stage, t.queries, t.mean.value) for t in found.stages] == [("a", 2, 6.0), ("b", 1, 1.0)]
    assert (found.total.queries, found.total.mean.value) == (2, 29.0)


def test_times_are_there_whatever_metrics_were_asked_for() -> None:
    result = evaluate([{"latency_ms": {"a": 5}}], metrics=["mrr"], analyses=True)
    assert result.analyses.found["latency"].total.mean.value == 5.0
    assert list(result.values) == ["mrr"]


# --- cost

PRICES = {
    "currency": "USD",
    "models": {"embed": {"per_1m": 2}, "cross": {"per_call": 0.001}},
    "one_off": [
        {"name": "re-embed", "model": "embed", "tokens": 3_000_000},
        {"name": "disk", "amount": 7, "per": "month"},
    ],
}
USAGE = [
    {"stage": "embed", "model": "embed", "prompt_tokens": 50},
    {"stage": "rerank", "model": "cross", "calls": 2},
]


def test_stages_add_up_to_the_whole_and_one_off_costs_stay_out_of_it() -> None:
    result = evaluate([{"usage": USAGE}, {"usage": USAGE[1:]}, {"usage": []}, {}], prices=PRICES)
    found: Costs = result.analyses.found["cost"]
    assert (found.queries, found.currency) == (3, "USD")
    assert found.total == pytest.approx(0.0041)
    assert found.per_query[0].mean == pytest.approx(0.0041 / 3)
    assert [(p.name, p.queries, p.calls, p.prompt_tokens) for p in found.stages] == [
        ("rerank", 2, 4, 0),
        ("embed", 1, 1, 50),
    ]
    assert sum(part.cost or 0 for part in found.stages) == pytest.approx(found.total)
    assert sum(part.share or 0 for part in found.models) == pytest.approx(1.0)
    assert [(line.name, line.amount, line.per) for line in found.one_off] == [
        ("re-embed", 6, None),
        ("disk", 7, "month"),
    ]
    shown = section(result, "Cost")
    assert "0.00410 USD" in shown


def test_the_cost_joins_the_panel_where_there_are_prices() -> None:
    usage = {"usage": USAGE}
    assert evaluate([usage], prices=PRICES).means["cost"] == pytest.approx(0.0021)
    assert "cost" not in evaluate([usage]).means
    assert "cost" not in evaluate([{}], prices=PRICES).means


def test_without_prices_there_are_tokens_and_a_word_about_prices() -> None:
    result = evaluate([{"usage": USAGE}])
    found: Costs = result.analyses.found["cost"]
    assert (found.currency, found.total, found.one_off) == (None, None, [])
    assert [(part.name, part.prompt_tokens, part.cost) for part in found.stages] == [
        ("embed", 50, None),
        ("rerank", 0, None),
    ]
    assert "`--prices FILE`" in section(result, "Cost")
    assert "USD" not in section(result, "Cost")


def test_a_model_without_a_price_is_named() -> None:
    result = evaluate([{"usage": USAGE}, {"usage": [{"stage": "answer", "model": "gpt-x"}]}], prices=PRICES)
    found: Costs = result.analyses.found["cost"]
    assert ["gpt-x" in reason for reason in found.unpriced] == [True]
    assert found.total == pytest.approx(0.0021)
    assert [part.share for part in found.stages] == [None] * 3  # of a whole that is not known
    assert found.unpriced[0] in section(result, "Cost")


# --- entities


def test_links_and_what_was_missed_most_often() -> None:
    gold = [{"entities": ["a", "b", None]}, {"entities": ["b"]}, {"entities": []}]
    result = evaluate([{"entities": ["a", None]}, {"entities": ["c"]}, {}], gold)
    found: Linked = result.analyses.found["entities"]
    assert (found.queries, found.wanted, found.linked, found.right) == (2, 3, 2, 1)
    assert [(often.id, often.times) for often in found.missed] == [("b", 2)]
    assert [(often.id, often.times) for often in found.wrong] == [("c", 1)]
    assert (found.nil_wanted, found.nil_said, found.nil_right) == (1, 1, 1)
    rows = {row.metric: row.mean for row in found.scores}
    assert rows["entity_recall"] == 0.25
    assert rows["entity_recall(average=micro)"] == pytest.approx(1 / 3)
    shown = section(result, "Entity linking")
    assert re.search(r"\b1 of 3\b.*\b2\b", shown)
    assert "entity_f1(of=nil)" in shown


def test_without_nil_nothing_is_said_of_it() -> None:
    result = evaluate([{"entities": ["a"]}], [{"entities": ["a"]}])
    assert result.analyses.found["entities"].nil_scores == []
    assert "NIL" not in section(result, "Entity linking")


# --- what all three share


def test_what_is_lacking_is_named() -> None:
    lacking = evaluate([{}]).analyses.lacking
    for name, field in (("latency", "`latency_ms`"), ("cost", "`usage`"), ("entities", "`entities`")):
        assert field in lacking[name]
    assert evaluate([{}], [{"entities": ["a"]}]).analyses.lacking["entities"] != lacking["entities"]


def test_saved_and_read_again(tmp_path: Path) -> None:
    fields = [{"usage": USAGE, "latency_ms": {"a": 3}, "entities": ["x", None]}]
    result = evaluate(fields, [{"entities": ["x"]}], prices=PRICES)
    export([result], str(tmp_path / "out.json"))
    again = restore(read_result(tmp_path / "out.json"))
    assert again.analyses.found == result.analyses.found
    assert again.rules == result.rules
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["settings"]["prices"]["models"] == {"cross": {"per_call": 0.001}, "embed": {"per_1m": 2.0}}
    assert set(saved["analyses"]) >= {"cost", "entities", "latency"}


def test_the_demo_set_has_times_and_texts_for_a_budget() -> None:
    result = karat.evaluate(
        DEMO / "bm25_rerank.jsonl",
        DEMO / "gold.jsonl",
        ["recall@5", "recall@100tok", "recall@500tok", "recall@100000tok", "recall@10"],
        corpus=DEMO / "corpus.jsonl",
        analyses=True,
    )
    assert result.audit["estimated_tokens"] == 2_870  # every hit has its text from the corpus
    small, middle, all_, ten = (result.means[f"recall@{k}"] or 0 for k in ("100tok", "500tok", "100000tok", "10"))
    assert 0 < small < middle < all_ == ten
    found: Latencies = result.analyses.found["latency"]
    assert {timing.stage for timing in found.stages} == {"retrieve", "rerank"}
    assert found.total.queries == 287
    assert found.total.p90.low is not None
    assert found.total.p99.low is None
    assert "`usage`" in result.analyses.lacking["cost"]
