"""Documents that one run spells in several ways: `KB/a.md` in one list and `kb/a.md` in another."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from karat.data.audit import Audit
from karat.data.hits import OTHER_LISTS, STEPS, Hits, Run, Ungrouped
from karat.data.id_forms import plain_id
from karat.data.ids import DocRule, as_list


class Renaming(msgspec.Struct, frozen=True):
    """Ids of one file → the ids of the run that they stand for."""

    rule: DocRule
    ids: dict[str, str] = {}
    docs: dict[str, str] = {}
    apart: dict[str, str] = {}  # ids that stay as they are → an id that they could stand for, but not clearly

    def of(self, item: str) -> str:
        """An id of a chunk or document. If only the document is known, its name is changed within the id."""
        if item in self.ids:
            return self.ids[item]
        doc = self.rule.doc(item)
        return item.replace(doc, self.docs[doc], 1) if doc in self.docs else item

    def of_doc(self, doc: str) -> str:
        return self.docs.get(doc, doc)


class NamedItems(msgspec.Struct, frozen=True):
    """Ids of a file, and the documents that they are in or that it names."""

    ids: dict[str, None]
    docs: dict[str, None]


def spellings(names: Iterable[str]) -> dict[str, list[str]]:
    """Plain form → names, where several names have it.

    >>> spellings({"KB/a": None, "kb/b": None, "kb/a": None})
    {'kb/a': ['KB/a', 'kb/a']}
    """
    first: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        form = plain_id(name)
        other = first.setdefault(form, name)
        if other != name:
            several.setdefault(form, [other]).append(name)
    return several


def one_spelling(run: Run, named: NamedItems, gold: NamedItems, rule: DocRule) -> Renaming:
    """Ids of a run → one spelling of each: that of the gold set, else the plain form, if the run has it.

    Only case, white space and Unicode form are ignored. Two spellings in one list are two documents, and so are two
    spellings in the gold set. The run is read again only if it has several spellings of a name."""
    of_ids, of_docs = (
        {form: names for form, names in spellings(ours).items() if form not in theirs}
        for ours, theirs in ((named.ids, spellings(gold.ids)), (named.docs, spellings(gold.docs)))
    )
    if not of_ids and not of_docs:
        return Renaming(rule)
    met = _Met(of_ids, of_docs, rule)
    met.read(run)
    docs = _chosen({form: names for form, names in of_docs.items() if form not in met.docs}, gold.docs)
    by_doc = Renaming(rule, docs=docs)
    kept = {form: names for form, names in of_ids.items() if form not in met.ids and _of_one_doc(names, by_doc)}
    return Renaming(rule, {old: by_doc.of(new) for old, new in _chosen(kept, gold.ids).items()}, docs)


def part_spellings(own: Renaming, corpus: NamedItems) -> list[str]:
    """Take apart what a corpus shows to be different documents. Returns the ids that stand for themselves again."""
    docs = {name for names in spellings(corpus.docs).values() for name in names}
    ids = {name for names in spellings(corpus.ids).values() for name in names}
    parted = [item for item in own.ids if item in ids or own.rule.doc(item) in docs]
    for item in parted:
        del own.ids[item]
    for doc in docs & own.docs.keys():
        del own.docs[doc]
    return parted


def _chosen(groups: dict[str, list[str]], preferred: dict[str, None]) -> dict[str, str]:
    # The same choice in every order of the run, and in most runs: the plain form, if it is one of the names.
    best = {
        form: min(names, key=lambda name: (name not in preferred, name != form, name)) for form, names in groups.items()
    }
    return {name: best[form] for form, names in groups.items() for name in names if name != best[form]}


def _of_one_doc(names: list[str], docs: Renaming) -> bool:
    return len({docs.of_doc(docs.rule.doc(name)) for name in names}) == 1


class _Met:
    """Finds the forms of which one list has several spellings."""

    def __init__(self, ids: dict[str, list[str]], docs: dict[str, list[str]], rule: DocRule) -> None:
        self._rule = rule
        self._ids, self._docs = ({name: form for form, names in some.items() for name in names} for some in (ids, docs))
        self.ids: set[str] = set()
        self.docs: set[str] = set()

    def read(self, run: Run) -> None:
        try:
            self._read(run)
        except Ungrouped:
            self._read(run.grouped())

    def _read(self, run: Run) -> None:
        for hits in run.slices(frozenset(), Audit(), frozenset((*OTHER_LISTS, STEPS))):
            for some in (hits, *hits.others.values()):
                self._look(some)

    def _look(self, hits: Hits) -> None:
        ids = as_list(hits.ids)
        docs = [self._rule.doc(item) for item in ids]
        if hits.docs is not None:
            docs = [said or doc for said, doc in zip(as_list(hits.docs), docs, strict=True)]
        for start, end in pairwise(hits.offsets.tolist()):
            _add_met(ids[start:end], self._ids, self.ids)
            _add_met(docs[start:end], self._docs, self.docs)


def _add_met(names: list[str], forms: dict[str, str], met: set[str]) -> None:
    here: dict[str, str] = {}
    for name in names:
        form = forms.get(name)
        if form is not None and here.setdefault(form, name) != name:
            met.add(form)
