"""Users of a server, with passwords that are hashed quickly."""

from __future__ import annotations

from typing import Any

from karat.web.access import Access, HashCost, User, made_user

CHEAP = HashCost(4, 1, 1)  # a test is not to wait for a password


def access_of(*names: str, token: str | None = None, **more: Any) -> Access:
    """Users whose password is `correct horse`."""
    users: dict[str, User] = {name: made_user("correct horse", CHEAP) for name in names}
    return Access(token=token, users=users, cost=CHEAP, **more)
