"""HITS + GOLD → Judged: the one place that handles ties, duplicates, missing queries, document-level gold and
thresholds. All decisions are counted in the audit."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import DOC, Gold
from karat.data.hits import OTHER_TIMES, WRITTEN, Hits
from karat.data.ids import (
    Bools,
    DocRule,
    Ints,
    Owners,
    Packed,
    as_list,
    confirmed,
    find,
    like,
    match,
    take,
    take_list,
)
from karat.files.native import native
from karat.scoring.ranking import drop_repeats, inspect_order, places_of, rank_order

if TYPE_CHECKING:
    from karat.data.ids import Ids
from karat.scoring.judged import Judged, Rules, cutoffs, first_of_item, gold_side


def judge(hits: Hits, gold: Gold, rules: Rules, audit: Audit, depth: int = 0, start: int = 0) -> Judged:
    """Judge one slice. `depth`: how many places of each ranking must be exact also for unjudged hits; `start`: where
    in the gold set its queries begin, if they are in the same order."""
    hits, queries = _known_queries(hits, gold, audit, start)
    hits = hits if rules.scores is None else hits.with_scores(rules.scores)
    audit.count("turned_scores", len(hits.queries) if hits.turned and hits.score is not None else 0)
    audit.count("order_as_said", len(hits.queries) if rules.scores == "as-listed" else 0)
    count_states(hits, audit)
    _count_unpriced(hits, rules, audit)
    inspect_order(hits, audit, rules)
    hits = _prune(_cut(hits, rules, audit), rules, audit)
    _count_estimated(hits, audit)
    doc_rule = DocRule(rules.doc_of)
    if hits.may_repeat:
        hits = drop_repeats(hits, audit, rules)
    if rules.no_future:
        hits = _drop_newer(hits, gold, queries, doc_rule, audit)
    rows, items, by_document = _match(hits, gold, queries, doc_rule, audit)
    equal_rows, equal_items = _match_equal(hits, gold, queries)
    if len(equal_rows):
        rows, items = np.concatenate([rows, equal_rows]), np.concatenate([items, equal_items])
    order = rank_order(hits, rows, depth, rules)
    place = places_of(order, rows)
    by_place = np.argsort(place) if gold.located is None else np.lexsort((-gold.grades[items], place))
    rows, items = rows[by_place], items[by_place]
    query = hits.query_at(rows)
    if len(equal_rows):
        by_document = np.zeros(len(queries), np.bool_) if by_document is None else by_document
        by_document[hits.query_at(equal_rows)] = True
        _fill_places(gold, queries[query], items, np.isin(rows, equal_rows))
    rank = place[by_place] - hits.offsets[query] + 1
    gold_query, gold_grade = gold_side(gold, queries)
    return Judged(
        gold=gold,
        queries=queries,
        present=np.ones(len(queries), np.bool_),
        depth=hits.counts,
        k=cutoffs(gold, queries, rules),
        gold_query=gold_query,
        gold_grade=gold_grade,
        hit_query=query,
        hit_rank=rank,
        hit_grade=gold.grades[items],
        hit_new=np.ones(len(rows), np.bool_) if by_document is None else first_of_item(items),
        by_document=by_document,
        hits=hits,
        order=order,
        doc_rule=doc_rule,
        fuzzy_threshold=rules.fuzzy_threshold,
        hit_item=items,
        prices=rules.prices,
        score_width=rules.score_width,
        forbid=rules.forbid,
        zero_without_gold=rules.no_relevant == "zero",
    )


def _known_queries(hits: Hits, gold: Gold, audit: Audit, start: int) -> tuple[Hits, Ints]:
    end = start + len(hits.queries)
    if gold.queries[start:end] == hits.queries:  # same order: no lookup needed
        return hits, np.arange(start, end)
    queries = np.fromiter(map(gold.index.get, hits.queries, repeat(-1)), np.int64, len(hits.queries))
    known = queries >= 0
    if known.all():
        return hits, queries
    unknown = np.flatnonzero(~known)
    code = "unshared_queries" if gold.made_of == "queries" else "unknown_queries"
    audit.count(code, len(unknown), (hits.queries[i] for i in unknown[:3]))
    return hits.select_queries(known), queries[known]


def count_states(hits: Hits, audit: Audit) -> None:
    """Count queries that returned nothing or failed."""
    empty = np.flatnonzero(hits.counts == 0)
    audit.count("empty_results", len(empty), (hits.queries[i] for i in empty[:3]))
    failed = [f"{q}: {e}" for q, e in zip(hits.queries, hits.fields.get("error", ()), strict=False) if e]
    audit.count("failed_queries", len(failed), failed)
    written = hits.fields.get(WRITTEN, ())
    other = [f"{was} → {q}" for q, was in zip(hits.queries, written, strict=False) if was]
    audit.count("queries_normalized", len(other), other)
    times = hits.fields.get(OTHER_TIMES, ())
    differ = [f"{q}: {said}" for q, said in zip(hits.queries, times, strict=False) if said]
    audit.count("other_times", len(differ), differ)


def _count_unpriced(hits: Hits, rules: Rules, audit: Audit) -> None:
    """Count queries with unknown cost although there is a price table."""
    if rules.prices is None:
        return
    from karat.data.prices import unpriced

    reasons = [
        next((why for used in usage or () if (why := unpriced(used, rules.prices))), None)
        for usage in hits.fields.get("usage", ())
    ]
    found = [why for why in reasons if why]
    audit.count("unpriced_queries", len(found), dict.fromkeys(found))


def _count_estimated(hits: Hits, audit: Audit) -> None:
    """Only where tokens were requested."""
    if None in hits.columns.get("tokens", ()):
        said, texts = hits.columns["tokens"], hits.columns.get("text", [])
        estimated = sum(own is None and text is not None for own, text in zip(said, texts, strict=False))
        audit.count("estimated_tokens", estimated)


def _cut(hits: Hits, rules: Rules, audit: Audit) -> Hits:
    """The first hits as they were returned, before anything else is removed from the list."""
    if rules.top_k is None:
        return hits
    query = hits.query_of_row
    over = np.arange(len(query)) - hits.offsets[query] >= rules.top_k
    if not over.any():
        return hits
    audit.count("cut_hits", int(over.sum()))
    order = rank_order(hits, np.zeros(0, np.int64), rules.top_k, rules)
    kept = np.flatnonzero(~over)
    return hits.select_rows(kept if order is None else np.sort(order[kept]))


def _prune(hits: Hits, rules: Rules, audit: Audit) -> Hits:
    if rules.min_score is None:
        return hits
    unscored = int(hits.offsets[-1]) if hits.score is None else int(np.isnan(hits.score).sum())
    audit.count("unscored_hits", unscored)
    if hits.score is None:
        return hits
    low = hits.score < rules.min_score
    if not low.any():
        return hits
    audit.count("pruned_hits", int(low.sum()))
    return hits.select_rows(np.flatnonzero(~low))


def _drop_newer(hits: Hits, gold: Gold, queries: Ints, doc_rule: DocRule, audit: Audit) -> Hits:
    """Remove hits that did not exist yet at their query's as_of. The gold stays whole: its items are still expected."""
    from karat.scoring.dates import compare_versions

    places, verdicts = compare_versions(hits, gold, queries, np.arange(len(hits.query_of_row)))
    dated = np.array([gold.as_of[query] is not None for query in queries.tolist()], np.bool_)
    audit.count("undated_hits", int(hits.counts[dated].sum()) - len(places))
    late = np.zeros(len(hits.query_of_row), np.bool_)
    late[places[verdicts == 1]] = True
    if not late.any():
        return hits
    gone = hits.select_rows(np.flatnonzero(late))
    query = gone.query_of_row
    named = zip(query[:3].tolist(), take_list(gone.ids, np.arange(len(query[:3]))), strict=True)
    audit.count("future_hits", len(query), (f"{gone.queries[at]}: {item}" for at, item in named))
    kept = hits.select_rows(np.flatnonzero(~late))
    _, items, _ = _match(gone, gold, queries, doc_rule, Audit())
    _, older, _ = _match(kept, gold, queries, doc_rule, Audit())
    wanted = np.setdiff1d(items[gold.grades[items] > 0], older).tolist()  # a passage may also be in an older chunk
    examples = (f"{gold.queries[gold.query_of_item[item]]}: {gold.ids[item]}" for item in wanted[:3])
    audit.count("future_gold", len(wanted), examples)
    return kept


def _match(
    hits: Hits,
    gold: Gold,
    queries: Ints,
    doc_rule: DocRule,
    audit: Audit,
) -> tuple[Ints, Ints, Bools | None]:
    """(row, gold item) of every judged hit. The exact id wins; gold that names a document matches its chunks.

    A hit that holds several passages has a row for each.
    """
    rows, matched = _find(hits, queries, gold)
    by_document = None
    if gold.located is not None:
        holding, held = gold.located.find(hits.ids, queries[hits.query_of_row], queries)
        rows, matched = np.concatenate([rows, holding]), np.concatenate([matched, held])
        by_document = np.bincount(hits.query_at(holding), minlength=len(queries)) > 0
    items = gold.items_of(queries)
    of_document = items[gold.names_document(doc_rule)[items]]
    if not len(of_document) or not _has_documents(hits, gold, of_document, doc_rule):
        return rows, matched, by_document
    more, by_doc = _find_documents(hits, queries, gold, of_document, doc_rule, rows)
    if not len(more):
        return rows, matched, by_document
    named = np.zeros(len(gold.grades), np.bool_)
    named[by_doc] = True
    documents = np.flatnonzero(named)
    audit.count("doc_level_gold", len(documents), take_list(gold.items, documents[:3]))
    by_document = np.zeros(len(queries), np.bool_) if by_document is None else by_document
    by_document[hits.query_at(more)] = True
    return np.concatenate([rows, more]), np.concatenate([matched, by_doc]), by_document


def _match_equal(hits: Hits, gold: Gold, queries: Ints) -> tuple[Ints, Ints]:
    """(row, last item of the query) of every hit that is as right as the last relevant items."""
    none = np.zeros(0, np.int64)
    if gold.equals is None:
        return none, none
    wanted = gold.equals.of(queries)
    owners = np.searchsorted(gold.equals.offsets, wanted, "right") - 1
    names = gold.equals.ids[wanted]
    listed = names if isinstance(hits.ids, np.ndarray) else as_list(names)
    rows, at = find(hits.ids, Owners(hits.offsets, queries), listed, owners, hits.hashed)
    return rows, gold.offsets[owners[at] + 1] - 1


def _fill_places(gold: Gold, query: Ints, items: Ints, equal: Bools) -> None:
    from karat.data.equal_items import fill_places

    assert gold.equals is not None
    fill_places(items, query, equal, gold.offsets[query + 1] - gold.equals.places[query])


def _find(hits: Hits, queries: Ints, gold: Gold) -> tuple[Ints, Ints]:
    """(row, gold item) of every hit with the id of an item, by row if ids are packed."""
    owners, is_document = Owners(hits.offsets, queries), gold.is_document
    if hits.hashed is not None and isinstance(hits.ids, np.ndarray) and native() is not None:
        rows, items = match(hits.hashed, owners, gold.hashed, gold.offsets, is_document if is_document.any() else None)
        return confirmed(hits.ids, None, gold.packed, rows, items)
    items = gold.items_of(queries)
    items = items[~is_document[items]]
    rows, at = find(hits.ids, owners, *_table(hits.ids, gold, items), hits.hashed)
    return rows, items[at]


def _find_documents(
    hits: Hits, queries: Ints, gold: Gold, of_document: Ints, doc_rule: DocRule, matched: Ints
) -> tuple[Ints, Ints]:
    """The same by document, for hits without a match."""
    left = np.ones(hits.offsets[-1], np.bool_)
    left[matched] = False
    if hits.docs is None and doc_rule.byte and isinstance(hits.ids, np.ndarray) and native() is not None:
        named = gold.names_document(doc_rule)
        hashed, owners = hits.doc_hashes(doc_rule), Owners(hits.offsets, queries)
        rows, items = match(hashed, owners, gold.hashed, gold.offsets, None if named.all() else ~named)
        return confirmed(hits.ids, doc_rule.byte, gold.packed, rows, items, left)
    rest = np.flatnonzero(left)
    docs = _docs(hits, doc_rule, rest)
    rows, at = find(docs, queries[hits.query_of_row[rest]], *_table(docs, gold, of_document))
    return rest[rows], of_document[at]


def _table(ids: Ids, gold: Gold, items: Ints) -> tuple[list[str] | Packed, Ints]:
    """Some items and their queries, for `find`."""
    names = gold.packed[items] if isinstance(ids, np.ndarray) else take_list(gold.items, items)
    return names, np.searchsorted(gold.offsets, items, "right") - 1


def _has_documents(hits: Hits, gold: Gold, of_document: Ints, doc_rule: DocRule) -> bool:
    """Whether a hit's document can differ from its id at all."""
    if hits.docs is not None or (gold.kinds[of_document] == DOC).any():
        return True
    return doc_rule.any_chunk(hits.ids, hits.written)


def _docs(hits: Hits, doc_rule: DocRule, rows: Ints) -> Ids:
    guessed = doc_rule.docs(take(hits.ids, rows))
    if hits.docs is None:
        return guessed
    said = take_list(hits.docs, rows)
    return like(guessed, [s or g for s, g in zip(said, as_list(guessed), strict=True)])
