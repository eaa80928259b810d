"""Check that the items of the gold set still exist, so that rechunking is not mistaken for a worse retriever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
import numpy as np

from karat.data.gold import DOC, Gold
from karat.data.ids import Bools, DocRule, as_list, take_list
from karat.errors import shorten
from karat.results.analyses.base import Analysis, Lacking, NotAsked, Setup
from karat.scoring.overlap import ThereFlags, documents_of, relevant_items
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.data.passages.passage import Passage
    from karat.results.result import Result

_GONE = 0.05  # share of the chunk labels whose document exists: more means rechunking
_UNSEEN = 0.9  # the same if only returned chunks are known: a weak retriever misses many that exist
_FEW = 5  # fewer labels prove nothing
_EXAMPLES = 3


class LabelCount(msgspec.Struct, frozen=True):
    """Relevant gold items of one kind, and how many of them exist."""

    count: int = 0
    there: int = 0
    moved: int = 0  # chunks that do not exist although their document does
    examples: list[str] = []  # items that do not exist


class LabelHealth(msgspec.Struct, frozen=True):
    """Whether the gold set still matches what is searched."""

    against: Literal["corpus", "hits"]  # compared with the corpus, or with what the run returned for any query
    chunks: LabelCount
    documents: LabelCount  # also plain ids without a chunk suffix
    passages: LabelCount  # there: a chunk contains it
    changed: int  # chunks that exist but do not contain the quote given with their id
    changed_examples: list[str]
    quoted: int  # labels of moved or changed chunks with a quote or offsets to find them again
    rechunked: bool  # the documents seem to be chunked differently
    unclear: int = 0  # of `documents`, plain ids that may be documents or chunks


def label_health(gold: Gold, rule: DocRule, corpus: Corpus | None, returned: ThereFlags | None = None) -> LabelHealth:
    """Check labels against a corpus, or against what the run returned."""
    if corpus is not None:
        return _Health(gold, rule, _in_corpus(gold, rule, corpus), corpus).health()
    none = np.zeros(int((gold.grades > 0).sum()), np.bool_)
    return _Health(gold, rule, returned or ThereFlags(none, none, none), None).health()


def _in_corpus(gold: Gold, rule: DocRule, corpus: Corpus) -> ThereFlags:
    ids, documents = set(corpus.ids), set(corpus.documents(rule))
    names = [gold.ids[item] for item in relevant_items(gold)]
    owners = as_list(documents_of(gold, rule))
    pairs = ((ids, names), (documents, names), (documents, owners))
    return ThereFlags(*(np.fromiter((n in known for n in some), np.bool_, len(some)) for known, some in pairs))


class _Health:
    """Counts labels: relevant items of the gold set."""

    def __init__(self, gold: Gold, rule: DocRule, there: ThereFlags, corpus: Corpus | None) -> None:
        self._gold, self._there, self._corpus = gold, there, corpus
        self._items = np.flatnonzero(gold.grades > 0)
        settled = np.zeros(len(self._items), np.bool_)
        if gold.located is not None:
            settled = gold.located.settled[self._items]
        named = gold.names_document(rule)[self._items]
        documents = gold.kinds[self._items] == DOC
        self._settled = settled
        self._whole = ~settled & (documents | (named & ~(there.ids & ~there.names)))
        self._chunks = ~settled & ~self._whole
        self._unclear = self._whole & ~documents & ~(there.names & ~there.ids)
        self._moved = self._chunks & ~there.ids & there.documents
        at = np.flatnonzero(self._moved)  # names are long: only these are compared
        owners = documents_of(gold, rule)[at] if gold.passages else gold.docs(rule)[self._items[at]]
        self._moved[at] = owners != gold.packed[self._items[at]]  # the document's name differs from the chunk's

    def health(self) -> LabelHealth:
        there = self._there
        changed = self._changed()
        quoted = self._moved.copy()
        quoted[changed] = True
        chunks = self._count(self._chunks, there.ids, moved=int(self._moved.sum()))
        return LabelHealth(
            against="hits" if self._corpus is None else "corpus",
            chunks=chunks,
            documents=self._count(self._whole, there.names),
            passages=self._passages(),
            changed=len(changed),
            changed_examples=_first(map(self._name, changed)),
            quoted=sum(self._passage(at) is not None for at in np.flatnonzero(quoted).tolist()),
            rechunked=self._rechunked(chunks, len(changed)),
            unclear=int(self._unclear.sum()),
        )

    def _count(self, which: Bools, there: Bools, moved: int = 0) -> LabelCount:
        examples = _first(map(self._name, np.flatnonzero(which & ~there).tolist()))
        return LabelCount(int(which.sum()), int((which & there).sum()), moved, examples)

    def _passages(self) -> LabelCount:
        located, at = self._gold.located, np.flatnonzero(self._settled).tolist()
        held = set() if located is None else set(located.items.tolist())
        absent = [i for i in at if int(self._items[i]) not in held]
        examples = _first(f"{self._name(i)}: {_told(self._passage(i))}" for i in absent)
        return LabelCount(len(at), len(at) - len(absent), 0, examples)

    def _changed(self) -> list[int]:
        """Chunks that exist but do not contain the quote given with their id."""
        if self._corpus is None or not self._gold.passages:
            return []
        corpus = self._corpus
        texts = dict(zip(corpus.ids, corpus.texts, strict=True))
        at = np.flatnonzero(self._chunks & self._there.ids).tolist()
        return [i for i in at if _lacks_quote(texts.get(self._name(i)), self._passage(i))]

    def _rechunked(self, chunks: LabelCount, changed: int) -> bool:
        moved = chunks.moved + changed
        share = _UNSEEN if self._corpus is None else _GONE
        return moved >= _FEW and moved > share * (chunks.there + chunks.moved)

    def _name(self, at: int) -> str:
        return take_list(self._gold.items, self._items[at : at + 1])[0]

    def _passage(self, at: int) -> Passage | None:
        return self._gold.passages[self._items[at]] if self._gold.passages else None


def _first(names: Iterable[str]) -> list[str]:
    """The first few distinct names, without making all of them."""
    found: dict[str, None] = {}
    for name in names:
        found[name] = None
        if len(found) == _EXAMPLES:
            break
    return list(found)


def _lacks_quote(text: str | None, passage: Passage | None) -> bool:
    if not text or passage is None or passage.quote is None:
        return False
    from karat.data.passages.documents import ChunkTexts, normalise

    return not ChunkTexts([text]).holders(normalise(passage.quote))


def _told(passage: Passage | None) -> str:
    if passage is None:
        return "?"
    return shorten(f"“{passage.quote}”" if passage.quote is not None else f"{passage.start}–{passage.end}", 40)


class LabelHealthAnalysis(Analysis):
    """Checks gold ids against the corpus, or against what the run returned."""

    name = "label_health"
    title = "Label health"
    finds: ClassVar[type[msgspec.Struct]] = LabelHealth

    def need(self, setup: Setup) -> Need:
        if setup.gold.made_of != "labels":
            raise NotAsked
        if not (setup.gold.grades > 0).any():
            raise Lacking("relevant items in the gold set")
        return Need(returned=setup.corpus is None)

    def find(self, side: Result) -> LabelHealth:
        returned = side.data.returned
        if side.corpus is None and returned is None:
            raise Lacking("a corpus (--corpus), or the run itself")
        return label_health(side.gold, DocRule(side.rules.doc_of), side.corpus, returned)
