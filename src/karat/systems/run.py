"""Run a retriever over queries, and write a run log that can be continued."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError, KaratError, printable, shorten
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import write_whole
from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.corpus import read_corpus
from karat.formats.questions import read_questions
from karat.formats.run_records import ranked_hits
from karat.net.timeouts import TooSlow, Workers, settled
from karat.registry import load_callable, title_of
from karat.results.numbers import counted
from karat.retrievers.base import Found, Retriever, Unusable, timed
from karat.retrievers.specs import YAML, make_retriever

_WARM_UP, _TIMEOUT = 3, 30.0
_HOPELESS = 25  # failures from the start: stop early, for example for a wrong address
_EVERY = 0.5
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
    progress: Callable[[str, int], AbstractContextManager[Callable[[], None]]] | None = None,
) -> Finished:
    """Run a retriever over the queries of a gold set (or file of queries) and log its hits, times and errors.

    `retriever`: a spec such as `bm25` or `my_app:search`, a callable, or a `Retriever`; `options`: its options, for a
    spec. `corpus`: file, folder or `Corpus` to search. `split`: which queries of a BEIR folder. `k`: hits to log.
    `output`: a run log to write, or to continue from an earlier attempt; without it the records stay in memory.
    `workers`: concurrent queries. `timeout`: seconds per query. `warm_up`: untimed queries before the run. `repeat`:
    times to run each query; the median time is logged. `min_score`: removes hits with a lower score. `rewrite`: a
    callable query → query, or its name; both queries and both lists are logged.
    """
    _check(k, workers, timeout, warm_up, repeat)
    are_questions = isinstance(queries, list) and queries and all(isinstance(q, Question) for q in queries)
    questions = queries if are_questions else read_questions(queries, split=split)
    questions = [msgspec.structs.replace(question, timeout=timeout) for question in questions]
    found = make_retriever(retriever, options)
    searched = corpus if corpus is None or isinstance(corpus, Corpus) else read_corpus(corpus)
    if searched is None and found.searches_corpus:
        what = f"the retriever {found.name!r} needs a corpus to search"
        raise ConfigError(what, code="no-corpus", hint="give it with --corpus")
    asker = Asker(found, searched, k, repeat, min_score, rewrite)
    named = system or _title(retriever, found)
    settings = asker.settings(named, index_version)
    common = {**settings, "measured": {"workers": workers, "warm_up": warm_up, "repeat": repeat}}
    texts = {question.id: question.text for question in questions}
    log = _Records(texts)
    if output is not None:
        log = RunFile(Path(output), settings, texts, overwrite=overwrite, retry=retry_failed)
    started = time.monotonic()
    try:
        todo = [question for question in questions if question.id not in log.done]
        if todo and searched is not None:
            found.index(searched)
        whole = None if timeout is None else timeout * asker.askings
        for _ in Workers(asker.ask, workers, whole).each(todo[:warm_up]):
            pass
        shown = nullcontext(lambda: None) if progress is None else progress(f"asking {named}", len(todo))
        with shown as tick:
            for asked, (question, answer) in enumerate(Workers(asker.ask, workers, whole).each(todo), 1):
                answer = answer or Answered(None, {}, str(TooSlow(timeout or 0)))
                log.write(asker.record(question, answer, common))
                tick()
                if asked == _HOPELESS < len(todo) and asker.counts["failed"] == asked:
                    what = f"stopped, because the first {asked} queries failed: {asker.examples['failed'][0]}"
                    hint = "fix the cause, then run the same command with --retry-failed"
                    raise ConfigError(what, code="every-query-failed", hint=hint)
    finally:
        log.close()
    log.sort()
    earlier = [f"{counted(log.failed)} failed in an earlier attempt; retry with --retry-failed"] if log.failed else []
    if log.other_code:
        earlier.append(
            f"{counted(log.other_code)} answered by an earlier version of the code. The log mixes two versions; each "
            "line names its own. To use one version for all queries, run the command with --overwrite"
        )
    return Finished(
        run=log.records if output is None else str(output),
        system=named,
        queries=len(questions),
        asked=len(todo),
        failed=asker.counts["failed"],
        seconds=time.monotonic() - started,
        notes=asker.notes() + earlier,
        first_error=next(iter(asker.examples.get("failed", ())), log.first_error),
        failed_before=log.failed,
    )


def _title(spec: Any, found: Retriever) -> str:
    """Return the default name of a system: its spec."""
    if not isinstance(spec, str):
        return str(getattr(found, "title", found.name))
    return Path(spec).stem if spec.endswith(YAML) else " ".join(spec.split())


def _check(k: int, workers: int, timeout: float | None, warm_up: int, repeat: int) -> None:
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


class _Records:
    """The records of a run in memory."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._place = {query: i for i, query in enumerate(texts)}
        self.done: set[str] = set()  # queries of an earlier attempt
        self.failed = 0  # of them
        self.first_error: str | None = None  # of them
        self.other_code = 0  # of them, answered by an earlier version of the code
        self.records: list[dict[str, Any]] = []

    def write(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def close(self) -> None:
        pass

    def sort(self) -> None:
        """Return the records in the order of the queries."""
        self.records.sort(key=lambda record: self._place[record["query_id"]])


class RunFile(_Records):
    """The lines of a run, including those of an earlier attempt.

    `settings` are the fields that all lines share. A file with other settings is never continued, because it would mix
    two retrievers. `texts` maps each query's id to its text, for the same reason.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], texts: Mapping[str, str], *, overwrite: bool, retry: bool
    ) -> None:
        super().__init__(texts)
        self._path = path
        # As read from a file, where a tuple becomes a list.
        self._settings = msgspec.json.decode(msgspec.json.encode(settings))
        self._file = LineFile(path, overwrite=overwrite)
        try:
            lines = self._file.lines()
            checked = [self._checked(line, retry) for line in lines]
        except NotContinued:
            self._file.close()
            raise self._refusal("it is not a run log") from None
        except ConfigError:
            self._file.close()  # else the next attempt of this process would find it locked
            raise
        kept = {query: line for query, line, error in checked if error is None or not retry}
        self.done: set[str] = set(kept)
        errors = [] if retry else [(query, error) for query, _, error in checked if error is not None]
        self.failed: int = len(errors)
        self.first_error: str | None = f"{errors[0][0]}: {errors[0][1]}" if errors else None
        if len(kept) < len(lines):
            self._file.replace(b"".join(kept.values()))
        self._waiting: list[bytes] = []
        self._written = time.monotonic()

    def _checked(self, line: bytes, retry: bool) -> tuple[str, bytes, str | None]:
        """Return the query of a line, the line, and its error. `retry`: the code may have changed since, because
        failed queries are asked again after a repair."""
        try:
            found = msgspec.json.decode(line)
            query = found["query_id"]
        except (*DECODE_ERRORS, TypeError, KeyError):
            raise self._refusal("it is not a run log") from None
        error = found.get("error")
        differ = {name: value for name, value in self._settings.items() if found.get(name) != value}
        only_code = all(_without_code(found.get(name)) == _without_code(value) for name, value in differ.items())
        if differ and not (only_code and retry):
            name, value = next(iter(differ.items()))
            was, now = shorten(_json(found.get(name)), 120), shorten(_json(value), 120)
            more = "; --retry-failed keeps the answers and asks only the failed queries again" if only_code else ""
            raise self._refusal(f"its `{name}` is {was}, this run's is {now}", more)
        self.other_code += bool(differ) and error is None
        if self._texts.get(query) != found.get("query"):
            raise self._refusal(f"the text of query {shorten(query, 40)!r} differs from this set of queries")
        return query, line, None if error is None else shorten(error, 300)

    def _refusal(self, why: str, more: str = "") -> ConfigError:
        what = f"this file cannot be continued: {why}"
        hint = f"start again with --overwrite, or choose another file with -o{more}"
        return ConfigError(what, code="not-continued", file=str(self._path), hint=hint)

    def write(self, record: dict[str, Any]) -> None:
        self._waiting.append(msgspec.json.encode(record) + b"\n")
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def flush(self) -> None:
        """Write the lines and sync them to disk."""
        # Cleared before writing: an interrupt may lose lines, which are asked again, but never writes them twice.
        lines, self._waiting = self._waiting, []
        if lines:
            self._file.append(b"".join(lines))
        self._written = time.monotonic()

    def close(self) -> None:
        self.flush()
        self._file.close()

    def sort(self) -> None:
        lines = self._path.read_bytes().splitlines(keepends=True)
        ordered = sorted(lines, key=lambda line: self._place[msgspec.json.decode(line, type=_Named).query_id])
        if ordered != lines:
            write_whole(self._path, b"".join(ordered))


class _Named(msgspec.Struct):
    query_id: str


def _without_code(value: Any) -> Any:
    """Settings without the hashes of the code that they name."""
    if isinstance(value, dict):
        return {name: _without_code(inner) for name, inner in value.items() if name != "code"}
    return [_without_code(inner) for inner in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return "missing" if value is None else msgspec.json.encode(value).decode()
