"""Runs to another server: one request, no redirect, the token never in a message nor in the clear."""

from __future__ import annotations

from urllib.parse import urlsplit

from karat.errors import ConfigError, KaratError, shorten
from karat.net.http import Http, HttpError, Response, Secrets, check_url, is_loopback
from karat.net.timeouts import TooSlow

_LARGEST = 1 << 20  # of an answer


class PushError(KaratError):
    """A server that did not take the runs."""

    code = "push-refused"


def push(url: str, content: bytes, token: str | None, timeout: float) -> list[tuple[str, bool]]:
    """Ids of the runs, and whether each was new there. Sent once: the same command sends again what got lost."""
    parts = urlsplit(check_url(url, hint=None, query=False))
    if token and parts.scheme == "http" and not is_loopback(url):
        raise ConfigError(
            "the token would travel unencrypted", code="insecure-address", expected="an address with https://"
        )
    headers = {"Content-Type": "application/zip", "X-Karat": "1", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    client = Http(Secrets(token or ""), extra=None, largest=_LARGEST)
    target = parts._replace(path=f"{_root(parts.path)}/api/v1/runs").geturl()
    try:
        return _sent(client.send("POST", target, content, headers=headers, timeout=timeout))
    except (HttpError, TooSlow) as error:
        hint = error.hint or "is the server up, and the address right?"
        raise PushError(f"{parts.hostname} did not answer: {error.what}", code="no-answer", hint=hint) from error


def _root(path: str) -> str:
    """Where the server lies, also for those who give the address of a page of it.

    >>> _root("/karat/"), _root("/karat/runs"), _root("/api/v1/runs/"), _root("")
    ('/karat', '/karat', '', '')
    """
    return path.rstrip("/").removesuffix("/runs").removesuffix("/api/v1")


def _sent(answer: Response) -> list[tuple[str, bool]]:
    try:
        found = answer.json()
        if answer.status == 200:
            return [(str(run["id"]), bool(run["new"])) for run in found]
        what = shorten(str(found["error"]), 300)
    except (ValueError, KeyError, TypeError):
        what = "no answer of a `karat serve`"
    hint = "KARAT_TOKEN or --token-file" if answer.status == 401 else None
    raise PushError(f"the server refused the runs ({answer.status}): {what}", code="push-refused", hint=hint)
