"""The files behind a path that Spark reads: refused where Spark would silently take one file's columns for all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from karat.errors import InputError
from karat.scoring.engines.spark_session import ADD_DELTA, NO_DELTA, require_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Schema = dict[str, str]  # column → type

_AT_A_TIME = 16  # footers of remote files, each a small job
_NOTHING = ("Null", "void")  # the type of a column without values, which goes with any other
# What Spark reads as one another: widths of numbers, and how a writer packed its texts.
_SAME = (
    (r"\bU?Int\d+\b|\b(tinyint|smallint|int|bigint)\b", "integer"),
    (r"\bFloat\d+\b|\b(float|double)\b", "number"),
    (r"\b(Categorical|Enum)(\([^)]*\))?", "String"),
)


def schemas_of(session: SparkSession, table: DataFrame) -> dict[str, Schema]:
    """What the footer of every file says: read here where the file lies on this machine, else by Spark."""
    files = sorted(table.inputFiles())
    here = [_path_here(file) for file in files]
    if all(path is not None and path.is_file() for path in here):
        return {str(path): _schema_here(str(path)) for path in here}

    def there(file: str) -> Schema:
        return {field.name: _kind(field.dataType.simpleString()) for field in session.read.parquet(file).schema.fields}

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(files, pool.map(there, files), strict=True))


def refuse_mixed(schemas: dict[str, Schema], columns: Iterable[str]) -> None:
    """Every file must have each of `columns` that any file has, and of one type."""
    for column in columns:
        first = next((file for file, schema in schemas.items() if schema.get(column, "Null") not in _NOTHING), None)
        if first is None:  # none has it: the name of a folder says it (`system=bm25/`)
            continue
        kind = schemas[first][column]
        for file, schema in schemas.items():
            if schema.get(column) not in (kind, *_NOTHING):
                raise InputError(
                    "the files of this table do not have the same columns and types",
                    code="mixed-columns",
                    file=file,
                    field=column,
                    expected=f"{kind} as in {Path(first).name}",
                    got=schema.get(column, "no such column"),
                    hint="give the files that belong together, or write them anew with one schema",
                )


def is_run_log(path: str) -> bool:
    """Whether a path names JSON Lines: by its ending, for the files may lie where only the cluster reads them."""
    return re.search(r"\.jsonl(\.gz|\.zst|\.bz2)?$", path) is not None


def refuse_unreadable(path: str) -> None:
    """A file that lies here and is no Parquet: known before Spark is started."""
    try:
        if not Path(path).is_file():
            return
        with Path(path).open("rb") as stream:
            head = stream.read(4)
    except (OSError, ValueError):
        return  # for Spark to say
    if head != b"PAR1":
        hint = "Spark reads Parquet and .jsonl run logs; use --engine local for other formats"
        raise InputError("this is no Parquet file or folder", code="not-parquet", file=path, hint=hint)


def refuse_delta(path: str, master: str | None) -> None:
    """A Delta table, where nothing that a new session would be made from can have Delta's package."""
    if os.path.isdir(os.path.join(path, "_delta_log")) and not (master or "").startswith("sc://") and not _configured():
        raise InputError(NO_DELTA, code="no-delta", file=path, hint=ADD_DELTA)


def _configured() -> bool:
    """Whether anybody told Spark anything: then it may know of packages."""
    require_spark()
    import pyspark
    from pyspark.sql import SparkSession

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    settings = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    told = any(os.environ.get(name) for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CLASSPATH"))
    jars = any((home / "jars").glob("*delta*.jar"))
    return told or jars or settings.exists() or SparkSession.getActiveSession() is not None


def _path_here(file: str) -> Path | None:
    parts = urlsplit(file)
    return Path(unquote(parts.path)) if parts.scheme == "file" and not parts.netloc else None


def _schema_here(path: str) -> Schema:
    import polars as pl

    try:
        return {name: _kind(str(kind)) for name, kind in pl.read_parquet_schema(path).items()}
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(
            "this is no Parquet file", code="not-parquet", file=path, hint="Spark reads Parquet here"
        ) from error


def _kind(text: str) -> str:
    for pattern, name in _SAME:
        text = re.sub(pattern, name, text)
    return text
