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

    from karat.web.connections import Limits
    from karat.web.guard import Patience

_SWITCH = 0.001  # seconds for which a page that is being made may keep others from being answered
_FILES, _OWN_FILES = 8192, 256  # that may be open, and those of them that are not connections


def listen(host: str, port: int, access: Access) -> socket.socket:
    """A socket to serve on; an address that others can reach only where they must say who they are."""
    if access.open and not _is_loopback(host):
        hint = "--token-file FILE, or --users FILE (karat serve users writes one)"
        raise ConfigError(f"others can reach {host}, and need a token or a log-in", code="open-server", hint=hint)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, for asyncio sets TCP_NODELAY only where it sees that this is TCP; without it, every answer on a connection
    # that is kept takes 40 ms more.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(2048)  # from now on nobody is turned away, also while the application is still loading
    except (OSError, OverflowError) as error:
        made.close()
        hint = "--port 0 takes one that is free"
        said = f"cannot listen on {host}:{port}: {getattr(error, 'strerror', error)}"
        raise ConfigError(said, code="cannot-listen", hint=hint) from error
    return made


def require_server() -> None:
    """Said before anything is done that takes a while."""
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra("karat serve", package, "web")


def serve(store: Store, access: Access, on: socket.socket, desk: Desk | None = None) -> None:
    sys.setswitchinterval(_SWITCH)
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it is meant to end
        made_server(store, access, desk, connections=_room_for_connections()).run(sockets=[on])


def made_server(
    store: Store,
    access: Access,
    desk: Desk | None = None,
    *,
    limits: Limits | None = None,
    patience: Patience | None = None,
    connections: int | None = None,
) -> uvicorn.Server:
    """What `karat serve` runs. `limits` and `patience`: how slow clients may be; `connections`: how many the system has
    room for."""
    import uvicorn

    from karat.web.app import create_app
    from karat.web.connections import Limits, connection_class

    own = limits or Limits()
    if connections is not None and connections < own.connections:
        own = replace(own, connections=connections, each=max(connections * 3 // 4, 1))
    config = uvicorn.Config(
        create_app(store, access, desk, patience),
        http=connection_class(own),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=own.idle,
    )
    return uvicorn.Server(config)


def _room_for_connections() -> int | None:
    """How many files this process may have open beside its own; as many as the system lets it have."""
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
