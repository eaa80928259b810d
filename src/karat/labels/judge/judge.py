"""`judge`: label a pool of pairs with a model, with canaries mixed in."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import karat
from karat.data.corpus import Corpus
from karat.data.prices import Prices, read_prices
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.formats.corpus import read_corpus
from karat.labels.files import Label, PoolEntry, now, read_pool, write_beside
from karat.labels.judge.canaries import Canary, CanaryCount, count_canaries, is_fit, make_canaries
from karat.labels.judge.judges import USUAL_TOKENS, FunctionModel, Judge, JudgeVerdict, Prompt, missing, read_prompt
from karat.labels.judge.options import JudgeOptions
from karat.llm.chat import Chat, NoReply
from karat.llm.client import Client, CostEstimate, Progress, Spending, chat_of, client_of, each
from karat.options.option import takes

if TYPE_CHECKING:
    from karat.options.keywords import JudgeKeywords

_EXAMPLES = 3


class Judgements(SavedObject, frozen=True, kw_only=True):
    """What `karat labels judge` prints as JSON. It writes `labels` to a file."""

    schema: Literal["karat/judgements/1"] = "karat/judgements/1"
    pool: str
    annotator: str
    model: str
    prompt_version: str | None
    grades: dict[str, int]  # grade → pairs
    missing: dict[str, int]  # reason → pairs without a grade
    missing_examples: list[str]
    canaries: list[CanaryCount]
    fit: bool | None  # whether it passed the canaries; None if unknown
    spending: Spending
    seconds: float
    notes: list[str]
    labels: list[Label]


class _Task(NamedTuple):
    """A pair or a canary; the judge cannot tell which."""

    query: str
    passage: str
    entry: PoolEntry | None = None
    canary: Canary | None = None


class Judging:
    """Estimates the cost of judging a pool, then does it."""

    @takes(JudgeOptions)
    def __init__(self, pool: str | PathLike[str] | Iterable[PoolEntry], **options: Unpack[JudgeKeywords]) -> None:
        asked = JudgeOptions(**options)
        self.prices: Prices | None = None if asked.prices is None else read_prices(asked.prices)
        self.label: str = str(pool) if isinstance(pool, (str, PathLike)) else "a pool"
        self._workers = asked.workers
        self._entries = read_pool(pool) if isinstance(pool, (str, PathLike)) else list(pool)
        if not self._entries:
            raise ConfigError("the pool is empty", code="empty-pool", file=self.label)
        self._tasks = self._lent(asked.corpus)
        pairs = [(task.query, task.passage) for task in self._tasks]
        self._canaries = make_canaries(pairs, asked.canaries, asked.seed)
        self._mixed = [*self._tasks, *(_Task(c.query, c.passage, canary=c) for c in self._canaries)]
        random.Random(asked.seed).shuffle(self._mixed)
        model = _model(asked)
        self.client: Client = client_of(model, asked)
        self._judge = Judge(self.client, None if isinstance(model, FunctionModel) else _prompt(asked.prompt))
        self.annotator: str = asked.annotator or self.client.model.model

    def _lent(self, corpus: Any) -> list[_Task]:
        """The pairs with both texts; a corpus provides missing passages."""
        lent = corpus if corpus is None or isinstance(corpus, Corpus) else read_corpus(corpus)
        tasks = [_Task(e.query or "", _passage(e, lent), e) for e in self._entries]
        found = [task for task in tasks if task.query.strip() and task.passage.strip()]
        if not found:
            lacking = "query" if any(task.passage.strip() for task in tasks) else "text"
            hint = "add the texts with --corpus" if lacking == "text" else "karat labels pool --gold writes the queries"
            what = f"no pair in the pool has a {lacking}"
            raise ConfigError(what, code="missing-text", file=self.label, field=lacking, hint=hint)
        return found

    def estimate(self) -> CostEstimate:
        """The cost of requests that are not cached. Retries cost extra."""
        requests = (self._judge.request(task.query, task.passage) for task in self._mixed)
        return self.client.estimate(requests, 0 if self._judge.version is None else USUAL_TOKENS, self.prices)

    def run(self, output: str | PathLike[str] | None = None, progress: Progress | None = None) -> Judgements:
        started = time.monotonic()
        shown = nullcontext(lambda: None) if progress is None else progress("judging", len(self._mixed))
        given: dict[int, JudgeVerdict] = {}
        with shown as tick:
            for task, judged in each(
                self._mixed, lambda task: self._judge.judge(task.query, task.passage), self._workers
            ):
                if isinstance(judged, NoReply):
                    judged = missing("no reply", str(judged), now())
                given[id(task)] = judged
                tick()
        canaries = count_canaries([(t.canary, given[id(t)].grade) for t in self._mixed if t.canary is not None])
        of_entries = {id(task.entry): given[id(task)] for task in self._tasks}
        labels = [self._label(entry, of_entries.get(id(entry))) for entry in self._entries]
        kept = 0 if output is None else write_beside(Path(output), labels, self.annotator)
        # Not after an early end: pending requests may still be written.
        self.client.close()
        return self._summary(labels, canaries, kept, time.monotonic() - started)

    def _label(self, entry: PoolEntry, judged: JudgeVerdict | None) -> Label:
        verdict = judged or missing("no text", "" if entry.query else "the query has none", now())
        return Label(
            query_id=entry.query_id,
            chunk_id=entry.chunk_id,
            doc_id=entry.doc_id,
            grade=verdict.grade,
            annotator=self.annotator,
            kind="judge",
            reason=verdict.reason,
            note=verdict.note,
            quote=verdict.quote,
            time=verdict.time,
            inclusion_probability=entry.inclusion_probability,
            model=self.client.model.model,
            prompt_version=self._judge.version,
        )

    def _summary(self, labels: list[Label], canaries: list[CanaryCount], kept: int, seconds: float) -> Judgements:
        graded = Counter(f"{label.grade:g}" for label in labels if label.grade is not None)
        lost = [label for label in labels if label.grade is None]
        return Judgements(
            karat=karat.__version__,
            pool=self.label,
            annotator=self.annotator,
            model=self.client.model.model,
            prompt_version=self._judge.version,
            grades={grade: graded[grade] for grade in ("2", "1", "0")},
            missing=dict(Counter((label.reason or "").partition(":")[0] for label in lost).most_common()),
            missing_examples=[f"{label.key.query} {label.key.item}: {label.reason}" for label in lost[:_EXAMPLES]],
            canaries=canaries,
            fit=is_fit(canaries),
            spending=self.client.spending(self.prices),
            seconds=seconds,
            notes=_notes(graded, len(labels), kept),
            labels=labels,
        )


@takes(JudgeOptions)
def judge_pool(
    pool: str | PathLike[str] | Iterable[PoolEntry],
    *,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[JudgeKeywords],
) -> Judgements:
    """Let a model grade the pairs of a pool 2, 1 or 0. Pairs that cannot be graded are missing, never 0.

    Use either a `model`, with the key in KARAT_LLM_KEY or OPENAI_API_KEY, or `judge`: a function or its name
    `module:callable`. `output`: labels file; lines by other annotators are kept.
    """
    return Judging(pool, **options).run(output, progress)


def _model(asked: JudgeOptions) -> Chat | FunctionModel:
    model, function = asked.model, asked.judge
    if (model is None) == (function is None):
        expected = "either a model (--model) or a function (--judge)"
        raise ConfigError("choose one judge", code="missing-option", expected=expected)
    if function is None:
        assert model is not None
        return chat_of(model, asked)
    if asked.base_url is not None or asked.prompt is not None:
        what = "--base-url and --prompt do not apply to a function"
        raise ConfigError(what, code="no-such-option", hint="remove --base-url and --prompt")
    return FunctionModel(function, asked.timeout)


def _prompt(given: str | PathLike[str] | Prompt | None) -> Prompt:
    if given is None or isinstance(given, Prompt):
        return given or Prompt()
    return read_prompt(given)


def _passage(entry: PoolEntry, corpus: Corpus | None) -> str:
    title, text = entry.title, entry.text
    at = None if corpus is None else corpus.index.get(str(entry.chunk_id or entry.doc_id))
    if corpus is not None and at is not None:
        title, text = title or corpus.titles[at], text or corpus.texts[at]
    return f"{title}\n\n{text or ''}" if title else text or ""


def _notes(graded: Counter[str], pairs: int, kept: int) -> list[str]:
    notes = []
    if kept:
        notes.append(f"existing labels kept in the file: {kept:,}")
    if len(graded) == 1 and graded.total() >= 10:
        notes.append(f"every pair got grade {next(iter(graded))}, so these labels are useless")
    if graded.total() < 0.95 * pairs:
        notes.append(f"{pairs - graded.total():,} of {pairs:,} pairs have no grade; the rest may not be a fair sample")
    return notes
