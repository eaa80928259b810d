"""Grades on the page of a query, and what they change at once; as forms and API.

Whoever grades here sees ranks and gold, so these labels say so (`saw`): agreement and calibration leave them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from karat.errors import ConfigError, InputError, KaratError
from karat.history.hits import QueryRecord, RecordedHit
from karat.history.label_effect import LabelEffect, effect_of
from karat.history.records import record_of
from karat.history.store import NotThere, short
from karat.labels.desk import Desk, Given, PoolAtDesk, mark_of
from karat.labels.files import Key, Label, PoolEntry
from karat.labels.session import grade_words
from karat.report.renderers.html import marked
from karat.results.numbers import written
from karat.results.queries.shown import shared_words
from karat.web.access import Role, may
from karat.web.endpoints import Endpoint
from karat.web.guard import DESK, NEXT, next_page
from karat.web.labels import AskAnnotator, Form, Page, Visit, in_words, page_routes, read_grade, set_name_and_return
from karat.web.page import page, problem_page
from karat.web.pages.one_query import query_page
from karat.web.rules import RoleRoute

_LENGTH = 2_000  # characters shown of a text
_Text = Annotated[str, msgspec.Meta(max_length=500)]


class HitLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grade of a hit of a run, or null to skip it."""

    run: _Text
    query_id: _Text
    chunk_id: _Text
    grade: Annotated[float, msgspec.Meta(ge=0, le=9)] | None
    annotator: _Text | None = None
    note: Annotated[str, msgspec.Meta(max_length=2000)] | None = None


class AskHit(AskAnnotator, frozen=True, kw_only=True):
    """A hit of a run whose label to undo; without `chunk_id`, the last label of the query's hits."""

    run: _Text
    query_id: _Text
    chunk_id: _Text | None = None


class AskEffect(AskAnnotator, frozen=True, kw_only=True):
    """A query of a run. With an annotator, labels of others that the annotator must not see yet do not count."""

    run: _Text
    query_id: _Text
    metric: Annotated[list[_Text], msgspec.Meta(max_length=20)] = []


class GradedHit(msgspec.Struct, frozen=True):
    """A hit, and the visitor's own label."""

    hit: RecordedHit
    mark: str
    text: Markup | None
    label: Label | None
    said: str  # the visitor's grade in words


class GradedQuery(msgspec.Struct, frozen=True):
    """A query of a run with its hits, as a pool that is not stored."""

    run_id: str
    record: QueryRecord
    pool: PoolAtDesk


def graded_query(visit: Visit, run: str, query_id: str) -> GradedQuery:
    if not visit.desk.can_label:
        raise ConfigError("this server has no file for labels", code="no-desk", hint="karat serve --desk FOLDER")
    run_id = visit.store.find(run)
    found = record_of(visit.store, run_id, query_id)
    if found.record is None:
        if not found.kept:
            what = f"the run {short(run_id)} does not keep the hits of every query"
            raise InputError(what, code="no-hits", hint="save it again: karat eval … --save")
        raise NotThere("query of this run", query_id, (), hint="open a query from the list of queries of the run")
    record = found.record
    entries = [
        PoolEntry(query_id=query_id, chunk_id=hit.id, query=record.query, text=hit.text)
        for hit in {hit.id: hit for hit in record.hits}.values()
    ]
    return GradedQuery(run_id, record, PoolAtDesk("", entries, visit.desk.log))


def give_grade(
    visit: Visit, run: str, query_id: str, item: str, grade: float | None, note: str | None, annotator: str
) -> Given:
    query = graded_query(visit, run, query_id)
    return visit.desk.give(query.pool, annotator, Key(query_id, item), grade, note, saw="ranking")


def undo_grade(visit: Visit, run: str, query_id: str, item: str | None, annotator: str) -> Label:
    """Undo a label that was given on the page of a query. Those given in a pool are undone there."""
    query = graded_query(visit, run, query_id)
    return visit.desk.undo_seen(query.pool, annotator, None if item is None else Key(query_id, item))


def effect_for(visit: Visit, run: str, query_id: str, annotator: str, metrics: Sequence[str] = ()) -> LabelEffect:
    hidden = visit.desk.hidden(annotator) if annotator else set()
    labels = [label for label in visit.desk.people() if label.key not in hidden]
    run_id = visit.store.find(run)
    return effect_of(visit.store, run_id, query_id, labels, metrics=metrics, highest=visit.desk.highest)


def _give(visit: Visit, path: dict[str, str], asked: Any, body: HitLabel) -> Given:
    name = visit.annotator(body.annotator)
    return give_grade(visit, body.run, body.query_id, body.chunk_id, body.grade, body.note, name)


def _undo(visit: Visit, path: dict[str, str], asked: AskHit, body: None) -> Label:
    return undo_grade(visit, asked.run, asked.query_id, asked.chunk_id, visit.annotator(asked.annotator))


def _effect(visit: Visit, path: dict[str, str], asked: AskEffect, body: None) -> LabelEffect:
    name = visit.annotator(asked.annotator) if asked.annotator or visit.name else ""
    return effect_for(visit, asked.run, asked.query_id, name, asked.metric)


_GIVE = "Grade a hit of a run with its rank in sight, or skip it."
_UNDO = "Undo a label given with the rank in sight."
_SHOW = "Scores of a query and its run with gold only, and with labels."
GRADING_ENDPOINTS = (
    Endpoint("POST", "/desk/labels", _GIVE, Given, _give, takes=HitLabel, role="labeller"),
    Endpoint("DELETE", "/desk/labels", _UNDO, Label, _undo, AskHit, role="labeller"),
    Endpoint("GET", "/desk/effect", _SHOW, LabelEffect, _effect, AskEffect, role="labeller"),
)


def shows_grades(desk: Desk, scope: Scope) -> bool:
    """Whether a request is for the page of a query with the labels of whoever asks."""
    return desk.can_label and scope["path"] == "/query" and b"run=" in scope["query_string"] and may("labeller")


def graded_page(visit: Visit, request: Request) -> Response:
    """The page of a query with grades. If its hits are not kept, there is nothing to grade."""

    def grading(run: str, query_id: str) -> dict[str, Any] | None:
        try:
            return grading_of(visit, run, query_id, str(request.url.path) + f"?{request.url.query}")
        except InputError:
            return None
        except ConfigError as error:  # such as a labels file that another server writes
            return {"problem": str(error).replace("\nhint: ", ". ")}

    try:
        return query_page(visit.store, request, grading)
    except KaratError as error:
        return problem_page(visit.store, error)


def grading_of(visit: Visit, run: str, query_id: str, back: str) -> dict[str, Any]:
    """What the page of a query shows to whoever may label. `back`: its address."""
    query = graded_query(visit, run, query_id)
    own = visit.desk.given_by(visit.name, query.pool) if visit.name else {}
    words, record = grade_words(visit.desk.highest), query.record
    effect = effect_for(visit, query.run_id, query_id, visit.name)
    language = record.tags.get("language")
    hits = []
    for hit in {hit.id: hit for hit in record.hits}.values():
        label = own.get(Key(query_id, hit.id))
        said = "" if label is None else "skipped" if label.grade is None else in_words(label.grade, words)
        text = _passage(record.query or "", hit.text, None if language is None else str(language))
        hits.append(GradedHit(hit, mark_of(Key(query_id, hit.id)), text, label, said))
    return {
        "problem": None,
        "visit": visit,
        "run": query.run_id,
        "query_id": query_id,
        "back": back,
        "hits": hits,
        "grades": [(str(grade), words[grade]) for grade in reversed(range(len(words)))],
        "effect": effect,
        "scores": [(one.metric, *(written(value, one.unit) for value in _values(one))) for one in effect.metrics],
        "mine": any(hit.label is not None and hit.label.saw for hit in hits),
    }


def _values(one: Any) -> tuple[float | None, ...]:
    return one.query_gold, one.query_labels, one.run_gold, one.run_labels


def _passage(query: str, text: str | None, language: str | None) -> Markup | None:
    if not text:
        return None
    found = shared_words(query, text, language, _LENGTH)
    return marked(found.text, found.marks, _LENGTH)


def grade(visit: Visit, request: Request, form: Form) -> Response:
    run, query_id = form.get("run", ""), form.get("query_id", "")
    if not visit.name:
        return RedirectResponse(f"{DESK}/name?{urlencode({NEXT: next_page(form.get(NEXT, ''))})}", 303)
    query = graded_query(visit, run, query_id)
    pair = query.pool.by_mark.get(form.get("pair", ""))
    if pair is None and form.get("pair"):
        raise InputError("not a hit of this query", code="unknown-pair", field="pair", hint="reload the page")
    if form.get("grade") == "undo":
        visit.desk.undo_seen(query.pool, visit.annotator(None), pair)
    elif pair is not None:
        note = form.get("note", "").strip()[:2000]
        value = read_grade(form.get("grade", ""))
        visit.desk.give(query.pool, visit.annotator(None), pair, value, note, saw="ranking")
    return RedirectResponse(_back(form), 303)


def name_page(visit: Visit, request: Request, form: Form) -> Response:
    wanted = next_page(request.query_params.get(NEXT, ""))
    if visit.logged_in:
        return RedirectResponse(wanted, 303)
    return page("label_name.html", "Your name", visit.store, address=f"{DESK}/name", name=visit.name, next=wanted)


def _back(form: Form) -> str:
    place = form.get("pair", "")
    return next_page(form.get(NEXT, "")) + (f"#hit-{place}" if place.isalnum() else "")


def grading_routes(visit_of: Callable[[Request], Visit]) -> list[RoleRoute]:
    pages: Sequence[tuple[str, str, Page, Role]] = (
        ("POST", "/grade", grade, "labeller"),
        ("GET", "/name", name_page, "labeller"),
        ("POST", "/name", set_name_and_return, "labeller"),
    )
    return page_routes(DESK, pages, visit_of)
