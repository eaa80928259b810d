"""What a section is."""

from __future__ import annotations

from typing import ClassVar

from karat.report.blocks import Block
from karat.results.result import Result


class ReportSection:
    """Makes the blocks of one section from a result; no blocks, no section.

    `blocks` is what a terminal and a pull request show; `full_blocks` what a page shows, where pictures can be seen and
    long tables scrolled, sorted and folded. A section for pages only has no `blocks`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int] = 50

    def blocks(self, result: Result) -> list[Block]:
        return []

    def full_blocks(self, result: Result) -> list[Block]:
        return self.blocks(result)
