"""Behind a reverse proxy: pages under a path prefix, and users that the proxy has logged in."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karat.errors import ConfigError

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_USER = re.compile(r"[\w.@+-]{1,128}")
# Text from runs is escaped, so only our templates write these.
_LINK = re.compile(rb'((?:href|src|action)=")/(?!/)')


class Proxy(msgspec.Struct, frozen=True):
    """A proxy that logs users in, for example with OIDC, and names them in a header; others are not believed."""

    header: str
    networks: tuple[_Network, ...]

    def user(self, scope: Scope, headers: Headers) -> str | None:
        """The user in the header; None if the request does not come from the proxy, or names no user, or several."""
        client = scope.get("client")
        if not client or not self._believed(client[0]):
            return None
        named = headers.getlist(self.header)
        return named[0] if len(named) == 1 and _USER.fullmatch(named[0]) else None

    def _believed(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self.networks)


def read_proxy(header: str | None, addresses: Iterable[str]) -> Proxy | None:
    """Checks the options of `karat serve`."""
    given = list(addresses)
    if header is None:
        if given:
            raise ConfigError(
                "--proxy without a header that names the user", code="bad-proxy", hint="--user-header NAME"
            )
        return None
    if not _HEADER.fullmatch(header):
        raise ConfigError("invalid header name", code="bad-proxy", expected="such as X-Forwarded-User", got=header)
    if not given:
        what = "--user-header needs the address of the proxy: anyone else could send the header too"
        raise ConfigError(what, code="bad-proxy", hint="--proxy 127.0.0.1")
    return Proxy(header, tuple(map(_network, given)))


def _network(text: str) -> _Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        expected = "an IP address, or a network such as 10.0.0.0/8"
        raise ConfigError("invalid address of a proxy", code="bad-proxy", expected=expected, got=text) from error


def checked_prefix(text: str) -> str:
    """
    >>> checked_prefix("/karat/"), checked_prefix("/")
    ('/karat', '')
    """
    prefix = text.rstrip("/")
    if prefix and (not _PREFIX.fullmatch(prefix) or ".." in prefix):
        raise ConfigError("invalid path prefix", code="bad-prefix", expected="such as /karat", got=text)
    return prefix


class Under:
    """Outermost middleware: serves the application under a path prefix. Proxies may remove the prefix or leave it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["path"] + "/").startswith(f"{self._prefix}/"):
            # Without raw_path, which would still have the prefix.
            scope = {name: value for name, value in scope.items() if name != "raw_path"}
            scope["path"] = scope["path"].removeprefix(self._prefix) or "/"
        await self._app(scope, receive, _Prefixed(send, self._prefix))


class _Prefixed:
    """Adds the prefix to links and redirects of a response."""

    def __init__(self, send: Send, prefix: str) -> None:
        self._send, self._prefix = send, prefix
        self._start: Message | None = None  # of a page, whose length is not known yet
        self._parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, self._header(name.lower(), value)) for name, value in message["headers"]]
            message = {**message, "headers": headers}
            if any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers):
                self._start = message
                return
        elif self._start is not None:
            self._parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            body = _LINK.sub(rb"\1" + self._prefix.encode() + b"/", b"".join(self._parts))
            headers = [(n, v) for n, v in self._start["headers"] if n.lower() != b"content-length"]
            await self._send({**self._start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
            self._start = None
            message = {"type": "http.response.body", "body": body}
        await self._send(message)

    def _header(self, name: bytes, value: bytes) -> bytes:
        if name == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
            return self._prefix.encode() + value
        if name == b"set-cookie":  # other applications on the host must not get the cookies
            return value.replace(b"Path=/", b"Path=" + self._prefix.encode())
        return value
