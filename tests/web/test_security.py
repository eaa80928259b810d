"""Who may ask for what, and from where."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from logins import CHEAP, access_of
from refusals import refused

from karat.errors import ConfigError, KaratError
from karat.web.access import SESSION, Access, read_token, read_users

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
TOKEN = {"Authorization": "Bearer " + "t" * 20}


def test_every_answer_carries_the_headers(site: Any) -> None:
    for answer in (site.get("/runs"), site.get("/nothing"), site.get("/runs", headers={"Host": "evil.example"})):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in {name.lower() for name in answer.headers if name.lower() == "x-powered-by"}


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "169.254.169.254", "a@127.0.0.1x"]
)
def test_another_name_is_refused(site: Any, host: str) -> None:
    """A page of a stranger whose name was made to lead here."""
    assert site.get("/runs", headers={"Host": host}).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]:80", "127.0.0.1:9"])
def test_names_of_this_machine(site: Any, host: str) -> None:
    assert site.get("/runs", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_writes_of_other_sites_are_refused(site: Any, headers: dict[str, str]) -> None:
    answer = site.write("DELETE", "/runs/n3", **headers)
    assert (answer.status, bool(answer.json["error"])) == (403, True)
    assert site.store.count() == 4


def test_a_form_of_another_site_cannot_write(site: Any) -> None:
    """Without a header that only scripts of our own may send."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = site.ask("POST", "/api/v1/runs", b"x=1", form)
    assert (answer.status, "X-Karat" in answer.json["hint"]) == (403, True)
    assert site.ask("DELETE", "/api/v1/runs/n3").status == 403
    asked = site.ask("OPTIONS", "/api/v1/runs", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-headers" not in asked.headers


def test_our_own_pages_may_write(site: Any) -> None:
    headers = {"Origin": site.url, "Sec-Fetch-Site": "same-origin", "Host": f"127.0.0.1:{site.port}"}
    assert site.write("PUT", "/runs/n1/tags/x", **headers).status == 200


def test_bodies_have_limits(site: Any) -> None:
    answer = site.ask("PUT", "/api/v1/pins/x", b"x" * 70_000, {"X-Karat": "1"})
    assert (answer.status, bool(answer.json["error"])) == (413, True)
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    pieces = iter([b"x" * 9000] * 10)  # it does not say how long it is
    connection.request("PUT", "/api/v1/pins/x", pieces, {"X-Karat": "1"}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    headers = {"X-Karat": "1", "Content-Length": str(200 << 20)}
    assert site.ask("POST", "/api/v1/runs", b"", headers).status == 413


def test_bad_lengths(site: Any) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as raw:
        raw.sendall(b"PUT /api/v1/pins/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: -5\r\n\r\n")
        assert b" 400 " in raw.recv(100)


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/openapi.json", "/api/v1/runs/n0/export"])
def test_without_a_token_nothing_is_told(locked: Any, path: str) -> None:
    assert locked.ask("GET", path).status == 401
    for wrong in ("Bearer wrong", "Bearer " + "t" * 19, "Bearer", "Basic dDp0", "bearer"):
        assert locked.ask("GET", path, headers={"Authorization": wrong}).status == 401
    assert locked.ask("GET", path, headers=TOKEN).status == 200


def test_a_token_does_not_help_other_sites(locked: Any) -> None:
    assert locked.write("DELETE", "/runs/n3", **TOKEN, Origin="http://evil.example").status == 403
    assert locked.write("DELETE", "/runs/n3").status == 401
    assert locked.write("DELETE", "/runs/n3", **TOKEN).status == 200


def test_log_ins_expire_and_are_slow_to_guess() -> None:
    time = [0.0]
    access = access_of("ada", clock=lambda: time[0])
    assert access.log_in("ada", "wrong") is None
    assert access.log_in("nobody", "correct horse") is None
    cookie = access.log_in("ada", "correct horse")
    assert cookie is not None
    assert access.visitor(cookie) == "ada"
    assert access.visitor(cookie[:-1]) is None
    time[0] = SESSION + 1
    assert access.visitor(cookie) is None
    for _ in range(5):
        assert access.log_in("ada", "wrong") is None
    assert access.log_in("ada", "correct horse") is None  # for a minute
    time[0] += 61
    again = access.log_in("ada", "correct horse")
    assert again is not None
    access.log_out(again)
    assert access.visitor(again) is None


def test_tokens_and_users_in_files(
    tmp_path: Path, karat_command: Command, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr("karat.web.access.COST", CHEAP)
    file = str(tmp_path / "users.txt")
    for name, password in (("ada", "correct horse"), ("bob", "battery staple"), ("ada", "another one")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}\n"))
        assert karat_command("serve", "users", file, name)[0] == 0
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert "another" not in Path(file).read_text()
    access = Access(users=read_users(file), cost=CHEAP)
    assert access.log_in("ada", "another one")
    assert not access.log_in("ada", "correct horse")
    assert access.log_in("bob", "battery staple")
    for name, password, code in (("ada", "short", "bad-password"), ("a:b", "long enough", "bad-name")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}\n"))
        assert karat_refuses("serve", "users", file, name).code == code
    (tmp_path / "token").write_text("short\n")
    with refused("bad-token", ConfigError):
        read_token(str(tmp_path / "token"), None)
    (tmp_path / "token").write_text("a-token-long-enough\n")
    assert read_token(str(tmp_path / "token"), None) == "a-token-long-enough"
    (tmp_path / "broken").write_text("# users\nada:plain\n")
    with refused("bad-user", ConfigError, file=tmp_path / "broken", line=2):
        read_users(str(tmp_path / "broken"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_for_others_needs_a_log_in(tmp_path: Path, karat_refuses: Refuses, host: str) -> None:
    error = karat_refuses("serve", "--store", str(tmp_path / "s"), "--host", host, "--port", "0")
    assert error.code == "open-server"
    assert host in error.what


def test_serve_says_where_and_ends_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "karat.cli.main", "serve", "--store", str(tmp_path / "s"), "--port", "0"]
    environment = {**os.environ, "KARAT_TOKEN": "a-token-long-enough"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert str(tmp_path / "s") in line
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        for headers, status in (({}, 401), ({"Authorization": "Bearer a-token-long-enough"}, 200)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/api/v1/runs", headers=headers)
            assert connection.getresponse().status == status
            connection.close()
        other = subprocess.run([*command[:-1], str(port)], capture_output=True, text=True, check=False, env=environment)
        assert (other.returncode, f"127.0.0.1:{port}" in other.stderr) == (2, True)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count("\n"), "--save" in err) == (0, 1, True)


def test_push_keeps_the_token_to_itself(
    locked: Any,
    tmp_path: Path,
    karat_command: Command,
    karat_refuses: Refuses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = ("--store", str(tmp_path / ".karat"))
    for token in (None, "x" * 20):
        if token is not None:
            monkeypatch.setenv("KARAT_TOKEN", token)
        error = karat_refuses("history", "push", locked.url, "n1", *place)
        assert error.code == "push-refused"
        assert "(401)" in error.what
        assert "KARAT_TOKEN" in str(error.hint)
    monkeypatch.setenv("KARAT_TOKEN", "t" * 20)
    assert karat_command("history", "push", locked.url, "n1", *place)[0] == 0
    assert karat_command("history", "push", f"{locked.url}/runs", "n1", *place)[0] == 0, "the address of a page will do"
    assert karat_refuses("history", "push", "http://karat.example.org", "n1", *place).code == "insecure-address"
    for url in ("ftp://x", "http://a:b@127.0.0.1", "http://127.0.0.1:port", "nonsense", "http://127.0.0.1/?x=1"):
        assert karat_refuses("history", "push", url, "n1", *place).code == "bad-address"
    error = karat_refuses("history", "push", "http://127.0.0.1:1", "n1", *place)
    assert error.code == "no-answer"
    assert "t" * 20 not in str(error)
