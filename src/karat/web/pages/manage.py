"""Keeping order in the browser: forms to rename, note, tag, pin, delete and restore runs; the audit log; retention."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import InputError, KaratError
from karat.history.changes import DAYS
from karat.history.retention import RetentionRule, checked_rule, preview, read_rule, save_rule
from karat.history.rows import PinKind
from karat.history.store import Store
from karat.web.access import Role
from karat.web.forms import read_form
from karat.web.guard import MANAGE
from karat.web.order import AskAudit, AskDeleted
from karat.web.page import asked_of, link, page, problem_page, steps
from karat.web.page_worker import Show
from karat.web.rules import RoleRoute

Form: TypeAlias = dict[str, str]
Act: TypeAlias = Callable[[Store, str, Form], str]  # of the run (empty if the address names none); returns an address
_PREVIEWED = 20


def _words(store: Store, run: str, form: Form) -> str:
    run_id = store.find(run)
    store.set_title(run_id, form.get("title"))
    store.set_note(run_id, form.get("note"))
    return _to(f"/runs/{run_id}", "saved")


def _tag(store: Store, run: str, form: Form) -> str:
    run_id = store.find(run)
    store.tag(run_id, [form.get("tag", "").strip()])
    return _to(f"/runs/{run_id}", "tagged")


def _untag(store: Store, run: str, form: Form) -> str:
    run_id = store.find(run)
    store.untag(run_id, [form.get("tag", "")])
    return _to(f"/runs/{run_id}", "untagged")


def _pin(store: Store, run: str, form: Form) -> str:
    run_id = store.find(run)
    kind: PinKind = "anchor" if form.get("kind") == "anchor" else "baseline"
    store.pin(run_id, form.get("name", "").strip(), kind)
    return _to(f"/runs/{run_id}", "pinned")


def _unpin(store: Store, run: str, form: Form) -> str:
    store.unpin(form.get("name", ""))
    return _to("/pins", "unpinned")


def _delete(store: Store, run: str, form: Form) -> str:
    if form.get("sure") != "yes":
        raise InputError("the run was not deleted: the box was not ticked", code="missing-field")
    store.delete(store.find(run))
    return _to("/deleted", "deleted")


def _restore(store: Store, run: str, form: Form) -> str:
    run_id = store.find_deleted(run)
    store.restore(run_id)
    return _to(f"/runs/{run_id}", "restored")


def _retention(store: Store, run: str, form: Form) -> str:
    save_rule(store, _rule_of(form))
    return _to("/retention", "rule")


FORMS: tuple[tuple[str, Act, Role], ...] = (
    ("/runs/{run}/words", _words, "editor"),
    ("/runs/{run}/tag", _tag, "editor"),
    ("/runs/{run}/untag", _untag, "editor"),
    ("/runs/{run}/pin", _pin, "editor"),
    ("/runs/{run}/delete", _delete, "editor"),
    ("/runs/{run}/restore", _restore, "editor"),
    ("/unpin", _unpin, "editor"),
    ("/retention", _retention, "admin"),
)


def deleted_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, AskDeleted)
    runs, total = store.deleted(limit=asked.limit, offset=asked.offset)
    links = steps(request, asked.offset, asked.limit, total)
    return page("deleted.html", "Deleted runs", store, request=request, runs=runs, total=total, links=links, days=DAYS)


def audit_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, AskAudit)
    found = store.audit(asked.which(), limit=asked.limit, after=asked.after)
    links = [("Newest", link("/audit", request, after=None))] if asked.after else []
    links += [("Older", link("/audit", request, after=found.after))] if found.after else []
    actions = store.audit_actions()
    return page(
        "audit.html",
        "Audit log",
        store,
        request=request,
        asked=asked,
        entries=found.entries,
        actions=actions,
        links=links,
    )


def retention_page(store: Store, request: Request) -> Response:
    """The rule, and what another one would delete."""
    given = dict(request.query_params)
    trying = "keep_last" in given or "days" in given
    rule = _rule_of(given) if trying else read_rule(store)
    return page(
        "retention.html",
        "Retention",
        store,
        request=request,
        saved=read_rule(store),
        rule=rule,
        trying=trying,
        found=preview(store, rule, _PREVIEWED),
        days=DAYS,
    )


ORDER_PAGES: dict[str, tuple[Show, Role]] = {
    "/deleted": (deleted_page, "editor"),
    "/audit": (audit_page, "admin"),
    "/retention": (retention_page, "admin"),
}


def manage_routes(store: Store) -> list[RoleRoute]:
    def posted(act: Act) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                form = await read_form(request)
                address = await run_in_threadpool(act, store, request.path_params.get("run", ""), form)
                return RedirectResponse(address, 303)
            except KaratError as error:
                return problem_page(store, error)

        return answer

    def shown(show: Show) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await run_in_threadpool(show, store, request)
            except KaratError as error:
                return problem_page(store, error)

        return answer

    return [
        *(RoleRoute(MANAGE + path, posted(act), {"POST": role}) for path, act, role in FORMS),
        *(RoleRoute(path, shown(show), {"GET": role}) for path, (show, role) in ORDER_PAGES.items()),
    ]


def _rule_of(form: Form) -> RetentionRule:
    numbers = {}
    for name in ("keep_last", "days"):
        text = form.get(name, "").strip()
        if text and not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise InputError("not a number", code="bad-value", field=name, expected="a number, or nothing", got=text)
        numbers[name] = int(text) if text else None
    return checked_rule(**numbers)


def _to(address: str, done: str) -> str:
    """The page to show next, with a confirmation."""
    return f"{address}?{urlencode({'done': done})}"
