"""Folders of Parquet files, also parted by column (`system=bm25/date=2025-06-01/`), and Delta tables."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from urllib.parse import unquote

from karat.data.hits import Run
from karat.errors import InputError
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.parquet import ParquetRun, Scan

_HIDDEN = ("_", ".")


class TableFolder(Format):
    """A folder of Parquet files, parted by columns or not, or a Delta table."""

    name = "table-folder"
    kinds = frozenset({"run"})
    order = 75

    def recognises(self, source: Source, kind: Kind) -> bool:
        return source.is_folder and (_is_delta(source.path) or bool(_files(source.path)))

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        if _is_delta(source.path):
            return ParquetRun(source.label, [Scan(source.label, delta=True)], options.system, options.layout)
        files = _files(source.path)
        if not files:
            raise InputError("no Parquet file in this folder", code="no-such-file", file=source.label)
        return files_run(source.label, files, options, source.path)


def matching_files(run: str | PathLike[str]) -> list[Path] | None:
    """The files that a pattern such as `runs/*.parquet` stands for; None where it is the name of one thing."""
    text = str(run)
    if re.match(r"[A-Za-z][\w+.-]+://", text):
        hint = "add --engine spark, in Python engine='spark'; or copy the files here"
        raise InputError("a remote path, which only Spark reads", code="remote-path", file=text, hint=hint)
    try:
        if not glob.has_magic(text) or not text.endswith(".parquet") or Path(text).exists():
            return None
    except (OSError, ValueError):
        return None  # for others to say what is wrong with it
    found = sorted(map(Path, glob.glob(text, recursive=True)))
    if not found:
        raise InputError(
            "no file matches", code="no-such-file", file=text, hint="quote the pattern, and check the path before the *"
        )
    return [file for path in found for file in (_files(path) if path.is_dir() else [path])]


def files_run(label: str, files: Iterable[Path], options: ReadOptions, root: Path | None = None) -> Run:
    scans = []
    for file in files:
        with file.open("rb") as stream:
            if stream.read(4) != b"PAR1":
                raise InputError(
                    "this is no Parquet file",
                    code="not-parquet",
                    file=str(file),
                    hint="several files are read as Parquet only",
                )
        scans.append(Scan(str(file), _constants(file if root is None else file.relative_to(root))))
    return ParquetRun(label, scans, options.system, options.layout)


def _is_delta(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir()


def _files(folder: Path) -> list[Path]:
    """In the order of their names, without what writers leave beside the data (`_SUCCESS`, `.part-0.crc`)."""
    found = (p for p in folder.rglob("*.parquet") if p.is_file())
    return sorted(p for p in found if not any(part.startswith(_HIDDEN) for part in p.relative_to(folder).parts))


def _constants(path: Path) -> dict[str, str]:
    """What the folders of a file say: column=value."""
    pairs = (part.partition("=") for part in path.parts[:-1])
    return {name: unquote(value) for name, equals, value in pairs if equals and name}
