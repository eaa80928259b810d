"""Tables, one row a hit or a judgement: CSV, TSV, Parquet, and polars, pandas or Arrow frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from karat.audit import Audit
from karat.errors import InputError
from karat.formats.base import SWAPPED, Format, Kind, Options, Source
from karat.formats.gold_file import TARGET_FIELD, dataset_of
from karat.formats.layout import LATENCY, LISTS, NAMES, Layout, find_column
from karat.gold import BARE, CHUNK, DOC, Dataset, Gold, GoldBuilder
from karat.hits import OPTIONAL_COLUMNS, Hits, Run
from karat.ids import PIECE, Floats, Ints, Packed, PackedIds, Seen, take_list
from karat.passages import Passage

if TYPE_CHECKING:
    import polars as pl


_ROWS = 1 << 14  # of judgements at a time


class TableFormat(Format):
    """CSV, TSV or Parquet with a row a hit (query_id, chunk_id, rank or score) or a judgement (…, grade)."""

    name = "table"
    kinds = frozenset({"run", "gold"})
    takes_target = True
    order = 70

    def recognises(self, source: Source, kind: Kind) -> bool:
        header = _header(source)
        if header is None:
            return True  # for the reader to say what is wrong with it
        other = _is_gold(header) if kind == "run" else _is_run(header)
        return len(header) > 1 and _has("query_id", header) and not other

    def read_run(self, source: Source, options: Options) -> Run:
        return FrameRun(_read_table(source), source.label, options.system, source, layout=options.layout)

    def read_gold(self, source: Source, options: Options) -> Gold:
        frame = _Columns(source) if source.head[:4] == b"PAR1" else _read_table(source)
        return gold_from_frame(frame, source.label, dataset_of(source), options.target, source)


def _header(source: Source) -> list[str] | None:
    """The names of the columns; None for a Parquet file that does not say."""
    if source.head[:4] != b"PAR1":
        return [_plain(c) for c in re.split(r"[,\t;]", source.first_line.decode("utf-8", "replace"))]
    import polars as pl

    try:
        return [_plain(c) for c in pl.read_parquet_schema(source.path)]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None


def _plain(title: str) -> str:
    return title.strip().strip('"').lower()


def _has(role: str, header: list[str]) -> bool:
    return not set(NAMES[role]).isdisjoint(header)


def _is_gold(header: list[str]) -> bool:
    """Grades, and nothing that puts hits in order."""
    return _has("grade", header) and not _has("score", header) and not _has("rank", header)


def _is_run(header: list[str]) -> bool:
    """Ranks and scores, and no grades: `score` alone may be either."""
    graded = _has("grade", [name for name in header if name != "score"])
    return _has("rank", header) and _has("score", header) and not graded


def columns_hint(source: Source, *kinds: Kind) -> str | None:
    """What a text that looks like a table lacks."""
    header = _header(source) or []
    if len(header) < 2 or source.looks_like_json or not all(re.fullmatch(r"[\w .-]{1,40}", c) for c in header):
        return None
    last = {"run": "rank or score for a run", "gold": "grade for a gold set"}
    needs = f"a table needs the columns query_id, chunk_id (or doc_id) and {', '.join(last[kind] for kind in kinds)}"
    return needs + "; --run-columns says which they are where they have other names" * ("run" in kinds)


def columns_of(source: Source) -> str | None:
    """The columns of a Parquet file, whose first line says nothing to anybody."""
    return ", ".join(_header(source) or ["Parquet"]) if source.head[:4] == b"PAR1" else None


def as_frame(value: Any) -> pl.DataFrame | None:
    """`value` as a polars frame if it is a table of a known library, without importing any of them."""
    module = type(value).__module__.partition(".")[0]
    if module not in ("polars", "pandas", "pyarrow"):
        return None
    import polars as pl

    try:
        if module == "pyarrow":
            return pl.DataFrame(pl.from_arrow(value))
        if module == "pandas":
            return _from_pandas(value) if hasattr(value, "columns") else None
        value = value.collect() if isinstance(value, pl.LazyFrame) else value
        return value if isinstance(value, pl.DataFrame) else None
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError, OSError) as error:
        raise _unreadable(error, None) from error


def _from_pandas(value: Any) -> pl.DataFrame:
    """Column by column through Python objects: needs no pyarrow, and keeps ids as they were."""
    import polars as pl

    columns: dict[str, pl.Series] = {}
    for at, name in enumerate(map(str, value.columns)):
        if name in columns:
            raise InputError("two columns have this name", field=name, hint="rename or remove one of them")
        column = value.iloc[:, at]
        if not isinstance(column.dtype, np.dtype) or column.dtype.kind == "O":  # None, NaN and NA: it is missing
            column = column.astype(object).where(column.notna(), None)
        columns[name] = pl.Series(name, column.tolist(), strict=False)
    return pl.DataFrame(columns)


class _Columns:
    """A Parquet file of which some rows, or one column, are in memory at a time."""

    def __init__(self, source: Source) -> None:
        import polars as pl

        self._source = source
        self._lazy = pl.scan_parquet(source.path, hive_partitioning=False, glob=False)
        schema: pl.Schema = self._look(self._lazy.collect_schema)
        self.columns, self._schema = schema.names(), schema
        self.height: int = self._look(lambda: self._lazy.select(pl.len()).collect().item())

    def __getitem__(self, name: str) -> pl.Series:
        column: pl.Series = self._look(lambda: self._lazy.select(name).collect().to_series())
        return column

    def pieces(self, names: list[str]) -> Iterator[tuple[int, pl.DataFrame]]:
        """Rows of some columns, each piece with the number of its first. Numbers that are ids are seen as a whole."""
        numbered = any(self._schema[name].is_float() for name in names)
        size = self.height if numbered else _ROWS
        for at in range(0, self.height, max(size, 1)):
            yield at, self._piece(names, at, size)

    def _piece(self, names: list[str], at: int, size: int) -> pl.DataFrame:
        piece: pl.DataFrame = self._look(lambda: self._lazy.select(names).slice(at, size).collect())
        return piece

    def _look(self, look: Callable[[], Any]) -> Any:
        import polars as pl

        try:
            return look()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise _unreadable(error, self._source.label) from error


def _read_table(source: Source) -> pl.DataFrame:
    import polars as pl

    try:
        if source.head[:4] == b"PAR1":
            return pl.read_parquet(source.path)
        with source.open() as stream:
            text = stream.read().lstrip(b"\r\n")
        frame = pl.read_csv(text, separator=_separator(source), infer_schema_length=0, truncate_ragged_lines=False)
        return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError, OSError) as error:
        raise _bad_line(source) or _unreadable(error, source.label) from error


def _unreadable(error: BaseException, label: str | None) -> InputError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return InputError(f"not a readable table: {reason}", file=label)


def _separator(source: Source) -> str:
    return max("\t,;", key=source.first_line.decode("utf-8", "replace").count)


def _records(source: Source) -> Iterator[tuple[int, bytes]]:
    """(line, text) of the header and of every row that is not blank; a row ends where no quote is open."""
    blank = _separator(source).encode()
    first, record, quotes = 1, [b""], 0
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            record.append(raw)
            quotes += raw.count(b'"')
            if quotes % 2 == 0:
                text = b"".join(record).strip(b"\r\n")
                if text.strip(blank):
                    yield first, text
                first, record, quotes = line + 1, [], 0
    if record:
        yield first, b"".join(record)


def _bad_line(source: Source) -> InputError | None:
    """The first line of a text table that is no row of it; polars says only that there is one."""
    if source.head[:4] == b"PAR1":
        return None
    columns = 0
    for line, record in _records(source):
        fields = re.sub(rb'("[^"]*")+', b'""', record).split(_separator(source).encode())
        columns = columns or len(fields)
        reason = _why_bad(record, fields, columns)
        if reason:
            return InputError(f"not a row of a table: {reason}", file=source.label, line=line)
    return None


def _why_bad(record: bytes, fields: list[bytes], columns: int) -> str | None:
    """`fields`: those of the record, where \"\" stands for all that was in quotes."""
    try:
        record.decode()
    except UnicodeDecodeError:
        return "the line is not UTF-8 text"
    if record.count(b'"') % 2:
        return "a quote is never closed"
    if any(field.startswith(b'""') and field != b'""' for field in fields):
        return "something follows a closing quote"
    return f"{len(fields)} fields, the header has {columns}" if len(fields) > columns else None


def refuse_other_system(wanted: str | None, there: Iterable[str], label: str) -> None:
    """Whoever asks for one system by name must not be given another."""
    names = set(there)
    if wanted is not None and wanted not in names:
        raise InputError(
            f"no system {wanted!r} in the run",
            file=label,
            hint="it has: " + ", ".join(sorted(name or "(unnamed)" for name in names)),
        )


class _Table:
    """Columns by what they are for, checked; errors name the column and the row."""

    def __init__(self, frame: pl.DataFrame | _Columns, label: str, source: Source | None, first: int = 0) -> None:
        self.frame, self.label, self.source, self._first = frame, label, source, first
        if not frame.height:
            raise InputError("the table has no rows", file=label)

    def find(self, role: str, *, taken: str | None = None) -> str | None:
        return find_column((c for c in self.frame.columns if c != taken), role)

    def require(self, role: str) -> str:
        found = self.find(role)
        if found is None:
            raise InputError(
                f"no column for {role}",
                file=self.label,
                expected="one of " + ", ".join(NAMES[role]),
                got=", ".join(self.frame.columns),
                hint="rename the column",
            )
        return found

    def ids(self, column: str) -> pl.Series:
        values = self.texts(column)
        self._refuse_empty(values, column)
        return values

    def texts(self, column: str) -> pl.Series:
        """The column as text, null where it is empty."""
        import polars as pl

        values = self.frame[column]
        kind = values.dtype
        if not (kind.is_numeric() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Date, pl.Datetime)):
            raise self._wrong_type(column, "text or numbers")
        if kind.is_float():
            values = values.fill_nan(None)
            whole = values.cast(pl.Int64, strict=False)
            if values.eq_missing(whole.cast(kind)).all():  # pandas turns whole-number ids into floats
                values = whole
        return values.cast(pl.String)

    def numbers(self, column: str | None, *, required: bool = False) -> Floats | None:
        """The column as finite numbers, NaN where it is empty; None if all of it is."""
        import polars as pl

        if column is None:
            return None
        values = self.frame[column]
        if values.dtype in (pl.String, pl.Categorical, pl.Enum):
            values = values.cast(pl.String).str.strip_chars().replace("", None)
        elif not (values.dtype.is_numeric() or values.dtype == pl.Null):
            raise self._wrong_type(column, "numbers")
        numbers = values.cast(pl.Float64, strict=False)
        bad = (values.is_not_null() & ~numbers.is_finite().fill_null(value=False)).arg_true()
        if len(bad):
            row = int(bad[0])
            raise self.error(row, column, "not usable", expected="a finite number", got=str(values[row]))
        if required:
            self._refuse_empty(values, column)
        return None if numbers.null_count() == len(numbers) else numbers.to_numpy().astype(np.float64)

    def wholes(self, column: str | None) -> list[int | None]:
        """The column as whole numbers from 0 on, None where it is empty."""
        numbers = self.numbers(column)
        if numbers is None or column is None:
            return [None] * self.frame.height
        bad = np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)) & ~np.isnan(numbers))
        if len(bad):
            got = float(numbers[bad[0]])
            raise self.error(int(bad[0]), column, "bad offset", expected="a whole number, 0 or more", got=f"{got:g}")
        return [None if n != n else int(n) for n in numbers.tolist()]  # only NaN differs from itself

    def _refuse_empty(self, values: pl.Series, column: str) -> None:
        if values.null_count():
            raise self.error(int(values.is_null().arg_true()[0]), column, "the field is empty")

    def _wrong_type(self, column: str, expected: str) -> InputError:
        got = str(self.frame[column].dtype)
        return InputError("wrong type of column", file=self.label, field=column, expected=expected, got=got)

    def error(self, row: int, column: str, what: str, **more: Any) -> InputError:
        return InputError(what, file=self.label, line=self._line(row), field=column, **more)

    def _line(self, row: int) -> int | None:
        """The line of a row in its file; without lines to count, the number of the row."""
        if self.source is None or self.source.head[:4] == b"PAR1":
            return self._first + row + 1
        return next((line for at, (line, _) in enumerate(_records(self.source)) if at == row + 1), None)


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

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        frame = self._frame
        if self._layout.columns and not self._named:
            picked = self._layout.picked(frame.schema, columns, self.label)
            frame = frame.select(list(picked)).rename(picked)
        table = _Table(frame, self.label, self._source, self._first)
        if _is_gold([_plain(c) for c in frame.columns]):
            raise InputError(
                "this looks like a gold set: it has grades, and neither ranks nor scores",
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
            names, offsets, order = grouped_rows(*_runs(query if rows is None else query.gather(rows)))
            if order is not None or rows is not None:
                order = rows if order is None else order if rows is None else rows[order]
                whole_rows = whole.select_rows(order, np.diff(offsets))  # type: ignore[arg-type]
                yield replace(whole_rows, system=system, queries=names)
            else:
                yield replace(whole, system=system, queries=names, offsets=offsets)

    def _listed(
        self, table: _Table, query: pl.Series, hits: pl.DataFrame, counts: pl.Series, columns: frozenset[str]
    ) -> Iterator[Hits]:
        """A row a query, with the list of its hits."""
        offsets = np.append(0, np.cumsum(counts.to_numpy(), dtype=np.int64))
        inner = _Table(hits, self.label, None) if hits.height else None
        nothing = Hits(system="", queries=[], offsets=offsets, ids=[])
        whole = nothing if inner is None else _hit_columns(inner, columns)
        whole = replace(whole, queries=query.to_list(), offsets=offsets, latency=_latency(table, columns))
        for system, rows in self._systems(table):
            keep = np.zeros(len(query), np.bool_)
            keep[slice(None) if rows is None else rows] = True
            part = replace(whole if rows is None else whole.select_queries(keep), system=system)
            if len(set(part.queries)) < len(part.queries):
                raise repeated_query(part.queries, system, self.label)
            yield part

    def _systems(self, table: _Table) -> Iterator[tuple[str, Ints | None]]:
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


def _hit_columns(table: _Table, columns: frozenset[str]) -> Hits:
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


def _latency(table: _Table, columns: frozenset[str]) -> dict[str, Floats]:
    """Stage → ms, from a column that holds an object a query."""
    if "latency" not in columns or LATENCY not in table.frame.columns:
        return {}
    import polars as pl

    said = table.frame[LATENCY]
    if not isinstance(said.dtype, pl.Struct):
        return {}
    stages = _Table(said.struct.unnest(), table.label, None)
    return {stage: ms for stage in stages.frame.columns if (ms := stages.numbers(stage)) is not None}


def repeated_query(queries: list[str], system: str, label: str) -> InputError:
    """A table with a list a query has two for one of them."""
    twice = next(q for q, n in Counter(queries).items() if n > 1)
    return InputError(
        "two rows have a list for this query",
        file=label,
        field=LISTS,
        query=twice,
        hint="keep one row a query and system; of a table of many days read one day's partition",
    )


Groups: TypeAlias = tuple[list[str], Ints, "Ints | None"]  # names, where their rows begin, and the order of the rows


def grouped_rows(found: list[str], sizes: Ints) -> Groups:
    """Names in the order in which they first appear, where the rows of each begin once they stand together, and the
    order that brings them together: None where they stand so already."""
    if not Seen().add(found):
        return found, np.append(0, np.cumsum(sizes)), None
    first: dict[str, int] = {}
    of_run = np.fromiter((first.setdefault(n, len(first)) for n in found), np.int64, len(found))
    codes = np.repeat(of_run, sizes)
    counts = np.bincount(codes)
    scattered = (codes[1:] < codes[:-1]).any()
    return list(first), np.append(0, np.cumsum(counts)), np.argsort(codes, kind="stable") if scattered else None


def gold_from_frame(
    frame: pl.DataFrame | _Columns,
    label: str,
    dataset: Dataset,
    target: str | None = None,
    source: Source | None = None,
) -> Gold:
    """A row a judgement; other columns with one value a query become tags."""
    table = _Table(frame, label, source)
    query = table.require("query_id")
    if target is not None and target not in frame.columns:
        raise InputError("the target column is missing", file=label, field=target, got=", ".join(frame.columns))
    item = target or table.find("chunk_id") or table.find("doc_id") or _target(frame) or table.require("chunk_id")
    # Only a name that says so fixes what an id names; a bare "docid" may hold chunks just as well.
    kind = CHUNK if item.lower() == "chunk_id" else DOC if item.lower() == "doc_id" else BARE
    if kind == DOC and "#" in str(frame[item][0]):
        kind = BARE
    grade = table.find("grade", taken=item)
    if grade is not None and grade.lower() == "score" and table.find("rank") is not None:
        raise InputError(
            "this looks like a run: it has ranks and scores", file=label, expected="a column of grades", hint=SWAPPED
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


_Runs: TypeAlias = tuple[list[str], Ints]  # names in a row, and how many rows each of them has


def _judgements(
    frame: pl.DataFrame | _Columns, whole: _Table, query: str, item: str, grade: str | None
) -> tuple[_Runs, list[str] | Packed, Floats]:
    """Queries, items and grades, row by row."""
    names: list[str] = []
    sizes: list[Ints] = []
    ids, grades = PackedIds(whole.frame.height), np.ones(whole.frame.height)
    columns = list(dict.fromkeys(name for name in (query, item, grade) if name is not None))
    for first, piece in frame.pieces(columns) if isinstance(frame, _Columns) else [(0, frame)]:
        table = _Table(piece, whole.label, whole.source, first)
        queries, lengths = _runs(table.ids(query))
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


def in_order(ids: list[str] | Packed, order: Ints | None) -> list[str] | Packed:
    return ids if order is None else ids[order] if isinstance(ids, np.ndarray) else take_list(ids, order)


def _runs(names: pl.Series) -> _Runs:
    runs = names.rle().struct.unnest()
    return runs["value"].to_list(), runs["len"].to_numpy().astype(np.int64)


def _passages(table: _Table, item: str, kind: int) -> tuple[list[Passage | None], list[str]]:
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
            raise table.error(row, lacking, "the field is empty", hint=hint)
        if start is not None and end is not None and end <= start:
            raise table.error(row, there["end"], "bad offset", expected=f"more than start ({start})", got=end)
        found.append(None if quote is None and start is None else Passage(docs[row], quote, start, end))
    return found, told


def _target(frame: pl.DataFrame | _Columns) -> str | None:
    return next((c for c in frame.columns if TARGET_FIELD.fullmatch(c)), None)


def _tag_columns(
    frame: pl.DataFrame | _Columns, used: set[str | None], offsets: Ints, order: Ints | None
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
