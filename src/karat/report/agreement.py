"""How far annotators agree, as a report."""

from __future__ import annotations

from collections.abc import Container

from karat.labels.agreement import Agreement, Annotator, Conflict, KappaRow
from karat.report.blocks import Block, Cell, Column, Interval, Report, Section, Table, Text

_CONFLICTS = 20


def agreement_report(found: Agreement, closed: Container[tuple[str, str]] = ()) -> Report:
    """`closed`: pairs (query, item) that the reader has yet to grade, whose grades would be in the way."""
    sections = [Section("annotators", "Who labelled", [_annotators(found)])]
    sections.append(Section("agreement", "How far they agree", _agreement(found)))
    if found.conflicts:
        sections.append(Section("conflicts", "Where they do not", _conflicts(found, closed)))
    return Report(f"Labels of {', '.join(found.files)}", sections)


def _annotators(found: Agreement) -> Table:
    columns = [Column("annotator"), Column("kind"), Column("labels", "count"), Column("without a grade", "count")]
    return Table([*columns, Column("mean grade", "score")], [_annotator(one) for one in found.annotators])


def _annotator(one: Annotator) -> list[Cell]:
    return [one.name, one.kind, one.labels, one.missing, one.mean_grade]


def _agreement(found: Agreement) -> list[Block]:
    if not found.kappas:
        return [Text("No pair has been graded by two annotators: nothing can be said of agreement.", "warning")]
    columns = [Column("annotators"), Column("of"), Column("pairs", "count"), Column("agreed"), Column("kappa")]
    how = f"kappa: 1 is full agreement, 0 what chance would bring; with {found.level * 100:g} % interval over queries. "
    how += "Cohen's for two annotators, Fleiss' for all. –: all gave one and the same grade."
    return [Table(columns, [_row(row) for row in found.kappas], how)]


def _row(row: KappaRow) -> list[Cell]:
    who = " and ".join(row.annotators) if row.measure == "cohen" else f"all {len(row.annotators)} (Fleiss)"
    return [who, row.of, row.pairs, f"{row.agreed:.0%}", _kappa(row)]


def _kappa(row: KappaRow) -> Cell:
    if row.kappa is None or row.low is None or row.high is None:
        return None
    return Interval(f"{row.kappa:.2f} [{row.low:.2f}, {row.high:.2f}]", row.kappa, row.low, row.high)


def _conflicts(found: Agreement, closed: Container[tuple[str, str]]) -> list[Block]:
    open_ones = [c for c in found.conflicts if (c.query_id, c.item) not in closed]
    shown = open_ones[:_CONFLICTS]
    rows: list[list[Cell]] = [[c.query_id, c.item, _grades(c)] for c in shown]
    table = Table([Column("query"), Column("item"), Column("grades")], rows)
    said = f"{len(found.conflicts):,} of {found.shared:,} pairs with two or more grades"
    more, hidden = len(open_ones) - len(shown), len(found.conflicts) - len(open_ones)
    said += f"; {hidden:,} that you have yet to grade are not shown" if hidden else ""
    return [Text(said + (f"; {more:,} more are in --json." if more else ".")), *([table] if shown else [])]


def _grades(conflict: Conflict) -> str:
    return ", ".join(f"{name} {grade:g}" for name, grade in conflict.grades.items())
