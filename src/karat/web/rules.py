"""Routes that name the least role they need, next to their address. The Guard checks it before anything else runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from karat.web.access import ROLES, Role

READS = ("GET", "HEAD", "OPTIONS")


class RoleRoute(Route):
    """A route with the least role for each of its methods."""

    def __init__(self, path: str, endpoint: Callable[..., Any], roles: Mapping[str, Role]) -> None:
        super().__init__(path, endpoint, methods=list(roles))
        self.roles: dict[str, Role] = dict(roles)


def needed_role(routes: Iterable[BaseRoute], scope: Scope) -> Role:
    """The least role for a request. Reading is for everyone unless a route says otherwise; a write that no route
    names is for admins."""
    reads = scope["method"] in READS
    for route in routes:
        role = route.roles.get("GET" if reads else scope["method"]) if isinstance(route, RoleRoute) else None
        if role is None or (reads and role == "viewer"):  # the most frequent, so their addresses are not compared
            continue
        if route.matches(scope)[0] == Match.FULL:
            return role
    return "viewer" if reads else "admin"


def refusal(own: Role, needed: Role) -> str:
    """
    >>> refusal("viewer", "editor")
    'this needs the role editor or admin, and yours is viewer'
    """
    enough = " or ".join(ROLES[ROLES.index(needed) :])
    return f"this needs the role {enough}, and yours is {own}"
