"""Normalized ids: without differences in case, white space, Unicode form, file extension and common prefix, and where
no two ids become equal by that, in `-` and `_`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.corpus import Corpus
from karat.data.gold import FORBIDDEN, HOPS, Gold
from karat.data.hits import WRITTEN, Hits, Run, Ungrouped
from karat.data.ids import DocRule, as_list
from karat.data.packed_ids import pack
from karat.data.passages.passage import Passage
from karat.errors import InputError

if TYPE_CHECKING:
    from karat.data.ids import Ints

_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_EXTENSION = re.compile(
    r"(?<=.)\.(?:md|markdown|mdx|txt|text|rst|adoc|org|tex|html?|xml|pdf|docx?|odt|rtf|pptx?|xlsx?|csv|tsv"
    r"|jsonl?|ya?ml|ipynb|py|js|ts|java|go|rs|c|cpp|h|eml|msg|gz|zip)$"
)
# Where a prefix may end: after a separator, or between letters and digits.
_CUTS = re.compile(r"(?<=[^\w])|(?<=_)|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_SEPARATORS = re.compile(r"[\s_-]+")
_LOOKED = 20_000  # number of ids used to find a common prefix


def normal_id(item: str, rule: DocRule) -> str:
    """One form for all spellings of an id. A file extension may be at the end of the document or of the id.

    >>> normal_id(" Guides/Leave.MD#P 2", DocRule()), normal_id("guides/leave#p2.md", DocRule())
    ('guides/leave#p2', 'guides/leave#p2')
    """
    doc = rule.doc(item)
    if doc == item or not item.startswith(doc):
        return _without_extension(_plain(item)) or item
    return (_without_extension(_plain(doc)) + _without_extension(_plain(item[len(doc) :]))) or item


def loose_id(item: str, rule: DocRule) -> str:
    """The normal form, in which `-`, `_` and white space are also the same. For ids that stay different in this form.

    >>> loose_id("DOC-107.md", DocRule()), loose_id("doc 107", DocRule())
    ('doc_107', 'doc_107')
    """
    doc = rule.doc(item)
    rest = item[len(doc) :] if item.startswith(doc) else ""
    return (_without_extension(_joined(doc if rest else item)) + _without_extension(_joined(rest))) or item


def _joined(text: str) -> str:
    return "_".join(part for part in _SEPARATORS.split(_unicode(text).lower()) if part)


def normal_ids(items: list[str], rule: DocRule) -> list[str]:
    """`normal_id` of each id; faster where only upper and lower case can differ.

    >>> normal_ids(["A#1", "b"], DocRule()), normal_ids(["A.md#1", "b "], DocRule())
    (['a#1', 'b'], ['a#1', 'b'])
    """
    text = "\0".join(items)
    lower = text.lower().split("\0")
    if text.isascii() and "." not in text and text.split() == [text] and len(lower) == len(items):
        return lower
    return [normal_id(item, rule) for item in items]


def _plain(text: str) -> str:
    return "".join(_unicode(text).lower().split())


def _unicode(text: str) -> str:
    return text if text.isascii() else normalize("NFKC", normalize("NFKC", text).casefold()).translate(_UNSEEN)


def _without_extension(doc: str) -> str:
    return _EXTENSION.sub("", doc) if "." in doc else doc


def common_prefix(ids: Iterable[str]) -> str:
    """The common prefix of all ids; empty where there is only one."""
    found = set(ids)
    if len(found) < 2:
        return ""
    low, high = min(found), max(found)
    size = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[: min(size, len(low) - 1)]


def _cuts(prefix: str, beyond: str) -> list[str]:
    """Prefixes that end where a part of an id ends. `beyond`: an id that starts with them."""
    places = {found.start() for found in _CUTS.finditer(beyond)}
    return ["", *(prefix[:at] for at in range(1, len(prefix) + 1) if at in places)]


class IdNormalizer(msgspec.Struct, frozen=True):
    """The normal form of the ids on both sides, without the prefix that all ids of a side have."""

    rule: DocRule
    run_prefix: str = ""
    gold_prefix: str = ""
    gold: Gold | None = None
    query_prefix: str = ""  # of the run's queries
    queries: dict[str, str] = {}  # normal form → query of the gold set, where only one has it
    loose: bool = False  # `-`, `_` and white space are the same
    _known: dict[str, str] = {}
    _strict: dict[str, str] = {}  # loose form → normal form, of the run's ids

    @classmethod
    def of(cls, gold: Gold, run: Run, rule: DocRule) -> IdNormalizer:
        """With the prefixes that turn most ids of the run's first hits into ids of the gold set; usually none."""
        ids, names = first_names(run)
        sides = set(ids), set(gold.ids[:_LOOKED])
        seen, wanted = ({normal_id(item, rule) for item in side} for side in sides)
        best, loose = _best_prefixes(seen, wanted), False
        if _shared(seen, wanted, *best) < len(seen) and can_be_loose(ids, rule) and can_be_loose(gold.ids, rule):
            joined, others = ({loose_id(item, rule) for item in side} for side in sides)
            found = _best_prefixes(joined, others)
            if _shared(joined, others, *found) > _shared(seen, wanted, *best):
                best, loose = found, True
        asked = {normal_query(name) for name in names}
        known = {normal_query(name) for name in gold.queries[:_LOOKED]}
        ours, theirs = _best_prefixes(asked, known, one_side=True)
        return cls(rule, *best, gold, ours, queries_by_form(gold, theirs), loose)

    def of_run(self, item: str) -> str:
        if item not in self._known:
            form = self._form(item)
            if self.loose and self._strict.setdefault(form, normal_id(item, self.rule)) != normal_id(item, self.rule):
                raise InputError(
                    "two ids of the run differ only in `-`, `_` or white space",
                    code="ids-collide",
                    got=f"{self._strict[form]} and {item}",
                    hint="rename one of them, or leave out --normalize-ids",
                )
            found = form.removeprefix(self.run_prefix)
            self._known[item] = found
            self._known.setdefault(found, found)  # ids from a corpus are normalized already
        return self._known[item]

    def of_query(self, name: str) -> str:
        """The query of the gold set for a query of the run."""
        if self.gold is None or name in self.gold.index:
            return name
        return self.queries.get(normal_query(name).removeprefix(self.query_prefix), name)

    def of_gold(self, item: str) -> str:
        return self._form(item).removeprefix(self.gold_prefix)

    def _form(self, item: str) -> str:
        return (loose_id if self.loose else normal_id)(item, self.rule)


def can_be_loose(ids: Iterable[str], rule: DocRule) -> bool:
    """Whether no two ids differ only in `-`, `_` or white space, so that these can be ignored."""
    forms: dict[str, str] = {}
    pairs = ((loose_id(item, rule), normal_id(item, rule)) for item in set(ids))
    return all(forms.setdefault(loose, form) == form for loose, form in pairs)


def normal_query(name: str) -> str:
    """One form for all spellings of a query id.

    >>> normal_query(" Q-7 ")
    'q-7'
    """
    return _plain(name) or name


def queries_by_form(gold: Gold, prefix: str = "") -> dict[str, str]:
    """Normal form → query; without forms that several queries share."""
    found: dict[str, str] = {}
    twice = set()
    for name in gold.queries:
        form = normal_query(name).removeprefix(prefix)
        if found.setdefault(form, name) != name:
            twice.add(form)
    return {form: name for form, name in found.items() if form not in twice}


def near_queries(unknown: list[str], gold: Gold, missing: Ints) -> dict[str, str]:
    """Queries that a gold set does not have → the missing query with the same id in another spelling, or with another
    prefix. `missing`: the rows of queries that the run does not have."""
    if not unknown or not len(missing):
        return {}
    lost = {gold.queries[row] for row in missing.tolist()}
    ours, theirs = _best_prefixes(set(map(normal_query, unknown)), set(map(normal_query, lost)), one_side=True)
    known = queries_by_form(gold, theirs)
    forms = {name: normal_query(name).removeprefix(ours) for name in unknown}
    return {name: known[form] for name, form in forms.items() if known.get(form) in lost}


def _best_prefixes(seen: set[str], wanted: set[str], *, one_side: bool = False) -> tuple[str, str]:
    """The prefixes to cut from ids of the run and of the gold set so that most of them match; usually none.
    `one_side`: only one of them has a prefix; `dev-1` and `test-1` are two queries."""
    if not wanted or not seen:
        return "", ""
    ours, theirs = _cuts(common_prefix(seen), min(seen)), _cuts(common_prefix(wanted), min(wanted))
    pairs = [(mine, other) for mine in ours for other in theirs if not (one_side and mine and other)]
    best = max(pairs, key=lambda pair: (_shared(seen, wanted, *pair), -len(pair[0]) - len(pair[1])))
    return best if _shared(seen, wanted, *best) else ("", "")


def _shared(seen: set[str], wanted: set[str], run_prefix: str, gold_prefix: str) -> int:
    stripped = {item.removeprefix(gold_prefix) for item in wanted}
    return sum(item.removeprefix(run_prefix) in stripped for item in seen)


def first_names(run: Run) -> tuple[list[str], list[str]]:
    """Ids of the first hits of a run, and of their queries."""
    found, queries = list[str](), list[str]()
    try:
        for hits in run.slices(frozenset(), Audit()):
            found += islice(as_list(hits.ids), _LOOKED - len(found))
            queries += hits.queries
            if len(found) >= _LOOKED:
                break
    except Ungrouped:
        return first_names(run.grouped())
    return found, queries[:_LOOKED]


def normalized_gold(gold: Gold, normal: IdNormalizer) -> Gold:
    """The gold set under normal ids. Ids that become equal are counted; two grades in one query are an error."""
    items = [normal.of_gold(item) for item in gold.ids]
    first: dict[str, str] = {}
    joined = [(first[new], old) for old, new in zip(gold.ids, items, strict=True) if first.setdefault(new, old) != old]
    pairs = list(dict.fromkeys(joined))
    made, audit = _rebuilt(gold, items), Audit.merged(gold.audit)
    fields = dict(gold.fields)
    for name in {"negatives", FORBIDDEN} & fields.keys():
        fields[name] = [ids and [normal.of_gold(item) for item in ids] for ids in fields[name]]
    if HOPS in fields:
        named = [hops and [[normal.of_gold(item) for item in hop] for hop in hops] for hops in fields[HOPS]]
        fields[HOPS] = named
    changed = len({old for old, new in zip(gold.ids, items, strict=True) if old != new})
    audit.count("ids_normalized", changed, (f"{a} → {b}" for a, b in zip(gold.ids, items, strict=True) if a != b))
    audit.count("ids_joined", len(pairs), (f"{one} and {other}" for one, other in pairs))
    passages = [p if p is None or p.doc is None else p._replace(doc=normal.of_gold(p.doc)) for p in made.passages]
    equals = made.equals
    if equals is not None:
        equals = replace(equals, ids=pack([normal.of_gold(item) for item in as_list(equals.ids)]))
    return replace(made, audit=audit, fields=fields, passages=passages, equals=equals, reference=None)


def _rebuilt(gold: Gold, items: list[str]) -> Gold:
    """The same gold with other ids, each once per query; passages of one document stay separate."""
    owners, passages = gold.query_of_item.tolist(), gold.passages or [None] * len(items)
    first: dict[tuple[int, str, Passage | None], int] = {}
    for at, key in enumerate(zip(owners, items, passages, strict=True)):
        other = first.setdefault(key, at)
        if gold.grades[other] != gold.grades[at]:
            raise InputError(
                "two ids with different grades are equal when normalized",
                code="ids-collide",
                file=gold.label,
                query=gold.queries[owners[at]],
                got=f"{gold.ids[other]} and {gold.ids[at]}",
                hint="remove one of them, or leave out --normalize-ids",
            )
    return replace(gold, items=items).with_items(np.array(list(first.values()), np.int64))


def normalized_corpus(corpus: Corpus, normal: IdNormalizer) -> Corpus:
    """The corpus under normal ids. Two chunks with equal ids are an error: hits could not be distinguished."""
    first: dict[str, str] = {}
    ids = [normal.of_run(item) for item in corpus.ids]
    for old, new in zip(corpus.ids, ids, strict=True):
        if first.setdefault(new, old) != old:
            raise InputError(
                "two ids of the corpus are equal when normalized",
                code="ids-collide",
                file=corpus.label,
                got=f"{first[new]} and {old}",
                hint="rename one of them, or leave out --normalize-ids",
            )
    fields = dict(corpus.fields)
    if "doc_id" in fields:
        fields["doc_id"] = [None if doc is None else normal.of_run(str(doc)) for doc in fields["doc_id"]]
    return replace(corpus, ids=ids, fields=fields)


class NormalizedRun(Run):
    """A run whose hits have normal ids."""

    def __init__(self, run: Run, normal: IdNormalizer) -> None:
        self._run, self._normal = run, normal
        self.label: str = run.label
        self._asked: dict[tuple[str, str], str] = {}  # (system, query of the gold set) → its spelling in the run

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        asked = (lists,) if lists else ()  # runs without other lists need not accept the argument
        return map(self._normalized, self._run.slices(columns, audit, *asked))

    @property
    def can_look(self) -> bool:
        return self._run.can_look

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        written = [self._asked.get((system, query), query) for query in queries]
        return map(self._normalized, self._run.look(system, written, places, columns))

    def _normalized(self, hits: Hits) -> Hits:
        of = self._normal.of_run
        hits = self._with_queries(hits)
        docs = None if hits.docs is None else [of(doc) if doc else "" for doc in as_list(hits.docs)]
        others = {name: self._normalized(other) for name, other in hits.others.items()}
        return replace(hits, ids=list(map(of, as_list(hits.ids))), docs=docs, written=None, others=others)

    def _with_queries(self, hits: Hits) -> Hits:
        """With the query names of the gold set."""
        names = list(map(self._normal.of_query, hits.queries))
        for name, written in zip(names, hits.queries, strict=True):
            other = self._asked.setdefault((hits.system, name), written)
            if other != written:
                raise InputError(
                    "two queries of the run are equal when normalized",
                    code="ids-collide",
                    file=self.label,
                    got=f"{other} and {written}",
                    hint="remove one of them, or leave out --normalize-ids",
                )
        if names == hits.queries:
            return hits
        pairs = zip(names, hits.queries, strict=True)
        return replace(hits, queries=names, fields={**hits.fields, WRITTEN: [None if a == b else b for a, b in pairs]})

    def grouped(self) -> Run:
        return NormalizedRun(self._run.grouped(), self._normal)

    def lists(self, name: str) -> Run:
        return NormalizedRun(self._run.lists(name), self._normal)

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()

    def said(self, system: str, field: str) -> list[Any]:
        return self._run.said(system, field)

    def opening(self) -> dict[str, Any]:
        return self._run.opening()
