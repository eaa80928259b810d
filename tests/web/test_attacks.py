"""Requests that once held everyone up, or were answered with 500."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from logins import access_of

from karat.llm.texts import answers_in
from karat.web.guard import ALWAYS

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
QUICK = 1.0  # seconds of work, that of the server included; what held the loop took three and more


def refused(answer: Any, status: int) -> None:
    assert answer.status == status, answer.content
    assert {name: answer.headers[name] for name in ALWAYS} == ALWAYS


def raw(site: Any, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as made:
        made.sendall(sent)
        said = b""
        while part := made.recv(65536):
            said += part
        return said


@pytest.mark.parametrize("letter", ["\\", '"', "\\134", ";", "=", "a=b;"])
@pytest.mark.parametrize("size", [15_000, 60_000])
def test_cookies_take_no_time(site: Any, letter: str, size: int) -> None:
    begun = time.process_time()
    answer = site.get("/runs", headers={"Cookie": f'karat_session="{letter * (size // len(letter))}"'})
    assert time.process_time() - begun < QUICK
    if size < 16_000:
        assert answer.status == 200
    else:
        refused(answer, 431)


def test_a_cookie_is_read_once_by_labels_too(labelling: Any) -> None:
    begun = time.process_time()
    headers = {"Cookie": 'karat_annotator="' + "\\" * 15_000 + '"'}
    assert labelling.ask("GET", "/labels/pool", headers=headers).status == 303
    assert time.process_time() - begun < QUICK


@pytest.mark.parametrize("head", [b"Cookie: " + b"x" * 300_000, b"a: b\r\n" * 50_000], ids=["one", "many"])
@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
def test_headers_are_bounded_before_they_are_read(site: Any, head: bytes, end: bytes) -> None:
    """Also those that never end."""
    try:
        said = raw(site, b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + end)
    except ConnectionError:
        said = b" 431 "  # closed while it was still being sent
    assert b" 431 " in said
    assert site.get("/runs").status == 200


def test_headers_of_a_second_request_are_bounded(site: Any) -> None:
    """It may come together with the first."""
    first = b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    try:
        said = raw(site, first + first[:-2] + b"a: b\r\n" * 40_000 + b"\r\n")
    except ConnectionError:
        return
    assert (said.count(b"HTTP/1.1 200 "), said.count(b"HTTP/1.1 431 ")) == (1, 1)


def test_requests_that_come_together(site: Any) -> None:
    one = b"GET /api/v1/pins HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    write = b"PUT /api/v1/runs/n0/tags/t%d HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Karat: 1\r\nContent-Length: 3\r\n\r\nxyz"
    sent = b"".join(one + write % i for i in range(200)) + one[:-2] + b"Connection: close\r\n\r\n"
    assert raw(site, sent).count(b"HTTP/1.1 200 ") == 401
    assert len(site.store.row(site.store.find("n0")).tags) == 201


def test_an_address_is_bounded(site: Any) -> None:
    refused(site.ask("GET", "/runs?tag=" + "x" * 9000), 414)


@pytest.mark.parametrize(
    "page", ["/runs/n0/queries", "/runs/n0/triage", "/compare?run=n0&run=n1", "/api/v1/runs/n0/cases"]
)
@pytest.mark.parametrize("offset", ["1" + "0" * 23, "-1", "9" * 5000, "1e9", "x", "9223372036854775807"])
def test_offsets(site: Any, page: str, offset: str) -> None:
    refused(site.ask("GET", f"{page}{'&' if '?' in page else '?'}offset={offset}"), 400)


@pytest.mark.parametrize("origin", ["http://[", "http://]", "http://[::1", "//[", "\xff", "http://127.0.0.1:99999999"])
def test_origins(site: Any, origin: str) -> None:
    refused(site.write("DELETE", "/runs/n3", Origin=origin), 403)


@pytest.mark.parametrize("host", ["[", "]", "[::1", "127.0.0.1:port", "127.0.0.1:99999999", "\xff"])
def test_hosts(site: Any, host: str) -> None:
    answer = site.get("/runs", headers={"Host": host})
    assert answer.status in (200, 400, 403)
    assert {name: answer.headers[name] for name in ALWAYS} == ALWAYS


@pytest.mark.parametrize(
    "body",
    [b"&".join(b"f%d=1" % i for i in range(11)), b"x=1&" * 5000, b"\xff\x00=%00&name=%ff", b"%", b"&&&&&&&&&&&&", b""],
)
def test_log_in_forms(locked: Any, body: bytes) -> None:
    answer = locked.ask("POST", "/login", body, FORM)
    refused(answer, answer.status)
    assert answer.status in (400, 403)


def test_label_forms(labelling: Any) -> None:
    body = b"&".join(b"f%d=1" % i for i in range(11))
    refused(labelling.ask("POST", "/labels/pool", body, {**FORM, "Origin": labelling.url}), 400)


@pytest.mark.parametrize(
    "sent", [b"\x00\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02"]
)
def test_what_is_not_http(site: Any, sent: bytes) -> None:
    said = raw(site, sent + b"\r\n\r\n")
    assert b" 400 " in said.partition(b"\r\n")[0]
    assert all(f"{name}: {value}".encode() in said for name, value in ALWAYS.items())


@pytest.mark.parametrize("name", ["%00", "a%00b", "%ff", "%ed%a0%80", "a" * 5000, "%0a", "*", "["])
@pytest.mark.parametrize(
    "path", ["/runs/{}", "/runs/{}/queries", "/api/v1/runs/{}", "/compare?run={}&run=n0", "/labels/{}"]
)
def test_names_of_runs(site: Any, path: str, name: str) -> None:
    refused(site.ask("GET", path.format(name)), 404)


@pytest.mark.parametrize("value", ["%00", "%ff", "a" * 600, "%ed%a0%80", "1" * 5000])
def test_parameters(site: Any, value: str) -> None:
    """In every place of every page and endpoint: an answer, or a refusal."""
    fields = {
        "/runs": ("system", "branch", "tag", "dataset", "since", "until", "limit", "after"),
        "/trend": ("metric", "segment", "branch", "value"),
        "/query": ("query_id", "after", "limit"),
        "/runs/n0/queries": ("metric", "order", "text", "offset", "tag", "limit"),
        "/compare?run=n0&run=n1": ("metric", "order", "text", "run", "all"),
    }
    for path, names in fields.items():
        for name in names:
            for prefix in ("", "/api/v1"):
                answer = site.ask("GET", f"{prefix}{path}{'&' if '?' in path else '?'}{name}={value}")
                assert answer.status in (200, 400, 404), (prefix, path, name, answer.content)


@pytest.mark.parametrize(
    "body", [b'{"run": "n0\\u0000", "kind": "baseline"}', b'{"run": "\\ud800", "kind": "baseline"}']
)
def test_bodies(site: Any, body: bytes) -> None:
    answer = site.ask("PUT", "/api/v1/pins/x", body, {"X-Karat": "1"})
    refused(answer, answer.status)
    assert answer.status in (400, 404)


@pytest.mark.parametrize(
    "text",
    ["<think>" * 8000, "<think>" + "<thinking>" * 5600, "<" * 60_000, ",\t" * 30_000, '{"' * 30_000, '\\"' * 30_000],
)
def test_answers_of_models_take_no_time(text: str) -> None:
    begun = time.process_time()
    assert answers_in(text, "grade") == []
    assert time.process_time() - begun < QUICK


def test_thoughts_are_left_out() -> None:
    said = '<think>{"grade": 0}</think>x<THINKING>{"grade": 0}</thinking>{"grade": 2}<think>never closed'
    assert answers_in(said, "grade") == [{"grade": 2}]


def test_faults_carry_the_headers_too(store: Any, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("zebra")

    monkeypatch.setattr(store, "pins", broken)
    with serving(store, access_of(token="t" * 20)) as site:
        answer = site.ask("GET", "/api/v1/pins", headers={"Authorization": "Bearer " + "t" * 20})
        refused(answer, 500)
        assert b"zebra" not in answer.content
