"""The one client and the one rule for another try, over real HTTP and with a clock that only sleeping moves."""

from __future__ import annotations

import random
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Handler, Loopback
from refusals import refused

from karat.errors import ConfigError, MissingExtra
from karat.net.http import Http, HttpError, Response, Retry, Secrets, check_url
from karat.net.timeouts import TooSlow


class Server(Loopback):
    """Answers with `content`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.content, self.status, self.asked = b"{}", 200, list[str]()
        super().__init__(self._handler())

    def _handler(outer) -> type[Handler]:
        class Answering(Handler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.asked.append(self.path)
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.content)))
                self.end_headers()
                self.wfile.write(outer.content)

        return Answering


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    found = Server()
    yield found
    found.close()


def rule(**options: Any) -> tuple[Retry, list[float]]:
    slept: list[float] = []
    clock = {"sleep": slept.append, "clock": lambda: sum(slept), "chance": lambda: 0.5}
    return Retry(**{**clock, **options}), slept


def failing(*errors: Exception) -> Any:
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def test_pauses_double_up_to_the_longest() -> None:
    retry, slept = rule(attempts=6, first=1.0, longest=5.0)
    assert retry.during(failing(*(HttpError("x", lost=True) for _ in range(5)))) == "done"
    assert slept == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_server_that_says_how_long_is_obeyed() -> None:
    retry, slept = rule(first=1.0)
    assert retry.during(failing(HttpError("x", status=429, wait=30.0))) == "done"
    assert slept == [30.5]


def test_pauses_of_a_seed_are_repeatable() -> None:
    seen = []
    for _ in range(2):
        retry, slept = rule(attempts=4, chance=random.Random(7).random)
        retry.during(failing(*(TooSlow(1.0) for _ in range(3))))
        seen.append(slept)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 3


@pytest.mark.parametrize("error", [HttpError("x"), HttpError("x", status=500), HttpError("x", status=404)])
def test_what_another_try_does_not_mend_is_not_tried_again(error: HttpError) -> None:
    retry, slept = rule()
    with pytest.raises(HttpError):
        retry.during(failing(error))
    assert slept == []


@pytest.mark.parametrize(
    ("options", "tries"), [({"attempts": 2}, 2), ({"attempts": 1}, 1), ({"attempts": 9, "limit": 1.0}, 3)]
)
def test_attempts_and_time_end_it(options: dict[str, Any], tries: int) -> None:
    retry, slept = rule(**options)
    with pytest.raises(HttpError) as caught:
        retry.during(failing(*(HttpError("x", status=503) for _ in range(9))))
    assert len(slept) == tries - 1
    assert ("attempts" in str(caught.value)) == (tries > 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("", None), ("-1", None), ("nan", None), ("1e9", None), ("9" * 40, None)],
)
def test_retry_after_is_a_number_of_seconds(text: str, seconds: float | None) -> None:
    assert Response(429, {"retry-after": text}, b"").wait_asked() == seconds


@pytest.mark.parametrize("extra", ["http", None])
def test_answers_are_limited_in_size(server: Server, extra: str | None) -> None:
    server.content = b" " * (2 << 20)
    with pytest.raises(HttpError, match="1 MiB") as caught:
        Http(Secrets(), extra=extra, largest=1 << 20).send("POST", server.url, {}, timeout=5)
    assert not Retry().again(caught.value)


@pytest.mark.parametrize("extra", ["http", None])
def test_no_part_of_a_secret_is_shown_where_a_message_is_cut(server: Server, extra: str | None) -> None:
    server.status, server.content = 500, b"x" * 195 + b"s3cr3t-key-of-this-test"
    client = Http(Secrets("s3cr3t-key-of-this-test"), extra=extra)
    with pytest.raises(HttpError, match="answered 500") as caught:
        client.ask("POST", f"{server.url}/s3cr3t-key-of-this-test", {}, lambda content: content, timeout=5)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize("extra", ["http", None])
def test_what_cannot_be_sent_is_told(server: Server, extra: str | None) -> None:
    client = Http(Secrets(), extra=extra)
    for payload in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(HttpError):
            client.send("POST", server.url, payload, timeout=5)
    assert server.asked == []


def test_a_proxy_is_not_asked_for_this_machine(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Http(Secrets(), extra=None).send("POST", server.url, {}, timeout=5).status == 200


def test_certificates_are_those_of_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any that vouches for it, a server gets nothing."""
    openssl = shutil.which("openssl") or pytest.skip("no openssl to make a certificate with")
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    options = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*made, *options], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    url, client = server.url.replace("http:", "https:"), Http(Secrets(), extra=None)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(HttpError) as caught:
        client.send("POST", url, {}, timeout=5)
    assert "SSL_CERT_FILE" in (caught.value.hint or "")
    assert server.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    assert client.send("POST", url, {}, timeout=5).status == 200


def test_only_what_keeps_connections_needs_a_package(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtra, match="httpx2"):
        Http(Secrets(), extra="llm").send("POST", server.url, {}, timeout=5)
    assert Http(Secrets(), extra=None).send("POST", server.url, {}, timeout=5).json() == {}


@pytest.mark.parametrize("url", ["http://x?a=1", "https://x/y#z", "http://x/a b", "http://x:0/", "http://x:99999/"])
def test_addresses_without_a_query(url: str) -> None:
    with refused("bad-address", ConfigError):
        check_url(url, query=False)
    assert check_url("https://x:8080/y/", query=False) == "https://x:8080/y"
