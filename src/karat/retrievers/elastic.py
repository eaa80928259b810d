"""Elasticsearch and OpenSearch over their search API."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.http import Http, Retry, Secrets, check_url
from karat.retrievers.base import Found, Retriever, Unusable, as_hits
from karat.retrievers.templates import fill, hit_at, list_at, stored_paths, value_at, values_of


class Elasticsearch(Retriever):
    """`elasticsearch:http://host:9200/index`: a multi_match over `fields`, or the query of your own in `request`.

    `id` is the field of `_source` that names a chunk (default: `_id`), `text` the one with its text, to be logged.
    `headers` as in `http`, such as `Authorization: ApiKey ${ES_KEY}`.
    """

    name = "elasticsearch"
    searches_corpus = False

    def __init__(
        self,
        url: str,
        fields: list[str] | None = None,
        request: dict[str, Any] | None = None,
        id: str | None = None,
        text: str | None = None,
        headers: dict[str, str] | None = None,
        retries: int = 2,
    ) -> None:
        self.url, self.id, self.text, self.headers, self.retries = check_url(url), id, text, headers or {}, retries
        if not urlsplit(self.url).path.strip("/"):
            raise ConfigError(
                "the address names no index", code="bad-address", got=url, expected="http://host:9200/index"
            )
        self.fields = fields or ["title", "text"]
        self.request = request or {"query": {"multi_match": {"query": "{query}", "fields": self.fields}}}
        self._paths = {"chunk_id": "_id", "score": "_score", **stored_paths("_source", id, text)}
        self._secrets = Secrets()
        self._filled = self._secrets.fill([self.url, self.request, self.headers])
        self._http = Http(self._secrets, Retry(retries + 1))

    def answer(self, question: Question, k: int) -> Found:
        url, request, headers = self._filled
        wanted = [field for field in (self.id, self.text) if field]
        body = {"size": k, "_source": wanted or False, **fill(request, values_of(question, k))}
        said = self._http.ask("POST", f"{url}/_search", body, self._hits, headers=headers, timeout=question.timeout)
        return Found(said.read, {"retrieve": said.ms})

    def _hits(self, content: Any) -> list[dict[str, Any]]:
        found = list_at(content, "hits.hits", self.url)
        if value_at(content, "timed_out") or value_at(content, "_shards.failed"):
            raise Unusable(f"{self.url}: only a part of the index was searched", got=value_at(content, "_shards"))
        return as_hits(hit_at(hit, self._paths) for hit in found)


class OpenSearch(Elasticsearch):
    """`opensearch:http://host:9200/index`: as elasticsearch, whose search API it shares."""

    name = "opensearch"
