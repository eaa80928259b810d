"""Limits for slow clients and for the number of connections.

Starlette and uvicorn leave this to a proxy; `karat serve` must work without one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from karat.web.endpoints import Problem
from karat.web.guard import ALWAYS, LARGEST_HEAD

_ANSWERS = {
    400: Problem("invalid HTTP request"),
    408: Problem("the headers took too long"),
    431: Problem("the headers are too large"),
    503: Problem("too many connections", "try again in a moment"),
}


@dataclass(frozen=True)
class Limits:
    """Time limits for clients in seconds, and limits on connections."""

    headers: float = 10.0  # from the connection, or the first byte of a request, to the end of its headers
    idle: int = 5  # between two requests
    reading: float = 20.0  # to read at least `least_read` bytes of a waiting response
    least_read: int = 64 << 10
    stall: float = 2.0  # without `least_sent` bytes of a body: then it may be closed for another one
    least_sent: int = 1 << 10
    connections: int = 4096
    each: int = 2048  # per client


class Crowd:
    """All connections of a server. At the limit, it closes the longest idle connection of the client with the most idle
    ones. A stalled body counts as idle. Connections that are being answered stay open."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all: dict[WatchedConnection, str] = {}
        self._counts: Counter[str] = Counter()

    def enter(self, new: WatchedConnection, client: str) -> bool:
        """Adds a connection; returns whether there was room for it."""
        if self._counts[client] >= self.limits.each and not self._drop(client):
            return False
        if len(self._all) >= self.limits.connections and not self._drop(None):
            return False
        self._all[new] = client
        self._counts[client] += 1
        return True

    def leave(self, connection: WatchedConnection) -> None:
        client = self._all.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]

    def _drop(self, client: str | None) -> bool:
        """Closes an idle connection, of one client or of any."""
        idle = [(one, who) for one, who in self._all.items() if one.waits and client in (None, who)]
        if not idle:
            return False
        most = Counter(who for _, who in idle).most_common(1)[0][0]
        slowest = min((one for one, who in idle if who == most), key=lambda one: one.waits_since)
        self.leave(slowest)
        slowest.drop()
        return True


class WatchedConnection(H11Protocol):
    """One connection; `crowd` is set by `connection_class`."""

    crowd: Crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._fed, self._held = 0, b""  # bytes of incomplete headers; data of the next request
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._idle_since = self._heard = self.loop.time()
        super().connection_made(transport)
        if self.crowd.enter(self, self.client[0] if self.client else ""):
            self._timer = self.loop.call_later(self.crowd.limits.headers, self._too_slow)
        else:
            self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.leave(self)
        self._stop_timer()
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether it waits for a request, a stalled body or a client that does not read."""
        return self.conn.their_state is h11.IDLE or self._reading is not None or self._stalls

    @property
    def waits_since(self) -> float:
        return self._heard if self._stalls else self._idle_since

    @property
    def _stalls(self) -> bool:
        """Whether a body has stalled, unless the server itself has paused reading."""
        late = self.loop.time() - self._heard > self.crowd.limits.stall
        return self.conn.their_state is h11.SEND_BODY and late and not self.flow.read_paused

    def data_received(self, data: bytes) -> None:
        """Feeds h11 in small parts, so that it never sees more than the allowed headers, even of pipelined requests."""
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE or len(data) >= self.crowd.limits.least_sent:
            self._heard = self.loop.time()
        data, self._held = self._held + data, b""
        while data and not self.transport.is_closing():
            if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
                self._held = data  # the next request, after this one is answered
                if len(data) >= LARGEST_HEAD:
                    self.flow.pause_reading()
                return
            if self.conn.their_state is h11.IDLE and self._fed >= LARGEST_HEAD:
                self._refuse(431)
                return
            room = LARGEST_HEAD - self._fed if self.conn.their_state is h11.IDLE else LARGEST_HEAD
            part, data = data[:room], data[room:]
            self._fed += len(part)
            super().data_received(part)
            self._note()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()
        self._fed = len(self.conn.trailing_data[0])
        self._note()
        if self._held and self.conn.their_state is h11.IDLE:
            self.data_received(b"")

    def _note(self) -> None:
        """Starts or stops the timer for the headers of a request."""
        if self.conn.their_state is not h11.IDLE:
            self._fed = 0
            self._stop_timer()
        elif self._fed and self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self.crowd.limits.headers, self._too_slow)

    def send_400_response(self, msg: str) -> None:
        self._refuse(431 if self._fed >= LARGEST_HEAD else 400)

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():  # the response is still being read: not idle yet
            self._unset_keepalive_if_required()
            again = self.timeout_keep_alive
            self.timeout_keep_alive_task: asyncio.TimerHandle | None = self.loop.call_later(
                again, self.timeout_keep_alive_handler
            )
            self._watch_reading()
        else:
            super().timeout_keep_alive_handler()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._idle_since = self.loop.time()
        self._watch_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def drop(self) -> None:
        """Closes at once: it is idle, and another connection is waiting."""
        self.transport.abort()

    def _too_slow(self) -> None:
        self._timer = None
        if self._fed:
            self._refuse(408)
        else:
            self.transport.abort()

    def _refuse(self, status: int) -> None:
        """Sends an error response with the usual headers, and closes."""
        self._stop_timer()
        body = msgspec.json.encode(_ANSWERS[status])
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{name}: {value}" for name, value in ALWAYS.items()),
        ]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close", "", ""]
        self.transport.write("\r\n".join(lines).encode("ascii") + body)
        self.transport.close()
        self._abort_later()

    def _watch_reading(self) -> None:
        """Watches until the client has read the whole response."""
        if self._reading is not None:
            return
        before = self.transport.get_write_buffer_size()

        def check() -> None:
            self._reading = None
            left = self.transport.get_write_buffer_size()
            if left > max(before - self.crowd.limits.least_read, 0):
                self.transport.abort()
            elif left:
                self._watch_reading()

        self._reading = self.loop.call_later(self.crowd.limits.reading, check)

    def _abort_later(self) -> None:
        """Aborts later: a client that does not read would keep a closed connection forever."""
        if self._timer is None:
            self._timer = self.loop.call_later(self.crowd.limits.headers, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connection_class(limits: Limits) -> type[WatchedConnection]:
    """Returns a connection class for one server, with its shared state."""
    made: Any = type("WatchedConnection", (WatchedConnection,), {"crowd": Crowd(limits)})
    return made  # type: ignore[no-any-return]
