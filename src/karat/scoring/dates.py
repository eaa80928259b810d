"""Compares the versions of hits and gold items with the `as_of` of queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import DocRule, Floats, Ints, take_list
from karat.data.passages.resolve import RESOLVED, in_corpus
from karat.data.versions import EXPECTED, Version, is_said
from karat.errors import InputError, shorten

if TYPE_CHECKING:
    from karat.data.corpus import Corpus

_TAG = "doc_version"


class NoVersions(InputError):
    """Newer hits should be removed, but no hit has a version."""

    code = "no-versions"


class OddVersion(NamedTuple):
    """A version that cannot be compared with the `as_of` of its query: invalid, or a number against a date."""

    line: int | None
    query: str
    item: str
    value: Any
    as_of: Version

    def __str__(self) -> str:
        where = shorten(self.query, 20) if self.line is None else f"line {self.line}, {shorten(self.query, 20)}"
        return f"{where}: {shorten(self.item, 30)} has {shorten(self.value, 30)}, as_of is {self.as_of.text}"

    def error(self, file: str) -> InputError:
        version = Version.read(self.value)
        return InputError(
            f"no hit version can be compared with as_of, for example that of {shorten(self.item, 40)!r}"
            f" with {shorten(self.as_of.text, 40)!r} ({self.as_of.kind})",
            code="not-comparable",
            file=file,
            line=self.line,
            field="doc_version",
            query=self.query,
            expected=EXPECTED if version is None else "a date on both sides, or a version number on both",
            got=self.value if version is None else f"{version.text} ({version.kind})",
            hint="leave out unknown doc_version values, and write doc_version and as_of in the same format",
        )


def newer(hits: Hits, gold: Gold, queries: Ints, rows: Ints) -> Floats:
    """1 for a hit that is newer than its query's `as_of`, 0 for one that is not, NaN where unknown.

    `queries`: row of each query of the hits in the gold set; `rows`: the hits to check.
    """
    found = np.full(len(rows), np.nan)
    for place, _, verdict in _verdicts(hits, gold, queries, rows):
        if verdict is not None:
            found[place] = verdict
    return found


def odd_versions(hits: Hits, gold: Gold, queries: Ints) -> list[OddVersion]:
    """Versions of hits that cannot be compared with their query's `as_of`."""
    rows = np.arange(len(hits.query_of_row))
    odd = [(row, as_of) for row, as_of, verdict in _verdicts(hits, gold, queries, rows) if verdict is None]
    found = []
    for row, as_of in odd:
        query = int(hits.query_of_row[row])
        line = None if hits.lines is None else int(hits.lines[query]) or None
        item, value = take_list(hits.ids, np.array([row]))[0], hits.columns["doc_version"][row]
        found.append(OddVersion(line, hits.queries[query], item, value, as_of))
    return found


def _verdicts(hits: Hits, gold: Gold, queries: Ints, rows: Ints) -> Iterator[tuple[int, Version, bool | None]]:
    """(position in rows, as_of, whether it is newer) of the hits with a version, for queries with `as_of`."""
    versions = hits.columns.get("doc_version")
    if versions is None:
        return
    as_of = [gold.as_of[query] for query in queries.tolist()]
    known: dict[tuple[str, str], bool | None] = {}  # few pairs are different
    query_of = hits.query_of_row[rows].tolist()
    for place, (query, row) in enumerate(zip(query_of, rows.tolist(), strict=True)):
        asked, value = as_of[query], versions[row]
        if asked is None or not is_said(value):
            continue
        pair = (asked.text, str(value))
        if pair not in known:
            version = Version.read(value)
            known[pair] = None if version is None else version.newer_than(asked)
        yield place, asked, known[pair]


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
    """The gold set with the version of each query's relevant items, from a corpus, as a tag."""
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
    if located is not gold:  # passages were located already
        tagged.__dict__[RESOLVED] = [(corpus, rule.rule, replace(located, tags=tags))]
    return tagged
