"""Shared by all pages: templates with the blocks, style and script of the report, and query parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache
from importlib import resources
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import ChoiceLoader, Environment, FunctionLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from karat.errors import InputError, KaratError
from karat.errors.redaction import redact_known
from karat.files.decode_errors import DECODE_ERRORS
from karat.gates.verdict_form import Verdicts
from karat.history.queries import Order
from karat.history.report import gold_set, minute
from karat.history.rows import RunRow, TrendPoint
from karat.history.store import Store
from karat.report.blocks import SIGNS
from karat.report.readable import NAME, readable, safe
from karat.report.renderers.html import Placed, asset, environment, with_short_hashes
from karat.report.svg import element
from karat.results.numbers import written
from karat.scoring.metrics.grammar import parse_metric
from karat.web.access import VISITOR, may
from karat.web.endpoints import Offset, Problem, problem_of

_S = TypeVar("_S", bound=msgspec.Struct)
LIVE: ContextVar[bool] = ContextVar("live", default=False)  # whether the server has retrievers to ask

SHOWN = 3  # metrics in a list
SIZE = 50  # queries per page
# What a page says after a change.
DONE = {
    "saved": "Title and note were saved.",
    "tagged": "The tag was added.",
    "untagged": "The tag was removed.",
    "pinned": "The run was pinned.",
    "unpinned": "The pin was removed. Its run is still there.",
    "deleted": "The run was deleted. You can restore it here.",
    "restored": "The run was restored.",
    "rule": "The rule was saved.",
}
_WIDTH, _HEIGHT, _EDGE = 96, 18, 3


@cache
def _own(name: str) -> str:
    return resources.files("karat.web").joinpath("templates", name).read_text(encoding="utf-8")


_STYLES = ("dashboard.css", "label.css", "desk.css")
_STATIC: dict[str, tuple[str, Callable[[], str]]] = {
    "style.css": (
        "text/css",
        lambda: asset("style.css") + "".join(map(_own, ("dashboard.css", "label.css", "desk.css"))),
    ),
    "script.js": ("text/javascript", lambda: asset("script.js")),
    "label.js": ("text/javascript", lambda: _own("label.js")),
    "grade.js": ("text/javascript", lambda: _own("grade.js")),
    "icon.svg": ("image/svg+xml", lambda: _own("icon.svg")),
}


def page(
    template: str,
    title: str,
    store: Store | None = None,
    *,
    status: int = 200,
    sections: Sequence[Placed] = (),
    request: Request | None = None,
    **context: Any,
) -> Response:
    """Makes a page. `request`: its address may name a change to confirm (`done`)."""
    from karat import __version__

    frame = {"version": __version__, "visitor": VISITOR.get(), "store": store.label if store else ""}
    done = None if request is None else DONE.get(request.query_params.get("done", ""))
    named = {"title": title, "sections": sections, "done": done, "live": LIVE.get(), **frame, **context}
    return HTMLResponse(redact_known(_templates().get_template(template).render(**named)), status)


def front_page(store: Store, request: Request) -> Response:
    return RedirectResponse("/runs")


def static_file(store: Store, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return page("problem.html", "Not found", status=404, problem=Problem("No such file."))
    kind, content = _STATIC[name]
    return Response(content(), media_type=kind, headers={"Cache-Control": "no-cache"})


def problem_page(store: Store, error: KaratError) -> Response:
    status, problem = problem_of(error)
    title = "Not found" if status == 404 else "Something went wrong"
    return page("problem.html", title, store, status=status, problem=problem)


class AskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of queries."""

    metric: str | None = None
    order: Order | None = None
    text: str = ""
    offset: Offset = 0


def asked_of(request: Request, kind: type[_S]) -> _S:
    """Reads the query parameters; empty form fields are ignored."""
    given = {name: value for name, value in request.query_params.items() if name in kind.__struct_fields__ and value}
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
    """The current address with some parameters changed; None removes one."""
    kept = [(n, v) for n, v in request.query_params.multi_items() if n not in changes and v]
    more = [(name, value) for name, value in changes.items() if value is not None]
    query = urlencode([*kept, *more])
    return f"{path}?{query}" if query else path


def score_cells(scores: dict[str, float | None], names: Sequence[str]) -> list[str]:
    """Some scores of a query, as text."""
    return [written(scores.get(name), parse_metric(name).unit) for name in names]


def kept_verdicts(document: str) -> Verdicts:
    try:
        return msgspec.json.decode(document, type=Verdicts)
    except DECODE_ERRORS as error:
        said = f"the verdict was saved by an incompatible version of Karat: {error}"
        raise InputError(said, code="old-verdict") from error


# Parts of rows, made here because a list has hundreds of them: a macro takes ten times as long.


def _run_link(run_id: str) -> Markup:
    name = safe(run_id)
    return Markup(f'<a href="/runs/{name}" title="{name}"><code>{safe(run_id[:10])}</code></a>')  # escaped


def _query_link(query_id: str, runs: Sequence[str] = ()) -> Markup:
    to = "&".join([urlencode({"query_id": query_id}, quote_via=quote), *(f"run={quote(run)}" for run in runs)])
    name = safe(readable(query_id, NAME).replace("\n", " "))
    return Markup(f'<a href="/query?{safe(to)}">{name}</a>')  # escaped


def _outcome(value: str | None) -> Markup:
    if not value:
        return Markup("–")
    word, sign = safe(value), f'<span class="sign" aria-hidden="true">{SIGNS[value]}</span>'
    return Markup(f'<span class="{word}"><span class="outcome">{sign}{word}</span></span>')  # escaped


def _named(row: RunRow | TrendPoint) -> Markup:
    names = [*(f"{pin.kind} {pin.name}" for pin in row.pins), *row.tags]
    return Markup("".join(f'<span class="tag">{safe(name)}</span>' for name in names))  # escaped


def _made_by(branch: str | None, code: str | None) -> Markup:
    version = f"<br><code>{with_short_hashes(readable(code, NAME))}</code>" if code else ""
    return Markup(f"{safe(branch or '–')}{version}")  # escaped


def sparkline(values: Sequence[float]) -> Markup:
    """A value over time, hidden from screen readers: the number next to it is the newest."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = (_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1)
    points = [
        f"{_EDGE + i * step:.1f},{_HEIGHT - _EDGE - (v - low) / span * (_HEIGHT - 2 * _EDGE):.1f}"
        for i, v in enumerate(values)
    ]
    x, _, y = points[-1].partition(",")
    line = element("polyline", points=" ".join(points), class_="history")
    dot = element("circle", cx=x, cy=y, r=2.5, class_="point")
    return element("svg", line, dot, class_="spark", width=_WIDTH, height=_HEIGHT, aria_hidden="true")


@cache
def _templates() -> Environment:
    blocks = environment()
    assert blocks.loader is not None
    made = blocks.overlay(loader=ChoiceLoader([FunctionLoader(_known), blocks.loader]))
    made.filters.update(minute=minute, gold_set=gold_set)
    parts = {
        "run_link": _run_link,
        "query_link": _query_link,
        "outcome": _outcome,
        "named": _named,
        "made_by": _made_by,
    }
    made.globals = {**made.globals, **parts, "may": may}
    return made


def _known(name: str) -> str | None:
    return _own(name) if (resources.files("karat.web") / "templates" / name).is_file() else None
