"""Wrappers for runs that cannot be read from the middle: the first pass keeps what later steps need.

Data goes to an unnamed temporary file that disappears with the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from karat.data.audit import Audit
from karat.data.hits import OPTIONAL_COLUMNS, Hits, NoLists, Run, ScoreMeaning
from karat.data.ids import Ints, as_list, compact, size_of
from karat.errors import InputError

_WHOLE = 4  # lists up to this many times the depth are kept whole
_IN_MEMORY = 64 << 20  # bytes of ids and texts that a held run keeps in memory
_TEXT = 56  # overhead of a Python string, in bytes
_SIZE = 8  # bytes of the length before each slice
# What is stored of a slice: all but latency and fields of its queries, and the block it was read from.
_OF_HITS = (
    *("system", "queries", "offsets", "ids", "score", "rank", "docs", "columns", "lines", "places", "others"),
    *("turned", "rowwise", "scattered", "score_field"),
)


class Spilling(Run):
    """Keeps the first hits of every query while a run is read, and serves `look` from them.

    Columns that the pass did not read need another read of the whole run.
    """

    can_look = True

    def __init__(self, run: Run, depth: int, scores: ScoreMeaning | None = None) -> None:
        """`scores`: their meaning, which decides what the first hits are; None: as the hits say."""
        self._run, self._depth, self._scores = run, depth, scores
        self.label: str = run.label
        self.threaded: bool = run.threaded
        self._kept: _SliceFile | None = None  # by the last pass
        self._columns = frozenset[str]()  # read by the last pass

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        kept = self._kept = _SliceFile()
        self._columns = columns
        for hits in self._run.slices(columns, audit, lists):
            if self._scores is not None:
                hits = hits.with_scores(self._scores)
            place = kept.add(replace(_first_hits(hits, self._depth), others={}, places=None))
            yield _at_place(hits, place)

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        file = self._kept
        if file is None or not columns & OPTIONAL_COLUMNS <= self._columns:
            yield from self._run.look(system, queries, None, columns)
            return
        wanted = set(queries)
        for place in file.places if places is None else np.unique(places).tolist():
            hits = file.read(place)
            found = hits.select_named(wanted) if hits.system == system else None
            if found is not None:
                yield _at_place(found, place)

    def grouped(self) -> Run:
        return Spilling(self._run.grouped(), self._depth, self._scores)

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()


class HeldRun(Run):
    """Reads a run once, on first use, and yields the same slices on every later call.

    `columns` and `lists` should cover all later requests: a request for more reads the run again.
    """

    can_look = True

    def __init__(self, run: Run, columns: frozenset[str], lists: frozenset[str] = frozenset()) -> None:
        self._run, self._columns, self._lists = run, columns, lists
        self.label: str = run.label
        self.threaded: bool = run.threaded
        self._held: list[_HeldSlice] | None = None
        self._audit = Audit()  # filled by the pass

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        if self._held is None or not (columns <= self._columns and lists <= self._lists):
            slices = self._read(columns, lists, audit)
        else:
            audit.merge(self._audit)
            slices = (held.hits() for held in self._held)
        for hits in slices:
            asked = {name: values for name, values in hits.columns.items() if name in columns}
            yield replace(hits, columns=asked, others={n: other for n, other in hits.others.items() if n in lists})

    def _read(self, columns: frozenset[str], lists: frozenset[str], audit: Audit) -> Iterator[Hits]:
        """Read the run and keep its slices once it was read to the end."""
        columns, lists, found = self._columns | columns, self._lists | lists, Audit()
        held, size, file = list[_HeldSlice](), 0, None
        for hits in self._run.slices(columns, found, lists):
            size += _size(hits)
            file = file or (_SliceFile() if size > _IN_MEMORY else None)
            held.append(_HeldSlice.of(hits, file))
            yield hits
        self._columns, self._lists, self._held, self._audit = columns, lists, held, found
        audit.merge(found)

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        if self._held is None or not columns <= self._columns:
            for _ in self.slices(columns, Audit()):
                pass
        wanted = set(queries)
        for held in self._held or ():
            if held.shell.system == system and not wanted.isdisjoint(held.shell.queries):
                found = held.hits().select_named(wanted)
                assert found is not None
                yield replace(found, others={})

    def lists(self, name: str) -> Run:
        return _HeldLists(self, name)

    def grouped(self) -> Run:
        return HeldRun(self._run.grouped(), self._columns, self._lists)

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()


class _HeldLists(Run):
    """Other lists of a held run."""

    def __init__(self, held: HeldRun, name: str) -> None:
        self._held, self._name = held, name
        self.label = held.label

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        there = False
        for hits in self._held.slices(columns, audit, frozenset({self._name})):
            if self._name in hits.others:
                there = True
                yield hits.others[self._name]
        if not there:
            raise NoLists(self._name)

    def grouped(self) -> Run:
        return self._held.grouped().lists(self._name)


class _HeldSlice(msgspec.Struct, frozen=True):
    """A slice in memory, or with its hits in a file. Latency and fields of queries always stay in memory."""

    shell: Hits
    file: _SliceFile | None = None
    place: int = 0

    @classmethod
    def of(cls, hits: Hits, file: _SliceFile | None) -> _HeldSlice:
        hits = replace(hits, written=None)  # a block of the file, much larger than its hits
        if file is None:
            return cls(hits)
        shell = replace(hits, ids=[], score=None, rank=None, docs=None, columns={}, others={})
        return cls(shell, file, file.add(hits))

    def hits(self) -> Hits:
        if self.file is None:
            return self.shell
        shell = self.shell
        return replace(self.file.read(self.place), latency=shell.latency, fields=shell.fields, counted=shell.counted)


def _at_place(hits: Hits, place: int) -> Hits:
    """Set the place in the temporary file for all queries of a slice."""
    return replace(hits, places=np.full(len(hits.queries), place))


def _size(hits: Hits) -> int:
    """Approximate bytes of ids, numbers and texts in memory."""
    size = 16 * len(hits.ids) + size_of(hits.ids) + (0 if hits.docs is None else size_of(hits.docs))
    for values in hits.columns.values():
        size += sum(len(value) + _TEXT if isinstance(value, str) else _SIZE for value in values)
    return size + sum(map(_size, hits.others.values()))


def _first_hits(hits: Hits, depth: int) -> Hits:
    """Cut long lists to their first hits, ordered as in scoring (rank, else score, else position). Ties are kept."""
    depth = max(depth, 1)
    counts = hits.counts
    long = np.flatnonzero(counts > _WHOLE * depth)
    if not len(long):
        return hits
    keep = np.ones(len(hits.ids), np.bool_)
    for start, end in zip(hits.offsets[long].tolist(), hits.offsets[long + 1].tolist(), strict=True):
        key = _order_key(hits, start, end)
        last = key[depth - 1] if (key[1:] >= key[:-1]).all() else np.partition(key, depth - 1)[depth - 1]
        keep[start:end] = key <= last
    return hits.select_rows(np.flatnonzero(keep))


def _order_key(hits: Hits, start: int, end: int) -> NDArray[np.floating[Any]]:
    """The sort key of a query's hits, lowest first."""
    if hits.rank is not None and not np.isnan(rank := hits.rank[start:end]).any():
        return rank
    if hits.score is not None and not np.isnan(score := hits.score[start:end]).any():
        with np.errstate(over="ignore"):
            return -score.astype(np.float32)  # the coarsest comparison keeps enough for the finest
    return np.arange(start, end, dtype=np.float64)


def _stored(value: Any) -> Any:
    """A slice, or a part of one, in the form of msgpack: its kind and its content."""
    if isinstance(value, Hits):
        return "hits", {name: _stored(getattr(value, name)) for name in _OF_HITS}
    if isinstance(value, dict):
        return "dict", {name: _stored(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, (str, bool)) or value is None:
        return "plain", value
    return "series" if hasattr(value, "estimated_size") else "list", _encoded(as_list(value))


def _restored(kind: str, content: Any) -> Any:
    if kind == "hits":
        return Hits(**{name: _restored(*inner) for name, inner in content.items()})
    if kind == "dict":
        return {name: _restored(*inner) for name, inner in content.items()}
    if kind == "plain":
        return content
    if kind in ("list", "series"):
        return _decoded(content) if kind == "list" else compact(_decoded(content))
    return np.frombuffer(content, kind).copy()


def _encoded(values: list[Any]) -> bytes:
    """Texts and numbers as msgpack; as JSON if there are lone surrogates or integers of more than 64 bits."""
    try:
        return msgspec.msgpack.encode(values)
    except (OverflowError, UnicodeEncodeError):
        return msgspec.msgpack.encode(json.dumps(values, default=str))


def _decoded(written: bytes) -> list[Any]:
    values: Any = msgspec.msgpack.decode(written)
    listed: list[Any] = json.loads(values) if isinstance(values, str) else values
    return listed


class _SliceFile:
    """Slices in an unnamed temporary file."""

    def __init__(self) -> None:
        from tempfile import TemporaryFile  # slow to load, with shutil and all archives

        self._file = TemporaryFile()  # noqa: SIM115 — stays open for later reads
        self._end = 0
        self.places: list[int] = []

    def add(self, hits: Hits) -> int:
        """Append a slice and return its place."""
        written = msgspec.msgpack.encode(_stored(hits))
        place = self._end
        try:
            self._file.seek(place)
            self._file.write(len(written).to_bytes(_SIZE, "little") + written)
            self._file.flush()
        except OSError as error:
            from tempfile import gettempdir

            raise InputError(
                f"cannot write a temporary file: {error.strerror or error}",
                file=gettempdir(),
                hint="free disk space, or set TMPDIR to another folder",
            ) from error
        self._end = place + _SIZE + len(written)
        self.places.append(place)
        return place

    def read(self, place: int) -> Hits:
        self._file.seek(place)
        size = int.from_bytes(self._file.read(_SIZE), "little")
        hits: Hits = _restored(*msgspec.msgpack.decode(self._file.read(size)))
        return hits
