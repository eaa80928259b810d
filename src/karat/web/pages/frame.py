"""What stands around the pages: where they begin, what they are made with, what is said when one cannot be shown."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import KaratError
from karat.history.store import NotThere, Store, StoreError
from karat.web.rendering import page, static


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
