"""Pools in the browser: make one from a selection of runs, assign, rename, close and open it; as pages and API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import ConfigError, InputError, KaratError
from karat.history.audit import whoever
from karat.history.pool_selection import MOST_PAIRS, PoolPairs, PoolSelection, choose_pairs
from karat.history.report import minute
from karat.history.store import Store, short
from karat.labels.desk import Desk, PoolAtDesk, checked_name
from karat.labels.desk_folder import MOST_ASSIGNED, DeskFolder, PoolNotes, checked_pool_name
from karat.labels.files import now
from karat.web.access import Role
from karat.web.endpoints import Endpoint
from karat.web.guard import DESK, LABELS
from karat.web.labels import Form, Page, PoolState, Visit, page_routes, pool_state
from karat.web.page import page
from karat.web.rules import RoleRoute

_RUNS = 50  # newest runs to choose from
_LIMIT = 200  # pairs, by default
_FIRST = {"run": "", "other": "", "metric": "", "k": "10", "limit": str(_LIMIT)}
_CHOICES = [
    ("unjudged", "Hits of a run that are not judged yet"),
    ("disagreement", "Unjudged hits that only one of two runs has"),
    ("changed", "Unjudged hits of queries that changed between two runs"),
    ("queries", "All hits of some queries of a run"),
]
_Text = Annotated[str, msgspec.Meta(max_length=500)]


class NewPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pool to make. `preview`: only count its pairs."""

    selection: PoolSelection
    name: _Text = ""
    assigned: Annotated[list[_Text], msgspec.Meta(max_length=MOST_ASSIGNED)] = []
    preview: bool = False


class PoolChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change about a pool; null: nothing."""

    name: _Text | None = None
    assigned: Annotated[list[_Text], msgspec.Meta(max_length=MOST_ASSIGNED)] | None = None
    closed: bool | None = None


class MadePool(msgspec.Struct, frozen=True):
    """A pool that was made or, without a name, only counted."""

    name: str | None
    pairs: int
    queries: int
    found: int  # pairs to choose from
    labelled: int  # left out, since people have graded them
    without_text: int
    source: str


def who(visit: Visit) -> str:
    """The visitor in notes about pools."""
    return visit.name or whoever()


def folder_of(desk: Desk) -> DeskFolder:
    if desk.folder is None:
        raise ConfigError("this server has no desk", code="no-desk", hint="karat serve --desk FOLDER")
    return desk.folder


def chosen_pairs(visit: Visit, asked: PoolSelection) -> PoolPairs:
    folder_of(visit.desk)
    known = {label.key for label in visit.desk.people() if label.grade is not None}
    return choose_pairs(visit.store, asked, known)


def make_pool(visit: Visit, asked: NewPool) -> MadePool:
    folder, name = folder_of(visit.desk), None
    if not asked.preview:
        name = checked_pool_name(asked.name)
        assigned = _people(asked.assigned)
        if name in visit.desk.pools:
            raise ConfigError(f"there is already a pool {name}", code="pool-exists", hint="choose another name")
    found = chosen_pairs(visit, asked.selection)
    if name is not None:
        notes = PoolNotes(made_by=who(visit), made_at=now(), source=found.source, assigned=assigned)
        folder.add_pool(name, found.entries, notes)
        visit.store.log("make pool", f"{name}: {found.source}")
    return MadePool(
        name, len(found.entries), found.queries, found.found, found.labelled, found.without_text, found.source
    )


def change_pool(visit: Visit, pool: PoolAtDesk, asked: PoolChange) -> PoolState:
    """Everything is checked first, so that either all of it happens or nothing."""
    folder, name = visit.desk.in_folder(pool.name), pool.name
    assigned = None if asked.assigned is None else _people(asked.assigned)
    if asked.name is not None and asked.name != name:
        if checked_pool_name(asked.name) in visit.desk.pools:
            raise ConfigError(f"there is already a pool {asked.name}", code="pool-exists", hint="choose another name")
        folder.rename(name, asked.name)
        visit.store.log("rename pool", f"{name} → {asked.name}")
        name = asked.name
    if assigned is not None:
        folder.change(name, assigned=assigned)
        visit.store.log("assign pool", f"{name}: {', '.join(assigned) or 'no one'}")
    if asked.closed is not None and asked.closed != visit.desk.notes(name).closed:
        folder.set_closed(name, asked.closed, who(visit))
        visit.store.log("close pool" if asked.closed else "open pool", name)
    return pool_state(visit.desk, visit.desk.pools[name])


def _people(names: Sequence[str]) -> list[str]:
    if len(names) > MOST_ASSIGNED:
        raise InputError("too many people", code="bad-value", field="assigned", expected=f"at most {MOST_ASSIGNED}")
    return list(dict.fromkeys(checked_name(name) for name in names if name.strip()))


def _post(visit: Visit, path: dict[str, str], asked: Any, body: NewPool) -> MadePool:
    return make_pool(visit, body)


def _put(visit: Visit, path: dict[str, str], asked: Any, body: PoolChange) -> PoolState:
    return change_pool(visit, visit.pool(path["pool"]), body)


_MAKE = "Make a pool from hits of runs, or count its pairs."
_CHANGE = "Rename, assign, close or open a pool of the desk."
POOL_ENDPOINTS = (
    Endpoint("POST", "/desk/pools", _MAKE, MadePool, _post, takes=NewPool, role="editor"),
    Endpoint("PUT", "/pools/{pool}", _CHANGE, PoolState, _put, takes=PoolChange, role="editor"),
)


def new_page(visit: Visit, request: Request, form: Form) -> Response:
    """A selection, and how many pairs it has; then a name for the pool."""
    folder_of(visit.desk)
    given = {name: value for name, value in request.query_params.items() if value}
    queries = [one for text in request.query_params.getlist("queries") for one in text.splitlines() if one.strip()]
    queries += [one for one in request.query_params.getlist("query") if one]
    found, problem = None, None
    if "count" in given:
        try:
            found = chosen_pairs(visit, _selection(given, queries))
        except KaratError as error:
            problem = str(error).replace("\nhint: ", ". ")
    return _page(
        visit,
        "pool_new.html",
        "New pool",
        given={**_FIRST, "choice": "queries" if queries else "unjudged", **given},
        queries=queries,
        choices=_CHOICES,
        runs=_runs(visit.store, [given.get("run", ""), given.get("other", "")]),
        most=MOST_PAIRS,
        found=found,
        problem=problem,
    )


def create(visit: Visit, request: Request, form: Form) -> Response:
    selection = _selection(form, form.get("queries", "").splitlines())
    people = _split(form.get("assigned", ""))
    make_pool(visit, NewPool(selection=selection, name=form.get("name", "").strip(), assigned=people))
    return RedirectResponse(LABELS, 303)


def change_page(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    visit.desk.in_folder(pool.name)
    return _page(visit, "pool.html", f"Pool {pool.name}", state=pool_state(visit.desk, pool), most=MOST_ASSIGNED)


def change(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    asked: dict[str, Callable[[], PoolChange]] = {
        "rename": lambda: PoolChange(name=form.get("name", "").strip()),
        "assign": lambda: PoolChange(assigned=_split(form.get("assigned", ""))),
        "close": lambda: PoolChange(closed=True),
        "open": lambda: PoolChange(closed=False),
    }
    what = form.get("do", "")
    if what not in asked:
        expected = ", ".join(asked)
        raise InputError("invalid value", code="bad-value", field="do", expected=expected, got=what)
    state = change_pool(visit, pool, asked[what]())
    return RedirectResponse(f"{DESK}/pools/{quote(state.name, safe='')}", 303)


_PAGES: Sequence[tuple[str, str, Page, Role]] = (
    ("GET", "/new", new_page, "editor"),
    ("POST", "/new", create, "editor"),
    ("GET", "/pools/{pool}", change_page, "editor"),
    ("POST", "/pools/{pool}", change, "editor"),
)


def pool_routes(visit_of: Callable[[Request], Visit]) -> list[RoleRoute]:
    return page_routes(DESK, _PAGES, visit_of)


def _page(visit: Visit, template: str, title: str, **context: Any) -> Response:
    return page(template, title, visit.store, visit=visit, **context)


def _selection(given: Form, queries: Sequence[str]) -> PoolSelection:
    choice = given.get("choice", "unjudged")
    both = choice in ("disagreement", "changed")
    asked = {
        "choice": choice,
        "runs": [run for run in (given.get("run", ""), given.get("other", "") if both else "") if run],
        "k": given.get("k") or 10,
        "metric": given.get("metric") or None,
        "queries": [query.strip() for query in queries if query.strip()] if choice == "queries" else [],
        "limit": given.get("limit") or None,
    }
    try:
        return msgspec.convert(asked, PoolSelection, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(str(error), code="bad-value") from error


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.replace("\n", ",").split(",") if name.strip()]


def _runs(store: Store, named: Sequence[str]) -> list[tuple[str, str]]:
    """Runs to choose from: the newest, and those that the address names."""
    rows = {row.id: row for row in store.runs(limit=_RUNS).rows}
    found = [
        (row.id, f"{row.head.system or row.head.run}, {minute(row.saved_at)}, {short(row.id)}") for row in rows.values()
    ]
    return [*((name, name) for name in dict.fromkeys(named) if name and name not in rows), *found]
