"""Run a retriever over queries, and write a run log that can be continued."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import msgspec

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError, KaratError, printable, shorten
from karat.formats.corpus import read_corpus
from karat.formats.questions import read_questions
from karat.formats.run_records import ranked_hits
from karat.net.timeouts import TooSlow, Workers, settled
from karat.registry import load_callable, title_of
from karat.results.numbers import counted
from karat.retrievers.base import Found, Retriever, Unusable, timed
from karat.retrievers.specs import YAML, make_retriever
from karat.systems.run_file import Records, RunFile

Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
_WARM_UP, _TIMEOUT = 3, 30.0
_HOPELESS = 25  # failures from the start: stop early, for example for a wrong address
_SLOWLY = 5  # the same, if they take long: a server that is down is tried several times for every query
_LONG = 5.0  # seconds
_EXAMPLES = 3


class Finished(msgspec.Struct):
    """The outcome of a run. `run` can be passed to `evaluate`: the file name, or the records."""

    run: Any
    system: str
    queries: int
    asked: int  # now; the others were already in the file
    failed: int  # of those asked now
    seconds: float
    notes: list[str]  # to be shown to the user
    first_error: str | None = None
    failed_before: int = 0  # in an earlier attempt, and still in the file

    @property
    def failed_share(self) -> float:
        return (self.failed + self.failed_before) / max(self.queries, 1)


def run_retriever(
    retriever: Any,
    queries: Any,
    *,
    corpus: Any = None,
    split: str = "test",
    k: int = 50,
    output: str | PathLike[str] | None = None,
    system: str | None = None,
    workers: int = 1,
    timeout: float | None = _TIMEOUT,
    warm_up: int = _WARM_UP,
    repeat: int = 1,
    min_score: float | None = None,
    rewrite: Any = None,
    index_version: str | None = None,
    overwrite: bool = False,
    retry_failed: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Run a retriever over the queries of a gold set (or file of queries) and log its hits, times and errors.

    `retriever`: a spec such as `bm25` or `my_app:search`, a callable, or a `Retriever`; `options`: its options, for a
    spec. `corpus`: file, folder or `Corpus` to search. `split`: which queries of a BEIR folder. `k`: hits to log.
    `output`: a run log to write, or to continue from an earlier attempt; without it the records stay in memory.
    `workers`: concurrent queries. `timeout`: seconds per query. `warm_up`: untimed queries before the run. `repeat`:
    times to run each query; the median time is logged. `min_score`: removes hits with a lower score. `rewrite`: a
    callable query → query, or its name; both queries and both lists are logged.
    """
    check_settings(k, workers, timeout, warm_up, repeat)
    run = Running(
        retriever,
        questions_of(queries, split, timeout),
        corpus=corpus if corpus is None or isinstance(corpus, Corpus) else read_corpus(corpus),
        k=k,
        output=output,
        system=system,
        repeat=repeat,
        min_score=min_score,
        rewrite=rewrite,
        index_version=index_version,
        overwrite=overwrite,
        retry_failed=retry_failed,
        options=options,
    )
    return ask_all([run], workers, timeout, warm_up, progress)[0]


def questions_of(queries: Any, split: str, timeout: float | None) -> list[Question]:
    are_questions = isinstance(queries, list) and queries and all(isinstance(q, Question) for q in queries)
    questions = queries if are_questions else read_questions(queries, split=split)
    return [msgspec.structs.replace(question, timeout=timeout) for question in questions]


class Running:
    """A retriever, the queries to ask it, and the log of its answers. Its options are those of `run_retriever`."""

    def __init__(
        self,
        retriever: Any,
        questions: list[Question],
        *,
        corpus: Corpus | None,
        k: int,
        output: str | PathLike[str] | None,
        system: str | None,
        repeat: int,
        min_score: float | None = None,
        rewrite: Any = None,
        index_version: str | None = None,
        overwrite: bool = False,
        retry_failed: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        found = make_retriever(retriever, options)
        if corpus is None and found.searches_corpus:
            what = f"the retriever {found.name!r} needs a corpus to search"
            raise ConfigError(what, code="no-corpus", hint="give it with --corpus")
        self.questions: list[Question] = questions
        self.asker: Asker = Asker(found, corpus, k, repeat, min_score, rewrite)
        self.system: str = system or title_of_system(retriever, found)
        settings = self.asker.settings(self.system, index_version)
        self.common: dict[str, Any] = settings
        texts = {question.id: question.text for question in questions}
        self.output = output
        self.log: Records = Records(texts)
        if output is not None:
            self.log = RunFile(Path(output), settings, texts, overwrite=overwrite, retry=retry_failed)
        self.todo: list[Question] = [question for question in questions if question.id not in self.log.done]
        self.asked: int = 0
        self.began: float = time.monotonic()

    def index(self) -> None:
        if self.todo and self.asker.corpus is not None:
            self.asker.retriever.index(self.asker.corpus)

    def take(self, question: Question, answer: Answered) -> None:
        """Log an answer. Stop early if nothing but errors comes back, for example from a wrong address."""
        self.log.write(self.asker.record(question, answer, self.common))
        self.asked += 1
        if self.asked > _HOPELESS or self.asker.counts["failed"] < self.asked or self.asked == len(self.todo):
            return
        if self.asked == _HOPELESS or (self.asked >= _SLOWLY and time.monotonic() - self.began > _LONG):
            what = f"stopped, because the first {self.asked} queries failed: {self.asker.examples['failed'][0]}"
            again = "" if self.output is None else " with --retry-failed"
            hint = f"fix the cause, then run the same command{again}"
            raise ConfigError(what, code="every-query-failed", hint=hint)

    def finished(self, seconds: float) -> Finished:
        log, asker = self.log, self.asker
        log.sort()
        notes = asker.notes()
        if log.failed:
            notes.append(f"{counted(log.failed)} failed in an earlier attempt; retry with --retry-failed")
        if log.other_code:
            notes.append(
                f"{counted(log.other_code)} answered by an earlier version of the code. The log mixes two versions; "
                "each line names its own. To use one version for all queries, run the command with --overwrite"
            )
        return Finished(
            run=log.records if self.output is None else str(self.output),
            system=self.system,
            queries=len(self.questions),
            asked=len(self.todo),
            failed=asker.counts["failed"],
            seconds=seconds,
            notes=notes,
            first_error=next(iter(asker.examples.get("failed", ())), log.first_error),
            failed_before=log.failed,
        )


_Job: TypeAlias = tuple[Running, Question]


def ask_all(
    runs: list[Running], workers: int, timeout: float | None, warm_up: int, progress: Progress | None
) -> list[Finished]:
    """Ask each run its queries. Several runs take turns: for every query one after the other, and who is first changes
    from query to query, so that none is always asked first."""
    measured: dict[str, Any] = {"workers": workers, "warm_up": warm_up, "repeat": runs[0].asker.repeat}
    for run in runs:
        beside = [other.system for other in runs if other is not run]
        run.common = {**run.common, "measured": {**measured, **({"beside": beside} if beside else {})}}
    started = time.monotonic()
    whole = None if timeout is None else timeout * runs[0].asker.askings
    try:
        for run in runs:
            run.index()
        for run in runs:
            run.began = time.monotonic()
        for _ in Workers(_ask, workers, whole).each(_in_turn(runs, warm_up)):
            pass
        jobs = _in_turn(runs)
        named = " and ".join(run.system for run in runs)
        shown = nullcontext(lambda: None) if progress is None else progress(f"asking {named}", len(jobs))
        with shown as tick:
            for (run, question), answer in Workers(_ask, workers, whole).each(jobs):
                run.take(question, answer or Answered(None, {}, str(TooSlow(timeout or 0))))
                tick()
    finally:
        for run in runs:
            run.log.close()
    seconds = time.monotonic() - started
    return [run.finished(seconds) for run in runs]


def _ask(job: _Job) -> Answered:
    run, question = job
    return run.asker.ask(question)


def _in_turn(runs: list[Running], most: int | None = None) -> list[_Job]:
    left = [(run, {question.id for question in run.todo[:most]}) for run in runs]
    jobs: list[_Job] = []
    for at, question in enumerate(runs[0].questions):
        turn = [(run, question) for run, ids in left if question.id in ids]
        jobs += turn[::-1] if at % 2 else turn
    return jobs


def title_of_system(spec: Any, found: Retriever) -> str:
    """Return the default name of a system: its spec."""
    if not isinstance(spec, str):
        return str(getattr(found, "title", found.name))
    return Path(spec).stem if spec.endswith(YAML) else " ".join(spec.split())


def check_settings(k: int, workers: int, timeout: float | None, warm_up: int, repeat: int) -> None:
    wanted = {"k": k, "workers": workers, "repeat": repeat}
    for name, value in wanted.items():
        if value < 1:
            raise ConfigError(f"{name} must be 1 or more", got=value)
    if warm_up < 0 or (timeout is not None and not timeout > 0):
        raise ConfigError("the time limit must be above 0, the warm-up 0 or more", got=f"{timeout}, {warm_up}")


def corpus_facts(corpus: Corpus) -> dict[str, Any]:
    return {"name": Path(corpus.label).name, "size": len(corpus), "hash": corpus.hash}


class Answered(msgspec.Struct):
    """One query with its answer or its error."""

    found: Found | None
    latency_ms: dict[str, float]
    error: str | None = None
    rewritten: str | None = None
    original: Found | None = None
    steady: bool = True


class Asker:
    """Runs queries: calls the retriever, measures times, checks answers and counts problems."""

    def __init__(
        self, retriever: Retriever, corpus: Corpus | None, k: int, repeat: int, min_score: float | None, rewrite: Any
    ) -> None:
        self.retriever = retriever
        self.corpus = corpus
        self.k = k
        self.repeat = repeat
        self.min_score = min_score
        self._rewrite = load_callable(rewrite)
        self._rewriter = None if rewrite is None else title_of(rewrite)
        self.askings: int = repeat + (rewrite is not None)
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def settings(self, system: str, index_version: str | None) -> dict[str, Any]:
        """Return the fields that all lines share. To continue a run, they must be equal."""
        described, corpus = self.retriever.settings(), self.corpus
        fields = {
            "system": system,
            "k_raw": self.retriever.depth(self.k),
            "k": self.k,
            "retriever": described,
            "reranker": described.get("reranker"),
            "rewriter": self._rewriter,
            "min_score": self.min_score,
            "corpus": None if corpus is None else corpus_facts(corpus),
            "chunker": None if corpus is None else corpus.chunker,
            "index_version": index_version or (corpus.hash if corpus and self.retriever.searches_corpus else None),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def ask(self, question: Question) -> Answered:
        try:
            return self._answered(question)
        except BaseException as error:  # any error of the retriever, also sys.exit, belongs to its query
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
            record["topk_original"] = ranked_hits(self._pruned(question, answer.original.hits[: self.k]))
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
        return ranked_hits(self._pruned(question, hits[: self.k]))

    def _pruned(self, question: Question, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Keep the hits that reach `min_score`, in both lists, so that only the rewriter makes a difference."""
        if self.min_score is None:
            return hits
        if any("score" not in hit for hit in hits):
            what = "a score threshold needs scores"
            raise ConfigError(what, code="no-scores", query=question.id, hint="leave --min-score out")
        return [hit for hit in hits if hit["score"] >= self.min_score]

    def _count(self, question: Question, answer: Answered, found: Found) -> None:
        if answer.error is not None:
            self._note("failed", f"{question.id}: {answer.error}")
            return
        ids = found.ids[: self.k]
        wrong = {"empty": not ids, "repeated": len(set(ids)) < len(ids), "unsteady": not answer.steady}
        for what in (what for what, is_so in wrong.items() if is_so):
            self._note(what, question.id)
        if self.corpus is not None:
            self._note("strange", *(item for item in ids if item not in self.corpus.index))

    def _note(self, what: str, *examples: str) -> None:
        self.counts[what] += len(examples)
        listed = self.examples.setdefault(what, [])
        listed += examples[: _EXAMPLES - len(listed)]

    def notes(self) -> list[str]:
        return [
            f"{counted(self.counts[what], noun)} {said}: {'; '.join(map(_first_line, self.examples[what]))}"
            for what, (noun, said) in _NOTES.items()
            if self.counts[what]
        ]


_NOTES = {
    "failed": ("query", "failed (the log has the errors)"),
    "empty": ("query", "returned no hits"),
    "more": ("query", "returned too many hits, which were cut"),
    "repeated": ("query", "returned a hit more than once, which counts once"),
    "strange": ("hit", "not in the corpus"),
    "unsteady": ("query", "returned different hits when repeated"),
}


def _first_line(example: str) -> str:
    """Return an error without its hint."""
    return shorten(example.partition("\n")[0], 160)


def _refuse_unwritable(answer: Answered) -> None:
    """Raise Unusable for an answer that cannot be written, so that only its query fails."""
    try:
        msgspec.json.encode(answer)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unusable(f"the answer cannot be written as JSON: {error}", code="bad-answer") from error


def _said(error: BaseException) -> str:
    if isinstance(error, KaratError):
        return str(error)
    text = " ".join(str(error).split())
    return printable(shorten(f"{type(error).__name__}: {text}" if text else type(error).__name__, 300))
