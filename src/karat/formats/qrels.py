"""TREC qrels files."""

from __future__ import annotations

from array import array

import numpy as np

from karat.data.gold import BARE, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.packed_ids import PackedIds
from karat.errors import InputError
from karat.formats.base import Source
from karat.formats.blocks import whole_lines
from karat.formats.dataset import dataset_of
from karat.formats.layout import grouped_rows, in_order
from karat.formats.trec_rows import CUT_OFF, as_number, as_text, read_float, read_rows, wrong_columns

_BLOCK = 1 << 18


def read_qrels(source: Source) -> Gold:
    rows, line = _Judgements(), 1
    for block in whole_lines(source, _BLOCK):
        if not rows.add_block(block, line):
            rows.add_one_by_one(block, line, source.label)
        line += block.count(b"\n")
    return rows.gold(source)


class _Judgements:
    """Lines of qrels, block by block, without keeping Python strings of items."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}  # queries, each with its first line
        self._runs: list[str] = []  # queries in order, and how many lines each has
        self._sizes, self._grades, self._items = array("q"), array("d"), PackedIds()

    def add_block(self, block: bytes, line: int) -> bool:
        """Read a block at once; False where it must be read line by line."""
        rows = read_rows(block, columns=4, exactly=True, number=3)
        if rows is None:
            return False
        starts = (rows.lines + line).tolist()
        new = dict(zip(rows.queries, starts, strict=True))
        if len(new) == len(starts) and self._first.keys().isdisjoint(new):  # the usual case
            self._first |= new
        else:
            for query, start in zip(rows.queries, starts, strict=True):
                self._first.setdefault(query, start)
        self._runs += rows.queries
        self._sizes.extend(rows.counts.tolist())
        self._items.add_packed(rows.ids)
        self._grades.frombytes(rows.numbers.tobytes())
        return True

    def add_one_by_one(self, block: bytes, line: int, label: str) -> None:
        """Reads any white space and empty lines, and reports errors with the line."""
        items: list[str] = []
        lines = block.split(b"\n")
        for number, raw in enumerate(lines, line):
            parts = raw.split()
            if not parts:
                continue
            if len(parts) != 4:
                hint = None if len(parts) > 4 or raw is not lines[-1] else CUT_OFF
                raise wrong_columns(label, number, "4: query iteration document grade", len(parts), hint)
            query = as_text(parts[0], label, number)
            if not self._runs or self._runs[-1] != query:
                self._first.setdefault(query, number)
                self._runs.append(query)
                self._sizes.append(0)
            self._sizes[-1] += 1
            items.append(as_text(parts[2], label, number))
            self._grades.append(as_number(parts[3], label, number, "grade"))
        self._items.add(items)

    def gold(self, source: Source) -> Gold:
        queries, offsets, order = grouped_rows(self._runs, np.array(self._sizes))
        grades = np.array(self._grades)
        builder = GoldBuilder(
            source.label,
            queries=queries,
            lines=list(self._first.values()),
            counts=np.diff(offsets),
            ids=in_order(self._items.ids, order),
            grades=grades if order is None else grades[order],
            kinds=np.full(len(grades), BARE, np.int8),
            k=np.zeros(len(queries), np.int64),
            no_answer=np.zeros(len(queries), np.int64),
        )
        try:
            return builder.build(dataset_of(source))
        except InputError as error:
            if error.code == "contradiction" and error.query is not None:
                error.line = _second_grade(source, error.query) or error.line
            raise


def _second_grade(source: Source, query: str) -> int | None:
    """The first line that gives an item of a query another grade than a line before."""
    grades: dict[bytes, float] = {}
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            parts = raw.split()
            if parts and parts[0] == query.encode():
                grade = read_float(parts[3])
                if grades.setdefault(parts[2], grade) != grade:
                    return line
    return None
