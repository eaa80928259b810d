"""What a section is."""

from __future__ import annotations

from typing import Any, ClassVar

from karat.report.blocks import Block, Text
from karat.results.result import Result


class ReportSection:
    """Makes the blocks of one section from a result; no blocks, no section.

    `blocks` is what `--explain` and Markdown show; `full_blocks` what a page shows, where pictures can be seen and long
    tables scrolled, sorted and folded. A section for pages only has no `blocks`. A terminal shows `short_blocks`, or
    where the section has a headline that line alone.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int] = 50
    page_order: ClassVar[int | None] = None  # on a page, where it is another

    def blocks(self, result: Result) -> list[Block]:
        return []

    def full_blocks(self, result: Result) -> list[Block]:
        return self.blocks(result)

    def short_blocks(self, result: Result) -> list[Block]:
        return self.blocks(result)

    def headline(self, result: Result) -> str | None:
        """The section in one line. Empty: a terminal says nothing of it; None: it shows `short_blocks`."""
        return None


class AnalysisSection(ReportSection):
    """Shows what the analysis of its name found."""

    def blocks(self, result: Result) -> list[Block]:
        found = result.analyses.found.get(self.name)
        return [] if found is None else self.show(found)

    def show(self, found: Any) -> list[Block]:
        raise NotImplementedError

    def headline(self, result: Result) -> str | None:
        found = result.analyses.found.get(self.name)
        return "" if found is None else self.in_short(found)

    def in_short(self, found: Any) -> str | None:
        """The headline: the sentence that the section begins with, if it does."""
        return next((block.text for block in self.show(found)[:1] if isinstance(block, Text)), None)
