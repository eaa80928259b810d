"""Search services over HTTP: any service, with a few lines of YAML; Elasticsearch and OpenSearch; Qdrant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from karat.data.question import Question
from karat.errors import ConfigError, did_you_mean
from karat.net.http import Http, Retry, Secrets, check_url
from karat.retrievers.base import Found, Retriever, Stopwatch, Unusable, as_hits
from karat.retrievers.dense import STATIC, Embedder, make_embedder
from karat.retrievers.templates import (
    Used,
    as_field,
    fill,
    fill_url,
    hit_at,
    hits_in_columns,
    list_at,
    refuse_reported,
    stored_paths,
    used_by,
    value_at,
    values_of,
)

_USUAL = ("hits", "results", "documents", "matches", "items", "data", "topk")
_PATHS = ("score", "distance", "text", "doc_id", "doc_version", "source")
_COLUMNS = ("id", *_PATHS)
_VECTOR = "{vector}"


class _Server(Retriever):
    """Sends requests from templates. `${NAME}` in them is read from the environment and never logged."""

    searches_corpus = False

    def _connect(self, url: str, headers: dict[str, str] | None, retries: int) -> None:
        self.url: str = check_url(url)
        self.headers: dict[str, str] = headers or {}
        self.retries = retries
        self._secrets = Secrets()
        self._http = Http(self._secrets, Retry(retries + 1))

    def _embed_for(self, templates: Any, model: str | None, embeddings: str | None, key: str | None) -> None:
        """Choose the model of `{vector}`. None is loaded if no template has it."""
        self._embedder: Embedder | None = None
        self.model: str | None = model
        self.embeddings: str | None = embeddings
        self.key: str | None = key
        if _VECTOR in str(templates):
            self.model = model or STATIC
            self._embedder = make_embedder(self.model, embeddings, key)
        elif model or embeddings or key:
            what = f"a model is given, but the request of {self.name!r} has no {_VECTOR}"
            hint = f"write {_VECTOR} into `request`, or leave out `model`, `embeddings` and `key`"
            raise ConfigError(what, code="unused-option", got=model or embeddings or key, hint=hint)

    def _values(self, question: Question, k: int, watch: Stopwatch, used: Used) -> dict[str, Any]:
        values = values_of(question, k)
        if self._embedder is not None:
            with watch.stage("embed"):
                values["vector"] = self._embedder.embed_query(question.text, question.timeout, used).tolist()
        return values


class HttpEndpoint(_Server):
    """Sends a request built from a template, and finds the hits in the JSON response.

    `request` is the JSON body (default: {query, k}), `params` the query string, `hits` the path to the list (detected
    if it has a usual name), `id`, `score`, `text`, `doc_id`, `doc_version`, `source` are paths inside a hit. `distance`
    takes the place of `score` if smaller is better. `columns` has these paths for responses with one list per field.
    `errors` are paths that must be empty. `{query}`, `{k}`, `{language}`, `{query_id}` and the query's tags are filled
    in, and `{vector}` from `model`, `embeddings` and `key` as in `dense`; `${NAME}` is read from the environment.
    """

    name = "http"

    def __init__(
        self,
        url: str,
        method: Literal["GET", "POST", ""] = "",
        request: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        hits: str | None = None,
        id: str | None = None,
        score: str | None = None,
        text: str | None = None,
        doc_id: str | None = None,
        doc_version: str | None = None,
        source: str | None = None,
        retries: int = 2,
        distance: str | None = None,
        columns: dict[str, str] | None = None,
        errors: list[str] | str | None = None,
        model: str | None = None,
        embeddings: str | None = None,
        key: str | None = None,
    ) -> None:
        self._connect(url, headers, retries)
        self.url = url  # with its last slash, which some services need
        in_url = params is not None or "{query}" in url
        self.method = method or ("GET" if in_url and request is None else "POST")
        self.request: dict[str, Any] | None = (
            {"query": "{query}", "k": "{k}"} if request is None and self.method == "POST" and not in_url else request
        )
        self.params: dict[str, Any] | None = (
            {"query": "{query}", "k": "{k}"} if self.method == "GET" and not in_url else params
        )
        self.hits = hits
        self.id = id
        self.score = score
        self.text = text
        self.doc_id = doc_id
        self.doc_version = doc_version
        self.source = source
        self.distance = distance
        self.columns: dict[str, str] | None = columns
        self.errors: list[str] | None = [errors] if isinstance(errors, str) else errors
        given = {"id": id, **{name: getattr(self, name) for name in _PATHS}}
        paths = {name: path for name, path in given.items() if path is not None}
        _check_paths(paths, hits, columns)
        self._paths = {"chunk_id" if name == "id" else name: path for name, path in (columns or paths).items()}
        self._filled = self._secrets.fill([self.url, self.request, self.params, self.headers])
        self._embed_for([self.url, self.request, self.params], model, embeddings, key)

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        values = self._values(question, k, watch, used)
        url, request, params, headers = self._filled
        said = self._http.ask(
            self.method,
            fill_url(url, values, params),
            fill(request, values),
            self._hits,
            headers=fill(headers, values),
            timeout=question.timeout,
        )
        return Found(said.read, watch.latency_ms | {"retrieve": said.ms}, fields=as_field(used))

    def _hits(self, content: Any) -> list[dict[str, Any]]:
        refuse_reported(content, self.errors or (), self.url)
        if self.columns is not None:
            return as_hits(hits_in_columns(content, self._paths, self.url))
        path = self.hits
        if path is None and isinstance(content, dict):
            path = next((name for name in _USUAL if isinstance(content.get(name), list)), None)
        return as_hits(map(self._hit, list_at(content, path or "", self.url)))

    def _hit(self, hit: Any) -> Any:
        if not isinstance(hit, dict):
            return hit
        named = hit_at(hit, self._paths)
        return named if self.id is not None else hit | named


def _check_paths(paths: Mapping[str, str], hits: str | None, columns: Mapping[str, str] | None) -> None:
    if columns is None:
        given = paths
    else:
        both = "hits" if hits is not None else next(iter(paths), None)
        if both is not None:
            what = f"`columns` and `{both}` cannot both be given"
            hint = "`columns` has paths in the response, the other options have paths in a hit"
            raise ConfigError(what, code="contradicting-options", field=both, hint=hint)
        unknown = next((name for name in columns if name not in _COLUMNS), None)
        if unknown is not None:
            hint = did_you_mean(unknown, _COLUMNS) or f"its fields are: {', '.join(_COLUMNS)}"
            raise ConfigError(f"`columns` has no field {unknown!r}", code="unknown-option", hint=hint)
        if "id" not in columns:
            raise ConfigError("`columns` needs `id`", code="missing-option", hint="such as columns: {id: ids[0]}")
        given = columns
    if "score" in given and "distance" in given:
        what = "`score` and `distance` cannot both be given"
        hint = "`score` is better when larger, `distance` when smaller"
        raise ConfigError(what, code="contradicting-options", field="distance", hint=hint)


class Elasticsearch(_Server):
    """`elasticsearch:http://host:9200/index`: a multi_match over `fields`, or your own query in `request`.

    `id` is the field of `_source` that names a chunk (default: `_id`), `text` the one with its text, to be logged.
    `headers` as in `http`, such as `Authorization: ApiKey ${ES_KEY}`. `request` may have `{vector}`, from `model`,
    `embeddings` and `key` as in `dense`.
    """

    name = "elasticsearch"

    def __init__(
        self,
        url: str,
        fields: list[str] | None = None,
        request: dict[str, Any] | None = None,
        id: str | None = None,
        text: str | None = None,
        headers: dict[str, str] | None = None,
        retries: int = 2,
        model: str | None = None,
        embeddings: str | None = None,
        key: str | None = None,
    ) -> None:
        self._connect(url, headers, retries)
        self.id = id
        self.text = text
        if not urlsplit(self.url).path.strip("/"):
            what = "the address has no index"
            raise ConfigError(what, code="bad-address", got=url, expected="http://host:9200/index")
        self.fields: list[str] = fields or ["title", "text"]
        self.request: dict[str, Any] = request or {
            "query": {"multi_match": {"query": "{query}", "fields": self.fields}}
        }
        self._paths = {"chunk_id": "_id", "score": "_score", **stored_paths("_source", id, text)}
        self._filled = self._secrets.fill([self.url, self.request, self.headers])
        self._embed_for(self.request, model, embeddings, key)

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        url, request, headers = self._filled
        wanted = [field for field in (self.id, self.text) if field]
        values = self._values(question, k, watch, used)
        body = {"size": k, "_source": wanted or False, **fill(request, values)}
        said = self._http.ask("POST", f"{url}/_search", body, self._hits, headers=headers, timeout=question.timeout)
        return Found(said.read, watch.latency_ms | {"retrieve": said.ms}, fields=as_field(used))

    def _hits(self, content: Any) -> list[dict[str, Any]]:
        found = list_at(content, "hits.hits", self.url)
        if value_at(content, "timed_out") or value_at(content, "_shards.failed"):
            raise Unusable(f"{self.url}: only part of the index was searched", got=value_at(content, "_shards"))
        return as_hits(hit_at(hit, self._paths) for hit in found)


class OpenSearch(Elasticsearch):
    """`opensearch:http://host:9200/index`: as elasticsearch, with the same search API."""

    name = "opensearch"


class Qdrant(_Server):
    """`qdrant:http://host:6333/collection`: nearest points to the query's vector.

    `model`, `embeddings` and `key` choose the model of the vector, as in `dense`. `request` is your own body (for
    filters, prefetch or inference by the server), with `{vector}` for the vector. `id` and `text` are fields of the
    payload (default: the point's own id).
    """

    name = "qdrant"

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
        self._connect(url, headers, retries)
        self.model: str | None = model
        self.embeddings: str | None = embeddings
        self.key: str | None = key
        self.using = using
        self.id = id
        self.text = text
        server, self._collection = _parts(self.url)
        self.request: dict[str, Any] = request or {"query": "{vector}", **({"using": using} if using else {})}
        self._paths = {"chunk_id": "id", "score": "score", **stored_paths("payload", id, text)}
        self._server, self._body, self._sent = self._secrets.fill([server, self.request, self.headers])
        self._embedder = make_embedder(model, embeddings, key) if _VECTOR in str(self.request) else None

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        values = self._values(question, k, watch, used)
        payload = [field.partition(".")[0] for field in (self.id, self.text) if field]
        body = {"limit": k, "with_payload": payload or False, **fill(self._body, values)}
        url = f"{self._server}/collections/{self._collection}/points/query"
        said = self._http.ask("POST", url, body, self._read, headers=self._sent, timeout=question.timeout)
        hits, by_server = said.read
        return Found(hits, watch.latency_ms | {"retrieve": said.ms}, fields=as_field(used + by_server))

    def _read(self, content: Any) -> tuple[list[dict[str, Any]], Used]:
        hits = as_hits(hit_at(point, self._paths) for point in list_at(content, "result.points", self.url))
        models = value_at(content, "usage.inference.models")  # if the server made the vector
        used = models.items() if isinstance(models, dict) else ()
        return hits, [used_by("embed", name, {"usage": {"prompt_tokens": value_at(m, "tokens")}}) for name, m in used]


def _parts(url: str) -> tuple[str, str]:
    """Split an address into the server and the collection."""
    parts = urlsplit(url)
    path, _, collection = parts.path.rpartition("/")
    if not collection:
        what = "the address has no collection"
        raise ConfigError(what, code="bad-address", got=url, expected="http://host:6333/collection")
    return urlunsplit((parts.scheme, parts.netloc, path.removesuffix("/collections"), "", "")), collection
