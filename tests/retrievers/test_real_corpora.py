"""Baselines on corpora that nobody here has made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bm25_peers import peers

import karat
from karat.formats.corpus import read_corpus

_METRICS = ["ndcg@10", "recall@10"]


def means(shared: Path, name: str) -> dict[str, float]:
    folder = shared / name
    found = karat.systems.baseline_ladder(folder, folder, runs=[folder / "bm25.run"], metrics=_METRICS)
    assert found.skipped == {}
    return {rung.system: rung.values[0].mean or 0.0 for rung in found.rungs}


@pytest.mark.parametrize("name", ["cranfield", "adi"])
def test_bm25_is_in_line_with_the_run_that_lies_there(shared_data: Path, name: str) -> None:
    found = means(shared_data, name)
    assert found["bm25"] == pytest.approx(found["bm25s"], abs=0.03)
    assert found["hybrid"] >= min(found["bm25"], found["dense"])
    assert found["random"] < found["bm25:title"] < found["bm25"]


@pytest.mark.parametrize("name", ["cranfield", "adi", "mtrag_un", "lihua_world"])
def test_bm25_is_as_good_as_bm25s_and_lucene(
    shared_data: Path, name: str, karat_command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    folder, run = shared_data / name, tmp_path / "run.jsonl"
    code, _, _ = karat_command("run", "bm25", "-q", str(folder), "--corpus", str(folder), "-o", str(run))
    assert code == 0
    corpus, gold = read_corpus(folder), karat.read_gold(folder)
    texts = {i: f"{t}\n{x}" for i, t, x in zip(corpus.ids, corpus.titles, corpus.texts, strict=True)}
    queries = {query: gold.text(at) or "" for at, query in enumerate(gold.queries)}

    def ndcg(run: object) -> float:
        return karat.evaluate(run, gold, ["ndcg@10"]).means["ndcg@10"] or 0.0

    assert ndcg(run) >= max(ndcg(search(texts, queries)) for search in peers().values()) - 0.005
