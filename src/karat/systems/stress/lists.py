"""Selects queries for a stress test, and inserts negatives into their lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping
from os import PathLike
from typing import Any, TypeAlias

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.corpus import Corpus, DescribedRun
from karat.data.gold import DOC, Gold
from karat.data.hits import NoLists, Run, Ungrouped
from karat.data.ids import DocRule, take_list
from karat.errors import ConfigError, InputError
from karat.formats.base import Lists
from karat.formats.negatives import as_negatives, read_negatives
from karat.formats.read import read_run
from karat.results.doubts import refuse_doubtful_order
from karat.scoring.doubts import SeenScores, order_doubts, seen_scores
from karat.scoring.judge import judge
from karat.scoring.judged import Judged, Rules

Hit: TypeAlias = dict[str, Any]  # chunk_id, rank, doc_id and, if known, score and text
Negatives = str | PathLike[str] | Mapping[str, list[str]]


def choose_lists(run: Any, system: str | None, hits: Lists | None, *, reranked: bool) -> tuple[Run, Lists]:
    """Return the lists for a reranker (`raw`, else the final ones); without a reranker the final ones."""
    read = read_run(run, system=system, hits="topk" if hits is None else hits)
    if hits is None:
        raw = _other_lists(read, "raw") if reranked else None
        return (read, "topk") if raw is None else (raw, "raw")
    if hits != "topk" and isinstance(run, Run):
        other = _other_lists(run, hits)
        if other is None:
            raise ConfigError(f"the run has no {hits} lists", code="no-such-lists", file=run.label)
        return other, hits
    return read, hits


def _other_lists(run: Run, name: Lists) -> Run | None:
    try:
        lists = run.lists(name)
        next(lists.slices(frozenset(), Audit()), None)  # raises NoLists if there are none
    except NoLists:
        return None
    except Ungrouped:  # for `listed_queries`
        pass
    return lists


def listed_queries(run: Run) -> tuple[Run, str, set[str]]:
    """Return the run, grouped if needed, its system, and its queries with at least one hit."""
    systems: set[str] = set()
    listed: set[str] = set()
    try:
        for hits in run.slices(frozenset(), Audit()):
            systems.add(hits.system)
            sizes = hits.counts.tolist()
            listed.update(query for query, size in zip(hits.queries, sizes, strict=True) if size)
    except Ungrouped:
        return listed_queries(run.grouped())
    if len(systems) > 1:
        names = ", ".join(sorted(systems))
        hint = "choose one with --system"
        what = f"the run has {len(systems)} systems: {names}"
        raise ConfigError(what, code="several-systems", file=run.label, hint=hint)
    return run, next(iter(systems), ""), listed


def read_hits(
    run: Run, gold: Gold, queries: Container[str], corpus: Corpus | None, rules: Rules
) -> dict[str, list[Hit]]:
    """Return the lists of some queries in Karat's usual order. Raises if they may be upside down."""
    found: dict[str, list[Hit]] = {}
    seen = SeenScores()
    described = run if corpus is None else DescribedRun(run, lambda system: corpus, DocRule(rules.doc_of))
    for hits in described.slices(frozenset({"text"}), Audit()):
        if hits.turned is None:
            seen.add(seen_scores(hits))
        wanted = hits.select_queries(np.array([query in queries for query in hits.queries], np.bool_))
        if wanted.queries:
            depth = int(wanted.counts.max())
            found |= _as_dicts(judge(wanted, gold, rules, Audit(), depth), depth)
    refuse_doubtful_order(order_doubts(seen, rules), run.label)
    return found


def _as_dicts(judged: Judged, depth: int) -> dict[str, list[Hit]]:
    hits = judged.hits
    assert hits is not None
    query, rows = judged.top(depth)
    found: dict[str, list[Hit]] = {name: [] for name in hits.queries}
    texts = hits.columns.get("text", [None] * len(hits.ids))
    for of, row, item, doc in zip(
        query.tolist(), rows.tolist(), take_list(hits.ids, rows), judged.docs_of(rows), strict=True
    ):
        listed = found[hits.queries[of]]
        hit: Hit = {"chunk_id": item, "doc_id": doc, "rank": len(listed) + 1}
        if hits.score is not None and not math.isnan(hits.score[row]):
            hit["score"] = float(hits.score[row])
        if texts[row] is not None:
            hit["text"] = texts[row]
        listed.append(hit)
    return found


def insert(hits: list[Hit], negatives: list[Hit], at: list[int]) -> list[Hit]:
    """Insert negatives at these ranks, lowest first, or at the end of a shorter list.

    A negative that is already in the list is moved. It gets the score of the hit that it replaces, as if the retriever
    had ranked it there.
    """
    own = {hit["chunk_id"]: hit for hit in hits}
    names = {hit["chunk_id"] for hit in negatives}
    listed = [hit for hit in hits if hit["chunk_id"] not in names]
    for negative, rank in zip(negatives, at, strict=False):
        place = min(rank - 1, len(listed))
        hit = {name: v for name, v in own.get(negative["chunk_id"], negative).items() if name != "score"}
        neighbour = listed[min(place, len(listed) - 1)] if listed else {}
        listed.insert(place, hit | ({"score": neighbour["score"]} if "score" in neighbour else {}))
    return [{**hit, "rank": rank} for rank, hit in enumerate(listed, 1)]


class Selection(msgspec.Struct, frozen=True):
    """The selected queries with their negatives."""

    chosen: dict[str, list[str]]
    drawn_from: int  # usable queries
    left_out: dict[str, int]  # reason → unusable queries
    relevant: int  # negatives that are relevant in the gold set, not used


def negatives_of(given: Negatives | None, gold: Gold) -> dict[str, list[str]]:
    """Return the unique negatives of each query."""
    if isinstance(given, Mapping):
        return {str(query): as_negatives(ids, "negatives", str(query)) for query, ids in given.items()}
    if given is not None:
        return read_negatives(given)
    column = gold.fields.get("negatives")
    if column is None:
        hint = "add `negatives` (ids) to its entries, or give a file with --negatives"
        raise InputError("the gold set has no negatives", code="no-negatives", file=gold.label, hint=hint)
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
    answered = {row for row, *_ in relevant}
    usable: dict[str, list[str]] = {}
    left_out: Counter[str] = Counter()
    contradicted = 0

    def lacks(row: int, wrong: list[str]) -> str | None:
        if row not in answered:
            return "no relevant gold"
        if not wrong:
            return "no negatives"
        if gold.queries[row] not in listed:
            return "no hits in the run"
        return "no text of the query" if needs_text and gold.text(row) is None else None

    for row, query in enumerate(gold.queries):
        named = negatives.get(query, [])
        wrong = [i for i in named if not relevant & {(row, i, False), (row, doc_rule.doc(i), True)}]
        contradicted += len(named) - len(wrong)
        reason = lacks(row, wrong)
        if reason is None:
            usable[query] = wrong
        else:
            left_out[reason] += 1
    if not usable:
        why = ", ".join(f"{reason} ({count:,})" for reason, count in left_out.items())
        raise InputError("no query of the gold set can be used", code="no-usable-queries", file=gold.label, hint=why)
    names = sorted(usable)  # the order of a file must not change the sample
    if len(names) > most:
        names = sorted(names[i] for i in np.random.default_rng(seed).permutation(len(names))[:most])
    return Selection({name: usable[name] for name in names}, len(usable), dict(left_out), contradicted)


def _relevant(gold: Gold, doc_rule: DocRule) -> set[tuple[int, str, bool]]:
    """Return the relevant gold: row of the query, id, and whether the id is a document's."""
    by_document = gold.names_document(doc_rule).tolist()
    found = set()
    for item in np.flatnonzero(gold.grades > 0).tolist():
        row = int(gold.query_of_item[item])
        if gold.kinds[item] != DOC:
            found.add((row, gold.ids[item], False))
        if by_document[item]:
            found.add((row, gold.ids[item], True))
    return found
