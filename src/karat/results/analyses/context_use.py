"""What a context of tokens holds: recall over tokens, where the relevant hits are in it, and what repeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit, Entry
from karat.results.analyses.base import Analysis, Lacking, NotAsked, Setup
from karat.results.summary import SummaryRow, mean_of
from karat.scoring.judged import Rules
from karat.scoring.metrics.context import ORDERS, THIRDS, Order
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

BUDGETS = (500, 1000, 2000, 4000, 8000, 16_000)
KS = (1, 3, 5, 10, 20)
_MEASURED: tuple[Order, ...] = ("rank", "sides")


class WithinBudget(msgspec.Struct, frozen=True):
    """The hits that fit into a budget."""

    budget: int
    hits: float | None  # how many fit, on average
    recall: SummaryRow


class AtDepth(msgspec.Struct, frozen=True):
    """The first k hits."""

    k: int
    tokens: float | None  # on average
    recall: SummaryRow


class Placement(msgspec.Struct, frozen=True):
    """Shares of the relevant hits in each third of the tokens, if hits are put into the context in this order."""

    order: Order
    first: SummaryRow
    middle: SummaryRow
    last: SummaryRow


class ContextUse(msgspec.Struct, frozen=True):
    """What contexts of one size hold, and recall for other sizes."""

    size: str  # a number of hits, or of tokens: 10, 4000tok
    tokens: SummaryRow
    hits: float | None  # on average
    budgets: list[WithinBudget]
    depths: list[AtDepth]
    places: list[Placement]
    redundant: SummaryRow | None = None  # null: texts were not read
    counted: list[Entry] = []  # for the audit


class ContextAnalysis(Analysis):
    """Measures contexts in tokens."""

    name = "context"
    title = "Context"
    finds: ClassVar[type[msgspec.Struct]] = ContextUse

    def need(self, setup: Setup) -> Need:
        if setup.rules.context is None and not setup.sized:
            raise NotAsked
        return Need(metrics=[*_names(setup.rules)])

    def find(self, side: Result) -> ContextUse:
        rules, size = side.rules, _size(side.rules)
        tokens = side.values[f"tokens@{size}"]
        unknown = np.isnan(tokens) & (side.depths > 0)
        if not (unknown < (side.depths > 0)).any():
            if rules.context is None:
                raise NotAsked
            raise Lacking("`tokens` or `text` of the hits in the run log, or `--corpus`")
        redundant = side.row(f"redundant_tokens@{size}") if rules.context is not None else None
        audit = Audit()
        audit.count("unsized_queries", int(unknown.sum()), (side.queries[i] for i in np.flatnonzero(unknown)[:3]))
        return ContextUse(
            size=size,
            tokens=side.row(f"tokens@{size}"),
            hits=side.means[f"returned@{size}"],
            budgets=[*_budgets(side)],
            depths=[
                AtDepth(k, side.means[f"tokens@{k}"], side.row(f"recall@{k}"))
                for k in KS
                if k <= side.depths.max(initial=0)
            ],
            places=[*_places(side, size)],
            redundant=None if redundant is None or not redundant.n else redundant,
            counted=list(audit),
        )


def _size(rules: Rules) -> str:
    """In the form of a cutoff."""
    asked = str(rules.k if rules.context is None else rules.context).lower().replace(" ", "")
    number = int(asked.removesuffix("tok"))
    return f"{number}tok" if asked.endswith("tok") else str(number)


def _place(order: str, third: str, size: str) -> str:
    return str(parse_metric(f"in_third(third={third},order={order})@{size}"))


def _names(rules: Rules) -> Iterator[str]:
    size = _size(rules)
    yield from (f"{name}@{size}" for name in ("tokens", "returned"))
    yield from (_place(order, third, size) for order in _MEASURED for third in THIRDS)
    yield from (f"{name}@{budget}tok" for budget in BUDGETS for name in ("returned", "recall"))
    yield from (f"{name}@{k}" for k in KS for name in ("tokens", "recall"))
    if rules.context is not None:
        yield f"redundant_tokens@{size}"


def _places(side: Result, size: str) -> Iterator[Placement]:
    for order in ORDERS:
        if order in _MEASURED:
            yield Placement(order, *(side.row(_place(order, third, size)) for third in THIRDS))
        else:  # the mirror image of the ranking
            rows = (side.row(_place("rank", third, size)) for third in reversed(THIRDS))
            named = (replace(row, metric=_place(order, third, size)) for row, third in zip(rows, THIRDS, strict=True))
            yield Placement(order, *named)


def _budgets(side: Result) -> Iterator[WithinBudget]:
    """Up to the first budget that holds every list."""
    for budget in BUDGETS:
        fitting = side.values[f"returned@{budget}tok"]
        yield WithinBudget(budget, mean_of(fitting), side.row(f"recall@{budget}tok"))
        if not (fitting < side.depths).any():
            return
