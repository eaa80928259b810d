"""Finds the engine that a user names."""

from __future__ import annotations

from typing import Any

from karat.errors import ConfigError
from karat.registry import Registry
from karat.scoring.engines.base import Engine, Local

REGISTRY: Registry[Engine] = Registry("engine", "karat.scoring.engines", Engine, "karat.engines")  # type: ignore[type-abstract]


def find_engine(engine: Any, run: Any = None, spark_master: str | None = None) -> Engine:
    """An engine, its name, or the user's own Spark session. A Spark frame is always read by Spark."""
    if spark_master is not None:
        return _spark_at(spark_master, engine)
    if isinstance(engine, Engine):
        return engine
    if _of_spark(engine) or (engine in (None, "spark") and _of_spark(run)):
        from karat.scoring.engines.spark import Spark

        return Spark(engine if _of_spark(engine) else run.sparkSession)
    if engine in (None, "local"):
        return Local()
    if isinstance(engine, str):
        return REGISTRY.require(engine)()
    expected = ", ".join(sorted(REGISTRY.everything())) + " or a SparkSession"
    raise ConfigError("not an engine", code="unknown-engine", expected=expected, got=type(engine).__name__)


def _spark_at(master: str, engine: Any) -> Engine:
    if engine != "spark":
        raise ConfigError(
            "a Spark master needs the engine spark",
            code="contradiction",
            got=engine or "local",
            hint="add --engine spark",
        )
    from karat.scoring.engines.spark import Spark

    return Spark(master=master)


def _of_spark(thing: Any) -> bool:
    """Checks the name of the module, so that nothing is imported without Spark."""
    return type(thing).__module__.partition(".")[0] == "pyspark"
