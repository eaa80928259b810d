"""Histories that cannot be used: one clear message, no traceback, no password."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from refusals import refused

from karat.errors import KaratError
from karat.history.folder import FolderStore
from karat.history.location import open_store
from karat.history.postgres import PostgresStore
from karat.history.store import StoreError
from karat.results.kept_run import KeptRun

Maker = Callable[..., KeptRun]
Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
WORKER = str(Path(__file__).parent / "worker.py")


def test_no_history_yet(tmp_path: Path, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = karat_refuses("history", "list")
    assert error.code == "no-history"
    assert "--save" in str(error.hint)
    assert not (tmp_path / ".karat").exists()


@pytest.mark.parametrize("damage", [b"not a database at all, and long enough to be looked at" * 40, b"middle"])
def test_a_damaged_catalogue_is_named_and_the_runs_can_be_saved(
    tmp_path: Path, made_run: Maker, karat_command: Command, karat_refuses: Refuses, damage: bytes
) -> None:
    folder = tmp_path / ".karat"
    with FolderStore(folder) as store:
        for i in range(30):
            store.save(made_run(i))
    catalogue = folder / "history.db"
    content = catalogue.read_bytes()
    if damage == b"middle":
        damage = content[:4096] + b"\xff" * (len(content) - 4096)
    catalogue.write_bytes(damage)
    error = karat_refuses("history", "list", "--store", str(folder))
    assert error.code == "damaged-history"
    assert "karat history import" in str(error.hint)
    del error  # with it goes the connection to the broken file
    catalogue.unlink()
    files = [str(path) for path in (folder / "runs").iterdir()]
    code, _, _ = karat_command("history", "import", "--store", str(folder), *files)
    assert code == 0
    with FolderStore(folder) as store:
        assert set(store.ids()) == {made_run(i).id for i in range(30)}


def test_a_run_without_its_file(
    tmp_path: Path, made_run: Maker, karat_command: Command, karat_refuses: Refuses
) -> None:
    folder = tmp_path / ".karat"
    with FolderStore(folder) as store:
        lost, kept, cut, swapped = (store.save(made_run(i)).id for i in range(4))
    (folder / "runs" / f"{lost}.parquet").unlink()
    file = folder / "runs" / f"{cut}.parquet"
    file.write_bytes(file.read_bytes()[:2000])
    (folder / "runs" / f"{swapped}.parquet").write_bytes((folder / "runs" / f"{kept}.parquet").read_bytes())
    error = karat_refuses("history", "show", lost, "--store", str(folder))
    assert error.code == "lost-run"
    assert lost[:10] in error.what
    assert karat_refuses("history", "show", cut, "--store", str(folder)).code == "damaged-run"
    code, out, _ = karat_command("history", "check", "--store", str(folder))
    assert code == 2
    assert re.search(r"\b4\b.*\b3\b", out)  # runs, and those that are broken
    assert f"{swapped[:10]}: " in out


def without_rights(code: str) -> subprocess.CompletedProcess[str]:
    """Modes of files do not stop root: a process that may not pass over them asks."""

    def obey_modes() -> None:
        if os.geteuid() == 0:
            ctypes.CDLL(None).prctl(24, 1)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE

    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=obey_modes)


@pytest.fixture
def read_only(tmp_path: Path, made_run: Maker) -> Iterator[Path]:
    folder = tmp_path / ".karat"
    with FolderStore(folder) as store:
        store.save(made_run(1))
    for path in (folder, folder / "runs"):
        path.chmod(0o555)
    yield folder
    for path in (folder, folder / "runs"):
        path.chmod(0o755)


def test_a_read_only_folder_is_read_and_not_written(read_only: Path, made_run: Maker) -> None:
    prelude = "from karat.history.location import open_store\nfrom karat.errors import KaratError\n"
    read = without_rights(
        prelude + f"s = open_store({str(read_only)!r})\nprint(s.count(), s.kept(s.find('latest')).id)"
    )
    assert read.stdout.split() == ["1", made_run(1).id], read.stderr
    write = without_rights(
        prelude
        + f"s = open_store({str(read_only)!r}, create=True)\ntry:\n    s.tag(s.find('latest'), ['x'])\n"
        + "except KaratError as error:\n    print(error.code, bool(error.hint))"
    )
    assert write.stdout.split() == ["unusable-history", "True"], write.stderr


def test_a_place_where_no_folder_can_be_made(tmp_path: Path, karat_refuses: Refuses) -> None:
    (tmp_path / "file").write_text("x")
    error = karat_refuses("history", "import", "x.zip", "--store", str(tmp_path / "file" / ".karat"))
    assert error.code == "not-writable"


def test_a_full_disk_leaves_no_half_run(tmp_path: Path, made_run: Maker) -> None:
    """A limit on the size of files is the disk that is full after so many bytes."""
    folder = tmp_path / ".karat"
    with FolderStore(folder) as store:
        store.save(made_run(1))

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))

    code = (
        "import os, runpy, signal\nfrom karat.errors import KaratError\nfrom karat.history.location import open_store\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"made_run = runpy.run_path({WORKER!r})['made_run']\n"
        f"store = open_store({str(folder)!r})\n"
        "try:\n    store.save(made_run(2, note=os.urandom(200_000).hex()))\n"
        "except KaratError as error:\n    print(error.code, bool(error.hint))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=little_room)
    assert done.stdout.split() == ["not-writable", "True"], done.stderr
    with FolderStore(folder) as store:
        assert store.ids() == [made_run(1).id]
        assert len(list((folder / "runs").iterdir())) == 1
        assert store.save(made_run(2)).new


@pytest.fixture
def guarded(postgres: str) -> Iterator[str]:
    """The same server, for a user who needs the right password."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guarded")
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
        found = connection.execute("SHOW hba_file").fetchone()
        assert found is not None
        file = Path(found[0])
        before = file.read_text()
        file.write_text("local all guarded scram-sha-256\n" + before)
        connection.execute("SELECT pg_reload_conf()")
    yield postgres.replace("postgres:@", "guarded:s3cr3t%2Fwrong@")
    with psycopg.connect(postgres, autocommit=True) as connection:
        file.write_text(before)
        connection.execute("SELECT pg_reload_conf()")


def test_a_wrong_password_is_told_and_never_printed(guarded: str, karat_refuses: Refuses) -> None:
    error = karat_refuses("history", "list", "--store", guarded)
    assert error.code == "denied"
    assert "postgresql://guarded@/postgres" in str(error)
    assert "s3cr3t" not in str(error)


def test_a_user_who_may_not_make_tables(guarded: str, postgres: str, karat_command: Command) -> None:
    mine = guarded.replace("s3cr3t%2Fwrong", "right")
    code, _, err = karat_command("history", "list", "--store", mine)
    assert code == 2
    assert "permission denied" in err
    assert "right" not in err.replace("hint", "")
    PostgresStore(postgres).close()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("GRANT USAGE ON SCHEMA karat TO guarded")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA karat TO guarded")
    code, out, _ = karat_command("history", "list", "--store", mine)
    assert (code, out.count("\n") > 0) == (0, True)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA karat CASCADE")


def test_a_server_that_is_not_there(karat_refuses: Refuses) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, and nobody listens
        url = f"postgresql://me:s3cr3t@127.0.0.1:{port}/karat"
        error = karat_refuses("history", "list", "--store", url)
    assert error.code == "unreachable"
    assert f"postgresql://me@127.0.0.1:{port}/karat" in error.what
    assert "s3cr3t" not in str(error)


@pytest.mark.parametrize("rest", ["me:s3cr3t@host:port/x", "[me:s3cr3t@/x", "a b:s3cr3t", "h/x?password=s3cr3t&port=z"])
def test_an_address_that_is_none(rest: str, karat_command: Command) -> None:
    code, out, err = karat_command("history", "list", "--store", f"postgresql://{rest}")
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert "s3cr3t" not in err


def test_a_server_that_goes_away_and_comes_back(postgres: str, made_run: Maker) -> None:
    with PostgresStore(postgres) as store:
        store.save(made_run(1))
        with psycopg.connect(postgres, autocommit=True) as connection:
            others = "WHERE pid <> pg_backend_pid() AND state IS NOT NULL"
            connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity {others}")
        with refused("unusable-history", StoreError):
            store.count()
        assert store.count() == 1


def test_saving_is_refused_before_the_work(karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_STORE", "postgresql://127.0.0.1:1/none")
    error = karat_refuses("eval", "no_such_run.jsonl", "--gold", "no_such_gold.jsonl", "--save")
    assert error.code == "unreachable"
    with pytest.raises(StoreError):
        open_store()
