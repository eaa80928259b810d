"""Any search service over HTTP, told in a few lines of YAML."""

from __future__ import annotations

from typing import Any, Literal

from karat.data.question import Question
from karat.net.http import Http, Retry, Secrets, check_url
from karat.retrievers.base import Found, Retriever, as_hits
from karat.retrievers.templates import fill, fill_url, hit_at, list_at, values_of

_USUAL = ("hits", "results", "documents", "matches", "items", "data", "topk")
_PATHS = ("score", "text", "doc_id", "doc_version", "source")


class HttpEndpoint(Retriever):
    """Sends a request built from a template, finds the hits in the JSON that comes back.

    `request` is the JSON body (default: {query, k}), `params` the query string, `hits` the path to the list (found by
    itself where it has a usual name), `id`, `score`, `text`, `doc_id`, `doc_version`, `source` are paths inside of a
    hit. `{query}`, `{k}`, `{language}`, `{query_id}` and the query's tags are filled in; `${NAME}` is read from the
    environment.
    """

    name = "http"
    searches_corpus = False

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
    ) -> None:
        self.url, self.headers, self.retries = check_url(url), headers or {}, retries
        in_url = params is not None or "{query}" in url
        self.method = method or ("GET" if in_url and request is None else "POST")
        self.request = (
            {"query": "{query}", "k": "{k}"} if request is None and self.method == "POST" and not in_url else request
        )
        self.params = {"query": "{query}", "k": "{k}"} if self.method == "GET" and not in_url else params
        self.hits, self.id, self.score, self.text = hits, id, score, text
        self.doc_id, self.doc_version, self.source = doc_id, doc_version, source
        paths = {"chunk_id": id, **{name: getattr(self, name) for name in _PATHS}}
        self._paths = {name: path for name, path in paths.items() if path is not None}
        self._secrets = Secrets()
        self._filled = self._secrets.fill([self.url, self.request, self.params, self.headers])
        self._http = Http(self._secrets, Retry(retries + 1))

    def answer(self, question: Question, k: int) -> Found:
        values = values_of(question, k)
        url, request, params, headers = self._filled
        said = self._http.ask(
            self.method,
            fill_url(url, values, params),
            fill(request, values),
            self._hits,
            headers=fill(headers, values),
            timeout=question.timeout,
        )
        return Found(said.read, {"retrieve": said.ms})

    def _hits(self, content: Any) -> list[dict[str, Any]]:
        path = self.hits
        if path is None and isinstance(content, dict):
            path = next((name for name in _USUAL if isinstance(content.get(name), list)), None)
        return as_hits(map(self._hit, list_at(content, path or "", self.url)))

    def _hit(self, hit: Any) -> Any:
        if not isinstance(hit, dict):
            return hit
        named = hit_at(hit, self._paths)
        return named if self.id is not None else hit | named
