"""One run, one order: whatever form a run comes in, scores are compared as trec_eval compares them, in 32 bits."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import pytrec_eval

import karat

pytestmark = pytest.mark.usefixtures("reader")

# Of this run 29 of 30 topics have scores that differ only beyond 32 bits.
RUN = "BERT"
MEASURES = {
    "map": "map",
    "mrr": "recip_rank",
    "rprecision": "Rprec",
    "bpref": "bpref",
    "ndcg(gain=linear)@10": "ndcg_cut_10",
    **{f"precision@{k}": f"P_{k}" for k in (5, 10, 100)},
    **{f"recall@{k}": f"recall_{k}" for k in (5, 10, 100)},
}
Scores = dict[str, dict[str, float]]


def read_scores(path: Path) -> Scores:
    found: Scores = {}
    for line in path.read_text().splitlines():
        query, _, document, _, score, *_ = line.split()
        found.setdefault(query, {})[document] = float(score)
    return found


def rows(run: Scores) -> list[dict[str, Any]]:
    return [{"query_id": q, "chunk_id": d, "score": s} for q, hits in run.items() for d, s in hits.items()]


def as_run_log(run: Scores, folder: Path) -> Path:
    path = folder / "run.jsonl"
    hits = {q: [{"chunk_id": d, "score": s} for d, s in found.items()] for q, found in run.items()}
    path.write_text("".join(json.dumps({"query_id": q, "topk": topk}) + "\n" for q, topk in hits.items()))
    return path


def as_csv(run: Scores, folder: Path) -> Path:
    path = folder / "run.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["query_id", "chunk_id", "score"])
        writer.writeheader()
        writer.writerows(rows(run))
    return path


def as_parquet(run: Scores, folder: Path) -> Path:
    path = folder / "run.parquet"
    pl.DataFrame(rows(run)).write_parquet(path)
    return path


FORMS: dict[str, Callable[[Scores, Path], Any]] = {
    "dict": lambda run, folder: run,
    "run log": as_run_log,
    "CSV": as_csv,
    "Parquet": as_parquet,
    "frame": lambda run, folder: pl.DataFrame(rows(run)),
}


@pytest.fixture(scope="module")
def covid(shared_data: Path) -> Path:
    return shared_data / "trec_covid_r1"


@pytest.fixture(scope="module")
def theirs(covid: Path) -> dict[str, dict[str, float]]:
    gold: dict[str, dict[str, int]] = {}
    for line in (covid / "qrels-rnd1.txt").read_text().splitlines():
        query, _, document, grade = line.split()
        gold.setdefault(query, {})[document] = int(grade)
    found = pytrec_eval.RelevanceEvaluator(gold, set(MEASURES.values())).evaluate(read_scores(covid / "runs" / RUN))
    return {ours: {query: values[name] for query, values in found.items()} for ours, name in MEASURES.items()}


def check(result: karat.Result, theirs: dict[str, dict[str, float]]) -> None:
    for name, values in theirs.items():
        assert result.score(name) == pytest.approx(values, abs=1e-12), name
    assert result.audit["score_ties"] == result.audit["score_width"] == 29


def test_trec_file(covid: Path, theirs: dict[str, dict[str, float]]) -> None:
    check(karat.evaluate(covid / "runs" / RUN, covid / "qrels-rnd1.txt", list(MEASURES)), theirs)


@pytest.mark.parametrize("form", FORMS)
def test_other_forms(covid: Path, theirs: dict[str, dict[str, float]], form: str, tmp_path: Path) -> None:
    run = FORMS[form](read_scores(covid / "runs" / RUN), tmp_path)
    check(karat.evaluate(run, covid / "qrels-rnd1.txt", list(MEASURES)), theirs)


@pytest.mark.parametrize("form", ["TREC", *FORMS])
def test_in_64_bits(covid: Path, theirs: dict[str, dict[str, float]], form: str, tmp_path: Path) -> None:
    """As all digits say: the naive answer, without any tie."""
    path, qrels = covid / "runs" / RUN, covid / "qrels-rnd1.txt"
    run = read_scores(path)
    ranked = {query: sorted(hits, key=hits.__getitem__, reverse=True) for query, hits in run.items()}
    naive = karat.evaluate(ranked, qrels, list(MEASURES))
    given = path if form == "TREC" else FORMS[form](run, tmp_path)
    result = karat.evaluate(given, qrels, list(MEASURES), score_width=64)
    assert result.audit["score_ties"] == result.audit["score_width"] == 0
    moved = 0
    for name, values in theirs.items():
        assert result.score(name) == naive.score(name)
        moved += sum(result.score(name)[query] != pytest.approx(value, abs=1e-12) for query, value in values.items())
    assert moved > 0


def test_on_the_command_line(
    covid: Path, theirs: dict[str, dict[str, float]], karat_command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path, qrels = as_run_log(read_scores(covid / "runs" / RUN), tmp_path), covid / "qrels-rnd1.txt"
    found = {}
    for given in ([], ["--score-width", "64"]):
        code, out, _ = karat_command("eval", str(path), "--gold", str(qrels), "-m", "map", "--json", *given)
        assert code == 0
        result = json.loads(out)
        found[result["settings"]["score_width"]] = {query: one["map"] for query, one in result["scores"].items()}
    assert found[32] == pytest.approx(theirs["map"], abs=1e-12)
    assert found[64] != pytest.approx(theirs["map"], abs=1e-12)


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("form", ["trec", "dict"])
def test_the_threshold_is_compared_in_full(tmp_path: Path, form: str, width: int) -> None:
    """0.3 and 0.30000001 are the same number in 32 bits, and the threshold still parts them."""
    run: Any = {"q": {"a": 0.3, "b": 0.30000001}}
    if form == "trec":
        run = tmp_path / "run.trec"
        run.write_text("q Q0 a 1 0.3 t\nq Q0 b 2 0.30000001 t\n")
    result = karat.evaluate(run, {"q": ["a", "b"]}, ["recall@5"], min_score=0.300000005, score_width=width)
    assert (result.means["recall@5"], result.audit["pruned_hits"]) == (0.5, 1)


def test_scores_out_of_the_range_of_32_bits(tmp_path: Path) -> None:
    """trec_eval takes both for infinite, and both of the small ones for 0: ties, which the id decides."""
    text = "q Q0 a 1 2e39 t\nq Q0 b 2 1e39 t\nr Q0 a 1 2e-60 t\nr Q0 b 2 1e-60 t\n"
    path = tmp_path / "run.trec"
    path.write_text(text)
    scores = read_scores(path)
    for run in (path, scores):
        found = {w: karat.evaluate(run, {"q": ["a"], "r": ["a"]}, ["mrr"], score_width=w) for w in (32, 64)}
        assert found[32].score("mrr") == {"q": 0.5, "r": 0.5}
        assert found[64].score("mrr") == {"q": 1.0, "r": 1.0}
        assert (found[32].audit["score_width"], found[64].audit["score_width"]) == (2, 0)
    theirs = pytrec_eval.RelevanceEvaluator({"q": {"a": 1}, "r": {"a": 1}}, {"recip_rank"}).evaluate(scores)
    assert {query: values["recip_rank"] for query, values in theirs.items()} == {"q": 0.5, "r": 0.5}
