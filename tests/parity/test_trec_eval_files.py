"""Karat equals what NIST's trec_eval printed, and what NIST published for TREC-COVID, to 4 decimals."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import karat

pytestmark = pytest.mark.usefixtures("reader")

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)

# trec_eval's name → Karat's; the relevance level stands in the place of {rel}.
MEASURES = {
    "map": "map{rel}",
    "recip_rank": "mrr{rel}",
    "Rprec": "rprecision{rel}",
    "bpref": "bpref{rel}",
    **{f"P_{k}": f"precision{{rel}}@{k}" for k in CUTOFFS},
    **{f"recall_{k}": f"recall{{rel}}@{k}" for k in CUTOFFS},
    **{f"map_cut_{k}": f"map{{rel}}@{k}" for k in CUTOFFS},
    **{f"success_{k}": f"hit{{rel}}@{k}" for k in (1, 5, 10)},
    # Gains by grade, whatever the relevance level.
    **{f"ndcg_cut_{k}": f"ndcg(gain=linear)@{k}" for k in CUTOFFS},
}
JUDGED = (5, 10, 20)
# Found by trying: of .5, .8, .9 and .95 only this gives trec_eval's values.
TREC_EVAL_P = 0.9


class Case(NamedTuple):
    """One call of trec_eval: what it read and what it printed."""

    printed: str
    run: str
    qrels: str
    level: int = 1
    missing: tuple[str, ...] = ()

    def names(self) -> dict[str, str]:
        rel = "" if self.level == 1 else f"(rel={self.level})"
        return {theirs: ours.format(rel=rel) for theirs, ours in MEASURES.items()}


CASES = {
    "plain": Case("out.test.aq", "results.test", "qrels.test"),
    "-c": Case("out.test.aqc", "results.trunc", "qrels.test", missing=("302",)),
    "-l2": Case("out.test.aql", "results.test", "qrels.rel_level", level=2),
}

Evaluate = Callable[[str], tuple[dict[str, dict[str, float]], karat.Result]]


def to_four_decimals(printed: float) -> object:
    """Equal to a number that was printed with four decimals."""
    return pytest.approx(printed, abs=0.5e-4 + 1e-9)


def graded_rbp(p: float, top: int) -> list[str]:
    """RBP with gain grade / top is the mean of the binary RBPs over the levels 1 … top."""
    return [f"rbp(rel={level},p={p:g})" for level in range(1, top + 1)]


def read_printed(path: Path) -> dict[str, dict[str, float]]:
    """Query (or `all`) → measure → value."""
    values: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines():
        measure, query, value = line.split(maxsplit=2)
        if measure != "runid" and not measure.startswith("relstring"):
            values.setdefault(query, {})[measure] = float(value)
    return values


@pytest.fixture(scope="module")
def evaluated(shared_data: Path) -> Evaluate:
    folder = shared_data / "trec_eval"

    @cache
    def evaluate(name: str) -> tuple[dict[str, dict[str, float]], karat.Result]:
        case = CASES[name]
        metrics = [*case.names().values(), *(f"judged@{k}" for k in JUDGED)]
        metrics += [f"rbp(p={TREC_EVAL_P})", f"rbp_residual(p={TREC_EVAL_P})", *graded_rbp(TREC_EVAL_P, 4)]
        return read_printed(folder / case.printed), karat.evaluate(folder / case.run, folder / case.qrels, metrics)

    return evaluate


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", CASES)
def test_nist_output(evaluated: Evaluate, name: str, measure: str) -> None:
    printed, result = evaluated(name)
    ours = CASES[name].names()[measure]
    scores = result.score(ours)
    assert {*scores, "all"} == {*printed, *CASES[name].missing}
    for query, values in printed.items():
        got = result.means[ours] if query == "all" else scores[query]
        assert got == to_four_decimals(values[measure]), query
    for query in CASES[name].missing:
        assert scores[query] == 0.0


@pytest.mark.parametrize("k", JUDGED)
@pytest.mark.parametrize("name", CASES)
def test_unjudged(evaluated: Evaluate, name: str, k: int) -> None:
    """trec_eval's unj_k is what judged@k leaves; a missing query shows no hit that could be judged."""
    printed, result = evaluated(name)
    scores = result.score(f"judged@{k}")
    for query in CASES[name].missing:
        assert scores.pop(query) is None
    for query, score in scores.items():
        assert score is not None
        assert 1.0 - score == to_four_decimals(printed[query][f"unj_{k}"]), query


@pytest.mark.parametrize("name", ["plain", "-c"])
def test_rbp_on_binary_gold(evaluated: Evaluate, name: str) -> None:
    printed, result = evaluated(name)
    metric = f"rbp(p={TREC_EVAL_P})"
    for query, values in printed.items():
        got = result.means[metric] if query == "all" else result.score(metric)[query]
        assert got == to_four_decimals(values["rbp"]), query


def test_rbp_on_graded_gold(evaluated: Evaluate) -> None:
    """trec_eval's gain is grade / highest grade of the query, whatever the relevance level."""
    printed, result = evaluated("-l2")
    for query, top in {"301": 4, "302": 3, "303": 2}.items():
        levels = [result.score(metric)[query] or 0.0 for metric in graded_rbp(TREC_EVAL_P, top)]
        assert sum(levels) / top == to_four_decimals(printed[query]["rbp"]), query


@pytest.mark.parametrize("name", CASES)
def test_rbp_residual(evaluated: Evaluate, name: str) -> None:
    """trec_eval adds 0 for a missing query, of which all is unknown: Karat says 1."""
    printed, result = evaluated(name)
    metric = f"rbp_residual(p={TREC_EVAL_P})"
    scores = result.score(metric)
    missing = [scores.pop(query) for query in CASES[name].missing]
    assert missing == [1.0] * len(missing)
    for query, score in scores.items():
        assert score == to_four_decimals(printed[query]["rbp_resid"]), query
    theirs = printed["all"]["rbp_resid"] + len(missing) / (len(scores) + len(missing))
    assert result.means[metric] == to_four_decimals(theirs)


# TREC-COVID, round 1: NIST's means are over all topics of the qrels.

RUNS = ("sheikh_bm25_manual", "ir_covid19_cle_dfr", "sheikh_bm25_all", "BERT", "lda400s2000")
OFFICIAL = {"ndcg@10": "ndcg(gain=linear)@10", "p@5": "precision@5", "bpref": "bpref", "MAP": "map"}


@pytest.fixture(scope="module")
def official(shared_data: Path) -> dict[str, dict[str, str]]:
    """Run → NIST's row."""
    with (shared_data / "trec_covid_r1" / "official.csv").open(newline="") as stream:
        return {row["run"]: row for row in csv.DictReader(stream)}


def evaluate_covid(shared_data: Path, run: str, metrics: list[str]) -> karat.Result:
    folder = shared_data / "trec_covid_r1"
    return karat.evaluate(folder / "runs" / run, folder / "qrels-rnd1.txt", metrics)


def test_every_official_run_is_tested(official: dict[str, dict[str, str]]) -> None:
    assert set(official) == set(RUNS)


@pytest.mark.parametrize("run", RUNS)
def test_trec_covid(shared_data: Path, official: dict[str, dict[str, str]], run: str) -> None:
    result = evaluate_covid(shared_data, run, list(OFFICIAL.values()))
    assert len(result.queries) == 30
    for column, metric in OFFICIAL.items():
        assert result.means[metric] == to_four_decimals(float(official[run][column])), metric


@pytest.mark.parametrize("run", RUNS)
def test_trec_covid_rbp(shared_data: Path, official: dict[str, dict[str, str]], run: str) -> None:
    """Graded: grade 2 gains 1, grade 1 a half."""
    levels = graded_rbp(0.5, 2)
    means = evaluate_covid(shared_data, run, levels).means
    got = sum(means[level] or 0.0 for level in levels) / 2
    assert got == to_four_decimals(float(official[run]["RBP(p=.5)"]))
