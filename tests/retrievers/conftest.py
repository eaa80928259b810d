"""A server on loopback that answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from loopback import Handler, Loopback


class Server(Loopback):
    """`answer` makes the JSON of a good answer; `faults` are what the next requests meet instead: a status, a status
    with headers (and content), `hang`, `drop`, or bytes that are sent as they are."""

    def __init__(self) -> None:
        self.answer: Callable[[str, Any], Any] = lambda path, body: {"hits": ["a"]}
        self.faults: list[Any] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        super().__init__(self._handler())

    def _handler(outer) -> type[Handler]:
        class Answering(Handler):
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
                    outer.over.wait(60)
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

        return Answering


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    found = Server()
    yield found
    found.close()
