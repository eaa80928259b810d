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
        self.start: str = path.partition("{")[0]  # of all its addresses


def needed_role(routes: Iterable[BaseRoute], scope: Scope) -> Role:
    """The least role for a request. Reading is for everyone unless a route says otherwise; a write that no route
    names is for admins."""
    reads, path = scope["method"] in READS, scope["path"] if not scope.get("root_path") else None
    for route in routes:
        if not isinstance(route, RoleRoute):
            continue
        role = route.roles.get("GET" if reads else scope["method"])
        if role is None or (reads and role == "viewer"):  # the most frequent, so their addresses are not compared
            continue
        # To compare the start first saves most of the time.
        if (path is None or path.startswith(route.start)) and route.matches(scope)[0] == Match.FULL:
            return role
    return "viewer" if reads else "admin"


def refusal(own: Role, needed: Role) -> str:
    """
    >>> refusal("viewer", "editor")
    'this needs the role editor or admin, and yours is viewer'
    """
    enough = " or ".join(ROLES[ROLES.index(needed) :])
    return f"this needs the role {enough}, and yours is {own}"
