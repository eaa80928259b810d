"""On a real Spark: the same numbers as here, and one clear message for whatever may be wrong."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from doc_pages import blocks
from refusals import refused
from tests.scoring.engines.conftest import METRICS, assert_same, gold_of, hits_table, write_nested

import karat
from karat.data.audit import Audit
from karat.data.hits import Run
from karat.data.ids import take_list
from karat.errors import ConfigError, InputError, MissingExtra
from karat.results.evaluate import evaluate_all
from karat.results.queries.triage import triage, triage_need
from karat.results.save import saved_form
from karat.scoring.engines.spark_session import find_session

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
TABLE, GOLD = hits_table(300, 12), gold_of(300, 12)


def rows(run: Run) -> pl.DataFrame:
    """The hits of any run as a table."""
    found = []
    for hits in run.slices(frozenset(), Audit()):
        for query, start, end in zip(hits.queries, hits.offsets, hits.offsets[1:], strict=False):
            ids = take_list(hits.ids, np.arange(start, end))
            scores = [None] * len(ids) if hits.score is None else hits.score[start:end].tolist()
            found += [(query, i, rank, s) for rank, (i, s) in enumerate(zip(ids, scores, strict=True), 1)]
    return pl.DataFrame(found, ["query_id", "chunk_id", "rank", "score"], orient="row")


def scattered(table: pl.DataFrame) -> pl.DataFrame:
    return table.sample(fraction=1.0, shuffle=True, seed=5)


def test_unsorted_rows_over_partitions(spark: Any) -> None:
    frame = spark.createDataFrame(scattered(TABLE).to_arrow()).repartition(7)
    assert_same(karat.evaluate(TABLE, GOLD, METRICS), karat.evaluate(frame, GOLD, METRICS, engine=spark))


def test_gold_that_is_not_broadcast(spark: Any) -> None:
    frame = spark.createDataFrame(scattered(TABLE).to_arrow())
    joined = karat.evaluate(
        frame, GOLD, [*METRICS, "recall(level=doc)@5"], engine=karat.systems.Spark(spark, broadcast=100)
    )
    assert_same(karat.evaluate(TABLE, GOLD, [*METRICS, "recall(level=doc)@5"]), joined)


def test_a_run_as_gold_is_sent_whole(spark: Any) -> None:
    """Whatever its size: rows of a gold set would lose equal neighbours and the reference."""
    exact = TABLE.drop("rank").with_columns(pl.col("score").round(1))
    metrics = ["recall@3", "precision@3", "rbo@5", "jaccard@5"]
    gold = karat.read_gold(karat.read_run(exact), depth=3)
    assert gold.equals is not None
    frame, engine = spark.createDataFrame(scattered(TABLE).to_arrow()), karat.systems.Spark(spark, broadcast=100)
    assert_same(karat.evaluate(TABLE, gold, metrics), karat.evaluate(frame, gold, metrics, engine=engine))


def test_the_demo_set_with_all_that_is_reported(spark: Any, tmp_path: Path) -> None:
    table = rows(karat.read_run(DEMO / "bm25.jsonl"))
    table.write_parquet(tmp_path / "run.parquet")
    local = karat.evaluate(tmp_path / "run.parquet", DEMO / "gold.jsonl")
    there = karat.evaluate(str(tmp_path / "run.parquet"), DEMO / "gold.jsonl", engine=spark)
    assert_same(local, there)
    assert saved_form(local).summary == saved_form(there).summary


def test_the_code_of_the_guide_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DEMO)
    rows(karat.read_run("bm25.jsonl")).write_parquet(tmp_path / "hits.parquet")
    page = (DEMO.parents[1] / "docs" / "guides" / "spark.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.kind == "python" and block.not_run == "needs Spark":
            code = re.sub(r'parquet\("(.+?)"\)', rf'parquet("{tmp_path}/\1")', block.text)  # Spark has its own folder
            exec(code, names)
    assert names["again"] == names["result"]["recall@5"].mean
    assert pl.read_parquet(tmp_path / "scores" / "*.parquet").height == 287


def test_the_code_of_the_page_about_scale_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DEMO)
    frame = spark.createDataFrame(rows(karat.read_run("bm25.jsonl")).to_arrow())
    page = (DEMO.parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"karat": karat, "spark": spark, "df": frame}
    for block in blocks(page):
        if block.kind == "python" and block.not_run == "needs Spark":
            if "request_id" in block.text:
                names["df"] = frame.withColumnRenamed("query_id", "request_id")
            exec(block.text.replace('parquet("', f'parquet("{tmp_path}/'), names)
    assert names["result"].scores.height == 287
    assert pl.read_parquet(tmp_path / "scores" / "*.parquet").height == 287


def test_a_real_trec_run(spark: Any, shared_data: Path) -> None:
    folder = shared_data / "trec_covid_r1"
    table = rows(karat.read_run(folder / "runs" / "BERT")).drop("rank")
    frame = spark.createDataFrame(scattered(table).to_arrow())
    assert_same(
        karat.evaluate(table, folder / "qrels-rnd1.txt", METRICS),
        karat.evaluate(frame, folder / "qrels-rnd1.txt", METRICS, engine=spark),
    )


def test_many_rows_in_no_order(spark: Any, tmp_path: Path) -> None:
    """More than Spark hands to Python at a time, in every partition."""
    table, gold = hits_table(4_000, 50), gold_of(4_000, 50)
    table.sample(fraction=1.0, shuffle=True, seed=5).write_parquet(tmp_path / "run.parquet")
    local = karat.evaluate(table, gold, METRICS)
    assert_same(local, karat.evaluate(str(tmp_path / "run.parquet"), gold, METRICS, engine=spark))


def test_a_delta_table_without_a_reader(spark: Any, tmp_path: Path) -> None:
    """Its folder holds former versions too: read as Parquet, it would give hits that are no longer there."""
    TABLE.write_delta(tmp_path / "run")
    with refused("no-delta", InputError, file=tmp_path / "run") as caught:
        karat.evaluate(str(tmp_path / "run"), GOLD, METRICS, engine=spark)
    assert "io.delta:delta-spark" in caught.value.hint
    assert "--engine local" in caught.value.hint


def test_skewed_queries_and_empty_partitions(spark: Any) -> None:
    """One query has nearly all hits, and there are more partitions than queries."""
    giant = hits_table(1, 20_000).with_columns(query_id=pl.lit("q00001"))
    table = pl.concat([giant, TABLE.filter(pl.col("query_id") > "q00295")])
    engine = karat.systems.Spark(spark, partitions=16)
    assert_same(
        karat.evaluate(table, GOLD, METRICS),
        karat.evaluate(spark.createDataFrame(table.to_arrow()), GOLD, METRICS, engine=engine),
    )


def test_duplicates_across_partitions(spark: Any) -> None:
    twice = pl.concat([TABLE, TABLE.with_columns(pl.col("rank") + 12)])
    found = karat.evaluate(spark.createDataFrame(twice.to_arrow()).repartition(5), GOLD, METRICS, engine=spark)
    assert found.audit["duplicate_hits"] == len(TABLE) - 12  # the hits of q00000, which has no gold, are left out
    assert_same(karat.evaluate(twice.sort("query_id", "rank"), GOLD, METRICS), found)


def test_nested_lists_under_names_of_their_own(spark: Any, tmp_path: Path) -> None:
    path = write_nested(TABLE.rename({"chunk_id": "passage"}), tmp_path / "run.parquet", topk="found", query_id="asked")
    engine = karat.systems.Spark(spark)
    run = engine.read_run(path, columns={"query_id": "asked", "topk": "found", "chunk_id": "passage"})
    assert_same(karat.evaluate(TABLE, GOLD, METRICS), karat.evaluate(run, GOLD, METRICS, engine=engine))


def test_several_systems(spark: Any) -> None:
    both = pl.concat([TABLE.with_columns(system=pl.lit("a")), TABLE[:2400].with_columns(system=pl.lit("b"))])
    frame = spark.createDataFrame(both.to_arrow())
    there, here = evaluate_all(frame, GOLD, METRICS), evaluate_all(both, GOLD, METRICS)
    assert set(there) == {"a", "b"}
    for system, result in there.items():
        assert_same(here[system], result)
    assert_same(here["b"], karat.evaluate(frame, GOLD, METRICS, system="b"))


def test_folders_named_by_columns(spark: Any, tmp_path: Path) -> None:
    for system, part in (("a", TABLE), ("b", TABLE[:2400])):
        (folder := tmp_path / f"system={system}").mkdir()
        part.write_parquet(folder / "part-0.parquet")
    for path in (str(tmp_path), f"{tmp_path}/*/*.parquet"):
        there, here = (evaluate_all(path, GOLD, METRICS, engine=engine) for engine in (spark, "local"))
        assert set(there) == {"a", "b"}
        for system, result in there.items():
            assert_same(here[system], result)


def test_scores_can_be_written_back(spark: Any, tmp_path: Path) -> None:
    result = karat.evaluate(spark.createDataFrame(TABLE.to_arrow()), GOLD, METRICS)
    karat.systems.Spark(spark).frame(result).write.parquet(str(tmp_path / "scores"))
    back = pl.read_parquet(tmp_path / "scores" / "*.parquet").sort("query_id")
    assert back["map"].to_list() == result.scores.sort("query_id")["map"].to_list()


def test_the_command_line(spark: Any, tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    table = rows(karat.read_run(DEMO / "bm25.jsonl"))
    table.write_parquet(tmp_path / "part-1.parquet")
    run, gold = str(tmp_path / "part-*.parquet"), str(DEMO / "gold.jsonl")
    local = karat_command("eval", run, "--gold", gold)
    code, out, err = karat_command("eval", run, "--gold", gold, "--engine", "spark")
    assert (code, err) == (0, "")
    panel = [line for line in local[1].splitlines() if "recall@5" in line]
    assert panel
    assert set(panel) <= set(out.splitlines())


# A process of its own: which Spark a Python process speaks to is settled once.
CLIENT = """
import sys
import polars as pl
import karat
from pyspark.sql import SparkSession
from tests.scoring.engines.conftest import METRICS, assert_same, gold_of, hits_table

master, run = sys.argv[1:]
table, gold = hits_table(300, 12), gold_of(300, 12)
table.write_parquet(run)
local = karat.evaluate(table, gold, METRICS)
spark = SparkSession.builder.remote(master).getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
assert_same(local, karat.evaluate(spark.read.parquet(run), gold, METRICS, engine=spark))
assert_same(local, karat.evaluate(run, gold, METRICS, engine=karat.systems.Spark(master=master, broadcast=100)))
assert karat.systems.Spark(spark).frame(local).count() == len(local.queries)
print("the same")
"""


def test_spark_connect(spark: Any, tmp_path: Path) -> None:
    master = f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CLIENT, master, str(tmp_path / "run.parquet")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr[-3000:]


def test_a_list_that_says_nothing_of_order(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.select("query_id", "chunk_id").to_arrow())
    with refused("missing-column", InputError, got="query_id, chunk_id"):
        karat.evaluate(frame, GOLD, METRICS)


def test_a_missing_column(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.rename({"query_id": "asked"}).to_arrow())
    with refused("missing-column", InputError) as caught:
        karat.evaluate(frame, GOLD, METRICS)
    assert caught.value.got.startswith("asked")
    assert "--run-columns" in caught.value.hint


def test_a_column_of_the_wrong_type(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.with_columns(rank=pl.lit(True)).to_arrow())
    with refused("wrong-type", InputError, field="rank", got="boolean"):
        karat.evaluate(frame, GOLD, METRICS)


def test_what_a_worker_finds_wrong(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.with_columns(score=pl.lit("high")).to_arrow())
    with refused("bad-value", InputError, field="score", got="high"):
        karat.evaluate(frame, GOLD, METRICS)


def test_files_whose_types_differ(spark: Any, tmp_path: Path) -> None:
    TABLE[:100].write_parquet(tmp_path / "a.parquet")
    TABLE[100:].with_columns(pl.col("score").cast(pl.String)).write_parquet(tmp_path / "b.parquet")
    with refused("mixed-columns", InputError):
        karat.evaluate(str(tmp_path), GOLD, METRICS, engine=spark)


ORDERED, BY_SCORE = TABLE[1200:], TABLE[:1200].drop("rank")
TEXT_RANK = TABLE[:1200].with_columns(pl.col("rank").cast(pl.String))


@pytest.mark.parametrize(
    ("first", "second", "odd", "other"),
    [
        (BY_SCORE, ORDERED, "a.parquet", "b.parquet"),
        (ORDERED, BY_SCORE, "b.parquet", "a.parquet"),
        (ORDERED, TEXT_RANK, "b.parquet", "a.parquet"),
    ],
)
@pytest.mark.parametrize("remote", [False, True])
def test_files_whose_columns_differ(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Any,
    second: Any,
    odd: str,
    other: str,
    remote: bool,
) -> None:
    """Spark takes the columns of one file for those of all: ranks would be lost without a word."""
    first.write_parquet(tmp_path / "a.parquet")
    second.write_parquet(tmp_path / "b.parquet")
    if remote:  # as of a file that this process does not see
        monkeypatch.setattr("karat.scoring.engines.spark_session._path_here", lambda file: None)
    for path in (str(tmp_path), f"{tmp_path}/*.parquet"):
        with refused("mixed-columns", InputError, field="rank") as caught:
            karat.evaluate(path, GOLD, ["mrr"], engine=spark)
        assert caught.value.file.endswith(odd)
        assert other in caught.value.expected
        assert (caught.value.got.lower() == "string") == (second is TEXT_RANK)
    if second is not TEXT_RANK:  # numbers that are text in some file are numbers here
        with refused("mixed-columns", InputError):
            karat.evaluate(str(tmp_path), GOLD, ["mrr"])


def test_columns_that_do_not_matter_may_differ(spark: Any, tmp_path: Path) -> None:
    TABLE[:1200].with_columns(note=pl.lit("x")).write_parquet(tmp_path / "a.parquet")
    TABLE[1200:].with_columns(pl.col("rank").cast(pl.Int32)).write_parquet(tmp_path / "b.parquet")
    assert_same(karat.evaluate(TABLE, GOLD, METRICS), karat.evaluate(str(tmp_path), GOLD, METRICS, engine=spark))


def test_no_such_path(spark: Any, tmp_path: Path) -> None:
    with refused("no-such-file", InputError):
        karat.evaluate(str(tmp_path / "nothing"), GOLD, METRICS, engine=spark)


def test_gold_of_passages_needs_the_hits_here(spark: Any) -> None:
    gold = [{"query_id": q, "gold": [{"doc_id": "d1", "quote": "some words"}]} for q in GOLD]
    with refused("on-the-cluster", InputError):
        karat.evaluate(spark.createDataFrame(TABLE.to_arrow()), gold, METRICS)


def test_lists_of_other_runs_are_read_here(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.to_arrow())
    other = TABLE.with_columns(pl.col("rank").reverse())
    there, here = (
        karat.evaluate(run, GOLD, METRICS, raw=other, original=other, routes={"a": other}, analyses=True)
        for run in (frame, TABLE)
    )
    assert there.analyses == here.analyses


def test_a_run_log_says_the_same(spark: Any) -> None:
    """Scores, analyses, provenance and the lists that a page shows."""
    log, gold = DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl"
    there, here = (
        karat.evaluate(log, gold, engine=engine, consumers=[triage_need])
        for engine in (karat.systems.Spark(spark), "local")
    )
    assert saved_form(there) == saved_form(here)
    assert triage(there, 300) == triage(here, 300)


def test_names_of_columns_for_a_frame(spark: Any) -> None:
    engine = karat.systems.Spark(spark)
    frame = spark.createDataFrame(TABLE.rename({"query_id": "asked"}).to_arrow())
    run = engine.read_run(frame, columns={"query_id": "asked"})
    assert_same(karat.evaluate(TABLE, GOLD, METRICS), karat.evaluate(run, GOLD, METRICS, engine=engine))


def test_a_run_that_was_not_read_by_spark(spark: Any, tmp_path: Path) -> None:
    TABLE.rename({"query_id": "asked"}).write_parquet(tmp_path / "run.parquet")
    run = karat.read_run(tmp_path / "run.parquet", columns={"query_id": "asked"})
    with refused("read-already", ConfigError) as caught:
        karat.evaluate(run, GOLD, METRICS, engine=spark)
    assert "columns=" in caught.value.hint


# In a process of its own, in which Spark cannot start: there is no Java.
WITHOUT_SPARK = [
    (["run.txt"], "run.txt: "),
    (["run.parquet", "--corpus", str(DEMO / "corpus.jsonl")], "corpus"),
    (["delta"], "delta: "),
    (["run.parquet"], "Java"),
]


@pytest.mark.parametrize(("arguments", "said"), WITHOUT_SPARK)
def test_what_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    table = rows(karat.read_run(DEMO / "bm25.jsonl"))
    table.write_parquet(tmp_path / "run.parquet")
    table.write_delta(tmp_path / "delta")
    (tmp_path / "run.txt").write_bytes((DEMO / "bm25.jsonl").read_bytes())
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    env = {**os.environ, "JAVA_HOME": "nowhere", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "karat", "eval", *arguments, "--gold", str(DEMO / "gold.jsonl")]
    command += ["--engine", "spark"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert said in done.stderr


OTHER_PYTHON = """
import sys
import karat
from pyspark.sql import SparkSession
from tests.scoring.engines.conftest import SETTINGS

spark = SparkSession.builder.master("local[1]").config(map=SETTINGS).getOrCreate()
frame = spark.createDataFrame([("q", "a", 1)], "query_id string, chunk_id string, rank int")
try:
    karat.evaluate(frame, {"q": {"a": 1.0}}, ["mrr"])
except karat.KaratError as error:
    assert f"PYSPARK_PYTHON={sys.executable} " in str(error), error
    print("told")
"""


def test_workers_with_another_python(spark: Any, tmp_path: Path) -> None:
    """As from a virtual environment that is not activated: its packages are not those of the workers."""
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys._base_executable} "$@"\n')  # type: ignore[attr-defined]
    bare.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_PYTHON": str(bare)}
    command = [sys.executable, "-c", OTHER_PYTHON]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "told\n", done.stderr[-3000:]


@pytest.mark.parametrize("settings", [{"broadcast": -1}, {"partitions": 0}])
def test_settings_that_make_no_sense(settings: dict[str, int]) -> None:
    with refused("bad-setting", ConfigError, got=next(iter(settings.values()))):
        karat.systems.Spark(**settings)  # type: ignore[arg-type]


def test_what_needs_single_hits_here(spark: Any) -> None:
    frame = spark.createDataFrame(TABLE.to_arrow())
    with refused("not-with-spark", ConfigError):
        karat.evaluate(frame, GOLD, METRICS, corpus=DEMO / "corpus.jsonl")
    with refused("unreadable-object", InputError):
        karat.evaluate({"q": {"a": 1.0}}, GOLD, METRICS, engine=spark)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with refused("no-java", ConfigError) as caught:
        find_session("local[1]")
    assert "default-jre-headless" in caught.value.hint


def test_the_wrong_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with refused("old-java", ConfigError, got="11"):
        find_session("local[1]")


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with refused("missing-package", MissingExtra, package="pyspark", extra="spark"):
        find_session("local[1]")


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1", "spark://127.0.0.1:nine"])
def test_an_unreachable_master(master: str) -> None:
    with refused("unreachable", ConfigError, got=master):
        find_session(master)


def test_no_master_at_all() -> None:
    with refused("bad-address", ConfigError, got="http://127.0.0.1"):
        find_session("http://127.0.0.1")
