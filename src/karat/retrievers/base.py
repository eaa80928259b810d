"""Base of retrievers, and the form of their answers."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError, KaratError
from karat.net.timeouts import settled
from karat.registry import Registry

_ID_FIELDS = ("chunk_id", "id", "_id", "doc_id")
_HIT_FIELDS = (
    "rank",
    "doc_id",
    "doc_version",
    "text",
    "source",
)  # in addition to id and score; other fields are kept unchanged
_QUERY_FIELDS = ("raw", "route", "usage", "entities", "rewritten_query", "latency_ms")
_LISTS = ("hits", "topk")


class Unusable(KaratError):
    """An invalid answer, recorded as the error of its query."""

    code = "bad-answer"


class Nothing(ConfigError):
    """A corpus without anything that this retriever can search."""

    code = "empty-corpus"


class Found(msgspec.Struct):
    """An answer: hits in the form of a run log, best first, and other fields of this query."""

    hits: list[dict[str, Any]]
    latency_ms: dict[str, float] = {}  # stage → time; empty for a single stage
    raw: list[dict[str, Any]] | None = None  # hits before reranking
    fields: dict[str, Any] = {}  # route, usage … of the run log

    @property
    def ids(self) -> list[str]:
        return [hit["chunk_id"] for hit in self.hits]


class Retriever:
    """Answers queries with ranked hits. Subclasses define `search`, and `index` if they search a corpus themselves.

    Keep every argument of the constructor as an attribute of the same name: these are the settings that a run log
    records, and the options that a spec such as `bm25(k1=1.2)` can set.
    """

    name: ClassVar[str]
    searches_corpus: bool = True  # False: it has its own index elsewhere

    def index(self, corpus: Corpus) -> None:
        """Index the corpus; called once, before any query. Retrievers with their own index may ignore it."""
        if self.searches_corpus:
            raise NotImplementedError

    def search(self, query: str, k: int, *, language: str | None = None) -> Any:
        """Return up to `k` hits, best first: ids, (id, score) pairs or dicts; may be a coroutine."""
        raise NotImplementedError

    def answer(self, question: Question, k: int) -> Found:
        """Answer a question. Override this instead of `search` to use all its fields or to report stages."""
        return as_found(settled(self.search(question.text, k, language=question.language), question.timeout))

    def settings(self) -> dict[str, Any]:
        """Return the settings for the run log."""
        given = {name: getattr(self, name) for name in parameters(type(self))}
        options = {name: v.settings() if hasattr(v, "settings") else v for name, v in given.items()}
        return {"name": self.name} | {name: value for name, value in options.items() if value not in (None, {})}

    def depth(self, k: int) -> int:
        """Return the depth of the first stage for k hits."""
        return k


REGISTRY: Registry[Retriever] = Registry("retriever", "karat.retrievers", Retriever)


def parameters(kind: type[Retriever]) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(kind.__init__).parameters)
    found.pop("self")
    return {name: p for name, p in found.items() if p.kind is not p.VAR_KEYWORD and p.kind is not p.VAR_POSITIONAL}


class Stopwatch:
    def __init__(self) -> None:
        self.latency_ms: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.latency_ms[name] = (time.perf_counter() - started) * 1000


def timed(retriever: Retriever, question: Question, k: int) -> Found:
    """Return an answer with the times of its stages, or one total time if the retriever reports none."""
    started = time.perf_counter()
    found = retriever.answer(question, k)
    if not found.latency_ms:
        found.latency_ms = {"retrieve": (time.perf_counter() - started) * 1000}
    return found


def ranked(ids: Sequence[str], scores: Sequence[float], k: int) -> list[tuple[str, float]]:
    """Return the k best; ties by id, descending, as everywhere in Karat."""
    pairs = sorted(zip(scores, ids, strict=True), reverse=True)[:k]
    return [(i, float(s)) for s, i in pairs]


def best(ids: Sequence[str], scores: NDArray[np.float32], among: NDArray[np.intp], k: int) -> list[tuple[str, float]]:
    """Return the k best documents among some, given the scores of all."""
    if len(among) > k:  # all candidates, ties included; sorted exactly below
        among = among[scores[among] >= np.partition(scores[among], -k)[-k]]
    return ranked([ids[i] for i in among.tolist()], scores[among].tolist(), k)


def as_found(answer: Any) -> Found:
    """Convert what a retriever returns to one form.

    >>> as_found(["a", ("b", 2), {"id": "c", "score": 1.5, "text": "…"}]).ids
    ['a', 'b', 'c']
    >>> as_found({"hits": ["a"], "route": "faq"}).fields
    {'route': 'faq'}
    """
    if isinstance(answer, Found):
        return answer
    if isinstance(answer, Mapping):
        return _from_mapping(answer)
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise _wrong("the retriever did not return a list", answer)
    return Found(as_hits(answer))


def as_hits(answer: Iterable[Any]) -> list[dict[str, Any]]:
    return [_as_hit(hit) for hit in answer]


def _from_mapping(answer: Mapping[str, Any]) -> Found:
    there = [name for name in _LISTS if name in answer]
    if there:
        fields = {name: answer[name] for name in _QUERY_FIELDS if answer.get(name) is not None}
        latency, raw = fields.pop("latency_ms", {}), fields.pop("raw", None)
        hits = as_found(answer[there[0]]).hits
        return Found(hits, _latency(latency), None if raw is None else as_hits(raw), fields)
    scores = [_score(value, answer) for value in answer.values()]
    return Found(as_hits(ranked(list(map(str, answer)), scores, len(scores))))


def _latency(value: Any) -> dict[str, float]:
    """Return stage → ms, as measured by a retriever."""
    try:
        return msgspec.convert(value, dict[str, float], strict=False)
    except msgspec.ValidationError:
        raise Unusable("invalid latency_ms", expected="stage → milliseconds", got=value) from None


def _as_hit(hit: Any) -> dict[str, Any]:
    if type(hit) is tuple and len(hit) == 2 and type(hit[0]) is str and type(hit[1]) is float:
        item, score = hit  # a fast path for the most common form
        if item and math.isfinite(score):
            return {"chunk_id": item, "score": score}
    if isinstance(hit, Mapping):
        named = next((hit[name] for name in _ID_FIELDS if hit.get(name) is not None), None)
        others = {name: _plain(hit[name]) for name in _HIT_FIELDS if hit.get(name) is not None}
        return {"chunk_id": _id(named, hit), **_scored(hit.get("score"), hit), **others}
    if isinstance(hit, (tuple, list)) and len(hit) == 2:
        return {"chunk_id": _id(hit[0], hit), **_scored(hit[1], hit)}
    return {"chunk_id": _id(hit, hit)}


def _scored(score: Any, hit: Any) -> dict[str, float]:
    return {} if score is None else {"score": _score(score, hit)}


def _id(value: Any, hit: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise _wrong("a hit has no id", hit)
    return str(value)


def _score(value: Any, hit: Any) -> float:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _wrong("a score is not a finite number", hit)
    return float(value)


def _plain(value: Any) -> Any:
    """Convert numpy numbers to Python numbers."""
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def _wrong(what: str, got: Any) -> Unusable:
    hint = "return an empty list if nothing is found" if got is None else None
    return Unusable(what, expected="a list of ids, (id, score) pairs or {chunk_id, score, …}", got=repr(got), hint=hint)


def refuse_empty(corpus: Corpus) -> None:
    if not len(corpus):
        raise Nothing("the corpus is empty", file=corpus.label, hint="it needs at least one document")
