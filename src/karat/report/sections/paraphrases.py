"""Paraphrases of the same question."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Text
from karat.report.cells import table, texts
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.paraphrases import Paraphrases, VariantGroup
from karat.results.numbers import counted, interval, percent, written

_FEW = 20
_WORDINGS = 4


class ParaphraseSection(AnalysisSection):
    name = "paraphrases"
    title = "Paraphrases"
    order = 32

    def show(self, found: Paraphrases) -> list[Block]:
        rows = [
            ("mean of a group", found.average),
            ("worst wording", found.worst),
            ("spread (highest − lowest)", found.spread),
            ("standard deviation", found.deviation),
            ("groups that flip", found.flips),
        ]
        cells: list[list[Cell]] = [[what, written(row.mean), interval(row.low, row.high)] for what, row in rows]
        over = f"{counted(found.groups, 'group')} of {counted(found.queries)} that ask the same in other words"
        note = "A group flips if one wording finds something and another nothing. Means and intervals are over groups."
        examples = [_cells(one) for one in found.examples]
        shown = [table(["group", "spread", "best wording first"], examples)] if examples else []
        return [
            Text(f"{found.metric} in {over}. {_flips(found)}."),
            table([found.metric, "value", "interval"], cells, note),
            *texts("warning", (found.groups < _FEW, f"too few groups for a reliable result (fewer than {_FEW}).")),
            *shown,
        ]

    def in_short(self, found: Paraphrases) -> str:
        mean, worst = (percent(row.mean or 0.0) for row in (found.average, found.worst))
        return (
            f"{found.metric} {mean} on average and {worst} for the worst wording of {counted(found.groups, 'group')}; "
            f"{found.flipped:,} {'flips' if found.flipped == 1 else 'flip'}"
        )


def _flips(found: Paraphrases) -> str:
    if not found.flipped:
        return "No group flips"
    whole = f", {found.all_or_nothing:,} from all to nothing" if found.all_or_nothing else ""
    verb = "flips" if found.flipped == 1 else "flip"
    return f"{found.flipped:,} of {counted(found.groups, 'group')} {verb}{whole}"


def _cells(group: VariantGroup) -> list[Cell]:
    shown = [f"{one.value:.2f} {shorten(one.text or one.query, 60)}" for one in group.wordings]
    if len(shown) > _WORDINGS:
        left = len(shown) - _WORDINGS
        shown = [*shown[: _WORDINGS - 1], f"({left} more)", shown[-1]]
    return [group.original, f"{group.spread:.2f}", "; ".join(shown)]
