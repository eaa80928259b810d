"""Compares the versions of hits and gold items with the `as_of` of queries."""

from __future__ import annotations

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
_NO_TIME = np.iinfo(np.int64).min


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
    places, verdicts = compare_versions(hits, gold, queries, rows)
    found[places] = verdicts
    return found


def odd_versions(hits: Hits, gold: Gold, queries: Ints) -> list[OddVersion]:
    """Versions of hits that cannot be compared with their query's `as_of`."""
    places, verdicts = compare_versions(hits, gold, queries, np.arange(len(hits.query_of_row)))
    found = []
    for row in places[np.isnan(verdicts)].tolist():
        query = int(hits.query_of_row[row])
        line = None if hits.lines is None else int(hits.lines[query]) or None
        item, value = take_list(hits.ids, np.array([row]))[0], hits.columns["doc_version"][row]
        as_of = gold.as_of[queries[query]]
        assert as_of is not None
        found.append(OddVersion(line, hits.queries[query], item, value, as_of))
    return found


def compare_versions(hits: Hits, gold: Gold, queries: Ints, rows: Ints) -> tuple[Ints, Floats]:
    """Positions in `rows` of the hits with a version whose query has an `as_of`, and whether each is newer (1), is not
    (0), or cannot be compared (NaN)."""
    asked = [gold.as_of[query] for query in queries.tolist()]
    if "doc_version" not in hits.columns or asked.count(None) == len(asked):
        return np.zeros(0, np.int64), np.zeros(0)
    of_hit, versions = _numbered(hits.columns["doc_version"])
    of_query, as_ofs = _numbered([None if version is None else version.text for version in asked])
    version, as_of = of_hit[rows], of_query[hits.query_of_row[rows]]
    places = np.flatnonzero((version > 0) & (as_of > 0))
    version, as_of = version[places], as_of[places]
    begins, ends = _moments(versions, 0), _moments(as_ofs, 1)
    found = np.where(begins[version] > ends[as_of], 1.0, 0.0)
    others = np.flatnonzero((begins[version] == _NO_TIME) | (ends[as_of] == _NO_TIME))
    if len(others):
        pairs, pair_of = np.unique(version[others] * len(as_ofs) + as_of[others], return_inverse=True)
        verdicts = (_is_newer(versions[pair // len(as_ofs)], as_ofs[pair % len(as_ofs)]) for pair in pairs.tolist())
        found[others] = np.fromiter(verdicts, np.float64, len(pairs))[pair_of]
    return places, found


def _numbered(values: list[Any]) -> tuple[Ints, list[Version | None]]:
    """The number of each value, and the versions by number: 0 where there is no value; None where it is no version."""
    texts = values
    if not set(map(type, values)) <= {str, type(None)}:
        texts = [None if value is None else str(value) for value in values]
    first = dict(zip(reversed(texts), reversed(values), strict=True))  # texts → value
    said = {text: value for text, value in first.items() if is_said(value)}
    numbers = dict.fromkeys(first, 0) | {text: number for number, text in enumerate(said, 1)}
    versions = [None, *map(Version.read, said.values())]
    return np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts)), versions


def _moments(versions: list[Version | None], end: int) -> Ints:
    """Where the period of each version begins (0) or ends (1)."""
    spans = (None if version is None else version.span for version in versions)
    return np.array([_NO_TIME if span is None else span[end] for span in spans], np.int64)


def _is_newer(version: Version | None, as_of: Version | None) -> float:
    verdict = None if version is None or as_of is None else version.newer_than(as_of)
    return np.nan if verdict is None else float(verdict)


def item_versions(gold: Gold, corpus: Corpus, rule: DocRule) -> list[list[Any]]:
    """The versions in which each gold item can be found: that of a chunk, those of the chunks that hold a passage, else
    those of all chunks of a document."""
    if corpus.versions is None:
        return [[] for _ in gold.ids]
    said = ((chunk, version) for chunk, version in zip(corpus.ids, corpus.versions, strict=True) if is_said(version))
    of_chunk = {chunk: [version] for chunk, version in said}
    of_document: dict[str, list[Any]] = {}
    for chunk, doc in zip(corpus.ids, corpus.documents(rule), strict=True):
        of_document.setdefault(doc, []).extend(of_chunk.get(chunk, ()))
    holders = [[]] * len(gold.ids) if gold.located is None else gold.located.holders
    found = []
    for item, chunks in zip(gold.ids, holders, strict=True):
        own = [version for chunk in chunks for version in of_chunk.get(chunk, ())] if chunks else of_chunk.get(item)
        found.append(own or of_document.get(item, []))
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
