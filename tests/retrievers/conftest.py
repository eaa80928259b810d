"""A server on loopback that answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Server:
    """`answer` makes the JSON of a good answer; `faults` are what the next requests meet instead: a status, a status
    with headers (and content), `hang`, `drop`, or bytes that are sent as they are."""

    def __init__(self) -> None:
        self.answer: Callable[[str, Any], Any] = lambda path, body: {"hits": ["a"]}
        self.faults: list[Any] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.over = threading.Event()
        self.http = _Threads(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    def _handler(outer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def log_message(self, *_: object) -> None:
                pass

            def reply(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.loads(content) if content else None
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                fault = outer.faults.pop(0) if outer.faults else None
                if fault == "hang":
                    outer.over.wait(5)
                elif fault == "drop":
                    self.close_connection = True
                elif isinstance(fault, bytes):
                    self.reply(200, fault)
                elif isinstance(fault, int):
                    self.reply(fault, b'{"error": "scripted"}')
                elif isinstance(fault, tuple):
                    status, headers, content = (*fault, b'{"error": "scripted"}')[:3]
                    self.reply(status, content, headers)
                else:
                    self.reply(200, json.dumps(outer.answer(self.path, body)).encode())

            do_GET = do_POST

        return Handler


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # the default of 5 drops bursts

    def handle_error(self, *_: object) -> None:
        """The other side had enough, as some tests want it."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    found = Server()
    yield found
    found.close()
