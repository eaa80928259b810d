"""Before any number: what makes numbers meaningless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.report.overview import lost_queries
from karat.report.sections.base import ReportSection
from karat.results.doubts import doubt_text, what_to_do
from karat.results.numbers import counted
from karat.results.result import Result
from karat.results.summary import is_outage


class DoubtsSection(ReportSection):
    name, title, order = "doubts", "Read this first", 0

    def blocks(self, result: Result) -> list[Block]:
        told = [*_lost_ways(result), *what_to_do(result.doubts)]
        ways: list[list[Cell]] = [["try" if not i else "", way] for i, way in enumerate(told)]
        table = [Table([Column("what"), Column("how")], ways, layout="facts")] if ways else []
        return [*(Text(text, "warning") for text in (*_lost(result), *doubt_text(result.doubts))), *table]


def _lost(result: Result) -> Iterator[str]:
    """That so many queries failed or are missing that the means say little."""
    lost, entries = lost_queries(result), {entry.code: entry for entry in result.audit}
    if lost is not None:
        failed = entries.get("failed_queries")
        such_as = f", such as {failed.examples[0]}" if failed is not None and failed.examples else ""
        if is_outage(result.audit, len(result.rows)):
            yield f"{lost}{such_as}. They count as not found, so the scores say little about the retriever."
        else:
            yield f"{lost}{such_as}. Missing queries are left out: the scores are those of the rest."
    if (near := entries.get("near_queries")) is not None:
        yield (
            f"{counted(near.count)} of the run left out, although the gold set has an id that differs only in how it "
            f"is written: {near.examples[0]}."
        )


def _lost_ways(result: Result) -> Iterator[str]:
    if result.audit["near_queries"]:
        yield "--normalize-ids compares ids in one form"
    if result.audit["failed_queries"] and lost_queries(result) is not None:
        yield "ask the failed queries again: karat run … --retry-failed"


def with_doubts(report: Report, results: Sequence[Result]) -> Report:
    """A report that begins with the doubts of every result that has some."""
    names = [f": {result.system or result.run}" if len(results) > 1 else "" for result in results]
    sections = [
        Section(DoubtsSection.name, f"{DoubtsSection.title}{name}", blocks)
        for result, name in zip(results, names, strict=True)
        if (blocks := DoubtsSection().blocks(result))
    ]
    return msgspec.structs.replace(report, sections=[*sections, *report.sections])
