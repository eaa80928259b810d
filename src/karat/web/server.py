"""A server for one history."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from importlib.util import find_spec

from karat.errors import ConfigError, MissingExtra
from karat.history.store import Store
from karat.labels.desk import Desk
from karat.web.access import LOOPBACK, Access


def listen(host: str, port: int, access: Access) -> socket.socket:
    """A socket to serve on; an address that others can reach only where they must say who they are."""
    if access.open and not _is_loopback(host):
        hint = "--token-file FILE, or --users FILE (karat users writes one)"
        raise ConfigError(f"others can reach {host}, and need a token or a log-in", code="open-server", hint=hint)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen()  # from now on nobody is turned away, also while the application is still loading
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
    import uvicorn

    from karat.web.app import create_app

    config = uvicorn.Config(
        create_app(store, access, desk),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=200,
        timeout_keep_alive=5,
    )
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it is meant to end
        uvicorn.Server(config).run(sockets=[on])


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
