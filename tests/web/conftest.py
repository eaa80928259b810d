"""A real server on loopback, over a real history."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
import uvicorn
import uvicorn.server
from logins import access_of

from karat.history.folder import FolderStore
from karat.history.store import Store
from karat.labels.desk import Desk, open_desk
from karat.results.kept_run import KeptRun
from karat.web.access import Access
from karat.web.server import listen, made_server

WORKER = Path(__file__).parents[1] / "history" / "worker.py"
JSON = {"X-Karat": "1", "Content-Type": "application/json"}


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Site:
    """A server, and how it is asked."""

    def __init__(self, port: int, store: Store, access: Access, server: uvicorn.Server) -> None:
        self.port, self.store, self.access, self.server = port, store, access, server
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, headers: dict[str, str] | None = None, **asked: Any) -> Answer:
        query = f"?{urlencode(asked, doseq=True)}" if asked else ""
        return self.ask("GET", f"/api/v1{path}{query}", headers=headers)

    def write(self, method: str, path: str, value: Any = None, **headers: str) -> Answer:
        body = None if value is None else json.dumps(value).encode()
        return self.ask(method, f"/api/v1{path}", body, {**JSON, **headers})


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> Iterator[None]:
    """A server looks every 0.1 s whether it should end, and waits as long for its clients: half a test."""
    often = SimpleNamespace(**{**vars(asyncio), "sleep": lambda seconds: asyncio.sleep(seconds / 20)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", often)
        yield


@contextmanager
def _serving(store: Store, access: Access, desk: Desk | None = None, **limits: Any) -> Iterator[Site]:
    socket = listen("127.0.0.1", 0, access)
    server = made_server(store, access, desk, **limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.002)
    try:
        yield Site(socket.getsockname()[1], store, access, server)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serving() -> Callable[..., Any]:
    """A server for a store, as long as a block lasts."""
    return _serving


class Served(NamedTuple):
    """A `karat serve` in a process of its own."""

    port: int
    pid: int

    def get(self, path: str, address: str = "127.0.0.1", **headers: str) -> Answer:
        """`address`: of the client."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60, source_address=(address, 0))
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def children(self) -> list[int]:
        found = [path.read_text() for path in Path(f"/proc/{self.pid}/task").glob("*/children")]
        return [int(number) for numbers in found for number in numbers.split()]

    def peak(self) -> int:
        """MB of memory that it needed so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10


@pytest.fixture(scope="session")
def served() -> Callable[..., Any]:
    """A real `karat serve` for a folder, as long as a block lasts."""

    @contextmanager
    def serve(folder: Path, **environment: str) -> Iterator[Served]:
        command = [sys.executable, "-m", "karat", "serve", "--store", str(folder), "--port", "0"]
        given = {**os.environ, **environment}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=given) as process:
            try:
                assert process.stdout is not None
                said = process.stdout.readline().decode()
                yield Served(int(said.partition("127.0.0.1:")[2].partition("/")[0]), process.pid)
            finally:
                process.terminate()
                process.wait(30)

    return serve


@pytest.fixture(scope="session")
def made_run() -> Callable[..., KeptRun]:
    made: Any = runpy.run_path(str(WORKER))["made_run"]
    return made  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def four_runs(tmp_path_factory: pytest.TempPathFactory, made_run: Callable[..., KeptRun]) -> Path:
    """Four runs on four days; the first is pinned as main."""
    folder = tmp_path_factory.mktemp("four_runs") / ".karat"
    with FolderStore(folder) as opened:
        for i in range(4):
            run = made_run(i, system=("bm25", "hybrid")[i % 2])
            opened.save(run, branch="main", tags=[f"n{i}"], saved_at=f"2025-06-0{i + 1}T08:00:00.000000Z")
        opened.pin(opened.find("n0"), "main", "baseline")
    return folder


@pytest.fixture
def store(tmp_path: Path, four_runs: Path) -> Iterator[Store]:
    """A copy that a test may change."""
    shutil.copytree(four_runs, tmp_path / ".karat")
    with FolderStore(tmp_path / ".karat") as opened:
        yield opened


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    """Open to everyone on this machine, as `karat serve` is."""
    with _serving(store, Access()) as made:
        yield made


@pytest.fixture
def locked(store: Store) -> Iterator[Site]:
    """With a token and a user."""
    with _serving(store, access_of("ada", token="t" * 20)) as made:
        yield made


QUERIES = {"refund": "How long does a refund take?", "card": "When does my card ship?"}
TEXTS = (
    "A refund takes five days.",
    "Cards ship in two weeks.",
    "A refund needs a receipt.",
    "Nothing of it.",
    "Ships!",
)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Ten pairs in a pool, all graded by a judge, and a file for the labels of people."""
    pairs = [{"query_id": query, "chunk_id": f"{query}#{i}"} for query in QUERIES for i in range(len(TEXTS))]
    pool = [{**pair, "query": QUERIES[str(pair["query_id"])], "text": TEXTS[i % 5]} for i, pair in enumerate(pairs)]
    judged = [{**pair, "grade": i % 3, "annotator": "m-1", "kind": "judge"} for i, pair in enumerate(pairs)]
    for name, lines in (
        ("pool", [{**x, "origin": {"ranks": {"bm25": 1}}} for x in pool]),
        ("judge", judged),
    ):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = [str(tmp_path / f"{name}.jsonl") for name in ("pool", "labels", "judge")]
    with open_desk(files[:1], files[1], files[2:]) as opened:
        yield opened


@pytest.fixture
def labelling(store: Store, desk: Desk) -> Iterator[Site]:
    """Open to everyone on this machine, with the pool."""
    with _serving(store, Access(), desk) as made:
        yield made
