"""What was loaded measures, sweeps, segments, compares and gates as what was just evaluated, without the run."""

from __future__ import annotations

import tempfile
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import karat
from karat.report.export import export
from karat.results.result import Result
from karat.statistics.sampling import Sampling

ITEMS = [f"{doc}#{part}" for doc in "abc" for part in range(3)] + ["d", "e"]
OTHER = ["recall@1", "recall@3", "ndcg@4", "map", "mrr", "bpref", "precision@2", "judged@3", "recall(level=doc)@2"]
GATES = ["recall@3 >= 0.5", "recall@3 drop <= 2pp", "mrr >= 0.3 on bound", "mrr drop <= 0", "recall@3 >= 0.4 in kind=x"]
FEW = Sampling(resamples=200)

lists = st.lists(st.sampled_from(ITEMS), max_size=8, unique=True)
scored = lists.map(lambda ids: [{"chunk_id": i, "score": float(-n // 2)} for n, i in enumerate(ids)])
graded = st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0, 1, 2]), max_size=4)


Experiment = tuple[list[Any], list[Any], list[Any]]


@st.composite
def experiments(draw: Any) -> Experiment:
    """A baseline, a candidate and their gold set; some queries are missing, unknown or without an answer."""
    names = [f"q{i}" for i in range(draw(st.integers(2, 6)))]
    gold: list[Any] = [
        {"query_id": name, "gold": draw(graded), "tags": {"kind": draw(st.sampled_from("xy"))}} for name in names
    ]
    gold[0]["gold"] = {"a#0": 1}
    runs = [
        [
            {"query_id": name, "system": system, "topk": draw(scored)}
            for name in [*names, "unknown"]
            if name == "q0" or draw(st.booleans())
        ]
        for system in ("before", "after")
    ]
    return runs[0], runs[1], gold


def _loaded(result: Result, ending: str) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        target = f"result={folder}/saved.parquet" if ending == ".parquet" else f"{folder}/saved.json"
        again = karat.load(export([result], target))
    assert isinstance(again, Result)
    return again


def _plain(thing: Any) -> Any:
    return msgspec.to_builtins(thing)


@pytest.mark.parametrize("ending", [".json", ".parquet"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_a_loaded_result_can_do_what_a_fresh_one_can(
    ending: str, given: tuple[list[Any], list[Any], list[Any]]
) -> None:
    before, after, gold = given
    live = [karat.evaluate(run, gold, ["recall@3", "recall(level=doc)@2"], sampling=FEW) for run in (before, after)]
    saved = [_loaded(result, ending) for result in live]
    for mine, its in zip(saved, live, strict=True):
        assert mine.measure(OTHER).summary_rows == its.measure(OTHER).summary_rows
        assert mine.measure(OTHER).scores.equals(its.measure(OTHER).scores)
        assert mine.sweep([1, 2, 3]) == its.sweep([1, 2, 3])
        assert mine.segment_by("kind") == its.segment_by("kind")
        assert (mine.depths.tolist(), mine.places.tolist()) == (its.depths.tolist(), its.places.tolist())
        assert _hashes(mine) == _hashes(its)
    compared, gated = _compared(*live), _gated(*live)
    for sides in (saved, (saved[0], live[1]), (live[0], saved[1])):
        assert _compared(*sides) == compared
        assert _gated(*sides) == gated


@pytest.mark.parametrize("ending", [".json", ".parquet"])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments(), st.sampled_from(["conversation", "language"]))
def test_settings_of_an_evaluation_come_back_with_it(ending: str, given: Experiment, cluster: str) -> None:
    """Runs that are dicts, queries that belong together, a threshold, and other settings that move numbers."""
    before, after, gold = given
    entries = [{**entry, "tags": {**entry["tags"], cluster: f"c{n // 2}"}} for n, entry in enumerate(gold)]
    runs = [{line["query_id"]: _scores(line["topk"]) for line in lines} for lines in (before, after)]
    options: dict[str, Any] = {"sampling": FEW, "cluster": cluster, "min_score": -3.0, "no_relevant": "zero"}
    live = [karat.evaluate(run, entries, ["recall@3", "mrr"], **options) for run in runs]
    saved = [_loaded(result, ending) for result in live]
    for mine, its in zip(saved, live, strict=True):
        assert mine.summary_rows == its.summary_rows
        assert mine.measure(OTHER[:4]).summary_rows == its.measure(OTHER[:4]).summary_rows
        assert _hashes(mine) == _hashes(its) != []
    assert _compared(*saved) == _compared(*live)
    assert _gated(*saved) == _gated(*live)


def _scores(hits: list[dict[str, Any]]) -> dict[str, float]:
    return {hit["chunk_id"]: hit["score"] for hit in hits}


def _hashes(result: Result) -> list[list[int]]:
    """Of the lists of its queries."""
    assert result.data.hashes is not None
    found: list[list[int]] = result.data.hashes[result.rows].tolist()
    return found


def _compared(before: Result, after: Result) -> Any:
    return _plain(karat.compare(before, after, changes=0))


def _gated(before: Result, after: Result) -> Any:
    verdicts = karat.gate(after, None, GATES, baseline=before)
    return _plain(verdicts.verdicts), verdicts.exit_code
