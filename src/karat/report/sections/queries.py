"""Single queries: the worst, and those that failed."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Bools, Floats
from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.cells import table
from karat.report.sections.base import ReportSection
from karat.results.analyses.base import Lacking
from karat.results.differences import SAME
from karat.results.numbers import enumerated, listed
from karat.results.result import Result
from karat.scoring.ceilings import where_known
from karat.scoring.metrics.base import Relevance
from karat.scoring.metrics.evidence import AnswerContainment, EvidenceMetric
from karat.scoring.metrics.grammar import parse_metric
from karat.statistics.lowest import lowest_rows

SHOWN, SHOWN_ON_PAGE = 5, 50
_TEXT = 300  # characters of a query
# Metrics that rank queries, in order of preference; those that were not requested are skipped.
_PREFERRED = ("recall@5", "ndcg@5", "mrr", "recall@10")
_BY_TEXT = ("coverage@5", "evidence_mrr@5", "answer_containment@5")  # if the gold has evidence but no items
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

    def headline(self, result: Result) -> str:
        for block in _blocks(result, SHOWN):
            if isinstance(block, Table):
                return f"{listed([str(row[0]) for row in block.rows])} ({block.note})"
        return ""


def _blocks(result: Result, most: int) -> list[Block]:
    values = _telling(result)
    if not values:
        return []
    short = {name: _short(result, name, column) for name, column in values.items()}
    lost = np.flatnonzero(np.any(list(short.values()), axis=0))
    if not len(lost):
        return [Text(f"No query scores below what the gold set allows, by {enumerated(list(values))}.")]
    names = _columns(short)
    worst = lowest_rows([values[n] for n in names], lost, most, digits=12)
    shown = names[:3]
    rows: list[list[Cell]] = []
    for i in worst.tolist():
        text, scores = result.gold.text(int(result.rows[i])), (float(values[n][i]) for n in shown)
        told = None if text is None else shorten(text, _TEXT)
        rows.append([result.queries[i], *(None if np.isnan(score) else score for score in scores), told])
    return [table(["query", *(Column(n, "score") for n in shown), "text"], rows, f"lowest {shown[0]} first")]


def _columns(short: dict[str, Bools]) -> list[str]:
    """The key metrics in which some query lost, and others that show a loss these miss."""
    preferred = [name for name in short if name in _PREFERRED] or list(short)
    names: list[str] = []
    for name in dict.fromkeys([*preferred, *short]):
        seen = np.any([short[n] for n in names], axis=0) if names else np.zeros(len(short[name]), np.bool_)
        if (short[name] if name in preferred else short[name] & ~seen).any():
            names.append(name)
    return names


def _short(result: Result, name: str, values: Floats) -> Bools:
    """On which queries a metric is below that of a perfect ranking, or below its highest value."""
    most = parse_metric(name).range[1]
    best = where_known(result.ceilings[name], most) if name in result.ceilings else most
    return np.asarray(values < best - SAME)


def _telling(result: Result) -> dict[str, Floats]:
    """Metrics that rank queries, with their values: metrics of items, otherwise of evidence texts."""
    items = [str(m) for m in result.metrics if isinstance(m, Relevance) and m.direction == "higher"]
    first = [name for name in _PREFERRED if name in items]
    if found := _defined([*first, *(name for name in items if name not in first)], result.values):
        return found
    asked = [str(m) for m in result.metrics if isinstance(m, EvidenceMetric | AnswerContainment)]
    values = result.values if asked else _by_text(result)
    return _defined(asked or list(values), values)


def _by_text(result: Result) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for name in _BY_TEXT:
        try:
            found |= result.measure([name]).values
        except Lacking:  # this gold set does not have it
            continue
    return found


def _defined(names: list[str], values: dict[str, Floats]) -> dict[str, Floats]:
    return {name: values[name] for name in names if not np.isnan(values[name]).all()}


class TriageSection(ReportSection):
    """For pages; `karat eval triage` is the same for a terminal."""

    name = "triage"
    title = "Where it fails"
    order = 72

    def full_blocks(self, result: Result) -> list[Block]:
        from karat.report.fit import WHOLE
        from karat.report.triage import triage_blocks
        from karat.results.queries.triage import triage

        if result.known is not None and result.known.triage is not None:
            return triage_blocks(result.known.triage)
        if result.lists is None:
            return []
        full = in_full(len(result.rows))
        return triage_blocks(triage(result, full, brief=ALL - full, sample=SAMPLE, letters=WHOLE, good=True))


def in_full(queries: int) -> int:
    """How many of this number of queries a page shows in full."""
    return min(max(_LISTED // max(queries, 1), _LEAST_FULL), _MOST_FULL)
