"""A server for one history."""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from karat.errors import ConfigError, MissingExtra
from karat.history.store import Store
from karat.labels.desk import Desk
from karat.web.access import LOOPBACK, Access

if TYPE_CHECKING:
    import uvicorn

    from karat.systems.live import LiveRetrievers
    from karat.web.connections import Limits
    from karat.web.guard import Patience
    from karat.web.page_workers import PageWorkers

_SWITCH = 0.001  # seconds that one thread may block others
_FILES, _OWN_FILES = 8192, 256  # open files, and how many of them are not connections


def listen(host: str, port: int, access: Access) -> socket.socket:
    """Returns a listening socket. An address that others can reach requires a token or users."""
    if access.open and not _is_loopback(host):
        hint = (
            "--token-file FILE, --users FILE (written by karat serve users), or --user-header NAME with --proxy ADDRESS"
        )
        raise ConfigError(
            f"the address {host} can be reached by others, so it needs a token or users", code="open-server", hint=hint
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; without it, every response on a kept connection takes
    # 40 ms more.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(2048)  # accepts connections even while the application loads
    except (OSError, OverflowError) as error:
        made.close()
        hint = "--port 0 uses a free port"
        said = f"cannot listen on {host}:{port}: {getattr(error, 'strerror', error)}"
        raise ConfigError(said, code="cannot-listen", hint=hint) from error
    return made


def require_server() -> None:
    """Raises MissingExtra before any slow work if the web extra is not installed."""
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra("karat serve", package, "web")


def serve(server: uvicorn.Server, on: socket.socket) -> None:
    sys.setswitchinterval(_SWITCH)
    with suppress(KeyboardInterrupt):  # the normal way to stop it
        server.run(sockets=[on])


def made_server(
    store: Store,
    access: Access,
    desk: Desk | None = None,
    *,
    limits: Limits | None = None,
    patience: Patience | None = None,
    workers: PageWorkers | None = None,
    prefix: str = "",
    live: LiveRetrievers | None = None,
) -> uvicorn.Server:
    """Creates the server of `karat serve`. `limits`, `patience`: how slow clients may be; `prefix`: of all paths."""
    import uvicorn

    from karat.web.app import create_app
    from karat.web.connections import Limits, connection_class
    from karat.web.proxy import Under

    own, connections = limits or Limits(), None if limits else _room_for_connections()
    if connections is not None and connections < own.connections:
        own = replace(own, connections=connections, each=max(connections * 3 // 4, 1))
    app = create_app(store, access, desk, patience, workers, live)
    config = uvicorn.Config(
        Under(app, prefix) if prefix else app,
        http=connection_class(own),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,  # the address of the client decides whether a proxy is believed
        timeout_keep_alive=own.idle,
    )
    return uvicorn.Server(config)


def _room_for_connections() -> int | None:
    """How many connections the limit on open files allows, after raising it as far as possible."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        return None if soft == resource.RLIM_INFINITY else max(soft - _OWN_FILES, soft // 2)
    except (ImportError, OSError, ValueError):
        return None


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
