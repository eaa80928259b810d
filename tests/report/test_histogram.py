"""Histograms of what queries scored."""

from __future__ import annotations

import numpy as np

from karat.report.blocks import Histogram
from karat.report.cells import as_table
from karat.report.charts import draw
from karat.report.histogram import histogram
from karat.scoring.metrics.grammar import parse_metric

RECALL, LATENCY = parse_metric("recall@5"), parse_metric("latency_p50")


def made(values: list[float], metric: str = "recall@5") -> Histogram:
    found = histogram(metric, np.array(values), parse_metric(metric))
    assert found is not None
    return found


def test_every_value_is_in_one_bin() -> None:
    found = made([0.0, 0.05, 0.5, 1.0, 1.0, float("nan")])
    assert {one.text: one.count for one in found.bins if one.count} == {
        "0 to 0.05": 1,
        "0.05 to 0.1": 1,
        "0.5 to 0.55": 1,
        "0.95 to 1": 2,
    }
    assert found.title == "recall@5 of 5 queries: mean 0.5100, median 0.5000; 1 query without a value"


def test_a_few_slow_queries_do_not_squeeze_the_others() -> None:
    values = [20 + i % 40 for i in range(990)] + [9000.0] * 5
    found = made(values, "latency_p50")
    assert sum(one.count for one in found.bins) == 995
    assert (found.bins[-1].count, found.bins[-1].high) == (5, 9000.0)
    assert found.bins[-1].text.endswith(" or more")
    assert len(found.bins) > 10
    drawn = str(draw(found, "x"))
    assert drawn.count("<rect") == sum(one.count > 0 for one in found.bins)
    assert ">9,000</text>" in drawn
    assert as_table(found).rows[-1] == [found.bins[-1].text, 5]


def test_values_that_are_all_the_same_or_none() -> None:
    assert [one.count for one in made([7.0] * 3, "latency_p50").bins] == [3]
    assert "<rect" in str(draw(made([7.0] * 3, "latency_p50"), "x"))
    assert made([0.0, 0.0], "latency_p50").bins[0].count == 2
    assert histogram("x", np.array([float("nan")]), RECALL) is None


def test_values_below_zero() -> None:
    found = made([-3.0, -1.0, 2.0, 2.5], "top_score@5")
    assert sum(one.count for one in found.bins) == 4
    assert found.bins[0].low <= -3.0
