"""What plain word search scores stands beside the scores of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import karat
from karat.data.corpus import Corpus
from karat.errors import MissingExtra
from karat.report.build import evaluation_report, full_report
from karat.report.renderers.html import render_html
from karat.report.renderers.markdown import render_markdown
from karat.results import bm25_baseline
from karat.results.evaluate import evaluate_all
from karat.results.save import restore, saved_form
from karat.retrievers.bm25 import BM25
from karat.systems.run import run_retriever

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, GOLD, CORPUS = (DEMO / f"{name}.jsonl" for name in ("bm25_rerank", "gold", "corpus"))
METRICS = ["recall@5", "ndcg@5", "mrr", "latency_p50"]

PETS = Corpus("pets", ["a", "b"], ["", ""], ["the cat sleeps", "a dog barks"])
PET_RUN = [{"query_id": "q1", "topk": ["b"]}, {"query_id": "q2", "topk": ["b"]}]
PET_GOLD = [
    {"query_id": "q1", "query": "cat", "gold": ["a"]},
    {"query_id": "q2", "query": "barks", "gold": ["b"]},
    {"query_id": "q3", "query": "horse", "gold": ["b"]},  # word search finds nothing, and has failed
]


def test_a_corpus_is_searched_as_the_retriever_would() -> None:
    result = karat.evaluate(RUN, GOLD, METRICS, corpus=CORPUS, analyses=True)
    alone = karat.evaluate(run_retriever("bm25", GOLD, corpus=CORPUS, k=10).run, GOLD, METRICS)
    assert {**alone.means, "latency_p50": None} == result.bm25
    assert karat.evaluate(PET_RUN, PET_GOLD, ["recall@1"], corpus=PETS, analyses=True).bm25 == {"recall@1": 2 / 3}


DEEP = Corpus("deep", [f"d{i:02}" for i in range(80)], [""] * 80, [f"cat {'and so on ' * i}" for i in range(80)])
DEEP_GOLD = [{"query_id": "q", "query": "cat", "gold": ["d04", "d60"]}]  # word search returns d00, d01, …


@pytest.mark.parametrize(("depth", "found"), [(3, 0.0), (5, 0.5), (60, 0.5), (61, 1.0), (80, 1.0)])
@pytest.mark.parametrize("as_run", [False, True])
def test_word_search_returns_as_many_hits_as_the_run(depth: int, found: float, as_run: bool) -> None:
    run = [{"query_id": "q", "topk": [f"x{i}" for i in range(depth - 1)] + ["d04"]}]
    options: dict[str, Any] = {"corpus": DEEP}
    if as_run:
        options = {"bm25": run_retriever("bm25", DEEP_GOLD, corpus=DEEP, k=80).run}
    result = karat.evaluate(run, DEEP_GOLD, ["recall@100", "mrr"], analyses=True, **options)
    assert result.bm25 == {"recall@100": found, "mrr": 1 / 5 if found else 0.0}
    assert restore(saved_form(result)).bm25 == result.bm25


def test_each_system_of_a_run_has_word_search_of_its_own_depth() -> None:
    run = [{"query_id": "q", "system": f"s{n}", "topk": [f"d{i:02}" for i in range(n)]} for n in (3, 5, 61)]
    results = evaluate_all(run, DEEP_GOLD, ["recall@100"], corpus=DEEP, analyses=True)
    assert {name: r.bm25["recall@100"] for name, r in results.items()} == {"s3": 0.0, "s5": 0.5, "s61": 1.0}
    assert karat.evaluate(run[2:], DEEP_GOLD, ["recall@100"], corpus=DEEP, analyses=True, top_k=5).bm25 == {
        "recall@100": 0.5
    }


def test_a_threshold_for_the_scores_of_the_run_says_nothing_of_those_of_word_search() -> None:
    scored = [{"query_id": "q1", "topk": [{"chunk_id": "b", "score": 900.0}]}]
    assert karat.evaluate(scored, PET_GOLD, ["recall@1"], corpus=PETS, min_score=500, analyses=True).bm25 == {
        "recall@1": 2 / 3
    }


def test_a_run_of_it_may_stand_beside_instead(karat_command: Any) -> None:
    code, out, err = karat_command(
        "eval", str(RUN), "-g", str(GOLD), "-m", "recall@5", "--bm25", str(DEMO / "bm25.jsonl")
    )
    assert (code, err) == (0, "")
    row = next(line.split() for line in out.splitlines() if line.startswith("recall@5"))
    before = karat.evaluate(DEMO / "bm25.jsonl", GOLD, ["recall@5"]).means["recall@5"]
    assert f"{before:.4f}" in row


@pytest.mark.parametrize("options", [{}, {"corpus_size": 708}, {"corpus": CORPUS}])
def test_every_report_shows_what_is_known(options: dict[str, Any]) -> None:
    result = karat.evaluate(RUN, GOLD, **options)
    shown = render_markdown(evaluation_report(result)), render_html(full_report([result])).decode()
    for name, known in (("ceiling", True), ("random floor", options), ("BM25", "corpus" in options)):
        assert [f"| {name} " in shown[0], f"<span>{name}</span></li>" in shown[1]] == [bool(known)] * 2, name


def test_a_saved_result_keeps_all_three() -> None:
    result = karat.evaluate(RUN, GOLD, METRICS, corpus=CORPUS, analyses=True)
    saved = restore(saved_form(result))
    assert saved.bm25 == result.bm25
    bounds = [(row.ceiling, row.floor) for row in result.summary_rows]
    assert [(row.ceiling, row.floor) for row in saved.summary_rows] == bounds
    assert bounds[0][1] is not None


def test_where_it_cannot_be_had_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = [{"query_id": "q1", "gold": ["a"]}]

    def said(gold: Any) -> str:
        result = karat.evaluate(
            PET_RUN, gold, ["recall@1"], corpus=Corpus("pets", PETS.ids, PETS.titles, PETS.texts), analyses=True
        )
        assert result.bm25 == {}
        return render_markdown(evaluation_report(result))

    assert "BM25" in said(mute)
    with monkeypatch.context() as patch:
        patch.setattr(bm25_baseline, "_MOST", 10)
        assert "BM25" in said(PET_GOLD)

    def index(self: BM25, corpus: Corpus) -> None:
        raise MissingExtra("word search", "Stemmer", "baselines")

    monkeypatch.setattr(BM25, "index", index)
    assert "pip install" in said(PET_GOLD)
