"""What a set of queries can tell, as a report."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.results.numbers import points
from karat.results.power import Plan, PlanRow


def power_report(plan: Plan) -> Report:
    wanted = plan.rows[0].detect
    columns = ("metric", "queries", "spread", "detectable", f"for {wanted:g}: queries needed", "enough")
    table = Table([Column(c, "count" if c == "queries" else "text") for c in columns], [_row(row) for row in plan.rows])
    blocks: list[Block] = [table, Text(_how(plan), "note")]
    if any(row.spread is not None and row.detectable is None for row in plan.rows):
        blocks.append(Text("spread 0: the scores do not differ here, so nothing follows for other runs.", "warning"))
    if any(row.few for row in plan.rows):
        blocks.append(Text("too few queries to know the spread well: take these figures as rough.", "warning"))
    title = f"{plan.run} against {plan.gold}"
    return Report(title, [Section("power", "How sure can this set be", blocks)])


def _row(row: PlanRow) -> list[Cell]:
    return [
        row.metric,
        row.n,
        None if row.spread is None else f"{row.spread:.3f}",
        None if row.detectable is None else points(row.detectable).removeprefix("+"),
        None if row.needed is None else f"{row.needed:,}",
        None if row.enough is None else "yes" if row.enough else "no",
    ]


def _how(plan: Plan) -> str:
    found = f"detectable: the smallest true difference between two runs that is found in {plan.power:.0%} of cases"
    found += f" (at {plan.level * 100:g} %). spread: standard deviation of the paired differences, "
    if plan.against is not None:
        found += f"measured against {plan.against}."
    else:
        found += (
            f"assuming that the scores of two versions correlate by {plan.correlation:g}; "
            "name a second run with --against to measure it."
        )
    return found + (f" Queries with the same {plan.cluster} count together." if plan.cluster else "")
