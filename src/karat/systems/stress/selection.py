"""Which queries a stress test uses, and why others not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from karat.data.gold import DOC, Gold
from karat.data.ids import DocRule
from karat.errors import InputError
from karat.formats.negatives import as_negatives, read_negatives

Negatives = str | PathLike[str] | Mapping[str, list[str]]


@dataclass(frozen=True)
class Selection:
    """The queries that are used, with their negatives."""

    chosen: dict[str, list[str]]
    drawn_from: int  # queries that could have been used
    left_out: dict[str, int]  # why → queries that could not
    relevant: int  # negatives that the gold calls relevant, and that were not used


def negatives_of(given: Negatives | None, gold: Gold) -> dict[str, list[str]]:
    """Query → ids, each once."""
    if isinstance(given, Mapping):
        return {str(query): as_negatives(ids, "negatives", str(query)) for query, ids in given.items()}
    if given is not None:
        return read_negatives(given)
    column = gold.fields.get("negatives")
    if column is None:
        raise InputError(
            "the gold set has no negatives",
            code="no-negatives",
            file=gold.label,
            hint="add `negatives` (ids) to its entries, or name a file with --negatives",
        )
    return {query: list(dict.fromkeys(ids or ())) for query, ids in zip(gold.queries, column, strict=True)}


def select(
    gold: Gold,
    listed: set[str],
    negatives: dict[str, list[str]],
    doc_rule: DocRule,
    most: int,
    seed: int,
    *,
    needs_text: bool,
) -> Selection:
    relevant = _relevant(gold, doc_rule)
    usable: dict[str, list[str]] = {}
    left_out: Counter[str] = Counter()
    contradicted = 0

    def lacks(row: int, wrong: list[str]) -> str | None:
        if row not in relevant:
            return "no relevant gold"
        if not wrong:
            return "no negatives"
        if gold.queries[row] not in listed:
            return "no hits in the run"
        return "no text of the query" if needs_text and gold.text(row) is None else None

    for row, query in enumerate(gold.queries):
        named = negatives.get(query, [])
        wrong = [item for item in named if not (row in relevant and relevant[row].has(item, doc_rule))]
        contradicted += len(named) - len(wrong)
        reason = lacks(row, wrong)
        if reason is None:
            usable[query] = wrong
        else:
            left_out[reason] += 1
    if not usable:
        why = ", ".join(f"{reason} ({count:,})" for reason, count in left_out.items())
        raise InputError("no query of the gold set can be used", code="no-usable-queries", file=gold.label, hint=why)
    return Selection(_draw(usable, most, seed), len(usable), dict(left_out), contradicted)


def _draw(usable: dict[str, list[str]], most: int, seed: int) -> dict[str, list[str]]:
    """By name, so that the order of a file does not change what is drawn."""
    names = sorted(usable)
    if len(names) > most:
        names = sorted(names[i] for i in np.random.default_rng(seed).permutation(len(names))[:most])
    return {name: usable[name] for name in names}


@dataclass(frozen=True)
class _Relevant:
    """What the gold calls relevant for a query."""

    items: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)

    def has(self, item: str, doc_rule: DocRule) -> bool:
        return item in self.items or doc_rule.doc(item) in self.documents


def _relevant(gold: Gold, doc_rule: DocRule) -> dict[int, _Relevant]:
    """By row of the query."""
    by_document = gold.names_document(doc_rule).tolist()
    found: dict[int, _Relevant] = {}
    for item in np.flatnonzero(gold.grades > 0).tolist():
        of = found.setdefault(int(gold.query_of_item[item]), _Relevant())
        if gold.kinds[item] != DOC:
            of.items.add(gold.ids[item])
        if by_document[item]:
            of.documents.add(gold.ids[item])
    return found
