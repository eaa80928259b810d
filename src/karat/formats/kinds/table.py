"""Files that are tables: CSV, TSV, Parquet, Delta, and folders of Parquet files (also `system=bm25/date=2025-06/`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.errors import InputError, shorten
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.dataset import dataset_of
from karat.formats.hf_folder import is_mteb
from karat.formats.layout import LATENCY, LISTS, NAMES, has_role, is_gold, is_run, plain_title

_OTHER_FILES = (".jsonl", ".csv", ".tsv")  # a folder with such files is a project, not a table


class TableFormat(Format):
    """CSV, TSV or Parquet with one row per hit (query_id, chunk_id, rank or score) or per judgement (…, grade)."""

    name = "table"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run", "gold"})
    takes_target = True
    order = 70

    def recognises(self, source: Source, kind: Kind) -> bool:
        header = table_header(source)
        if header is None:
            return True  # the reader reports what is wrong
        other = is_gold(header) if kind == "run" else is_run(header)
        return len(header) > 1 and has_role("query_id", header) and not other

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.table_file import read_table
        from karat.formats.table_run import FrameRun

        return FrameRun(read_table(source), source.label, options.system, source, layout=options.layout)

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.table_file import ParquetColumns, read_table
        from karat.formats.table_gold import gold_from_frame

        frame = ParquetColumns(source) if source.is_parquet else read_table(source)
        return gold_from_frame(frame, source.label, dataset_of(source), options.target, source)


class ParquetFormat(Format):
    """A Parquet file with one row per hit, or one row per query with the list of its hits in `topk`."""

    name = "parquet"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 65

    def recognises(self, source: Source, kind: Kind) -> bool:
        return source.is_parquet and TableFormat().recognises(source, kind)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.parquet import ParquetRun
        from karat.formats.table_file import Scan

        return ParquetRun(source.label, [Scan(str(source.path))], options.system, options.layout)


class TableFolder(Format):
    """A folder of Parquet files, partitioned or not, or a Delta table."""

    name = "table-folder"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 75

    def recognises(self, source: Source, kind: Kind) -> bool:
        if not source.is_folder or is_mteb(source.path):
            return False
        return _is_delta(source.path) or bool(_files(source.path))

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.parquet import ParquetRun
        from karat.formats.table_file import Scan

        if _is_delta(source.path):
            return ParquetRun(source.label, [Scan(source.label, delta=True)], options.system, options.layout)
        files = _files(source.path)
        if not files:
            raise InputError("no Parquet file in this folder", code="no-such-file", file=source.label)
        others = sorted(path.name for path in source.path.iterdir() if path.suffix in _OTHER_FILES)
        if others:
            raise InputError(
                "this folder has other files beside Parquet files, so it is not one table",
                code="is-a-folder",
                file=source.label,
                got=shorten(", ".join([*others, *(file.name for file in files)]), 80),
                hint="name the file with the run, or a pattern such as 'runs/*.parquet'",
            )
        return files_run(source.label, files, options, source.path)


def matching_files(run: str | PathLike[str]) -> list[Path] | None:
    """The files that a pattern such as `runs/*.parquet` matches; None where it is a single name."""
    text = str(run)
    if "://" in text and re.match(r"[A-Za-z][\w+.-]+://", text):
        hint = "add --engine spark (in Python: engine='spark'), or copy the files to this machine"
        raise InputError("only Spark can read a remote path", code="remote-path", file=text, hint=hint)
    if not text.endswith(".parquet"):
        return None
    import glob  # every start loads this file

    try:
        if not glob.has_magic(text) or Path(text).exists():
            return None
    except (OSError, ValueError):
        return None  # other code reports what is wrong
    found = sorted(map(Path, glob.glob(text, recursive=True)))
    if not found:
        raise InputError(
            "no file matches", code="no-such-file", file=text, hint="quote the pattern, and check the path before the *"
        )
    return [file for path in found for file in (_files(path) if path.is_dir() else [path])]


def files_run(label: str, files: Iterable[Path], options: ReadOptions, root: Path | None = None) -> Run:
    from karat.formats.parquet import ParquetRun
    from karat.formats.table_file import Scan

    scans = []
    for file in files:
        with file.open("rb") as stream:
            if stream.read(4) != b"PAR1":
                hint = "several files can only be read as Parquet"
                raise InputError("not a Parquet file", code="not-parquet", file=str(file), hint=hint)
        scans.append(Scan(str(file), _constants(file if root is None else file.relative_to(root))))
    return ParquetRun(label, scans, options.system, options.layout)


def _is_delta(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir()


def _files(folder: Path) -> list[Path]:
    """In the order of their names, without auxiliary files of writers (`_SUCCESS`, `.part-0.crc`)."""
    found = (p for p in folder.rglob("*.parquet") if p.is_file())
    return sorted(p for p in found if not any(part.startswith(("_", ".")) for part in p.relative_to(folder).parts))


def _constants(path: Path) -> dict[str, str]:
    """The columns in a file's folder names: column=value."""
    from urllib.parse import unquote

    pairs = (part.partition("=") for part in path.parts[:-1])
    return {name: unquote(value) for name, equals, value in pairs if equals and name}


def table_header(source: Source) -> list[str] | None:
    """The column names; None for a Parquet file that does not have them."""
    if not source.is_parquet:
        return [plain_title(c) for c in re.split(r"[,\t;]", source.first_line.decode("utf-8", "replace"))]
    names = parquet_columns(source)
    return None if names is None else [plain_title(name) for name in names]


def parquet_columns(source: Source) -> list[str] | None:
    """The columns of a Parquet file as they are written; None where it does not have them."""
    from karat.files.parquet_file import table_of

    table = table_of(source.path)
    if table is not None:
        return list(table.fields)
    from karat.files.safe_parquet import ParquetSource, UnreadableParquet

    try:
        return list(ParquetSource(source.path).schema())
    except UnreadableParquet:
        return None


def is_bare_pairs(source: Source) -> bool:
    """Whether a table has nothing that orders hits: only queries and items, which is how people write gold.
    With a latency or a system name it is still a run."""
    header = table_header(source) if not source.is_folder else None
    if header is None or LISTS in header or LATENCY in header or {"system", "run", "run_id"} & set(header):
        return False
    return not has_role("score", header) and not has_role("rank", header)


def is_bare_run(source: Source) -> bool:
    """Whether a table of bare pairs could also be a run: nothing in it marks it as gold."""
    said = {"no_answer", "evidence", "answer", "quote", *NAMES["grade"]}
    return is_bare_pairs(source) and not said & set(table_header(source) or ())


def columns_hint(source: Source, *kinds: Kind) -> str | None:
    """What a text that looks like a table lacks."""
    header = table_header(source) or []
    if len(header) < 2 or source.looks_like_json or not all(re.fullmatch(r"[\w .-]{1,40}", c) for c in header):
        return None
    last = {"run": "rank or score for a run", "gold": "grade for a gold set"}
    needs = f"a table needs the columns query_id, chunk_id (or doc_id) and {', '.join(last[kind] for kind in kinds)}"
    return needs + "; use --map if they have other names"


def columns_of(source: Source) -> str | None:
    """The columns of a Parquet file, whose first line is not text."""
    return ", ".join(table_header(source) or ["Parquet"]) if source.is_parquet else None
