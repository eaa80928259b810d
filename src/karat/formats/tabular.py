"""Tables, one row a hit or a judgement: CSV, TSV, Parquet, and polars, pandas or Arrow frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.audit import Audit
from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source
from karat.formats.gold_file import TARGET_FIELD, dataset_of
from karat.gold import BARE, CHUNK, DOC, Dataset, Gold, GoldBuilder
from karat.hits import OPTIONAL_COLUMNS, Hits, Run

if TYPE_CHECKING:
    import polars as pl

# What a column may be called. The first name that is there wins.
_NAMES: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "query-id", "q_id", "topic", "topic_id", "query"),
    "chunk_id": ("chunk_id", "item_id", "corpus-id", "corpus_id", "docno", "docid", "id", "passage_id"),
    "doc_id": ("doc_id", "document_id", "doc"),
    "grade": ("grade", "relevance", "rel", "label", "gain", "score"),
    "score": ("score", "sim", "similarity"),
    "rank": ("rank", "position"),
    "system": ("system", "run", "tag", "run_id"),
}
_SLICE_ROWS = 1_000_000


class TableFormat(Format):
    """CSV, TSV or Parquet with a row a hit (query_id, chunk_id, rank or score) or a judgement (…, grade)."""

    name = "table"
    kinds = frozenset({"run", "gold"})
    order = 70

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.head[:4] == b"PAR1":
            return True
        header = [
            c.strip().strip('"').lower() for c in re.split(r"[,\t;]", source.first_line.decode("utf-8", "replace"))
        ]
        return len(header) > 1 and bool(set(header) & set(_NAMES["query_id"]))

    def read_run(self, source: Source, options: Options) -> Run:
        return FrameRun(_read_table(source), source.label, options.system)

    def read_gold(self, source: Source, options: Options) -> Gold:
        frame = _read_table(source)
        return gold_from_frame(frame, source.label, dataset_of(source), options.target)


def as_frame(value: Any) -> pl.DataFrame | None:
    """`value` as a polars frame if it is a table of a known library, without importing any of them."""
    module = type(value).__module__.partition(".")[0]
    if module not in ("polars", "pandas", "pyarrow"):
        return None
    import polars as pl

    if module == "polars":
        return (
            value.collect() if isinstance(value, pl.LazyFrame) else value if isinstance(value, pl.DataFrame) else None
        )
    if module == "pandas":
        # Column by column through Python objects: needs no pyarrow, and keeps ids as they were.
        return pl.DataFrame({str(c): pl.Series(str(c), value[c].tolist(), strict=False) for c in value.columns})
    return pl.DataFrame(pl.from_arrow(value))


def _read_table(source: Source) -> pl.DataFrame:
    import polars as pl

    try:
        if source.head[:4] == b"PAR1":
            return pl.read_parquet(source.path)
        with source.open() as stream:
            text = stream.read()
        separator = max("\t,;", key=source.first_line.decode("utf-8", "replace").count)
        return pl.read_csv(text, separator=separator, infer_schema_length=0, truncate_ragged_lines=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"not a readable table: {str(error).splitlines()[0]}", file=source.label) from error


def _column(frame: pl.DataFrame, role: str, label: str, *, taken: tuple[str, ...] = ()) -> str | None:
    lower = {c.lower(): c for c in frame.columns}
    return next((lower[n] for n in _NAMES[role] if n in lower and lower[n] not in taken), None)


def _required(frame: pl.DataFrame, role: str, label: str) -> str:
    found = _column(frame, role, label)
    if found is None:
        raise InputError(
            f"no column for {role}",
            file=label,
            expected="one of " + ", ".join(_NAMES[role]),
            got=", ".join(frame.columns),
            hint="rename the column",
        )
    return found


def _texts(frame: pl.DataFrame, column: str, label: str) -> pl.Series:
    import polars as pl

    values = frame[column]
    if values.null_count():
        row = int(values.is_null().arg_true()[0])
        raise InputError("the field is empty", file=label, line=row + 2, field=column)
    if values.dtype.is_float() and bool((values == values.cast(pl.Int64, strict=False)).all()):
        values = values.cast(pl.Int64)  # pandas turns whole-number ids into floats
    return values.cast(pl.String)


def _numbers(frame: pl.DataFrame, column: str | None, label: str) -> Any:
    import polars as pl

    if column is None:
        return None
    values = frame[column]
    if values.dtype == pl.String:
        values = values.replace("", None).str.strip_chars()
    numbers = values.cast(pl.Float64, strict=False)
    finite = numbers.fill_nan(None).is_not_null() & numbers.is_finite().fill_null(value=False)
    bad = (values.is_not_null() & ~finite).arg_true()
    if len(bad):
        row = int(bad[0])
        raise InputError(
            "not usable",
            file=label,
            line=row + 2,
            field=column,
            expected="a finite number",
            got=str(values[row]),
        )
    return None if numbers.null_count() == len(numbers) else numbers.to_numpy().astype(np.float64)


class FrameRun(Run):
    """A table of hits, one or more systems."""

    def __init__(self, frame: pl.DataFrame, label: str, system: str | None = None) -> None:
        self.label, self._frame, self._system = label, frame, system

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        frame, name = self._frame, _column(self._frame, "system", self.label)
        if not frame.height:
            raise InputError("the table has no rows", file=self.label)
        if name is None:
            yield from self._of_system("", frame, columns)
            return
        for (system,), part in frame.group_by([name], maintain_order=True):
            if self._system in (None, str(system)):
                yield from self._of_system(str(system), part, columns)

    def _of_system(self, system: str, frame: pl.DataFrame, columns: frozenset[str]) -> Iterator[Hits]:
        import polars as pl

        query = _required(frame, "query_id", self.label)
        item = _column(frame, "chunk_id", self.label) or _required(frame, "doc_id", self.label)
        doc = _column(frame, "doc_id", self.label, taken=(item,))
        score = _numbers(frame, _column(frame, "score", self.label), self.label)
        rank = _numbers(frame, _column(frame, "rank", self.label), self.label)
        names = _texts(frame, query, self.label)
        codes = names.rank("dense").to_numpy() if names.is_sorted() else _codes(names)
        order = np.argsort(codes, kind="stable")
        _, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
        whole = Hits(
            system=system,
            queries=names.gather(order[starts]).to_list(),
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            ids=_texts(frame, item, self.label).gather(order),
            score=None if score is None else score[order],
            rank=None if rank is None else rank[order],
            docs=None if doc is None else frame[doc].cast(pl.String).fill_null("").gather(order),
            columns={
                c: frame[c].gather(order).to_list() for c in columns & OPTIONAL_COLUMNS & frozenset(frame.columns)
            },
        )
        yield whole


def _codes(names: pl.Series) -> Any:
    """A number for each query, in the order in which they first appear."""
    first: dict[str, int] = {}
    return np.fromiter((first.setdefault(n, len(first)) for n in names.to_list()), np.int64, len(names))


def gold_from_frame(frame: pl.DataFrame, label: str, dataset: Dataset, target: str | None = None) -> Gold:
    """A row a judgement; other columns with one value a query become tags."""
    if not frame.height:
        raise InputError("the table has no rows", file=label)
    query = _required(frame, "query_id", label)
    if target is not None and target not in frame.columns:
        raise InputError("the target column is missing", file=label, field=target, got=", ".join(frame.columns))
    item = target or _column(frame, "chunk_id", label) or _column(frame, "doc_id", label) or _target(frame)
    if item is None:
        item = _required(frame, "chunk_id", label)
    # Only a name that says so fixes what an id names; a bare "docid" may hold chunks just as well.
    kind = CHUNK if item.lower() == "chunk_id" else DOC if item.lower() == "doc_id" else BARE
    if kind == DOC and "#" in str(frame[item][0]):
        kind = BARE
    grades = _numbers(frame, _column(frame, "grade", label), label)
    names, ids = _texts(frame, query, label).to_list(), _texts(frame, item, label).to_list()
    rows: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        rows.setdefault(name, []).append(i)
    builder = GoldBuilder(label)
    tags = _tag_columns(frame, {query, item, _column(frame, "grade", label)}, rows)
    for name, at in rows.items():
        builder.add(name, [ids[i] for i in at], [1.0 if grades is None else float(grades[i]) for i in at], kind)
        for tag, values in tags.items():
            builder.say(tag, values[at[0]], tag=tag != "query")
    return builder.build(dataset)


def _target(frame: pl.DataFrame) -> str | None:
    return next((c for c in frame.columns if TARGET_FIELD.fullmatch(c)), None)


def _tag_columns(frame: pl.DataFrame, used: set[str | None], rows: dict[str, list[int]]) -> dict[str, list[Any]]:
    found = {}
    for column in frame.columns:
        if column in used or column.lower() in ("iteration", "q0"):
            continue
        values = frame[column].to_list()
        if all(values[i] == values[at[0]] for at in rows.values() for i in at):
            found[column] = values
    return found
