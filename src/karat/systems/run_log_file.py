"""A run log that can be continued: whole lines only, on the disk every half second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import ConfigError, shorten
from karat.files.append_log import LineFile, NotContinued
from karat.files.atomic_write import write_whole

_EVERY = 0.5


class RunFile:
    """Lines of one run, those of an earlier try included.

    `settings` are the fields that all lines share; a file whose lines have others is never continued, for it would be a
    run of two retrievers. `texts` maps each query's id to its text, for the same reason.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], texts: Mapping[str, str], *, overwrite: bool, retry: bool
    ) -> None:
        self._path, self._texts = path, texts
        # As they come back from a file: a tuple is a list there.
        self._settings = msgspec.json.decode(msgspec.json.encode(settings))
        self._file = LineFile(path, overwrite=overwrite)
        try:
            lines = self._file.lines()
        except NotContinued:
            raise self._refusal("it is no run log") from None
        checked = list(map(self._checked, lines))
        kept = {query: line for query, line, failed in checked if not (failed and retry)}
        self.done = set(kept)
        self.failed = 0 if retry else sum(failed for *_, failed in checked)  # in an earlier try
        if len(kept) < len(lines):
            self._file.replace(b"".join(kept.values()))
        self._waiting: list[bytes] = []
        self._written = time.monotonic()

    def _checked(self, line: bytes) -> tuple[str, bytes, bool]:
        try:
            found = msgspec.json.decode(line)
            query = found["query_id"]
        except (msgspec.MsgspecError, UnicodeError, TypeError, KeyError):
            raise self._refusal("it is no run log") from None
        for name, value in self._settings.items():
            if found.get(name) != value:
                was, now = shorten(_json(found.get(name)), 120), shorten(_json(value), 120)
                raise self._refusal(f"its `{name}` is {was}, this run's is {now}")
        if self._texts.get(query) != found.get("query"):
            raise self._refusal(f"it asks another question as {shorten(query, 40)!r} than this set of queries")
        return query, line, found.get("error") is not None

    def _refusal(self, why: str) -> ConfigError:
        return ConfigError(
            f"this file cannot be continued: {why}",
            code="not-continued",
            file=str(self._path),
            hint="--overwrite starts anew; -o names another file",
        )

    def write(self, record: dict[str, Any]) -> None:
        self._waiting.append(msgspec.json.encode(record) + b"\n")
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def flush(self) -> None:
        """What was written is on the disk, in one piece."""
        # Taken before they are written: an interrupt may lose lines, which are asked again, and doubles none.
        lines, self._waiting = self._waiting, []
        if lines:
            self._file.append(b"".join(lines))
        self._written = time.monotonic()

    def close(self) -> None:
        self.flush()
        self._file.close()

    def sort(self) -> None:
        """In the order of the queries, whoever came first."""
        place = {query: i for i, query in enumerate(self._texts)}
        lines = self._path.read_bytes().splitlines(keepends=True)
        ordered = sorted(lines, key=lambda line: place[msgspec.json.decode(line, type=_Named).query_id])
        if ordered != lines:
            write_whole(self._path, b"".join(ordered))


class _Named(msgspec.Struct):
    query_id: str


def _json(value: Any) -> str:
    return "missing" if value is None else msgspec.json.encode(value).decode()
