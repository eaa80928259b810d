"""Parquet that is damaged or hostile: an error that says so, and never the end of the process that asked."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from refusals import refused

import karat
from karat.errors import KaratError
from karat.files.parquet_check import expanded_size
from karat.files.safe_parquet import _WORKERS, CRASH, ParquetSource, UnreadableParquet
from karat.files.thrift import DamagedParquet
from karat.results.kept_run import read_kept

KILLERS = sorted((Path(__file__).parents[1] / "fuzz" / "parquet").glob("*.parquet"))
GOLD = {"q1": ["a"]}
FRAME = pl.DataFrame({"query_id": ["q1", "q1", "q2"], "chunk_id": ["a", "b", None], "score": [1.0, 0.5, 0.25]})


def parquet(frame: pl.DataFrame, **how: str) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out, **how)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.parquet"
    path.write_bytes(parquet(FRAME))
    return path


@pytest.mark.parametrize("path", KILLERS, ids=lambda path: path.stem)
def test_files_that_ended_the_process_are_refused(path: Path) -> None:
    with refused("unreadable-table", file=path):
        karat.evaluate(path, GOLD)
    with pytest.raises(KaratError):  # by its columns, or because it cannot be read
        karat.read_gold(path, format="table")
    with refused("damaged-run", file="here"):
        read_kept(path.read_bytes(), "here")
    with pytest.raises(DamagedParquet):
        expanded_size(io.BytesIO(path.read_bytes()), path.stat().st_size)


def test_a_killed_worker_is_a_damaged_file_and_the_next_one_is_read(file: Path) -> None:
    """Whatever ends the worker: here a signal, in the middle of a read."""
    source = ParquetSource(file)
    assert source.height() == 3
    with _WORKERS.one() as worker:
        os.kill(worker.pid, signal.SIGSTOP)
    threading.Timer(0.1, os.kill, (worker.pid, signal.SIGKILL)).start()
    with pytest.raises(UnreadableParquet) as caught:
        source.height()
    assert caught.value.kind == CRASH
    assert source.rows().equals(FRAME)


def test_what_the_worker_says_is_what_polars_says(file: Path) -> None:
    for source in (ParquetSource(file), ParquetSource(file.read_bytes())):
        assert source.rows().equals(FRAME)
        assert source.rows(["score"], 1, 1).equals(FRAME[1:2].select("score"))
        assert source.schema() == FRAME.schema
        assert source.height() == 3
        found = source.collect(lambda frame: frame.filter(pl.col("query_id") == "q2").select("score"))
        assert found["score"].to_list() == [0.25]


@pytest.mark.parametrize("change", [lambda p: p.unlink(), lambda p: p.write_bytes(b"PAR1"), lambda p: p.chmod(0)])
def test_a_file_that_cannot_be_read(file: Path, change: Callable[[Path], object]) -> None:
    change(file)
    if os.access(file, os.R_OK) and file.stat().st_size > 4:
        pytest.skip("nothing is forbidden to root")
    with pytest.raises(UnreadableParquet):
        ParquetSource(file).rows()


def test_a_changed_file_is_checked_again(file: Path) -> None:
    assert ParquetSource(file).height() == 3
    file.write_bytes(file.read_bytes()[:-20] + b"PAR1")
    with pytest.raises(UnreadableParquet):
        ParquetSource(file).height()


def test_every_thread_may_read(file: Path) -> None:
    heights: list[int] = []
    threads = [threading.Thread(target=lambda: heights.append(ParquetSource(file).height())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heights == [3] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_workers_of_its_own(file: Path) -> None:
    assert ParquetSource(file).height() == 3
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if ParquetSource(file).height() == 3 and len(_WORKERS._idle) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ParquetSource(file).height() == 3


@pytest.mark.parametrize("compression", ["zstd", "snappy", "uncompressed", "gzip", "lz4", "brotli"])
def test_good_files_of_every_kind_pass_the_check(compression: str) -> None:
    nested = FRAME.with_columns(topk=pl.Series([[{"id": "a", "s": 1.0}], [], None]), day=pl.Series([None] * 3))
    for frame in (FRAME, nested, FRAME.clear(), pl.concat([FRAME] * 5000)):
        content = parquet(frame, compression=compression)
        size = expanded_size(io.BytesIO(content), len(content))
        assert size >= frame["score"].len() * 8
        assert ParquetSource(content).rows().equals(frame)


def test_files_of_arrow_pass_the_check() -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    table = pl.concat([FRAME] * 1000).with_columns(topk=pl.lit(["x" * 40])).to_arrow()
    for how in (
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "data_page_size": 200},
        {"write_page_index": True, "compression": "none", "row_group_size": 100},
        {"column_encoding": {"score": "BYTE_STREAM_SPLIT"}, "use_dictionary": False},
    ):
        out = io.BytesIO()
        arrow.write_table(table, out, **how)
        assert ParquetSource(out.getvalue()).height() == 3000


def test_one_long_text_that_stands_for_many(tmp_path: Path) -> None:
    """A dictionary has it once, so that the file is small; as texts it would take 2 GB."""
    path = tmp_path / "run.parquet"
    frame = pl.DataFrame({"query_id": "q1", "chunk_id": pl.repeat("x" * (1 << 20), 2000, eager=True), "rank": 1})
    path.write_bytes(parquet(frame))
    assert path.stat().st_size < 1 << 17
    with refused("expands-too-far", file=path):
        karat.evaluate(path, GOLD)


def test_pages_that_unpack_to_too_much(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    frame = pl.DataFrame({"query_id": ["q1"], "document": ["x" * (80 << 20)]})
    path.write_bytes(parquet(frame))
    for call in (lambda: karat.evaluate(path, GOLD), lambda: karat.load(path), lambda: karat.read_gold(path)):
        with refused("expands-too-far", file=path):
            call()


def test_the_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    content = parquet(pl.DataFrame({"text": ["x" * (80 << 20)]}))
    with pytest.raises(UnreadableParquet):
        ParquetSource(content).height()
    monkeypatch.setenv("KARAT_MAX_EXPANSION", "100000")
    assert ParquetSource(content).height() == 1
    with pytest.raises(UnreadableParquet):
        ParquetSource(content, most=1 << 20).height()
    monkeypatch.setenv("KARAT_MAX_EXPANSION", "much")
    with pytest.raises(KaratError):
        ParquetSource(content)
