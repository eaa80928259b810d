"""Answers that are kept: made once, never old, and never of somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from logins import access_of

from karat.history.folder import FolderStore
from karat.history.rows import Judgement
from karat.history.store import Store
from karat.results.kept_run import KeptRun
from karat.web.access import Access
from karat.web.remember import Remember

PAGES = (
    "/runs",
    "/trend?metric=recall@5",
    "/runs/n0",
    "/runs/n0/queries",
    "/compare?run=n0&run=n1",
    "/pins",
    "/query?query_id=q1",
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Counted:
    """How often an answer was made."""

    def __init__(self, app: Any) -> None:
        self.app, self.made = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.made += 1
        await self.app(scope, receive, send)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    found: list[Counted] = []
    begin = Remember.__init__

    def counting(self: Remember, app: Any, store: Store, most: int = 64 << 20, **more: Any) -> None:
        found.append(Counted(app))
        begin(self, found[-1], store, most, **more)

    monkeypatch.setattr(Remember, "__init__", counting)
    return found


@pytest.fixture
def counting(counted: list[Counted], store: Store, serving: Any) -> Iterator[Any]:
    with serving(store, Access()) as site:
        site.ask("GET", "/static/style.css")  # the application is built with the first request
        yield site


def made_for(counted: list[Counted], ask: Callable[[], Any]) -> int:
    before = counted[-1].made
    ask()
    return counted[-1].made - before


@pytest.mark.parametrize("path", [*PAGES, "/api/v1/runs", "/api/v1/runs/n0", "/api/v1/pins"])
def test_the_same_is_made_once(counting: Any, counted: list[Counted], path: str) -> None:
    first = counting.ask("GET", path)
    for _ in range(3):
        again: list[Any] = []
        assert made_for(counted, lambda kept=again: kept.append(counting.ask("GET", path))) == 0
        assert (again[0].status, again[0].content) == (first.status, first.content) == (200, again[0].content)
        assert again[0].headers["content-security-policy"]
    counting.write("PUT", "/runs/n1/tags/new")
    assert made_for(counted, lambda: counting.ask("GET", path)) == (0 if path in _OF_N0 else 1)


_OF_N0 = ("/runs/n0", "/runs/n0/queries", "/api/v1/runs/n0")  # nothing was written about this run


def test_many_who_ask_at_once_wait_for_one(counting: Any, counted: list[Counted]) -> None:
    with ThreadPoolExecutor(12) as pool:
        made = made_for(counted, lambda: list(pool.map(lambda _: counting.ask("GET", "/trend"), range(12))))
    assert made == 1


def writes(store: Store, made_run: Callable[..., KeptRun]) -> list[Callable[[], Any]]:
    n0, n1 = store.find("n0"), store.find("n1")
    return [
        lambda: store.tag(n0, ["fresh"]),
        lambda: store.untag(n0, ["fresh"]),
        lambda: store.pin(n1, "main", "baseline"),
        lambda: store.unpin("main"),
        lambda: store.pin(n1, "n0", "anchor"),  # from now on the same words lead to another run
        lambda: store.unpin("n0"),
        lambda: store.save(made_run(8), tags=["n0"]),
        lambda: store.delete(store.find("latest")),
        lambda: store.save(made_run(0, system="bm25"), judgements=[Judgement(outcome="fail", document="{}")]),
    ]


@pytest.mark.parametrize("door", ["this", "another"])
def test_nothing_is_old(site: Any, store: Store, made_run: Any, tmp_path: Path, serving: Any, door: str) -> None:
    """Whoever wrote: every page is what a server that keeps nothing says."""
    with FolderStore(tmp_path / ".karat") as other, serving(store, Access()) as fresh:
        for number, write in enumerate(writes(store if door == "this" else other, made_run)):
            for path in (*PAGES[:4], *PAGES[5:], "/api/v1/runs", "/api/v1/runs/n0"):
                site.ask("GET", path)
            write()
            for path in (*PAGES[:4], *PAGES[5:], "/api/v1/runs", "/api/v1/runs/n0"):
                mark = "&" if "?" in path else "?"
                new = path if path.startswith("/api") else f"{path}{mark}x={number}"  # asked for the first time
                kept, made = site.ask("GET", path), fresh.ask("GET", new)
                expected = made.content.replace(f"x={number}".encode(), b"").replace(b"&amp;", b"")
                assert kept.status == made.status, (number, path)
                assert kept.content.replace(b"&amp;", b"") == expected.replace(b'?"', b'"'), (number, path)


def test_a_page_says_who_reads_it_and_nobody_else(store: Store, serving: Any, counted: list[Counted]) -> None:
    with serving(store, access_of("ada", "bob", token="t" * 20)) as site:
        cookies = {}
        for name, form in (("ada", b"name=ada&"), ("bob", b"name=bob&"), ("", b"")):
            password = b"correct+horse" if name else b"t" * 20
            answer = site.ask("POST", "/login", form + b"password=" + password, FORM)
            cookies[name] = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        for _ in range(2):
            for name, cookie in cookies.items():
                page = site.ask("GET", "/runs", headers=cookie).content.decode()
                assert [other for other in ("ada", "bob") if f"Log out {other}<" in page] == ([name] if name else [])
                assert "Log out" in page
        token = site.ask("GET", "/runs", headers={"Authorization": "Bearer " + "t" * 20}).content.decode()
        assert "Log out" not in token
        assert site.ask("GET", "/runs").status == 303
        assert made_for(counted, lambda: site.ask("GET", "/runs", headers=cookies["bob"])) == 0


def test_what_is_kept_is_bounded(store: Store, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.web.remember.Remember.__init__.__defaults__", (20_000,))
    made: list[Remember] = []
    begin = Remember.__init__
    monkeypatch.setattr(Remember, "__init__", lambda self, *a, **k: (begin(self, *a, **k), made.append(self))[0])
    with serving(store, Access()) as site:
        for number in range(60):
            assert site.ask("GET", f"/runs?x={number}").status == 200
            assert sum(kept.size for kept in made[0]._kept.values()) == made[0]._size <= 20_000
        assert 0 < len(made[0]._kept) < 60


def test_problems_are_not_kept(counting: Any, counted: list[Counted], store: Store, made_run: Any) -> None:
    assert counting.ask("GET", "/runs/later").status == 404
    store.save(made_run(9), tags=["later"])
    assert counting.ask("GET", "/runs/later").status == 200


class Changing:
    """A history far away that changes whenever it is asked, and says how often it was."""

    is_near = False

    def __init__(self) -> None:
        self.asked = 0

    def state(self) -> str:
        self.asked += 1
        return str(self.asked)


def test_requests_at_the_same_time_share_what_is_read_and_made() -> None:
    """Even if the history changes all the time: nobody waits for more than one page besides their own."""
    history, made, finish = Changing(), list[str](), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        made.append(scope["path"])
        await finish.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(made)).encode()})

    async def ask(remember: Remember) -> bytes:
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "method": "GET", "path": "/runs", "query_string": b""}
        await remember(scope, None, send)  # type: ignore[arg-type]
        return bytes(said[-1]["body"])

    async def all_of_them() -> list[bytes]:
        remember = Remember(app, history)  # type: ignore[arg-type]
        first = asyncio.ensure_future(ask(remember))
        while not made:
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(ask(remember)) for _ in range(20)]
        while history.asked < 2:  # one read for all of them
            await asyncio.sleep(0)
        finish.set()
        return [await first, *await asyncio.gather(*others)]

    with ThreadPoolExecutor(1) as thread:  # this one may have the event loop of a browser
        shown = thread.submit(lambda: asyncio.run(all_of_them())).result()
    assert len(made) == 2
    assert history.asked <= 3
    assert shown == [b"1", *[b"2"] * 20]  # none of them has the page that was begun before they came
