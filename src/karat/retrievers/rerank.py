"""A second look at the best hits of any retriever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.http import Http, Secrets, check_url
from karat.net.timeouts import settled
from karat.registry import load_callable, title_of
from karat.retrievers.base import Found, Retriever, Stopwatch, Unusable, timed
from karat.retrievers.embedding import STATIC, Vectors, make_embedder
from karat.retrievers.specs import make_retriever
from karat.retrievers.templates import Used, as_field, fill, list_at, used_by, value_at

Scorer = Callable[[Question, list[str], Used], Sequence[Any]]


class Rerank(Retriever):
    """The best `top_n` hits of `first`, put in the order of a reranker's scores; hits below follow as they were.

    `reranker` is `module:callable` (query, texts → a score each; sync or async), the address of a service that answers
    {results: [{index, relevance_score}]} to {query, documents} as Cohere, Jina, vLLM and others do, or `static`: the
    likeness of static word vectors. `request` is a body of your own for it, with `{query}` and `{documents}`; `headers`
    as in `http`. The list before reranking is logged as `raw`.
    """

    name = "rerank"

    def __init__(
        self,
        first: Retriever | None = None,
        reranker: Any = STATIC,
        top_n: int = 50,
        request: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        if top_n < 1:
            raise ConfigError("a reranker looks at 1 hit or more", field="top_n", got=top_n)
        self.first, self.reranker, self.top_n = first or make_retriever("bm25"), reranker, top_n
        self.request, self.headers = request, headers
        self.searches_corpus = self.first.searches_corpus
        self._scorer = self._made()
        self._corpus: Corpus | None = None

    def _made(self) -> Scorer:
        if isinstance(self.reranker, str) and self.reranker.startswith(("http://", "https://")):
            return _Service(self.reranker, self.request, self.headers or {})
        if self.reranker == STATIC:
            return _Likeness()
        return _own(load_callable(self.reranker))

    def index(self, corpus: Corpus) -> None:
        self.first.index(corpus)
        self._corpus = corpus

    def depth(self, k: int) -> int:
        return max(k, self.top_n)

    def settings(self) -> dict[str, Any]:
        named = title_of(self.reranker)
        return super().settings() | {"reranker": named}

    def answer(self, question: Question, k: int) -> Found:
        found = timed(self.first, question, self.depth(k))
        raw = found.hits
        looked_at, below = raw[: self.top_n], raw[self.top_n :]
        watch, used = Stopwatch(), Used(found.fields.get("usage", ()))
        with watch.stage("rerank"):
            hits = self._reordered(question, looked_at, used) if looked_at else []
        hits += [{name: value for name, value in hit.items() if name != "score"} for hit in below]
        return Found(hits[:k], found.latency_ms | watch.latency_ms, raw, found.fields | as_field(used))

    def _reordered(self, question: Question, hits: list[dict[str, Any]], used: Used) -> list[dict[str, Any]]:
        scores = list(self._scorer(question, list(map(self._text, hits)), used))
        if len(scores) != len(hits):
            raise Unusable("the reranker did not score every text", expected=f"{len(hits)} scores", got=len(scores))
        try:
            numbers = [float(score) for score in scores]
        except (TypeError, ValueError):
            raise Unusable("the reranker's scores are no numbers", got=scores) from None
        order = sorted(range(len(hits)), key=lambda i: -numbers[i])  # equal scores keep the order that they had
        return [{**hits[i], "score": numbers[i]} for i in order]

    def _text(self, hit: dict[str, Any]) -> str:
        if "text" in hit:
            return str(hit["text"])
        at = None if self._corpus is None else self._corpus.index.get(hit["chunk_id"])
        if at is None or self._corpus is None:
            hint = "give the corpus, or let the retriever return texts"
            raise Unusable("a hit has no text to rerank by", got=hit["chunk_id"], hint=hint)
        return f"{self._corpus.titles[at]}\n{self._corpus.texts[at]}".strip()


def _own(function: Any) -> Scorer:
    function = getattr(function, "rerank", None) or function
    if not callable(function):
        raise ConfigError(
            "no reranker", code="bad-callable", got=function, expected="a function (query, texts) → scores"
        )
    return lambda question, texts, used: settled(function(question.text, texts), question.timeout)


class _Likeness:
    def __init__(self) -> None:
        self._embedder = make_embedder(STATIC)
        self._known: dict[str, Vectors] = {}  # the same texts come back with other queries

    def __call__(self, question: Question, texts: list[str], used: Used) -> Sequence[Any]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._embedder.embed(new), strict=True))
        query = self._embedder.embed_query(question.text)
        return [float(self._known[text] @ query) for text in texts]


class _Service:
    def __init__(self, url: str, request: dict[str, Any] | None, headers: dict[str, str]) -> None:
        secrets = Secrets()
        body = request or {"query": "{query}", "documents": "{documents}"}
        self._model = str(body.get("model", url))  # by which prices name it
        self._url, self._body, self._headers = secrets.fill([check_url(url), body, headers])
        self._http = Http(secrets)

    def __call__(self, question: Question, texts: list[str], used: Used) -> Sequence[Any]:
        body = fill(self._body, {"query": question.text, "documents": texts})
        said = self._http.ask("POST", self._url, body, self._read, headers=self._headers, timeout=question.timeout)
        read, call = said.read
        used.append(call)
        if any(not 0 <= at < len(texts) for at in read):
            raise Unusable(f"{self._url}: a score for a text that was not sent", got=sorted(read))
        lowest = min(read.values(), default=0.0)
        return [read.get(at, lowest - 1) for at in range(len(texts))]  # services may leave out what scores low

    def _read(self, content: Any) -> tuple[dict[int, float], dict[str, Any]]:
        return self._scores(content), used_by("rerank", self._model, content)

    def _scores(self, content: Any) -> dict[int, float]:
        found: dict[int, float] = {}
        for result in list_at(content, "" if isinstance(content, list) else "results", self._url):
            at, score = value_at(result, "index"), value_at(result, "relevance_score")
            score = value_at(result, "score") if score is None else score
            if not isinstance(at, int) or not isinstance(score, (int, float)):
                raise Unusable(f"{self._url}: not usable", expected="{index, relevance_score}", got=result)
            found[at] = score
        return found
