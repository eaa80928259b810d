"""Recall by the source of hits, against a loop over the lists."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from readers import choose_reader

import karat
from karat.data.corpus import Corpus
from karat.results.analyses.sources import BySource
from karat.results.evaluate import evaluate_all
from karat.scoring.engines.processes import Processes

K = 5


def made(seed: int = 3, queries: int = 40) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, str | None]]:
    """A run whose hits say their source, gold, and the source of every item. Some hits say none, some queries fail."""
    rng = random.Random(seed)
    source = {f"d{i}": rng.choice(["faq", "wiki", "mail", None]) for i in range(60)}
    run, gold = [], []
    for q in range(queries):
        listed = rng.sample(sorted(source), 12)
        hits = [{"chunk_id": i, **({} if source[i] is None else {"source": source[i]})} for i in listed]
        run += [] if q % 9 == 8 else [{"query_id": f"q{q}", "topk": hits}]
        relevant = rng.sample(listed[:8], 2) + rng.sample(sorted(set(source) - set(listed)), rng.randint(0, 2))
        gold.append({"query_id": f"q{q}", "gold": {i: rng.choice([0, 1, 2]) for i in relevant}})
    run[0]["topk"][0] |= {"source": "faq"}
    source[run[0]["topk"][0]["chunk_id"]] = "faq"
    for record in run:
        for hit in record["topk"]:
            if source[hit["chunk_id"]] is not None:
                hit["source"] = source[hit["chunk_id"]]
    return run, gold, source


def expected(run: list[dict[str, Any]], gold: list[dict[str, Any]], name: str) -> tuple[int, float, float]:
    """Hits from a source in the top k, share of queries with one, and the part of recall that they bring."""
    lists = {record["query_id"]: record["topk"][:K] for record in run}
    hits, queries, parts = 0, 0, []
    for entry in gold:
        mine = [h["chunk_id"] for h in lists.get(entry["query_id"], []) if h.get("source", "(none)") == name]
        relevant = {item for item, grade in entry["gold"].items() if grade > 0}
        hits, queries = hits + len(mine), queries + bool(mine)
        if relevant:
            parts.append(len(relevant & set(mine)) / len(relevant))
    return hits, queries / len(gold), sum(parts) / len(parts)


def found(run: Any, gold: Any, **options: Any) -> BySource:
    result = karat.evaluate(run, gold, k=K, **options)
    seen: BySource = result.analyses.found["sources"]
    parts = sum(one.brought.mean or 0.0 for one in seen.sources)
    assert parts == pytest.approx(result.measure([f"recall@{K}"]).means[f"recall@{K}"])
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_sources_without_a_route(tmp_path: Path, seed: int, karat_command: Any) -> None:
    run, gold, _ = made(seed)
    seen = found(run, gold)
    assert {one.source for one in seen.sources} == {"faq", "wiki", "mail", "(none)"}
    for one in seen.sources:
        mine = (one.hits, one.queries.mean, one.brought.mean)
        assert mine == pytest.approx(expected(run, gold, one.source))
        assert one.recall is None
    for name, lines in (("run", run), ("gold", gold)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = (str(tmp_path / "run.jsonl"), "--gold", str(tmp_path / "gold.jsonl"))
    code, out, _ = karat_command("eval", *files, "--k", str(K), "--json")
    assert code == 0
    told = json.loads(out)["analyses"]["sources"]["sources"]
    assert [(one["source"], one["hits"]) for one in told] == [(one.source, one.hits) for one in seen.sources]


def test_a_corpus_tells_what_is_in_each_source() -> None:
    run, gold, source = made()
    items = sorted(source)
    corpus = Corpus("c", items, [""] * 60, ["x"] * 60, {"source": [source[i] for i in items]})
    bare = [{**record, "topk": [hit["chunk_id"] for hit in record["topk"]]} for record in run]
    for lists in (run, bare):
        seen = {one.source: one for one in found(lists, gold, corpus=corpus).sources}
        for name in ("faq", "wiki", "mail"):
            mine = (seen[name].hits, seen[name].queries.mean, seen[name].brought.mean)
            assert mine == pytest.approx(expected(run, gold, name))
            values = []
            for entry in gold:
                top = next((r["topk"][:K] for r in run if r["query_id"] == entry["query_id"]), [])
                here = {i for i, grade in entry["gold"].items() if grade > 0 and source[i] == name}
                if here:
                    values.append(len(here & {hit["chunk_id"] for hit in top}) / len(here))
            recall = seen[name].recall
            assert recall is not None
            assert (recall.n, recall.mean) == (len(values), pytest.approx(sum(values) / len(values)))


FORMS = ["lines", "gzip", "outputs", "csv", "parquet", "lists", "records", "frame"]


def in_form(form: str, run: list[dict[str, Any]], folder: Path) -> Any:
    """The same run as a file or an object."""
    lines = "".join(json.dumps(record) + "\n" for record in run)
    rows = [(r["query_id"], h["chunk_id"], n, h.get("source")) for r in run for n, h in enumerate(r["topk"], 1)]
    frame = pl.DataFrame(rows, schema=["query_id", "chunk_id", "rank", "source"], orient="row")
    path = folder / "run"
    if form == "lines":
        path.write_text(lines)
    elif form == "gzip":
        path.write_bytes(gzip.compress(lines.encode()))
    elif form == "outputs":
        outputs = ({"id": r["query_id"], "actualOutput": json.dumps({"retrieved": r["topk"]})} for r in run)
        path.write_text("".join(json.dumps(output) + "\n" for output in outputs))
    elif form == "csv":
        frame.write_csv(path)
    elif form == "parquet":
        frame.write_parquet(path)
    elif form == "lists":
        pl.DataFrame([{"query_id": r["query_id"], "topk": r["topk"]} for r in run]).write_parquet(path)
    return {"records": run, "frame": frame}.get(form, path)


@pytest.mark.parametrize("form", FORMS)
def test_sources_of_every_form_whatever_the_first_query_says(tmp_path: Path, form: str) -> None:
    run, gold, _ = made()
    first = [{"chunk_id": hit["chunk_id"]} for hit in run[0]["topk"]]
    run = [{**run[0], "topk": first}, *run[1:]]
    seen = found(in_form(form, run, tmp_path), gold)
    assert {one.source for one in seen.sources} == {"faq", "wiki", "mail", "(none)"}
    for one in seen.sources:
        assert (one.hits, one.queries.mean, one.brought.mean) == pytest.approx(expected(run, gold, one.source))


@pytest.mark.parametrize("pure", ["0", "1", "in processes"])
@pytest.mark.parametrize("late", ["hit", "elsewhere"])
def test_sources_that_only_late_hits_say(tmp_path: Path, late: str, pure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head of the file has none, so that it is only noticed while the file is read."""
    run, gold, _ = made()
    bare = [{"chunk_id": hit["chunk_id"]} for hit in run[0]["topk"]]
    early = [{"query_id": f"x{i}", "topk": bare, "note": "n" * 100} for i in range(400)]
    lines = [{**r, "topk": r["topk"] if late == "hit" else [hit["chunk_id"] for hit in r["topk"]]} for r in run]
    if late == "elsewhere":
        lines[5]["source"] = {"source": "faq"}
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [*early, *lines]))
    assert b"source" not in path.read_bytes()[: 1 << 16]
    choose_reader(monkeypatch, pure.replace("in processes", "0"))
    monkeypatch.setattr("karat.formats.run_log._SLICE_HITS", 1000)
    engine = Processes(2, part=1 << 16, parts=2) if pure == "in processes" else "local"
    result = karat.evaluate(path, gold, k=K, engine=engine)
    if late == "hit":
        whole = tmp_path / "whole.jsonl"
        whole.write_text("".join(json.dumps(r) + "\n" for r in [*lines, *early]))
        assert result.analyses.found["sources"] == karat.evaluate(whole, gold, k=K).analyses.found["sources"]
    else:
        assert "sources" in result.analyses.lacking


def test_sources_of_one_system_do_not_depend_on_another(tmp_path: Path) -> None:
    run, gold, _ = made()
    bare = [{**r, "system": "bare", "topk": [hit["chunk_id"] for hit in r["topk"]]} for r in run]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [*bare, *({**r, "system": "said"} for r in run)]))
    both = evaluate_all(path, gold, k=K)
    assert "sources" in both["bare"].analyses.lacking
    for one in both["said"].analyses.found["sources"].sources:
        assert (one.hits, one.queries.mean, one.brought.mean) == pytest.approx(expected(run, gold, one.source))


def test_documents_are_in_the_source_of_their_chunks() -> None:
    """A document whose chunks are from two sources is in neither."""
    sources = {"a#1": "faq", "a#2": "faq", "b#1": "wiki", "c#1": "faq", "c#2": "wiki"}
    corpus = Corpus("c", list(sources), [""] * 5, ["x"] * 5, {"source": list(sources.values())})
    run = [{"query_id": "p", "topk": ["a#2", "c#1"]}, {"query_id": "q", "topk": ["a#1"]}]
    seen = {one.source: one.recall for one in found(run, {"p": ["a", "c"], "q": ["a", "b"]}, corpus=corpus).sources}
    assert (seen["faq"].n, seen["faq"].mean) == (2, 1.0)  # type: ignore[union-attr]


def test_chunks_of_a_document_count_once_for_the_source_that_came_first() -> None:
    hits = [{"chunk_id": "a#1", "source": "x"}, {"chunk_id": "a#2", "source": "y"}, {"chunk_id": "b#1", "source": "y"}]
    seen = found([{"query_id": "q", "topk": hits}], {"q": ["a", "b"]})
    assert {one.source: (one.hits, one.brought.mean) for one in seen.sources} == {"x": (1, 0.5), "y": (2, 0.5)}


def test_without_sources_nothing_is_read_or_shown() -> None:
    result = karat.evaluate([{"query_id": "q", "topk": ["a"]}], {"q": ["a"]})
    assert "sources" not in result.analyses.found
    assert "sources" in result.analyses.lacking
    assert not result.context.sourced
