"""Answers on the disk: whatever was paid for is there before the next request goes out, also when it is killed."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from pathlib import Path

import msgspec

from karat.errors import ConfigError
from karat.llm.base import Reply

_TABLE = """
create table if not exists replies (
    key text primary key, model text not null, time text not null, reply blob not null
) without rowid
"""


def key_of(*parts: object) -> str:
    """The same for the same model at the same address and the same words, prompt, query and passage among them."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


class ReplyCache:
    """A file that many threads and processes may share. A commit survives the death of the process; after a power cut
    the last of them may be missing, and are asked for again."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
            self._open.execute("pragma journal_mode = wal")
            self._open.execute("pragma synchronous = normal")
            self._open.execute(_TABLE)
        except (sqlite3.Error, OSError) as error:
            raise self._refusal(error) from None

    def get(self, key: str) -> Reply | None:
        with self._lock:
            try:
                row = self._open.execute("select reply from replies where key = ?", (key,)).fetchone()
                return None if row is None else msgspec.json.decode(row[0], type=Reply)
            except (sqlite3.Error, msgspec.MsgspecError) as error:
                raise self._refusal(error) from None

    def put(self, key: str, model: str, reply: Reply) -> None:
        row = (key, model, reply.time, msgspec.json.encode(reply))
        with self._lock:
            try:
                self._open.execute("insert or replace into replies values (?, ?, ?, ?)", row)
            except sqlite3.Error as error:
                raise self._refusal(error) from None

    def close(self) -> None:
        with self._lock:
            self._open.close()

    def _refusal(self, error: Exception) -> ConfigError:
        hint = "name another file with --cache, or remove this one"
        return ConfigError(
            f"this cache of answers cannot be used: {error}", code="unusable-cache", file=str(self._path), hint=hint
        )
