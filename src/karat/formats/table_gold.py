"""Gold sets out of tables: a row a judgement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.data.gold import BARE, CHUNK, DOC, Dataset, Gold, GoldBuilder
from karat.data.ids import PIECE, Floats, Ints, Packed, PackedIds
from karat.data.passages.passage import Passage
from karat.errors import InputError
from karat.formats.base import SWAPPED, Source
from karat.formats.gold_records import TARGET_FIELD
from karat.formats.table_file import ParquetColumns
from karat.formats.tabular import CheckedTable, Runs, grouped_rows, in_order, runs_of

if TYPE_CHECKING:
    import polars as pl


def gold_from_frame(
    frame: pl.DataFrame | ParquetColumns,
    label: str,
    dataset: Dataset,
    target: str | None = None,
    source: Source | None = None,
) -> Gold:
    """A row a judgement; other columns with one value a query become tags."""
    table = CheckedTable(frame, label, source)
    query = table.require("query_id")
    if target is not None and target not in frame.columns:
        raise InputError(
            "the target column is missing",
            code="missing-column",
            file=label,
            field=target,
            got=", ".join(frame.columns),
        )
    item = target or table.find("chunk_id") or table.find("doc_id") or _target(frame) or table.require("chunk_id")
    # Only a name that says so fixes what an id names; a bare "docid" may hold chunks just as well.
    kind = CHUNK if item.lower() == "chunk_id" else DOC if item.lower() == "doc_id" else BARE
    if kind == DOC and "#" in str(frame[item][0]):
        kind = BARE
    grade = table.find("grade", taken=item)
    if grade is not None and grade.lower() == "score" and table.find("rank") is not None:
        raise InputError(
            "this looks like a run: it has ranks and scores",
            code="swapped",
            file=label,
            expected="a column of grades",
            hint=SWAPPED,
        )
    runs, ids, grades = _judgements(frame, table, query, item, grade)
    names, offsets, order = grouped_rows(*runs)
    passages, told = _passages(table, item, kind)
    builder = GoldBuilder(
        label,
        queries=names,
        lines=[None] * len(names),
        counts=np.diff(offsets),
        ids=in_order(ids, order),
        grades=grades if order is None else grades[order],
        kinds=np.full(len(grades), kind, np.int8),
        passages=passages if order is None or not passages else [passages[i] for i in order.tolist()],
        k=np.zeros(len(names), np.int64),
        no_answer=np.zeros(len(names), np.int64),
    )
    for tag, values in _tag_columns(frame, {query, item, grade, *told}, offsets, order):
        builder.say_all(tag, 0, values, tag=tag != "query")
    return builder.build(dataset)


def _judgements(
    frame: pl.DataFrame | ParquetColumns, whole: CheckedTable, query: str, item: str, grade: str | None
) -> tuple[Runs, list[str] | Packed, Floats]:
    """Queries, items and grades, row by row."""
    names: list[str] = []
    sizes: list[Ints] = []
    ids, grades = PackedIds(whole.frame.height), np.ones(whole.frame.height)
    columns = list(dict.fromkeys(name for name in (query, item, grade) if name is not None))
    for first, piece in frame.pieces(columns) if isinstance(frame, ParquetColumns) else [(0, frame)]:
        table = CheckedTable(piece, whole.label, whole.source, first)
        queries, lengths = runs_of(table.ids(query))
        if names and names[-1] == queries[0]:  # it goes on in this piece
            sizes[-1][-1] += lengths[0]
            queries, lengths = queries[1:], lengths[1:]
        names += queries
        sizes += [lengths] if queries else []
        items = table.ids(item)
        for at in range(0, len(items), PIECE):
            ids.add(items[at : at + PIECE].to_list())
        if grade is not None:
            grades[first : first + piece.height] = table.numbers(grade, required=True)
    return (names, np.concatenate(sizes)), ids.ids, grades


def _passages(table: CheckedTable, item: str, kind: int) -> tuple[list[Passage | None], list[str]]:
    """Where the items stand in their documents, and the columns that say so; nothing where there is no document."""
    doc = item if kind == DOC else table.find("doc_id", taken=item)
    there = {c.strip().lower(): c for c in table.frame.columns}
    told = [there[name] for name in ("quote", "start", "end") if name in there]
    if doc is None or not told:
        return [], []
    rows = range(table.frame.height)
    docs = table.texts(doc).to_list()
    quotes: list[str | None] = table.texts(there["quote"]).to_list() if "quote" in there else [None for _ in rows]
    starts, ends = (table.wholes(there.get(name)) for name in ("start", "end"))
    found: list[Passage | None] = []
    for row in rows:
        start, end, words = starts[row], ends[row], quotes[row]
        quote = words if words and words.strip() else None
        if (start is None) != (end is None):
            lacking, hint = ("start", "end")[end is None], "start and end belong together, or leave both empty"
            raise table.error(row, lacking, "the field is empty", code="missing-value", hint=hint)
        if start is not None and end is not None and end <= start:
            raise table.error(
                row, there["end"], "bad offset", code="bad-value", expected=f"more than start ({start})", got=end
            )
        found.append(None if quote is None and start is None else Passage(docs[row], quote, start, end))
    return found, told


def _target(frame: pl.DataFrame | ParquetColumns) -> str | None:
    return next((c for c in frame.columns if TARGET_FIELD.fullmatch(c)), None)


def _tag_columns(
    frame: pl.DataFrame | ParquetColumns, used: set[str | None], offsets: Ints, order: Ints | None
) -> Iterator[tuple[str, list[Any]]]:
    """Columns that say one thing of each query."""
    import polars as pl

    first = offsets[:-1]
    for column in frame.columns:
        if column in used or column.lower() in ("iteration", "q0"):
            continue
        values = frame[column]
        kind = values.dtype
        if kind.is_nested() or kind in (pl.Binary, pl.Object) or (kind.is_float() and values.is_nan().any()):
            continue
        values = values if order is None else values.gather(order)
        if values.eq_missing(values.gather(np.repeat(first, np.diff(offsets)))).all():
            yield column, values.gather(first).to_list()
