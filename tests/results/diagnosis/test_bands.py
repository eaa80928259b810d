"""Poor, acceptable, good, excellent: the seeds' table, its gaps and its edges."""

from __future__ import annotations

import pytest

import karat
from karat.report.blocks import Table
from karat.report.build import evaluation_report
from karat.report.renderers.markdown import render_markdown
from karat.results.diagnosis.bands import EDGES, band, readings
from karat.results.save import saved_form
from karat.results.summary import SummaryRow


@pytest.mark.parametrize(
    ("metric", "poor", "acceptable", "good", "excellent"),
    [
        ("recall@1", 0.299, (0.40, 0.499), (0.50, 0.60), 0.651),
        ("recall@3", 0.499, (0.60, 0.699), (0.70, 0.80), 0.851),
        ("recall@5", 0.599, (0.70, 0.799), (0.80, 0.90), 0.901),
        ("recall@10", 0.699, (0.80, 0.849), (0.85, 0.95), 0.951),
    ],
)
def test_the_table_of_the_seeds(
    metric: str, poor: float, acceptable: tuple[float, float], good: tuple[float, float], excellent: float
) -> None:
    assert band(metric, poor) == "poor"
    assert {band(metric, value) for value in acceptable} == {"acceptable"}
    assert {band(metric, value) for value in good} == {"good"}
    assert band(metric, excellent) == "excellent"


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("recall@1", 0.30, "between poor and acceptable"),
        ("recall@1", 0.399, "between poor and acceptable"),
        ("recall@1", 0.61, "between good and excellent"),
        ("recall@1", 0.65, "between good and excellent"),
        ("recall@3", 0.55, "between poor and acceptable"),
        ("recall@3", 0.83, "between good and excellent"),
        ("recall@5", 0.65, "between poor and acceptable"),
        ("recall@10", 0.75, "between poor and acceptable"),
    ],
)
def test_the_gaps_of_the_table(metric: str, value: float, expected: str) -> None:
    assert band(metric, value) == expected


@pytest.mark.parametrize("metric", EDGES)
def test_a_higher_value_never_has_a_lower_band(metric: str) -> None:
    order = ["poor", "between poor and acceptable", "acceptable", "good", "between good and excellent", "excellent"]
    places = [order.index(band(metric, i / 1000)) for i in range(1001)]
    assert places == sorted(places)


def no_share(metric: str) -> None:
    """Every ceiling is 1."""


def test_an_interval_over_several_bands_says_so() -> None:
    (sure, unsure) = readings(
        [SummaryRow("recall@5", 900, 0, 0.75, 0.72, 0.78), SummaryRow("recall@10", 30, 0, 0.83, 0.68, 0.93)], no_share
    )
    assert (sure.band, sure.certain) == ("acceptable", True)
    assert (unsure.band, unsure.lowest, unsure.highest, unsure.certain) == ("acceptable", "poor", "good", False)


def test_other_metrics_have_no_band() -> None:
    assert readings([SummaryRow("ndcg@5", 30, 0, 0.9, 0.8, 1.0), SummaryRow("recall@5", 0, 30, None)], no_share) == []


def test_more_relevant_items_than_places_are_allowed_for() -> None:
    """Four relevant items, one first: recall@1 is 0.25, and no list could have more."""
    result = karat.evaluate({"q": ["a", "x"]}, {"q": ["a", "b", "c", "d"]}, ["recall@1"])
    (reading,) = result.bands
    assert (reading.band, reading.share_of_ceiling, reading.band_of_share) == ("poor", 1.0, "excellent")
    assert saved_form(result).bands == [reading]


def test_the_report_shows_band_and_caveat() -> None:
    report = evaluation_report(karat.evaluate({"q": ["a"]}, {"q": ["a"]}))
    (section,) = [section for section in report.sections if section.name == "bands"]
    assert isinstance(section.blocks[0], Table)
    assert section.blocks[0].note
    assert "interval: " in render_markdown(report)  # one query proves nothing
