"""Trends tell which numbers cannot be compared, and what they leave out."""

from __future__ import annotations

import pytest

from karat.data.gold import Dataset
from karat.history.report import trend_blocks, trend_chart
from karat.history.rows import Measure, TrendPoint
from karat.report.blocks import Chart, Series, Table, Text
from karat.report.charts import draw_lines
from karat.report.time_axis import seconds

OLD, NEW = Dataset("v3", None, "sha256:aaaaaaaa11", "helpdesk"), Dataset("v4", None, "sha256:bbbbbbbb22", "helpdesk")


def point(number: int, system: str = "bm25", dataset: Dataset = OLD, branch: str | None = "main") -> TrendPoint:
    measure = Measure(20, 0.5, 0.4, 0.6, False, "d")
    return TrendPoint(
        f"{number:064}"[::-1], f"2025-06-0{number}T08:00:00.000000Z", system, branch, None, 20, measure, [], dataset
    )


def warnings(points: list[TrendPoint]) -> list[str]:
    blocks = trend_blocks("recall@5", points)
    return [block.text for block in blocks if isinstance(block, Text) and block.kind == "warning"]


def columns(points: list[TrendPoint]) -> list[str]:
    (table,) = [block for block in trend_blocks("recall@5", points) if isinstance(block, Table)]
    return [column.title for column in table.columns]


def test_a_line_breaks_where_the_gold_set_changes_and_it_is_said() -> None:
    points = [point(1), point(2), point(3, dataset=NEW), point(4, dataset=NEW)]
    chart = trend_chart("recall@5", points)
    assert [y is None for y in chart.series[0].y] == [False, False, True, False, False]
    assert [mark.x for mark in chart.marks] == [seconds(points[2].saved_at)]
    assert str(draw_lines(chart, "x")).count("<polyline") == 2
    (said,) = warnings(points)
    assert "helpdesk v4 bbbbbbbb" in said
    assert said.endswith("helpdesk v3 aaaaaaaa: 2000000000, 1000000000.")
    assert len(columns(points)) == len(columns(points[:2])) + 1


def test_two_systems_on_two_gold_sets_have_whole_lines_and_a_warning() -> None:
    points = [point(1), point(2, "dense", NEW), point(3), point(4, "dense", NEW)]
    chart = trend_chart("recall@5", points)
    assert all(None not in series.y for series in chart.series)
    assert chart.marks == []
    assert len(warnings(points)) == 1


@pytest.mark.parametrize("other", [OLD, Dataset("renamed", None, OLD.hash, "desk")])
def test_one_gold_set_needs_no_word(other: Dataset) -> None:
    points = [point(1), point(2, dataset=other)]
    assert warnings(points) == []
    assert columns(points) == columns(points[:1])
    assert trend_chart("recall@5", points).marks == []


def test_without_a_hash_the_name_and_the_version_decide() -> None:
    points = [point(1, dataset=Dataset("v3", name="helpdesk")), point(2, dataset=Dataset("v4", name="helpdesk"))]
    assert "helpdesk v3: 1000000000." in warnings(points)[0]


def test_many_runs_on_other_gold_sets_are_counted() -> None:
    points = [*(point(i) for i in range(1, 6)), point(6, dataset=NEW)]
    assert "5000000000, 4000000000, 3000000000 and 2 " in warnings(points)[0]


def test_systems_without_a_line_are_named() -> None:
    systems = ["a", "b", "c", "d", "e", "f", "g"]
    title = trend_chart("recall@5", [point(i, system) for i, system in enumerate(systems, 1)]).title
    assert ": d, c, b and 1 " in title
    four = trend_chart("recall@5", [point(i, system) for i, system in enumerate(systems[:4], 1)])
    assert four.title.endswith(": a")
    assert ":" not in trend_chart("recall@5", [point(1), point(2)]).title


def test_distances_on_the_axis_are_distances_in_time() -> None:
    chart = trend_chart("recall@5", [point(1), point(2), point(9)])
    first, second, last = chart.series[0].x
    assert (last - second) / (second - first) == 7
    drawn = str(draw_lines(chart, "x"))
    assert 'points="0.0,' in drawn
    assert " 125.0," in drawn
    assert " Jun 2025</text>" in drawn
    assert "2025-06-09 08:00: 0.5000" in drawn


def test_each_branch_has_a_line() -> None:
    points = [point(1), point(2, branch="fix"), point(3), point(4, branch=None)]
    assert [line.name for line in trend_chart("recall@5", points, "branch").series] == ["fix", "main", "no branch"]
    mixed = trend_chart("recall@5", [*points, point(5, "dense")], "branch")
    names = ["fix, bm25", "main, bm25", "main, dense", "no branch, bm25"]
    assert [line.name for line in mixed.series] == names
    drawn = str(draw_lines(mixed, "x"))
    for place, name in enumerate(names):  # a dash and a shape of its own, not just a colour
        assert f'class="line s{place}"' in drawn
        assert f"<span>{name}</span>" in drawn
    assert "band" not in drawn


def test_runs_of_one_moment() -> None:
    chart = trend_chart("recall@5", [point(1), point(1, "dense")])
    assert ">1 Jun 2025<" in str(draw_lines(chart, "x"))


def test_a_value_alone_shows_its_interval() -> None:
    alone = Chart("t", "run", "y", [Series("a", [1, 2, 2, 3], [0.5, None, 0.5, 0.6], [0.4] * 4, [0.6] * 4)])
    assert str(draw_lines(alone, "x")).count('class="whisker s0"') == 1  # the first; the others have a band
    bare = Chart("t", "run", "y", [Series("a", [1.0], [0.5], [None], [None])])
    assert "whisker" not in str(draw_lines(bare, "x"))


def test_a_segment_that_no_run_has_is_named() -> None:
    (said,) = trend_blocks("recall@5", [], "language=xx")
    assert isinstance(said, Text)
    assert "language=xx" in said.text
