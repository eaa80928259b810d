"""Scores on a Spark cluster: hits stay there, and results return in one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from karat.data.audit import Audit
from karat.data.corpus import DescribedRun
from karat.data.gold import Gold
from karat.data.hits import Hits, Run
from karat.data.ids import Ints
from karat.data.normal_ids import NormalizedRun
from karat.errors import ConfigError, InputError
from karat.formats.layout import LISTS, NAMES, Layout, find_column, read_layout
from karat.formats.run_log import RunLog
from karat.formats.table_run import FrameRun
from karat.scoring.engines.base import Engine
from karat.scoring.engines.spark_session import (
    Schema,
    find_session,
    friendly,
    is_run_log,
    refuse_delta,
    refuse_mixed,
    refuse_unreadable,
    schemas_of,
)
from karat.scoring.engines.spark_work import GOLD, LINE, PARTS, Shipped, gold_rows, judge_partition, unpack
from karat.scoring.one_pass import Golds, Part, PassRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from karat.results.result import Result

_BROADCAST = 128 << 20  # bytes of gold that are sent whole to every executor, at most
_MESSAGE = 32 << 20  # the same for Spark Connect, where it is part of a message of limited size
_LOCAL_ONLY = "gold passages, and analyses of single hits, need the engine local"
_COLUMNS = "karat.systems.Spark(session).read_run(path_or_frame, columns={'query_id': …})"
_ON_THE_CLUSTER = "the hits of a Spark frame stay on the cluster"


class Spark(Engine):
    """`session`: your own, also one of Spark Connect; by default, a local one or what spark-defaults configures.

    `broadcast`: up to this many bytes, the gold set is sent whole to every executor; above, it is shuffled like hits.
    `partitions`: number of scoring tasks; by default Spark decides, as for any shuffle (few for little data).
    """

    name = "spark"

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        broadcast: int = _BROADCAST,
        partitions: int | None = None,
    ) -> None:
        if broadcast < 0:
            raise ConfigError("broadcast must be a number of bytes", expected="0 or more", got=broadcast)
        if partitions is not None and partitions < 1:
            raise ConfigError("partitions must be a number of tasks", expected="1 or more", got=partitions)
        self._session = session
        self._master = master
        self.broadcast = broadcast
        self.partitions = partitions

    @property
    def session(self) -> SparkSession:
        if self._session is None:
            self._session = find_session(self._master)
        return self._session

    def read_run(self, run: Any, **options: Any) -> Run:
        if isinstance(run, Run):
            if isinstance(run, SparkRun):
                return run
            raise ConfigError(
                "this run was already read, but not by Spark",
                code="read-already",
                got=run.label,
                hint=f"pass a path or a Spark DataFrame; if columns have other names: {_COLUMNS}",
            )
        if options.get("hits", "topk") != "topk":
            raise ConfigError("Spark only reads final lists", code="no-such-lists", got=options["hits"])
        layout = read_layout(options.get("columns"))
        system = options.get("system")
        if type(run).__module__.startswith("pyspark"):
            return SparkRun("a Spark DataFrame", lambda: (run, {}), system, layout)
        if not isinstance(run, str) and not hasattr(run, "__fspath__"):
            got, expected = type(run).__name__, "a path to Parquet files or a run log, or a Spark DataFrame"
            raise InputError("Spark cannot read this run", code="unreadable-object", expected=expected, got=got)
        path = str(run)
        if is_run_log(path):
            return SparkLog(path, lambda: self.session.read.text(path), system)
        refuse_unreadable(path)
        if self._session is None:
            refuse_delta(path, self._master)
        return SparkRun(path, lambda: self._table(path), system, layout)

    def _table(self, path: str) -> tuple[DataFrame, dict[str, Schema]]:
        """Parquet, with the schema of each file; or a Delta table, whose folder also holds files of older versions."""
        if self._is_delta(path):
            return self.session.read.format("delta").load(path), {}
        pattern = re.search(r"/?[^/]*[*?\[{]", path)
        # Otherwise the columns in folder names (`system=bm25/`) would be lost above the files of a pattern.
        above = {} if pattern is None else {"basePath": path[: pattern.start()] or "."}
        table = self.session.read.options(**above).parquet(path)
        return table, schemas_of(self.session, table)

    def _is_delta(self, path: str) -> bool:
        """Asks Spark, since it knows file systems that this process does not."""
        from pyspark.errors import AnalysisException

        try:
            return bool(self.session.read.text(path.rstrip("/") + "/_delta_log/*.json").columns)
        except AnalysisException:
            return False

    def parts(self, run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
        if not isinstance(run, SparkRun):
            kinds = {DescribedRun: "a corpus", NormalizedRun: "--normalize-ids"}
            what = kinds.get(type(run), "passages that must be located in the hits")
            raise ConfigError(
                f"the engine spark cannot work with {what}: the hits stay on the cluster",
                code="not-with-spark",
                file=run.label,
                hint="use --engine local",
            )
        if request.rules.ties == "listed":
            raise ConfigError(
                "the engine spark does not keep the order in which hits are listed",
                code="not-with-spark",
                file=run.label,
                hint="use --ties id, or --engine local",
            )
        hits = run.frame(request.columns)
        shipped = Shipped.of(request, golds, run.label, run.layout, run.system)
        with friendly(run.label):
            for part in self._judged(hits, shipped, golds):
                if part.notes is None:
                    yield part
                else:
                    run.take_notes(part.notes)

    def _judged(self, hits: DataFrame, shipped: Shipped, golds: Golds) -> Iterator[Part]:
        """One job: hits are grouped by query if necessary, and results return."""
        if LINE not in hits.columns:
            hits, shipped = self._together(hits, shipped, golds)
        parts = hits.mapInArrow(judge_partition(self._sent(shipped)), PARTS)
        yield from map(unpack, parts.toArrow()["part"].to_pylist())  # a few bytes per query and metric

    def _together(self, hits: DataFrame, shipped: Shipped, golds: Golds) -> tuple[DataFrame, Shipped]:
        from pyspark.sql import functions as F

        limit = min(self.broadcast, _MESSAGE) if self._is_connect else self.broadcast
        # Rows of a gold set have neither equal items nor the lists of a reference run: such a set is sent whole.
        in_rows = golds.gold.equals is None and golds.gold.reference is None
        if in_rows and all(view.labels == "gold" for view in shipped.request.views) and shipped.size() > limit:
            hits, shipped = self._with_gold(hits, golds.gold), shipped.without_gold()
        order = [F.col(name).desc() if name == "score" else F.col(name) for name in _ORDER if name in hits.columns]
        gold_first = [F.col(GOLD).isNull()] if GOLD in hits.columns else []
        # Without a number, Spark may merge small partitions.
        number: tuple[Any, ...] = () if self.partitions is None else (self.partitions,)
        together = hits.repartition(*number, "query_id")
        return together.sortWithinPartitions("query_id", *gold_first, *order), shipped

    def frame(self, result: Result) -> DataFrame:
        """The scores of a result, one row per query, as a frame of the session: to join, or to write."""
        return self.session.createDataFrame(result.scores.to_arrow())

    def _with_gold(self, hits: DataFrame, gold: Gold) -> DataFrame:
        for table in gold_rows(gold):
            hits = hits.unionByName(self.session.createDataFrame(table), allowMissingColumns=True)
        return hits

    @property
    def _is_connect(self) -> bool:
        return type(self.session).__module__.startswith("pyspark.sql.connect")

    def _sent(self, shipped: Shipped) -> Callable[[], Shipped]:
        """How a worker gets it: once for all of its tasks, or, with Spark Connect, with every task."""
        if self._is_connect:
            return lambda: shipped
        sent = self.session.sparkContext.broadcast(shipped)
        return lambda: sent.value


# Rows of a frame have no order: lists are sorted like this, so that a retried task gives the same result.
_ORDER = ("system", "rank", "score", "chunk_id", "doc_id")


class SparkRun(Run):
    """A Spark frame with one row per hit, or one row per query with the list of its hits."""

    def __init__(
        self, label: str, open_: Callable[[], tuple[DataFrame, dict[str, Schema]]], system: str | None, layout: Layout
    ) -> None:
        self.label = label
        self._open = open_
        self.system = system
        self.layout = layout

    @cached_property
    def _opened(self) -> tuple[DataFrame, dict[str, Schema]]:
        """Created on first use, so that invalid input is rejected without waiting for a session."""
        with friendly(self.label):
            return self._open()

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        raise InputError(_ON_THE_CLUSTER, code="on-the-cluster", file=self.label, hint=_LOCAL_ONLY)

    knows_columns = False

    def may_say(self, column: str) -> bool:
        return True  # checking would need a session or a job; a missing column costs nothing

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        """The hits of a few queries, collected here."""
        import polars as pl
        from pyspark.sql import functions as F

        with friendly(self.label):
            some = self.frame(columns).filter(F.col("query_id").isin(queries)).toArrow()
        frame = pl.DataFrame(pl.from_arrow(some))
        if frame.height:
            yield from FrameRun(frame, self.label, system, layout=self.layout, named=True).slices(columns, Audit())

    def frame(self, columns: frozenset[str]) -> DataFrame:
        """Only the needed columns, renamed to their roles: less to shuffle."""
        from pyspark.sql import functions as F

        frame, files = self._opened
        types = {field.name: field.dataType for field in frame.schema.fields}
        nested = types.get(self.layout.columns.get(LISTS, LISTS))
        marks: dict[str, Any] = {name: _Kind(getattr(kind, "elementType", None)) for name, kind in types.items()}
        # Columns that are missing in the file that Spark inspected are looked up as well.
        anywhere = {name: _Kind(None) for schema in files.values() for name in schema}
        refuse_mixed(files, self.layout.picked(anywhere | marks, columns, self.label))
        picked = self.layout.picked(marks, columns, self.label)
        roles = {name: _role(name, role, nested is None) for name, role in picked.items()}
        self._check(types, roles)
        frame = frame.select(*(F.col(f"`{name}`").alias(role) for name, role in roles.items()))
        frame = frame.withColumn("query_id", F.col("query_id").cast("string"))
        if "system" in frame.columns and self.system is not None:
            frame = frame.filter(F.coalesce("system", F.lit("")) == self.system)
        return frame

    def _check(self, types: dict[str, Any], roles: dict[str, str]) -> None:
        there, got = set(roles.values()), ", ".join(types)
        for role in ("query_id", *(() if LISTS in there else ("chunk_id",))):
            if role not in there and not (role == "chunk_id" and "doc_id" in there):
                expected = "one of " + ", ".join(NAMES[role])
                hint = f"rename the column, or name it with --run-columns (in Python: {_COLUMNS})"
                raise InputError(
                    f"no column for {role}",
                    code="missing-column",
                    file=self.label,
                    expected=expected,
                    got=got,
                    hint=hint,
                )
        if LISTS not in there and not there & {"rank", "score"}:
            raise InputError(
                "nothing orders the hits: rows of a Spark frame have no order",
                code="missing-column",
                file=self.label,
                expected="a column rank or score",
                got=got,
            )
        for name, role in roles.items():
            kind = types[name].simpleString()
            if role in ("rank", "score") and not kind.startswith(_NUMBERS):
                what = "wrong type of column"
                raise InputError(what, code="wrong-type", file=self.label, field=name, expected="numbers", got=kind)


class SparkLog(SparkRun):
    """Karat's run log, which has one query per line: nothing has to be grouped."""

    def __init__(self, label: str, open_: Callable[[], DataFrame], system: str | None) -> None:
        super().__init__(label, lambda: (open_(), {}), system, Layout())
        self._noted = RunLog(label, [])

    def take_notes(self, notes: Any) -> None:
        self._noted.take_notes(notes)

    def provenance(self) -> dict[str, Any]:
        return self._noted.provenance()

    def frame(self, columns: frozenset[str]) -> DataFrame:
        return self._opened[0].select(LINE)

    def grouped(self) -> Run:
        hint = "one line per query and system: remove one, or give the second run another system"
        raise InputError("a query is on two lines", file=self.label, hint=hint)

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        from pyspark.sql import functions as F

        with friendly(self.label):
            asked = F.get_json_object(F.col(LINE), "$.query_id").isin(queries)
            lines = [row[0].encode() for row in self.frame(columns).filter(asked).collect()]
        yield from RunLog(self.label, lines, system).slices(columns, Audit()) if lines else ()


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "void")


class _Kind:
    """The element type of a list type, for `Layout`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def _role(name: str, said: str, flat: bool) -> str:
    """The role of a column with a usual name, so that workers and sorting use one name."""
    if said != name:
        return said
    roles = ("query_id", "system", *(("chunk_id", "doc_id", "score", "rank") if flat else ()))
    return next((role for role in roles if find_column([name], role)), name)
