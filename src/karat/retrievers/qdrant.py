"""Qdrant over its query API."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.http import Http, Retry, Secrets, check_url
from karat.retrievers.base import Found, Retriever, Stopwatch, as_hits
from karat.retrievers.embedding import make_embedder
from karat.retrievers.templates import Used, as_field, fill, hit_at, list_at, stored_paths, used_by, value_at, values_of


class Qdrant(Retriever):
    """`qdrant:http://host:6333/collection`: nearest points to the query's vector.

    `model`, `embeddings` and `key` say who makes the vector, as in `dense`; `request` is a body of your own (for
    filters, prefetch or inference by the server), in which `{vector}` stands for it. `id` and `text` are fields of the
    payload (default: the point's own id).
    """

    name = "qdrant"
    searches_corpus = False

    def __init__(
        self,
        url: str,
        model: str = "static",
        embeddings: str | None = None,
        key: str | None = None,
        using: str | None = None,
        request: dict[str, Any] | None = None,
        id: str | None = None,
        text: str | None = None,
        headers: dict[str, str] | None = None,
        retries: int = 2,
    ) -> None:
        self.url, self.model, self.embeddings, self.key = check_url(url), model, embeddings, key
        self.using, self.id, self.text, self.headers, self.retries = using, id, text, headers or {}, retries
        server, self._collection = _parts(self.url)
        self.request = request or {"query": "{vector}", **({"using": using} if using else {})}
        self._paths = {"chunk_id": "id", "score": "score", **stored_paths("payload", id, text)}
        self._secrets = Secrets()
        self._server, self._body, self._sent = self._secrets.fill([server, self.request, self.headers])
        self._http = Http(self._secrets, Retry(retries + 1))
        self._embedder = make_embedder(model, embeddings, key) if "{vector}" in str(self.request) else None

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        values = values_of(question, k)
        if self._embedder is not None:
            with watch.stage("embed"):
                vector = self._embedder.embed_query(question.text, question.timeout, used)
            values["vector"] = vector.tolist()
        payload = [field.partition(".")[0] for field in (self.id, self.text) if field]
        body = {"limit": k, "with_payload": payload or False, **fill(self._body, values)}
        url = f"{self._server}/collections/{self._collection}/points/query"
        said = self._http.ask("POST", url, body, self._read, headers=self._sent, timeout=question.timeout)
        hits, by_server = said.read
        return Found(hits, watch.latency_ms | {"retrieve": said.ms}, fields=as_field(used + by_server))

    def _read(self, content: Any) -> tuple[list[dict[str, Any]], Used]:
        hits = as_hits(hit_at(point, self._paths) for point in list_at(content, "result.points", self.url))
        models = value_at(content, "usage.inference.models")  # where the server made the vector
        used = models.items() if isinstance(models, dict) else ()
        return hits, [used_by("embed", name, {"usage": {"prompt_tokens": value_at(m, "tokens")}}) for name, m in used]


def _parts(url: str) -> tuple[str, str]:
    """The server, and the collection that its address ends with."""
    parts = urlsplit(url)
    path, _, collection = parts.path.rpartition("/")
    if not collection:
        raise ConfigError(
            "the address names no collection", code="bad-address", got=url, expected="http://host:6333/collection"
        )
    return urlunsplit((parts.scheme, parts.netloc, path.removesuffix("/collections"), "", "")), collection
