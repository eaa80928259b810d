"""What a section is."""

from __future__ import annotations

from typing import ClassVar

from karat.report.blocks import Block
from karat.result import Result


class ReportSection:
    """Makes the blocks of one section from a result; no blocks, no section."""

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int] = 50

    def blocks(self, result: Result) -> list[Block]:
        raise NotImplementedError
