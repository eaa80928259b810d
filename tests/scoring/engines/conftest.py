"""Runs for engines, and a real Spark."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import karat

METRICS = ["recall@5", "precision@5", "mrr", "map", "ndcg@10", "ndcg(gain=linear)@10", "bpref", "judged@5"]


def need_java() -> None:
    if shutil.which("java") is not None:
        return
    if os.environ.get("KARAT_REQUIRE_SPARK") == "1":
        pytest.fail("no Java, and KARAT_REQUIRE_SPARK=1 asks for it")
    pytest.skip("no Java: install default-jre-headless")


# What a short life needs: one compiler, and one thread that cleans up.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests, for it takes seconds to start; it serves clients of Spark Connect besides."""
    need_java()
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    connect = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    for name, value in {**SETTINGS, **connect}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def hits_table(queries: int, depth: int, seed: int = 0) -> pl.DataFrame:
    """Rows of hits with distinct scores in a list, all kinds of ids, in the order of their ranks."""
    random = np.random.default_rng(seed)
    items = np.argsort(random.random((queries, 4 * depth)), axis=1)[:, :depth]
    scores = -np.sort(-random.random((queries, depth)), axis=1)
    return pl.DataFrame(
        {
            "query_id": np.repeat([f"q{i:05d}" for i in range(queries)], depth),
            "chunk_id": [f"d{i // 3}#{i % 3}" for i in items.ravel().tolist()],
            "rank": np.tile(np.arange(1, depth + 1), queries),
            "score": scores.ravel(),
        }
    )


def gold_of(queries: int, depth: int, seed: int = 1) -> dict[str, dict[str, float]]:
    """A few judged a query; the last query is not in the table, one has no relevant item."""
    random = np.random.default_rng(seed)
    return {
        f"q{i:05d}": {f"d{n // 3}#{n % 3}": float(n % 4) for n in random.integers(0, 4 * depth, 6).tolist()}
        for i in range(1, queries + 1)
    }


def assert_same(left: karat.Result, right: karat.Result) -> None:
    """To the last bit, and with the same counts of what was settled."""
    assert left.queries == right.queries
    assert list(left.values) == list(right.values)
    for name, values in left.values.items():
        assert values.tobytes() == right.values[name].tobytes(), name
    for name in ("depths", "places", "rows"):
        assert (getattr(left, name) == getattr(right, name)).all(), name
    assert left.missing == right.missing
    assert {e.code: e.count for e in left.audit} == {e.code: e.count for e in right.audit}
    assert left.summary_rows == right.summary_rows


def write_nested(table: pl.DataFrame, path: Path, **names: str) -> Path:
    hit = pl.struct(pl.exclude("query_id")).alias("topk")
    table.group_by("query_id", maintain_order=True).agg(hit).rename(names).write_parquet(path)
    return path
