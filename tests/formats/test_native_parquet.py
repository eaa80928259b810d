"""The native reader of Parquet says what polars says, or leaves the rest of the file to it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import plainly
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.data.ids import as_list
from karat.errors import KaratError
from karat.files.native import native
from karat.files.parquet_file import Unusual, table_of
from karat.formats.parquet import ParquetRun
from karat.formats.parquet_rows import query_rows
from karat.formats.read import read_gold, read_run
from karat.formats.table_file import Scan

pytestmark = pytest.mark.skipif(native() is None, reason="no native reader: it is made by `make native`")

ROWS = 400
TABLE: dict[str, list[Any]] = {
    "query_id": [f"q{i // 9}" for i in range(ROWS)],
    "chunk_id": [f"doc_{i * 37 % 101}" if i % 3 else f"päge {i}#{'x' * (i % 40)}" for i in range(ROWS)],
    "rank": [i % 9 + 1 for i in range(ROWS)],
    "score": [(ROWS - i) / 7 for i in range(ROWS)],
}


def outcome(path: Path, **options: Any) -> Any:
    """Systems, queries, hits and what was counted; or why it was refused."""
    audit = Audit()
    try:
        run = read_run(path, **options)
        try:
            found = list(run.slices(frozenset(), audit))
        except Exception as error:
            if type(error).__name__ != "Ungrouped":
                raise
            found = list(run.grouped().slices(frozenset(), audit))
    except KaratError as error:
        return error.code, error.line, error.field, error.query
    lists: dict[tuple[str, str], Any] = {}
    for hits in found:
        for at, query in enumerate(hits.queries):
            rows = slice(hits.offsets[at], hits.offsets[at + 1])
            numbers = [None if n is None else repr(n[rows].tolist()) for n in (hits.score, hits.rank)]
            lists[hits.system, query] = (as_list(hits.ids)[rows], *numbers, hits.score_field, hits.rowwise)
    return lists


def rows_read(path: Path) -> int:
    """How many rows the native reader reads of a whole table."""
    table, read = table_of(path), 0
    assert table is not None
    try:
        for piece in query_rows(table, "query_id", "chunk_id", ["rank", "score"], rows=50):
            read += len(piece.ids)
    except Unusual:
        pass
    return read


WRITERS: dict[str, Any] = {
    "polars": lambda frame, path: frame.write_parquet(path),
    "polars, snappy, small pages": lambda frame, path: frame.write_parquet(
        path, compression="snappy", row_group_size=90, data_page_size=100
    ),
    "polars, plain": lambda frame, path: frame.write_parquet(path, compression="uncompressed", row_group_size=64),
    "polars, gzip": lambda frame, path: frame.write_parquet(path, compression="gzip"),
    "arrow": lambda frame, path: pq.write_table(frame.to_arrow(), path),
    "arrow, second pages": lambda frame, path: pq.write_table(
        frame.to_arrow(), path, data_page_version="2.0", data_page_size=128, row_group_size=150
    ),
    "arrow, second pages, zstd": lambda frame, path: pq.write_table(
        frame.to_arrow(), path, data_page_version="2.0", compression="zstd"
    ),
    "arrow, no dictionary": lambda frame, path: pq.write_table(
        frame.to_arrow(), path, use_dictionary=False, data_page_size=77
    ),
    "arrow, required": lambda frame, path: pq.write_table(_required(frame.to_arrow()), path),
}


def _required(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))


@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_every_writer_are_read_whole(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    WRITERS[writer](pl.DataFrame(TABLE), path)
    assert rows_read(path) == ROWS
    assert outcome(path) == plainly(lambda: outcome(path))


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int16, pl.Int64, pl.Float32])
def test_numbers_of_every_size(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pl.DataFrame(TABLE).with_columns(pl.col("rank").cast(kind)).write_parquet(path)
    assert rows_read(path) == ROWS
    assert outcome(path) == plainly(lambda: outcome(path))


def changed(column: str, at: int, value: Any) -> pl.DataFrame:
    values = [*TABLE[column]]
    values[at] = value
    return pl.DataFrame({**TABLE, column: values}, strict=False)


ODD = {
    "empty id": changed("chunk_id", 333, ""),
    "missing id": changed("chunk_id", 333, None),
    "blank before an id": changed("chunk_id", 333, " a"),
    "NUL": changed("chunk_id", 333, "a\0b"),
    "long id": changed("chunk_id", 333, "x" * 500),
    "missing query": changed("query_id", 333, None),
    "line break": changed("query_id", 333, "a\nb"),
    "query comes back": changed("query_id", 333, "q0"),
    "query comes back at once": changed("query_id", 3, "q5"),
    "no rank": changed("rank", 333, None),
    "infinite": changed("score", 333, float("inf")),
    "not a number": changed("score", 333, float("nan")),
    "whole numbers as ids": pl.DataFrame({**TABLE, "chunk_id": list(range(ROWS))}),
    "unsigned": pl.DataFrame(TABLE).with_columns(pl.col("rank").cast(pl.UInt64)),
    "numbers as text": pl.DataFrame(TABLE).with_columns(pl.col("rank").cast(pl.String)),
    "one system": pl.DataFrame({**TABLE, "system": ["bm25"] * ROWS}),
    "two systems": pl.DataFrame({**TABLE, "system": ["bm25"] * 333 + ["dense"] * (ROWS - 333)}),
    "systems in turn": pl.DataFrame({**TABLE, "system": ["bm25", "dense"] * (ROWS // 2)}),
    "a system missing": pl.DataFrame({**TABLE, "system": ["bm25"] * 333 + [None] * (ROWS - 333)}),
    "documents too": pl.DataFrame({**TABLE, "doc_id": ["d"] * ROWS}),
    "no rows": pl.DataFrame(TABLE)[:0],
    "one row": pl.DataFrame(TABLE)[:1],
    "one query": pl.DataFrame({**TABLE, "query_id": ["q"] * ROWS}),
    "each its own query": pl.DataFrame({**TABLE, "query_id": list(map(str, range(ROWS)))}),
    "only ids": pl.DataFrame(TABLE).select("query_id", "chunk_id"),
    "grades": pl.DataFrame(TABLE).select("query_id", "chunk_id", grade="rank"),
    "lists": pl.DataFrame(TABLE).group_by("query_id", maintain_order=True).agg(topk="chunk_id"),
}


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("case", ODD)
def test_what_is_odd_is_as_without_the_native_reader(
    case: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`small`: in pieces, so that polars takes over in the middle."""
    path = tmp_path / "run.parquet"
    ODD[case].write_parquet(path, row_group_size=100 if small else None)
    if small:
        monkeypatch.setattr("karat.formats.parquet_rows.query_rows.__kwdefaults__", {**_defaults(), "rows": 40})
    assert outcome(path) == plainly(lambda: outcome(path))


def _defaults() -> dict[str, Any]:
    return dict(query_rows.__kwdefaults__ or {})


def test_rows_that_were_read_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.parquet"
    changed("chunk_id", 333, "").write_parquet(path, row_group_size=100)
    monkeypatch.setattr("karat.formats.parquet_rows.query_rows.__kwdefaults__", {**_defaults(), "rows": 40})
    starts: list[int] = []
    rows = Scan.rows
    monkeypatch.setattr(Scan, "rows", lambda self, names, at, size: starts.append(at) or rows(self, names, at, size))
    outcome(path)
    assert starts[0] == 279  # of 40 rows at a time, those from 280 on had the odd id in their group


@pytest.mark.parametrize("writer", ["arrow", "polars, snappy, small pages"])
def test_parts_begin_in_the_middle(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    WRITERS[writer](pl.DataFrame(TABLE), path)
    whole = outcome(path)
    parts = ParquetRun(str(path), [Scan(str(path))]).parts(40 * 70)
    assert parts is not None
    found: dict[Any, Any] = {}
    for part in parts:
        for hits in part.slices(frozenset(), Audit()):
            for at, query in enumerate(hits.queries):
                found[hits.system, query] = as_list(hits.ids)[hits.offsets[at] : hits.offsets[at + 1]]
    assert found == {name: lists[0] for name, lists in whole.items()}


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["a", "b", "doc_12345678901234567"])


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), TEXTS, st.integers(-5, 9), st.floats(width=32)), max_size=60),
    st.sampled_from(sorted(WRITERS)),
)
def test_random_tables(tmp_path_factory: pytest.TempPathFactory, rows: list[Any], writer: str) -> None:
    path = tmp_path_factory.getbasetemp() / "random.parquet"
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    schema = {"query_id": pl.String, "chunk_id": pl.String, "rank": pl.Int64, "score": pl.Float64}
    WRITERS[writer](pl.DataFrame(dict(zip(TABLE, map(list, columns), strict=True)), schema), path)
    assert outcome(path) == plainly(lambda: outcome(path))


@settings(max_examples=40)
@given(st.data())
def test_damaged_files_are_read_alike_or_refused(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Bytes of a header or a level may change without a trace; values may not differ."""
    path = tmp_path_factory.getbasetemp() / "damaged.parquet"
    out = io.BytesIO()
    pl.DataFrame(TABLE)[:40].write_parquet(out, compression=data.draw(st.sampled_from(["snappy", "uncompressed"])))
    content = bytearray(out.getvalue())
    content[data.draw(st.integers(4, len(content) - 5))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    found, wanted = outcome(path), plainly(lambda: outcome(path))
    assert found == wanted or isinstance(wanted, tuple)


def test_gold(tmp_path: Path) -> None:
    path = tmp_path / "gold.parquet"
    frame = pl.DataFrame(TABLE).select("query_id", "chunk_id", grade=pl.col("rank") % 3)
    for table in (
        frame,
        frame.drop("grade"),
        frame.with_columns(topic=pl.lit("x")),
        frame.sample(fraction=1.0, seed=1),
    ):
        table.write_parquet(path, row_group_size=90)
        ours, plain = read_gold(path), plainly(lambda: read_gold(path))
        assert ours.queries == plain.queries
        assert as_list(ours.ids) == as_list(plain.ids)
        assert np.array_equal(ours.grades, plain.grades)
    changed("rank", 5, None).select("query_id", "chunk_id", grade="rank").write_parquet(path)
    with refused("missing-value", file=path, line=6, field="grade"):
        read_gold(path)


def test_a_file_that_expands_too_far_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.parquet"
    one, many = pl.DataFrame({"query_id": ["q"], "chunk_id": ["a"], "rank": [1]}), pl.repeat(0, 4_000_000, eager=True)
    one[many].write_parquet(path)
    monkeypatch.setenv("KARAT_MAX_EXPANSION", "5")
    assert outcome(path)[0] == plainly(lambda: outcome(path))[0] == "expands-too-far"


def test_polars_is_not_needed(tmp_path: Path) -> None:
    import subprocess

    run, gold = tmp_path / "run.parquet", tmp_path / "gold.parquet"
    pl.DataFrame(TABLE).write_parquet(run)
    pl.DataFrame(TABLE).select("query_id", "chunk_id", grade=pl.lit(1)).write_parquet(gold)
    code = "import sys, karat; karat.evaluate(*sys.argv[1:], ['recall@5']).means; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, str(run), str(gold)]).returncode == 0
    assert karat.evaluate(run, gold, ["recall@5"]).means
