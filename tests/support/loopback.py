"""A server on loopback for tests: real HTTP, a port of its own, quiet, and without delays that are not asked for."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Loopback:
    """Starts at once. `over` is set when it is closed, so that nobody hangs longer than the test."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.over = threading.Event()
        self.http = _Threads(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer takes 40 ms more
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        pass


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # the default of 5 drops bursts

    def handle_error(self, *_: object) -> None:
        """The other side had enough, as some tests want it."""
