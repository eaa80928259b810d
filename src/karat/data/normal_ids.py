"""Normalized ids: which ids are the same but for case, white space, Unicode form, file extension, `-` and `_`, and a
prefix that all have. Different ids of one file become one only if they differ in case, white space or Unicode form, and
nothing shows that they are different documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import FORBIDDEN, HOPS, Gold
from karat.data.hits import OTHER_LISTS, STEPS, WRITTEN, Hits, Run, Ungrouped
from karat.data.id_forms import loose_id, normal_id, plain_id
from karat.data.ids import DocRule, as_list
from karat.data.packed_ids import pack
from karat.data.spellings import NamedItems, Renaming, one_spelling, part_spellings
from karat.errors import InputError

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.data.ids import Ints

# Where a prefix may end: after a separator, or between letters and digits.
_CUTS = re.compile(r"(?<=[^\w])|(?<=_)|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
NORMALIZED = ("ids_normalized", "spellings_joined", "ids_kept_apart")  # codes of the audit
_LOOKED = 20_000  # number of ids used to find a common prefix


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


class Names(msgspec.Struct, frozen=True):
    """Ids of the run, followed by those of files that were renamed to them."""

    all: dict[str, None]
    own: int  # how many are of the run, whose common prefix counts


class IdNormalizer(msgspec.Struct, frozen=True):
    """The ids of a run. Gold set, corpus and other runs are renamed to them, so that reports show ids of the run."""

    rule: DocRule
    ids: Names
    docs: Names  # of their documents
    gold: Gold | None = None
    query_prefix: str = ""  # of the run's queries
    queries: dict[str, str] = {}  # normal form → query of the gold set, where only one has it
    own: Renaming = msgspec.field(default_factory=lambda: Renaming(DocRule()))  # ids of the run → one spelling of each

    @classmethod
    def of(cls, gold: Gold, run: Run, rule: DocRule) -> IdNormalizer:
        """Reads the whole run: whether two ids can be the same depends on all others."""
        ids, docs, names = _names(run, rule)
        named = NamedItems(dict.fromkeys(_named_ids(gold)), dict.fromkeys(_named_docs(gold, rule)))
        own = one_spelling(run, NamedItems(ids, docs), named, rule)
        ids, docs = dict.fromkeys(map(own.of, ids)), dict.fromkeys(map(own.of_doc, docs))
        asked = {normal_query(name) for name in names[:_LOOKED]}
        known = {normal_query(name) for name in gold.queries[:_LOOKED]}
        ours, theirs = _best_prefixes(asked, known, one_side=True)
        queries = queries_by_form(gold, theirs)
        return cls(rule, Names(ids, len(ids)), Names(docs, len(docs)), gold, ours, queries, own)

    def of_query(self, name: str) -> str:
        """The query of the gold set for a query of the run."""
        if self.gold is None or name in self.gold.index:
            return name
        return self.queries.get(normal_query(name).removeprefix(self.query_prefix), name)

    def renaming(self, ids: Iterable[str], docs: Iterable[str] = ()) -> Renaming:
        """`ids`: all ids of another file; `docs`: its documents, beside those in the ids."""
        found = dict.fromkeys(ids)
        named = dict.fromkeys([*map(self.rule.doc, found), *docs])
        own_ids = {item: new for item in found if (new := self.own.of(item)) != item}
        own_docs = {doc: new for doc in named if (new := self.own.of_doc(doc)) != doc}
        pairs, apart = _pairs({item: None for item in found if item not in own_ids}, self.ids, self.rule)
        of_docs, docs_apart = _pairs({doc: None for doc in named if doc not in own_docs}, self.docs, self.rule)
        whole = {doc: other for doc, other in docs_apart.items() if doc in found}  # ids that are documents
        return Renaming(self.rule, pairs | own_ids, of_docs | own_docs, whole | apart)

    def adopted(self, run: Run) -> Run:
        """Another run, under the ids of this one."""
        ids, docs, _ = _names(run, self.rule)
        return NormalizedRun(run, self, self._learned(ids, docs))

    def _learned(self, ids: dict[str, None], docs: Iterable[str]) -> Renaming:
        named = dict.fromkeys([*map(self.rule.doc, ids), *docs])
        made = self.own
        if not (self.ids.all.keys() <= ids.keys() and self.docs.all.keys() <= named.keys()):
            made = self.renaming(ids, named)
        self.ids.all.update(dict.fromkeys(map(made.of, ids)))
        self.docs.all.update(dict.fromkeys(map(made.of_doc, named)))
        return made

    def adopted_corpus(self, corpus: Corpus) -> Corpus:
        """A corpus, under the ids of the run."""
        said = corpus.fields.get("doc_id")
        docs = [] if said is None else [str(doc) for doc in said if doc is not None]
        named = NamedItems(dict.fromkeys(corpus.ids), dict.fromkeys([*map(self.rule.doc, corpus.ids), *docs]))
        self.ids.all.update(dict.fromkeys(part_spellings(self.own, named)))
        made = self._learned(dict.fromkeys(corpus.ids), docs)
        fields = dict(corpus.fields)
        if said is not None:
            fields["doc_id"] = [None if doc is None else made.of_doc(str(doc)) for doc in said]
        return replace(corpus, ids=list(map(made.of, corpus.ids)), fields=fields)

    def adopted_gold(self, gold: Gold) -> Gold:
        """A gold set, under the ids of the run."""
        fields, equals = dict(gold.fields), gold.equals
        made = self.renaming(_named_ids(gold), _passage_docs(gold))
        for name in {"negatives", FORBIDDEN} & fields.keys():
            fields[name] = [ids and [made.of(item) for item in ids] for ids in fields[name]]
        if HOPS in fields:
            fields[HOPS] = [hops and [[made.of(item) for item in hop] for hop in hops] for hops in fields[HOPS]]
        if equals is not None:
            equals = replace(equals, ids=pack([made.of(item) for item in as_list(equals.ids)]))
        items, audit = list(map(made.of, gold.ids)), Audit.merged(gold.audit)
        changed = {old: new for old, new in zip(gold.ids, items, strict=True) if old != new}
        audit.count("ids_normalized", len(changed), (f"{old} → {new}" for old, new in changed.items()))
        joined = self.own.ids or self.own.docs
        audit.count("spellings_joined", len(joined), (f"{old} → {new}" for old, new in joined.items()))
        audit.count("ids_kept_apart", len(made.apart), (f"{item} and {other}" for item, other in made.apart.items()))
        passages = [p if p is None or p.doc is None else p._replace(doc=made.of_doc(p.doc)) for p in gold.passages]
        return replace(
            gold,
            items=items,
            audit=audit,
            fields=fields,
            passages=passages,
            equals=equals,
            located=None,
            reference=None,
            unclear=frozenset(made.apart),
        )


def _named_ids(gold: Gold) -> list[str]:
    """All ids in a gold set: its items, negatives, forbidden hits, hops and equal items."""
    found = [item for name in ("negatives", FORBIDDEN) for ids in gold.fields.get(name, ()) for item in ids or ()]
    found += [item for hops in gold.fields.get(HOPS, ()) for hop in hops or () for item in hop]
    return [*gold.ids, *found, *([] if gold.equals is None else as_list(gold.equals.ids))]


def _passage_docs(gold: Gold) -> list[str]:
    return [passage.doc for passage in gold.passages if passage is not None and passage.doc is not None]


def _named_docs(gold: Gold, rule: DocRule) -> list[str]:
    return [*map(rule.doc, _named_ids(gold)), *_passage_docs(gold)]


def _pairs(ids: dict[str, None], names: Names, rule: DocRule) -> tuple[dict[str, str], dict[str, str]]:
    """Ids → the names that they stand for, and ids for which this is not clear → a name that they could be.

    An equal name counts first. Then one that is equal in a normal form, if no other id and no other name has this form:
    ids that differ within one file are different things.

    >>> _pairs(dict.fromkeys(["X", "y"]), Names(dict.fromkeys(["x.pdf", "y.pdf", "y.docx"]), 3), DocRule())
    ({'X': 'x.pdf'}, {'y': 'y.pdf'})
    """
    found, apart, taken = dict[str, str](), dict[str, str](), set(ids)
    left = [item for item in ids if item not in names.all]
    for form in (plain_id, normal_id, loose_id):
        if not left:
            break
        ours = {form(name, rule) for name in islice(names.all, min(names.own, _LOOKED))}
        name_prefix, id_prefix = _best_prefixes(ours, {form(item, rule) for item in islice(ids, _LOOKED)})
        forms = {item: form(item, rule).removeprefix(id_prefix) for item in ids}
        same = Counter(forms.values())
        known: dict[str, list[str]] = {}
        for name in names.all:
            shown = form(name, rule).removeprefix(name_prefix)
            if shown in same:
                known.setdefault(shown, []).append(name)
        for item in left:
            some = known.get(forms[item], [])
            if len(some) == same[forms[item]] == 1 and some[0] not in taken:
                found[item] = some[0]
                taken.add(some[0])
            elif some:
                apart[item] = some[0]
        left = [item for item in left if item not in found and forms[item] not in known]
    return found, apart


def _names(run: Run, rule: DocRule) -> tuple[dict[str, None], dict[str, None], list[str]]:
    """The ids of a run's hits in all their lists, their documents, and its queries."""
    try:
        return _read_names(run, rule)
    except Ungrouped:
        return _read_names(run.grouped(), rule)


def _read_names(run: Run, rule: DocRule) -> tuple[dict[str, None], dict[str, None], list[str]]:
    ids, docs, queries = dict[str, None](), dict[str, None](), list[str]()
    for hits in run.slices(frozenset(), Audit(), frozenset((*OTHER_LISTS, STEPS))):
        queries += hits.queries
        for some in (hits, *hits.others.values()):
            ids.update(dict.fromkeys(as_list(some.ids)))
            docs.update(dict.fromkeys([] if some.docs is None else filter(None, as_list(some.docs))))
    return ids, docs | dict.fromkeys(map(rule.doc, ids)), queries


def normal_query(name: str) -> str:
    """One form for all spellings of a query id.

    >>> normal_query(" Q-7 ")
    'q-7'
    """
    return plain_id(name)


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


class NormalizedRun(Run):
    """A run with the queries of the gold set and one spelling of each id: that of the evaluated run."""

    def __init__(self, run: Run, normal: IdNormalizer, renaming: Renaming | None = None) -> None:
        self._run, self._normal, self._renaming = run, normal, renaming or normal.own
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
        hits = self._with_queries(hits)
        others = {name: self._normalized(other) for name, other in hits.others.items()}
        made = self._renaming
        if not (made.ids or made.docs):
            return replace(hits, others=others) if others else hits
        docs = None if hits.docs is None else [made.of_doc(doc) for doc in as_list(hits.docs)]
        return replace(hits, ids=list(map(made.of, as_list(hits.ids))), docs=docs, written=None, others=others)

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
        return NormalizedRun(self._run.grouped(), self._normal, self._renaming)

    def lists(self, name: str) -> Run:
        return NormalizedRun(self._run.lists(name), self._normal, self._renaming)

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()

    def said(self, system: str, field: str) -> list[Any]:
        return self._run.said(system, field)

    def opening(self) -> dict[str, Any]:
        return self._run.opening()
