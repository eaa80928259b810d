"""Questions from production: a sample of those in traces, with what was retrieved for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec

from karat.data.audit import Audit, Entry
from karat.data.corpus import Corpus
from karat.data.gold import Dataset, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.hits import Run
from karat.data.text_index import TextIndex, normal_text
from karat.errors import ConfigError, InputError
from karat.files.atomic_write import write_whole
from karat.formats.base import ReadOptions, Source
from karat.formats.field_map import FieldMap
from karat.formats.log_questions import log_map, log_records
from karat.formats.mapped import suggestion
from karat.formats.run_log import RunLog
from karat.formats.traces.assemble import TraceOptions, TraceRecord, trace_records
from karat.formats.traces.redact import Redaction
from karat.formats.traces.run import FirstSeen, in_batches, name_hits, trace_options
from karat.labels.files import PoolEntry

_NONE = "(none)"  # the stratum of traces without the attribute
_SYSTEM = "production"  # where traces do not name their service
_STRATA = 1000
_LANGUAGES = ("language", "lang", "locale")


class Stratum(msgspec.Struct, frozen=True):
    """One value of the attribute that the sample is stratified by."""

    value: str
    questions: int  # distinct ones
    drawn: int


class QuestionSample(msgspec.Struct, frozen=True):
    """How questions were drawn from traces."""

    file: str
    traces: int  # with a question
    distinct: int  # questions, ignoring case and white space
    in_gold: int  # of these, left out because the gold set has them
    drawn: int
    by: str | None
    strata: list[Stratum]
    redacted: list[str]  # names of the patterns
    redacted_nothing: list[str]  # those of them that no text of the traces matches
    audit: list[Entry]


class DrawnQuestion(msgspec.Struct):
    """A question with the first trace that asked it."""

    id: str
    text: str
    record: dict[str, Any]
    tags: dict[str, Any]
    asked: int = 1  # in how many traces

    def entry(self) -> dict[str, Any]:
        return {"query_id": self.id, "query": self.text, "tags": {**self.tags, "asked": self.asked}}


class Drawn(msgspec.Struct, frozen=True):
    """The sample."""

    questions: list[DrawnQuestion]
    summary: QuestionSample
    redaction: Redaction | None = None
    score_field: str | None = None  # the file's name for scores, where a map renamed them

    def gold(self) -> Gold:
        """The questions as a gold set without judgements."""
        builder = GoldBuilder(self.summary.file)
        for one in self.questions:
            builder.add(one.id, [], [])
            builder.say("query", one.text)
            for name, value in one.entry()["tags"].items():
                builder.say(name, value, tag=True)
        return builder.build(Dataset(hash="sha256:" + hashlib.sha256(self._lines()).hexdigest()[:16]))

    def run(self) -> Run:
        """What was retrieved."""
        found = RunLog(self.summary.file, [one.record for one in self.questions])
        found.score_field = self.score_field
        return found

    def redacted(self, entries: list[PoolEntry]) -> list[PoolEntry]:
        """Pairs without personal data in texts that a corpus added."""
        if self.redaction is None:
            return entries
        hide = self.redaction.text
        for one in entries:
            one.query, one.text, one.title = (text and hide(text) for text in (one.query, one.text, one.title))
        return entries

    def save(self, path: str | PathLike[str]) -> None:
        """Write the questions as JSONL, the start of a gold set."""
        write_whole(Path(path), self._lines())

    def _lines(self) -> bytes:
        return b"".join(msgspec.json.encode(one.entry()) + b"\n" for one in self.questions)


def draw_questions(
    traces: str | PathLike[str],
    *,
    size: int = 200,
    by: str | None = None,
    seed: int = 0,
    redact: Sequence[str] = (),
    gold: Gold | None = None,
    corpus: Any = None,
    query_from: Literal["retriever", "root"] = "retriever",
    columns: Any = None,
    system: str | None = None,
) -> Drawn:
    """Draw distinct questions from traces, or from a run log with the texts of its queries. Those that `gold` has are
    left out.

    `by`: `day`, `route`, `language` or another attribute. Its values are represented in proportion to their questions,
    each at least once. The sample depends on the questions and the seed, not on the order of the traces. `system`: only
    traces of this service.
    """
    if size < 1:
        raise ConfigError("nothing to draw", code="bad-setting", expected="1 or more questions", got=size)
    redaction = Redaction(redact) if redact else None
    source, audit = Source(Path(traces), is_run=True), Audit()
    source.refuse_nonsense()
    log = log_map(source, FieldMap.of(columns))
    if log is not None:
        records = log_records(source, log, redaction)
    else:
        options = trace_options(ReadOptions(query_from=query_from, fields=columns))
        options = msgspec.structs.replace(options, redaction=redaction, attributes=() if by is None else (by,))
        records = _traced(source, options, audit)
    known = None if gold is None else TextIndex(lambda: zip(gold.fields.get("query", ()), gold.queries, strict=False))
    drawing = _Drawing(size, by, seed, source.label)
    for batch in in_batches(records):
        asked = (one for one in batch if system in (None, one.record.get("system")))
        drawing.add([one for one in asked if "query" in one.record], known)
    chosen, strata = drawing.finish()
    without_match = [] if redaction is None else redaction.without_match
    chunks = TextIndex(lambda: _texts(corpus, redaction)) if isinstance(corpus, Corpus) else None
    for one in chosen:
        name_hits(one.record, chunks, audit)
    summary = QuestionSample(
        file=source.label,
        traces=drawing.traces,
        distinct=drawing.distinct,
        in_gold=drawing.in_gold,
        drawn=len(chosen),
        by=by,
        strata=strata,
        redacted=[] if redaction is None else redaction.names,
        redacted_nothing=without_match,
        audit=list(audit),
    )
    return Drawn(chosen, summary, redaction, None if log is None else log.roles.get("score"))


def _traced(source: Source, options: TraceOptions, audit: Audit) -> Iterator[TraceRecord]:
    try:
        yield from trace_records(source, options, audit)
    except InputError as error:
        if error.code == "not-a-span":
            error.hint = suggestion(source, "run") or "a run log with the fields query, query_id and topk works too"
        raise


def _texts(corpus: Corpus, redaction: Redaction | None) -> Iterable[tuple[str, str]]:
    """Texts as they would be in redacted traces, with their ids."""
    texts = corpus.texts if redaction is None else map(redaction.text, corpus.texts)
    return zip(texts, corpus.ids, strict=True)


class _Drawing:
    """Keeps the questions of each stratum that come first in an order given by the seed."""

    def __init__(self, size: int, by: str | None, seed: int, label: str) -> None:
        self._size, self._by, self._seed, self._label = size, by, seed, label
        self._seen = FirstSeen()
        self._held: dict[str, DrawnQuestion] = {}  # by normal text
        self._heaps: dict[str, list[tuple[int, str]]] = {}  # the last question on top
        self._counts: dict[str, int] = {}
        self.traces = self.distinct = self.in_gold = 0

    def add(self, batch: list[TraceRecord], known: TextIndex | None) -> None:
        texts = [normal_text(one.record["query"]) for one in batch]
        self.traces += len(batch)
        for one, text, first in zip(batch, texts, self._seen.pick(texts), strict=True):
            if first and known is not None and known.ids(text):
                self.in_gold += 1
            elif first:
                self._offer(one, text)
            elif text in self._held:
                self._held[text].asked += 1
            self.distinct += first

    def _offer(self, one: TraceRecord, text: str) -> None:
        stratum = _stratum(one, self._by)
        self._counts[stratum] = self._counts.get(stratum, 0) + 1
        if len(self._counts) > _STRATA:
            what, hint = f"{self._by!r} has more than {_STRATA:,} values", "use an attribute with fewer, or --by day"
            raise ConfigError(what, code="too-many-values", file=self._label, field="by", hint=hint)
        heap, place = self._heaps.setdefault(stratum, []), -_place(self._seed, text)
        if len(heap) == self._size and place < heap[0][0]:
            return
        heappush(heap, (place, text))
        self._held[text] = self._question(one, stratum)
        if len(heap) > self._size:
            del self._held[heappop(heap)[1]]

    def _question(self, one: TraceRecord, stratum: str) -> DrawnQuestion:
        name = str(one.record.get("query_id", one.trace))
        tags = {name: value for name, value in (("day", one.day), (self._by, stratum)) if name and value is not None}
        language = next((one.attributes[n] for n in _LANGUAGES if isinstance(one.attributes.get(n), str)), None)
        if language is not None:
            tags.setdefault("language", language)
        record = {
            name: value for name, value in one.record.items() if name in ("query", "topk", "system", "score_order")
        }
        return DrawnQuestion(name, one.record["query"], {"query_id": name, "system": _SYSTEM, **record}, tags)

    def finish(self) -> tuple[list[DrawnQuestion], list[Stratum]]:
        if not self._counts:
            what = "all questions are already in the gold set" if self.in_gold else "no trace has a question"
            raise InputError(f"nothing to label: {what}", code="nothing-to-label", file=self._label)
        if self._by is not None and set(self._counts) == {_NONE}:
            what, hint = f"no trace has the attribute {self._by!r}", "use day, route, language or an attribute of spans"
            raise ConfigError(what, code="unmapped-field", file=self._label, field="by", hint=hint)
        shares = _shares(self._counts, self._size)
        chosen: list[DrawnQuestion] = []
        for stratum, share in shares.items():
            first = sorted(self._heaps[stratum], reverse=True)[:share]
            chosen += [self._held[text] for _, text in first]
        names: dict[str, int] = {}
        for one in chosen:  # a trace may have several questions
            number = names[one.id] = names.get(one.id, 0) + 1
            one.id = one.record["query_id"] = one.id if number == 1 else f"{one.id}-{number}"
        strata = [Stratum(value, self._counts[value], share) for value, share in shares.items()]
        return chosen, strata if self._by is not None else []


def _stratum(one: TraceRecord, by: str | None) -> str:
    if by is None:
        return _NONE
    if by == "day":
        value: Any = one.day
    elif by == "route":
        value = one.record.get("route")
        value = "+".join(value) if isinstance(value, list) else value
    elif by == "language":
        value = next((one.attributes[name] for name in _LANGUAGES if name in one.attributes), None)
    else:
        value = one.attributes.get(by)
    return _NONE if value is None or value == "" else str(value)


def _place(seed: int, text: str) -> int:
    """The place of a question in a random order."""
    digest = hashlib.blake2b(f"{seed}\0{text}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _shares(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """How many questions of each stratum: in proportion, at least one, and never more than there are.

    >>> _shares({"de": 900, "en": 99, "fr": 1}, 10), _shares({"a": 2, "b": 1}, 10)
    ({'de': 8, 'en': 1, 'fr': 1}, {'a': 2, 'b': 1})
    """
    total = sum(counts.values())
    names = sorted(counts, key=lambda name: (-counts[name], name))
    if size >= total:
        return {name: counts[name] for name in names}
    names = names[:size]  # the largest, if there are more strata than questions
    shares = {name: max(1, size * counts[name] // total) for name in names}

    def rest(name: str) -> float:
        return size * counts[name] / total - shares[name]

    while (left := size - sum(shares.values())) != 0:
        if left > 0:
            shares[max((n for n in names if shares[n] < counts[n]), key=rest)] += 1
        else:
            shares[min((n for n in names if shares[n] > 1), key=rest)] -= 1
    return shares
