"""How old is what the gold set names: the versions that a corpus tells of its items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from karat.corpus import Corpus
from karat.gold import Gold
from karat.ids import DocRule
from karat.resolving import RESOLVED, in_corpus
from karat.versions import is_said

_TAG = "doc_version"


def item_versions(gold: Gold, corpus: Corpus, rule: DocRule) -> list[list[Any]]:
    """The versions in which each gold item can be found: that of a chunk, those of the chunks that hold a passage, else
    those of all chunks of a document."""
    if corpus.versions is None:
        return [[] for _ in gold.ids]
    of_chunk = dict(zip(corpus.ids, corpus.versions, strict=True))
    of_document: dict[str, list[Any]] = {}
    for doc, version in zip(corpus.documents(rule), corpus.versions, strict=True):
        of_document.setdefault(doc, []).append(version)
    holders = [[]] * len(gold.ids) if gold.located is None else gold.located.holders
    found = []
    for item, chunks in zip(gold.ids, holders, strict=True):
        said = [version for chunk in chunks or [item] if is_said(version := of_chunk.get(chunk))]
        found.append(said or list(filter(is_said, of_document.get(item, ()))))
    return found


def with_versions(gold: Gold, corpus: Corpus, rule: DocRule) -> Gold:
    """The gold set with the version of each query's relevant items, as a corpus tells it, for a tag."""
    if corpus.versions is None or _TAG in gold.tags:
        return gold
    located = in_corpus(gold, corpus, rule) or gold
    found: list[set[str]] = [set() for _ in gold.queries]
    each = zip(located.query_of_item.tolist(), located.grades.tolist(), strict=True)
    for (query, grade), versions in zip(each, item_versions(located, corpus, rule), strict=True):
        if grade > 0:
            found[query].update(map(str, versions))
    tags = {**gold.tags, _TAG: [None if not f else f.pop() if len(f) == 1 else "several" for f in found]}
    tagged = replace(gold, tags=tags)
    if located is not gold:  # passages need not be looked for again
        tagged.__dict__[RESOLVED] = [(corpus, rule.rule, replace(located, tags=tags))]
    return tagged
