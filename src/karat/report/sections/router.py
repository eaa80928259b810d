"""Where queries were sent."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.router import Confusion, Regret, Routed
from karat.results.numbers import counted, points, share, such_as, with_interval
from karat.results.result import Result

_COLUMNS = 6  # more routes than that are told one below the other
_ROWS = 10
_NAME = 16


class RouterSection(ReportSection):
    """Right and wrong routes, the sources, and what misroutes cost."""

    name = "router"
    title = "Routing"
    order = 42

    def blocks(self, result: Result) -> list[Block]:
        found: Routed | None = result.analyses.found.get("router")
        if found is None:
            return []
        return [*_sentences(found), _chosen(found), *_confusion(found.confusion), _by_source(found), *_regret(found)]


def _sentences(found: Routed) -> list[Block]:
    said = f"{share(found.right)} of {counted(found.queries)} asked every source that they need"
    if found.over.mean:
        said += f"; {share(found.over)} asked more than that"
    said += "."
    if found.partly:
        said += f" {counted(found.partly)} asked a part of what they need, which counts as wrong."
    blocks: list[Block] = [Text(said)]
    for count, lacking in ((found.not_routed, "`route` in the log"), (found.not_labelled, "`source` in the gold set")):
        if count:
            blocks.append(Text(f"{counted(count)} without {lacking}, left out here.", "warning"))
    return blocks


def _chosen(found: Routed) -> Table:
    rows: list[list[Cell]] = [[_short(c.source), c.asked, f"{c.share:.1%}", c.needed] for c in found.chosen[:_ROWS]]
    columns = [Column("source"), Column("asked", "count"), Column("of all routes"), Column("needed", "count")]
    return Table(columns, rows, _rest(len(found.chosen)))


def _confusion(cells: list[Confusion]) -> list[Block]:
    """A matrix where it fits, else the misroutes one below the other."""
    asked = sorted({cell.asked for cell in cells})
    needed = sorted({cell.needed for cell in cells})
    if len(asked) <= _COLUMNS and len(needed) <= _ROWS:
        counts = {(cell.needed, cell.asked): cell.queries for cell in cells}
        rows: list[list[Cell]] = [[_short(n), *(counts.get((n, a), 0) for a in asked)] for n in needed]
        columns = [Column("needed ↓  asked →"), *(Column(_short(a), "count") for a in asked)]
        return [Table(columns, rows, "queries by the source that they need and the one that was asked")]
    wrong = [cell for cell in cells if not cell.right]
    rows = [[_short(c.needed), _short(c.asked), c.queries, such_as(c.examples)[2:-1]] for c in wrong[:_ROWS]]
    columns = [Column("needed"), Column("asked"), Column("queries", "count"), Column("for example")]
    return [Table(columns, rows, _rest(len(wrong)))] if rows else []


def _by_source(found: Routed) -> Table:
    rows: list[list[Cell]] = [
        [_short(s.needed), s.all.n, *map(with_interval, (s.all, s.right, s.wrong))] for s in found.by_source[:_ROWS]
    ]
    columns = [
        Column("needed"),
        Column("queries", "count"),
        *(Column(c) for c in (found.metric, "if right", "if wrong")),
    ]
    return Table(columns, rows, _rest(len(found.by_source)))


def _regret(found: Routed) -> list[Block]:
    regret = found.regret
    return [] if regret is None else [Text(_against(regret) if regret.against else _estimate(regret), "note")]


def _against(regret: Regret) -> str:
    cost = points(regret.cost.mean, limits=(regret.cost.low, regret.cost.high)).removeprefix("+")
    return (
        f"Regret: the best of the routes {', '.join(map(_short, regret.against))}, taken query by query, would reach "
        f"{regret.best:.4f} where routing reaches {regret.recall:.4f}: {cost} over {counted(regret.queries)}."
    )


def _estimate(regret: Regret) -> str:
    cost = points(regret.cost.mean).removeprefix("+")
    return (
        f"Regret, estimated: if {counted(regret.queries)} that were misrouted did as well as those that need the same "
        f"source and were sent there, recall would be {regret.best:.4f} instead of {regret.recall:.4f} ({cost}). "
        "Misrouted queries may be harder ones: runs of each route (`--route NAME=RUN`) tell exactly."
    )


def _short(name: str) -> str:
    return shorten(name, _NAME)


def _rest(count: int) -> str | None:
    return f"and {count - _ROWS} more, in the saved result" if count > _ROWS else None
