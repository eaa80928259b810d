"""Comparisons of pages: quick first, and none of them twice."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.history.folder import FolderStore
from karat.history.keep import keep_result, restored, scored
from karat.history.rows import RunRow
from karat.history.store import Store
from karat.report.blocks import Report, Table, Text
from karat.web.pages.compare import Comparisons, headline, shared_metrics


def rows_of(store: Store, *names: str) -> list[RunRow]:
    return [store.row(store.find(name)) for name in names]


def differences(report: Report) -> dict[str, list[object]]:
    """Metric → its row in the table of the first pair."""
    pair = next(section for section in report.sections if section.name == "pair-1")
    table = next(block for block in pair.blocks if isinstance(block, Table))
    titles = [column.title for column in table.columns]
    return {str(row[0]): [*row, "p" in titles] for row in table.rows}


def test_columns_say_what_the_whole_run_says(demo: Store) -> None:
    (row,) = rows_of(demo, "v1.1")
    whole, some = restored(demo.kept(row.id)), scored(demo, row.id, ["recall@5", "latency_p50"])
    assert [str(metric) for metric in some.metrics] == ["recall@5", "latency_p50"]
    for name in some.values:
        np.testing.assert_array_equal(some.values[name], whole.values[name])
    assert (some.queries, some.missing, some.cluster) == (whole.queries, whole.missing, whole.cluster)
    assert (some.gold.tags, some.gold.fields) == (whole.gold.tags, whole.gold.fields)
    assert (some.rules, some.sampling) == (whole.rules, whole.sampling)


def test_the_quick_one_has_the_same_differences(demo: Store) -> None:
    rows, comparisons = rows_of(demo, "release", "main"), Comparisons()
    quick = differences(comparisons.report(demo, rows, whole=False))
    whole = differences(comparisons.report(demo, rows, whole=True))
    assert list(quick) == headline(rows) == ["recall@5", "ndcg@5", "latency_p50"]
    assert set(shared_metrics(rows)) == set(whole)
    for metric, row in quick.items():
        assert (
            row[:4] == whole[metric][:4]
        )  # baseline, candidate, and the interval: the demo's runs have 1,000 resamples
        assert (row[-1], whole[metric][-1]) == (False, True)  # no p-values at first


def test_the_quick_one_warns_too_where_the_gold_knows_one_run_better(tmp_path: Path) -> None:
    gold = {f"q{i}": {"a": 1, "n": 0} for i in range(30)}
    with FolderStore(tmp_path / ".karat") as store:
        for name, items in (("old", ["x", "y"]), ("new", ["a", "n"])):
            store.save(keep_result(karat.evaluate(dict.fromkeys(gold, items), gold)), tags=[name])
        reports = [Comparisons().report(store, rows_of(store, "old", "new"), whole=whole) for whole in (False, True)]
    for report in reports:
        (warning,) = [
            block.text
            for section in report.sections
            for block in section.blocks
            if isinstance(block, Text) and block.text.startswith("judged@5: ")
        ]
        assert re.findall(r"[\d.]+%", warning) == ["0.0%", "100.0%"]
    assert "judged@5" not in differences(reports[0])


def test_nothing_is_reckoned_twice(demo: Store) -> None:
    rows, comparisons = rows_of(demo, "release", "main"), Comparisons(kept=2)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: comparisons.report(demo, rows, whole=False), range(4)))
    assert all(report is found[0] for report in found)
    turned = comparisons.report(demo, rows[::-1], whole=False)
    assert turned is not found[0]
    assert comparisons.report(demo, rows, whole=False) is found[0]  # asked for last, so that the other goes
    comparisons.report(demo, rows_of(demo, "release", "mended"), whole=False)
    assert comparisons.report(demo, rows, whole=False) is found[0]
    assert comparisons.report(demo, rows[::-1], whole=False) is not turned


def test_runs_without_a_common_metric(demo: Store) -> None:
    import msgspec

    one, other = rows_of(demo, "release", "main")
    other = msgspec.structs.replace(other, measures={"bpref": other.measures["recall@5"]})
    with refused("no-common-metric", ConfigError):
        Comparisons().report(demo, [one, other], whole=False)
