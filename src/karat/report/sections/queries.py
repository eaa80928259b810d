"""Single queries: the worst, and those that failed."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats
from karat.errors import shorten
from karat.report.blocks import Block, Column, Table, Text
from karat.report.fitting import WHOLE
from karat.report.sections.base import ReportSection
from karat.report.triage import triage_blocks
from karat.results.analyses.base import Lacking
from karat.results.queries.triage import triage
from karat.results.result import Result
from karat.scoring.metrics.answer import AnswerContainment
from karat.scoring.metrics.base import Relevance
from karat.scoring.metrics.evidence import EvidenceMetric

SHOWN, SHOWN_ON_PAGE = 5, 50
_TEXT = 300  # letters of a query
# What decides which query is worse, most telling first; what was not asked for is passed over.
_PREFERRED = ("recall@5", "ndcg@5", "mrr", "recall@10")
_BY_TEXT = ("coverage@5", "evidence_mrr@5", "answer_containment@5")  # where the gold has evidence and no items
ALL, SAMPLE = 1_000, 30  # queries on a page: the worst, and some of the others
_LISTED, _LEAST_FULL, _MOST_FULL = 15_000, 20, 100  # the fewer there are, the more of them in full


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
    names, values = _telling(result)
    if not names:
        return []
    shown = names[:3]
    keys = [np.round(values[n], 12) for n in names]
    defined = np.flatnonzero(~np.isnan(keys[0]))
    worst = defined[np.lexsort([k[defined] for k in reversed(keys)])][:most]
    worst = worst[keys[0][worst] < 1.0]
    if not len(worst):
        return [Text("No query lost anything.")]
    rows = [
        [
            result.queries[i],
            *(_score(values[n][i]) for n in shown),
            _text(result, i),
        ]
        for i in worst.tolist()
    ]
    columns = [Column("query"), *(Column(n, "score") for n in shown), Column("text")]
    return [Table(columns, rows, f"lowest {shown[0]} first")]


def _telling(result: Result) -> tuple[list[str], dict[str, Floats]]:
    """What queries go by: metrics of items that say something, else metrics of evidence texts; with their values."""
    names = [str(m) for m in result.metrics if isinstance(m, Relevance) and m.direction == "higher"]
    found = _defined([n for n in _PREFERRED if n in names] or names, result.values)
    if found:
        return found, result.values
    asked = [str(m) for m in result.metrics if isinstance(m, EvidenceMetric | AnswerContainment)]
    values = result.values if asked else _by_text(result)
    return _defined(asked or list(values), values), values


def _by_text(result: Result) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for name in _BY_TEXT:
        try:
            found |= result.measure([name]).values
        except Lacking:  # not what this gold set has
            continue
    return found


def _defined(names: list[str], values: dict[str, Floats]) -> list[str]:
    return [name for name in names if not np.isnan(values[name]).all()]


def _score(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _text(result: Result, i: int) -> str | None:
    text = result.gold.text(int(result.rows[i]))
    return None if text is None else shorten(text, _TEXT)


class TriageSection(ReportSection):
    """For pages; `karat triage` is the same for a terminal."""

    name = "triage"
    title = "Where it fails"
    order = 72

    def full_blocks(self, result: Result) -> list[Block]:
        if result.known is not None and result.known.triage is not None:
            return triage_blocks(result.known.triage)
        if result.lists is None:
            return []
        full = in_full(len(result.rows))
        return triage_blocks(triage(result, full, brief=ALL - full, sample=SAMPLE, letters=WHOLE, good=True))


def in_full(queries: int) -> int:
    """Of so many queries, how many a page shows with all that is known of them."""
    return min(max(_LISTED // max(queries, 1), _LEAST_FULL), _MOST_FULL)
