"""Passages of a gold set → the chunks that hold them in a run's own chunking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import DOC, Gold
from karat.data.hits import Run, Ungrouped
from karat.data.ids import DocRule, Ints, as_list
from karat.data.passages.documents import Document
from karat.data.passages.passage import Located, Passage, Place, Stretch
from karat.errors import shorten

if TYPE_CHECKING:
    from karat.data.corpus import Corpus

Known = Literal["corpus", "hits"]
Documents = dict[str, Document]
RESOLVED = "_resolved"  # where a gold set keeps its passages as located in a corpus
_FURTHEST = 2**53  # no text is this long


def resolve(gold: Gold, run: Run, corpus: Corpus | None, rule: DocRule) -> Callable[[str], Gold]:
    """System → the gold set with its passages found in the chunks of that system.

    Chunks come from the corpus; from the run's own hits where the corpus has none, or only whole documents.
    """
    docs = _documents_of(gold)
    if not docs:
        return lambda system: gold
    located = None if corpus is None else in_corpus(gold, corpus, rule)
    if located is not None:
        return lambda system: located
    systems = _of_run(run, docs, corpus, rule)
    golds: dict[str, Gold] = {}

    def of_system(system: str) -> Gold:
        if system not in golds:
            returned = systems.get(system, {})
            golds[system] = _Resolver(gold, returned, "hits", _places(returned), gold.audit).gold()
        return golds[system]

    return of_system


def in_corpus(gold: Gold, corpus: Corpus, rule: DocRule) -> Gold | None:
    """The gold set with its passages found in a corpus; None where there are none, or the corpus has no chunks."""
    docs = _documents_of(gold)
    if not docs:
        return None
    # A run is measured more than once.
    known: list[tuple[Corpus, str, Gold]] = gold.__dict__.setdefault(RESOLVED, [])
    for other, name, located in known:
        if other is corpus and name == rule.rule:
            return located
    audit = Audit.merged(gold.audit)
    documents = _of_corpus(corpus, docs, rule, audit)
    if documents and not any(document.ids for document in documents.values()):
        return None
    for doc, document in documents.items():
        if not document.ids and document.text:  # in a corpus of chunks, an uncut document is its own chunk
            document.add(doc, document.text, (0, len(document.text)))
    found = _Resolver(gold, documents, "corpus", _places(documents, corpus, rule), audit).gold()
    known.append((corpus, rule.rule, found))
    return found


def _documents_of(gold: Gold) -> set[str]:
    """The documents that passages name."""
    return {passage.doc for passage in gold.passages if passage is not None and passage.doc is not None}


def _of_corpus(corpus: Corpus, docs: set[str], rule: DocRule, audit: Audit) -> Documents:
    """The documents that passages name. A chunk with the id of its document is the document itself."""
    documents: Documents = {}
    odd: list[str] = []
    starts, ends = _offsets(corpus)
    for at, (item, doc) in enumerate(zip(corpus.ids, corpus.documents(rule), strict=True)):
        if doc not in docs:
            continue
        document = documents.setdefault(doc, Document())
        if item == doc:
            document.text = corpus.texts[at]
            continue
        stretch = _stretch(starts[at], ends[at])
        if stretch is None and (starts[at] is not None or ends[at] is not None):
            odd.append(f"{item}: {starts[at]!r}, {ends[at]!r}")
        document.add(item, corpus.texts[at], stretch)
    audit.count("odd_offsets", len(odd), odd[:3])
    return documents


def _offsets(corpus: Corpus) -> tuple[list[Any], list[Any]]:
    nothing = [None] * len(corpus)
    return corpus.fields.get("start", nothing), corpus.fields.get("end", nothing)


def _stretch(start: Any, end: Any) -> Stretch | None:
    whole = type(start) is int and type(end) is int  # a boolean is not an offset
    return (start, end) if whole and 0 <= start < end <= _FURTHEST else None


def _of_run(run: Run, docs: set[str], corpus: Corpus | None, rule: DocRule) -> dict[str, Documents]:
    """System → documents with their returned chunks: those that passages name, and those with known text, since the
    places of their chunks can be found."""
    texts = {} if corpus is None else dict(zip(corpus.ids, corpus.texts, strict=True))
    try:
        return _returned(run, docs, texts, rule)
    except Ungrouped:
        return _returned(run.grouped(), docs, texts, rule)


def _returned(run: Run, docs: set[str], texts: Mapping[str, str], rule: DocRule) -> dict[str, Documents]:
    systems: dict[str, Documents] = {}
    seen: dict[str, set[str]] = {}
    for hits in run.slices(frozenset({"text"}), Audit()):
        known, before = systems.setdefault(hits.system, {}), seen.setdefault(hits.system, set())
        ids = as_list(hits.ids)
        said = [""] * len(ids) if hits.docs is None else as_list(hits.docs)
        found = hits.columns.get("text") or [None] * len(ids)
        for item, doc, text in zip(ids, said, found, strict=True):
            if item in before:
                continue
            before.add(item)
            doc = doc or rule.doc(item)
            if doc in docs or texts.get(doc):
                known.setdefault(doc, Document(texts.get(doc), in_order=False)).add(item, text or "")
    return systems


def _places(
    documents: Documents, corpus: Corpus | None = None, rule: DocRule | None = None
) -> Callable[[str], Place | None]:
    """Chunk → its place: from the corpus, else where it is found in the text of its document."""
    known = {item: (doc, at) for doc, document in documents.items() for at, item in enumerate(document.ids)}
    starts, ends = ([], []) if corpus is None else _offsets(corpus)

    def place_of(item: str) -> Place | None:
        if item in known:
            doc, at = known[item]
            stretch = documents[doc].placed[at]
        elif corpus is not None and rule is not None and item in corpus.index:
            at = corpus.index[item]
            doc, stretch = corpus.documents(rule)[at], _stretch(starts[at], ends[at])
        else:
            return None
        return None if stretch is None else Place(doc, *stretch)

    return place_of


class _Resolver:
    """Locates every passage of a gold set, and counts the outcomes."""

    def __init__(
        self, gold: Gold, documents: Documents, known: Known, place_of: Callable[[str], Place | None], audit: Audit
    ) -> None:
        self._gold, self._documents, self._known, self._place_of = gold, documents, known, place_of
        self._audit = Audit.merged(audit)
        self._tells = known == "corpus" or any(document.tells for document in documents.values())
        self._nowhere = 0  # before the start of every document: for quotes that no document contains
        self._places: list[list[Stretch] | None] = [None] * len(gold.ids)
        self._holders: dict[int, list[str]] = {}  # item → chunks
        self._by_document: list[int] = []

    def gold(self) -> Gold:
        for item, passage in enumerate(self._gold.passages):
            if passage is not None and passage.doc is not None:
                self._look_for(item, passage)
        self._audit.count("passages_found", sum(map(bool, self._holders.values())), self._examples())
        if self._known == "hits" and self._holders:
            self._audit.count("passages_in_hits", len(self._holders), ["use --corpus for all chunks"])
        self._merge_documents()
        return replace(self._gold, audit=self._audit, located=self._located())

    def _look_for(self, item: int, passage: Passage) -> None:
        document = self._documents.get(passage.doc or "")
        places = [] if document is None else document.places(passage)
        self._places[item] = places or self._as_given(passage)
        self._count_oddities(item, passage, document, places)
        if self._gold.kinds[item] != DOC:
            return
        chunks = [] if document is None else document.holders(passage, places)
        if not self._tells or chunks is None:
            self._by_document.append(item)
            self._count("passages_by_document", item, shorten(passage.doc or "", 30))
            return
        self._holders[item] = chunks
        if not chunks:
            self._count("passages_lost", item, self._why(passage, document))

    def _as_given(self, passage: Passage) -> list[Stretch] | None:
        """A passage that is not found stays in the gold with its length."""
        if passage.start is not None and passage.end is not None:
            return [(passage.start, passage.end)]
        document = self._documents.get(passage.doc or "")
        if passage.quote is None or (document is not None and document.whole is None):
            return None
        self._nowhere -= len(passage.quote)
        return [(self._nowhere, self._nowhere + len(passage.quote))]

    def _count_oddities(self, item: int, passage: Passage, document: Document | None, places: list[Stretch]) -> None:
        if len(places) > 1:
            self._count("passages_repeated", item, f"{len(places)} times {passage.quote!r}")
        if document is None or passage.start is None or passage.end is None:
            return
        if places and (places[0][0] >= passage.end or passage.start >= places[0][1]):
            self._count("passages_moved", item, f"found at {places[0][0]}, not {passage.start}")
        elif document.length is not None and passage.start < document.length < passage.end:
            self._count("passages_beyond", item, f"ends at {passage.end}, the document at {document.length}")

    def _why(self, passage: Passage, document: Document | None) -> str:
        doc = shorten(passage.doc or "", 20)
        if document is None:
            return f"no document {doc!r}" if self._known == "corpus" else f"no chunk of {doc!r} was returned"
        if passage.quote is not None:
            return f"{doc!r} has no “{passage.quote}”"
        length = document.length
        beyond = "" if length is None or (passage.start or 0) < length else f": it ends at {length}"
        return f"{doc!r} has no {passage.start}–{passage.end}{beyond}"

    def _count(self, code: str, item: int, what: str) -> None:
        query = int(self._gold.query_of_item[item])
        line = self._gold.lines[query] if self._gold.lines else None
        where = Path(self._gold.label).name + (f":{line}" if line else "")
        self._audit.count(code, 1, [f"{where} {shorten(self._gold.queries[query], 20)}: {what}"])

    def _examples(self) -> Iterable[str]:
        for item, chunks in self._holders.items():
            if chunks:
                query = self._gold.queries[int(self._gold.query_of_item[item])]
                yield f"{shorten(query, 20)}: {', '.join(chunks)}"

    def _located(self) -> Located:
        gold = self._gold
        of_query: list[dict[str, list[int]]] = [{} for _ in gold.queries]
        for item, chunks in self._holders.items():
            for chunk in chunks:
                of_query[int(gold.query_of_item[item])].setdefault(chunk, []).append(item)
        held = [items for chunks in of_query for items in chunks.values()]
        settled = np.zeros(len(gold.ids), np.bool_)
        settled[list(self._holders)] = True
        return Located(
            settled=settled,
            chunks=[chunk for chunks in of_query for chunk in chunks],
            bounds=_sums(map(len, of_query)),
            firsts=_sums(map(len, held)),
            items=np.array([item for items in held for item in items], np.int64),
            several=np.array([self._several(query, chunks) for query, chunks in enumerate(of_query)], np.bool_),
            places=self._places,
            place_of=self._place_of,
            known=self._known,
        )

    def _several(self, query: int, chunks: Mapping[str, list[int]]) -> bool:
        if not chunks:
            return False
        first, end = self._gold.offsets[query : query + 2].tolist()
        named = {self._gold.ids[i] for i in range(first, end) if self._gold.kinds[i] != DOC}
        return any(len(items) > 1 or chunk in named for chunk, items in chunks.items())

    def _merge_documents(self) -> None:
        """Passages that are matched by document become one item per document, with the highest grade of them."""
        gold, best = self._gold, dict[tuple[int, str], int]()
        for item in self._by_document:
            key = int(gold.query_of_item[item]), gold.ids[item]
            if key not in best or gold.grades[item] > gold.grades[best[key]]:
                best[key] = item
        keep = np.ones(len(gold.ids), np.bool_)
        keep[self._by_document] = False
        keep[list(best.values())] = True
        if keep.all():
            return
        kept, number = np.flatnonzero(keep), np.cumsum(keep) - 1
        self._gold = gold.with_items(kept)
        self._holders = {int(number[item]): chunks for item, chunks in self._holders.items()}
        self._places = [self._places[item] for item in kept.tolist()]


def _sums(counts: Iterable[int]) -> Ints:
    return np.append(0, np.cumsum(np.fromiter(counts, np.int64)))
