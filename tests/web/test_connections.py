"""Many clients, and slow ones: whoever asks quickly is answered."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from karat.web.access import Access
from karat.web.connections import Limits
from karat.web.guard import ALWAYS, Patience
from karat.web.turns import Gone, Turns

_T = TypeVar("_T")
HEAD = b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def opened(site: Any, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = [
            stack.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=60)) for _ in range(count)
        ]
        for one in made:
            one.sendall(sent)
        yield made


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def ran(work: Coroutine[Any, Any, _T]) -> _T:
    """In a thread of its own: browsers of other tests leave a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def rest(connection: socket.socket) -> bytes:
    """What comes until it is closed."""
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize(
    "sent", [b"", HEAD, b"PUT /api/v1/pins/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: 9\r\n\r\n"]
)
def test_connections_that_do_nothing_are_in_nobodys_way(site: Any, sent: bytes) -> None:
    with opened(site, 300, sent):
        until(lambda: len(site.server.server_state.connections) >= 300)
        assert site.get("/runs").status == 200


def test_answers_are_sent_at_once(site: Any) -> None:
    """Else the second part of one waits until the client has confirmed the first, which takes 40 ms."""
    with opened(site, 1, HEAD + b"\r\n") as made:
        assert b" 200 " in made[0].recv(100)
        (connection,) = site.server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_thousand_requests_at_once(site: Any) -> None:
    async def ask() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(HEAD + b"Connection: close\r\n\r\n")
        status = int((await reader.readline()).split()[1])
        await reader.read()
        writer.close()
        return status

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(ask() for _ in range(1000)))

    assert set(ran(all_at_once())) == {200}


def test_the_slowest_go_first_when_there_are_too_many(store: Any, serving: Any) -> None:
    with serving(store, Access(), limits=Limits(connections=10, each=10)) as site, opened(site, 10, HEAD) as slow:
        until(lambda: len(site.server.server_state.connections) >= 10)
        assert [site.get("/runs").status for _ in range(3)] == [200] * 3
        assert rest(slow[0]) == b""
        slow[-1].sendall(b"Connection: close\r\n\r\n")
        assert b" 200 " in rest(slow[-1])


def test_nobody_is_dropped_while_being_answered(store: Any, serving: Any) -> None:
    sent = b"PUT /api/v1/pins/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: 9\r\n\r\n"
    with serving(store, Access(), limits=Limits(connections=3, each=3)) as site, opened(site, 3, sent) as busy:
        until(lambda: len(site.server.server_state.tasks) >= 3)
        with opened(site, 1) as more:
            said = rest(more[0])
            assert b" 503 " in said
            assert all(f"{name}: {value}".encode() in said for name, value in ALWAYS.items())
        for one in busy:
            one.sendall(b"not json!")
            assert b" 400 " in one.recv(100)


def test_bodies_that_stall_make_room(store: Any, serving: Any) -> None:
    """The longest silent one goes, also if a letter came now and then; the others are answered when theirs comes."""
    sent = b"PUT /api/v1/pins/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: 9\r\n\r\n"
    limits = Limits(connections=3, each=3, stall=0.3)
    with serving(store, Access(), limits=limits) as site, opened(site, 3, sent) as busy:
        until(lambda: len(site.server.server_state.tasks) >= 3)
        busy[0].sendall(b"n")
        time.sleep(0.4)
        assert [site.get("/runs").status for _ in range(3)] == [200] * 3
        assert rest(busy[0]) == b""
        for one in busy[1:]:
            one.sendall(b"not json!")
            assert b" 400 " in one.recv(100)


def test_bodies_that_stall_are_the_problem_of_their_client_only(store: Any, tmp_path: Path, served: Any) -> None:
    """As many as one client may open: it waits until they count as stalled; another client is served meanwhile."""
    each = Limits().each
    room = resource.getrlimit(resource.RLIMIT_NOFILE)
    if room[1] < 2 * each:
        pytest.skip("too few open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(room[0], 2 * each), room[1]))
    sent = b"PUT /api/v1/pins/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: 9\r\n\r\n"
    with served(tmp_path / ".karat") as site:
        assert site.get("/runs", "127.0.0.2").status == 200  # everything is loaded
        with opened(site, each, sent):
            begun = time.monotonic()
            statuses = [site.get(path, "127.0.0.2").status for path in ("/runs", "/runs/n0", "/api/v1/runs") * 5]
            took = time.monotonic() - begun
            until(lambda: site.get("/runs").status == 200)
        assert statuses == [200] * 15
        assert took < 25  # waiting until one counts as stalled takes 2 s each time


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD])
def test_headers_must_come(store: Any, serving: Any, sent: bytes) -> None:
    with serving(store, Access(), limits=Limits(headers=0.5)) as site, opened(site, 1, sent) as made:
        said = rest(made[0])
        assert (b" 408 " in said) is bool(sent)
        assert not sent or all(f"{name}: {value}".encode() in said for name, value in ALWAYS.items())


def test_headers_that_come_letter_by_letter(store: Any, serving: Any) -> None:
    with serving(store, Access(), limits=Limits(headers=0.2)) as site, opened(site, 1, HEAD) as made:
        begun = time.monotonic()
        try:
            while time.monotonic() - begun < 60:
                made[0].sendall(b"a")
                time.sleep(0.02)
        except OSError:
            pass
        assert time.monotonic() - begun < 30


def test_the_second_request_of_a_connection_has_the_same_limit(store: Any, serving: Any) -> None:
    with serving(store, Access(), limits=Limits(headers=0.5)) as site, opened(site, 1, HEAD + b"\r\n" + HEAD) as made:
        said = rest(made[0])
        assert b" 200 " in said
        assert b" 408 " in said


@pytest.mark.parametrize("path", ["/api/v1/pins/x", "/api/v1/runs"])
def test_bodies_must_come(store: Any, serving: Any, path: str) -> None:
    method = "POST" if path.endswith("runs") else "PUT"
    sent = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: 50\r\n\r\nhalf".encode()
    with serving(store, Access(), patience=Patience(0.1)) as site, opened(site, 1, sent) as made:
        said = rest(made[0])
        assert b" 408 " in said
        assert all(f"{name}: {value}".lower().encode() in said.lower() for name, value in ALWAYS.items())


def test_who_does_not_read_is_dropped(store: Any, serving: Any) -> None:
    with serving(store, Access(), limits=Limits(reading=0.2)) as site:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", site.port))
        sending = b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300
        made.sendall(sending)
        until(lambda: len(site.server.server_state.connections) == 0)
        made.close()


def test_who_reads_slowly_gets_everything(store: Any, serving: Any, made_run: Any) -> None:
    """An answer that takes longer than a connection may be idle, and than a client may stand still."""
    run = store.save(made_run(7, 40_000)).id
    limits = Limits(idle=1, reading=0.5, least_read=1000, headers=0.5)
    with serving(store, Access(), limits=limits) as site, socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        made.connect(("127.0.0.1", site.port))
        made.settimeout(20)
        made.sendall(f"GET /api/v1/runs/{run}/result HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        said, begun = made.recv(2000), time.monotonic()
        length = int(said.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        wanted = said.index(b"\r\n\r\n") + 4 + length
        got = len(said)
        while got < wanted:
            part = made.recv(65536)
            assert part, (got, wanted)
            got += len(part)
            if time.monotonic() - begun < 2.0:
                time.sleep(0.1)
        assert got == wanted


def test_clients_take_turns() -> None:
    """One that asks for much waits behind itself."""
    order: list[str] = []

    async def ask(turns: Turns, client: str) -> None:
        async with turns.turn(client):
            order.append(client)
            await asyncio.sleep(0)

    async def all_at_once() -> None:
        turns = Turns(1)
        await asyncio.gather(*(ask(turns, client) for client in "aaaaaabbc"))
        assert order == list("aabcabaaa")
        await asyncio.gather(*(ask(turns, client) for client in "ab"))  # nobody has kept a turn

    ran(all_at_once())


def test_who_leaves_gives_the_turn_back() -> None:
    async def leave() -> None:
        return

    async def scene() -> None:
        turns = Turns(1)
        async with turns.turn("a"):
            with pytest.raises(Gone):
                async with turns.turn("b", leave):
                    raise AssertionError
            waiting = asyncio.ensure_future(_take(turns))
            await asyncio.sleep(0)
            waiting.cancel()
        async with asyncio.timeout(5), turns.turn("d"):
            pass

    ran(scene())


async def _take(turns: Turns) -> None:
    async with turns.turn("c"):
        raise AssertionError


def test_many_first_requests_do_not_end_the_server(store: Any, tmp_path: Path) -> None:
    """msgspec learns of a struct when it is first read, which threads must not do at once."""
    script = """if True:
        import sys, threading
        from pathlib import Path
        from karat.history.folder import FolderStore
        from karat.web.access import Access
        from karat.web.app import create_app
        from karat.results.kept_run import read_document
        store = FolderStore(Path(sys.argv[1]))
        create_app(store, Access())
        text, ready = store._document(store.find("n0")), threading.Barrier(12)
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=lambda: (ready.wait(), read_document(text, "x"))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / ".karat")], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
