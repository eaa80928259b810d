"""What a run log says of a query that a server did not answer as it should."""

from __future__ import annotations

from typing import Any

from golden import check
from karat.data.corpus import Corpus
from karat.systems.run import run_retriever

GOLD = [{"query_id": "q", "query": "what & why?", "gold": ["a"]}]
CORPUS = Corpus("corpus", ["a", "b"], ["", ""], ["what is it", "why is it"])
FAULTS: dict[str, list[Any]] = {
    "a server that fails": [500],
    "a path that is not there": [404],
    "a busy server": [429] * 3,
    "a server that hangs": ["hang"],
    "a connection that breaks": ["drop"] * 3,
    "something else than JSON": [b"<html>"],
    "no list": [b'{"message": "ok"}'],
    "a hit without id": [b'{"hits": [{"name": "x"}]}'],
    "a score that is a word": [b'{"hits": [["a", "NaN"]]}'],
}


def error_of(spec: Any, timeout: float = 30) -> str:
    (record,) = run_retriever(spec, GOLD, corpus=CORPUS, warm_up=0, timeout=timeout).run
    return str(record["error"])


def test_errors_of_servers(server: Any) -> None:
    said = {}
    for name, faults in FAULTS.items():
        server.faults = list(faults)
        said[name] = error_of(server.url, timeout=1 if faults == ["hang"] else 30)
    said["a template with another name"] = error_of(
        {"retriever": "http", "url": server.url, "request": {"q": "{qeury}"}}
    )
    answers: dict[str, tuple[str, Any]] = {
        "Elasticsearch: no list": (f"elasticsearch:{server.url}/docs", {"error": "x"}),
        "Elasticsearch: a part of the index": (
            f"elasticsearch:{server.url}/docs",
            {"timed_out": True, "_shards": {"failed": 1}, "hits": {"hits": []}},
        ),
        "Elasticsearch: a hit without the field": (
            f"elasticsearch({server.url}/docs, id=name)",
            {"hits": {"hits": [{"_id": "1", "_source": {}}]}},
        ),
        "reranker: a text that was not sent": (
            f"rerank(bm25, {server.url}/rerank)",
            {"results": [{"index": 9, "relevance_score": 1}]},
        ),
        "reranker: no score": (f"rerank(bm25, {server.url}/rerank)", {"results": [{"document": "x"}]}),
    }
    for name, (spec, answer) in answers.items():
        server.answer = lambda path, body, answer=answer: answer
        said[name] = error_of(spec)
    text = "\n".join(f"# {name}\n{error}\n" for name, error in said.items())
    check("wording/errors_servers.txt", text.replace(server.url, "http://server"))
