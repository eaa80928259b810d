"""Several systems in one file: what is true of one is not taken for true of another."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.formats.corpus import Chunker, read_corpus
from karat.labels.pool import make_pool
from karat.results.evaluate import evaluate_all
from karat.systems.stress.stress import stress_test

METRICS = ["recall@5", "precision@5", "recall(level=doc)@5"]
CHUNKERS = {"small": Chunker(50, 10), "large": Chunker(120, 20)}


def write(path: Path, lines: Iterable[Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    rng = random.Random(1)
    folder = tmp_path / "texts"
    folder.mkdir()
    for doc in range(6):
        (folder / f"d{doc}.txt").write_text(" ".join(f"w{rng.randrange(3000)}" for _ in range(400)))
    return folder


@pytest.fixture
def gold(texts: Path, tmp_path: Path) -> str:
    rng, lines = random.Random(2), []
    for number in range(24):
        doc = f"d{number % 6}.txt"
        words = (texts / doc).read_text().split()
        start = rng.randrange(390)
        quote = " ".join(words[start : start + 8])
        item = {"doc_id": doc, "quote": quote}
        lines.append({"query_id": f"q{number}", "query": quote, "gold": [item], "negatives": ["d0.txt#0-1"]})
    return write(tmp_path / "gold.jsonl", lines)


def logged(texts: Path, gold: str, system: str) -> list[dict[str, Any]]:
    """Every second query has a chunk with the quote at rank 2."""
    corpus, rng = read_corpus(texts, CHUNKERS[system]), random.Random(3)
    lines = []
    for number, line in enumerate(Path(gold).read_text().splitlines()):
        entry = json.loads(line)
        holders = chunks_with(entry, zip(corpus.ids, corpus.texts, strict=True))
        others = [item for item in rng.sample(corpus.ids, 9) if item not in holders]
        hits = [others[0], *holders[:1], *others[1:3]] if number % 2 else others[:4]
        chunker = CHUNKERS[system].settings()
        lines.append({"query_id": entry["query_id"], "system": system, "chunker": chunker, "topk": hits})
    return lines


def chunks_with(entry: dict[str, Any], chunks: Iterable[tuple[str, str]]) -> list[str]:
    item = entry["gold"][0]
    return [name for name, text in chunks if name.startswith(item["doc_id"] + "#") and item["quote"] in text]


def naive_recall(texts: Path, gold: str, run: list[dict[str, Any]], k: int) -> float:
    """Share of queries with a chunk in the first k that has the quote in its own text; offsets are in its id."""
    found = 0
    for line, entry in zip(run, map(json.loads, Path(gold).read_text().splitlines()), strict=True):
        hits = []
        for item in line["topk"][:k]:
            doc, start, end = item.replace("#", "-").rsplit("-", 2)
            hits.append((item, (texts / doc).read_text()[int(start) : int(end)]))
        found += bool(chunks_with(entry, hits))
    return found / len(run)


@pytest.mark.parametrize("order", ["one after the other", "line by line"])
def test_two_chunkers_in_one_file_score_as_each_alone(texts: Path, gold: str, tmp_path: Path, order: str) -> None:
    runs = {system: logged(texts, gold, system) for system in CHUNKERS}
    small, large = runs.values()
    mixed = [*small, *large]
    if order == "line by line":
        mixed.sort(key=lambda line: str(line["query_id"]))
    both = evaluate_all(write(tmp_path / "run.jsonl", mixed), gold, corpus=texts)
    for system, lines in runs.items():
        alone = karat.evaluate(write(tmp_path / f"{system}.jsonl", lines), gold, corpus=texts)
        assert both[system].means == alone.means
        assert both[system].means["recall@5"] == naive_recall(texts, gold, lines, 5) > 0.3
        assert both[system].rules.corpus_size == len(read_corpus(texts, CHUNKERS[system]))
        # Ceilings, floors and the lists of word search belong to the chunks of the system, too.
        assert both[system].summary_rows == alone.summary_rows
        assert both[system].bm25 == alone.bm25


def chance(chunks: int, of_document: int, k: int) -> float:
    """That one of k chunks drawn without putting back is of the document."""
    return 1 - math.comb(chunks - of_document, k) / math.comb(chunks, k)


@pytest.mark.parametrize("first", CHUNKERS)
def test_the_floor_of_documents_counts_the_chunks_of_the_system(texts: Path, tmp_path: Path, first: str) -> None:
    gold = {f"q{number}": [f"d{number % 6}.txt"] for number in range(12)}
    corpora = {system: read_corpus(texts, chunker).ids for system, chunker in CHUNKERS.items()}
    lines = [
        {"query_id": query, "system": system, "chunker": CHUNKERS[system].settings(), "topk": ids[:6]}
        for system, ids in sorted(corpora.items(), key=lambda each: each[0] != first)
        for query in gold
    ]
    found = evaluate_all(write(tmp_path / "run.jsonl", lines), gold, corpus=texts, metrics=METRICS)
    for system, ids in corpora.items():
        of_document = [sum(item.startswith(docs[0] + "#") for item in ids) for docs in gold.values()]
        recall = sum(chance(len(ids), count, 5) for count in of_document) / len(gold)
        precision = sum(count / len(ids) for count in of_document) / len(gold)
        floors = [row.floor for row in found[system].summary_rows]
        assert floors == pytest.approx([recall, precision, recall])


def test_one_of_several_systems_is_cut_its_own_way(texts: Path, gold: str, tmp_path: Path) -> None:
    small, large = (logged(texts, gold, system) for system in CHUNKERS)
    run = write(tmp_path / "run.jsonl", [*small, *large])
    found = karat.evaluate(run, gold, ["recall@5"], corpus=texts, system="large")
    assert found.means["recall@5"] == naive_recall(texts, gold, large, 5)


def test_a_system_with_two_chunkers_is_refused(texts: Path, gold: str, tmp_path: Path) -> None:
    small, large = (logged(texts, gold, system) for system in CHUNKERS)
    run = write(tmp_path / "run.jsonl", ({**line, "system": "both"} for line in [*small[:12], *large[12:]]))
    with refused("mixed-chunkers", file=run, field="chunker"):
        karat.evaluate(run, gold, corpus=texts)


def test_a_pool_has_the_texts_of_every_chunking(texts: Path, gold: str, tmp_path: Path) -> None:
    runs = [write(tmp_path / f"{system}.jsonl", logged(texts, gold, system)) for system in CHUNKERS]
    pool = make_pool(runs, gold, corpus=texts)
    assert {name for entry in pool.entries for name in entry.origin.ranks} == set(CHUNKERS)
    assert [entry.chunk_id for entry in pool.entries if not entry.text or not entry.title] == []


def test_a_stress_test_reads_the_chunks_of_its_system(texts: Path, gold: str, tmp_path: Path) -> None:
    small, large = (logged(texts, gold, system) for system in CHUNKERS)
    run = write(tmp_path / "run.jsonl", [*small, *large])
    seen: list[str | None] = []

    def reranker(query: str, hits: list[dict[str, Any]]) -> list[str]:
        seen.extend(hit.get("text") for hit in hits if hit["chunk_id"] != "d0.txt#0-1")
        return [hit["chunk_id"] for hit in hits]

    stress_test(run, gold, system="large", corpus=texts, reranker=reranker, at=[1], queries=5)
    assert seen
    assert None not in seen


DATED = [{"chunk_id": "new", "doc_version": "2025-07-01"}, {"chunk_id": "a", "doc_version": "2025-01-01"}]


@pytest.fixture
def dated(tmp_path: Path) -> tuple[str, str]:
    gold = [{"query_id": f"q{i}", "as_of": "2025-06-01", "gold": ["a"]} for i in range(30)]
    lines = [
        {"query_id": f"q{i}", "system": system, "topk": hits}
        for i in range(30)
        for system, hits in (("bare", ["b", "a"]), ("dated", DATED))
    ]
    return write(tmp_path / "run.jsonl", lines), write(tmp_path / "gold.jsonl", gold)


def test_versions_of_one_system_do_not_depend_on_another(dated: tuple[str, str]) -> None:
    as_returned = evaluate_all(*dated, ["freshness@2", "mrr"], analyses=True)
    assert as_returned["dated"].means == {"freshness@2": 0.5, "mrr": 0.5}
    assert as_returned["bare"].means == {"freshness@2": None, "mrr": 0.5}
    assert as_returned["dated"].analyses.found["freshness"].newer_hits == 30
    without = evaluate_all(*dated, ["mrr"], no_future=True)
    assert {system: result.means["mrr"] for system, result in without.items()} == {"dated": 1.0, "bare": 0.5}
    assert (without["dated"].audit["undated_hits"], without["bare"].audit["undated_hits"]) == (0, 60)


def test_versions_are_needed_of_at_least_one_system(dated: tuple[str, str]) -> None:
    with refused("no-versions", file=dated[0], field="doc_version"):
        evaluate_all(*dated, ["mrr"], no_future=True, system="bare")


def test_the_command_line_shows_every_system(
    dated: tuple[str, str], karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    code, printed, _ = karat_command("eval", dated[0], "--gold", dated[1], "-m", "mrr", "--no-future", "--brief")
    assert code == 0
    assert "dated" in printed
    assert "bare" in printed
