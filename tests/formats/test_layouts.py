"""How lakehouses keep runs: nested lists, parted folders, patterns, names of their own, Delta."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import polars as pl
import pytest
from refusals import refused
from tests.scoring.engines.conftest import METRICS, assert_same, gold_of, hits_table, write_nested

import karat
from karat.errors import InputError, KaratError
from karat.results.evaluate import evaluate_all

TABLE, GOLD = hits_table(30, 8), gold_of(30, 8)


def expected() -> karat.Result:
    return karat.evaluate(TABLE, GOLD, METRICS)


def test_a_list_a_query(tmp_path: Path) -> None:
    assert_same(expected(), karat.evaluate(write_nested(TABLE, tmp_path / "run.parquet"), GOLD, METRICS))


def test_an_empty_list_is_a_query_without_hits(tmp_path: Path) -> None:
    frame = pl.DataFrame({"query_id": ["q1", "q2", "q3"], "topk": [[{"chunk_id": "a"}], [], None]})
    frame.write_parquet(tmp_path / "run.parquet")
    result = karat.evaluate(tmp_path / "run.parquet", {q: {"a": 1.0} for q in ("q1", "q2", "q3")}, ["recall@5"])
    assert result.score("recall@5") == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert result.audit["empty_results"] == 2


def test_a_list_of_bare_ids(tmp_path: Path) -> None:
    pl.DataFrame({"query_id": ["q1"], "topk": [["b", "a"]]}).write_parquet(tmp_path / "run.parquet")
    assert karat.evaluate(tmp_path / "run.parquet", {"q1": {"a": 1.0}}, ["mrr"]).means == {"mrr": 0.5}


def test_two_lists_for_a_query_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"query_id": ["q1", "q1"], "topk": [["b"], ["a"]]}).write_parquet(tmp_path / "run.parquet")
    with refused("duplicate-query", InputError, query="q1"):
        karat.evaluate(tmp_path / "run.parquet", {"q1": {"a": 1.0}}, ["mrr"])


@pytest.mark.parametrize("nested", [False, True])
def test_columns_under_names_of_their_own(tmp_path: Path, nested: bool) -> None:
    (tmp_path / "columns.yaml").write_text(
        "query_id: request\nchunk_id: passage\nrank: place\nscore: cosine\n" + ("topk: results\n" if nested else "")
    )
    table = TABLE.rename({"chunk_id": "passage", "rank": "place", "score": "cosine"})
    table = table.with_columns(pl.lit("no such item").alias("chunk_id"))  # a name that means something else here
    if nested:
        write_nested(table, tmp_path / "run.parquet", topk="results", query_id="request")
    else:
        table.rename({"query_id": "request"}).write_parquet(tmp_path / "run.parquet")
    run = karat.read_run(tmp_path / "run.parquet", columns=tmp_path / "columns.yaml")
    assert_same(expected(), karat.evaluate(run, GOLD, METRICS))


def test_a_csv_under_names_of_its_own(tmp_path: Path) -> None:
    names = {"query_id": "request", "chunk_id": "passage", "rank": "place"}
    TABLE.drop("score").rename(names).write_csv(tmp_path / "run.csv")
    run = karat.read_run(tmp_path / "run.csv", columns=names)
    assert karat.evaluate(run, GOLD, METRICS).means == expected().means


@pytest.mark.parametrize(
    ("columns", "code", "named"),
    [
        ("query_id: requests\n", "missing-column", "requests"),
        ("chunk_id: passages\n", "missing-column", "passages"),
        ("quer_id: request\n", "unknown-column", "quer_id"),
        ("query_id: 3\n", "wrong-type", "query_id"),
        ("- query_id\n", "wrong-type", "query_id"),
        ("query_id: [\n", "not-yaml", "columns.yaml"),
    ],
)
def test_a_bad_map_of_columns(tmp_path: Path, columns: str, code: str, named: str) -> None:
    TABLE.write_parquet(tmp_path / "run.parquet")
    (tmp_path / "columns.yaml").write_text(columns)

    def read() -> None:
        run = karat.read_run(tmp_path / "run.parquet", columns=tmp_path / "columns.yaml")
        karat.evaluate(run, GOLD, METRICS)

    with refused(code) as caught:
        read()
    assert named in str(caught.value)
    assert "columns.yaml" in str(caught.value)


def test_a_field_that_nested_hits_lack(tmp_path: Path) -> None:
    run = karat.read_run(write_nested(TABLE, tmp_path / "run.parquet"), columns={"chunk_id": "passage"})
    with refused("missing-field", InputError, field="topk") as caught:
        karat.evaluate(run, GOLD, METRICS)
    assert "passage" in caught.value.what
    assert "chunk_id" in caught.value.hint


def parted(folder: Path) -> Path:
    """Two systems, two files each; a query goes on in the next file."""
    for system in ("bm25", "d%20e"):
        part = folder / f"system={system}" / "day=2025-06-01"
        part.mkdir(parents=True)
        TABLE[:101].write_parquet(part / "part-0.parquet")
        TABLE[101:].with_columns(pl.col("rank").cast(pl.Int32)).write_parquet(part / "part-1.parquet")
        (part / "_SUCCESS").write_text("")
        TABLE[:5].write_parquet(part / "_part-9.parquet")
    return folder


def test_a_parted_folder(tmp_path: Path) -> None:
    results = evaluate_all(parted(tmp_path / "runs"), GOLD, METRICS)
    assert list(results) == ["bm25", "d e"]
    for result in results.values():
        assert_same(expected(), result)


def test_one_system_of_a_parted_folder(tmp_path: Path) -> None:
    assert_same(expected(), karat.evaluate(parted(tmp_path / "runs"), GOLD, METRICS, system="d e"))
    with refused("unknown-system", InputError, file=tmp_path / "runs"):
        karat.evaluate(tmp_path / "runs", GOLD, METRICS, system="x")


def test_a_pattern(tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    folder = parted(tmp_path / "runs") / "system=bm25" / "day=2025-06-01"
    assert_same(expected(), karat.evaluate(f"{folder}/part-*.parquet", GOLD, METRICS, system="bm25"))
    with refused("no-such-file", InputError, file=f"{folder}/nothing-*.parquet") as caught:
        karat.read_run(f"{folder}/nothing-*.parquet")
    assert caught.value.hint


def test_files_with_other_columns(tmp_path: Path) -> None:
    TABLE[:100].write_parquet(tmp_path / "a.parquet")
    TABLE[100:].drop("score").write_parquet(tmp_path / "b.parquet")
    with refused("mixed-columns", InputError, file=tmp_path):
        karat.evaluate(tmp_path, GOLD, METRICS)


def test_a_file_that_is_no_parquet_among_them(tmp_path: Path) -> None:
    TABLE.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("query_id,chunk_id\n")
    with refused("not-parquet", InputError, file=tmp_path / "b.parquet"):
        karat.read_run(tmp_path)


def test_a_delta_table(tmp_path: Path) -> None:
    table = TABLE.with_columns(system=pl.lit("bm25"))
    path = str(tmp_path / "runs")
    deltalake.write_deltalake(path, table[:100].to_arrow(), partition_by=["system"])
    deltalake.write_deltalake(path, table[100:].to_arrow(), mode="append")
    # A file that the log does not name (any more) is no part of the table.
    table[:50].with_columns(query_id=pl.lit("q00003")).write_parquet(tmp_path / "runs" / "stray.parquet")
    found = karat.evaluate(path, GOLD, METRICS)
    assert all(found.values[m].tobytes() == expected().values[m].tobytes() for m in METRICS)
    assert found.system == "bm25"


def test_a_broken_delta_table(tmp_path: Path) -> None:
    (tmp_path / "runs" / "_delta_log").mkdir(parents=True)
    with refused("unreadable-table", InputError):
        karat.evaluate(tmp_path / "runs", GOLD, METRICS)


@pytest.mark.parametrize("path", ["s3://bucket/x.parquet", "s3a://bucket/runs/*.parquet", "abfss://c@a.net/runs"])
def test_a_remote_path_needs_spark(path: str, karat_refuses: Callable[..., KaratError], tmp_path: Path) -> None:
    (gold := tmp_path / "gold.jsonl").write_text('{"query_id": "q", "gold": ["a"]}\n')
    error = karat_refuses("eval", path, "--gold", str(gold))
    assert (error.code, error.file) == ("remote-path", path)
    assert "--engine spark" in str(error.hint)
