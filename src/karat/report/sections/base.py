"""Base classes of report sections."""

from __future__ import annotations

from typing import Any, ClassVar

from karat.report.blocks import Block, Text
from karat.results.result import Result


class ReportSection:
    """Makes the blocks of one section from a result. A section without blocks is left out.

    `blocks` is for `--explain` and Markdown; `full_blocks` is for pages, which show pictures and can scroll, sort and
    fold long tables. A section for pages only has no `blocks`. A terminal shows `short_blocks`, or only the headline if
    there is one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    order: ClassVar[int] = 50
    page_order: ClassVar[int | None] = None  # on a page, if it differs

    def blocks(self, result: Result) -> list[Block]:
        return []

    def full_blocks(self, result: Result) -> list[Block]:
        return self.blocks(result)

    def short_blocks(self, result: Result) -> list[Block]:
        return self.blocks(result)

    def headline(self, result: Result) -> str | None:
        """The section in one line. Empty: a terminal leaves it out; None: a terminal shows `short_blocks`."""
        return None


class AnalysisSection(ReportSection):
    """Shows the result of the analysis with the same name."""

    def blocks(self, result: Result) -> list[Block]:
        found = result.analyses.found.get(self.name)
        return [] if found is None else self.show(found)

    def show(self, found: Any) -> list[Block]:
        raise NotImplementedError

    def headline(self, result: Result) -> str | None:
        found = result.analyses.found.get(self.name)
        return "" if found is None else self.in_short(found)

    def in_short(self, found: Any) -> str | None:
        """The headline: by default the first sentence of the section, if it begins with one."""
        return next((block.text for block in self.show(found)[:1] if isinstance(block, Text)), None)
