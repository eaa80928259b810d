"""Runs out of tables: a row a hit, or a row a query with the list of its hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.data.audit import Audit
from karat.data.hits import OPTIONAL_COLUMNS, Hits, Run
from karat.data.ids import Floats, Ints
from karat.errors import InputError
from karat.formats.base import SWAPPED, Source
from karat.formats.layout import LATENCY, LISTS, Layout
from karat.formats.tabular import CheckedTable, grouped_rows, is_gold, plain_title, refuse_other_system, runs_of

if TYPE_CHECKING:
    import polars as pl


class FrameRun(Run):
    """A table of hits in memory, one or more systems, in any order."""

    def __init__(
        self,
        frame: pl.DataFrame,
        label: str,
        system: str | None = None,
        source: Source | None = None,
        *,
        layout: Layout | None = None,
        named: bool = False,
        first: int = 0,
    ) -> None:
        """`named`: columns have the names that the layout gives them; `first`: rows of the file before the frame's."""
        self.label, self._frame, self._system, self._source = label, frame, system, source
        self._layout, self._named, self._first = layout or Layout(), named, first

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        frame = self._with_roles(columns)
        table = CheckedTable(frame, self.label, self._source, self._first)
        if is_gold([plain_title(c) for c in frame.columns]):
            raise InputError(
                "this looks like a gold set: it has grades, and neither ranks nor scores",
                code="swapped",
                file=self.label,
                hint=SWAPPED,
            )
        listed = self._layout.exploded(frame, self.label)
        query = table.ids(table.require("query_id"))
        if listed is not None:
            yield from self._listed(table, query, *listed, columns)
            return
        whole = _hit_columns(table, columns)
        for system, rows in self._systems(table):
            names, offsets, order = grouped_rows(*runs_of(query if rows is None else query.gather(rows)))
            if order is not None or rows is not None:
                order = rows if order is None else order if rows is None else rows[order]
                whole_rows = whole.select_rows(order, np.diff(offsets))  # type: ignore[arg-type]
                yield replace(whole_rows, system=system, queries=names, places=order[offsets[:-1]])  # type: ignore[index]
            else:
                yield replace(whole, system=system, queries=names, offsets=offsets, places=offsets[:-1])

    @property
    def can_look(self) -> bool:
        return True

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        frame = self._with_roles(columns)
        table = CheckedTable(frame, self.label, self._source, self._first)
        numbers = (table.find("score"), table.find("rank"))
        # Whether float ids are written as integers depends on the whole column, so convert before filtering.
        texts = [name for name, kind in frame.schema.items() if kind.is_float() and name not in numbers]
        query = table.ids(table.require("query_id"))
        picked = frame.with_columns(table.texts(name).alias(name) for name in texts).filter(query.is_in(queries))
        if not picked.height:
            return
        known = {} if places is None else dict(zip(queries, places.tolist(), strict=True))
        for hits in FrameRun(picked, self.label, layout=self._layout, named=True).slices(columns, Audit()):
            if hits.system == system:
                yield replace(hits, places=np.array([known[q] for q in hits.queries], np.int64) if known else None)

    def _with_roles(self, columns: frozenset[str]) -> pl.DataFrame:
        """The frame with columns renamed as the layout says."""
        if self._named or not self._layout.columns:
            return self._frame
        picked = self._layout.picked(self._frame.schema, columns, self.label)
        return self._frame.select(list(picked)).rename(picked)

    def _listed(
        self, table: CheckedTable, query: pl.Series, hits: pl.DataFrame, counts: pl.Series, columns: frozenset[str]
    ) -> Iterator[Hits]:
        """A row a query, with the list of its hits."""
        offsets = np.append(0, np.cumsum(counts.to_numpy(), dtype=np.int64))
        inner = CheckedTable(hits, self.label, None) if hits.height else None
        nothing = Hits(system="", queries=[], offsets=offsets, ids=[])
        whole = nothing if inner is None else _hit_columns(inner, columns)
        whole = replace(
            whole,
            queries=query.to_list(),
            offsets=offsets,
            latency=_latency(table, columns),
            places=np.arange(len(query)),
        )
        for system, rows in self._systems(table):
            keep = np.zeros(len(query), np.bool_)
            keep[slice(None) if rows is None else rows] = True
            part = replace(whole if rows is None else whole.select_queries(keep), system=system)
            if len(set(part.queries)) < len(part.queries):
                raise _repeated_query(part.queries, self.label)
            yield part

    def _systems(self, table: CheckedTable) -> Iterator[tuple[str, Ints | None]]:
        """Each system with its rows; None: all of them."""
        column = table.find("system")
        if column is None:
            refuse_other_system(self._system, [""], self.label)
            yield "", None
            return
        systems = table.texts(column).fill_null("")
        names = systems.unique(maintain_order=True).to_list()
        refuse_other_system(self._system, names, self.label)
        for name in names:
            if self._system in (None, name):
                yield name, None if len(names) == 1 else np.flatnonzero((systems == name).to_numpy())


def _hit_columns(table: CheckedTable, columns: frozenset[str]) -> Hits:
    """A row a hit, whatever query it belongs to."""
    item = table.find("chunk_id") or table.find("doc_id") or table.require("chunk_id")
    doc = table.find("doc_id", taken=item)
    return Hits(
        system="",
        queries=[],
        offsets=np.array([0, table.frame.height]),
        ids=table.ids(item),
        score=table.numbers(table.find("score")),
        rank=table.numbers(table.find("rank")),
        docs=None if doc is None else table.texts(doc).fill_null(""),
        columns={c: table.texts(c).to_list() for c in columns & OPTIONAL_COLUMNS & set(table.frame.columns)},
    )


def _latency(table: CheckedTable, columns: frozenset[str]) -> dict[str, Floats]:
    """Stage → ms, from a column that holds an object a query."""
    if "latency" not in columns or LATENCY not in table.frame.columns:
        return {}
    import polars as pl

    said = table.frame[LATENCY]
    if not isinstance(said.dtype, pl.Struct):
        return {}
    stages = CheckedTable(said.struct.unnest(), table.label, None)
    return {stage: ms for stage in stages.frame.columns if (ms := stages.numbers(stage)) is not None}


def _repeated_query(queries: list[str], label: str) -> InputError:
    """A table with a list a query has two for one of them."""
    twice = next(q for q, n in Counter(queries).items() if n > 1)
    return InputError(
        "two rows have a list for this query",
        code="duplicate-query",
        file=label,
        field=LISTS,
        query=twice,
        hint="keep one row a query and system; of a table of many days read one day's partition",
    )
