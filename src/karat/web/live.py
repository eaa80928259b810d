"""Try a query live: ask configured retrievers, see their lists side by side, and keep the query with its grades.

Retrievers are named on the command line only; a browser chooses among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import msgspec
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from karat.errors import ConfigError, InputError, KaratError
from karat.labels.files import Label, now
from karat.labels.session import grade_words
from karat.report.renderers.html import marked
from karat.results.queries.shown import shared_words
from karat.systems.live import LONGEST_QUESTION, MOST_HITS, LiveHit, LiveList, LiveRetrievers
from karat.web.endpoints import Endpoint
from karat.web.forms import read_form
from karat.web.guard import TRY
from karat.web.labels import JSON_LINES, Form, Visit, read_grade
from karat.web.page import page, problem_page
from karat.web.pools import folder_of
from karat.web.rules import RoleRoute

_FIELDS = 500  # of a form
_TAGS = 20
_RESERVED = ("gold", "query", "query_id")
_Text = Annotated[str, msgspec.Meta(max_length=500)]
_Question = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_QUESTION)]


class LiveVisit(msgspec.Struct, frozen=True):
    """A visitor, and the retrievers to ask."""

    visit: Visit
    live: LiveRetrievers


class LiveQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question for one or two retrievers."""

    question: _Question
    retrievers: Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=2)]
    k: Annotated[int, msgspec.Meta(ge=1, le=MOST_HITS)] = 10


class KeptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new gold query: its text, grades by chunk id, and tags. Without a grade above 0, say that it has no answer."""

    question: _Question
    grades: Annotated[dict[_Text, Annotated[float, msgspec.Meta(ge=0, le=9)]], msgspec.Meta(max_length=2 * MOST_HITS)]
    tags: Annotated[dict[_Text, _Text], msgspec.Meta(max_length=_TAGS)] = {}
    no_answer: bool = False
    annotator: _Text | None = None


class NewQuery(msgspec.Struct, frozen=True):
    """The id of a query that was kept."""

    query_id: str


def keep_query(visit: Visit, asked: KeptQuery) -> NewQuery:
    """Writes the query with its grades to the gold queries of the desk, and the grades to the labels."""
    folder, text, highest = folder_of(visit.desk), " ".join(asked.question.split()), visit.desk.highest
    name = visit.annotator(asked.annotator)
    if not text:
        raise InputError("the question is empty", code="bad-value", field="question")
    if any(grade > highest for grade in asked.grades.values()):
        raise InputError("outside the scale", code="bad-value", field="grade", expected=f"0 to {highest}")
    if any(not item or item.strip() != item for item in asked.grades):
        raise InputError("invalid id", code="bad-value", field="grades")
    relevant = {item: grade for item, grade in asked.grades.items() if grade > 0}
    if bool(relevant) is asked.no_answer:
        what = "a query without an answer has no relevant hit" if relevant else "no hit is graded above 0"
        hint = "grade a relevant hit, or say that the query has no answer"
        raise ConfigError(what, code="no-gold", hint=hint)
    if wrong := next((tag for tag in asked.tags if not tag.strip() or tag in _RESERVED), None):
        raise InputError("invalid name of a tag", code="bad-value", field="tags", got=wrong)
    negatives = [item for item, grade in asked.grades.items() if grade == 0]
    fields: dict[str, Any] = {"gold": relevant}
    fields |= {"negatives": negatives} if negatives else {}
    fields |= {"no_answer": True} if asked.no_answer else {}
    fields |= {"tags": asked.tags} if asked.tags else {}
    query_id = folder.add_query(text, fields)
    labels = [
        Label(query_id=query_id, chunk_id=item, grade=grade, annotator=name, saw="ranking", time=now())
        for item, grade in asked.grades.items()
    ]
    visit.desk.add_labels(labels)
    visit.store.log("keep query", query_id)
    return NewQuery(query_id)


def _names(here: LiveVisit, *request: object) -> list[str]:
    return here.live.names


def _ask(here: LiveVisit, path: dict[str, str], asked: Any, body: LiveQuestion) -> list[LiveList]:
    return here.live.ask(body.retrievers, body.question, body.k)


def _keep(here: LiveVisit, path: dict[str, str], asked: Any, body: KeptQuery) -> NewQuery:
    return keep_query(here.visit, body)


def _queries(here: LiveVisit, path: dict[str, str], asked: Any, body: None) -> bytes:
    return folder_of(here.visit.desk).queries()


_KEEP = "Keep a question with grades as a new gold query."
_KEPT = "The new gold queries, as a gold set."
LIVE_ENDPOINTS = (
    Endpoint("GET", "/retrievers", "Retrievers that can be asked.", list[str], _names, role="editor"),
    Endpoint("POST", "/try", "Ask one or two retrievers.", list[LiveList], _ask, takes=LiveQuestion, role="editor"),
    Endpoint("POST", "/desk/queries", _KEEP, NewQuery, _keep, takes=KeptQuery, role="editor"),
    Endpoint("GET", "/desk/queries", _KEPT, bytes, _queries, file=JSON_LINES, role="editor"),
)


class HitToTry(msgspec.Struct, frozen=True):
    """A hit of a list, and its rank in the other one."""

    hit: LiveHit
    number: int  # among all hits of both lists, the same for the same id
    first: bool  # the first time it is shown, where it can be graded
    other: int | None
    text: Markup | None


def try_page(here: LiveVisit, request: Request, form: Form) -> Response:
    names = here.live.names
    first = form.get("first") or names[0]
    second = form.get("second", "" if form else (names[1] if len(names) > 1 else ""))
    question, k = form.get("question", ""), form.get("k") or "10"
    lists: list[LiveList] = []
    if form:
        if not k.isdecimal() or not k.isascii():
            raise InputError("invalid number of hits", code="bad-value", field="k", expected=f"1 to {MOST_HITS}", got=k)
        lists = here.live.ask([name for name in dict.fromkeys((first, second)) if name], question, int(k[:4]))
    words = grade_words(here.visit.desk.highest)
    return page(
        "try.html",
        "Try a query",
        here.visit.store,
        visit=here.visit,
        names=names,
        first=first,
        second=second,
        question=question,
        k=k,
        lists=[(one, shown) for one, shown in zip(lists, _shown(lists, question), strict=True)],
        common=len(_common(lists)),
        longest=LONGEST_QUESTION,
        most=MOST_HITS,
        can_keep=here.visit.desk.folder is not None,
        grades=[(str(grade), words[grade]) for grade in reversed(range(len(words)))],
    )


def keep_page(here: LiveVisit, request: Request, form: Form) -> Response:
    grades: dict[str, float] = {}
    for field, item in form.items():
        given = form.get(f"grade-{field.removeprefix('item-')}", "")
        if field.startswith("item-") and given:
            grade = read_grade(given)
            grades |= {} if grade is None else {item: grade}
    tags = dict(part.strip().split("=", 1) for part in form.get("tags", "").split(",") if "=" in part)
    asked = {
        "question": form.get("question", ""),
        "grades": grades,
        "tags": {name.strip(): value.strip() for name, value in tags.items()},
        "no_answer": form.get("no_answer") == "1",
        "annotator": form.get("annotator") or None,
    }
    try:
        kept = keep_query(here.visit, msgspec.convert(asked, KeptQuery))
    except msgspec.ValidationError as error:
        raise InputError(str(error), code="bad-value") from error
    folder = folder_of(here.visit.desk)
    told: dict[str, Any] = {"kept": kept.query_id, "file": str(folder.queries_file), "labels": len(grades)}
    return page("try_kept.html", "Query kept", here.visit.store, visit=here.visit, **told)


def _common(lists: Sequence[LiveList]) -> set[str]:
    found = [{hit.id for hit in one.hits} for one in lists]
    return found[0] & found[1] if len(found) > 1 else set()


def _shown(lists: Sequence[LiveList], question: str) -> list[list[HitToTry]]:
    ranks = [{hit.id: hit.rank for hit in reversed(one.hits)} for one in lists]
    numbers: dict[str, int] = {}
    found = []
    for at, one in enumerate(lists):
        other = ranks[1 - at] if len(lists) > 1 else {}
        shown = []
        for hit in one.hits:
            new = hit.id not in numbers
            number = numbers.setdefault(hit.id, len(numbers) + 1)
            shown.append(HitToTry(hit, number, new, other.get(hit.id), _passage(question, hit.text)))
        found.append(shown)
    return found


def _passage(question: str, text: str | None) -> Markup | None:
    if not text:
        return None
    found = shared_words(question, text, None, len(text) + 1)
    return marked(found.text, found.marks, len(text))


def live_routes(visit_of: Callable[[Request], LiveVisit]) -> list[RoleRoute]:
    def answering(show: Callable[[LiveVisit, Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            here = visit_of(request)
            try:
                form = await read_form(request, _FIELDS) if request.method == "POST" else {}
                return await run_in_threadpool(show, here, request, form)
            except KaratError as error:
                return problem_page(here.visit.store, error)

        return answer

    return [
        RoleRoute(TRY, answering(try_page), {"GET": "editor", "POST": "editor"}),
        RoleRoute(f"{TRY}/keep", answering(keep_page), {"POST": "editor"}),
    ]
