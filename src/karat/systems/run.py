"""Ask a retriever every query, and write a run log that can be continued."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import msgspec

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError, shorten
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import write_whole
from karat.formats.corpus import read_corpus
from karat.formats.questions import read_questions
from karat.net.timeouts import TooSlow, Workers
from karat.retrievers.base import Retriever
from karat.retrievers.specs import YAML, make_retriever
from karat.systems.ask import Answered, Asker

_WARM_UP, _TIMEOUT = 3, 30.0
_HOPELESS = 25  # failures, and no answer before them: a wrong address is told now, not after ten thousand queries
_EVERY = 0.5


class Finished(msgspec.Struct):
    """What came of a run. `run` is what `evaluate` takes: the file's name, or the records."""

    run: Any
    system: str
    queries: int
    asked: int  # now; the rest was in the file already
    failed: int
    seconds: float
    notes: list[str]  # what must be said aloud
    first_error: str | None = None


def run_retriever(
    retriever: Any,
    queries: Any,
    *,
    corpus: Any = None,
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
    """Ask a retriever every query of a gold set (or file of queries) and log its answers, times and errors.

    `retriever`: a spec such as `bm25` or `my_app:search`, a callable, or a `Retriever`; `options`: of the one that a
    spec names. `corpus`: file, folder or `Corpus` to search. `k`: hits to log. `output`: a run log to write, or to
    continue where an earlier try of the same run was ended; without it the records stay in memory. `workers`: queries
    at once. `timeout`: seconds for one query. `warm_up`: queries asked beforehand and not counted. `repeat`: times that
    each query is asked; the median time is logged. `min_score`: hits below are cut. `rewrite`: a callable query →
    query, or its name; both queries and both lists are logged.
    """
    _check(k, workers, timeout, warm_up, repeat)
    questions = queries if _are_questions(queries) else read_questions(queries)
    questions = [msgspec.structs.replace(question, timeout=timeout) for question in questions]
    found = make_retriever(retriever, options)
    searched = corpus if corpus is None or isinstance(corpus, Corpus) else read_corpus(corpus)
    if searched is None and found.searches_corpus:
        raise ConfigError(
            f"the retriever {found.name!r} needs a corpus to search", code="no-corpus", hint="--corpus names it"
        )
    asker = Asker(found, searched, k, repeat, min_score, rewrite)
    named = system or _title(retriever, found)
    settings = asker.settings(named, index_version)
    measured = {"workers": workers, "warm_up": warm_up, "repeat": repeat}
    texts = {question.id: question.text for question in questions}
    log: _Log = _Memory(texts)
    if output is not None:
        log = RunFile(Path(output), settings, texts, overwrite=overwrite, retry=retry_failed)
    started = time.monotonic()
    try:
        todo = [question for question in questions if question.id not in log.done]
        if todo and searched is not None:
            found.index(searched)
        _ask(asker, todo, log, {**settings, "measured": measured}, workers, timeout, warm_up, progress)
    finally:
        log.close()
    log.sort()
    return Finished(
        run=log.records if isinstance(log, _Memory) else str(output),
        system=named,
        queries=len(questions),
        asked=len(todo),
        failed=asker.counts["failed"],
        seconds=time.monotonic() - started,
        notes=[*asker.notes(), *_earlier(log.failed)],
        first_error=next(iter(asker.examples.get("failed", ())), None),
    )


def _ask(
    asker: Asker,
    todo: Sequence[Question],
    log: _Log,
    common: dict[str, Any],
    workers: int,
    timeout: float | None,
    warm_up: int,
    progress: Callable[[str, int], AbstractContextManager[Callable[[], None]]] | None,
) -> None:
    whole = None if timeout is None else timeout * asker.askings
    first = todo[:warm_up]
    for _ in Workers(asker.warm, workers, whole).each(first):
        pass
    shown = nullcontext(lambda: None) if progress is None else progress(f"asking {common['system']}", len(todo))
    with shown as tick:
        for asked, (question, answer) in enumerate(Workers(asker.ask, workers, whole).each(todo), 1):
            answer = answer or Answered(None, {}, str(TooSlow(timeout or 0)))
            log.write(asker.record(question, answer, common))
            tick()
            if asked == _HOPELESS < len(todo) and asker.counts["failed"] == asked:
                raise ConfigError(
                    f"stopped, for the first {asked} queries failed: {asker.examples['failed'][0]}",
                    code="every-query-failed",
                    hint="mend it, then the same command with --retry-failed; without, it goes on after them",
                )


def _earlier(failed: int) -> list[str]:
    return [f"{failed:,} queries failed in an earlier try; --retry-failed asks them again"] if failed else []


class _Log(Protocol):
    done: set[str]
    failed: int

    def write(self, record: dict[str, Any]) -> None: ...
    def close(self) -> None: ...
    def sort(self) -> None: ...


class _Memory:
    """Records that nobody wants in a file."""

    def __init__(self, queries: Iterable[str]) -> None:
        self._place = {query: i for i, query in enumerate(queries)}
        self.done: set[str] = set()
        self.failed = 0
        self.records: list[dict[str, Any]] = []
        self.write = self.records.append

    def close(self) -> None:
        pass

    def sort(self) -> None:
        self.records.sort(key=lambda record: self._place[record["query_id"]])


def _title(spec: Any, found: Retriever) -> str:
    """What the system is called where nobody says: as it was asked for."""
    if not isinstance(spec, str):
        return str(getattr(found, "title", found.name))
    return Path(spec).stem if spec.endswith(YAML) else " ".join(spec.split())


def _are_questions(queries: Any) -> bool:
    return isinstance(queries, list) and bool(queries) and all(isinstance(q, Question) for q in queries)


def _check(k: int, workers: int, timeout: float | None, warm_up: int, repeat: int) -> None:
    wanted = {"k": k, "workers": workers, "repeat": repeat}
    for name, value in wanted.items():
        if value < 1:
            raise ConfigError(f"{name} must be 1 or more", got=value)
    if warm_up < 0 or (timeout is not None and not timeout > 0):
        raise ConfigError("the time limit must be above 0, the warm-up 0 or more", got=f"{timeout}, {warm_up}")


class RunFile:
    """Lines of one run, those of an earlier try included.

    `settings` are the fields that all lines share; a file whose lines have others is never continued, for it would be a
    run of two retrievers. `texts` maps each query's id to its text, for the same reason.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], texts: Mapping[str, str], *, overwrite: bool, retry: bool
    ) -> None:
        self._path, self._texts = path, texts
        # As they come back from a file: a tuple is a list there.
        self._settings = msgspec.json.decode(msgspec.json.encode(settings))
        self._file = LineFile(path, overwrite=overwrite)
        try:
            lines = self._file.lines()
        except NotContinued:
            raise self._refusal("it is no run log") from None
        checked = list(map(self._checked, lines))
        kept = {query: line for query, line, failed in checked if not (failed and retry)}
        self.done = set(kept)
        self.failed = 0 if retry else sum(failed for *_, failed in checked)  # in an earlier try
        if len(kept) < len(lines):
            self._file.replace(b"".join(kept.values()))
        self._waiting: list[bytes] = []
        self._written = time.monotonic()

    def _checked(self, line: bytes) -> tuple[str, bytes, bool]:
        try:
            found = msgspec.json.decode(line)
            query = found["query_id"]
        except (msgspec.MsgspecError, UnicodeError, TypeError, KeyError):
            raise self._refusal("it is no run log") from None
        for name, value in self._settings.items():
            if found.get(name) != value:
                was, now = shorten(_json(found.get(name)), 120), shorten(_json(value), 120)
                raise self._refusal(f"its `{name}` is {was}, this run's is {now}")
        if self._texts.get(query) != found.get("query"):
            raise self._refusal(f"it asks another question as {shorten(query, 40)!r} than this set of queries")
        return query, line, found.get("error") is not None

    def _refusal(self, why: str) -> ConfigError:
        return ConfigError(
            f"this file cannot be continued: {why}",
            code="not-continued",
            file=str(self._path),
            hint="--overwrite starts anew; -o names another file",
        )

    def write(self, record: dict[str, Any]) -> None:
        self._waiting.append(msgspec.json.encode(record) + b"\n")
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def flush(self) -> None:
        """What was written is on the disk, in one piece."""
        # Taken before they are written: an interrupt may lose lines, which are asked again, and doubles none.
        lines, self._waiting = self._waiting, []
        if lines:
            self._file.append(b"".join(lines))
        self._written = time.monotonic()

    def close(self) -> None:
        self.flush()
        self._file.close()

    def sort(self) -> None:
        """In the order of the queries, whoever came first."""
        place = {query: i for i, query in enumerate(self._texts)}
        lines = self._path.read_bytes().splitlines(keepends=True)
        ordered = sorted(lines, key=lambda line: place[msgspec.json.decode(line, type=_Named).query_id])
        if ordered != lines:
            write_whole(self._path, b"".join(ordered))


class _Named(msgspec.Struct):
    query_id: str


def _json(value: Any) -> str:
    return "missing" if value is None else msgspec.json.encode(value).decode()
