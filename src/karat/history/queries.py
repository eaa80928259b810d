"""Runs query by query: one run, several side by side, one query over time. Reads only the columns it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from karat.data.ids import Floats
from karat.errors import ConfigError, InputError, KaratError, UnknownName
from karat.files.decode_errors import UNFIT
from karat.files.safe_parquet import GONE, ParquetSource, UnreadableParquet
from karat.history.hits import QueryRecord
from karat.history.records import case_from, record_of
from karat.history.rows import Filter, RunRow
from karat.history.store import NotThere, Store, gone, short
from karat.results.kept_hits import WORD_SEARCHES
from karat.results.kept_run import FAILED, SCORE, TAG, VOTE
from karat.results.queries.triage import DEPTH, MISSED

if TYPE_CHECKING:
    import polars as pl

_MOST = 500
_SHOWN = ("query_id", "query", "first_rank", "missing")
_TOTAL = " total"  # not the name of any column
_MOST_NAMES = 4096
_ROUNDING = 1e-9
_KNOWN_NAMES: dict[str, list[str]] = {}  # id of a run → its columns
Order = Literal["given", "worst", "best", "changed"]


class QueryScores(msgspec.Struct, frozen=True, kw_only=True):
    """One query of one run."""

    query_id: str
    query: str | None
    first_rank: int | None  # of a relevant hit; null: none, or unknown
    missing: bool
    has_case: bool  # its hits are kept
    tags: dict[str, Any]
    scores: dict[str, float | None]


class QueryPage(msgspec.Struct, frozen=True):
    """Some queries of a run, and how many there are."""

    total: int
    rows: list[QueryScores]


class SideRow(msgspec.Struct, frozen=True, kw_only=True):
    """One query in several runs; null where a run does not have it."""

    query_id: str
    query: str | None
    values: list[float | None]
    first_ranks: list[int | None]
    delta: float | None  # last minus first


class SidePage(msgspec.Struct, frozen=True):
    """Some queries of several runs."""

    metric: str
    runs: list[str]
    total: int
    rows: list[SideRow]


class QueryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One query in one run."""

    run_id: str
    saved_at: str
    system: str
    branch: str | None
    first_rank: int | None
    missing: bool
    has_case: bool  # its hits are kept
    failed: bool | None  # nothing found in the first ten, or below its ceiling; null: unknown
    scores: dict[str, float | None]


class QueryHistory(msgspec.Struct, frozen=True):
    """One query across runs, newest first; `after`: where older runs begin."""

    query_id: str
    query: str | None
    points: list[QueryPoint]
    after: str | None


def scores_of(
    store: Store,
    run_id: str,
    *,
    metric: str | None = None,
    order: Order = "given",
    text: str = "",
    only: dict[str, str] | None = None,
    cases: bool = False,
    offset: int = 0,
    limit: int = 50,
) -> QueryPage:
    """Returns queries of one run. `metric`: for the order worst or best; `text`: in the id or query; `only`: by tag;
    `cases`: only those whose hits are kept."""
    import polars as pl

    with _scanned(store, run_id) as table:
        by = None if order == "given" else SCORE + metric if metric else _score(None, _names(run_id, table))

        def wanted(frame: pl.LazyFrame) -> pl.LazyFrame:
            if by is not None:
                frame = frame.sort(by, descending=order == "best", nulls_last=True, maintain_order=True)
            if text:
                frame = frame.filter(_holds(text))
            for name, value in (only or {}).items():
                frame = frame.filter(pl.col(TAG + name).is_in([value, msgspec.json.encode(value).decode()]))
            return frame.filter(pl.col("case").is_not_null()) if cases else frame

        # Rows and total in one read; a second read only if the page is past the end, or a name is unknown.
        shown = (*_SHOWN, pl.col("case").is_not_null(), _starting(SCORE, TAG), pl.len().alias(_TOTAL))
        try:
            found = table.collect(lambda frame: wanted(frame).select(shown).slice(max(offset, 0), _size(limit)))
        except UnreadableParquet:
            _refuse_unknown(by, only or {}, _names(run_id, table))
            raise
        counted = found if found.height else table.collect(lambda frame: wanted(frame).select(pl.len().alias(_TOTAL)))
        return QueryPage(int(counted[_TOTAL][0]), [_query(row) for row in found.iter_rows(named=True)])


def _starting(*prefixes: str) -> pl.Expr:
    """All columns whose names begin so; resolved where the file is read."""
    import polars as pl

    return pl.col(f"^(?:{'|'.join(map(re.escape, prefixes))}).*$")


def _refuse_unknown(by: str | None, only: dict[str, str], names: list[str]) -> None:
    """Raises UnknownName for a metric or a tag that the run does not have."""
    if by is not None:
        _score(by.removeprefix(SCORE), names)
    for name in only:
        if TAG + name not in names:
            raise UnknownName("tag of this run", name, [n.removeprefix(TAG) for n in names if n.startswith(TAG)])


def score_frame(
    store: Store, run_id: str, metrics: Sequence[str], *, by: str, order: Order = "given", text: str = ""
) -> pl.DataFrame:
    """All queries of a run with some scores. `by`: the metric of the order."""
    with _scanned(store, run_id) as table:
        names = _names(run_id, table)
        key = _score(by, names)
        found = table.rows([*_SHOWN, *dict.fromkeys([key, *(_score(metric, names) for metric in metrics)])])
        if order != "given":
            found = found.sort(key, descending=order == "best", nulls_last=True, maintain_order=True)
        return found.filter(_holds(text)) if text else found


def score_columns(store: Store, run_id: str, metrics: Sequence[str]) -> dict[str, Floats]:
    """The scores of all queries; not a number where a metric is undefined."""
    with _scanned(store, run_id) as table:
        try:
            rows = table.rows([SCORE + metric for metric in metrics])
        except UnreadableParquet:
            names = _names(run_id, table)
            for metric in metrics:
                _score(metric, names)  # names one that is unknown
            raise
        return {metric: rows[SCORE + metric].cast(float).to_numpy() for metric in metrics}


def columns_of(store: Store, run_id: str, metrics: Sequence[str]) -> pl.DataFrame:
    """The columns that a comparison in some metrics needs."""
    with _scanned(store, run_id) as table:
        names = _names(run_id, table)
        told = [*(_score(metric, names) for metric in metrics), *(n for n in names if n.startswith(TAG))]
        votes = [VOTE + metric for metric in metrics if VOTE + metric in names]
        return table.rows(["query_id", "query", "missing", *told, *votes])


def case_of(store: Store, run_id: str, query_id: str) -> dict[str, Any] | None:
    """A query with its gold and hits, as `karat eval triage` shows it; None if its hits were not kept."""
    record = record_of(store, run_id, query_id).record
    if record is not None and not _has_word_search(store, run_id, record):
        return _plain_case(record)
    found = _read_one(store, run_id, query_id, whole_case=True)
    with _readable(run_id):
        if found is not None and found["case"] is not None:  # with BM25's hits, if there was a corpus
            return msgspec.json.decode(found["case"])  # type: ignore[no-any-return]
    return None if record is None else _plain_case(record)


def _has_word_search(store: Store, run_id: str, record: QueryRecord) -> bool:
    """Whether BM25's hits may be in the file of the run: of very many queries, only the worst were searched."""
    many = record.bm25 is None and store.row(run_id).head.queries > WORD_SEARCHES
    return many and record.query_id in store.document(run_id).cases


def _plain_case(record: QueryRecord) -> dict[str, Any]:
    return msgspec.to_builtins(case_from(record))  # type: ignore[no-any-return]


def cases_of(store: Store, run_id: str, *, offset: int = 0, limit: int = 20) -> list[dict[str, Any]]:
    """The triage queue of a run: some of its failed queries, worst first. Earlier versions kept 100 of them."""
    import polars as pl

    start, size = max(offset, 0), _size(limit)
    with _scanned(store, run_id) as table:
        if FAILED in _names(run_id, table):
            failed = table.collect(
                lambda frame: (
                    frame.select("query_id", FAILED, "case")
                    .filter(pl.col(FAILED) > 0)
                    .sort(FAILED, descending=True, maintain_order=True)
                    .slice(start, size)
                )
            )
            wanted, texts = failed["query_id"].to_list(), dict(failed.select("query_id", "case").iter_rows())
        else:
            wanted = store.document(run_id).cases[start:][:size]
            chosen = pl.col("query_id").is_in(wanted)
            texts = dict(table.collect(lambda frame: frame.filter(chosen).select("query_id", "case")).iter_rows())
        found = [(query, texts.get(query)) for query in wanted]
        cases = [msgspec.json.decode(text) if text else _recorded(store, run_id, query) for query, text in found]
        return [case for case in cases if case is not None]


def _recorded(store: Store, run_id: str, query_id: str) -> dict[str, Any] | None:
    record = record_of(store, run_id, query_id).record
    return None if record is None else _plain_case(record)


def failed_count(store: Store, row: RunRow) -> int:
    """How many failed queries `cases_of` has."""
    with _scanned(store, row.id) as table:
        if FAILED not in _names(row.id, table):
            return row.head.cases
    told = store.document(row.id).triage or {}
    counts = [told.get(name, 0) for name in ("nothing_found", "losing")]
    return sum(count for count in counts if isinstance(count, int))


def side_by_side(
    store: Store,
    run_ids: Sequence[str],
    metric: str,
    *,
    order: Order = "changed",
    text: str = "",
    offset: int = 0,
    limit: int = 50,
) -> SidePage:
    """One metric of several runs, query by query. `changed`: largest differences first; `worst`: losses first."""
    return side_page(side_frame(store, run_ids, metric, order=order, text=text), run_ids, metric, offset, limit)


def side_page(found: pl.DataFrame, run_ids: Sequence[str], metric: str, offset: int, limit: int) -> SidePage:
    """Some rows of a `side_frame`."""
    with _readable(run_ids[0]):
        rows = found.slice(max(offset, 0), _size(limit)).iter_rows(named=True)
        return SidePage(metric, list(run_ids), found.height, [_side(row, len(run_ids)) for row in rows])


def side_frame(
    store: Store, run_ids: Sequence[str], metric: str, *, order: Order = "given", text: str = ""
) -> pl.DataFrame:
    """All queries: `query_id`, `query`, `delta` (last minus first), and `value0`, `rank0`, `value1` … of each run."""
    import polars as pl

    if not run_ids:
        raise ConfigError("no runs given", code="no-runs")
    frames = [_column(store, run_id, metric, place) for place, run_id in enumerate(run_ids)]
    with _readable(run_ids[0]):
        found = frames[0]
        for frame in frames[1:]:
            found = found.join(frame, on="query_id", how="full", coalesce=True, maintain_order="left_right")
        last = len(run_ids) - 1
        found = found.with_columns(
            pl.coalesce([f"query{i}" for i in range(len(run_ids))]).alias("query"),
            (pl.col(f"value{last}") - pl.col("value0")).alias("delta"),
        )
        if text:
            found = found.filter(_holds(text))
        if order != "given":
            key = pl.col("delta").abs() if order == "changed" else pl.col("delta")
            found = found.sort(key, descending=order != "worst", nulls_last=True, maintain_order=True)
        return found


def query_over_time(
    store: Store, query_id: str, only: Filter | None = None, *, limit: int = 20, after: str | None = None
) -> QueryHistory:
    """The rank and scores of one query over time. Skips runs that do not have it."""
    page = store.runs(only, limit=limit, after=after)
    texts: list[str] = []
    points = []
    for row in page.rows:
        try:
            found = _point(store, row.id, query_id)
        except NotThere:  # deleted since the list was read
            continue
        if found is not None:
            text, head = found.pop("query"), row.head
            texts += [text] if text else []
            points.append(
                QueryPoint(run_id=row.id, saved_at=row.saved_at, system=head.system, branch=head.branch, **found)
            )
    return QueryHistory(query_id, texts[0] if texts else None, points, page.after)


@contextmanager
def _scanned(store: Store, run_id: str) -> Iterator[ParquetSource]:
    source = store.source(run_id)
    with _readable(run_id):
        try:
            yield ParquetSource(source)
        except UnreadableParquet as error:
            if error.kind == GONE:  # deleted while it was being read
                raise gone(run_id) from None
            raise


def _names(run_id: str, table: ParquetSource) -> list[str]:
    """Columns of a run, cached: its id is a hash of its content."""
    found = _KNOWN_NAMES.get(run_id)
    if found is None:
        found = table.schema().names()
        if len(_KNOWN_NAMES) >= _MOST_NAMES:
            _KNOWN_NAMES.clear()
        _KNOWN_NAMES[run_id] = found
    return found


def _point(store: Store, run_id: str, query_id: str) -> dict[str, Any] | None:
    """The text of a query, and the fields of a QueryPoint."""
    kept = record_of(store, run_id, query_id, texts=False)
    one = kept.record
    if one is None:
        found = None if kept.kept else _read_one(store, run_id, query_id)
        return found and {"query": found["query"], **_told(found), "failed": _seems_failed(found)}
    return {
        "query": one.query,
        "first_rank": one.first_rank,
        "missing": one.missing,
        "has_case": True,
        "failed": one.kind is not None and one.kind != "nothing lost",
        "scores": one.scores,
    }


def _seems_failed(row: dict[str, Any]) -> bool | None:
    """Whether a query failed, for runs of earlier versions, which do not say it."""
    recall, rank = row.get(SCORE + MISSED), row["first_rank"]
    if SCORE + MISSED in row and recall is None:
        return False  # nothing to find
    if row["case"] or recall == 0 or (recall is None and (rank is None or rank > DEPTH)):
        return True
    orders = {k: row.get(f"{SCORE}ndcg@{k}") for k in range(1, DEPTH + 1)}
    if any(value is not None and value < 1 - _ROUNDING for value in orders.values()):
        return True  # a poor order in the first places is one in the first ten
    return None if orders[DEPTH] is None else False


def _read_one(store: Store, run_id: str, query_id: str, *, whole_case: bool = False) -> dict[str, Any] | None:
    """One query from the file of a run; `whole_case`: only its case, which is not just whether there is one."""
    import polars as pl

    case = pl.col("case")
    told = (case,) if whole_case else (*_SHOWN, case.is_not_null(), _starting(SCORE))
    with _scanned(store, run_id) as table:
        rows = table.collect(lambda frame: frame.filter(pl.col("query_id") == query_id).select(told)).to_dicts()
    return rows[0] if rows else None


def _column(store: Store, run_id: str, metric: str, place: int) -> pl.DataFrame:
    import polars as pl

    with _scanned(store, run_id) as table:
        score = _score(metric, _names(run_id, table))
        columns = {"query_id": "query_id", "query": f"query{place}", "first_rank": f"rank{place}"}
        found = table.rows([*columns, score])
        return found.select(
            *(pl.col(old).alias(new) for old, new in columns.items()), pl.col(score).alias(f"value{place}")
        )


def _holds(text: str) -> pl.Expr:
    import polars as pl

    columns = (pl.col(name).str.to_lowercase() for name in ("query_id", "query"))
    return pl.any_horizontal([column.str.contains(text.lower(), literal=True) for column in columns])


def _score(metric: str | None, names: list[str]) -> str:
    known = [name.removeprefix(SCORE) for name in names if name.startswith(SCORE)]
    if metric is None:
        raise ConfigError("this order needs a metric", code="missing-metric", hint=f"one of: {', '.join(known)}")
    if metric not in known:
        raise UnknownName("metric of this run", metric, known)
    return SCORE + metric


def _query(row: dict[str, Any]) -> QueryScores:
    tags = {n.removeprefix(TAG): msgspec.json.decode(v) for n, v in row.items() if n.startswith(TAG) and v is not None}
    return QueryScores(
        query_id=row["query_id"],
        query=row["query"],
        tags=tags,
        **_told(row),
    )


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a query that all lists show."""
    scores = {name.removeprefix(SCORE): value for name, value in row.items() if name.startswith(SCORE)}
    return {"first_rank": row["first_rank"], "missing": row["missing"], "has_case": row["case"], "scores": scores}


def _side(row: dict[str, Any], runs: int) -> SideRow:
    return SideRow(
        query_id=row["query_id"],
        query=row["query"],
        values=[row[f"value{i}"] for i in range(runs)],
        first_ranks=[row[f"rank{i}"] for i in range(runs)],
        delta=row["delta"],
    )


def _size(limit: int) -> int:
    return min(max(limit, 1), _MOST)


@contextmanager
def _readable(run_id: str) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except (UnreadableParquet, pl.exceptions.PolarsError, *UNFIT) as error:
        if isinstance(error, KaratError):
            raise
        what = f"the file of the run {short(run_id)} is damaged"
        raise InputError(what, code="damaged-run", hint="karat history check") from error
