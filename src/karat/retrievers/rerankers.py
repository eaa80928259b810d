"""Rerankers for `karat run` and `karat stress`.

A reranker is `module:callable` or a callable (sync or async), an object with `rerank`, the address of a service that
returns {results: [{index, relevance_score}]} for {query, documents} as Cohere, Jina, vLLM and others do, or `static`:
the similarity of static word vectors. A callable takes the text of a query and, depending on the name of its second
argument, the `hits` (dicts with chunk_id, rank, doc_id, score, text) or their texts. It returns one score per hit. If
it takes hits, it may also return the ids in their new order, (id, score) pairs or {id: score}.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.http import Http, Secrets, check_url
from karat.net.timeouts import settled
from karat.registry import load_callable
from karat.retrievers.base import Unusable
from karat.retrievers.dense import STATIC, Vectors, make_embedder
from karat.retrievers.templates import Used, fill, list_at, used_by, value_at

Hit = dict[str, Any]
Order = list[tuple[int, float | None]]  # positions of the hits in their new order, with scores if there are any
_TAKE_HITS = frozenset({"hits", "chunks", "candidates", "results"})
_GIVES = "the ids in their new order, (id, score) pairs, or one score per hit"


def make_reranker(given: Any, request: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> Reranker:
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        return _Service(given, request, headers or {})
    return _Likeness() if given == STATIC else _Own(given)


class Reranker:
    """Puts the hits of a query in a new order."""

    def __init__(self, name: str) -> None:
        self.name = name

    def order(self, question: Question, hits: list[Hit], used: Used) -> Order:
        """Return the new order of the hits. Raises Unusable for an invalid answer."""
        return self._read(self._ask(question, hits, used), [hit["chunk_id"] for hit in hits])

    def _ask(self, question: Question, hits: list[Hit], used: Used) -> Any:
        raise NotImplementedError

    def _texts(self, hits: list[Hit]) -> list[str]:
        bare = next((hit["chunk_id"] for hit in hits if "text" not in hit), None)
        if bare is not None:
            hint = "give the corpus with --corpus, or let the retriever return texts"
            raise Unusable("a hit has no text for the reranker", got=bare, hint=hint)
        return [hit["text"] for hit in hits]

    def _read(self, given: Any, ids: list[str], *, may_be_places: bool = False) -> Order:
        if isinstance(given, Mapping):
            given = sorted(given.items(), key=lambda pair: -self._number(pair[1]))
        try:
            values = list(given.tolist() if hasattr(given, "tolist") else given)
        except TypeError:
            raise self._error("returned something else", expected=_GIVES, got=given) from None
        values = [value.item() if hasattr(value, "item") else value for value in values]
        if values and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            return self._by_score(values, ids, may_be_places)
        return self._by_id(values, ids)

    def _by_score(self, scores: list[float], ids: list[str], may_be_places: bool) -> Order:
        if len(scores) != len(ids):
            raise self._error("returned too few or too many scores", expected=f"{len(ids)}", got=len(scores))
        whole = all(isinstance(score, int) for score in scores)
        if may_be_places and len(scores) > 1 and whole and sorted(scores) == [*range(len(scores))]:
            hint = "return ids in their new order, or scores as decimals"
            raise self._error("returned numbers that may be positions or scores", got=scores, hint=hint)
        numbers = list(map(self._number, scores))
        order = sorted(range(len(ids)), key=lambda at: -numbers[at])  # equal scores keep their order
        return [(at, numbers[at]) for at in order]

    def _by_id(self, values: list[Any], ids: list[str]) -> Order:
        place = {item: at for at, item in enumerate(ids)}
        order: dict[str, float | None] = {}
        for value in values:
            item, score = self._pair(value)
            if item not in place:
                raise self._error("returned an unknown id", got=item)
            if item in order:
                raise self._error("returned an id twice", got=item)
            order[item] = score
        return [(place[item], score) for item, score in order.items()]

    def _pair(self, value: Any) -> tuple[str, float | None]:
        score = None
        if isinstance(value, Mapping):
            value, score = value.get("chunk_id", value.get("id")), value.get("score")
        elif isinstance(value, (tuple, list)) and value:
            value, score = value[0], value[1] if len(value) > 1 else None
        if not isinstance(value, str):
            raise self._error("returned something else", expected=_GIVES, got=value)
        return value, None if score is None else self._number(score)

    def _number(self, score: Any) -> float:
        score = score.item() if hasattr(score, "item") else score
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
            raise self._error("returned an invalid score", expected="a finite number", got=score)
        return float(score)

    def _error(self, what: str, **more: Any) -> Unusable:
        return Unusable(f"the reranker {self.name} {what}", **more)


class _Own(Reranker):
    """A callable of the user."""

    def __init__(self, given: Any) -> None:
        super().__init__(given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__))
        found = load_callable(given)
        self._call: Callable[..., Any] = getattr(found, "rerank", None) or found
        if not callable(self._call):
            what = f"the reranker {self.name} is not callable"
            raise ConfigError(what, code="bad-callable", expected="a function", got=found)
        self._takes_hits = _second(self._call) in _TAKE_HITS

    def _ask(self, question: Question, hits: list[Hit], used: Used) -> Any:
        given: Any = [dict(hit) for hit in hits] if self._takes_hits else self._texts(hits)
        return settled(self._call(question.text, given), question.timeout)

    def _read(self, given: Any, ids: list[str], *, may_be_places: bool = False) -> Order:
        return super()._read(given, ids, may_be_places=self._takes_hits)


def _second(function: Callable[..., Any]) -> str | None:
    """Return the name of the second argument, if known."""
    try:
        names = [name for name, p in inspect.signature(function).parameters.items() if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):
        return None
    return names[1] if len(names) > 1 else None


class _Likeness(Reranker):
    def __init__(self) -> None:
        super().__init__(STATIC)
        self._embedder = make_embedder(STATIC)
        self._known: dict[str, Vectors] = {}  # texts repeat across queries

    def _ask(self, question: Question, hits: list[Hit], used: Used) -> Any:
        texts = self._texts(hits)
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._embedder.embed(new), strict=True))
        query = self._embedder.embed_query(question.text)
        return [float(self._known[text] @ query) for text in texts]


class _Service(Reranker):
    def __init__(self, url: str, request: dict[str, Any] | None, headers: dict[str, str]) -> None:
        super().__init__(url)
        secrets = Secrets()
        body = request or {"query": "{query}", "documents": "{documents}"}
        self._model = str(body.get("model", url))  # its name in price tables
        self._url, self._body, self._headers = secrets.fill([check_url(url), body, headers])
        self._http = Http(secrets)

    def _ask(self, question: Question, hits: list[Hit], used: Used) -> Any:
        texts = self._texts(hits)
        body = fill(self._body, {"query": question.text, "documents": texts})
        said = self._http.ask(
            "POST", self._url, body, self._read_scores, headers=self._headers, timeout=question.timeout
        )
        read, call = said.read
        used.append(call)
        if any(not 0 <= at < len(texts) for at in read):
            raise Unusable(f"{self._url}: a score for a text that was not sent", got=sorted(read))
        lowest = min(read.values(), default=0.0)
        return [read.get(at, lowest - 1) for at in range(len(texts))]  # services may leave out low scores

    def _read_scores(self, content: Any) -> tuple[dict[int, float], dict[str, Any]]:
        found: dict[int, float] = {}
        for result in list_at(content, "" if isinstance(content, list) else "results", self._url):
            at, score = value_at(result, "index"), value_at(result, "relevance_score")
            score = value_at(result, "score") if score is None else score
            if not isinstance(at, int) or not isinstance(score, (int, float)):
                raise Unusable(f"{self._url}: invalid result", expected="{index, relevance_score}", got=result)
            found[at] = score
        return found, used_by("rerank", self._model, content)
