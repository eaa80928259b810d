"""Whether what the gold set names is still there, so that a new chunking is not taken for a worse retriever."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from karat.data.corpus import Corpus
from karat.data.gold import DOC, Gold
from karat.data.ids import DocRule
from karat.data.passages.documents import ChunkTexts, normalise
from karat.data.passages.passage import Passage
from karat.errors import shorten
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.scoring.overlap import relevant_items
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

_GONE = 0.05  # of the chunk labels whose document is there: more than that is no accident
_UNSEEN = 0.9  # the same where only returned chunks are known: a weak retriever misses many that exist
_FEW = 5  # labels that say nothing yet
_EXAMPLES = 3


class LabelCount(msgspec.Struct, frozen=True):
    """Relevant gold items of one kind, and how many of the things they name are there."""

    count: int = 0
    there: int = 0
    moved: int = 0  # chunks that are not there although their document is
    examples: list[str] = []  # of those that are not there


class LabelHealth(msgspec.Struct, frozen=True):
    """Whether the gold set still speaks of what is searched."""

    against: Literal["corpus", "hits"]  # what is there: all of the corpus, or what the run returned for any query
    chunks: LabelCount
    documents: LabelCount  # also bare ids without the mark of a chunk
    passages: LabelCount  # there: a chunk holds it
    changed: int  # chunks that are there, but do not hold the quote that stands beside their id
    changed_examples: list[str]
    quoted: int  # labels of chunks that moved or changed which have a quote or offsets to find them by
    rechunked: bool  # looks like other chunks of the same documents
    unclear: int = 0  # of `documents`, bare ids of which nothing says whether they name documents or chunks


class Known(NamedTuple):
    """What is there."""

    ids: set[str]
    documents: set[str]
    texts: dict[str, str] = {}


def label_health(gold: Gold, rule: DocRule, corpus: Corpus | None, returned: Known | None = None) -> LabelHealth:
    """Against a corpus, or against what the run returned."""
    if corpus is not None:
        texts = dict(zip(corpus.ids, corpus.texts, strict=True)) if gold.passages else {}
        return _Health(gold, rule, Known(set(corpus.ids), set(corpus.documents(rule)), texts), corpus).health()
    return _Health(gold, rule, returned or Known(set(), set()), None).health()


@dataclass
class _Count:
    there: int = 0
    moved: int = 0
    absent: list[str] = field(default_factory=list)

    def labels(self) -> LabelCount:
        examples = list(dict.fromkeys(self.absent))[:_EXAMPLES]
        return LabelCount(self.there + len(self.absent), self.there, self.moved, examples)


class _Health:
    """Counts labels one by one."""

    def __init__(self, gold: Gold, rule: DocRule, known: Known, corpus: Corpus | None) -> None:
        self._gold, self._rule, self._known, self._corpus = gold, rule, known, corpus
        self._documents = gold.names_document(rule)
        self._chunks, self._whole, self._passages = _Count(), _Count(), _Count()
        self._changed: list[str] = []
        self._quoted = self._unclear = 0

    def health(self) -> LabelHealth:
        gold = self._gold
        held = set() if gold.located is None else set(gold.located.items.tolist())
        for item in relevant_items(gold):
            name, passage = gold.ids[item], gold.passages[item] if gold.passages else None
            if gold.located is not None and gold.located.settled[item]:
                _add(self._passages, f"{name}: {_told(passage)}", item in held)
            elif gold.kinds[item] == DOC or (self._documents[item] and not self._is_chunk(name)):
                document = name in self._known.documents
                self._unclear += gold.kinds[item] != DOC and not (document and name not in self._known.ids)
                _add(self._whole, name, document)
            else:
                self._add_chunk(name, passage)
        return LabelHealth(
            against="hits" if self._corpus is None else "corpus",
            chunks=self._chunks.labels(),
            documents=self._whole.labels(),
            passages=self._passages.labels(),
            changed=len(self._changed),
            changed_examples=list(dict.fromkeys(self._changed))[:_EXAMPLES],
            quoted=self._quoted,
            rechunked=self._rechunked(),
            unclear=int(self._unclear),
        )

    def _is_chunk(self, name: str) -> bool:
        return name in self._known.ids and name not in self._known.documents

    def _add_chunk(self, name: str, passage: Passage | None) -> None:
        there, doc = name in self._known.ids, (passage and passage.doc) or self._rule.doc(name)
        moved = not there and doc != name and doc in self._known.documents
        _add(self._chunks, name, there)
        self._chunks.moved += moved
        changed = there and _lacks_quote(self._known.texts.get(name), passage)
        if changed:
            self._changed.append(name)
        if (moved or changed) and passage is not None:
            self._quoted += 1

    def _rechunked(self) -> bool:
        moved = self._chunks.moved + len(self._changed)
        share = _UNSEEN if self._corpus is None else _GONE
        return moved >= _FEW and moved > share * (self._chunks.there + self._chunks.moved)


def _add(count: _Count, name: str, there: bool) -> None:
    if there:
        count.there += 1
    else:
        count.absent.append(name)


def _lacks_quote(text: str | None, passage: Passage | None) -> bool:
    if not text or passage is None or passage.quote is None:
        return False
    return not ChunkTexts([text]).holders(normalise(passage.quote))


def _told(passage: Passage | None) -> str:
    if passage is None:
        return "?"
    return shorten(f"“{passage.quote}”" if passage.quote is not None else f"{passage.start}–{passage.end}", 40)


class LabelHealthAnalysis(Analysis):
    """Gold ids against the corpus, or against what the run returned."""

    name = "label_health"
    title = "Label health"
    finds = LabelHealth

    def need(self, setup: Setup) -> Need:
        if not (setup.gold.grades > 0).any():
            raise Lacking("relevant items in the gold set")
        return Need(returned=setup.corpus is None)

    def find(self, side: Result) -> LabelHealth:
        returned = side.data.returned
        if side.corpus is None and returned is None:
            raise Lacking("a corpus (--corpus), or the run itself")
        known = None if returned is None else Known(*returned)
        return label_health(side.gold, DocRule(side.rules.doc_of), side.corpus, known)
