"""Behind a reverse proxy: a path prefix, and users that the proxy has logged in."""

from __future__ import annotations

import http.client
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from logins import access_of

from karat.errors import ConfigError
from karat.history.folder import FolderStore
from karat.history.store import Store
from karat.web.access import Access
from karat.web.proxy import checked_prefix, read_proxy

HEADER = "X-Forwarded-User"
LINK = re.compile(rb'(?:href|src|action)="(/[^"]*)"')
FOLLOWED = re.compile(rb'(?:href|src)="(/[^"]*)"')


@contextmanager
def proxied(port: int, user: str | None = None, *, strips: str = "") -> Iterator[int]:
    """A reverse proxy on loopback, which logs everyone in as `user`; `strips`: the prefix it removes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _pass_on(self, body: bytes | None) -> None:
            given = {name: value for name, value in self.headers.items() if name.lower() != HEADER.lower()}
            given |= {"X-Forwarded-For": "203.0.113.9"} | ({} if user is None else {HEADER: user})
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(self.command, self.path.removeprefix(strips) or "/", body, given)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("date", "connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def log_message(self, *told: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


@pytest.mark.parametrize("strips", ["", "/tools/karat"])
def test_every_link_of_a_page_stays_under_the_prefix(store: Store, serving: Any, strips: str) -> None:
    with serving(store, Access(), prefix="/tools/karat") as site, proxied(site.port, strips=strips) as port:
        run = store.find("n1")
        seen, waiting = set(), ["/tools/karat/", f"/tools/karat/runs/{run}/queries", "/tools/karat/compare"]
        while waiting:
            path = waiting.pop()
            if path in seen or len(seen) > 60:
                continue
            seen.add(path)
            status, headers, content = ask(port, path)
            if status in (303, 307):
                waiting.append(headers["location"])
                continue
            assert status == 200, path
            links = {link.decode().replace("&amp;", "&") for link in LINK.findall(content)}
            if headers["content-type"].startswith("text/html"):
                assert links, path
            assert all(link.startswith("/tools/karat/") for link in links), (path, links)
            followed = {link.decode().replace("&amp;", "&").partition("#")[0] for link in FOLLOWED.findall(content)}
            waiting += sorted(followed - seen)
        assert {"/tools/karat/runs", "/tools/karat/static/style.css"} <= seen


def test_log_in_under_a_prefix(store: Store, serving: Any) -> None:
    with serving(store, access_of("ada"), prefix="/karat") as site:
        status, headers, _ = ask(site.port, "/karat/trend?metric=mrr")
        assert (status, headers["location"]) == (303, "/karat/login?next=%2Ftrend%3Fmetric%3Dmrr")
        form = urllib.parse.urlencode({"name": "ada", "password": "correct horse", "next": "/trend?metric=mrr"})
        status, headers, _ = ask(site.port, "/karat/login", "POST", form.encode())
        assert (status, headers["location"]) == (303, "/karat/trend?metric=mrr")
        assert "Path=/karat;" in headers["set-cookie"]
        cookie = headers["set-cookie"].partition(";")[0]
        status, _, content = ask(site.port, "/karat/runs", Cookie=cookie)
        assert status == 200
        assert b'action="/karat/logout"' in content


def test_text_of_a_run_that_looks_like_a_link_is_not_changed(tmp_path: Path, made_run: Any, serving: Any) -> None:
    with FolderStore(tmp_path / ".karat") as store:
        store.save(made_run(1, system='href="/runs"'), branch="main")
        with serving(store, Access(), prefix="/karat") as site:
            _, _, content = ask(site.port, "/karat/runs")
            assert b"href=&#34;/runs&#34;" in content


def test_users_of_the_proxy_are_logged_in_and_label_under_their_name(store: Store, serving: Any) -> None:
    access = Access(proxy=read_proxy(HEADER, ["127.0.0.1"]))
    with serving(store, access) as site, proxied(site.port, "ada@example.org") as port:
        status, _, content = ask(port, "/runs")
        assert status == 200
        assert b"ada@example.org" in content
        # The visitor cannot choose another name: the proxy removes the header.
        _, _, content = ask(port, "/runs", X_Forwarded_User="mallory")
        assert b"mallory" not in content


def test_without_a_user_the_proxy_gets_nothing(store: Store, serving: Any) -> None:
    access = Access(proxy=read_proxy(HEADER, ["127.0.0.1"]))
    with serving(store, access) as site, proxied(site.port) as port:
        for path in ("/runs", "/api/v1/runs", "/metrics"):
            assert ask(port, path)[0] == 401, path
        assert ask(port, "/static/style.css")[0] == 200


@pytest.mark.parametrize("named", ["", "a b", "<b>", "ada\u00e9" * 40, "x" * 200])
def test_a_strange_name_is_nobody(store: Store, serving: Any, named: str) -> None:
    access = Access(proxy=read_proxy(HEADER, ["127.0.0.1"]))
    with serving(store, access) as site:
        assert ask(site.port, "/runs", X_Forwarded_User=named.encode("utf-8").decode("latin-1"))[0] == 401


def test_the_header_is_not_believed_from_elsewhere(store: Store, serving: Any) -> None:
    access = Access(proxy=read_proxy(HEADER, ["10.0.0.0/8", "::1"]))
    with serving(store, access) as site:
        assert ask(site.port, "/runs", X_Forwarded_User="ada")[0] == 401
        # An address that the client merely claims does not help.
        assert ask(site.port, "/runs", X_Forwarded_User="ada", X_Forwarded_For="10.0.0.1")[0] == 401


def test_two_names_are_nobody(store: Store, serving: Any) -> None:
    access = Access(proxy=read_proxy(HEADER, ["127.0.0.1"]))
    with serving(store, access) as site:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
        connection.putrequest("GET", "/runs")
        connection.putheader(HEADER, "ada")
        connection.putheader(HEADER, "root")
        connection.endheaders()
        assert connection.getresponse().status == 401


@pytest.mark.parametrize(
    ("header", "addresses", "said"),
    [
        (None, ["127.0.0.1"], "--user-header"),
        (HEADER, [], "--proxy 127.0.0.1"),
        ("X User", ["127.0.0.1"], "X-Forwarded-User"),
        (HEADER, ["proxy.local"], "an IP address"),
    ],
)
def test_options_that_do_not_fit(header: str | None, addresses: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_proxy(header, addresses)
    assert said in str(caught.value)


@pytest.mark.parametrize("prefix", ["karat", "/a b", "//x", "/a/../b", '/"'])
def test_a_prefix_that_is_no_path(prefix: str) -> None:
    with pytest.raises(ConfigError):
        checked_prefix(prefix)


def test_health_needs_no_log_in_and_notices_a_lost_history(store: Store, serving: Any) -> None:
    with serving(store, access_of("ada")) as site:
        assert ask(site.port, "/health")[::2] == (200, b'{"ok":true}')
        store.close()
        status, _, content = ask(site.port, "/health")
        assert status == 503
        assert b"cannot be read" in content


DEPLOY = Path(__file__).parents[2] / "deploy"


def test_files_to_deploy_use_options_that_exist() -> None:
    from karat.cli.serve import command

    known = {option for parameter in command.params for option in parameter.opts}
    for name in ("Dockerfile", "karat.service", "nginx.conf"):
        used = re.findall(r"karat serve[\"', ]+(.*)|\"serve\", (.*)\]", (DEPLOY / name).read_text())
        options = re.findall(r"--[a-z-]+", " ".join(map("".join, used)))
        assert options, name
        assert set(options) <= known, name
