"""What the tests of analyses share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import karat
from karat.report.blocks import Table, Text
from karat.report.build import evaluation_report
from karat.report.cells import write_cell


@pytest.fixture
def shown() -> Callable[[karat.Result, str], str]:
    """The words and tables of one section, a line each."""

    def lines(result: karat.Result, name: str) -> str:
        (section,) = [section for section in evaluation_report(result).sections if section.name == name]
        found: list[str] = []
        for block in section.blocks:
            if isinstance(block, Text):
                found.append(block.text)
            elif isinstance(block, Table):
                found.append(" | ".join(column.title for column in block.columns))
                found += [" | ".join(write_cell(cell, "text") for cell in row) for row in block.rows]
                found += [block.note] if block.note else []
        return "\n".join(found)

    return lines
