"""How deep to look: the curves of `karat sweep`."""

from __future__ import annotations

from karat.report.blocks import Block
from karat.report.sections.base import ReportSection
from karat.report.sweep import sweep_blocks
from karat.results.result import Result


class OverK(ReportSection):
    """For pages; it takes another look at the run, which a saved result does not have."""

    name = "over_k"
    title = "Over k"
    order = 18

    def full_blocks(self, result: Result) -> list[Block]:
        if result.known is not None and result.known.sweep is not None:
            return sweep_blocks(result.known.sweep)
        return sweep_blocks(result.sweep()) if result.data.tables else []
