"""Reports of `karat pool`, `karat agree` and `karat calibrate`."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from karat.labels.agreement import Agreement, Annotator, Conflict, KappaRow
from karat.labels.calibration_file import Calibration, JudgeRates, Rate
from karat.labels.pooling import Pooling
from karat.report.blocks import Block, Cell, Column, Interval, Report, Section, Table, Text
from karat.results.numbers import written

_CONFLICTS = 20
_NEXT = 10


def pool_report(pool: Pooling) -> Report:
    table = Table([Column("pairs"), Column("", "count")], _rows(pool), layout="facts")
    blocks: list[Block] = [table, *(Text(note, kind) for note, kind in _notes(pool))]
    title = f"{', '.join(pool.runs)} against {pool.gold}"
    return Report(title, [Section("pool", "What waits for a label", blocks)])


def _rows(pool: Pooling) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        [f"in the first {pool.k} hits of any run", pool.found],
        ["judged already, left out", pool.judged],
    ]
    if pool.without_influence:
        rows.append([f"cannot change the difference of {pool.metric}, left out", pool.without_influence])
    if pool.chosen == "sample":
        rows.append(["not drawn", pool.drawn_from - pool.pairs])
    if pool.chosen == "budget":
        rows.append(["beyond the budget", pool.drawn_from - pool.pairs])
    rows.append([f"in the pool, of {pool.queries:,} queries", pool.pairs])
    if pool.near_duplicates:
        rows.append(["of them nearly the same text as another one of the query", pool.near_duplicates])
    return rows


def _notes(pool: Pooling) -> list[tuple[str, Literal["note", "warning"]]]:
    notes: list[tuple[str, Literal["note", "warning"]]] = []
    if pool.influence_share is not None:
        said = (
            f"These hold {pool.influence_share:.0%} of the change in {pool.metric} that all labels together may bring."
        )
        notes.append((said, "note"))
    if pool.no_answer_queries:
        notes.append((f"{pool.no_answer_queries:,} queries without an answer were passed over.", "note"))
    if pool.without_text:
        said = f"{pool.without_text:,} pairs have no text: give a corpus (--corpus), or log the texts of hits."
        notes.append((said, "warning"))
    return notes


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


def calibration_report(found: Calibration) -> Report:
    sections = [Section("rates", "How the judge compares with people", _overall(found))]
    for name, title, rows in (("segments", "By segment", found.segments), ("systems", "By system", found.systems)):
        if rows:
            sections.append(Section(name, title, _groups(rows)))
    sections.append(Section("corrected", "What is relevant, corrected", _corrected(found)))
    if found.metrics:
        sections.append(Section("metrics", "Metrics, corrected", [_metrics(found)]))
    sections.append(Section("next", "What to label next", _next(found)))
    return Report(f"{found.judge} against {found.human}", sections)


def _overall(found: Calibration) -> list[Block]:
    o = found.overall
    what = "above 0" if found.rel is None else f"{found.rel:g} or more"
    said = (
        f"The judge labelled {found.judge_labels:,} pairs, people {found.human_labels:,}; {found.shared:,} have labels "
        f"of both. Relevant: a grade {what}."
    )
    rows: list[list[Cell]] = [
        ["sensitivity", _cell(o.sensitivity), "of what people call relevant, the judge finds this share"],
        ["specificity", _cell(o.specificity), "of what people call irrelevant, the judge rejects this share"],
        ["kappa", _cell(o.kappa), "agreement beyond chance: 1 is full, 0 none"],
    ]
    columns = [Column(""), Column(f"value [{found.level * 100:g} % interval]"), Column("")]
    strata = Table(
        [
            Column("the judge's grade"),
            *(Column(c, "count") for c in ("pairs", "labelled by people", "of them relevant")),
        ],
        [[f"{s.grade:g}", s.pairs, s.labelled, s.relevant] for s in found.strata],
    )
    notes = [Text(note, "warning") for note in found.notes]
    return [Text(said), Table(columns, rows), strata, *notes]


def _groups(rows: list[JudgeRates]) -> list[Block]:
    columns = [Column(rows[0].of), Column("pairs", "count"), Column("by people", "count")]
    columns += [Column(c) for c in ("sensitivity", "specificity", "kappa")]
    cells: list[list[Cell]] = [
        [
            row.value + (" *" if row.few else ""),
            row.pairs,
            row.labelled,
            *map(_cell, (row.sensitivity, row.specificity, row.kappa)),
        ]
        for row in rows
    ]
    blank = [Text("–: people labelled none that could tell", "note")] if any(_is_blank(row) for row in rows) else []
    few = [Text("* too few labels by people to judge by", "warning")] if any(row.few for row in rows) else []
    return [Table(columns, cells), *blank, *few]


def _is_blank(row: JudgeRates) -> bool:
    return any(rate.value is None for rate in (row.sensitivity, row.specificity, row.kappa))


def _cell(rate: Rate, digits: int = 2) -> Cell:
    if rate.value is None:
        return None
    value, low, high = (None if v is None else _written(v, digits) for v in (rate.value, rate.low, rate.high))
    if low is None or high is None:
        return value
    return Interval(f"{value} [{low}, {high}]", rate.value, rate.low, rate.high)


def _written(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")  # never −0.00


def _corrected(found: Calibration) -> list[Block]:
    o = found.overall
    rows: list[list[Cell]] = [["by the judge alone", f"{o.said:.3f}", None]]
    if o.by_people is not None:
        rows.append(["by people alone", _cell(o.by_people, 3), _width(o.by_people)])
    rows.append([f"corrected ({found.method})", _cell(o.corrected, 3), _width(o.corrected)])
    note = (
        "Share of the judge's pairs that is relevant. The interval allows for other queries and other labelled pairs."
    )
    return [Table([Column("relevant pairs"), Column("share"), Column("width")], rows, note)]


def _width(rate: Rate) -> str | None:
    return None if rate.low is None or rate.high is None else f"{rate.high - rate.low:.3f}"


def _metrics(found: Calibration) -> Table:
    columns = [Column("system"), Column("metric"), Column("gold only"), Column("gold plus judge"), Column("corrected")]
    rows: list[list[Cell]] = [
        [m.system, m.metric, written(m.gold_only), written(m.gold_plus_judge), _cell(m.corrected, 3)]
        for m in found.metrics
    ]
    return Table(columns, rows)


def _next(found: Calibration) -> list[Block]:
    if found.needed is None:
        return [
            Text(
                f"No number of labels brings the interval of the corrected share down to {found.width:g}: the queries "
                "themselves differ by more. More queries would.",
                "warning",
            )
        ]
    more = found.needed - found.shared
    if more <= 0:
        return [Text(f"The {found.shared:,} labels by people are enough for an interval {found.width:g} wide.")]
    said = (
        f"About {found.needed:,} labels by people, {more:,} more than now, bring the interval down to {found.width:g}."
    )
    rows: list[list[Cell]] = [[pair.query_id, pair.item, f"{pair.judge:g}"] for pair in found.next[:_NEXT]]
    note = f"the first {len(rows)} of {len(found.next):,} pairs, picked at random where labels help most; all in --json"
    return [Text(said), Table([Column("query"), Column("item"), Column("the judge's grade")], rows, note)]
