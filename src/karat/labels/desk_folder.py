"""The folder of a desk: pools, labels and new gold queries, in the formats of the command line.

`pools/NAME.jsonl`, `labels.jsonl`, `queries.jsonl`, and `desk.json`: who made, assigned and closed a pool. The folder
is created when something is first written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, Literal

import msgspec

from karat.errors import ConfigError, InputError, KaratError, UnknownName, is_whole
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import cannot_write, write_whole
from karat.files.decode_errors import DECODE_ERRORS
from karat.labels.files import LabelLog, PoolEntry, now, read_pool, write_pairs

IN_USE = "desk-in-use"  # code of an error: another process writes the labels
MOST_ASSIGNED = 50  # people per pool
_NAME = re.compile(r"\w[\w.-]{0,59}")
_WORDS = re.compile(r"\w+")


class PoolNotes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known about a pool besides its pairs."""

    made_by: str | None = None
    made_at: str | None = None
    source: str | None = None  # in words: what its pairs were chosen from
    assigned: list[str] = []  # they see it first; others may label it, too
    closed_by: str | None = None
    closed_at: str | None = None

    @property
    def closed(self) -> bool:
        return self.closed_at is not None


class DeskNotes(msgspec.Struct, frozen=True):
    """The file `desk.json`."""

    schema: Literal["karat/desk/1"] = "karat/desk/1"
    pools: dict[str, PoolNotes] = {}


class DeskFolder:
    """Thread-safe. Several processes may read; the labels file has one writer at a time."""

    def __init__(self, path: str | os.PathLike[str], *, highest: int = 2) -> None:
        self.path: Path = Path(path)
        self.highest: int = highest
        self.problems: dict[str, str] = {}  # files of pools that cannot be read
        self._lock = RLock()
        self._log: LabelLog | None = None
        self._read: dict[str, tuple[tuple[int, int, int], list[PoolEntry]]] = {}
        if self.path.exists() and not self.path.is_dir():
            raise ConfigError("a desk is a folder", code="not-a-folder", file=str(path), hint="--desk FOLDER")
        self.notes()  # a damaged file shows early

    @property
    def labels_file(self) -> Path:
        return self.path / "labels.jsonl"

    @property
    def queries_file(self) -> Path:
        return self.path / "queries.jsonl"

    def log(self) -> LabelLog:
        """The labels, opened for writing when they are first needed. While another process has them, every call tries
        again, so that a server takes over from one that has ended."""
        with self._lock:
            if self._log is None:
                self._make(self.path)
                try:
                    self._log = LabelLog(self.labels_file, highest=self.highest)
                except ConfigError as error:
                    if error.code != "file-in-use":
                        raise
                    what = "another server or command has the labels of this desk open"
                    hint = "label there; this server takes over when that one has ended"
                    raise ConfigError(what, code=IN_USE, hint=hint) from None
            return self._log

    @property
    def has_labels(self) -> bool:
        return self._log is not None or self.labels_file.exists()

    def close(self) -> None:
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    # Pools

    def pools(self) -> dict[str, list[PoolEntry]]:
        """Every pool by name. Files are read again only if they have changed."""
        with self._lock:
            found: dict[str, tuple[tuple[int, int, int], list[PoolEntry]]] = {}
            self.problems = {}
            for path in sorted((self.path / "pools").glob("*.jsonl")):
                name = path.stem
                try:
                    told = path.stat()
                    mark = (told.st_mtime_ns, told.st_size, told.st_ino)
                    if _NAME.fullmatch(name) is None:
                        raise _bad_name(name)
                    known = self._read.get(name)
                    found[name] = known if known is not None and known[0] == mark else (mark, read_pool(path))
                except (KaratError, OSError) as error:
                    self.problems[path.name] = str(error).partition("\nhint: ")[0]
            self._read = found
            return {name: entries for name, (_, entries) in found.items()}

    def notes(self) -> dict[str, PoolNotes]:
        try:
            content = (self.path / "desk.json").read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise ConfigError(what, code="unreadable", file=str(self.path / "desk.json")) from error
        try:
            return msgspec.json.decode(content, type=DeskNotes).pools
        except DECODE_ERRORS as error:
            hint = "restore the file, or delete it: pools and labels are in other files"
            file = str(self.path / "desk.json")
            raise InputError(f"not written by Karat: {error}", code="damaged-desk", file=file, hint=hint) from error

    def add_pool(self, name: str, entries: Sequence[PoolEntry], notes: PoolNotes) -> None:
        with self._writing():
            path = self._free(name)
            write_pairs(path, entries)
            self._note({**self.notes(), name: notes})

    def rename(self, name: str, new: str) -> None:
        with self._writing():
            old, path, notes = self._file(name), self._free(new), self.notes()
            try:
                os.rename(old, path)
            except OSError as error:
                raise cannot_write(path, error) from error
            moved = notes.pop(name, PoolNotes())
            self._note({**notes, new: moved})

    def change(self, name: str, **changes: Any) -> PoolNotes:
        """Change what is known about a pool."""
        with self._writing():
            self._file(name)
            notes = self.notes()
            changed = msgspec.structs.replace(notes.get(name, PoolNotes()), **changes)
            self._note({**notes, name: changed})
            return changed

    def set_closed(self, name: str, closed: bool, by: str) -> PoolNotes:
        return self.change(name, closed_by=by if closed else None, closed_at=now() if closed else None)

    def _file(self, name: str) -> Path:
        if name not in self.pools():
            raise UnknownName("pool of the desk", name, self._read)
        return self.path / "pools" / f"{name}.jsonl"

    def _free(self, name: str) -> Path:
        path = self.path / "pools" / f"{checked_pool_name(name)}.jsonl"
        if path.exists():
            raise ConfigError(f"there is already a pool {name}", code="pool-exists", hint="choose another name")
        return path

    def _note(self, pools: Mapping[str, PoolNotes]) -> None:
        there = {name: notes for name, notes in pools.items() if (self.path / "pools" / f"{name}.jsonl").exists()}
        text = msgspec.json.format(msgspec.json.encode(DeskNotes(pools=there)), indent=2)
        write_whole(self.path / "desk.json", text + b"\n")

    # Gold queries

    def queries(self) -> bytes:
        """The new gold queries, as a gold set."""
        with suppress(FileNotFoundError):
            return self.queries_file.read_bytes()
        return b""

    def add_query(self, text: str, fields: Mapping[str, Any]) -> str:
        """Add a gold query under a new id, made from its text, and return the id."""
        with self._writing():
            try:
                file = LineFile(self.queries_file)
                try:
                    known = {msgspec.json.decode(line)["query_id"] for line in file.lines() if line.strip()}
                    name = _free_id(text, known)
                    file.append(msgspec.json.encode({"query_id": name, "query": text, **fields}) + b"\n")
                    return name
                finally:
                    file.close()
            except (NotContinued, KeyError, TypeError, *DECODE_ERRORS) as error:
                hint = "fix or move the file: new queries are added to it"
                what = "not a gold set with one query per line"
                raise InputError(what, code="damaged-desk", file=str(self.queries_file), hint=hint) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time, also of several processes."""
        with self._lock:
            self._make(self.path / "pools")
            with (self.path / ".lock").open("ab") as lock:
                try:
                    import fcntl

                    fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
                except (ImportError, OSError):
                    pass  # a system without locks
                yield

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error


def checked_pool_name(given: str) -> str:
    if not _NAME.fullmatch(given) or not is_whole(given):
        raise _bad_name(given)
    return given


def _bad_name(given: str) -> ConfigError:
    expected = "letters, digits, . _ -, at most 60, not . or - first"
    return ConfigError("invalid name of a pool", code="bad-name", field="name", expected=expected, got=given)


def _free_id(text: str, known: set[Any]) -> str:
    """An id that is not known yet, readable, and unlike those of other gold sets.

    >>> _free_id("How long does a refund take?", {"desk-how-long-does-a-refund-take"})
    'desk-how-long-does-a-refund-take-2'
    """
    name = "-".join(["desk", *_WORDS.findall(text.lower())])[:60].rstrip("-")
    return next(free for i in range(1, 10**9) if (free := name if i == 1 else f"{name}-{i}") not in known)
