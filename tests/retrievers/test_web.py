"""Retrievers over HTTP, against a real server on loopback."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.retrievers.specs import make_retriever
from karat.systems.run import Finished, run_retriever

GOLD = [{"query_id": f"q{i}", "query": f"what & why {i}?", "gold": ["a"], "tags": {"language": "pt"}} for i in range(4)]


def run(retriever: Any, **options: Any) -> Finished:
    return run_retriever(retriever, GOLD, **{"warm_up": 0, "k": 3, **options})


def ids(done: Finished, at: int = 0) -> list[str]:
    return [hit["chunk_id"] for hit in done.run[at]["topk"]]


def test_the_plain_address_is_enough_for_a_plain_service(server: Any) -> None:
    server.answer = lambda path, body: {"results": [{"id": 7, "score": 0.5, "text": "…"}, {"id": "b", "score": 0.25}]}
    done = run(f"{server.url}/search")
    assert ids(done) == ["7", "b"]
    assert done.run[0]["topk"][0] == {"rank": 1, "chunk_id": "7", "score": 0.5, "text": "…"}
    method, path, _, body = server.asked[0]
    assert (method, path, body) == ("POST", "/search", {"query": "what & why 0?", "k": 3})
    assert done.run[0]["latency_ms"]["retrieve"] > 0


@pytest.mark.parametrize(
    "answer", [["a", "b"], {"hits": ["a", "b"]}, {"data": [{"_id": "a"}, {"_id": "b"}]}, [["a", 1.0], ["b", 0.5]]]
)
def test_usual_places_are_found(server: Any, answer: Any) -> None:
    server.answer = lambda path, body: answer
    assert ids(run(server.url)) == ["a", "b"]


YAML = """
request:
  q: "{query}"
  size: "{k}"
  filter: {lang: "{language}", note: "top {k} of {query_id}"}
headers: {Authorization: "Bearer ${SEARCH_KEY}"}
hits: response.docs
id: meta.key
score: rank.value
text: body
"""


def test_yaml_says_how_to_ask_and_where_the_hits_are(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "s3cr3t-key")
    (tmp_path / "search.yaml").write_text(YAML)
    docs = [{"meta": {"key": "a"}, "rank": {"value": 2}, "body": "text of a"}, {"meta": {"key": 9}, "rank": {}}]
    server.answer = lambda path, body: {"response": {"docs": docs}}
    (tmp_path / "search.yaml").write_text(f"retriever: http\nurl: {server.url}/find\n{YAML}")
    output = tmp_path / "run.jsonl"
    run(str(tmp_path / "search.yaml"), output=output)
    _, path, headers, body = server.asked[0]
    assert path == "/find"
    assert headers["Authorization"] == "Bearer s3cr3t-key"
    assert body == {"q": "what & why 0?", "size": 3, "filter": {"lang": "pt", "note": "top 3 of q0"}}
    record = json.loads(output.read_text().splitlines()[0])
    assert record["topk"] == [
        {"rank": 1, "chunk_id": "a", "score": 2.0, "text": "text of a"},
        {"rank": 2, "chunk_id": "9"},
    ]
    assert "s3cr3t" not in output.read_text()
    assert record["retriever"]["headers"] == {"Authorization": "Bearer ${SEARCH_KEY}"}


def test_an_address_may_hold_the_query(server: Any) -> None:
    run(f"http({server.url}/find?q={{query}}&n={{k}})")
    assert [a[:2] for a in server.asked][:1] == [("GET", "/find?q=what%20%26%20why%200%3F&n=3")]
    server.asked.clear()
    run({"retriever": "http", "url": f"{server.url}/find", "params": {"q": "{query}", "lang": "{language}"}})
    assert server.asked[0][:2] == ("GET", "/find?q=what+%26+why+0%3F&lang=pt")
    server.asked.clear()
    run({"retriever": "http", "url": f"{server.url}/find", "method": "GET"})
    assert server.asked[0][0] == "GET"


def test_a_busy_server_is_asked_again_and_waiting_is_no_latency(server: Any) -> None:
    server.faults = [(429, {"Retry-After": "1"}), 503]
    done = run(server.url, timeout=20)
    assert (done.failed, ids(done)) == (0, ["a"])
    assert len(server.asked) == 4 + 2
    assert done.run[0]["latency_ms"]["retrieve"] < 900


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([500], '500 ({"error": "scripted"})'),
        ([404], "404"),
        ([429] * 3, "429"),
        ([(429, {"Retry-After": "900"})], "429"),
        (["hang"], " 1 s"),
        (["drop"] * 3, "3 attempts"),
        ([b"<html>"], "<html>"),
        ([b"[" * 5000], "JSON"),
        ([b'{"message": "ok"}'], "ok"),
        ([b'{"hits": [{"name": "x"}]}'], "'x'"),
        ([b'{"hits": [["a", "NaN"]]}'], "NaN"),
        ([b"null"], "hits"),
    ],
)
def test_a_server_that_fails_fails_one_query_only(server: Any, faults: list[Any], words: str) -> None:
    server.faults = faults
    started = time.monotonic()
    done = run(server.url, timeout=1 if faults == ["hang"] else 30)
    assert time.monotonic() - started < 30
    assert (done.failed, ids(done, 1)) == (1, ["a"])
    assert words in done.run[0]["error"]


def test_nobody_there() -> None:
    done = run("http(http://127.0.0.1:9/search, retries=0)", timeout=2)
    assert done.failed == 4
    assert done.run[0]["error"].startswith("POST http://127.0.0.1:9/search: ")


def test_keys_come_from_the_environment_and_stand_in_no_message(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"retriever": "http", "url": f"{server.url}/x?key=${{SEARCH_KEY}}", "headers": {"X-Key": "${SEARCH_KEY}"}}
    with refused("missing-variable") as caught:
        run(spec)
    assert "SEARCH_KEY" in caught.value.what
    assert "export SEARCH_KEY=" in caught.value.hint
    monkeypatch.setenv("SEARCH_KEY", "s3cr3t-key")
    server.faults = [500, b"no: s3cr3t-key"]
    server.answer = lambda path, body: {"echo": "s3cr3t-key"}
    done = run(spec)
    assert server.asked[0][1].endswith("key=s3cr3t-key")
    assert done.failed == 4
    assert "s3cr3t" not in json.dumps(done.run)


def test_a_template_that_asks_for_what_is_not_there_is_told(server: Any) -> None:
    done = run({"retriever": "http", "url": server.url, "request": {"q": "{qeury}"}})
    assert "{qeury}" in done.run[0]["error"]


def test_many_at_once_keep_their_answers_apart(server: Any) -> None:
    together = threading.Barrier(16, timeout=60)

    def answer(path: str, body: Any) -> Any:
        together.wait()  # none is answered before sixteen have asked
        return [body["query"]]

    server.answer = answer
    gold = [{"query_id": str(i), "query": f"query {i}", "gold": ["a"]} for i in range(64)]
    done = run_retriever(server.url, gold, workers=16, warm_up=0)
    assert all(r["topk"][0]["chunk_id"] == r["query"] for r in done.run)


# Recorded shapes of Elasticsearch 8 and OpenSearch 2: POST /index/_search

ELASTIC: dict[str, Any] = {
    "took": 5,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 2, "relation": "eq"},
        "max_score": 1.3862942,
        "hits": [
            {"_index": "docs", "_id": "0", "_score": 1.3862942, "_source": {"chunk": "a#1", "body": "one"}},
            {"_index": "docs", "_id": "1", "_score": 0.2876821, "_source": {"chunk": "b#2", "body": "two"}},
        ],
    },
}


def search_index(path: str, body: Any) -> Any:
    """`_source` stands in a hit only where it was asked for, and has only the fields that were asked for."""
    hits = [{name: value for name, value in hit.items() if name != "_source"} for hit in ELASTIC["hits"]["hits"]]
    if body["_source"]:
        for shown, hit in zip(hits, ELASTIC["hits"]["hits"], strict=True):
            shown["_source"] = {name: value for name, value in hit["_source"].items() if name in body["_source"]}
    return {**ELASTIC, "hits": {**ELASTIC["hits"], "hits": hits}}


@pytest.mark.parametrize("name", ["elasticsearch", "opensearch"])
def test_elasticsearch_and_opensearch(server: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = search_index
    done = run(f"{name}:{server.url}/docs")
    assert ids(done) == ["0", "1"]
    assert done.run[0]["topk"][0]["score"] == 1.3862942
    _, path, _, body = server.asked[0]
    assert path == "/docs/_search"
    assert body["size"] == 3
    assert body["query"] == {"multi_match": {"query": "what & why 0?", "fields": ["title", "text"]}}
    monkeypatch.setenv("ES_KEY", "k")
    own = {"query": {"bool": {"must": {"match": {"body": "{query}"}}, "filter": {"term": {"lang": "{language}"}}}}}
    spec = {
        "retriever": name,
        "url": f"{server.url}/docs",
        "request": own,
        "id": "chunk",
        "text": "body",
        "headers": {"Authorization": "ApiKey ${ES_KEY}"},
    }
    done = run(spec)
    assert done.run[0]["topk"][1] == {"rank": 2, "chunk_id": "b#2", "score": 0.2876821, "text": "two"}
    _, _, headers, body = server.asked[-1]
    assert body["query"]["bool"]["filter"] == {"term": {"lang": "pt"}}
    assert body["_source"] == ["chunk", "body"]
    assert headers["Authorization"] == "ApiKey k"


def test_an_error_of_elasticsearch_is_the_error_of_the_query(server: Any) -> None:
    cause = {"type": "index_not_found_exception", "reason": "no such index [docs]", "index": "docs"}
    said = {"error": {"root_cause": [cause], **cause}, "status": 404}
    server.faults = [(404, {}, json.dumps(said).encode())]
    assert "404" in (error := run(f"elasticsearch:{server.url}/docs").run[0]["error"])
    assert cause["reason"] in error
    server.answer = lambda path, body: said
    assert "'hits.hits'" in run(f"elasticsearch:{server.url}/docs").run[0]["error"]
    server.answer = search_index
    done = run({"retriever": "elasticsearch", "url": f"{server.url}/docs", "id": "name"})
    assert "'_source.name'" in done.run[0]["error"]


@pytest.mark.parametrize("partly", [{"timed_out": True}, {"_shards": {"total": 2, "successful": 1, "failed": 1}}])
def test_an_index_that_was_searched_in_part_is_no_answer(server: Any, partly: dict[str, Any]) -> None:
    server.answer = lambda path, body: search_index(path, body) | partly
    assert run(f"elasticsearch:{server.url}/docs").failed == 4


# Recorded shape of Qdrant 1.10 and later: POST /collections/NAME/points/query

QDRANT: dict[str, Any] = {
    "result": {
        "points": [
            {"id": "4b3a1f8e-0c1d-4f53-9d3c-1f0f6f0f8a11", "version": 3, "score": 0.81, "payload": {"chunk_id": "a#1"}},
            {"id": 2, "version": 3, "score": 0.75, "payload": {"chunk_id": "b#1"}},
        ]
    },
    "status": "ok",
    "time": 0.0005,
    "usage": {"hardware": {"cpu": 1, "payload_io_read": 0, "vector_io_read": 4}, "inference": None},
}


def search_points(path: str, body: Any) -> Any:
    """The payload stands in a point only where it was asked for."""
    asked = body["with_payload"]
    points = [{n: v for n, v in p.items() if asked or n != "payload"} for p in QDRANT["result"]["points"]]
    models = {body["query"]["model"]: {"tokens": 7}} if isinstance(body["query"], dict) else None
    return {**QDRANT, "result": {"points": points}, "usage": {"inference": models and {"models": models}}}


def test_qdrant(server: Any) -> None:
    server.answer = search_points
    done = run(f"qdrant:{server.url}/docs")
    assert ids(done) == ["4b3a1f8e-0c1d-4f53-9d3c-1f0f6f0f8a11", "2"]
    assert set(done.run[0]["latency_ms"]) == {"embed", "retrieve"}
    _, path, _, body = server.asked[0]
    assert path == "/collections/docs/points/query"
    assert (len(body["query"]), body["limit"]) == (256, 3)
    done = run({"retriever": "qdrant", "url": f"{server.url}/collections/docs", "id": "chunk_id", "using": "dense"})
    assert ids(done) == ["a#1", "b#1"]
    assert server.asked[-1][1] == "/collections/docs/points/query"
    assert server.asked[-1][3]["using"] == "dense"
    assert server.asked[-1][3]["with_payload"] == ["chunk_id"]
    inference = {"query": {"text": "{query}", "model": "qdrant/bm25"}}
    done = run({"retriever": "qdrant", "url": f"{server.url}/docs", "request": inference})
    assert server.asked[-1][3]["query"] == {"text": "what & why 3?", "model": "qdrant/bm25"}
    assert set(done.run[0]["latency_ms"]) == {"retrieve"}
    assert done.run[0]["usage"] == [{"stage": "embed", "model": "qdrant/bm25", "prompt_tokens": 7, "calls": 1}]


def test_an_error_of_qdrant_is_the_error_of_the_query(server: Any) -> None:
    said = {"status": {"error": "Not found: Collection `docs` doesn't exist!"}, "time": 0.00001}
    server.faults = [(404, {}, json.dumps(said).encode())]
    assert "Collection `docs` doesn't exist!" in run(f"qdrant:{server.url}/docs").run[0]["error"]


# Embeddings and rerankers of a service

CORPUS = Corpus("test", ["a", "b", "c"], [""] * 3, ["red apple", "green pear", ""])


def embeddings(path: str, body: Any) -> Any:
    assert path == "/v1/embeddings"
    words = ("apple", "pear", "what")
    rows = [[float(word in text) + 0.01 for word in words] for text in body["input"]]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return {
        "object": "list",
        "data": data[::-1],
        "model": body["model"],
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }


def test_dense_with_an_embeddings_service(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t")
    server.answer = embeddings
    found = make_retriever({"retriever": "dense", "model": "m-1", "url": f"{server.url}/v1", "key": "MY_KEY"})
    found.index(CORPUS)
    assert [i for i, _ in found.search("pear tart", 5)] == ["b", "a"], "an empty text is nowhere"
    assert server.asked[0][2]["Authorization"] == "Bearer s3cr3t"
    assert "s3cr3t" not in json.dumps(found.settings())


@pytest.mark.parametrize("content", [b'{"data": []}', b'{"data": [{"index": 0}]}', b'{"data": null}', b"[]"])
def test_a_service_without_vectors_fails_the_query(server: Any, content: bytes) -> None:
    server.answer = embeddings
    found = make_retriever({"retriever": "dense", "model": "m-1", "url": f"{server.url}/v1"})
    found.index(CORPUS)
    server.faults = [content]
    with refused("server-error"):
        found.answer(Question("q", "pear", timeout=30), 5)


def test_a_reranker_over_http(server: Any) -> None:
    def answer(path: str, body: Any) -> Any:
        scores = [float("pear" in text) for text in body["documents"]]
        results = [{"index": i, "relevance_score": s} for i, s in enumerate(scores) if s]
        return {"id": "x", "results": results}  # as services do that leave the rest out

    server.answer = answer
    gold = [{"query_id": "q", "query": "red apple, green pear", "gold": ["b"]}]
    (record,) = run_retriever(f"rerank(bm25, {server.url}/rerank)", gold, corpus=CORPUS, warm_up=0).run
    assert sorted(hit["chunk_id"] for hit in record["raw"]) == ["a", "b"]
    assert [hit["chunk_id"] for hit in record["topk"]] == ["b", "a"]
    assert server.asked[0][3]["query"] == "red apple, green pear"
    server.answer = lambda path, body: {"results": [{"index": 9, "relevance_score": 1}]}
    (record,) = run_retriever(f"rerank(bm25, {server.url}/rerank)", gold, corpus=CORPUS, warm_up=0).run
    assert "[9]" in record["error"]
    server.answer = lambda path, body: {"results": [{"document": "x"}]}
    (record,) = run_retriever(f"rerank(bm25, {server.url}/rerank)", gold, corpus=CORPUS, warm_up=0).run
    assert "relevance_score" in record["error"]


EMBEDDED = {"stage": "embed", "model": "m-1", "prompt_tokens": 5, "calls": 1}


@pytest.mark.parametrize(
    ("told", "entry"),
    [
        ({"usage": {"total_tokens": 90}}, {"prompt_tokens": 90, "calls": 1}),  # Jina, Voyage, vLLM
        ({"usage": {"prompt_tokens": 80, "total_tokens": 90}}, {"prompt_tokens": 80, "calls": 1}),
        ({"meta": {"billed_units": {"search_units": 2}}}, {"calls": 2}),  # Cohere
        (
            {"meta": {"tokens": {"input_tokens": 54, "output_tokens": 0}}},
            {"prompt_tokens": 54, "completion_tokens": 0, "calls": 1},
        ),
        ({}, {"calls": 1}),
        ({"usage": {"total_tokens": "many"}, "meta": {"tokens": {"input_tokens": -1}}}, {"calls": 1}),
        ({"usage": {"total_tokens": float("inf"), "completion_tokens": True}}, {"calls": 1}),
    ],
)
def test_what_services_used_is_logged_and_costs(server: Any, told: dict[str, Any], entry: dict[str, Any]) -> None:
    def answer(path: str, body: Any) -> Any:
        if path == "/v1/embeddings":
            return embeddings(path, body)
        return {"results": [{"index": i, "relevance_score": 1.0} for i in range(len(body["documents"]))], **told}

    server.answer = answer
    dense = {"retriever": "dense", "model": "m-1", "url": f"{server.url}/v1"}
    spec = {
        "retriever": "rerank",
        "first": {"retriever": "hybrid", "second": dense},
        "reranker": f"{server.url}/rerank",
        "request": {"model": "cross", "query": "{query}", "documents": "{documents}"},
    }
    gold = [{"query_id": "q", "query": "a red apple", "gold": ["a"]}]
    run = run_retriever(spec, gold, corpus=CORPUS, warm_up=1).run
    assert run[0]["usage"] == [EMBEDDED, {"stage": "rerank", "model": "cross", **entry}]
    prices = {"currency": "EUR", "models": {"m-1": {"per_1k": 2}, "cross": {"per_call": 3}}}
    assert karat.evaluate(run, gold, ["cost"], prices=prices).means == {
        "cost": pytest.approx(0.01 + 3 * entry["calls"])
    }


def test_what_uses_no_service_logs_no_usage() -> None:
    gold = [{"query_id": "q", "query": "a red apple", "gold": ["a"]}]
    assert "usage" not in run_retriever("rerank(hybrid)", gold, corpus=CORPUS, warm_up=0).run[0]


# Engines through `http`: vectors, columns, distances and reported errors


def http(server: Any, **options: Any) -> dict[str, Any]:
    return {"retriever": "http", "url": f"{server.url}/query", **options}


COLUMNS = {
    "ids": [["a#1", "b#1"]],
    "distances": [[0.0, 0.25]],
    "documents": [["text of a", None]],
    "metadatas": [[{"doc": "a"}, {"doc": "b"}]],
    "embeddings": None,
}


def test_a_vector_in_the_request_and_an_answer_in_columns(server: Any) -> None:
    server.answer = lambda path, body: COLUMNS
    columns = {"id": "ids[0]", "distance": "distances[0]", "text": "documents[0]", "doc_id": "metadatas[0][*].doc"}
    asked = {"query_embeddings": ["{vector}"], "n_results": "{k}"}
    done = run(http(server, request=asked, columns=columns))
    assert done.run[0]["topk"] == [
        {"rank": 1, "chunk_id": "a#1", "score": 0.0, "text": "text of a", "doc_id": "a"},
        {"rank": 2, "chunk_id": "b#1", "score": -0.25, "doc_id": "b"},
    ]
    body = server.asked[0][3]
    assert (len(body["query_embeddings"][0]), body["n_results"]) == (256, 3)
    assert set(done.run[0]["latency_ms"]) == {"embed", "retrieve"}
    assert done.run[0]["retriever"]["model"] == "static", "the log says what made the vector"
    assert "model" not in run(http(server, columns=columns)).run[0]["retriever"]


def test_a_vector_of_a_service_costs(server: Any) -> None:
    def answer(path: str, body: Any) -> Any:
        return embeddings(path, body) if path == "/v1/embeddings" else [{"_id": "a", "dist": 2}]

    server.answer = answer
    asked = {"text": "near {vector}", "n": "{k}"}
    done = run(http(server, request=asked, id="_id", distance="dist", model="m-1", embeddings=f"{server.url}/v1"))
    assert (done.run[0]["topk"][0]["score"], done.run[0]["usage"]) == (-2.0, [EMBEDDED])
    assert server.asked[1][3]["text"].startswith("near [0.")
    server.answer = lambda path, body: embeddings(path, body) if path == "/v1/embeddings" else ELASTIC
    knn = {"knn": {"field": "v", "query_vector": "{vector}", "k": "{k}"}}
    spec = {"retriever": "elasticsearch", "url": f"{server.url}/docs", "request": knn, "model": "m-1"}
    done = run({**spec, "embeddings": f"{server.url}/v1"})
    assert (done.run[0]["usage"], len(server.asked[-1][3]["knn"]["query_vector"])) == ([EMBEDDED], 3)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({**COLUMNS, "ids": [["a#1"]]}, "'distances[0]': 2"),
        ({**COLUMNS, "distances": None}, "'distances[0]'"),
        ({**COLUMNS, "ids": [["a#1", None]]}, "None"),
        ({**COLUMNS, "distances": [[0.1, "far"]]}, "'far'"),
        ({"code": 1100, "message": "no such collection"}, "no such collection"),
    ],
)
def test_columns_that_do_not_fit_fail_the_query(server: Any, answer: Any, words: str) -> None:
    server.answer = lambda path, body: answer
    done = run(http(server, columns={"id": "ids[0]", "distance": "distances[0]"}, errors="code"))
    assert done.failed == 4
    assert words in done.run[0]["error"]


def test_an_answer_that_reports_a_problem_is_no_answer(server: Any) -> None:
    spec = http(server, hits="data.docs?", id="@id", score="@search.score", errors=["errors", "data.partial"])
    server.answer = lambda path, body: {"data": {"docs": [{"@id": "a", "@search.score": 2}], "partial": False}}
    assert run(spec).run[0]["topk"] == [{"rank": 1, "chunk_id": "a", "score": 2.0}]
    server.answer = lambda path, body: {"data": {"count": 0}, "errors": []}
    assert (run(spec).failed, run(spec).run[0]["topk"]) == (0, [])
    for problem in ({"errors": [{"message": "no class"}]}, {"data": {"docs": [], "partial": True}}, {"other": []}):
        server.answer = lambda path, body, problem=problem: problem
        assert run(spec).failed == 4
    server.answer = lambda path, body: {"errors": [{"message": "no class"}]}
    assert "no class" in run(spec).run[0]["error"]
