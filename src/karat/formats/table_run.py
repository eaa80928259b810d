"""Runs from tables: one row per hit, or one row per query with the list of its hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.hits import METADATA, OPTIONAL_COLUMNS, OTHER_TIMES, Hits, Run
from karat.data.ids import Floats, Ints
from karat.errors import InputError
from karat.formats.base import SWAPPED, Source
from karat.formats.layout import (
    LATENCY,
    LISTS,
    CheckedTable,
    Layout,
    grouped_rows,
    is_gold,
    plain_title,
    refuse_other_system,
    runs_of,
)
from karat.formats.timestamps import TIMES, OddTime, latencies, refuse_impossible, with_times

if TYPE_CHECKING:
    import polars as pl


class FrameRun(Run):
    """A table of hits in memory, one or more systems, in any order."""

    can_look = True
    score_field: str | None = None  # the file's name for scores, where they were renamed

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
        """`named`: columns have the names of the layout; `first`: rows of the file before the frame's."""
        self.label = label
        self._frame = frame
        self._system = system
        self._source = source
        self._layout, self._named, self._first = layout or Layout(), named, first

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        frame = self._with_roles(columns)
        table = CheckedTable(frame, self.label, self._source, self._first)
        if is_gold([plain_title(c) for c in frame.columns]):
            what = "this looks like a gold set: it has grades, but no ranks or scores"
            raise InputError(what, code="swapped", file=self.label, hint=SWAPPED)
        listed = self._layout.exploded(frame, self.label)
        query = table.ids(table.require("query_id"))
        if listed is not None:
            yield from self._listed(table, query, *listed, columns)
            return
        whole, times = self._hits(table, columns), _latency(table, columns, query).get("total")
        for system, rows in self._systems(table):
            names, offsets, order = grouped_rows(*runs_of(query if rows is None else query.gather(rows)))
            if order is not None or rows is not None:
                order = rows if order is None else order if rows is None else rows[order]
                whole_rows = whole.select_rows(order, np.diff(offsets))  # type: ignore[arg-type]
                first = order[offsets[:-1]]  # type: ignore[index]
                part = replace(whole_rows, system=system, queries=names, places=first)
            else:
                first = offsets[:-1]
                part = replace(whole, system=system, queries=names, offsets=offsets, places=first)
            part = replace(part, rowwise=True, scattered=order is not None and bool((np.diff(order) < 0).any()))
            yield part if times is None else _with_times(part, times if order is None else times[order])

    def may_say(self, column: str) -> bool:
        return self._layout.may_say(self._frame.schema, column)

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
        """One row per query, with the list of its hits."""
        offsets = np.append(0, np.cumsum(counts.to_numpy(), dtype=np.int64))
        inner = CheckedTable(hits, self.label, None) if hits.height else None
        nothing = Hits(system="", queries=[], offsets=offsets, ids=[])
        whole = nothing if inner is None else self._hits(inner, columns)
        whole = replace(
            whole,
            queries=query.to_list(),
            offsets=offsets,
            latency=_latency(table, columns, query),
            places=np.arange(len(query)),
        )
        for system, rows in self._systems(table):
            keep = np.zeros(len(query), np.bool_)
            keep[slice(None) if rows is None else rows] = True
            part = replace(whole if rows is None else whole.select_queries(keep), system=system)
            if len(set(part.queries)) < len(part.queries):
                twice = next(query for query, n in Counter(part.queries).items() if n > 1)
                what = "two rows have a list for this query"
                hint = "keep one row per query and system; if the table covers many days, read one day's partition"
                raise InputError(what, code="duplicate-query", file=self.label, field=LISTS, query=twice, hint=hint)
            yield part

    def _hits(self, table: CheckedTable, columns: frozenset[str]) -> Hits:
        """One row per hit, with the file's name for scores."""
        name = self.score_field or self._layout.columns.get("score") or table.find("score")
        return replace(_hit_columns(table, columns), score_field=name)

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
    """One row per hit, whatever query it belongs to."""
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
        columns=_described(table, columns),
    )


def _described(table: CheckedTable, columns: frozenset[str]) -> dict[str, list[Any]]:
    """The requested columns. If none is named `metadata`, all columns together are the metadata of a hit."""
    frame = table.frame
    found = {c: table.texts(c).to_list() for c in columns & (OPTIONAL_COLUMNS - {METADATA}) & set(frame.columns)}
    if METADATA not in columns:
        return found
    names = [METADATA] if METADATA in frame.columns else [name for name in frame.columns if name != LISTS]
    values = [frame[name].to_list() for name in names]
    rows = (
        values[0] if names == [METADATA] else [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    )
    return found | {METADATA: rows}


def _with_times(hits: Hits, times: Floats) -> Hits:
    """The time is in every row of its query. Where rows differ, the first one counts, and this is noted."""
    counts = hits.counts
    query = np.repeat(np.arange(len(counts)), counts)
    given = np.flatnonzero(~np.isnan(times))
    first, total = np.unique(query[given], return_index=True), np.full(len(counts), np.nan)
    total[first[0]] = times[given[first[1]]]
    others = given[times[given] != total[query[given]]]
    at, where = np.unique(query[others], return_index=True)
    said: list[str | None] = [None] * len(counts)
    for one, row in zip(at.tolist(), others[where].tolist(), strict=True):
        said[one] = f"{total[one]:g} ms and {times[row]:g} ms"
    return replace(
        hits, latency={"total": total}, fields={**hits.fields, OTHER_TIMES: said} if len(at) else hits.fields
    )


def _latency(table: CheckedTable, columns: frozenset[str], queries: pl.Series) -> dict[str, Floats]:
    """Stage → ms of each query: as logged, else from its timestamps."""
    if "latency" not in columns:
        return {}
    try:
        logged = _logged_latency(table)
        refuse_impossible(logged)
        return with_times(logged, _timed(table))
    except OddTime as odd:
        raise InputError(
            odd.what,
            code="bad-value",
            file=table.label,
            field=odd.field,
            query=str(queries[odd.at]),
            expected=odd.expected,
            got=odd.got,
        ) from None


def _timed(table: CheckedTable) -> dict[str, Floats]:
    frame = table.frame
    if not set(TIMES) & set(frame.columns):
        return {}
    said = (frame[name].to_list() if name in frame.columns else [None] * frame.height for name in TIMES)
    return latencies(*said)


def _logged_latency(table: CheckedTable) -> dict[str, Floats]:
    """From a column with one object per query."""
    if LATENCY not in table.frame.columns:
        return {}
    import polars as pl

    said = table.frame[LATENCY]
    if said.dtype.is_numeric() or said.dtype == pl.String:
        total = table.numbers(LATENCY, with_nan=True)
        return {} if total is None else {"total": total}
    if isinstance(said.dtype, pl.Struct):
        stages = CheckedTable(said.struct.unnest(), table.label, None)
        return {stage: ms for stage in stages.frame.columns if (ms := stages.numbers(stage)) is not None}
    said = said.to_physical()  # a Parquet map is a list of pairs
    pair = getattr(said.dtype, "inner", None)
    if not isinstance(pair, pl.Struct) or [field.name for field in pair.fields] != ["key", "value"]:
        return {}
    rows = np.repeat(np.arange(len(said)), said.list.len().fill_null(0).to_numpy())
    if not len(rows):
        return {}
    pairs = CheckedTable(said.filter(said.list.len() > 0).explode().struct.unnest(), table.label, None)
    keys, numbers, found = pairs.texts("key"), pairs.numbers("value"), dict[str, Floats]()
    for stage in keys.unique(maintain_order=True).drop_nulls().to_list() if numbers is not None else ():
        of_stage = (keys == stage).fill_null(value=False).to_numpy()
        found[stage] = np.full(len(said), np.nan)
        found[stage][rows[of_stage]] = numbers[of_stage]  # type: ignore[index]
    return found
