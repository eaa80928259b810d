"""What pages share: where they begin, what they are asked, what is said when one cannot be shown."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import InputError, KaratError
from karat.gates.verdicts import Verdicts
from karat.history.queries import Order
from karat.history.store import NotThere, Store, StoreError
from karat.web.rendering import page, static

_S = TypeVar("_S", bound=msgspec.Struct)

SHOWN = 3  # metrics of a list
SIZE = 50  # queries of a page


def front_page(store: Store, request: Request) -> Response:
    return RedirectResponse("/runs")


def static_file(store: Store, request: Request) -> Response:
    found = static(request.path_params["name"])
    if found is None:
        return page("problem.html", "Not found", status=404, store="", error="There is no such file.", hint=None)
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "no-cache"})


def problem_page(store: Store, error: KaratError) -> Response:
    status = 404 if isinstance(error, NotThere) else 503 if isinstance(error, StoreError) else 400
    said = str(error).partition("\nhint: ")[0]
    title = "Not there" if status == 404 else "That did not work"
    return page("problem.html", title, status=status, store=store.label, error=said, hint=error.hint)


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


def kept_verdicts(document: str) -> Verdicts:
    try:
        return msgspec.json.decode(document, type=Verdicts)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InputError(
            f"the verdict was kept by a Karat that wrote it in another way: {error}", code="old-verdict"
        ) from error
