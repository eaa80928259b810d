"""The pages on which people label: plain forms, made quicker by a little script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from karat.errors import ConfigError, InputError, KaratError
from karat.history.store import Store
from karat.labels.agreement import settle
from karat.labels.desk import Desk, PoolAtDesk, ShownPair, checked_name, mark_of
from karat.labels.labelling import grade_words
from karat.report.blocks import Block, Cell, Column, Section, Table, Text
from karat.report.labels import agreement_report, calibration_report
from karat.report.renderers.html import marked
from karat.results.queries.highlight import shared_words
from karat.web.access import Access
from karat.web.guard import LABELS, cookie_of
from karat.web.label_api import Visit, agreement_of, calibration_of, pool_state
from karat.web.rendering import page, place

NAME = "karat_annotator"
_YEAR = 365 * 24 * 3600
_BESIDE = 100  # pairs of a table
_NO_TEXT = "This pair has no text: `karat pool --corpus` lends it."

Form: TypeAlias = dict[str, str]
Page: TypeAlias = Callable[[Visit, Request, Form], Response]


def visit_of(store: Store, desk: Desk, access: Access, request: Request) -> Visit:
    """Under the name of the log-in; else under that which was given once."""
    user = access.user_of(cookie_of(request.headers))
    if user:
        return Visit(store, desk, user, logged_in=True)
    try:
        return Visit(store, desk, checked_name(unquote(request.cookies.get(NAME, ""))))
    except ConfigError:
        return Visit(store, desk)


def pools_page(visit: Visit, request: Request, form: Form) -> Response:
    states = [pool_state(visit.desk, pool) for pool in visit.desk.pools.values()]
    return _page(visit, "labels.html", "Labels", states=states)


def label_page(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    if not visit.name:
        return RedirectResponse(_address(pool, "name"), 303)
    skipped = request.query_params.get("skipped") == "1"
    turn = visit.desk.turn(pool, visit.name, skipped=skipped)
    words = grade_words(visit.desk.highest)
    return _page(
        visit,
        "label.html",
        f"Label {pool.name}",
        pool=pool.name,
        pairs=len(pool.entries),
        address=_address(pool),
        turn=turn,
        skipped=skipped,
        mark=None if turn.pair is None else mark_of(turn.pair.key),
        no_text=_NO_TEXT,
        passage=None if turn.pair is None else _passage(turn.pair),
        grades=[(str(grade), words[grade]) for grade in reversed(range(len(words)))],
        said=lambda grade: _in_words(grade, words),
    )


def give(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    pair = pool.by_mark.get(form.get("pair", ""))
    if pair is None:
        raise InputError("no pair of this pool", code="unknown-pair", field="pair", hint="load the page again")
    visit.desk.give(
        pool, visit.annotator(None), pair, _grade(form.get("grade", "")), form.get("note", "").strip()[:2000]
    )
    return _back(pool, form)


def undo(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    visit.desk.undo(pool, visit.annotator(None))
    return _back(pool, form)


def name_page(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    if visit.logged_in:
        return RedirectResponse(_address(pool), 303)
    return _page(visit, "label_name.html", "Who labels?", address=_address(pool, "name"), name=visit.name)


def set_name(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    response = RedirectResponse(_address(pool), 303)
    if not visit.logged_in:
        secure = request.headers.get("x-forwarded-proto") == "https"
        value = quote(checked_name(form.get("name", "")), safe="")
        response.set_cookie(NAME, value, max_age=_YEAR, httponly=True, samesite="strict", secure=secure)
    return response


def agreement_page(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    report = agreement_report(agreement_of(visit.desk, pool), _closed(visit, pool))
    return _page(visit, "label_report.html", f"Agreement on {pool.name}", pool, report.sections, here="agreement")


def calibration_page(visit: Visit, request: Request, form: Form) -> Response:
    pool = visit.pool(request.path_params["pool"])
    try:
        report = calibration_report(calibration_of(visit.desk, pool))
    except KaratError as error:
        said: list[Block] = [Text(str(error).replace("\nhint: ", ". "), "warning")]
        sections = [Section("rates", "Nothing to say yet", said)]
    else:
        told = [_without_pairs(section) if section.name == "next" else section for section in report.sections]
        sections = [*told, _beside(visit.desk, pool, _closed(visit, pool))]
    return _page(visit, "label_report.html", f"Calibration on {pool.name}", pool, sections, here="calibration")


def label_routes(visit_of: Callable[[Request], Visit], problem: Callable[[Store, KaratError], Response]) -> list[Route]:
    """`problem`: the page that says why a request was refused."""
    pages: Iterable[tuple[str, str, Page]] = (
        ("GET", "", pools_page),
        ("GET", "/{pool}", label_page),
        ("POST", "/{pool}", give),
        ("POST", "/{pool}/undo", undo),
        ("GET", "/{pool}/name", name_page),
        ("POST", "/{pool}/name", set_name),
        ("GET", "/{pool}/agreement", agreement_page),
        ("GET", "/{pool}/calibration", calibration_page),
    )

    def answering(show: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visit = visit_of(request)
            sent = (await request.body()).decode("utf-8", "replace") if request.method == "POST" else ""
            try:
                form = dict(parse_qsl(sent, max_num_fields=10))
                return await run_in_threadpool(show, visit, request, form)
            except ValueError:
                return problem(visit.store, InputError("not a form of these pages", code="bad-body"))
            except KaratError as error:
                return problem(visit.store, error)

        return answer

    return [Route(LABELS + path, answering(show), methods=[method]) for method, path, show in pages]


def _page(
    visit: Visit,
    template: str,
    title: str,
    pool: PoolAtDesk | str | None = None,
    sections: Sequence[Section] = (),
    **context: Any,
) -> Response:
    named = {"place": "labels", "store": visit.store.label, "visit": visit, "pool": getattr(pool, "name", pool)}
    return page(template, title, sections=place(sections), **{**named, **context})


def _address(pool: PoolAtDesk, *rest: str) -> str:
    return "/".join([LABELS, quote(pool.name, safe=""), *rest])


def _back(pool: PoolAtDesk, form: Form) -> Response:
    return RedirectResponse(_address(pool) + ("?skipped=1" if form.get("skipped") == "1" else ""), 303)


def _grade(given: str) -> float | None:
    if given == "skip":
        return None
    if not given.isdecimal() or not given.isascii():
        raise InputError("no grade", code="bad-value", field="grade", expected="a number, or skip", got=given)
    return float(given[:3])


def _passage(pair: ShownPair) -> Markup:
    text = (pair.text or "").replace("\r\n", "\n").replace("\r", "\n")
    found = shared_words(pair.query or "", text, pair.language, len(text) + 1)
    return marked(found.text, found.marks, len(text))


def _in_words(grade: float | None, words: tuple[str, ...]) -> str:
    if grade is None:
        return "no grade"
    word = words[int(grade)] if grade == int(grade) and grade < len(words) else ""
    return f"{grade:g} {word}".strip()


def _closed(visit: Visit, pool: PoolAtDesk) -> set[tuple[str, str]]:
    """What a visitor who is labelling this pool must not see yet."""
    hidden = visit.desk.not_yet_graded(pool, visit.name) if visit.name else set()
    return {(pair.query, pair.item) for pair in hidden}


def _without_pairs(section: Section) -> Section:
    """How many labels more, but not the judge's grades of pairs that wait for one."""
    return msgspec.structs.replace(section, blocks=[block for block in section.blocks if isinstance(block, Text)])


def _beside(desk: Desk, pool: PoolAtDesk, closed: set[tuple[str, str]]) -> Section:
    people, judges = (
        {label.key: label.grade for label in settle(labels) if label.grade is not None}
        for labels in (desk.labels(pool, "human"), desk.judged(pool))
    )
    both = [pair for pair in people if pair in judges]
    seen = [pair for pair in both if (pair.query, pair.item) not in closed]
    seen.sort(key=lambda pair: -abs(people[pair] - judges[pair]))
    rows: list[list[Cell]] = [
        [pair.query, pair.item, pool.entries[pair].query or "", f"{people[pair]:g}", f"{judges[pair]:g}"]
        for pair in seen[:_BESIDE]
    ]
    columns = [Column(title) for title in ("query", "item", "asked", "people", "judge")]
    said = f"{len(both):,} pairs have grades of both, the widest apart first"
    said += f"; {len(both) - len(seen):,} that you have yet to grade are not shown" if len(seen) < len(both) else ""
    said += f"; these are the first {_BESIDE}." if len(seen) > _BESIDE else "."
    return Section("beside", "Pair by pair", [Text(said), *([Table(columns, rows)] if rows else [])])
