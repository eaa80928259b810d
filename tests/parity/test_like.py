"""`like=` counts as other tools do: their own values, query by query and as means.

pytrec_eval and ir_measures are asked here. What ranx and ragas said is in `peers.json`, which
`benchmarks/comparability.py --write` makes where they are installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import pytrec_eval

import karat

KEPT = json.loads((Path(__file__).parent / "peers.json").read_text())
WORLDS: dict[str, Any] = KEPT["worlds"]
TREC_EVAL = {
    "map": "map",
    "mrr": "recip_rank",
    "rprecision": "Rprec",
    "bpref": "bpref",
    "precision@5": "P_5",
    "recall@10": "recall_10",
    "hit@5": "success_5",
    "map@10": "map_cut_10",
    "ndcg@10": "ndcg_cut_10",
}
# Ties, some of them only in 32 bits; a query without relevant gold, one that the run lacks, one that the gold lacks.
TIED: dict[str, Any] = {
    "run": {
        "q1": {"a": 1.0, "b": 1.0, "c": 0.3, "d": 0.3 + 1e-9, "e": 0.1},
        "q2": {"a": 0.2, "b": 0.1},
        "q3": {"x": 2.0, "y": 2.0, "z": 2.0},
        "q5": {"a": 1.0},
    },
    "gold": {"q1": {"a": 2, "c": 1, "e": 0, "f": 3}, "q2": {"a": 0, "b": 0}, "q3": {"y": 1, "z": 0}, "q4": {"a": 1}},
}


def check(world: dict[str, Any], like: str, theirs: dict[str, dict[str, float]], **options: Any) -> None:
    """Every value, and every mean over the queries that the tool has."""
    result = karat.evaluate(world["run"], world["gold"], list(theirs), like=like, **options)
    for metric, (name, values) in zip(result.metrics, theirs.items(), strict=True):
        known = {query: value for query, value in values.items() if value is not None and not math.isnan(value)}
        ours = result.score(str(metric))
        if like == "ragas" and name.startswith("recall"):
            assert {ours.pop(query) for query in values.keys() - known.keys()} == {0.0}, name
            result = karat.evaluate(world["run"], world["gold"], [metric], like=like, no_relevant="undefined")
        assert ours == pytest.approx(known, abs=1e-9), name
        assert result.means[str(metric)] == pytest.approx(sum(known.values()) / len(known), abs=1e-9), name


def ask_trec_eval(world: dict[str, Any]) -> dict[str, dict[str, float]]:
    found = pytrec_eval.RelevanceEvaluator(world["gold"], set(TREC_EVAL.values())).evaluate(world["run"])
    return {ours: {query: values[name] for query, values in found.items()} for ours, name in TREC_EVAL.items()}


def ask_ir_measures(world: dict[str, Any], names: dict[str, str]) -> dict[str, dict[str, float]]:
    parsed = {ir_measures.parse_measure(theirs): ours for ours, theirs in names.items()}
    found: dict[str, dict[str, float]] = {ours: {} for ours in names}
    for value in ir_measures.iter_calc(list(parsed), world["gold"], world["run"]):
        found[parsed[value.measure]][value.query_id] = value.value
    return found


ALL_WORLDS = {**WORLDS, "tied": TIED}


@pytest.mark.parametrize("name", ALL_WORLDS)
def test_trec_eval(name: str) -> None:
    check(ALL_WORLDS[name], "trec_eval", ask_trec_eval(ALL_WORLDS[name]))


@pytest.mark.parametrize("name", ALL_WORLDS)
def test_trec_eval_complete(name: str) -> None:
    """`-c`: queries that the run lacks count as 0. What is said besides `like` wins."""
    world = ALL_WORLDS[name]
    found = {ours: {**dict.fromkeys(world["gold"], 0.0), **values} for ours, values in ask_trec_eval(world).items()}
    check(world, "trec_eval", found, missing="worst")


@pytest.mark.parametrize(("like", "ask"), [("trec_eval", None), ("ir_measures", {"ndcg": "nDCG"})])
@pytest.mark.parametrize("name", ALL_WORLDS)
def test_a_metric_that_names_no_cutoff_is_one_of_the_whole_list(name: str, like: str, ask: Any) -> None:
    world = ALL_WORLDS[name]
    if ask is None:
        names = {"ndcg": "ndcg", "recall": "set_recall", "precision": "set_P"}
        found = pytrec_eval.RelevanceEvaluator(world["gold"], set(names.values())).evaluate(world["run"])
        theirs = {ours: {query: values[name] for query, values in found.items()} for ours, name in names.items()}
    else:
        theirs = ask_ir_measures(world, ask)
    check(world, like, theirs)


def test_a_cutoff_that_is_asked_for_wins() -> None:
    for options, names in (
        ({}, ["ndcg(gain=linear)@1000", "precision(by=returned)@1000", "recall@k", "f1@k", "precision@1000"]),
        ({"k": 7}, ["ndcg(gain=linear)@k", "precision@k", "recall@k", "f1@k"]),
    ):
        asked = ["ndcg", "precision", "recall@k", "f1", "precision(by=k)"]
        result = karat.evaluate(TIED["run"], TIED["gold"], asked, like="ranx", **options)
        assert [str(metric) for metric in result.metrics] == names


@pytest.mark.parametrize("case", [("out.test.aq", "results.test"), ("out.test.aqc", "results.trunc")])
def test_means_that_trec_eval_printed(shared_data: Path, case: tuple[str, str]) -> None:
    folder, (printed, run) = shared_data / "trec_eval", case
    lines = [line.split() for line in (folder / printed).read_text().splitlines()]
    means = {line[0]: float(line[2]) for line in lines if len(line) == 3 and line[1] == "all" and line[0] != "runid"}
    complete = {"missing": "worst"} if printed.endswith("c") else {}
    result = karat.evaluate(folder / run, folder / "qrels.test", list(TREC_EVAL), like="trec_eval", **complete)
    for metric, name in zip(result.metrics, TREC_EVAL.values(), strict=True):
        assert result.means[str(metric)] == pytest.approx(means[name], abs=0.5e-4 + 1e-9), name


IR_MEASURES = {"map": "AP", "mrr": "RR", "rprecision": "Rprec", "bpref": "Bpref", "ndcg@10": "nDCG@10"}
IR_MEASURES |= {"precision@5": "P@5", "recall@10": "R@10", "hit@5": "Success@5", "map@10": "AP@10"}


@pytest.mark.parametrize("name", ALL_WORLDS)
def test_ir_measures(name: str) -> None:
    check(ALL_WORLDS[name], "ir_measures", ask_ir_measures(ALL_WORLDS[name], IR_MEASURES))


def test_ir_measures_has_another_order_for_some() -> None:
    """RR with a cutoff breaks ties by id from the lowest up, RR without one from the highest down."""
    world = {"run": {"q": {"a": 1.0, "b": 1.0}}, "gold": {"q": {"a": 1}}}
    assert ask_ir_measures(world, {"mrr": "RR", "mrr@5": "RR@5"}) == {"mrr": {"q": 0.5}, "mrr@5": {"q": 1.0}}
    result = karat.evaluate(world["run"], world["gold"], ["mrr", "mrr@5"], like="ir_measures")
    assert result.means == {"mrr": 0.5, "mrr@5": 0.5}


@pytest.mark.parametrize("tool", ["ranx", "ir_measures", "ragas"])
@pytest.mark.parametrize("name", WORLDS)
def test_kept_values(tool: str, name: str) -> None:
    check(WORLDS[name], tool, WORLDS[name][tool])


def test_kept_values_are_many() -> None:
    assert set(KEPT["versions"]) == {"ranx", "ir_measures", "ragas"}
    for tool, least in {"ranx": 2000, "ir_measures": 1700, "ragas": 100}.items():
        assert sum(len(values) for world in WORLDS.values() for values in world[tool].values()) > least


def test_ragas_leaves_out_queries_without_hits() -> None:
    """Besides recall without relevant gold the one case in which the two differ: a list without any hit has no
    precision for ragas, and 0 here."""
    run, gold = {"q1": ["a", "x"], "q2": []}, {"q1": ["a", "b"], "q2": ["a"]}
    result = karat.evaluate(run, gold, like="ragas")
    assert [str(metric) for metric in result.metrics] == ["precision(by=returned)@1000", "recall@1000", "map(by=found)"]
    assert result.score("precision(by=returned)@1000") == {"q1": 0.5, "q2": 0.0}
    assert result.score("recall@1000") == {"q1": 0.5, "q2": 0.0}
    assert result.score("map(by=found)") == {"q1": 1.0, "q2": 0.0}


def test_what_is_said_wins() -> None:
    run, gold = TIED["run"], TIED["gold"]
    asked = ["ndcg@5", "ndcg(gain=exp)@5", "ndcg_burges@3", "ndcg( gain = exp )@4", "precision(rel=2)@5"]
    result = karat.evaluate(run, gold, asked, like="ranx", ties="id")
    names = ["ndcg(gain=linear)@5", "ndcg@5", "ndcg@3", "ndcg@4", "precision(rel=2)@5"]
    assert [str(metric) for metric in result.metrics] == names
    rules = result.rules
    assert (rules.missing, rules.ties, rules.score_width, rules.no_relevant) == ("worst", "id", 64, "zero")
    assert result.audit["no_relevant_zero"] == 1
    with pytest.raises(karat.KaratError):
        karat.evaluate(run, gold, like="nobody")


def test_on_the_command_line(tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    for name in ("run", "gold"):
        (tmp_path / f"{name}.json").write_text(json.dumps(TIED[name]))
    asked = ["eval", str(tmp_path / "run.json"), "--gold", str(tmp_path / "gold.json"), "--json"]
    code, out, _ = karat_command(*asked, "-m", "ndcg@10,map", "--like", "trec_eval")
    found = json.loads(out)
    theirs = ask_trec_eval(TIED)
    assert code == 0
    for name, ours in {"ndcg@10": "ndcg(gain=linear)@10", "map": "map"}.items():
        assert {query: one[ours] for query, one in found["scores"].items()} == pytest.approx(theirs[name], abs=1e-12)
    code, out, _ = karat_command(*asked, "--like", "trec_eval")
    assert code == 0
    assert "ndcg(gain=linear)@5" in {row["metric"] for row in json.loads(out)["summary"]}


def test_listed_order_of_ties() -> None:
    for ties, score in (("listed", 1.0), ("id", 0.5)):
        result = karat.evaluate({"q": {"a": 1.0, "b": 1.0}}, {"q": ["a"]}, ["mrr"], ties=ties)
        assert result.means["mrr"] == score
        assert (result.audit["score_ties"], result.audit["listed_ties"]) == ((1, 0) if ties == "id" else (0, 1))


def test_a_query_that_has_no_answer_stays_undefined() -> None:
    gold = [{"query_id": "q", "gold": {"a": 0}}, {"query_id": "n", "no_answer": True}, {"query_id": "r", "gold": ["a"]}]
    run = {"q": ["a"], "n": ["a"], "r": ["a"]}
    result = karat.evaluate(run, gold, ["recall@5"], no_relevant="zero")
    assert result.score("recall@5") == {"q": 0.0, "n": None, "r": 1.0}
    assert result.means["recall@5"] == 0.5
    assert result.measure(["mrr"]).means["mrr"] == 0.5
