"""Four readings of one run: what unjudged hits leave open."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Interval, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.bounds import BoundsFound, BoundsRow, Kind
from karat.results.result import Result

_KINDS: dict[Kind, str] = {
    "gold only": "what the gold does not know counts as irrelevant",
    "gold plus judge": "with the judge's labels where the gold has none; hit, recall and mrr stay with the gold",
    "strict bounds": "the lowest and the highest mean that any labels of the unjudged hits could give",
    "judge-calibrated estimate": "with the judge's labels corrected by those of people; only metrics to which "
    "every hit adds for itself",
}


class BoundsSection(ReportSection):
    """Gold only, gold plus judge, strict bounds, judge-calibrated estimate; whichever were asked for."""

    name = "bounds"
    title = "What unjudged hits leave open"
    order = 15

    def blocks(self, result: Result) -> list[Block]:
        found: BoundsFound | None = result.analyses.found.get("bounds")
        return [] if found is None else [Text(_said(found)), _table(found), Text(_names(found), "note"), *_notes(found)]


def _said(found: BoundsFound) -> str:
    share = f" ({found.unjudged / found.hits:.1%})" if found.hits else ""
    labelled = f" The judge labelled {found.by_judge:,} of these" if found.judge_labels else ""
    if found.by_people:
        labelled += f", people {found.by_people:,}"
    return (
        f"Of {found.hits:,} hits in the top {found.k} the gold does not know {found.unjudged:,}{share}."
        f"{labelled}{'.' if labelled else ''}"
    )


def _table(found: BoundsFound) -> Table:
    kinds = [kind for kind in _KINDS if any(row.kind == kind for row in found.rows)]
    by_name = {(row.metric, row.kind): row for row in found.rows}
    metrics = dict.fromkeys(row.metric for row in found.rows)
    rows = [[metric, *(_cell(by_name.get((metric, kind))) for kind in kinds)] for metric in metrics]
    return Table([Column("metric"), *map(Column, kinds)], rows)


def _cell(row: BoundsRow | None) -> Cell:
    if row is None or (row.value is None and row.lower is None):
        return None
    if row.value is None:
        return Interval(f"{row.lower:.3f} to {row.upper:.3f}", None, row.lower, row.upper)
    if row.low is None or row.high is None:
        return f"{row.value:.3f}"
    return Interval(f"{row.value:.3f} [{row.low:.2f}, {row.high:.2f}]", row.value, row.low, row.high)


def _names(found: BoundsFound) -> str:
    kinds = {row.kind for row in found.rows}
    methods = sorted({row.method for row in found.rows if row.method and row.kind == "judge-calibrated estimate"})
    said = [f"{kind}: {what}" for kind, what in _KINDS.items() if kind in kinds]
    return "; ".join(said) + (f" ({methods[0]})." if methods else ".")


def _notes(found: BoundsFound) -> list[Block]:
    notes = []
    if found.judge_labels and found.unlabelled:
        notes.append(
            f"Hits of the top {found.k} that nobody labelled, which count as irrelevant: {found.unlabelled:,}."
        )
    if found.overruled:
        notes.append(f"Labels of the judge that contradict the gold set, which decides: {found.overruled:,}.")
    if found.unknown:
        notes.append(f"Labels of queries that the gold set does not have, left out: {found.unknown:,}.")
    return [Text(note, "warning") for note in notes]
