"""Retrievers that answer single questions while a server runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from threading import BoundedSemaphore
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.data.ids import DocRule
from karat.data.question import Question
from karat.errors import ConfigError, UnknownName, printable, shorten
from karat.errors.redaction import redact
from karat.formats.run_records import ranked_hits
from karat.net.timeouts import TooSlow, Workers
from karat.results.queries.shown import Texts
from karat.retrievers.base import Retriever
from karat.retrievers.specs import make_retriever
from karat.systems.run import Answered, Asker

TIMEOUT = 10.0
LONGEST_QUESTION = 2_000  # characters
LONGEST_TEXT = 2_000
MOST_HITS = 50
MOST_NAMED = 20  # retrievers
_AT_ONCE = 4  # questions per retriever, those that hang included


class LiveHit(msgspec.Struct, frozen=True):
    """One hit; its text is cut after 2,000 characters."""

    rank: int
    id: str
    score: float | None
    text: str | None


class LiveList(msgspec.Struct, frozen=True, kw_only=True):
    """What one retriever answered: hits, or an error."""

    retriever: str
    hits: list[LiveHit] = []
    error: str | None = None
    ms: float | None = None


class LiveRetrievers:
    """Retrievers by name. A question that takes too long is abandoned; as long as it hangs, it counts as running."""

    def __init__(self, specs: Mapping[str, Any], corpus: Corpus | None = None, *, timeout: float = TIMEOUT) -> None:
        if not timeout > 0:
            raise ConfigError("the time limit must be above 0", code="bad-setting", got=timeout)
        if len(specs) > MOST_NAMED:
            raise ConfigError("too many retrievers", code="bad-setting", expected=f"at most {MOST_NAMED}")
        self.timeout: float = timeout
        self._corpus = corpus
        self._retrievers: dict[str, Retriever] = {name: make_retriever(spec) for name, spec in specs.items()}
        self._free = {name: BoundedSemaphore(_AT_ONCE) for name in specs}
        self._texts = Texts(corpus, {}, DocRule("#"))
        for name, retriever in self._retrievers.items():
            if corpus is None and retriever.searches_corpus:
                what = f"the retriever {name} needs a corpus to search"
                raise ConfigError(what, code="no-corpus", hint="give it with --corpus")

    @property
    def names(self) -> list[str]:
        return list(self._retrievers)

    def index(self) -> None:
        """Index the corpus; called once, before any question."""
        for retriever in self._retrievers.values():
            if self._corpus is not None:
                retriever.index(self._corpus)

    def ask(self, names: Sequence[str], text: str, k: int = 10) -> list[LiveList]:
        """Ask retrievers the same question at the same time."""
        if not text.strip() or len(text) > LONGEST_QUESTION:
            expected = f"a text of at most {LONGEST_QUESTION:,} characters"
            raise ConfigError("not a question", code="bad-question", field="question", expected=expected)
        if not 1 <= k <= MOST_HITS:
            raise ConfigError(
                "invalid number of hits", code="bad-value", field="k", expected=f"1 to {MOST_HITS}", got=k
            )
        for name in names:
            if name not in self._retrievers:
                raise UnknownName("retriever", name, self._retrievers)
        question = Question("live", text, timeout=self.timeout)
        begun = {name: self._free[name].acquire(blocking=False) for name in dict.fromkeys(names)}
        jobs = [(name, question, k) for name, free in begun.items() if free]
        found = {name: LiveList(retriever=name, error="busy with earlier questions; try again later") for name in begun}
        for (name, *_), answer in Workers(self._ask, max(len(jobs), 1), self.timeout).each(jobs):
            error = str(TooSlow(self.timeout))
            found[name] = LiveList(retriever=name, error=error) if answer is None else answer
        return list(found.values())

    def _ask(self, job: tuple[str, Question, int]) -> LiveList:
        name, question, k = job
        try:
            begun = time.perf_counter()
            asker = Asker(self._retrievers[name], self._corpus, k, 1, None, None)
            answer = asker.ask(question)
            return self._listed(name, answer, k, (time.perf_counter() - begun) * 1000)
        except Exception as error:  # an answer of an unexpected form
            return LiveList(retriever=name, error=_line(f"{type(error).__name__}: {error}"))
        finally:
            self._free[name].release()

    def _listed(self, name: str, answer: Answered, k: int, ms: float) -> LiveList:
        if answer.found is None:
            return LiveList(retriever=name, error=_line(answer.error or "no answer"), ms=ms)
        hits: list[LiveHit] = []
        for hit in ranked_hits(answer.found.hits[:k]):
            text = hit.get("text") or self._texts.of(hit["chunk_id"])
            score = hit.get("score")
            told = None if text is None else str(text)[:LONGEST_TEXT]
            hits.append(LiveHit(len(hits) + 1, str(hit["chunk_id"]), None if score is None else float(score), told))
        return LiveList(retriever=name, hits=hits, ms=ms)


def _line(text: str) -> str:
    return printable(shorten(redact(" ".join(text.split())), 300))
