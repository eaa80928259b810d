"""A folder that an unattended program may read: neither `..` nor a link leads out of it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from karat.errors import ConfigError, InputError, shorten
from karat.files.atomic_write import check_writable

_FILES = 10_000  # that a folder among the inputs may have
_REPORTS = (".html", ".json", ".md")


class GuardedFolder:
    """The files that may be read, and where reports may be written."""

    def __init__(self, folder: str | Path, *, writable: bool = False) -> None:
        try:
            self.path: Path = Path(folder).resolve(strict=True)
        except (OSError, RuntimeError):
            raise ConfigError("no such folder", code="no-such-folder", file=str(folder), hint="--root DIR") from None
        if not self.path.is_dir():
            raise ConfigError("not a folder", code="no-such-folder", file=str(folder), hint="--root DIR")
        self.writable = writable

    def read(self, name: str, field: str) -> str:
        """The path of an input, relative to the folder and without links."""
        place = self._placed(name, field)
        if not os.path.exists(place):  # also of a name that is too long for a file
            hint = "paths are relative to the folder of --root; patterns and URLs are not supported"
            raise InputError("no such file", code="no-such-file", file=shorten(name), field=field, hint=hint)
        if place.is_dir():
            self._look_through(place, name, field)
        elif not stat.S_ISREG(place.stat().st_mode):
            raise InputError("neither a file nor a folder", code="not-a-file", file=shorten(name), field=field)
        else:
            self._look_beside(place, field)
        return self._said(place)

    def new(self, name: str, inputs: list[str]) -> str:
        """The path of a report that is to be written."""
        if not self.writable:
            hint = "start it with `karat mcp --root DIR --allow-write` to write reports"
            raise ConfigError("this server is read-only", code="read-only", field="report", hint=hint)
        place = self._placed(name, "report")
        if place.suffix not in _REPORTS or "=" in name:
            expected = "a name that ends with .html, .json or .md, and has no ="
            raise ConfigError(
                "not a name for a report", code="unknown-output", field="report", expected=expected, got=name
            )
        if os.path.lexists(self.path / name) or os.path.lexists(place):
            hint = "choose another name: no file is overwritten"
            raise ConfigError(
                "this file exists already", code="file-exists", file=shorten(name), field="report", hint=hint
            )
        check_writable(self._said(place), inputs)
        return self._said(place)

    def _placed(self, name: str, field: str) -> Path:
        """Where a name leads to. What lies outside is refused before it is looked at."""
        try:
            place = (self.path / name).resolve()
        except (OSError, RuntimeError, ValueError):  # a circle of links, a NUL
            raise InputError("not a valid path", code="bad-path", field=field, got=name) from None
        if not place.is_relative_to(self.path):
            hint = "only files in the folder of --root, and in folders below it, can be used"
            raise InputError("outside the folder", code="outside-root", file=shorten(name), field=field, hint=hint)
        return place

    def _look_through(self, folder: Path, name: str, field: str) -> None:
        if (folder / "_delta_log").exists():
            what, hint = (
                "Delta tables are not supported here: they can name files anywhere",
                "export it to Parquet",
            )
            raise InputError(what, code="delta-table", file=shorten(name), field=field, hint=hint)
        for seen, place in enumerate(_below(folder)):
            if seen >= _FILES:
                what = f"the folder has more than {_FILES:,} files"
                raise InputError(what, code="large-folder", file=shorten(name), field=field)
            self._placed(str(place), field)

    def _look_beside(self, file: Path, field: str) -> None:
        """What is read together with a file."""
        self._placed(str(file.with_name("dataset.yaml")), field)
        if file.name == "queries.jsonl" and file.with_name("qrels").is_dir():
            self._look_through(file.parent, str(file.parent), field)

    def _said(self, place: Path) -> str:
        """A name that is nothing but a path: not `-`, not `history:main`."""
        said = place.relative_to(self.path).as_posix()
        return said if re.fullmatch(r"\w[\w./ #+-]*", said) else f"./{said}"


def _below(folder: Path) -> Iterator[Path]:
    """Everything in a folder, also behind links: each is looked at before what it leads to is."""
    for place, folders, files in os.walk(folder, followlinks=True):
        yield from (Path(place, name) for name in (*folders, *files))
