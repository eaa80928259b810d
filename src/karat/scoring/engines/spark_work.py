"""The work that is sent to the workers of a cluster, and the results that they send back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit, Entry
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import DocRule, Ints, as_list
from karat.errors import InputError, KaratError
from karat.formats.layout import LISTS, Layout
from karat.formats.parquet import joined, streamed, whole_queries
from karat.formats.run_log import RunLog
from karat.scoring.doubts import SeenScores
from karat.scoring.metrics.forbidden import RuleUse
from karat.scoring.name_watch import SeenNames
from karat.scoring.one_pass import Golds, Kernel, Part, PassRequest
from karat.scoring.table import TablePart
from karat.scoring.unjudged import OpenPart
from karat.scoring.views import View
from karat.statistics.rank_overlap import Rankings

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

PARTS = "part binary"  # one row per slice
LINE = "value"  # the column of a file that Spark reads line by line
_ROWS = 250_000  # hits judged at once
_LISTS = 2_500
_LINES = 5_000
_ARRAY = 1  # msgpack's code for an array
GOLD = "_gold"
_STEP = 100_000


class _Row(msgspec.Struct, array_like=True):
    """One query of a gold set, and its position there."""

    row: int
    query: str
    items: list[str]
    grades: list[float]
    kinds: list[int]
    k: int
    no_answer: int
    fields: dict[str, Any]
    tags: dict[str, Any]


def gold_rows(gold: Gold) -> Iterator[pa.Table]:
    """All queries, some at a time."""
    import pyarrow as pa

    for start in range(0, len(gold.queries), _STEP):
        rows = range(start, min(start + _STEP, len(gold.queries)))
        packed = [msgspec.msgpack.encode(_row(gold, row)) for row in rows]
        yield pa.table({"query_id": gold.queries[rows.start : rows.stop], GOLD: pa.array(packed, pa.binary())})


def _row(gold: Gold, row: int) -> _Row:
    first, end = int(gold.offsets[row]), int(gold.offsets[row + 1])
    return _Row(
        row,
        gold.queries[row],
        as_list(gold.items[first:end]),
        gold.grades[first:end].tolist(),
        gold.kinds[first:end].tolist(),
        int(gold.k[row]),
        int(gold.no_answer[row]),
        {name: values[row] for name, values in gold.fields.items()},
        {name: values[row] for name, values in gold.tags.items()},
    )


def part_of_gold(packed: list[bytes]) -> tuple[Gold, Ints]:
    """Some queries of a gold set, and their positions there."""
    rows = [msgspec.msgpack.decode(row, type=_Row) for row in packed]
    gold = Gold(
        queries=[row.query for row in rows],
        offsets=np.cumsum([0, *(len(row.items) for row in rows)]),
        items=[item for row in rows for item in row.items],
        grades=np.array([grade for row in rows for grade in row.grades], np.float64),
        kinds=np.array([kind for row in rows for kind in row.kinds], np.int8),
        k=np.array([row.k for row in rows], np.int64),
        no_answer=np.array([row.no_answer for row in rows], np.int64),
        fields={name: [row.fields[name] for row in rows] for name in (rows[0].fields if rows else ())},
        tags={name: [row.tags[name] for row in rows] for name in (rows[0].tags if rows else ())},
    )
    return gold, np.array([row.row for row in rows], np.int64)


class Shipped(msgspec.Struct, frozen=True):
    """Everything except the hits."""

    request: PassRequest
    golds: Golds | None  # None: the gold set comes with the hits
    label: str
    layout: Layout
    system: str | None = None

    @classmethod
    def of(cls, request: PassRequest, golds: Golds, label: str, layout: Layout, system: str | None) -> Shipped:
        """Without cached data."""
        sets = {key: replace(gold) for key, gold in golds.sets.items()}
        return cls(request, Golds(replace(golds.gold), sets), label, layout, system)

    def size(self) -> int:
        import pickle

        assert self.golds is not None
        return len(pickle.dumps(self.golds, 5))

    def without_gold(self) -> Shipped:
        # With a part of the gold set, it is unknown which names of the whole set were returned.
        return replace(self, golds=None, request=replace(self.request, returned=False))

    def golds_of(self, gold: Gold) -> Golds:
        documents = any(view.level == "doc" for view in self.request.views)
        sets = {("doc", "gold"): gold.documents(DocRule(self.request.rules.doc_of))} if documents else {}
        return Golds(gold, {("chunk", "gold"): gold, **sets})  # type: ignore[dict-item]


def judge_partition(
    shipped: Callable[[], Shipped],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs on each partition, in which the rows of a query are together."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for packed in _packed(batches, shipped()):
            yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], ["part"])

    return work


def _packed(batches: Iterator[pa.RecordBatch], shipped: Shipped) -> Iterator[bytes]:
    """Return errors as results: if raised here, Spark would retry four times and bury them in a trace."""
    try:
        for part in _parts(batches, shipped):
            yield pack(part)
    except KaratError as error:
        error.file = error.file or shipped.label
        yield msgspec.msgpack.encode({"error": _told(error)})


def _told(error: KaratError) -> dict[str, str | None]:
    names = ("what", "code", "file", "field", "query", "expected", "got", "hint")
    return {name: None if (said := getattr(error, name)) is None else str(said) for name in names}


def _parts(batches: Iterator[pa.RecordBatch], shipped: Shipped) -> Iterator[Part]:
    import polars as pl

    frames = (pl.DataFrame(pl.from_arrow(batch)) for batch in batches)
    kernel = None if shipped.golds is None else Kernel(shipped.request, shipped.golds)
    for frame in _gathered(frames, shipped.label):
        if LINE in frame.columns:
            assert kernel is not None
            yield from _of_lines(frame[LINE].to_list(), kernel, shipped)
            continue
        for _, piece in whole_queries([frame], shipped.label):
            yield from _of_piece(piece, shipped) if kernel is None else map(kernel.score, _slices(piece, shipped))


def _of_lines(lines: list[str | None], kernel: Kernel, shipped: Shipped) -> Iterator[Part]:
    """Lines of a run log, each one a whole query."""
    records = [line.encode() for line in lines if line and not line.isspace()]
    if not records:
        return
    request, log = shipped.request, RunLog(shipped.label, records)
    for hits in log.slices(request.columns, Audit(), request.other_lists):
        if shipped.system in (None, hits.system):
            yield kernel.score(hits)
    yield Part("", {}, {}, notes=log.notes())


def _gathered(frames: Iterable[pl.DataFrame], label: str) -> Iterator[pl.DataFrame]:
    """Frames of a suitable size, whatever the size of Spark's batches."""
    waiting: list[pl.DataFrame] = []
    height = 0
    for frame in frames:
        rows = _LINES if LINE in frame.columns else _LISTS if LISTS in frame.columns else _ROWS
        for piece in frame.iter_slices(rows):
            waiting.append(piece)
            height += piece.height
            if height >= rows:
                yield joined(waiting, label)
                waiting, height = [], 0
    if waiting:
        yield joined(waiting, label)


def _slices(piece: pl.DataFrame, shipped: Shipped) -> Iterator[Hits]:
    return streamed([(0, piece)], shipped.request.columns, Audit(), shipped.label, None, shipped.layout)


def _of_piece(piece: pl.DataFrame, shipped: Shipped) -> Iterator[Part]:
    """Hits together with the gold of their queries."""
    golden = piece[GOLD].is_not_null()
    hits = piece.filter(~golden).drop(GOLD)
    if not hits.height:
        return
    gold, rows = part_of_gold(piece.filter(golden)[GOLD].to_list())
    kernel = Kernel(shipped.request, shipped.golds_of(gold))
    for slice_ in _slices(hits, shipped):
        yield _unknown(slice_, shipped.request) if not gold.queries else _placed(kernel.score(slice_), rows)


def _unknown(hits: Hits, request: PassRequest) -> Part:
    audit, none = Audit(), np.zeros(0, np.int64)
    audit.count("unknown_queries", len(hits.queries), hits.queries[:3])
    return Part(hits.system, {request.own: TablePart(none, none, none, none, none)}, {request.own: audit})


def _placed(part: Part, rows: Ints) -> Part:
    """The same, with the positions of queries in the whole gold set."""
    tables = {
        view: replace(table, queries=rows[table.queries], query=rows[table.query])
        for view, table in part.tables.items()
    }
    opened = {level: replace(found, query=rows[found.query]) for level, found in part.opened.items()}
    return replace(part, tables=tables, opened=opened)


_BY_VIEW = ("tables", "audits", "values", "votes")
_STAYS = {"unknown", "odd_version", "places"}  # examples for messages, and positions in files of the worker


def pack(part: Part) -> bytes:
    said = {name: value for name, value in _columns(part).items() if name not in (*_STAYS, *_BY_VIEW, "lists")}
    views = [
        (view, _columns(table), list(part.audits[view]), part.values.get(view, {}), part.votes.get(view, {}))
        for view, table in part.tables.items()
    ]
    lists = None if part.lists is None else {**_columns(part.lists), "ids": as_list(part.lists.ids)}
    if lists is not None and part.lists is not None and part.lists.docs is not None:
        lists["docs"] = as_list(part.lists.docs)
    return msgspec.msgpack.encode({**said, "views": views, "lists": lists}, enc_hook=_as_bytes)


def _columns(thing: Any) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in thing.__struct_fields__}


def unpack(packed: bytes) -> Part:
    """The result of a worker; only numbers and text, so that reading it runs no code."""
    said: dict[str, Any] = msgspec.msgpack.decode(packed, ext_hook=_from_bytes)
    if "error" in said:
        raise InputError(**said["error"])
    views, lists, hashes = said.pop("views"), said.pop("lists"), said.pop("hashes")
    opened, returned = said.pop("opened"), said.pop("returned")
    names, slopes, tops, used = (said.pop(name) for name in ("names", "slopes", "tops", "rule_use"))
    part = Part(tables={}, audits={}, **said)
    for plain, table, audit, values, votes in views:
        view = msgspec.convert(plain, View)
        part.tables[view] = TablePart(**table)
        part.audits[view] = Audit.of(msgspec.convert(audit, list[Entry]))
        part.values[view], part.votes[view] = values, votes
    rows = len(next(iter(part.tables.values())).queries) if part.tables else 0
    return replace(
        part,
        opened={level: OpenPart(**found) for level, found in opened.items()},
        returned=None if returned is None else (returned[0], returned[1], returned[2]),
        lists=None if lists is None else Hits(**lists),
        hashes=None if hashes is None else hashes.reshape(rows, -1),
        tops=None if tops is None else Rankings(tops[0].reshape(rows, -1), tops[1].reshape(rows, -1), tops[2]),
        names=msgspec.convert(names, SeenNames | None),
        slopes=msgspec.convert(slopes, SeenScores | None),
        rule_use=msgspec.convert(used, RuleUse),
    )


def _as_bytes(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(_ARRAY, value.dtype.str.encode() + b"\0" + value.tobytes())
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    raise TypeError(type(value).__name__)


def _from_bytes(code: int, data: memoryview) -> Any:
    kind, _, content = bytes(data).partition(b"\0")
    return np.frombuffer(content, np.dtype(kind.decode()))
