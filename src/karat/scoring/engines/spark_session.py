"""Spark sessions, clear messages for Spark's errors, and the files behind a path."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from karat.errors import ConfigError, InputError, KaratError, MissingExtra, shorten
from karat.files.safe_parquet import ParquetSource, UnreadableParquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Schema = dict[str, str]  # column → type

_AT_A_TIME = 16  # footers of remote files read at once, each in a small job
_NOTHING = ("Null", "void")  # the type of a column without values, compatible with any other
# Types that Spark reads interchangeably: widths of numbers, and packed texts.
_SAME = (
    (r"\bU?Int\d+\b|\b(tinyint|smallint|int|bigint)\b", "integer"),
    (r"\bFloat\d+\b|\b(float|double)\b", "number"),
    (r"\b(Categorical|Enum)(\([^)]*\))?", "String"),
)
_JAVA = 17  # the oldest version that Spark 4 supports
_SPARK = 4
NO_DELTA = "this is a Delta table, but the Spark session cannot read Delta"
ADD_DELTA = (
    "start the session with the package io.delta:delta-spark (docs/scale.md), "
    "or use --engine local (pip install 'karat[delta]')"
)
_INSTALL_JAVA = "install Java 17 or 21 (Debian: apt install default-jre-headless), or set JAVA_HOME"


def find_session(master: str | None = None) -> SparkSession:
    """The existing session, or a new one on `master` (default: Spark's configuration)."""
    require_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None and master is None:
        return active
    remote = master is not None and master.startswith("sc://")
    if master is not None:
        _require_master(master)
    if not remote:
        _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers use any python3 on their path
    builder: Any = SparkSession.builder.appName("karat")
    if master is not None:
        builder = builder.remote(master) if remote else builder.master(master)
    if not remote:
        builder = builder.config(map=_SETTINGS)
    with friendly(master or "the Spark session"):
        session: SparkSession = builder.getOrCreate()
    return session


_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


def require_spark() -> None:
    try:
        import pyspark
    except ImportError:
        raise MissingExtra("the engine spark", "pyspark", "spark") from None
    if int(pyspark.__version__.partition(".")[0]) < _SPARK:
        what = f"the engine spark needs PySpark {_SPARK}"
        raise ConfigError(what, code="old-spark", got=pyspark.__version__, hint="pip install 'karat[spark]'")
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtra("the engine spark", str(error.name), "spark") from None


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        got = f"JAVA_HOME={home}" if home else None
        raise ConfigError("the engine spark needs Java, but finds none", code="no-java", got=got, hint=_INSTALL_JAVA)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{java} does not run: {error}", code="no-java", hint=_INSTALL_JAVA) from error
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise ConfigError(f"{java} does not report its version", code="no-java", got=said.strip(), hint=_INSTALL_JAVA)
    if int(found[1]) < _JAVA:
        raise ConfigError(
            "this Java is too old for Spark", code="old-java", expected="17 or 21", got=found[1], hint=_INSTALL_JAVA
        )


def _require_master(master: str) -> None:
    """Check the connection first: Spark retries for a minute and then reports another error."""
    if re.fullmatch(r"local(\[.*\])?|local-cluster\[.*\]|yarn|k8s://.+", master):
        return
    found = re.fullmatch(r"(?:spark|sc)://([^/;]+)(?:/.*)?", master)
    if found is None:
        expected = "spark://host:port, sc://host:port, yarn, k8s://… or local[2]"
        raise ConfigError("not a Spark master", code="bad-address", expected=expected, got=master)
    reasons = []
    for address in found[1].split(","):
        host, _, port = address.partition(":")
        try:
            socket.create_connection((host, int(port or (15002 if master.startswith("sc:") else 7077))), 5).close()
            return
        except (OSError, ValueError) as error:
            reasons.append(str(getattr(error, "strerror", None) or error))
    hint = "is it running, and is a firewall in between? Its web page shows the URL"
    raise ConfigError(f"the Spark master cannot be reached: {reasons[0]}", code="unreachable", got=master, hint=hint)


# Workers on this machine run the first python3 on the path, which differs if a virtual environment is not
# activated.
_SAME_PYTHON = (
    f"on this machine, set PYSPARK_PYTHON={sys.executable} before the session starts; "
    "on a cluster, pip install karat on every worker, for the Python that PYSPARK_PYTHON names there"
)
# Pattern in Spark's message → code, message and hint.
_KNOWN = (
    (r"No module named '?karat", "no-karat", "karat is not installed on the workers of the cluster", _SAME_PYTHON),
    (r"No module named '?(\w+)", "no-package", "the workers of the cluster lack a package: {}", _SAME_PYTHON),
    (r"PYTHON_VERSION_MISMATCH", "other-python", "the workers run another Python than this process", _SAME_PYTHON),
    (r"DATA_SOURCE_NOT_FOUND.*\bdelta\b", "no-delta", NO_DELTA, ADD_DELTA),
    (r"PATH_NOT_FOUND|Path does not exist", "no-such-file", "no such file",
     "the path must be readable from the machines of the cluster"),
    (r"UNABLE_TO_INFER_SCHEMA|is not a Parquet file", "not-parquet",
     "not a Parquet file or folder", "Spark reads Parquet here"),
    (r"FAILED_READ_FILE|CANNOT_MERGE_SCHEMAS|PARQUET_COLUMN_DATA_TYPE_MISMATCH", "mixed-columns",
     "the files of this table do not have the same columns and types", "give the files that belong together"),
    (r"No FileSystem for scheme|ClassNotFoundException: .*[sS]3A", "no-reader",
     "Spark cannot read this kind of path",
     "add the package to the session, such as org.apache.spark:spark-hadoop-cloud for s3a://"),
    (r"OutOfMemoryError|Java heap space", "out-of-memory",
     "Spark ran out of memory", "use more partitions, or more executor memory"),
)  # fmt: skip


@contextmanager
def friendly(label: str) -> Iterator[None]:
    """Turn Spark's errors into Karat's."""
    try:
        yield
    except KaratError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        text = str(error)
        for pattern, code, what, hint in _KNOWN:
            found = re.search(pattern, text)
            if found:
                raise InputError(what.format(*found.groups()), code=code, file=label, hint=hint) from error
        line = next(
            (line.strip() for line in reversed(text.splitlines()) if "Error" in line), text.strip() or repr(error)
        )
        raise InputError(
            f"Spark failed: {shorten(line, 200)}", code="spark-failed", file=label, hint="see its log"
        ) from error


def schemas_of(session: SparkSession, table: DataFrame) -> dict[str, Schema]:
    """The schema in the footer of every file: read here if the file is on this machine, else by Spark."""
    files = sorted(table.inputFiles())
    here = [_path_here(file) for file in files]
    if all(path is not None and path.is_file() for path in here):
        return {str(path): _schema_here(str(path)) for path in here}

    def there(file: str) -> Schema:
        return {field.name: _kind(field.dataType.simpleString()) for field in session.read.parquet(file).schema.fields}

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(files, pool.map(there, files), strict=True))


def refuse_mixed(schemas: dict[str, Schema], columns: Iterable[str]) -> None:
    """Every file must have each of `columns` that any file has, with the same type."""
    for column in columns:
        first = next((file for file, schema in schemas.items() if schema.get(column, "Null") not in _NOTHING), None)
        if first is None:  # it comes from a folder name (`system=bm25/`)
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
                    hint="give the files that belong together, or rewrite them with one schema",
                )


def is_run_log(path: str) -> bool:
    """Whether a path names JSON Lines, by its extension: only the cluster may be able to read it."""
    return re.search(r"\.jsonl(\.gz|\.zst|\.bz2)?$", path) is not None


def refuse_unreadable(path: str) -> None:
    """Reject a local file that is not Parquet before Spark starts."""
    try:
        if not Path(path).is_file():
            return
        with Path(path).open("rb") as stream:
            head = stream.read(4)
    except (OSError, ValueError):
        return  # Spark reports it
    if head != b"PAR1":
        hint = "Spark reads Parquet and .jsonl run logs; use --engine local for other formats"
        raise InputError("not a Parquet file or folder", code="not-parquet", file=path, hint=hint)


def refuse_delta(path: str, master: str | None) -> None:
    """Reject a Delta table if no new session could have Delta's package."""
    if os.path.isdir(os.path.join(path, "_delta_log")) and not (master or "").startswith("sc://") and not _configured():
        raise InputError(NO_DELTA, code="no-delta", file=path, hint=ADD_DELTA)


def _configured() -> bool:
    """Whether Spark is configured in any way: then it may have packages."""
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
    try:
        return {name: _kind(str(kind)) for name, kind in ParquetSource(path).schema().items()}
    except UnreadableParquet as error:
        hint = "Spark reads Parquet here"
        raise error.as_error("not a Parquet file", code="not-parquet", label=path, hint=hint) from error


def _kind(text: str) -> str:
    for pattern, name in _SAME:
        text = re.sub(pattern, name, text)
    return text
