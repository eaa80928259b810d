"""Is that good: a reading aid for recall."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Table
from karat.report.sections.base import ReportSection
from karat.results.diagnosis.bands import CAVEAT, Reading
from karat.results.numbers import written
from karat.results.result import Result


class Bands(ReportSection):
    """Poor, acceptable, good or excellent."""

    name = "bands"
    title = "Is that good"
    order = 15

    def blocks(self, result: Result) -> list[Block]:
        found = result.bands
        if not found:
            return []
        capped = any(reading.band_of_share for reading in found)
        columns = [Column("metric"), Column("value"), Column("band")]
        note = CAVEAT
        if capped:
            columns.append(Column("as a share of its ceiling"))
            note += " They were made for one right item a query; with several, read the share of the ceiling."
        return [Table(columns, [_cells(reading, capped) for reading in found], note)]


def _cells(reading: Reading, capped: bool) -> list[Cell]:
    doubt = "" if reading.certain else f" (interval: {reading.lowest} to {reading.highest})"
    cells: list[Cell] = [reading.metric, written(reading.value), reading.band + doubt]
    if capped:
        cells.append(f"{written(reading.share_of_ceiling or reading.value)} {reading.band_of_share or reading.band}")
    return cells
