"""How a pool came together, as a report."""

from __future__ import annotations

from typing import Literal

from karat.labels.pooling import Pooling
from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text


def pool_report(pool: Pooling) -> Report:
    table = Table([Column("pairs"), Column("", "count")], _rows(pool), layout="facts")
    blocks: list[Block] = [table, *(Text(note, kind) for note, kind in _notes(pool))]
    title = f"{', '.join(pool.runs)} against {pool.gold}"
    return Report(title, [Section("pool", "What waits for a label", blocks)])


def _rows(pool: Pooling) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        [f"in the first {pool.k} hits of any run", pool.found],
        ["judged already, left out", pool.judged],
    ]
    if pool.without_influence:
        rows.append([f"cannot change the difference of {pool.metric}, left out", pool.without_influence])
    if pool.chosen == "sample":
        rows.append(["not drawn", pool.drawn_from - pool.pairs])
    if pool.chosen == "budget":
        rows.append(["beyond the budget", pool.drawn_from - pool.pairs])
    rows.append([f"in the pool, of {pool.queries:,} queries", pool.pairs])
    if pool.near_duplicates:
        rows.append(["of them nearly the same text as another one of the query", pool.near_duplicates])
    return rows


def _notes(pool: Pooling) -> list[tuple[str, Literal["note", "warning"]]]:
    notes: list[tuple[str, Literal["note", "warning"]]] = []
    if pool.influence_share is not None:
        said = (
            f"These hold {pool.influence_share:.0%} of the change in {pool.metric} that all labels together may bring."
        )
        notes.append((said, "note"))
    if pool.no_answer_queries:
        notes.append((f"{pool.no_answer_queries:,} queries without an answer were passed over.", "note"))
    if pool.without_text:
        said = f"{pool.without_text:,} pairs have no text: give a corpus (--corpus), or log the texts of hits."
        notes.append((said, "warning"))
    return notes
