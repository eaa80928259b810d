"""Queries that ask the same in other words: groups of a query and its variants (`variant_of`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Bools, Ints, Packed, take_list
from karat.errors import InputError, did_you_mean

VARIANT_OF = "variant_of"
_TEXTS = ("evidence", "answer", "answer_span")  # labels, as gold and no_answer are
_LABELS = (*_TEXTS, "negatives")
_OWN = ("query", "provenance", VARIANT_OF)  # never taken over


def with_variants(gold: Gold) -> Gold:
    """The gold set in which variants have what they take over from their original. `variant_of` of every query in a
    group, including the original, becomes the id of the original."""
    column = gold.fields.get(VARIANT_OF) or gold.tags.get(VARIANT_OF)
    if column is None or not any(value is not None for value in column):
        return gold
    source = _originals(gold, column)
    is_variant = source != np.arange(len(source))
    if not is_variant.any():
        return gold
    in_group = np.zeros(len(source), np.bool_)
    in_group[source[is_variant]] = True
    in_group |= is_variant
    labelled = _labelled(gold)
    bare = is_variant & ~labelled
    fields = {
        name: values if name in _OWN else _filled(values, source, bare if name in _LABELS else is_variant)
        for name, values in gold.fields.items()
    }
    roots = zip(in_group.tolist(), source.tolist(), strict=True)
    fields[VARIANT_OF] = [gold.queries[root] if grouped else None for grouped, root in roots]
    tags = {name: _filled(values, source, is_variant) for name, values in gold.tags.items() if name != VARIANT_OF}
    audit, no_answer = Audit.of(gold.audit), np.where(bare, gold.no_answer[source], gold.no_answer)
    answerless = np.flatnonzero(no_answer > gold.no_answer).tolist()
    audit.count("no_answer_queries", len(answerless), (gold.queries[i] for i in answerless))
    taken = np.flatnonzero(bare & labelled[source]).tolist()
    audit.count("gold_of_original", len(taken), (gold.queries[i] for i in taken[:3]))
    own_k = np.where(is_variant & (gold.k == 0), gold.k[source], gold.k)
    same = replace(gold, fields=fields, tags=tags, audit=audit, no_answer=no_answer, k=own_k)
    return _with_items_of(same, np.where(bare, source, np.arange(len(source))))


def variant_groups(gold: Gold) -> Ints | None:
    """For each query, the row of the first query of its group, or -1 if it is in none; None without groups."""
    column = gold.fields.get(VARIANT_OF) or gold.tags.get(VARIANT_OF)
    if column is None:
        return None
    first: dict[Any, int] = {}
    rows = [-1 if name is None else first.setdefault(name, row) for row, name in enumerate(column)]
    return np.array(rows, np.int64) if first else None


def _originals(gold: Gold, column: list[Any]) -> Ints:
    """The row of the query that each query rephrases in the end; its own row if it rephrases none."""
    found = list(range(len(gold.queries)))
    for row, value in enumerate(column):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise _error(gold, row, "wrong type", code="wrong-type", expected="the id of a query", got=value)
        original = gold.index.get(str(value))
        if original is None:
            hint = did_you_mean(str(value), gold.queries[:10_000])
            raise _error(gold, row, "no query has this id", code="unknown-query", got=value, hint=hint)
        found[row] = original
    for row in range(len(found)):
        passed = [row]
        while found[passed[-1]] != passed[-1]:
            if found[passed[-1]] in passed:
                what = f"this query and {gold.queries[found[row]]!r} are variants of each other"
                hint = "remove variant_of from the query that was first"
                raise _error(gold, row, what, code="contradiction", hint=hint)
            passed.append(found[passed[-1]])
        for passing in passed:
            found[passing] = passed[-1]
    return np.array(found, np.int64)


def _error(gold: Gold, row: int, what: str, **more: Any) -> InputError:
    line = gold.lines[row] if gold.lines else None
    return InputError(what, file=gold.label, line=line, query=gold.queries[row], field=VARIANT_OF, **more)


def _labelled(gold: Gold) -> Bools:
    """Which queries say themselves what should be found."""
    found = (np.diff(gold.offsets) > 0) | (gold.no_answer > 0)
    for name in _TEXTS:
        if name in gold.fields:
            found |= np.array([value is not None for value in gold.fields[name]], np.bool_)
    return np.asarray(found)


def _filled(values: list[Any], source: Ints, taking: Bools) -> list[Any]:
    """The values, with those of the originals where a query that may take them over has none."""
    rows = zip(values, source.tolist(), taking.tolist(), strict=True)
    return [values[of] if value is None and takes else value for value, of, takes in rows]


def _with_items_of(gold: Gold, source: Ints) -> Gold:
    """The same queries, each with the items of another one."""
    if np.array_equal(source, np.arange(len(source))):
        return gold
    rows, counts = gold.items_of(source), np.diff(gold.offsets)[source]
    items: list[str] | Packed = gold.items[rows] if isinstance(gold.items, np.ndarray) else take_list(gold.items, rows)
    return replace(
        gold,
        offsets=np.append(0, np.cumsum(counts)),
        items=items,
        grades=gold.grades[rows],
        kinds=gold.kinds[rows],
        passages=[gold.passages[i] for i in rows.tolist()] if gold.passages else [],
        ungraded=None if gold.ungraded is None else gold.ungraded[rows],
    )
