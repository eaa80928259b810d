"""Gold sets from tables: one row per judgement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from karat.data.audit import Audit
from karat.data.gold import BARE, CHUNK, DOC, Dataset, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.ids import Bools, Floats, Ints, Packed
from karat.data.packed_ids import PIECE, PackedIds, pack
from karat.data.passages.passage import Passage
from karat.errors import InputError
from karat.files.parquet_file import Unusual
from karat.formats.base import SWAPPED, Source
from karat.formats.gold_records import TARGET_FIELD
from karat.formats.layout import CheckedTable, Runs, grouped_rows, in_order, runs_of
from karat.formats.parquet_rows import QueryRows, joined_rows
from karat.formats.table_file import ParquetColumns, read_table

if TYPE_CHECKING:
    import polars as pl


# Data of a query that are not tags.
_LISTS = ("negatives", "entities")
_FIELDS = ("query", "source", *_LISTS)
_BETWEEN = re.compile(r"[|;,\n]")  # what people write between two ids in one cell
MOST_MIXED = 0.1  # share of the queries that may have several values of a tag
_MOST_CELLS = 1_000  # looked at for several ids


def gold_from_frame(
    frame: pl.DataFrame | ParquetColumns,
    label: str,
    dataset: Dataset,
    target: str | None = None,
    source: Source | None = None,
) -> Gold:
    """One row per judgement; other columns with one value per query become tags. Where few queries have several values,
    these queries have none."""
    told = {name.strip().lower(): name for name in frame.columns}
    if "no_answer" in told and isinstance(frame, ParquetColumns) and source is not None:
        frame = read_table(source)
    table = CheckedTable(frame, label, source)
    query = table.require("query_id", "gold")
    if target is not None and target not in frame.columns:
        there = ", ".join(frame.columns)
        raise InputError("the target column is missing", code="missing-column", file=label, field=target, got=there)
    item = (
        target or table.find("chunk_id") or table.find("doc_id") or _target(frame) or table.require("chunk_id", "gold")
    )
    # Only an explicit name fixes the kind of an id; a bare "docid" may hold chunks as well.
    kind = CHUNK if item.lower() == "chunk_id" else DOC if item.lower() == "doc_id" else BARE
    if kind == DOC and "#" in str(frame[item][0]):
        kind = BARE
    grade = table.find("grade", taken=item)
    if grade is not None and grade.lower() == "score" and table.find("rank") is not None:
        what, expected = "this looks like a run: it has ranks and scores", "a column of grades"
        raise InputError(what, code="swapped", file=label, expected=expected, hint=SWAPPED)
    bare = None
    if "no_answer" in told and not isinstance(frame, ParquetColumns):
        frame, bare = _without_items(frame, table, told["no_answer"], item, grade)
        table = CheckedTable(frame, label, source)
    if not isinstance(frame, ParquetColumns):
        _refuse_several(table, item)
    runs, ids, grades = _judgements(frame, table, query, item, grade)
    if bare is not None:
        grades[bare] = 0
    names, offsets, order = grouped_rows(*runs)
    passages, places = _passages(table, item, kind)
    said = _QueryFacts(table, {query, item, grade, *places}, names, offsets, order)
    grades = grades if order is None else grades[order]
    answerless, counts, items = said.answerless(grades), np.diff(offsets), in_order(ids, order)
    passages = passages if order is None or not passages else [passages[i] for i in order.tolist()]
    if bare is not None:
        kept = np.flatnonzero(~(bare if order is None else bare[order]))
        counts = np.bincount(np.repeat(np.arange(len(names)), counts)[kept], minlength=len(names))
        items, grades = in_order(items, kept), grades[kept]
        passages = [passages[i] for i in kept.tolist()] if passages else passages
    builder = GoldBuilder(
        label,
        queries=names,
        lines=[None] * len(names),
        counts=counts,
        ids=items,
        grades=grades,
        kinds=np.full(len(grades), kind, np.int8),
        ungraded=np.full(len(grades), True) if grade is None else [],
        passages=passages,
        k=said.cutoffs(),
        no_answer=answerless,
    )
    for name, values in said.others():
        builder.say_all(name, 0, values, tag=name not in _FIELDS)
    try:
        gold = builder.build(dataset)
        gold.audit.merge(said.audit)
        return replace(gold, mixed=said.mixed)
    except InputError as error:  # it names a query, not a row
        if error.line is None and error.query in names:
            error.line = said.line_of(names.index(error.query))
        raise


def _refuse_several(table: CheckedTable, item: str) -> None:
    """Refuse a cell such as `a; b` if other cells have `a` and `b`: it would be one item that no run can return."""
    cells = table.texts(item)
    rows = cells.str.contains(_BETWEEN.pattern).fill_null(False).arg_true().to_list()[:_MOST_CELLS]
    known = set(cells.unique().to_list()) if rows else set()
    for row in rows:
        parts = [part.strip(" '\"") for part in _BETWEEN.split(cells[row].strip(" []"))]
        if len(parts) > 1 and known.issuperset(parts):
            some = ", ".join(f'"{part}"' for part in parts[:2]) + ", …" * (len(parts) > 2)
            hint = f'write one row per item, or JSONL with lists: {{"query_id": …, "gold": [{some}]}}'
            raise table.error(row, item, "several ids in one cell", code="several-ids", got=cells[row], hint=hint)


def _without_items(
    frame: pl.DataFrame, table: CheckedTable, said: str, item: str, grade: str | None
) -> tuple[pl.DataFrame, Bools | None]:
    """Rows that only mark a query as having no answer, filled so that they can be read, and which rows they are."""
    import polars as pl

    empty = table.texts(item).str.strip_chars().fill_null("") == ""
    bare = table.truths(said) & empty.to_numpy()
    if not bare.any():
        return frame, None
    rows = pl.Series(bare)
    filled = [pl.when(rows).then(pl.lit("-")).otherwise(table.texts(item)).alias(item)]
    if grade is not None:
        kind = frame.schema[grade]
        filled.append(pl.when(rows).then(pl.lit(0).cast(kind)).otherwise(pl.col(grade)).alias(grade))
    return frame.with_columns(filled), bare


def _judgements(
    frame: pl.DataFrame | ParquetColumns, whole: CheckedTable, query: str, item: str, grade: str | None
) -> tuple[Runs, list[str] | Packed, Floats]:
    """Queries, items and grades, row by row."""
    numbers = [] if grade is None else [grade]
    rows = frame.query_rows(query, item, numbers) if isinstance(frame, ParquetColumns) else None
    try:
        found = [] if rows is None else list(rows)
    except Unusual:
        found = []
    if found:
        return _judged_rows(joined_rows(found))
    names: list[str] = []
    sizes: list[Ints] = []
    ids, grades = PackedIds(whole.frame.height), np.ones(whole.frame.height)
    columns = list(dict.fromkeys(name for name in (query, item, grade) if name is not None))
    for first, piece in frame.pieces(columns) if isinstance(frame, ParquetColumns) else [(0, frame)]:
        table = CheckedTable(piece, whole.label, whole.source, first)
        queries, lengths = runs_of(table.ids(query))
        if names and names[-1] == queries[0]:  # it continues in this piece
            sizes[-1][-1] += lengths[0]
            queries, lengths = queries[1:], lengths[1:]
        names += queries
        sizes += [lengths] if queries else []
        items = table.ids(item)
        for at in range(0, len(items), PIECE):
            some = items[at : at + PIECE].to_list()
            if "\0" in "".join(some):
                ids.add(some)
            else:
                ids.add_packed(pack(some))
        if grade is not None:
            grades[first : first + piece.height] = table.numbers(grade, required=True)
    return (names, np.concatenate(sizes)), ids.ids, grades


def _judged_rows(rows: QueryRows) -> tuple[Runs, list[str] | Packed, Floats]:
    ids = PackedIds(len(rows.ids))
    ids.add_packed(rows.ids)
    return (rows.queries, rows.counts), ids.ids, rows.numbers[0] if rows.numbers else np.ones(len(rows.ids))


def _passages(table: CheckedTable, item: str, kind: int) -> tuple[list[Passage | None], list[str]]:
    """Where the items are in their documents, and the columns with that data; empty where there is no document."""
    doc = item if kind == DOC else table.find("doc_id", taken=item)
    there = {c.strip().lower(): c for c in table.frame.columns}
    told = [there[name] for name in ("quote", "start", "end") if name in there]
    if doc is None or not told:
        return [], []
    docs, quotes = table.texts(doc).to_list(), [None] * table.frame.height
    if "quote" in there:
        quotes = table.texts(there["quote"]).to_list()
    columns = (docs, quotes, *(table.wholes(there.get(name)) for name in ("start", "end")))
    found: list[Passage | None] = []
    for row, (named, words, start, end) in enumerate(zip(*columns, strict=True)):
        quote = words if words and words.strip() else None
        if (start is None) != (end is None):
            lacking, hint = ("start", "end")[end is None], "give both start and end, or leave both empty"
            raise table.error(row, lacking, "the field is empty", code="missing-value", hint=hint)
        if start is not None and end is not None and end <= start:
            expected = f"more than start ({start})"
            raise table.error(row, there["end"], "invalid offset", code="bad-value", expected=expected, got=end)
        found.append(None if quote is None and start is None else Passage(named, quote, start, end))
    return found, told


def _target(frame: pl.DataFrame | ParquetColumns) -> str | None:
    return next((c for c in frame.columns if TARGET_FIELD.fullmatch(c)), None)


class _QueryFacts:
    """Columns with one value per query."""

    def __init__(
        self, table: CheckedTable, used: set[str | None], queries: list[str], offsets: Ints, order: Ints | None
    ) -> None:
        """`used`: columns with other data."""
        self._table, self._queries, self._first, self._order = table, queries, offsets[:-1], order
        self._of_row = np.repeat(np.arange(len(queries)), np.diff(offsets))
        self._columns = [column for column in table.frame.columns if column not in used]
        self._there = {column.strip().lower(): column for column in reversed(self._columns)}
        self.audit = Audit()
        self.mixed: dict[str, str] = {}  # columns with several values for many queries → an example

    def cutoffs(self) -> Ints | list[int]:
        """`k` of each query, 0 where it has none; empty where no query has one."""
        column = self._there.get("k")
        numbers = self._table.numbers(column, with_nan=True)
        if column is None or numbers is None:
            return []
        bad = np.flatnonzero(~np.isnan(numbers) & ((numbers < 1) | (numbers != np.floor(numbers)) | (numbers > 2**53)))
        if len(bad):
            row, got = int(bad[0]), f"{float(numbers[bad[0]]):g}"
            expected = "a whole number, 1 or more"
            raise self._table.error(row, column, "invalid cutoff", code="bad-value", expected=expected, got=got)
        return self._one_each(np.nan_to_num(numbers), column)

    def answerless(self, grades: Floats) -> Ints | list[int]:
        """Which queries have no answer; empty where no column says so. `grades`: of the rows in their order."""
        column = self._there.get("no_answer")
        if column is None:
            return []
        said = self._one_each(self._table.truths(column), column)
        wrong = np.flatnonzero((said[self._of_row] > 0) & (grades > 0))
        if len(wrong):
            what, query = "no_answer and relevant gold contradict each other", self._queries[self._of_row[wrong[0]]]
            hint = "remove one of them (grade 0 is fine)"
            raise self._table.error(self._row(wrong[0]), column, what, code="contradiction", query=query, hint=hint)
        return said

    def line_of(self, query: int) -> int | None:
        """The line of its first row."""
        return self._table.line(self._row(self._first[query]))

    def _row(self, at: Any) -> int:
        """The row of the table at position `at` in the order of queries."""
        return int(at if self._order is None else self._order[at])

    def _one_each(self, values: NDArray[Any], column: str) -> Ints:
        """The value of each query, which must be the same in all of its rows."""
        values = values if self._order is None else values[self._order]
        of_query = values[self._first]
        other = np.flatnonzero(of_query[self._of_row] != values)
        if len(other):
            what, query = "the value differs from the first row of this query", self._queries[self._of_row[other[0]]]
            hint = "use the same value in every row of a query"
            raise self._table.error(self._row(other[0]), column, what, code="contradiction", query=query, hint=hint)
        return of_query.astype(np.int64)

    def others(self) -> Iterator[tuple[str, list[Any]]]:
        """Every other column with one value per query, or one list of them. Queries with several have none."""
        known = ("k", "no_answer", "iteration", "q0")
        for column in (name for name in self._columns if name.strip().lower() not in known):
            import polars as pl

            values = self._table.frame[column]
            kind = values.dtype
            listed = isinstance(kind, (pl.List, pl.Array)) and not getattr(kind, "inner", kind).is_nested()
            if (
                (kind.is_nested() and not listed)
                or kind in (pl.Binary, pl.Object)
                or (kind.is_float() and values.is_nan().any())
            ):
                continue
            values = values if self._order is None else values.gather(self._order)
            first = values.gather(self._first)
            repeated = first.gather(self._of_row)
            differs = _unequal(values, repeated) if listed else values.ne_missing(repeated).to_numpy()
            found = first.to_list()
            if differs.any():
                unclear = np.unique(self._of_row[differs]).tolist()
                if not self._is_of_queries(column, unclear, found, values, differs):
                    continue
                for at in unclear:
                    found[at] = None
            single = not listed and column in _LISTS
            yield column, [None if v is None else [v] for v in found] if single else found

    def _is_of_queries(
        self, column: str, unclear: list[int], found: list[Any], values: pl.Series, differs: Bools
    ) -> bool:
        """Whether few queries have several values. Otherwise the column is about the items, and no tag."""
        at = int(np.flatnonzero(differs)[0])
        query = self._of_row[at]
        pair = " and ".join("nothing" if v is None else repr(v) for v in (found[query], values[at]))
        example = f"{column} of {self._queries[query]}: {pair}"
        few = len(unclear) <= MOST_MIXED * len(self._queries)
        self.audit.count("mixed_values" if few else "mixed_columns", len(unclear) if few else 1, [example])
        if not few:
            self.mixed[column] = example
        return few


def _unequal(values: pl.Series, others: pl.Series) -> Bools:
    """Which lists differ."""
    return np.array([one != other for one, other in zip(values.to_list(), others.to_list(), strict=True)], np.bool_)
