"""What a context of tokens holds."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Chart, Series, Text
from karat.report.cells import interval_column, table, texts, value_cell
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.context_use import ContextUse
from karat.results.numbers import percent, share
from karat.results.summary import SummaryRow

_ORDERS = {"rank": "best first", "reversed": "best last", "sides": "best at both ends"}
_FEW = "too few queries for a reliable result"


class ContextSection(AnalysisSection):
    name = "context"
    title = "Context"
    order = 44

    def show(self, found: ContextUse) -> list[Block]:
        budgets: list[list[Cell]] = [
            [f"{one.budget:,}", value_cell(one.recall), _amount(one.hits)] for one in found.budgets
        ]
        depths: list[list[Cell]] = [[one.k, value_cell(one.recall), _amount(one.tokens)] for one in found.depths]
        places = [[_ORDERS[one.order], *map(share, (one.first, one.middle, one.last))] for one in found.places]
        told = any(one.first.n for one in found.places)
        note = (
            f"shares of the relevant hits among {_what(found)}, by thirds of the tokens; models read the middle less "
            "well. A hit in two thirds counts for each with its share of tokens."
        )
        return [
            Text(_sentence(found)),
            *([_chart(found)] if len(found.budgets) > 1 else []),
            _table(["tokens", "recall", "hits that fit"], budgets),
            _table(["first k", "recall", "tokens"], depths),
            *([table(["order in the context", "first third", "middle third", "last third"], places, note)] * told),
            *texts("warning", (found.tokens.n > 0 and found.tokens.few, _FEW)),
        ]

    def in_short(self, found: ContextUse) -> str:
        return _sentence(found).removesuffix(".")


def _table(titles: list[str], rows: list[list[Cell]]) -> Block:
    return table([interval_column(title, (row[i] for row in rows)) for i, title in enumerate(titles)], rows)


def _chart(found: ContextUse) -> Chart:
    lines: list[tuple[str, list[tuple[float | None, SummaryRow]]]] = [
        ("within the budget", [(one.budget, one.recall) for one in found.budgets]),
        ("first k hits, at their mean tokens", [(one.tokens, one.recall) for one in found.depths]),
    ]
    series = []
    for name, points in lines:
        known = [(float(x), row) for x, row in points if x]
        values = [[row.mean for _, row in known], [row.low for _, row in known], [row.high for _, row in known]]
        series.append(Series(name, [x for x, _ in known], *values))
    return Chart("Recall over tokens", "tokens", "recall", series, (), "log", (0.0, 1.0), told=True)


def _what(found: ContextUse) -> str:
    if found.size.endswith("tok"):
        return f"the hits that fit into {int(found.size.removesuffix('tok')):,} tokens"
    return "the first hit" if found.size == "1" else f"the first {int(found.size):,} hits"


def _sentence(found: ContextUse) -> str:
    """`The first 5 hits have 1,031 tokens on average; 21% of the relevant ones are in the middle third; 8% repeat.`"""
    tokens = "–" if found.tokens.mean is None else f"{found.tokens.mean:,.0f}"
    verb = "has" if found.size == "1" else "have"
    said = [f"{_what(found).capitalize()} {verb} {tokens} tokens on average"]
    middle = found.places[0].middle.mean
    if middle is not None:
        said.append(f"{percent(middle, 0)} of the relevant hits are in the middle third, best first")
    if found.redundant is not None:
        said.append(f"{share(found.redundant)} of the tokens repeat")
    return "; ".join(said) + "."


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
