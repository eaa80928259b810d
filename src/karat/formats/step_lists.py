"""Lists of records of a run log: a field, one of several searches, or all of them."""

from __future__ import annotations

from typing import Any

from karat.data.hits import STEPS, step_of
from karat.formats.records import Records, column
from karat.formats.run_records import Hit, Places, union_of, union_with_places


def lists_in(records: Records[Any], name: str) -> list[Any]:
    """The lists of records by name: a field, one of their steps, or the union of all steps; None where they lack it."""
    step = step_of(name)
    if step is None and name != STEPS:
        return column(records, name)
    steps: list[Any] = column(records, STEPS)
    if step is None:
        orders = column(records, "score_order")
        return [union_of(one, order) if one else None for one, order in zip(steps, orders, strict=True)]
    return [one[step - 1].topk if one and step <= len(one) else None for one in steps]


def searches_in(records: Records[Any]) -> list[list[tuple[Any, Places]]]:
    """The hits of all searches of each record; one without steps is one search."""
    told = zip(*(column(records, name) for name in (STEPS, "topk", "score_order")), strict=True)
    return [union_with_places([{"topk": topk}] if steps is None else steps, order) for steps, topk, order in told]


def of_union(hit: Any) -> Any:
    return Hit(**hit) if isinstance(hit, dict) else hit
