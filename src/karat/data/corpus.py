"""A corpus: the chunks or documents that a retriever searches. Fills in data that hits do not have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from karat.data.bulk import Bulk
from karat.data.hits import METADATA, OPTIONAL_COLUMNS, Hits, Run
from karat.data.ids import DocRule, as_list

if TYPE_CHECKING:
    from karat.data.audit import Audit
    from karat.data.ids import Ints

VERSIONS = ("doc_version", "version")  # names that corpora use for it


class Corpus(Bulk, frozen=True):
    """Parallel lists, in the order of the file."""

    label: str
    ids: list[str]
    titles: list[str]
    texts: list[str]
    fields: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> dict[str, int]:
        """Id → its position."""
        return {item: i for i, item in enumerate(self.ids)}

    @cached_property
    def hash(self) -> str:
        """A hash of the whole content: two corpora with the same hash are searched alike."""
        digest = hashlib.sha256()
        for row in zip(self.ids, self.titles, self.texts, *self.fields.values(), strict=True):
            digest.update(msgspec.json.encode(row))
        return "sha256:" + digest.hexdigest()[:16]

    @property
    def chunker(self) -> Any:
        """How its texts were cut, where all chunks agree."""
        said = self.fields.get("chunker") or [None]
        return said[0] if all(one == said[0] for one in said) else None

    @property
    def versions(self) -> list[Any] | None:
        """The version of each chunk's document, where the corpus has it."""
        return next((self.fields[name] for name in VERSIONS if name in self.fields), None)

    def documents(self, rule: DocRule) -> list[str]:
        """The document of each chunk: its `doc_id`, else what the rule makes of its id."""
        cache: dict[str, list[str]] = self.__dict__.setdefault("_documents", {})
        if rule.rule not in cache:
            said = self.fields.get("doc_id", [None] * len(self))
            cache[rule.rule] = [rule.doc(i) if d is None else str(d) for i, d in zip(self.ids, said, strict=True)]
        return cache[rule.rule]

    def unknown_documents(self, rule: DocRule) -> dict[str, str]:
        """Chunks whose id does not name their document, with the document."""
        cache: dict[str, dict[str, str]] = self.__dict__.setdefault("_strangers", {})
        if rule.rule not in cache:
            pairs = zip(self.ids, self.documents(rule), strict=True) if "doc_id" in self.fields else ()
            cache[rule.rule] = {item: doc for item, doc in pairs if rule.doc(item) != doc}
        return cache[rule.rule]

    def column(self, name: str) -> list[Any] | None:
        """A column of hits (text, doc_version, source) from the corpus."""
        if name == METADATA:
            return self._metadata
        if name == "text":
            return self.texts if any(self.texts) else None  # a corpus of bare ids is not one of empty texts
        return self.versions if name == "doc_version" else self.fields.get(name)

    @cached_property
    def _metadata(self) -> list[dict[str, Any]]:
        """All fields of each item, those of an inner `metadata` too."""
        names, columns = list(self.fields), list(self.fields.values())
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] or [{}] * len(self)
        return [{**row, **inner} if isinstance(inner := row.get(METADATA), dict) else row for row in rows]


class DescribedRun(Run):
    """A run whose hits take missing data from a corpus."""

    def __init__(self, run: Run, corpus_of: Callable[[str], Corpus], rule: DocRule) -> None:
        """`corpus_of`: system → corpus; called once records of the system have been read."""
        self._run, self._corpus_of, self._rule = run, corpus_of, rule
        self.label: str = run.label

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        asked = (lists,) if lists else ()  # runs without other lists need not accept the argument
        return self._described(self._run.slices(columns, audit, *asked), columns)

    @property
    def can_look(self) -> bool:
        return self._run.can_look

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        return self._described(self._run.look(system, queries, places, columns), columns)

    def _described(self, slices: Iterator[Hits], columns: frozenset[str]) -> Iterator[Hits]:
        for hits in slices:
            corpus = self._corpus_of(hits.system)
            others = {name: self._describe(other, corpus, columns) for name, other in hits.others.items()}
            yield self._describe(replace(hits, others=others) if others else hits, corpus, columns)

    def _describe(self, hits: Hits, corpus: Corpus, asked: frozenset[str]) -> Hits:
        lent = {name: column for name in asked & OPTIONAL_COLUMNS if (column := corpus.column(name))}
        docs = corpus.unknown_documents(self._rule)
        if not docs and not lent:
            return hits
        ids, said, columns = as_list(hits.ids), hits.docs, dict(hits.columns)
        if docs:
            own = [""] * len(ids) if said is None else as_list(said)
            said = [doc or docs.get(item, "") for item, doc in zip(ids, own, strict=True)]
        places = list(map(corpus.index.get, ids)) if lent else []
        for name, column in lent.items():
            values = columns.get(name) or [None] * len(places)
            found = (None if at is None else column[at] for at in places)
            columns[name] = [
                other if own is None else {**other, **own} if isinstance(own, dict) and isinstance(other, dict) else own
                for own, other in zip(values, found, strict=True)
            ]
        return replace(hits, docs=said, columns=columns)

    def grouped(self) -> Run:
        return DescribedRun(self._run.grouped(), self._corpus_of, self._rule)

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()
