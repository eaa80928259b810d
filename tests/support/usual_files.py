"""Small files under the names that pages use: a run, a gold set, a corpus, labels, saved results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import karat

_DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"


def write_usual(folder: Path) -> None:
    """Writes them all: the first queries of the demo set."""
    gold = [_question(query) for query in _some("gold.jsonl")]
    with open(_DEMO / "corpus.jsonl", encoding="utf-8") as lines:
        texts = {chunk["chunk_id"]: chunk["text"] for chunk in map(json.loads, lines)}
    old, new = ([_answer(line, texts) for line in _some(name)] for name in ("bm25.jsonl", "bm25_rerank.jsonl"))
    _write(folder / "gold.jsonl", gold)
    (folder / "gold.yaml").write_text(json.dumps(gold), encoding="utf-8")  # JSON is YAML
    (folder / "corpus.jsonl").write_bytes((_DEMO / "corpus.jsonl").read_bytes())
    (folder / "make_runs.py").write_bytes((_DEMO / "make_runs.py").read_bytes())
    usage = [{"stage": "rerank", "model": "cross-encoder", "calls": 1}]
    _write(folder / "run.jsonl", [{**line, "usage": usage} for line in old])
    for name in ("old", "bm25", "exact", "float32", "may", "final", "small", "faq_only"):
        _write(folder / f"{name}.jsonl", old)
    for name in ("new", "dense", "hnsw", "int8", "june", "bm25_rerank", "large", "web_only"):
        _write(folder / f"{name}.jsonl", new)
    _write(folder / "routed.jsonl", [{**line, "route": ("faq", "web")[at % 2]} for at, line in enumerate(old)])
    for name in ("small_corpus", "large_corpus"):
        (folder / f"{name}.jsonl").write_bytes((_DEMO / "corpus.jsonl").read_bytes())
    steps = [
        {"query_id": line["query_id"], "steps": [{"topk": line["topk"][:3]}, {"topk": line["topk"][3:6]}]}
        for line in old
    ]
    _write(folder / "agent.jsonl", steps)
    _write(folder / "log.jsonl", [shown for line in old[:8] for shown in _shown(line)])
    (folder / "runs").mkdir()
    _write(folder / "runs" / "a.jsonl", old)
    _write(folder / "runs" / "b.jsonl", new)
    (folder / "run.trec").write_text("".join(_trec(old)), encoding="utf-8")
    (folder / "bm25.trec").write_text("".join(_trec(old)), encoding="utf-8")
    (folder / "qrels.txt").write_text(
        "".join(f"{q['query_id']} 0 {item} {grade}\n" for q in gold for item, grade in q["gold"].items()),
        encoding="utf-8",
    )
    (folder / "run.json").write_text(
        json.dumps({line["query_id"]: {hit["chunk_id"]: hit["score"] for hit in line["topk"]} for line in old})
    )
    first = {line["query_id"]: {hit["chunk_id"] for hit in line["topk"][:5]} for line in _lines("bm25.jsonl")}
    thin = [
        (query, {c: g for c, g in query["gold"].items() if c in first[query["query_id"]]})
        for query in _lines("gold.jsonl")
    ]
    few = [
        {"query_id": query["query_id"], "query": query["query"], "gold": kept}
        for query, kept in thin
        if any(kept.values())
    ]
    _write(folder / "gold_bm25.jsonl", few)
    _write(folder / "traces.jsonl", [_span(number) for number in range(4)])
    _write(
        folder / "labelled.jsonl",
        [{"query_id": f"t{number}", "chunk_id": "returns#1", "grade": 2, "annotator": "ann"} for number in range(4)],
    )
    (folder / "samples.csv").write_text(
        "user_input,retrieved_contexts,reference_contexts\n"
        "Can I return a jacket?,\"['Returns are free.', 'Wash it cold.']\",\"['Returns are free.']\"\n"
    )
    (folder / "qrels.json").write_text(json.dumps({q["query_id"]: q["gold"] for q in gold}))
    (folder / "ship-criteria.yaml").write_text("gates: [{metric: recall@5, threshold: 0.1, regression_max: 0.03}]\n")
    (folder / "old.yaml").write_text("retriever: my_app:search\n")
    (folder / "new.yaml").write_text("retriever: my_app:search\n")
    (folder / "prices.yaml").write_text(
        "currency: USD\nmodels:\n  m: {per_call: 0.01}\n  cross-encoder: {per_call: 0.001}\n"
    )
    (folder / "my_app.py").write_text('def search(query):\n    return ["doc_101#p1", "doc_107#p4"]\n')
    pairs = {(line["query_id"], hit["chunk_id"]) for line in (*old, *new) for hit in line["topk"][:10]}
    for query in gold:
        judged = {*query["gold"], *query.get("negatives", [])}
        pairs -= {(query["query_id"], chunk) for chunk in judged}
    open_queries = {query["query_id"] for query in gold if query["gold"]}  # the others have no answer
    labels = [
        {"query_id": query, "chunk_id": chunk, "grade": at % 3}
        for at, (query, chunk) in enumerate(sorted(pairs))
        if query in open_queries
    ]
    for name in ("ann", "human", "labels", "eve"):
        _write(folder / f"{name}.jsonl", [{**label, "annotator": name} for label in labels])
    other = [
        {**label, "annotator": "ben", "grade": (0, 1, 2, label["grade"])[at % 4]} for at, label in enumerate(labels)
    ]
    _write(folder / "ben.jsonl", other)
    for name in ("judge", "clicks"):
        _write(folder / f"{name}.jsonl", [{**label, "annotator": name, "kind": "judge"} for label in labels])
    before = karat.evaluate(folder / "old.jsonl", folder / "gold.jsonl")
    for name in ("baseline", "before", "result"):
        before.save(folder / f"{name}.json")
    karat.evaluate(folder / "new.jsonl", folder / "gold.jsonl").save(folder / "after.json")


def _some(name: str) -> list[dict[str, Any]]:
    """The first queries, and some without an answer."""
    return [line for at, line in enumerate(_lines(name)) if at < 24 or line["query_id"] in ("q_000138", "q_000139")]


def _lines(name: str) -> list[dict[str, Any]]:
    with open(_DEMO / name, encoding="utf-8") as lines:
        return list(map(json.loads, lines))


def _question(query: dict[str, Any]) -> dict[str, Any]:
    """Without the chunks that are of no help, so that some hits are not judged."""
    gold = {chunk: grade for chunk, grade in query["gold"].items() if grade > 0}
    return {**query, "gold": gold, "tags": {**query["tags"], "tenant": "north"}}


def _answer(line: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """With the texts of the hits, and whom they belong to."""
    more = {"tenant": "north", "expires": "2030-01-01"}
    hits = [{**hit, **more, "text": texts[hit["chunk_id"]]} for hit in line["topk"]]
    return {**line, "topk": hits, "raw": line.get("raw", [])[:10]}


def _span(number: int) -> dict[str, Any]:
    """A search that was traced."""
    found = [{"document": {"id": "returns#1", "content": "Returns are free."}}]
    asked = f"How long can I return item {number}? ada@example.org"
    return {
        "context": {"trace_id": f"t{number}", "span_id": "1"},
        "parent_id": None,
        "span_kind": "RETRIEVER",
        "start_time": f"2026-01-0{number + 1}T09:00:00Z",
        "end_time": f"2026-01-0{number + 1}T09:00:01Z",
        "attributes": {"input.value": asked, "retrieval.documents": found},
    }


def _shown(line: dict[str, Any]) -> list[dict[str, Any]]:
    """What people saw and clicked: the same hits in turn from the top; most click the first two, wherever they are."""
    chunks = [hit["chunk_id"] for hit in line["topk"][:5]]
    return [
        {
            "query_id": line["query_id"],
            "shown": chunks[at % 5 :] + chunks[: at % 5],
            "clicked": chunks[: 2 if at % 7 else 4],
            "session": f"s{at}",
        }
        for at in range(40)
    ]


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def _trec(run: list[dict[str, Any]]) -> list[str]:
    return [
        f"{line['query_id']} Q0 {hit['chunk_id']} {hit['rank']} {hit['score']} bm25\n"
        for line in run
        for hit in line["topk"]
    ]
