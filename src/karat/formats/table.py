"""Files that are tables, one row a hit or a judgement: CSV, TSV and Parquet."""

from __future__ import annotations

import re

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.dataset import dataset_of
from karat.formats.table_file import ParquetColumns, read_table
from karat.formats.table_gold import gold_from_frame
from karat.formats.table_run import FrameRun
from karat.formats.tabular import has_role, is_gold, is_run, plain_title


class TableFormat(Format):
    """CSV, TSV or Parquet with a row a hit (query_id, chunk_id, rank or score) or a judgement (…, grade)."""

    name = "table"
    kinds = frozenset({"run", "gold"})
    takes_target = True
    order = 70

    def recognises(self, source: Source, kind: Kind) -> bool:
        header = _header(source)
        if header is None:
            return True  # for the reader to say what is wrong with it
        other = is_gold(header) if kind == "run" else is_run(header)
        return len(header) > 1 and has_role("query_id", header) and not other

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        return FrameRun(read_table(source), source.label, options.system, source, layout=options.layout)

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        frame = ParquetColumns(source) if source.head[:4] == b"PAR1" else read_table(source)
        return gold_from_frame(frame, source.label, dataset_of(source), options.target, source)


def _header(source: Source) -> list[str] | None:
    """The names of the columns; None for a Parquet file that does not say."""
    if source.head[:4] != b"PAR1":
        return [plain_title(c) for c in re.split(r"[,\t;]", source.first_line.decode("utf-8", "replace"))]
    import polars as pl

    try:
        return [plain_title(c) for c in pl.read_parquet_schema(source.path)]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None


def columns_hint(source: Source, *kinds: Kind) -> str | None:
    """What a text that looks like a table lacks."""
    header = _header(source) or []
    if len(header) < 2 or source.looks_like_json or not all(re.fullmatch(r"[\w .-]{1,40}", c) for c in header):
        return None
    last = {"run": "rank or score for a run", "gold": "grade for a gold set"}
    needs = f"a table needs the columns query_id, chunk_id (or doc_id) and {', '.join(last[kind] for kind in kinds)}"
    return needs + "; --run-columns says which they are where they have other names" * ("run" in kinds)


def columns_of(source: Source) -> str | None:
    """The columns of a Parquet file, whose first line says nothing to anybody."""
    return ", ".join(_header(source) or ["Parquet"]) if source.head[:4] == b"PAR1" else None
