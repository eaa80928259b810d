"""What is said where Spark cannot do what is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import karat
from golden import check
from karat.scoring.engines.spark_session import find_session
from wording import file, refusals

Case = Callable[[], object]
GOLD = {"q": {"a": 1.0}}
TABLE = pl.DataFrame({"query_id": ["q", "q"], "chunk_id": ["a", "b"], "rank": [1, 2], "score": [2.0, 1.0]})


def test_errors_of_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scored(table: pl.DataFrame, **options: Any) -> Case:
        return lambda: karat.evaluate(spark.createDataFrame(table.to_arrow()), GOLD, ["mrr"], **options)

    def files(**tables: pl.DataFrame) -> Case:
        def call() -> None:
            for name, table in tables.items():
                table.write_parquet(f"{name}.parquet")
            karat.evaluate(str(Path.cwd()), GOLD, ["mrr"], engine=spark)

        return call

    def delta() -> None:
        TABLE.write_delta("run")
        karat.evaluate(str(Path("run").resolve()), GOLD, ["mrr"], engine=spark)

    def read_before() -> None:
        TABLE.write_parquet("run.parquet")
        karat.evaluate(karat.read_run("run.parquet", columns={"query_id": "query_id"}), GOLD, ["mrr"], engine=spark)

    def without_java() -> None:
        with monkeypatch.context() as patch:
            patch.setenv("PATH", str(tmp_path))
            patch.delenv("JAVA_HOME", raising=False)
            find_session("local[1]")

    passages = [{"query_id": "q", "gold": [{"doc_id": "d1", "quote": "some words"}]}]
    cases: dict[str, Case] = {
        "nothing puts hits in order": scored(TABLE.select("query_id", "chunk_id")),
        "no column for the query": scored(TABLE.rename({"query_id": "asked"})),
        "a column of another type": scored(TABLE.with_columns(rank=pl.lit(True))),
        "a score that is a word": scored(TABLE.with_columns(score=pl.lit("high"))),
        "files of other columns": files(a=TABLE[:1], b=TABLE[1:].drop("rank")),
        "a file that is not there": lambda: karat.evaluate("nothing", GOLD, ["mrr"], engine=spark),
        "a Delta table without a reader": delta,
        "gold of passages": lambda: karat.evaluate(spark.createDataFrame(TABLE.to_arrow()), passages, ["mrr"]),
        "a run that was read before": read_before,
        "a run in memory": lambda: karat.evaluate({"q": {"a": 1.0}}, GOLD, ["mrr"], engine=spark),
        "a corpus": lambda: scored(TABLE, corpus=file("corpus.jsonl", '{"id": "a", "text": "words"}'))(),
        "a file that is no table": lambda: karat.evaluate(file("run.txt", "q a 1"), GOLD, ["mrr"], engine=spark),
        "no Java": without_java,
        "an address that is not one": lambda: find_session("http://127.0.0.1"),
        "no bytes to send": lambda: karat.systems.Spark(broadcast=-1),  # type: ignore[arg-type]
        "no task": lambda: karat.systems.Spark(partitions=0),  # type: ignore[arg-type]
    }
    check("wording/errors_spark.txt", refusals({"Spark": cases}, tmp_path))
