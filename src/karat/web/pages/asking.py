"""What an address asks of a page, and the addresses of pages beside it."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

from karat.errors import InputError
from karat.history.queries import Order

_S = TypeVar("_S", bound=msgspec.Struct)

SHOWN = 3  # metrics of a list
SIZE = 50  # queries of a page


class AskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of queries."""

    metric: str | None = None
    order: Order | None = None
    text: str = ""
    offset: int = 0


def asked_of(request: Request, kind: type[_S]) -> _S:
    """What the address asks for; a field of a form that was left empty asks for nothing."""
    names = {field.name for field in msgspec.structs.fields(kind)}
    given = {name: value for name, value in request.query_params.items() if name in names and value}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error


def steps(request: Request, offset: int, size: int, total: int) -> list[tuple[str, str]]:
    path, found = request.url.path, []
    if offset > 0:
        found.append(("Previous", link(path, request, offset=max(offset - size, 0))))
    if offset + size < total:
        found.append(("Next", link(path, request, offset=offset + size)))
    return found


def link(path: str, request: Request, **changes: Any) -> str:
    """The same question with some answers changed; None takes one away."""
    kept = [(n, v) for n, v in request.query_params.multi_items() if n not in changes and v]
    more = [(name, value) for name, value in changes.items() if value is not None]
    query = urlencode([*kept, *more])
    return f"{path}?{query}" if query else path
