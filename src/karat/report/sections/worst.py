"""The queries that lose most."""

from __future__ import annotations

import numpy as np

from karat.errors import shorten
from karat.metrics.base import Relevance
from karat.report.blocks import Block, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.result import Result

SHOWN, SHOWN_ON_PAGE = 5, 50
_TEXT = 300  # letters of a query
# What decides which query is worse, most telling first; what was not asked for is passed over.
_PREFERRED = ("recall@5", "ndcg@5", "mrr", "recall@10")


class Worst(ReportSection):
    """The worst queries, by recall@5 where it was measured."""

    name = "worst"
    title = "Worst queries"
    order = 70

    def blocks(self, result: Result) -> list[Block]:
        return _blocks(result, SHOWN)

    def full_blocks(self, result: Result) -> list[Block]:
        return _blocks(result, SHOWN_ON_PAGE)


def _blocks(result: Result, most: int) -> list[Block]:
    names = [str(m) for m in result.metrics if isinstance(m, Relevance) and m.direction == "higher"]
    names = [n for n in _PREFERRED if n in names] or names
    if not names:
        return []
    shown = names[:3]
    keys = [np.round(result.values[n], 12) for n in names]
    defined = np.flatnonzero(~np.isnan(keys[0]))
    worst = defined[np.lexsort([k[defined] for k in reversed(keys)])][:most]
    worst = worst[keys[0][worst] < 1.0]
    if not len(worst):
        return [Text("No query lost anything.")]
    rows = [
        [
            result.queries[i],
            *(float(result.values[n][i]) for n in shown),
            _text(result, i),
        ]
        for i in worst.tolist()
    ]
    columns = [Column("query"), *(Column(n, "score") for n in shown), Column("text")]
    return [Table(columns, rows, f"lowest {shown[0]} first")]


def _text(result: Result, i: int) -> str | None:
    text = result.gold.text(int(result.rows[i]))
    return None if text is None else shorten(text, _TEXT)
