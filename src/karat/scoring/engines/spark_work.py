"""What is sent to the workers of a cluster, what they do there, and what they send back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.data.audit import Audit, Entry
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import DocRule
from karat.errors import InputError, KaratError
from karat.formats.layout import LISTS, Layout
from karat.formats.parquet import joined, streamed, whole_queries
from karat.scoring.engines.base import Kernel, Scored, Task
from karat.scoring.engines.spark_gold import GOLD, PartOfGold, part_of_gold

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SCORES = "scored binary"  # a row a slice
_ROWS = 250_000  # hits scored at once
_LISTS = 2_500
_ARRAY = 1  # msgpack's code for an array


@dataclass(frozen=True)
class Shipped:
    """Everything but the hits."""

    task: Task
    gold: Gold | None  # None: it comes along with the hits
    label: str
    layout: Layout

    @classmethod
    def of(cls, task: Task, label: str, layout: Layout) -> Shipped:
        """Without what was worked out on the way, and without functions, which are rebuilt where they run."""
        gold = task.gold_of("")
        return cls(replace(task, gold_of=_nowhere), replace(gold), label, layout)

    def size(self) -> int:
        import pickle

        return len(pickle.dumps((self.gold, self.task.documents), 5))

    def without_gold(self) -> Shipped:
        documents = None if self.task.documents is None else _NO_GOLD
        return replace(self, gold=None, task=replace(self.task, documents=documents))

    def task_of(self, gold: Gold) -> Task:
        documents = self.task.documents
        if documents is _NO_GOLD or (documents is not None and not documents.queries):
            documents = gold.documents(DocRule(self.task.rules.doc_of))
        return replace(self.task, gold_of=lambda system: gold, documents=documents)


def _nowhere(system: str) -> Gold:
    raise AssertionError("the gold set is not here")


_NO_GOLD = Gold(
    queries=[],
    offsets=np.zeros(1, np.int64),
    items=[],
    grades=np.zeros(0),
    kinds=np.zeros(0, np.int8),
    k=np.zeros(0, np.int64),
    no_answer=np.zeros(0, np.int64),
)


def score_partition(
    shipped: Callable[[], Shipped],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs on each partition, in which the rows of a query stand together."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for packed in _packed(batches, shipped()):
            yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], ["scored"])

    return work


def _packed(batches: Iterator[pa.RecordBatch], shipped: Shipped) -> Iterator[bytes]:
    """An error is an answer as well: raised here, Spark would try it all again four times and bury it in a trace."""
    try:
        for scored in _scored(batches, shipped):
            yield pack(scored)
    except KaratError as error:
        error.file = error.file or shipped.label
        yield msgspec.msgpack.encode({"error": _told(error)})


def _told(error: KaratError) -> dict[str, str | None]:
    names = ("what", "code", "file", "field", "query", "expected", "got", "hint")
    return {name: None if (said := getattr(error, name)) is None else str(said) for name in names}


def _scored(batches: Iterator[pa.RecordBatch], shipped: Shipped) -> Iterator[Scored]:
    import polars as pl

    frames = (pl.DataFrame(pl.from_arrow(batch)) for batch in batches)
    pieces = whole_queries(_gathered(frames, shipped.label), shipped.label)
    kernel = None if shipped.gold is None else Kernel(shipped.task_of(shipped.gold))
    for _, piece in pieces:
        yield from _of_piece(piece, shipped) if kernel is None else _of_hits(piece, kernel, shipped)


def _gathered(frames: Iterable[pl.DataFrame], label: str) -> Iterator[pl.DataFrame]:
    """Frames of a good size, whatever the size of Spark's batches."""
    waiting: list[pl.DataFrame] = []
    height = 0
    for frame in frames:
        rows = _LISTS if LISTS in frame.columns else _ROWS
        for piece in frame.iter_slices(rows):
            waiting.append(piece)
            height += piece.height
            if height >= rows:
                yield joined(waiting, label)
                waiting, height = [], 0
    if waiting:
        yield joined(waiting, label)


def _slices(piece: pl.DataFrame, shipped: Shipped) -> Iterator[Hits]:
    return streamed([(0, piece)], shipped.task.columns, Audit(), shipped.label, None, shipped.layout)


def _of_hits(piece: pl.DataFrame, kernel: Kernel, shipped: Shipped) -> Iterator[Scored]:
    return map(kernel.score, _slices(piece, shipped))


def _of_piece(piece: pl.DataFrame, shipped: Shipped) -> Iterator[Scored]:
    """Hits together with the gold of their queries."""
    golden = piece[GOLD].is_not_null()
    hits = piece.filter(~golden).drop(GOLD)
    if not hits.height:
        return
    part = part_of_gold(piece.filter(golden)[GOLD].to_list())
    kernel = Kernel(shipped.task_of(part.gold))
    for slice_ in _slices(hits, shipped):
        yield _unknown(slice_) if not part.gold.queries else _placed(kernel.score(slice_), part)


def _unknown(hits: Hits) -> Scored:
    audit, none = Audit(), np.zeros(0, np.int64)
    audit.count("unknown_queries", len(hits.queries), hits.queries[:3])
    return Scored(hits.system, none, none, {}, audit=audit)


def _placed(scored: Scored, part: PartOfGold) -> Scored:
    """The same, with the places that queries and items have in the whole gold set."""
    return replace(scored, queries=part.rows[scored.queries], items=part.items[scored.items])


_STAYS = {"unknown", "odd_version"}  # examples for messages, of which the audit has its own


def pack(scored: Scored) -> bytes:
    said = {f.name: getattr(scored, f.name) for f in fields(scored) if f.name not in _STAYS}
    return msgspec.msgpack.encode({**said, "audit": list(scored.audit)}, enc_hook=_as_bytes)


def unpack(packed: bytes) -> Scored:
    """What a worker sent; numbers and texts only, so that nothing is run by reading it."""
    said: dict[str, Any] = msgspec.msgpack.decode(packed, ext_hook=_from_bytes)
    if "error" in said:
        raise InputError(**said["error"])
    audit = Audit.of(msgspec.convert(said.pop("audit"), list[Entry]))
    return Scored(**said, audit=audit)


def _as_bytes(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(_ARRAY, value.dtype.str.encode() + b"\0" + value.tobytes())
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    raise TypeError(type(value).__name__)


def _from_bytes(code: int, data: memoryview) -> Any:
    kind, _, content = bytes(data).partition(b"\0")
    return np.frombuffer(content, np.dtype(kind.decode()))
