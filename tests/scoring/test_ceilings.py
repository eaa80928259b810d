"""Random floors: what every possible list scores on average, counted list by list."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karat
from karat.data.corpus import Corpus
from karat.report.export import export
from karat.scoring import ceilings

METRICS = ["recall@3", "hit@3", "precision@3", "auc_recall@3", "recall(level=doc)@3", "precision@9", "auc_recall@9"]


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def floors(run: Any, gold: Any, metrics: list[str] = METRICS, **options: Any) -> dict[str, float | None]:
    return {row.metric: row.floor for row in karat.evaluate(run, gold, metrics, **options).summary_rows}


def test_documents_cut_into_chunks(tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    """20 documents of 10 chunks: five draws bring one of a document's chunks with chance 1 − C(190, 5) / C(200, 5)."""
    corpus = lines(tmp_path / "corpus.jsonl", [{"_id": f"d{i}#{j}", "text": "x"} for i in range(20) for j in range(10)])
    gold = lines(tmp_path / "gold.jsonl", [{"query_id": f"q{i}", "gold": [f"d{i}"]} for i in range(20)])
    run = lines(tmp_path / "run.jsonl", [{"query_id": f"q{i}", "topk": [{"chunk_id": f"d{i}#3"}]} for i in range(20)])
    asked = [str(a) for m in ("recall@5", "hit@5", "precision@5") for a in ("-m", m)]
    _, printed, _ = karat_command("eval", str(run), "--gold", str(gold), "--corpus", str(corpus), *asked, "--json")
    rows = {row["metric"]: row["floor"] for row in json.loads(printed)["summary"]}
    found = 1 - comb(190, 5) / comb(200, 5)
    assert rows == pytest.approx({"recall@5": found, "hit@5": found, "precision@5": 10 / 200})


def of_chunks(ids: list[str]) -> Corpus:
    return Corpus("corpus", ids, [""] * len(ids), ["x"] * len(ids))


CHUNKS = ["a#1", "a#2", "a#3", "b#1", "c#1", "c#2", "e"]


@pytest.mark.parametrize(
    "gold",
    [
        ["a"],
        ["a", "b"],
        ["a#2", "c"],
        ["a#2", "a"],  # a chunk by its own name no longer counts for its document
        ["e", "gone"],  # what the corpus lacks is never drawn
        ["gone#1"],
        {"a": 1, "a#1": 0},
        [{"doc_id": "c"}, {"chunk_id": "c#1"}, "e"],
    ],
)
def test_every_list_counted(gold: Any) -> None:
    every = [list(drawn) for drawn in permutations(CHUNKS, 3)]
    whole = [CHUNKS]  # nine places, seven items: order does not matter to precision
    corpus = of_chunks(CHUNKS)

    def means(lists: list[list[str]], metrics: list[str]) -> dict[str, float | None]:
        run = {f"q{i}": drawn for i, drawn in enumerate(lists)}
        return karat.evaluate(run, [{"query_id": q, "gold": gold} for q in run], metrics, corpus=corpus).means

    found = floors({"q0": ["a#1"]}, [{"query_id": "q0", "gold": gold}], corpus=corpus)
    expected = means(every, METRICS[:5]) | means(whole, ["precision@9"])
    del found["auc_recall@9"]
    assert found == pytest.approx(expected)


def test_depths_past_the_corpus() -> None:
    every = {f"q{i}": list(drawn) for i, drawn in enumerate(permutations(CHUNKS[:5]))}
    gold = [{"query_id": q, "gold": ["a", "b"]} for q in every]
    corpus = of_chunks(CHUNKS[:5])
    expected = karat.evaluate(every, gold, ["auc_recall@8"]).means
    assert floors({"q0": ["b"]}, gold[:1], ["auc_recall@8"], corpus=corpus) == pytest.approx(expected)


def test_none_where_only_the_size_is_known() -> None:
    """How many chunks a document has is not known; a chunk is one of them."""
    gold = {"q": ["d"], "p": ["d#2"]}
    found = floors({"q": ["d#1"], "p": ["d#1"]}, gold, METRICS[:5], corpus_size=200)
    assert found == dict.fromkeys(METRICS[:5])
    [row] = karat.evaluate({"p": ["d#1"]}, {"p": ["d#2"]}, ["recall@5"], corpus_size=200).summary_rows
    assert row.floor == pytest.approx(5 / 200)


def test_none_where_the_size_is_another_corpus() -> None:
    """The corpus at hand is a part of the real one: of a document's chunks some may be missing."""
    corpus = of_chunks(CHUNKS)
    assert floors({"q": ["a#1"]}, {"q": ["a"]}, ["recall@3"], corpus=corpus, corpus_size=500) == {"recall@3": None}


def test_a_saved_result_has_the_same_floors(tmp_path: Path) -> None:
    corpus = of_chunks(CHUNKS)
    result = karat.evaluate({"q": ["a#1"], "p": []}, {"q": ["a"], "p": ["c", "b#1"]}, METRICS, corpus=corpus)
    for target in (f"{tmp_path}/saved.json", f"result={tmp_path}/saved.parquet"):
        again = karat.load(export([result], target))
        assert isinstance(again, karat.Result)
        assert [row.floor for row in again.summary_rows] == [row.floor for row in result.summary_rows]
        assert again.measure(["hit@2"]).summary_rows[0].floor == result.measure(["hit@2"]).summary_rows[0].floor


def test_equal_queries_share_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large sets compute the ceiling of one query of each kind: of the same grades and the same cutoff."""
    rng = np.random.default_rng(0)
    names = [f"q{i}" for i in range(300)]
    grades = [rng.choice([0, 1, 1, 2, 2.5], rng.integers(0, 7)).tolist() for _ in names]
    gold = [
        {
            "query_id": name,
            "gold": [{"id": f"d{i}", "grade": g} for i, g in enumerate(of)],
            "k": int(rng.integers(1, 4)),
        }
        for name, of in zip(names, grades, strict=True)
    ]
    run = {name: ["d3", "x", "d0"] for name in names}
    asked = ["recall@k", "recall@2", "ndcg@3", "ndcg(gain=linear)@5", "precision@3", "f1@2", "mrr", "map", "rprecision"]
    asked += ["hit@1", "wrecall@2", "auc_recall@3", "rbp", "bpref"]
    one_by_one = karat.evaluate(run, gold, asked).ceilings
    monkeypatch.setattr(ceilings, "_FEW", 1)
    by_kind = karat.evaluate(run, gold, asked).ceilings
    for name in asked:
        assert np.array_equal(one_by_one[name], by_kind[name], equal_nan=True), name
