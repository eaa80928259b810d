"""Engines that cannot be installed here: their own clients are the reference.

A client sends its request to a recorder, and the example file must send the same. Both must read the same hits from one
answer. Where the client has an engine inside (Qdrant, Milvus Lite), the recorder answers with that.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from loopback import Handler, Loopback

from karat.systems import make_embedder, run_retriever

sys.path.insert(0, str(Path(__file__).parent))
import servers

QUERY, K, DENSE = "refund a card payment", 3, 0.404
GOLD = [{"query_id": "q", "query": QUERY, "gold": ["a"], "tags": {"language": "en"}}]
KEYS = ("PINECONE_API_KEY", "TYPESENSE_API_KEY", "AZURE_SEARCH_KEY", "ES_KEY", "MILVUS_TOKEN", "WEAVIATE_API_KEY")


class Recorder(Loopback):
    """Answers every request with `answer(body)`, and keeps method, path, headers and body."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], Any] = lambda body: {}
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        super().__init__(self._handler())

    def _handler(outer) -> type[Handler]:
        class Answering(Handler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                if headers.get("content-encoding") == "gzip":
                    content = gzip.decompress(content)
                body = json.loads(content) if content else None
                outer.asked.append((self.command, self.path, headers, body))
                said = json.dumps(outer.answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("X-Elastic-Product", "Elasticsearch")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
                self.wfile.flush()

            do_GET = do_POST

        return Answering


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setenv("NO_PROXY", "*")
    for name in KEYS:
        monkeypatch.setenv(name, "secret-key")
    found = Recorder()
    yield found
    found.close()


@pytest.fixture(scope="module")
def vector() -> list[float]:
    return [float(number) for number in make_embedder().embed_query(QUERY)]


def ours(recorder: Recorder, file: str, answer: Any) -> tuple[str, dict[str, str], Any, list[tuple[str, float]]]:
    """What a file sends to the recorder (path, headers and body), and the hits that it reads from the answer."""
    recorder.asked.clear()
    recorder.answer = lambda body: answer
    found = yaml.safe_load((servers.ENGINES / file).read_text())
    found["url"] = f"{recorder.url}/{found['url'].split('/', 3)[3]}"
    (record,) = run_retriever(found, GOLD, k=K, warm_up=0).run
    assert "error" not in record, record["error"]
    ((_, path, headers, body),) = recorder.asked
    recorder.asked.clear()
    return path, headers, body, [(hit["chunk_id"], hit["score"]) for hit in record["topk"]]


def close(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> bool:
    return one == [(item, pytest.approx(score)) for item, score in other]


# Qdrant

POINTS = {
    "result": {
        "points": [
            {"id": 7, "version": 3, "score": 0.81, "payload": {"chunk_id": "a#1", "text": "…"}},
            {"id": 2, "version": 3, "score": 0.75, "payload": {"chunk_id": "b#1", "text": "…"}},
        ]
    },
    "status": "ok",
    "time": 0.0005,
}


def test_qdrant(recorder: Recorder, vector: list[float]) -> None:
    from qdrant_client import QdrantClient, models

    path, _, body, hits = ours(recorder, "qdrant.yaml", POINTS)
    client = QdrantClient(url=recorder.url, check_compatibility=False)
    language = models.FieldCondition(key="language", match=models.MatchValue(value="en"))
    read = client.query_points(
        "helpdesk",
        vector,
        limit=K,
        query_filter=models.Filter(must=[language]),
        with_payload=["chunk_id", "text"],
    )
    ((_, their_path, _, theirs),) = recorder.asked
    assert path == their_path.partition("?")[0]
    sent, wanted = (models.QueryRequest.model_validate(one) for one in (body, theirs))
    assert sent.model_dump(exclude={"query"}, exclude_unset=True) == {
        name: value for name, value in wanted.model_dump(exclude={"query"}, exclude_none=True).items() if name in body
    }
    assert sent.query == pytest.approx(vector)
    assert hits == [(point.payload["chunk_id"], point.score) for point in read.points if point.payload]


def test_the_engine_inside_the_client_of_qdrant_answers(recorder: Recorder) -> None:
    from qdrant_client import QdrantClient, models

    local, ids = QdrantClient(":memory:"), load_into(recorder)
    local.create_collection("helpdesk", models.VectorParams(size=256, distance=models.Distance.COSINE))
    local.upload_collection("helpdesk", make_embedder().embed(list(ids.values())), [{"chunk_id": i} for i in ids])

    def answer(body: Any) -> Any:
        asked = models.QueryRequest.model_validate(body)
        found = local.query_points("helpdesk", asked.query, limit=asked.limit or 10, with_payload=asked.with_payload)
        return {"result": found.model_dump(mode="json"), "status": "ok", "time": 0.1}

    recorder.answer = answer
    assert recall({"retriever": "qdrant", "url": f"{recorder.url}/helpdesk", "id": "chunk_id"}) >= DENSE


def load_into(recorder: Recorder) -> dict[str, str]:
    lines = map(json.loads, (servers.EXAMPLES / "helpdesk" / "corpus.jsonl").read_text().splitlines())
    return {doc["chunk_id"]: f"{doc['title']}\n{doc['text']}" for doc in lines}


def recall(spec: dict[str, Any]) -> float:
    import karat

    gold = str(servers.EXAMPLES / "helpdesk" / "gold.jsonl")
    done = run_retriever(spec, gold, k=10, workers=2, warm_up=0)
    assert done.failed == 0, done.first_error
    return float(karat.evaluate(done.run, gold, ["recall@10"]).means["recall@10"])


# Milvus: its client speaks gRPC, and REST has the same names in another case.


def test_milvus(recorder: Recorder, tmp_path: Path) -> None:
    from pymilvus import MilvusClient

    client, ids = MilvusClient(str(tmp_path / "milvus.db")), load_into(recorder)
    client.create_collection("helpdesk", 256, id_type="string", max_length=200, metric_type="COSINE", auto_id=False)
    vectors = make_embedder().embed(list(ids.values())).tolist()
    rows = [{"id": i, "chunk_id": i, "text": t, "vector": v} for (i, t), v in zip(ids.items(), vectors, strict=True)]
    client.insert("helpdesk", rows)

    def answer(body: Any) -> Any:
        asked = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): value for name, value in body.items()}
        assert set(asked) == {"collection_name", "data", "anns_field", "limit", "output_fields"}
        if asked["collection_name"] != "helpdesk":
            return {"code": 100, "message": f"can't find collection[{asked['collection_name']}]"}
        (found,) = client.search(**asked)
        return {"code": 0, "cost": 6, "data": [{"distance": hit["distance"], **hit["entity"]} for hit in found]}

    recorder.answer = answer
    spec = yaml.safe_load((servers.ENGINES / "milvus.yaml").read_text())
    spec["url"] = f"{recorder.url}/v2/vectordb/entities/search"
    assert recall(spec) >= DENSE
    assert recorder.asked[0][2]["authorization"] == "Bearer secret-key"
    spec["request"]["collectionName"] = "nowhere"
    (record,) = run_retriever(spec, GOLD, k=K, warm_up=0).run
    assert "nowhere" in record["error"]


# Elasticsearch and OpenSearch

INDEX: dict[str, Any] = {
    "took": 5,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 2, "relation": "eq"},
        "max_score": 1.38,
        "hits": [
            {"_index": "helpdesk", "_id": "0", "_score": 1.38, "_source": {"chunk_id": "a#1"}},
            {"_index": "helpdesk", "_id": "1", "_score": 0.28, "_source": {"chunk_id": "b#2"}},
        ],
    },
}


def test_elasticsearch(recorder: Recorder, vector: list[float]) -> None:
    from elasticsearch import Elasticsearch

    path, headers, body, hits = ours(recorder, "elasticsearch-knn.yaml", INDEX)
    words = {"multi_match": {"query": QUERY, "fields": ["title", "text"]}}
    nearest = {"field": "embedding", "query_vector": vector, "k": K, "num_candidates": 200}
    client = Elasticsearch(recorder.url, api_key="secret-key")
    read = client.search(index="helpdesk", query=words, knn=nearest, size=K, source=["chunk_id"])
    ((_, their_path, their_headers, theirs),) = recorder.asked
    assert (path, headers["authorization"], body) == (their_path, their_headers["authorization"], theirs)
    assert hits == [(hit["_source"]["chunk_id"], hit["_score"]) for hit in read["hits"]["hits"]]


def test_opensearch(recorder: Recorder, vector: list[float]) -> None:
    from opensearchpy import OpenSearch, Q, Search

    path, _, body, hits = ours(recorder, "opensearch-knn.yaml", INDEX)
    nearest = {"knn": {"embedding": {"vector": vector, "k": K}}}
    read = OpenSearch(recorder.url).search(index="helpdesk", body={"query": nearest}, size=K, _source=["chunk_id"])
    ((_, their_path, _, theirs),) = recorder.asked
    assert (path, body["query"]) == (their_path.partition("?")[0], theirs["query"])
    search = Search().update_from_dict({"size": K, "_source": ["chunk_id"]})
    assert body == {**search.to_dict(), "query": nearest}
    recorder.asked.clear()
    run_retriever(f"opensearch:{recorder.url}/helpdesk", GOLD, warm_up=0)
    words = Q("multi_match", query=QUERY, fields=["title", "text"])
    assert recorder.asked[0][3]["query"] == words.to_dict()
    assert hits == [(hit["_source"]["chunk_id"], hit["_score"]) for hit in read["hits"]["hits"]]


# Pinecone, Typesense, Azure AI Search

MATCHES = {
    "matches": [
        {"id": "a#1", "score": 0.81, "values": [], "metadata": {"text": "…"}},
        {"id": "b#1", "score": 0.75, "values": [], "metadata": {"text": "…"}},
    ],
    "namespace": "",
    "usage": {"readUnits": 5},
}


def test_pinecone(recorder: Recorder, vector: list[float]) -> None:
    from pinecone import Pinecone

    path, headers, body, hits = ours(recorder, "pinecone.yaml", MATCHES)
    index = Pinecone(api_key="secret-key").Index(host=recorder.url)
    read = index.query(vector=vector, top_k=K, include_metadata=True)
    ((_, their_path, their_headers, theirs),) = recorder.asked
    assert (path, headers["api-key"]) == (their_path, their_headers["api-key"])
    assert body == {name: value for name, value in theirs.items() if name in body}
    assert hits == [(match.id, match.score) for match in read.matches]


FOUND = {
    "results": [
        {
            "facet_counts": [],
            "found": 2,
            "hits": [
                {"document": {"id": "a#1", "text": "…"}, "highlights": [], "vector_distance": 0.19},
                {"document": {"id": "b#1", "text": "…"}, "highlights": [], "vector_distance": 0.25},
            ],
            "out_of": 708,
            "page": 1,
            "request_params": {"collection_name": "helpdesk", "per_page": 3, "q": "*"},
            "search_cutoff": False,
            "search_time_ms": 1,
        }
    ]
}


def test_typesense(recorder: Recorder, vector: list[float]) -> None:
    import typesense
    from typesense.types.document import MultiSearchParameters, SearchResponse

    path, headers, body, hits = ours(recorder, "typesense.yaml", FOUND)
    assert set(body["searches"][0]) <= set(MultiSearchParameters.__annotations__)
    assert set(FOUND["results"][0]) <= {*SearchResponse.__annotations__, "request_params"}
    node = {"host": "127.0.0.1", "port": str(recorder.http.server_port), "protocol": "http"}
    client = typesense.Client({"nodes": [node], "api_key": "secret-key", "connection_timeout_seconds": 30})
    search = {
        "collection": "helpdesk",
        "q": "*",
        "vector_query": f"embedding:({vector}, k:{K})",
        "per_page": K,
        "exclude_fields": "embedding",
    }
    read = client.multi_search.perform({"searches": [search]}, {})
    ((_, their_path, their_headers, theirs),) = recorder.asked
    assert path == their_path.partition("?")[0]
    assert headers["x-typesense-api-key"] == their_headers["x-typesense-api-key"]
    (sent,), (wanted,) = body["searches"], theirs["searches"]
    assert {name: str(value) for name, value in sent.items()} == wanted, "the client writes numbers as text"
    assert hits == [(hit["document"]["id"], -hit["vector_distance"]) for hit in read["results"][0]["hits"]]


VALUES = {
    "@odata.context": "https://my-service.search.windows.net/indexes('helpdesk')/$metadata#docs(*)",
    "value": [
        {"@search.score": 0.033, "chunk_id": "a#1", "text": "…"},
        {"@search.score": 0.016, "chunk_id": "b#1", "text": "…"},
    ],
}


def test_azure_ai_search(recorder: Recorder, vector: list[float]) -> None:
    from azure.core.credentials import AzureKeyCredential
    from azure.search.documents import SearchClient
    from azure.search.documents.models import VectorizedQuery

    path, headers, body, hits = ours(recorder, "azure-ai-search.yaml", VALUES)
    client = SearchClient(recorder.url, "helpdesk", AzureKeyCredential("secret-key"), api_version="2024-07-01")
    nearest = VectorizedQuery(vector=vector, k_nearest_neighbors=K, fields="embedding")
    found = client.search(QUERY, vector_queries=[nearest], top=K, select=["chunk_id", "text"])
    read = [(hit["chunk_id"], hit["@search.score"]) for hit in found]
    _, their_path, their_headers, theirs = recorder.asked[0]
    as_function = their_path.replace("docs('helpdesk')", "docs").replace("/search.post.search", "/search")
    assert path == as_function.replace("indexes('helpdesk')", "indexes/helpdesk")
    assert headers["api-key"] == their_headers["api-key"]
    assert body == {name: value for name, value in theirs.items() if value is not None}
    assert hits == read


# Vespa and Weaviate: the languages of their requests

CHILDREN = {
    "root": {
        "id": "toplevel",
        "relevance": 1.0,
        "fields": {"totalCount": 2},
        "coverage": {"coverage": 100, "documents": 708, "full": True, "nodes": 1, "results": 1, "resultsFull": 1},
        "children": [
            {"id": "id:h:helpdesk::1", "relevance": 0.81, "source": "h", "fields": {"chunk_id": "a#1", "text": "…"}},
            {"id": "id:h:helpdesk::2", "relevance": 0.75, "source": "h", "fields": {"chunk_id": "b#1", "text": "…"}},
        ],
    }
}


def test_vespa(recorder: Recorder, vector: list[float]) -> None:
    import vespa.querybuilder as qb
    from vespa.application import Vespa

    path, _, body, hits = ours(recorder, "vespa.yaml", CHILDREN)
    nearest = qb.nearestNeighbor("embedding", "q", annotations={"targetHits": 100})
    yql = str(qb.select(["chunk_id", "text"]).from_("helpdesk").where(nearest))
    assert "".join(body["yql"].split()) == "".join(yql.replace('"', "").split())
    application = Vespa(recorder.url)
    with application.syncio() as session:
        read = session.query(body)
    _, their_path, _, theirs = recorder.asked[-1]
    assert (path, body) == (their_path, theirs)
    assert hits == [(hit["fields"]["chunk_id"], hit["relevance"]) for hit in read.hits]
    spec = yaml.safe_load((servers.ENGINES / "vespa.yaml").read_text()) | {"url": f"{recorder.url}/search/"}
    nothing = {"root": {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": 0}}}
    recorder.answer = lambda body: nothing
    (record,) = run_retriever(spec, GOLD, warm_up=0).run
    assert ("error" in record, record["topk"]) == (False, [])
    for problem in ({"errors": [{"code": 12, "summary": "Timed out"}]}, {"coverage": {"degraded": {"timeout": True}}}):
        recorder.answer = lambda body, problem=problem: {"root": {**nothing["root"], **problem}}
        (record,) = run_retriever(spec, GOLD, warm_up=0).run
        assert "error" in record


SCHEMA = """
type Query { Get: Get }
type Get { Helpdesk(limit: Int, offset: Int, nearVector: Near): [Helpdesk] }
input Near { vector: [Float], certainty: Float, distance: Float, targetVectors: [String] }
type Helpdesk { chunk_id: String text: String _additional: Additional }
type Additional { id: String distance: Float certainty: Float score: String }
"""


def test_weaviate(recorder: Recorder, vector: list[float]) -> None:
    """Executed by a GraphQL engine, with the part of Weaviate's schema that a class gets."""
    import graphql

    schema, seen = graphql.build_schema(SCHEMA), []

    def found(_: Any, limit: int, nearVector: dict[str, Any]) -> list[dict[str, Any]]:
        seen.append((limit, nearVector["vector"]))
        names = ("a#1", "b#1", "c#1")[:limit]
        return [{"chunk_id": n, "text": "…", "_additional": {"distance": 0.1 * i}} for i, n in enumerate(names)]

    def answer(body: Any) -> Any:
        return graphql.graphql_sync(schema, body["query"], {"Get": {"Helpdesk": found}}).formatted

    spec = yaml.safe_load((servers.ENGINES / "weaviate.yaml").read_text()) | {"url": f"{recorder.url}/v1/graphql"}
    recorder.answer = answer
    (record,) = run_retriever(spec, GOLD, k=K, warm_up=0).run
    assert seen == [(K, pytest.approx(vector))]
    assert [(hit["chunk_id"], hit["score"]) for hit in record["topk"]] == [("a#1", 0.0), ("b#1", -0.1), ("c#1", -0.2)]
    spec["request"]["query"] = spec["request"]["query"].replace("Helpdesk", "Nowhere")
    (record,) = run_retriever(spec, GOLD, k=K, warm_up=0).run
    assert "Nowhere" in record["error"]
