"""Results that were saved say the same as those that were not, and broken ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from refusals import refused

import karat
from karat.errors import InputError, KaratError
from karat.report.export import export
from karat.results.analyses.base import Lacking
from karat.results.evaluate import evaluate_all
from karat.results.references import is_saved_result
from karat.results.result import Result
from karat.results.save import restore, saved_form
from karat.results.saved import SavedResult, read_result, read_results
from karat.schemas import schema_text
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, GOLD = str(DEMO / "bm25.jsonl"), str(DEMO / "gold.jsonl")
METRICS = ["recall@5", "ndcg@5", "recall(average=micro)@5", "latency", "latency_p90"]
Saved = dict[str, Any]


@pytest.fixture(scope="module")
def live() -> Result:
    sampling = Sampling(method="percentile", level=0.9, resamples=250, seed=3)
    return karat.evaluate(
        RUN, GOLD, METRICS, segments=["language", "query_length×gold_items"], sampling=sampling, analyses=True
    )


@pytest.fixture
def file(live: Result, tmp_path: Path) -> Path:
    return export([live], str(tmp_path / "result.json"))


def test_a_restored_result_says_the_same(live: Result, file: Path) -> None:
    again = restore(read_result(file))
    assert again.means == live.means
    assert again.summary_rows == live.summary_rows
    assert (again.sampling, again.cluster, again.rules) == (live.sampling, live.cluster, live.rules)
    assert again.segmented_by == live.segmented_by
    assert again.scores.equals(live.scores)
    for mine, its in zip(again.segment_rows, live.segment_rows, strict=True):
        assert (mine.segment, mine.value, mine.queries) == (its.segment, its.value, its.queries)
        assert mine.summary == its.summary


@pytest.mark.parametrize("name", ["topic", "tier", "as_of", "query_length", "gold_items", "language×difficulty"])
def test_a_restored_result_can_be_cut_in_other_ways(live: Result, file: Path, name: str) -> None:
    mine, its = restore(read_result(file)).segment_by(name), live.segment_by(name)
    assert [(s.value, s.queries) for s in mine] == [(s.value, s.queries) for s in its]
    assert [s.summary[0].low for s in mine] == [s.summary[0].low for s in its]


def test_tags_of_any_kind_survive() -> None:
    tags: list[dict[str, Any]] = [
        {"n": 2, "b": True, "constraints": ["x", "y", "z"]},
        {"n": 1.5, "constraints": []},
        {},
    ]
    gold = [{"query_id": f"q{i}", "gold": ["a"], "tags": t} for i, t in enumerate(tags)]
    live = karat.evaluate({"q0": ["a"]}, gold, "recall@1")
    again = restore(msgspec.json.decode(msgspec.json.encode(saved_form(live)), type=SavedResult))
    for name in ("n", "b", "constraints"):
        assert [s.value for s in again.segment_by(name)] == [s.value for s in live.segment_by(name)], name
    assert [s.value for s in again.segment_by("constraints")] == ["0", "3–4", "(not given)"]


def test_saving_what_was_restored_changes_nothing(live: Result) -> None:
    first = saved_form(live)
    decoded = msgspec.json.decode(msgspec.json.encode(first), type=SavedResult)
    second = saved_form(restore(decoded))
    for name in SavedResult.__struct_fields__:
        assert msgspec.to_builtins(getattr(second, name)) == msgspec.to_builtins(getattr(first, name)), name


def test_saved_results_follow_their_schema(file: Path) -> None:
    jsonschema.validate(json.loads(file.read_text()), json.loads(schema_text("result")))


def test_a_file_is_known_by_what_it_says(file: Path, tmp_path: Path) -> None:
    assert is_saved_result(file)
    assert not is_saved_result(Path(RUN))
    assert not is_saved_result(tmp_path / "missing.json")
    assert not is_saved_result(tmp_path)
    other = tmp_path / "run.json"
    other.write_text('{"q": ["a"], "schema": ["karat/result/1"]}')
    assert not is_saved_result(other)


def test_results_saved_by_an_earlier_version_can_be_compared(file: Path, live: Result) -> None:
    """The first saved form had neither statistics nor attributes."""
    value = json.loads(file.read_text())
    for name in ("statistics", "segments", "attributes", "votes", "definitions"):
        del value[name]
    for row in value["summary"]:
        for name in ("low", "high", "few", "distribution"):
            row.pop(name, None)
    file.write_text(json.dumps(value))
    found = karat.compare(str(file), live, metrics=["recall@5"])
    assert found.pairs[0].identical
    assert found.statistics["method"] == "bayes"


def several(tmp_path: Path) -> str:
    log = [{"query_id": "q", "system": s, "topk": hits} for s, hits in (("one", ["a"]), ("two", ["x"]))]
    results = evaluate_all(log, {"q": ["a"]}, "recall@1")
    return str(export(list(results.values()), str(tmp_path / "both.json")))


def test_several_results_of_a_file_are_compared_with_each_other(tmp_path: Path) -> None:
    from karat.results.comparison.compare import compare_results
    from karat.results.comparison.sides import as_results

    path = several(tmp_path)
    assert [r.system for r in read_results(path)] == ["one", "two"]
    with refused("several-systems", InputError) as error:
        read_result(path)
    assert "one, two" in str(error.value)
    found = compare_results(as_results(path, None, None, {}))
    assert (found.baseline, found.pairs[0].candidate) == ("one", "two")
    assert found.pairs[0].differences[0].delta == -1


def _drop_score(value: Saved) -> None:
    next(iter(value["scores"].values())).pop("recall@5")


def _no_scores(value: Saved) -> None:
    value["scores"] = {}


def _drop_query(value: Saved) -> None:
    value["queries"].popitem()


def _short_votes(value: Saved) -> None:
    value["votes"]["recall(average=micro)@5"].pop()


def _short_tag(value: Saved) -> None:
    value["attributes"]["language"].pop()


def _bad_level(value: Saved) -> None:
    value["statistics"]["level"] = "high"


def _impossible_level(value: Saved) -> None:
    value["statistics"]["level"] = 95


def _bad_cluster(value: Saved) -> None:
    value["statistics"]["cluster"] = 7


def _unknown_cluster(value: Saved) -> None:
    value["statistics"]["cluster"] = "nobody"


def _bad_setting(value: Saved) -> None:
    value["settings"]["missing"] = "sometimes"


def _text_score(value: Saved) -> None:
    next(iter(value["scores"].values()))["recall@5"] = "much"


def _later_schema(value: Saved) -> None:
    value["schema"] = "karat/result/3"


@pytest.mark.parametrize(
    "spoil",
    [
        _drop_score,
        _no_scores,
        _drop_query,
        _short_votes,
        _short_tag,
        _bad_level,
        _impossible_level,
        _bad_cluster,
        _unknown_cluster,
        _bad_setting,
        _text_score,
        _later_schema,
    ],
)
def test_a_spoilt_file_is_refused_and_never_trusted(file: Path, live: Result, spoil: Callable[[Saved], None]) -> None:
    value = json.loads(file.read_text())
    spoil(value)
    file.write_text(json.dumps(value))
    for sides in ((str(file), live), (live, str(file))):
        if spoil is _unknown_cluster and sides[0] is live:
            continue  # the baseline's clusters are the ones that count
        with pytest.raises(KaratError):
            karat.compare(*sides)


# Tables


def test_a_restored_result_is_measured_as_the_live_one(live: Result, file: Path) -> None:
    again = restore(read_result(file))
    asked = ["map", "ndcg@7", "recall@1", "bpref", "mrr", "judged@5", "precision@3"]
    assert again.measure(asked).summary_rows == live.measure(asked).summary_rows
    assert again.sweep([1, 2, 3]) == live.sweep([1, 2, 3])
    assert (again.depths.tolist(), again.places.tolist()) == (live.depths.tolist(), live.places.tolist())
    for view in live.data.tables:
        for metric in ("recall@5", "ndcg@5"):
            assert again.measure([metric], view).means == live.measure([metric], view).means, view


def test_metrics_that_need_hits_are_those_that_were_saved(file: Path) -> None:
    with pytest.raises(Lacking, match="distinct_docs@5"):
        restore(read_result(file)).measure(["distinct_docs@5"])


@pytest.mark.parametrize("asked", [["recall@5"], ["recall@5", "recall(level=doc)@5"]])
@pytest.mark.parametrize("missing", ["worst", "skip"])
def test_tables_of_queries_that_the_run_lacks_and_of_documents(asked: list[str], missing: Any) -> None:
    run = {"q2": ["d#1", "d#2", "e#1"], "q0": ["e#3", "x"], "unknown": ["a"]}
    gold = [
        {"query_id": "q0", "gold": {"e": 2, "x": -1}, "k": 1},
        {"query_id": "q1", "gold": ["a"]},
        {"query_id": "q2", "gold": {"d#2": 1, "d": 1, "f": 0}},
        {"query_id": "q3", "no_answer": True},
    ]
    live = karat.evaluate(run, gold, asked, missing=missing)
    again = restore(msgspec.json.decode(msgspec.json.encode(saved_form(live)), type=SavedResult))
    metrics = ["recall@k", "map", "ndcg@3", "bpref", "rprecision", "returned", "miss@2", *asked]
    mine, its = again.measure(metrics), live.measure(metrics)
    assert mine.summary_rows == its.summary_rows
    assert [mine.score(metric) for metric in its.metrics] == [its.score(metric) for metric in its.metrics]


def _no_rank(view: Saved, tables: Saved) -> None:
    view["rank"].pop()


def _strange_item(view: Saved, tables: Saved) -> None:
    view["item"][0] = 10**6


def _item_under_zero(view: Saved, tables: Saved) -> None:
    view["item"][0] = -1


def _huge_item(view: Saved, tables: Saved) -> None:
    view["item"][0] = 2**80


def _rank_of_nothing(view: Saved, tables: Saved) -> None:
    view["rank"][0] = 0


def _rank_below_the_end(view: Saved, tables: Saved) -> None:
    view["rank"][0] = 10**6


def _short_depth(view: Saved, tables: Saved) -> None:
    view["depth"].pop()


def _depth_under_zero(view: Saved, tables: Saved) -> None:
    view["depth"][0] = -3


def _counts_of_another(view: Saved, tables: Saved) -> None:
    view["counts"] = view["counts"][1:]


def _absent_query(view: Saved, tables: Saved) -> None:
    view["absent"] = [10**6]


def _strange_gold(view: Saved, tables: Saved) -> None:
    view["gold"] = 7


def _gold_before_the_first(view: Saved, tables: Saved) -> None:
    view["gold"] = -1


def _no_grades(view: Saved, tables: Saved) -> None:
    tables["golds"][0]["grades"].pop()


def _no_kinds(view: Saved, tables: Saved) -> None:
    tables["golds"][0]["kinds"].pop()


def _text_of_a_hash(view: Saved, tables: Saved) -> None:
    tables["hashes"] = {"5": ["no hash"]}


def _top_of_other_queries(view: Saved, tables: Saved) -> None:
    tables["hashes"]["top 1"] = tables["hashes"]["top 1"][:-1]


def _more_hits_than_places(view: Saved, tables: Saved) -> None:
    tables["hashes"]["top count"] = ["f" * 16] * len(tables["hashes"]["top count"])


def _no_count_of_hits(view: Saved, tables: Saved) -> None:
    del tables["hashes"]["top count"]


def _short_column(view: Saved, tables: Saved) -> None:
    view["columns"] = {"distinct_docs@5": [1.0]}


def _unknown_lists(view: Saved, tables: Saved) -> None:
    view["view"] = {"labels": "mine"}


@pytest.mark.parametrize(
    "spoil",
    [
        _no_rank,
        _strange_item,
        _item_under_zero,
        _huge_item,
        _rank_of_nothing,
        _rank_below_the_end,
        _short_depth,
        _depth_under_zero,
        _counts_of_another,
        _absent_query,
        _strange_gold,
        _gold_before_the_first,
        _no_grades,
        _no_kinds,
        _text_of_a_hash,
        _top_of_other_queries,
        _more_hits_than_places,
        _no_count_of_hits,
        _short_column,
        _unknown_lists,
    ],
)
def test_spoilt_tables_are_refused(file: Path, spoil: Callable[[Saved, Saved], None]) -> None:
    value = json.loads(file.read_text())
    spoil(value["tables"]["views"][0], value["tables"])
    file.write_text(json.dumps(value))
    with pytest.raises(KaratError):
        restore(read_result(file))


@pytest.mark.parametrize(
    "text", ['{"schema": "karat/result/1"', '{"schema": "karat/result/1"}', '{"schema":"karat/results/1"}']
)
def test_a_torn_file_is_refused_by_name(tmp_path: Path, live: Result, text: str) -> None:
    (tmp_path / "torn.json").write_text(text)
    with pytest.raises(InputError, match=r"torn\.json"):
        karat.compare(str(tmp_path / "torn.json"), live)
