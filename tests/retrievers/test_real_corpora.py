"""Baselines on corpora that nobody here has made."""

from __future__ import annotations

from pathlib import Path

import pytest

import karat

_METRICS = ["ndcg@10", "recall@10"]


def means(shared: Path, name: str) -> dict[str, float]:
    folder = shared / name
    found = karat.baseline_ladder(folder, folder, runs=[folder / "bm25.run"], metrics=_METRICS)
    assert found.skipped == {}
    return {rung.system: rung.values[0].mean or 0.0 for rung in found.rungs}


@pytest.mark.parametrize("name", ["cranfield", "adi"])
def test_bm25_is_in_line_with_the_run_that_lies_there(shared_data: Path, name: str) -> None:
    found = means(shared_data, name)
    assert found["bm25"] == pytest.approx(found["bm25s"], abs=0.03)
    assert found["hybrid"] >= min(found["bm25"], found["dense"])
    assert found["random"] < found["bm25:title"] < found["bm25"]
