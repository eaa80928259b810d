"""Asks one query in any thread; records and counts in one."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError, KaratError, printable, shorten
from karat.formats.run_log_writer import ranked_hits
from karat.net.timeouts import settled
from karat.registry import load_callable, title_of
from karat.retrievers.base import Found, Retriever, Unusable, timed

_EXAMPLES = 3


class Answered(msgspec.Struct):
    """One query with its answer, or with what went wrong."""

    found: Found | None
    latency_ms: dict[str, float]
    error: str | None = None
    rewritten: str | None = None
    original: Found | None = None
    steady: bool = True


class Asker:
    """A retriever with all that a run does around it."""

    def __init__(
        self, retriever: Retriever, corpus: Corpus | None, k: int, repeat: int, min_score: float | None, rewrite: Any
    ) -> None:
        self.retriever, self.corpus, self.k, self.repeat, self.min_score = retriever, corpus, k, repeat, min_score
        self._rewrite = load_callable(rewrite)
        self._rewriter = None if rewrite is None else title_of(rewrite)
        self.askings = repeat + (rewrite is not None)
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def settings(self, system: str, index_version: str | None) -> dict[str, Any]:
        """The fields that all lines share, and that a run must have in common to be continued."""
        described = self.retriever.settings()
        corpus = self.corpus
        searched = (
            None if corpus is None else {"name": Path(corpus.label).name, "size": len(corpus), "hash": corpus.hash}
        )
        fields = {
            "system": system,
            "k_raw": self.retriever.depth(self.k),
            "k": self.k,
            "retriever": described,
            "reranker": described.get("reranker"),
            "rewriter": self._rewriter,
            "min_score": self.min_score,
            "corpus": searched,
            "chunker": None if corpus is None else corpus.chunker,
            "index_version": index_version or (corpus.hash if corpus and self.retriever.searches_corpus else None),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def warm(self, question: Question) -> bool:
        self.ask(question)
        return True

    def ask(self, question: Question) -> Answered:
        try:
            return self._answered(question)
        except BaseException as error:  # whatever foreign code raises belongs to its query, sys.exit included
            return Answered(None, {}, _said(error))

    def _answered(self, question: Question) -> Answered:
        asked, stages, original = question, dict[str, float](), None
        if self._rewrite is not None:
            started = time.perf_counter()
            text = settled(self._rewrite(question.text), question.timeout)
            stages["rewrite"] = (time.perf_counter() - started) * 1000
            if not isinstance(text, str) or not text.strip():
                raise ConfigError("the rewriter returned no query", code="bad-answer", expected="text", got=text)
            asked = msgspec.structs.replace(question, text=text)
        answers = [timed(self.retriever, asked, self.k) for _ in range(self.repeat)]
        if self._rewrite is not None:
            original = self.retriever.answer(question, self.k)
        times = {name: median(a.latency_ms.get(name, 0.0) for a in answers) for name in answers[0].latency_ms}
        steady = all(answer.ids == answers[0].ids for answer in answers)
        rewritten = asked.text if asked is not question else None
        answered = Answered(answers[0], stages | times, None, rewritten, original, steady)
        _refuse_unwritable(answered)
        return answered

    def record(self, question: Question, answer: Answered, common: dict[str, Any]) -> dict[str, Any]:
        found = answer.found or Found([])
        record: dict[str, Any] = {"query_id": question.id, **common, "query": question.text}
        record |= found.fields
        if answer.rewritten is not None:
            record["rewritten_query"] = answer.rewritten
        record["topk"] = self._final(question, found.hits)
        if answer.original is not None:
            record["topk_original"] = ranked_hits(answer.original.hits[: self.k])
        if found.raw is not None:
            record["raw"] = ranked_hits(found.raw)
        if answer.error is None:
            record["latency_ms"] = {name: round(ms, 4) for name, ms in answer.latency_ms.items()}
        else:
            record["error"] = answer.error
        self._count(question, answer, found)
        return record

    def _final(self, question: Question, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(hits) > self.k:
            self._note("more", question.id)
        kept = hits[: self.k]
        if self.min_score is not None:
            if any("score" not in hit for hit in kept):
                raise ConfigError(
                    "a score threshold needs scores", code="no-scores", query=question.id, hint="leave --min-score out"
                )
            kept = [hit for hit in kept if hit["score"] >= self.min_score]
        return ranked_hits(kept)

    def _count(self, question: Question, answer: Answered, found: Found) -> None:
        if answer.error is not None:
            self._note("failed", f"{question.id}: {answer.error}")
            return
        ids = found.ids[: self.k]
        if not ids:
            self._note("empty", question.id)
        if len(set(ids)) < len(ids):
            self._note("repeated", question.id)
        if not answer.steady:
            self._note("unsteady", question.id)
        if self.corpus is not None:
            strangers = [item for item in ids if item not in self.corpus.index]
            self._note("strange", *strangers)

    def _note(self, what: str, *examples: str) -> None:
        self.counts[what] += len(examples)
        listed = self.examples.setdefault(what, [])
        listed += examples[: _EXAMPLES - len(listed)]

    def notes(self) -> list[str]:
        return [
            f"{self.counts[what]:,} {said}: {'; '.join(map(_first_line, self.examples[what]))}"
            for what, said in _NOTES.items()
            if self.counts[what]
        ]


_NOTES = {
    "failed": "queries failed, and are logged with their error",
    "empty": "queries got no hit",
    "more": "queries got more hits than were asked for, cut",
    "repeated": "queries got a hit more than once, which counts once",
    "strange": "hits are not in the corpus",
    "unsteady": "queries got other hits when they were asked again",
}


def _first_line(example: str) -> str:
    """What follows in an error is its hint."""
    return shorten(example.partition("\n")[0], 160)


def _refuse_unwritable(answer: Answered) -> None:
    """What cannot be written must fail its query, and not the run."""
    try:
        msgspec.json.encode(answer)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unusable(f"the answer cannot be written as JSON: {error}", code="bad-answer") from error


def _said(error: BaseException) -> str:
    if isinstance(error, KaratError):
        return str(error)
    text = " ".join(str(error).split())
    return printable(shorten(f"{type(error).__name__}: {text}" if text else type(error).__name__, 300))
