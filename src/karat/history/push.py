"""Runs to another server: one request, no redirect, the token never in a message nor in the clear."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from karat.errors import ConfigError, KaratError, shorten

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LARGEST = 1 << 20  # of an answer


class PushError(KaratError):
    """A server that did not take the runs."""

    code = "push-refused"


def push(url: str, content: bytes, token: str | None, timeout: float) -> list[tuple[str, bool]]:
    """Ids of the runs, and whether each was new there."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise ConfigError(
            "no usable address", code="bad-address", expected="http(s)://host[:port][/path], without user or query"
        )
    if token and parts.scheme == "http" and host not in _LOOPBACK:
        raise ConfigError(
            "the token would travel unencrypted", code="insecure-address", expected="an address with https://"
        )
    headers = {"Content-Type": "application/zip", "X-Karat": "1", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(host, port, timeout=timeout)
    try:
        connection.request("POST", f"{_root(parts.path)}/api/v1/runs", content, headers)
        answer = connection.getresponse()
        status, said = answer.status, answer.read(_LARGEST)
    except (OSError, HTTPException, socket.gaierror) as error:
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise PushError(
            f"{host} did not answer: {what}", code="no-answer", hint="is the server up, and the address right?"
        ) from error
    finally:
        connection.close()
    return _sent(status, said)


def _root(path: str) -> str:
    """Where the server lies, also for those who give the address of a page of it.

    >>> _root("/karat/"), _root("/karat/runs"), _root("/api/v1/runs/"), _root("")
    ('/karat', '/karat', '', '')
    """
    return path.rstrip("/").removesuffix("/runs").removesuffix("/api/v1")


def _sent(status: int, said: bytes) -> list[tuple[str, bool]]:
    try:
        found = json.loads(said)
        if status == 200:
            return [(str(run["id"]), bool(run["new"])) for run in found]
        what = shorten(str(found["error"]), 300)
    except (ValueError, KeyError, TypeError):
        what = "no answer of a `karat serve`"
    hint = "KARAT_TOKEN or --token-file" if status == 401 else None
    raise PushError(f"the server refused the runs ({status}): {what}", code="push-refused", hint=hint)
