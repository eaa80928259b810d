"""A real `karat serve`: most pages come from other processes, and nobody sees a difference."""

from __future__ import annotations

import http.client
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from karat.history.archive import pack
from karat.history.folder import FolderStore
from karat.results.kept_run import KeptRun
from karat.web.access import Access

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
PAGES = [
    "/runs",
    "/runs?system=bm25&limit=2",
    "/runs?limit=x",
    "/trend",
    "/trend?metric=recall@5",
    "/trend?metric=nonsense",
    "/runs/main",
    "/runs/n2",
    "/runs/nothing",
    "/runs/main/queries?order=best&text=q1",
    "/runs/main/queries?metric=nonsense",
    "/runs/main/triage",
    "/compare",
    "/compare?run=n0&run=n1",
    "/compare?run=n0&run=n1&first=oldest",
    "/query?query_id=q6",
    "/query?query_id=%C3%A4%22%3C",
]
KILLERS = sorted((Path(__file__).parents[1] / "fuzz" / "parquet").glob("*.parquet"))
LONG = "how long does a refund of this order take "


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_pages_are_the_same(store: Any, tmp_path: Path, serving: Any, served: Any) -> None:
    with serving(store, Access()) as here, served(tmp_path / ".karat") as there:
        for path in PAGES:
            own, other = here.ask("GET", path), there.get(path)
            assert (other.status, other.content) == (own.status, own.content), path
            assert sorted(other.headers.keys()) == sorted(own.headers.keys()), path
            assert other.headers.get("location") == own.headers.get("location"), path
        assert there.children()


def test_a_secret_is_hidden_in_them_too(tmp_path: Path, made_run: Any, served: Any) -> None:
    token = "very-secret-token-1234"
    with FolderStore(tmp_path / ".karat") as store:
        store.save(made_run(0, system=f"hybrid {token}"))
    with served(tmp_path / ".karat", KARAT_TOKEN=token) as site:
        answer = site.get("/api/v1/runs", Authorization=f"Bearer {token}")
        page = site.get("/runs/latest", Authorization=f"Bearer {token}")
    assert (answer.status, page.status) == (200, 200)
    assert b"hybrid ***" in page.content
    assert token.encode() not in page.content + answer.content


def test_a_process_that_ends_is_replaced(store: Any, tmp_path: Path, served: Any) -> None:
    with served(tmp_path / ".karat") as site:
        assert site.get("/runs/n0").status == 200
        before = site.children()
        for child in before:
            os.kill(child, signal.SIGKILL)
        assert [site.get(f"/runs/n{i}").status for i in range(4)] == [200] * 4
        assert set(site.children()) - set(before)


def test_a_damaged_file_is_said(store: Any, tmp_path: Path, served: Any) -> None:
    """A file that crashes polars ends the process that makes the page; the server says what is wrong."""
    with served(tmp_path / ".karat") as site:
        for killer in KILLERS:
            store.source(store.find("n0")).write_bytes(killer.read_bytes())
            answer = site.get("/runs/n0")
            assert answer.status in (400, 503)
            assert b"is damaged" in answer.content
            assert site.get("/runs/n1").status == 200


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_server(store: Any, tmp_path: Path, served: Any, end: signal.Signals) -> None:
    with served(tmp_path / ".karat") as site:
        assert site.get("/compare?run=n0&run=n1").status == 200
        children = site.children()
        assert len(children) >= 3
        os.kill(site.pid, end)
        until(lambda: not any(map(running, children)))


def test_many_uploaded_runs_take_the_memory_of_few(tmp_path: Path, made_run: Any, served: Any) -> None:
    """30 runs of 4 MB in an archive of 1 MB: only one is unpacked at a time."""

    def archive(count: int) -> bytes:
        with FolderStore(tmp_path / f"{count}") as store:
            for i in range(count):
                run = made_run(i, 1000)
                texts = pl.Series([f"{q} {LONG * 100}" for q in range(1000)])
                store.save(KeptRun(run.text, run.rows.with_columns(query=texts)))
            return pack(store, store.ids())

    def upload(content: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=300)
        connection.request("POST", "/api/v1/runs", content, {"X-Karat": "1", "Content-Type": "application/zip"})
        status = connection.getresponse().status
        connection.close()
        return status

    one, many = archive(1), archive(30)
    assert len(many) < 2 << 20
    with served(tmp_path / ".karat") as site:
        assert upload(one) == 200
        first = site.peak()
        assert upload(many) == 200
        assert site.peak() < min(first + 50, 300)
