"""The stored form of a run: one document and one row per query, in one Parquet file."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from karat.data.ids import Ints
from karat.errors import InputError, KaratError
from karat.errors.redaction import redact_all, redact_texts
from karat.files.decode_errors import DECODE_ERRORS, UNFIT
from karat.files.safe_parquet import ParquetSource, UnreadableParquet
from karat.results.saved import SavedResult, scores_by_query
from karat.results.summary import nullable
from karat.results.tables_form import SavedTables, from_hexadecimal, hexadecimal

if TYPE_CHECKING:
    import polars as pl

    from karat.results.kept_hits import KeptHits

SCORE, VOTE, TAG = "score/", "vote/", "tag/"
PREFIX = "tables/"  # of columns from which the run can be measured again
FAILED = PREFIX + "failed"  # column of a history: the shortfall of each query (`queries/triage.py`)
DOCUMENT = "document"  # the column with the document in its first row
_PLACES = ("karat", "run", "gold")  # version and file names, which are not part of the content
# Already covered by the dataset's hash and the scores.
_FIRST = "karat/result/1"
_TOLD_BY_THE_REST = ("wrong_hits_judged", "tables")
_COLUMNS = ("query_id", "query", "missing", "first_rank", "case")
_GROUP = 20_000  # rows that are read together; a page of queries reads one group


class RunDocument(msgspec.Struct, kw_only=True):
    """Everything except the values per query, which are in the rows."""

    schema: Literal["karat/run/1"] = "karat/run/1"
    result: SavedResult  # without scores, queries, attributes and votes
    triage: dict[str, Any] | None = None  # as `karat eval triage` saves it, without the cases
    cases: list[str] = []  # queries with a case, worst first
    sweep: dict[str, Any] | None = None  # as `karat eval sweep` saves it
    sections: list[Any] = []  # of the report page, except triage and sweep; fast for any number of queries


class KeptRun(msgspec.Struct, frozen=True, dict=True):
    """A stored run. Rows: query_id, query, missing, first_rank, case, score/…, vote/…, tag/…

    `text`: the document as written. The id is computed from it, not from the struct: later versions add fields, and the
    id of an older run must not change.
    """

    text: bytes
    rows: pl.DataFrame
    hits: KeptHits | None = None  # of every query, not part of the file

    @classmethod
    def of(cls, document: RunDocument, rows: pl.DataFrame, hits: KeptHits | None = None) -> KeptRun:
        return cls(msgspec.json.encode(document), rows, hits)

    @cached_property
    def document(self) -> RunDocument:
        return read_document(self.text, "a kept run")

    @cached_property
    def id(self) -> str:
        """Hash of the content: the same scores of the same system by the same code are one run, wherever its files
        are."""
        found = hashlib.sha256(msgspec.json.encode(_content(self.text), order="deterministic"))
        for name in sorted(name for name in self.rows.columns if not name.startswith(PREFIX)):
            found.update(name.encode())
            found.update(msgspec.json.encode(self.rows[name].to_list()))
        return found.hexdigest()

    def to_parquet(self) -> bytes:
        import polars as pl

        column = pl.Series(DOCUMENT, [self.text.decode(), *[None] * (self.rows.height - 1)], dtype=pl.String)
        buffer = io.BytesIO()
        self.rows.with_columns(column).write_parquet(buffer, compression="zstd", row_group_size=_GROUP)
        return buffer.getvalue()

    def saved(self) -> SavedResult:
        """The complete saved form of the result."""
        with fitting():
            scores = {name: self.rows[SCORE + name].to_list() for name in columns_named(self.rows, SCORE)}
            return msgspec.structs.replace(
                self.without_scores(), scores=scores_by_query(self.rows["query_id"].to_list(), scores)
            )

    def without_scores(self, *, arrays: bool = False) -> SavedResult:
        """The saved form without scores, of which there may be very many. A run stored by Karat 0.1 has no tables.

        `arrays`: numbers in tables are arrays instead of lists, to be restored, not written.
        """
        rows, saved = self.rows, self.document.result
        return msgspec.structs.replace(
            saved,
            queries=dict(zip(rows["query_id"].to_list(), rows["query"].to_list(), strict=True)),
            attributes={name: decoded(rows[TAG + name].to_list()) for name in columns_named(rows, TAG)},
            votes={name: rows[VOTE + name].to_list() for name in columns_named(rows, VOTE)},
            tables=None if saved.tables is None else from_frame(saved.tables, rows, arrays=arrays),
        )

    def cases(self) -> list[Any]:
        """The cases of the triage, worst first."""
        with fitting():
            found = self.rows.filter(self.rows["case"].is_not_null())
            texts = dict(zip(found["query_id"].to_list(), found["case"].to_list(), strict=True))
            return [msgspec.json.decode(texts[query]) for query in self.document.cases if query in texts]


def keep(
    saved: SavedResult,
    *,
    first_ranks: list[int | None] | None = None,
    triage: dict[str, Any] | None = None,
    sweep: dict[str, Any] | None = None,
    sections: Sequence[Any] = (),
    hits: KeptHits | None = None,
) -> KeptRun:
    """Make the stored form of a run. `first_ranks`: rank of the first relevant hit of each query."""
    import polars as pl

    cases = {} if triage is None else {case["query_id"]: case for case in triage["cases"]}
    missing = set(saved.missing)
    texts = [_json(cases.get(query)) for query in saved.scores]
    columns = {
        "query_id": pl.Series(list(saved.scores), dtype=pl.String),
        "query": pl.Series(redact_texts(list(saved.queries.values())), dtype=pl.String),
        "missing": pl.Series([q in missing for q in saved.scores], dtype=pl.Boolean),
        "first_rank": pl.Series(first_ranks or [None] * len(saved.scores), dtype=pl.Int64),
        "case": pl.Series(redact_texts(texts), dtype=pl.String),
        **{
            SCORE + name: pl.Series([scores[name] for scores in saved.scores.values()], dtype=pl.Float64)
            for name in next(iter(saved.scores.values()), {})
        },
        **{VOTE + name: pl.Series(votes, dtype=pl.Float64) for name, votes in saved.votes.items()},
        **{
            TAG + name: pl.Series(redact_texts(list(map(_json, values))), dtype=pl.String)
            for name, values in saved.attributes.items()
        },
    }
    if hits is not None:
        columns[FAILED] = pl.Series(nullable(hits.failed), dtype=pl.Float64)
    outlined = None
    if saved.tables is not None:
        columns |= columns_of(saved.tables, len(saved.scores))
        outlined = outline(saved.tables)
    told = msgspec.structs.replace(saved, scores={}, queries={}, attributes={}, votes={}, tables=outlined)
    document = RunDocument(
        result=redact_all(told),
        triage=None if triage is None else redact_all({**triage, "cases": []}),
        cases=list(cases),
        sweep=redact_all(sweep),
        sections=redact_all(list(sections)),
    )
    return KeptRun.of(document, pl.DataFrame(columns), hits)


@contextmanager
def fitting(label: str | None = None) -> Iterator[None]:
    """Turn errors about parts that do not fit together into one InputError: anyone can edit the file."""
    import polars as pl

    try:
        yield
    except (*UNFIT, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if isinstance(error, KaratError):
            raise
        what, hint = "the parts of a saved result do not fit together", "save it again: karat eval … -o result.json"
        raise InputError(what, code="damaged-result", file=label, hint=hint) from error


def read_kept(source: bytes | Path, label: str, *, most: int | None = None) -> KeptRun:
    """Read a run from its Parquet file. Raises if it is not complete. `most`: maximum size when unpacked, in bytes."""
    import polars as pl

    what, hint = "not a run saved by Karat", "the file is truncated or damaged"
    try:
        rows = ParquetSource(source, most=most).rows()
        text = rows[DOCUMENT][0]
    except UnreadableParquet as error:
        raise error.as_error(what, code="damaged-run", label=label, hint=hint) from error
    except (pl.exceptions.PolarsError, IndexError) as error:
        raise InputError(what, code="damaged-run", file=label, hint=hint) from error
    if not isinstance(text, str):
        raise InputError(what, code="damaged-run", file=label, hint=hint)
    document = read_document(text, label)
    measured = (SCORE + row.metric for row in document.result.summary)
    if not {*_COLUMNS, *measured} <= set(rows.columns):
        raise InputError("the parts of a saved run do not fit together", code="damaged-run", file=label)
    return KeptRun(text.encode(), rows.drop(DOCUMENT))


def read_document(text: str | bytes | None, label: str) -> RunDocument:
    try:
        return msgspec.json.decode(text or b"", type=RunDocument)
    except DECODE_ERRORS as error:
        raise InputError(f"not a run saved by Karat: {error}", code="damaged-run", file=label) from error


def _content(text: bytes) -> dict[str, Any]:
    """The document without parts that may differ for the same run."""
    plain: dict[str, Any] = msgspec.json.decode(text)
    plain.pop("sections", None)  # derived from the rest
    plain["result"]["schema"] = _FIRST  # the id must not depend on the version of the file format
    for part in ("result", "triage", "sweep"):
        if plain.get(part) is not None:
            left_out = (*_PLACES, *_TOLD_BY_THE_REST)
            plain[part] = {name: value for name, value in plain[part].items() if name not in left_out}
    return plain


def columns_named(rows: pl.DataFrame, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in rows.columns if name.startswith(prefix)]


def decoded(texts: list[str | None]) -> list[Any]:
    """Decode the values of a tag, few of which differ."""
    known = {text: None if text is None else msgspec.json.decode(text) for text in set(texts)}
    return [known[text] for text in texts]


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value, order="deterministic").decode()


def _kinds() -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of a gold set and of a view that become columns of values, lists, or flags."""
    import polars as pl

    marks, lists = pl.Boolean, pl.List(pl.Int64)
    of_gold = {
        "items": pl.List(pl.String),
        "grades": pl.List(pl.Float64),
        "kinds": pl.List(pl.Int8),
        "in_corpus": lists,
    }
    return of_gold, {"depth": pl.Int64, "absent": marks, "rank": lists, "item": lists, "by_document": marks}


def columns_of(tables: SavedTables, size: int) -> dict[str, pl.Series]:
    """Columns for everything with a value, or a list of values, per query."""
    import polars as pl

    of_gold, of_view = _kinds()
    found: dict[str, pl.Series] = {}
    if tables.k:
        found["k"] = pl.Series(tables.k, dtype=pl.Int64)
    if tables.no_answer:
        found["no_answer"] = _column(tables.no_answer, pl.Boolean, range(size))
    for name, hashes in tables.hashes.items():
        found[f"hash/{name}"] = pl.Series(from_hexadecimal(hashes))
    for at, gold in enumerate(tables.golds):
        for name, kind in of_gold.items():
            if (values := getattr(gold, name)) is not None:
                found[f"gold/{at}/{name}"] = _column(values, kind, gold.counts)
    for at, view in enumerate(tables.views):
        for name, kind in of_view.items():
            if (values := getattr(view, name)) is not None:
                found[f"view/{at}/{name}"] = _column(values, kind, view.counts)
        for group in ("columns", "votes"):
            for name, scores in getattr(view, group).items():
                found[f"view/{at}/{group}/{name}"] = pl.Series(scores, dtype=pl.Float64)
    return {PREFIX + name: column for name, column in found.items()}


def _column(values: Sequence[Any], kind: Any, counts: Sequence[int]) -> pl.Series:
    """`counts`: how many of the values each query has, for lists."""
    import polars as pl

    if kind == pl.Boolean:
        marked = set(values)
        values = [row in marked for row in range(len(counts))]
    elif isinstance(kind, pl.List):
        return _lists(pl.Series("list", values, dtype=kind.inner), np.array(counts, np.int64))
    return pl.Series(values, dtype=kind)


def _lists(values: pl.Series, counts: Ints) -> pl.Series:
    """The values as lists of these lengths, without a Python object per list."""
    import polars as pl

    filled = pl.DataFrame([pl.Series("row", np.repeat(np.arange(len(counts)), counts)), values])
    lists = filled.group_by("row", maintain_order=True).agg("list")
    every = pl.DataFrame({"row": np.arange(len(counts))}).join(lists, on="row", how="left", maintain_order="left")
    return every["list"].fill_null(pl.Series([[]], dtype=every["list"].dtype))


def _values(column: pl.Series, arrays: bool) -> Any:
    """The inverse of `_column`; with `arrays`, numbers as an array."""
    import polars as pl

    if column.dtype == pl.Boolean:
        return column.arg_true().to_list()
    if isinstance(column.dtype, pl.List):
        column = column.filter(column.list.len() > 0).explode()
    return column.to_numpy() if arrays and column.dtype.is_numeric() else column.to_list()


def outline(tables: SavedTables) -> SavedTables:
    """The rest of saved tables when their columns are in a frame."""
    of_gold, of_view = _kinds()
    golds, views = [], []
    for gold in tables.golds:
        without: dict[str, Any] = {name: [] for name in of_gold if getattr(gold, name) is not None}
        golds.append(msgspec.structs.replace(gold, counts=[], **without))
    for view in tables.views:
        emptied: dict[str, Any] = {name: [] for name in of_view if getattr(view, name) is not None}
        scores: dict[str, Any] = {group: {n: [] for n in getattr(view, group)} for group in ("columns", "votes")}
        views.append(msgspec.structs.replace(view, counts=[], **emptied, **scores))
    return SavedTables(golds=golds, views=views, hashes={key: [] for key in tables.hashes})


def from_frame(outlined: SavedTables, rows: pl.DataFrame, *, arrays: bool) -> SavedTables:
    """The tables from their outline and columns."""
    of_gold, of_view = _kinds()

    def values(name: str) -> Any:
        return _values(rows[PREFIX + name], arrays) if PREFIX + name in rows.columns else []

    def counts(name: str) -> Any:
        return _values(rows[PREFIX + name].list.len(), arrays)

    golds, views = [], []
    for at, gold in enumerate(outlined.golds):
        parts = {name: values(f"gold/{at}/{name}") for name in of_gold if getattr(gold, name) is not None}
        golds.append(msgspec.structs.replace(gold, counts=counts(f"gold/{at}/items"), **parts))
    for at, view in enumerate(outlined.views):
        one = f"view/{at}/"
        parts = {name: values(one + name) for name in of_view if getattr(view, name) is not None}
        scores = {
            group: {name: values(f"{one}{group}/{name}") for name in getattr(view, group)}
            for group in ("columns", "votes")
        }
        views.append(msgspec.structs.replace(view, counts=counts(one + "rank"), **parts, **scores))
    hashes: dict[str, Any] = {name: rows[f"{PREFIX}hash/{name}"].to_numpy() for name in outlined.hashes}
    return SavedTables(
        golds=golds,
        views=views,
        k=values("k"),
        no_answer=values("no_answer"),
        hashes={name: column if arrays else hexadecimal(column) for name, column in hashes.items()},
    )
