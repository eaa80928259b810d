"""Logs of a run: records in memory, or lines of a file that can be continued."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import ConfigError, shorten
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import write_whole
from karat.files.decode_errors import DECODE_ERRORS

_EVERY = 0.5


class Records:
    """The records of a run in memory."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._place = {query: i for i, query in enumerate(texts)}
        self.done: set[str] = set()  # queries of an earlier attempt
        self.failed = 0  # of them
        self.first_error: str | None = None  # of them
        self.other_code = 0  # of them, answered by an earlier version of the code
        self.records: list[dict[str, Any]] = []

    def write(self, record: dict[str, Any]) -> None:
        self.records.append(record)

    def close(self) -> None:
        pass

    def sort(self) -> None:
        """Return the records in the order of the queries."""
        self.records.sort(key=lambda record: self._place[record["query_id"]])


class RunFile(Records):
    """The lines of a run, including those of an earlier attempt.

    `settings` are the fields that all lines share. A file with other settings is never continued, because it would mix
    two retrievers. `texts` maps each query's id to its text, for the same reason.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], texts: Mapping[str, str], *, overwrite: bool, retry: bool
    ) -> None:
        super().__init__(texts)
        self._path = path
        # As read from a file, where a tuple becomes a list.
        self._settings = msgspec.json.decode(msgspec.json.encode(settings))
        self._file = LineFile(path, overwrite=overwrite)
        try:
            lines = self._file.lines()
            checked = [self._checked(line, retry) for line in lines]
        except NotContinued:
            self._file.close()
            raise self._refusal("it is not a run log") from None
        except ConfigError:
            self._file.close()  # else the next attempt of this process would find it locked
            raise
        kept = {query: line for query, line, error in checked if error is None or not retry}
        self.done: set[str] = set(kept)
        errors = [] if retry else [(query, error) for query, _, error in checked if error is not None]
        self.failed: int = len(errors)
        self.first_error: str | None = f"{errors[0][0]}: {errors[0][1]}" if errors else None
        if len(kept) < len(lines):
            self._file.replace(b"".join(kept.values()))
        self._waiting: list[bytes] = []
        self._written = time.monotonic()

    def _checked(self, line: bytes, retry: bool) -> tuple[str, bytes, str | None]:
        """Return the query of a line, the line, and its error. `retry`: the code may have changed since, because
        failed queries are asked again after a repair."""
        try:
            found = msgspec.json.decode(line)
            query = found["query_id"]
        except (*DECODE_ERRORS, TypeError, KeyError):
            raise self._refusal("it is not a run log") from None
        error = found.get("error")
        if retry and error is not None:  # the line is dropped, so it may be of another retriever
            return query, line, shorten(error, 300)
        differ = {name: value for name, value in self._settings.items() if found.get(name) != value}
        only_code = all(_without_code(found.get(name)) == _without_code(value) for name, value in differ.items())
        if differ and not (only_code and retry):
            name, value = next(iter(differ.items()))
            was, now = shorten(_json(found.get(name)), 120), shorten(_json(value), 120)
            more = "; --retry-failed keeps the answers and asks only the failed queries again" if only_code else ""
            raise self._refusal(f"its `{name}` is {was}, this run's is {now}", more)
        self.other_code += bool(differ) and error is None
        if self._texts.get(query) != found.get("query"):
            raise self._refusal(f"the text of query {shorten(query, 40)!r} differs from this set of queries")
        return query, line, None if error is None else shorten(error, 300)

    def _refusal(self, why: str, more: str = "") -> ConfigError:
        what = f"this file cannot be continued: {why}"
        hint = f"start again with --overwrite, or choose another file with -o{more}"
        return ConfigError(what, code="not-continued", file=str(self._path), hint=hint)

    def write(self, record: dict[str, Any]) -> None:
        self._waiting.append(msgspec.json.encode(record) + b"\n")
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def flush(self) -> None:
        """Write the lines and sync them to disk."""
        # Cleared before writing: an interrupt may lose lines, which are asked again, but never writes them twice.
        lines, self._waiting = self._waiting, []
        if lines:
            self._file.append(b"".join(lines))
        self._written = time.monotonic()

    def close(self) -> None:
        self.flush()
        self._file.close()

    def sort(self) -> None:
        lines = self._path.read_bytes().splitlines(keepends=True)
        ordered = sorted(lines, key=lambda line: self._place[msgspec.json.decode(line, type=_Named).query_id])
        if ordered != lines:
            write_whole(self._path, b"".join(ordered))


class _Named(msgspec.Struct):
    query_id: str


def _without_code(value: Any) -> Any:
    """Settings without the hashes of the code that they name."""
    if isinstance(value, dict):
        return {name: _without_code(inner) for name, inner in value.items() if name != "code"}
    return [_without_code(inner) for inner in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return "missing" if value is None else msgspec.json.encode(value).decode()
