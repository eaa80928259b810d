"""A database is known by every spelling of its address; no address becomes a folder, and no password is shown."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from refusals import refused

from karat.errors import ConfigError, KaratError
from karat.history.location import open_store
from karat.history.postgres import PostgresStore

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
SPELLINGS = ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2", "POSTGRESQL", "PostgreSQL+asyncpg"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("scheme", SPELLINGS)
@pytest.mark.parametrize("way", ["option", "variable", "file"])
def test_every_spelling_is_a_database(
    scheme: str, way: str, nobody: int, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{scheme}://me:s3cr3t-pw@127.0.0.1:{nobody}/karat"
    if way == "variable":
        monkeypatch.setenv("KARAT_STORE", url)
    elif way == "file":
        Path("karat.yaml").write_text(f"store: {url}\n")
    trust = ("--trust-config",) if way == "file" else ()
    error = karat_refuses("history", "list", *(("--store", url) if way == "option" else trust))
    assert error.code == "unreachable"
    assert f"postgresql://me@127.0.0.1:{nobody}/karat" in error.what
    assert "s3cr3t" not in str(error)
    assert [path.name for path in Path().iterdir()] == (["karat.yaml"] if way == "file" else [])


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "POSTGRES"])
def test_a_history_and_its_page(scheme: str, postgres: str, karat_command: Command) -> None:
    url = postgres.replace("postgresql://postgres:@", f"{scheme}://postgres:s3cr3t-pw@")
    assert url.startswith(scheme)
    code, out, err = karat_command("history", "list", "--store", url, "-o", "list.html", "-o", "list.md")
    assert code == 0
    written = [Path(name).read_text() for name in ("list.html", "list.md")]
    assert "history list --store" in written[0]
    assert "s3cr3t" not in "".join([out, err, *written])
    with open_store(url) as store:
        assert isinstance(store, PostgresStore)
    assert sorted(path.name for path in Path().iterdir()) == ["list.html", "list.md"]


@pytest.mark.parametrize(
    "place",
    [
        "mysql://me:s3cr3t-pw@host/karat",
        "sqlite:///s3cr3t-pw",
        "postgresql:/me:s3cr3t-pw@host/karat",
        "postgre://me:s3cr3t-pw@host/karat",
        " postgres ://x",
        "file:///data/s3cr3t-pw",
        "host=db dbname=karat password=s3cr3t-pw",
    ],
)
def test_what_is_neither_is_refused_and_no_folder_is_made(place: str) -> None:
    with refused("bad-store", ConfigError) as caught:
        open_store(place, create=True)
    assert "s3cr3t" not in str(caught.value)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("place", ["my/history", "C:\\history", "a:b", "a=b", "karat, 1"])
def test_folders_of_all_names(place: str) -> None:
    open_store(place, create=True).close()
    assert list(Path().iterdir()) != []
