"""Labelling in the dashboard: the next pair, giving and undoing labels, agreement and calibration; as API and pages.

The pages are plain forms; a small script makes them faster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote, unquote

import msgspec
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import ConfigError, InputError, KaratError
from karat.history.store import NotThere, Store
from karat.labels.agreement import Agreement, find_agreement, settle
from karat.labels.calibration import calibrate
from karat.labels.calibration_file import Calibration
from karat.labels.desk import Desk, Given, PoolAtDesk, Progress, ShownPair, Turn, checked_name, mark_of
from karat.labels.desk_folder import IN_USE, PoolNotes
from karat.labels.files import Key, Label, as_lines
from karat.labels.session import grade_words
from karat.report.blocks import Block, Cell, Section, Text
from karat.report.cells import table
from karat.report.labels import agreement_report, calibration_report
from karat.report.renderers.html import marked, place
from karat.results.queries.shown import shared_words
from karat.web.access import VISITOR, Role
from karat.web.endpoints import Answer, Endpoint, NotYet
from karat.web.forms import read_form
from karat.web.guard import LABELS, NEXT, cookies_of, next_page, set_cookie
from karat.web.page import page, problem_page
from karat.web.rules import RoleRoute

JSON_LINES = "application/x-ndjson"
_Text = Annotated[str, msgspec.Meta(max_length=500)]
NAME = "karat_annotator"
_YEAR = 365 * 24 * 3600
_FIELDS = 500  # of a form
_BESIDE = 100  # pairs in a table
_NO_TEXT = "This pair has no text: `karat labels pool --corpus` provides it."


class Visit(msgspec.Struct, frozen=True):
    """A visitor of the labelling pages. Logged-in users label under their own name only."""

    store: Store
    desk: Desk
    name: str = ""
    logged_in: bool = False

    def pool(self, name: str) -> PoolAtDesk:
        if name not in self.desk.pools:
            raise NotThere("pool", name, self.desk.pools, hint="karat serve --pool FILE -o FILE")
        return self.desk.pools[name]

    def annotator(self, given: str | None) -> str:
        if self.logged_in and given not in (None, "", self.name):
            said = "not the name of the logged-in user"
            raise ConfigError(said, code="wrong-annotator", field="annotator", got=given)
        name = self.name if self.logged_in else given or self.name
        if not name:
            raise ConfigError(
                "no annotator", code="missing-field", field="annotator", expected="the name of the annotator"
            )
        return checked_name(name)


class AskAnnotator(msgspec.Struct, frozen=True, kw_only=True):
    """The annotator; not needed for logged-in users."""

    annotator: _Text | None = None


class AskTurn(AskAnnotator, frozen=True, kw_only=True):
    skipped: bool = False  # go through skipped pairs again


class AskSettled(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides if annotators disagree; by default the majority."""

    adjudicator: _Text | None = None


class NewLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grade, or null to skip the pair; `doc_id` without `chunk_id` for a whole document."""

    query_id: _Text
    chunk_id: _Text | None = None
    doc_id: _Text | None = None
    grade: Annotated[float, msgspec.Meta(ge=0, le=9)] | None
    annotator: _Text | None = None
    note: Annotated[str, msgspec.Meta(max_length=2000)] | None = None

    @property
    def pair(self) -> Key:
        item = self.chunk_id if self.chunk_id is not None else self.doc_id
        if item is None:
            hint = "or doc_id, for a whole document"
            raise InputError("the field is missing", code="missing-field", field="chunk_id", hint=hint)
        return Key(self.query_id, item, self.chunk_id is None)


class PoolState(msgspec.Struct, frozen=True):
    """A pool, and the progress of each annotator."""

    name: str
    pairs: int
    queries: int
    judged: int  # pairs that judges have graded
    annotators: list[Progress]
    notes: PoolNotes = PoolNotes()  # who made, assigned and closed it
    in_folder: bool = False  # of the desk, where it can be changed


def _agreement(visit: Visit, pool: PoolAtDesk, asked: Any = None, body: None = None) -> Agreement:
    """Agreement between people; the calibration covers judges."""
    found, closed = find_agreement(visit.desk.labels(pool, "human")), _closed(visit, pool)
    seen = [one for one in found.conflicts if (one.query_id, one.item) not in closed]
    return msgspec.structs.replace(found, conflicts=seen)


def _calibration(visit: Visit, pool: PoolAtDesk, asked: Any = None, body: None = None) -> Calibration:
    desk, judged = visit.desk, visit.desk.judged(pool)
    if not judged.graded():
        hint = "label the pool with `karat labels judge`, then start the server with `--labels FILE`"
        raise ConfigError("no judge has labelled this pool", code="no-labels", hint=hint)
    return calibrate(judged, desk.labels(pool, "human"), pool=list(pool.entries.values()), highest=desk.highest)


def _calibration_file(visit: Visit, pool: PoolAtDesk, asked: Any, body: None) -> Calibration:
    refuse_hints(visit, pool)
    return _calibration(visit, pool)


def refuse_hints(visit: Visit, pool: PoolAtDesk) -> None:
    """Refuses to return a file of labels with pairs that the visitor has yet to grade."""
    if left := len(_closed(visit, pool)):
        what = f"{visit.name} labels this pool and has not graded {left:,} of its pairs yet"
        hint = "if you do not label, log in with the token"
        raise NotYet(what, code="labels-closed", hint=hint)


def _of_pool(told: Callable[[Visit, PoolAtDesk, Any, Any], Any]) -> Answer:
    return lambda visit, path, asked, body: told(visit, visit.pool(path["pool"]), asked, body)


def _pools(visit: Visit, *request: object) -> list[PoolState]:
    """Pools assigned to the visitor come first, closed ones last."""
    found = [pool_state(visit.desk, pool) for pool in visit.desk.pools.values()]
    return sorted(found, key=lambda one: (one.notes.closed, visit.name not in one.notes.assigned))


def pool_state(desk: Desk, pool: PoolAtDesk) -> PoolState:
    return PoolState(
        name=pool.name,
        pairs=len(pool.entries),
        queries=pool.queries,
        judged=desk.judged_pairs(pool),
        annotators=desk.progress(pool),
        notes=desk.notes(pool.name),
        in_folder=desk.is_own(pool.name),
    )


def _next(visit: Visit, pool: PoolAtDesk, asked: AskTurn, body: None) -> Turn:
    return visit.desk.turn(pool, visit.annotator(asked.annotator), skipped=asked.skipped)


def _give(visit: Visit, pool: PoolAtDesk, asked: Any, body: NewLabel) -> Given:
    return visit.desk.give(pool, visit.annotator(body.annotator), body.pair, body.grade, body.note)


def _undo(visit: Visit, pool: PoolAtDesk, asked: AskAnnotator, body: None) -> Label:
    return visit.desk.undo(pool, visit.annotator(asked.annotator))


def _all_labels(visit: Visit, pool: PoolAtDesk, asked: Any, body: None) -> bytes:
    refuse_hints(visit, pool)
    return as_lines(visit.desk.labels(pool))


def _settled(visit: Visit, pool: PoolAtDesk, asked: AskSettled, body: None) -> bytes:
    refuse_hints(visit, pool)
    return as_lines(settle(visit.desk.labels(pool), asked.adjudicator or None))


_POOL = "/pools/{pool}"
_ALL_LABELS = "All labels, as a labels file."
_SETTLED = "One label per pair, as written by `karat labels agree -o`."
LABEL_ENDPOINTS = (
    Endpoint("GET", "/pools", "Pools to label, with progress.", list[PoolState], _pools),
    Endpoint("GET", f"{_POOL}/next", "The next pair of an annotator.", Turn, _of_pool(_next), AskTurn),
    Endpoint("GET", f"{_POOL}/labels", _ALL_LABELS, bytes, _of_pool(_all_labels), file=JSON_LINES),
    Endpoint(
        "POST", f"{_POOL}/labels", "Grade a pair, or skip it.", Given, _of_pool(_give), takes=NewLabel, role="labeller"
    ),
    Endpoint(
        "DELETE",
        f"{_POOL}/labels/last",
        "Undo an annotator's last label.",
        Label,
        _of_pool(_undo),
        AskAnnotator,
        role="labeller",
    ),
    Endpoint("GET", f"{_POOL}/settled", _SETTLED, bytes, _of_pool(_settled), AskSettled, file=JSON_LINES),
    Endpoint("GET", f"{_POOL}/agreement", "Agreement between people.", Agreement, _of_pool(_agreement)),
    Endpoint("GET", f"{_POOL}/calibration", "Judges compared with people.", Calibration, _of_pool(_calibration_file)),
)


Form: TypeAlias = dict[str, str]
Page: TypeAlias = Callable[..., Response]  # of visit, pool (if the address names one), request and form


def visit_of(store: Store, desk: Desk, request: Request) -> Visit:
    """Returns the visit, under the name of the log-in or the name in the cookie."""
    user = VISITOR.get()
    if user:
        return Visit(store, desk, user, logged_in=True)
    try:
        return Visit(store, desk, checked_name(unquote(cookies_of(request.scope).get(NAME, ""))))
    except ConfigError:
        return Visit(store, desk)


def pools_page(visit: Visit, request: Request, form: Form) -> Response:
    folder = visit.desk.folder
    states, in_use = list[PoolState](), None
    try:
        states = _pools(visit)
    except ConfigError as error:
        if error.code != IN_USE:
            raise
        in_use = _sentences(error)
    problems = {} if folder is None else folder.problems
    return _page(visit, "labels.html", "Labels", states=states, folder=folder, problems=problems, in_use=in_use)


def label_page(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    if not visit.name:
        return RedirectResponse(_address(pool, "name"), 303)
    if (notes := visit.desk.notes(pool.name)).closed:
        return _page(visit, "label_closed.html", f"{pool.name} is closed", pool=pool.name, notes=notes)
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
        said=lambda grade: in_words(grade, words),
    )


def give(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    pair = pool.by_mark.get(form.get("pair", ""))
    if pair is None:
        raise InputError("not a pair of this pool", code="unknown-pair", field="pair", hint="reload the page")
    grade, note = read_grade(form.get("grade", "")), form.get("note", "").strip()[:2000]
    visit.desk.give(pool, visit.annotator(None), pair, grade, note)
    return _back(pool, form)


def undo(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    visit.desk.undo(pool, visit.annotator(None))
    return _back(pool, form)


def name_page(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    if visit.logged_in:
        return RedirectResponse(_address(pool), 303)
    return _page(visit, "label_name.html", "Your name", address=_address(pool, "name"), name=visit.name)


def set_name(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    return _named(visit, request, form, _address(pool))


def set_name_and_return(visit: Visit, request: Request, form: Form) -> Response:
    """Back to the page that asked for the name."""
    return _named(visit, request, form, next_page(form.get(NEXT, "")))


def _named(visit: Visit, request: Request, form: Form, then: str) -> Response:
    response = RedirectResponse(then, 303)
    if not visit.logged_in:
        set_cookie(request, response, NAME, quote(checked_name(form.get("name", "")), safe=""), _YEAR)
    return response


def agreement_page(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    report = agreement_report(find_agreement(visit.desk.labels(pool, "human")), _closed(visit, pool))
    return _report(visit, pool, "agreement", report.sections)


def calibration_page(visit: Visit, pool: PoolAtDesk, request: Request, form: Form) -> Response:
    try:
        report = calibration_report(_calibration(visit, pool))
    except KaratError as error:
        said: list[Block] = [Text(_sentences(error), "warning")]
        sections = [Section("rates", "No calibration yet", said)]
    else:
        told = [_without_pairs(section) if section.name == "next" else section for section in report.sections]
        sections = [*told, _beside(visit.desk, pool, _closed(visit, pool))]
    return _report(visit, pool, "calibration", sections)


def _sentences(error: KaratError) -> str:
    """An error and its hint, as they are read on a page."""
    return ". ".join(part[:1].upper() + part[1:] for part in str(error).split("\nhint: ")) + "."


def _report(visit: Visit, pool: PoolAtDesk, here: str, sections: Sequence[Section]) -> Response:
    return _page(visit, "label_report.html", f"{here.title()} on {pool.name}", sections, pool=pool.name, here=here)


_PAGES: Sequence[tuple[str, str, Page, Role]] = (
    ("GET", "", pools_page, "viewer"),
    ("GET", "/{pool}", label_page, "labeller"),
    ("POST", "/{pool}", give, "labeller"),
    ("POST", "/{pool}/undo", undo, "labeller"),
    ("GET", "/{pool}/name", name_page, "labeller"),
    ("POST", "/{pool}/name", set_name, "labeller"),
    ("GET", "/{pool}/agreement", agreement_page, "viewer"),
    ("GET", "/{pool}/calibration", calibration_page, "viewer"),
)


def label_routes(visit_of: Callable[[Request], Visit]) -> list[RoleRoute]:
    return page_routes(LABELS, _PAGES, visit_of)


def page_routes(
    prefix: str, pages: Sequence[tuple[str, str, Page, Role]], visit_of: Callable[[Request], Visit]
) -> list[RoleRoute]:
    """Routes for pages of method, path and role. A path may name a pool."""

    def answering(show: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visit = visit_of(request)
            try:
                form = await read_form(request, _FIELDS) if request.method == "POST" else {}
                pools = map(visit.pool, request.path_params.values())
                return await run_in_threadpool(show, visit, *pools, request, form)
            except KaratError as error:
                return problem_page(visit.store, error)

        return answer

    return [RoleRoute(prefix + path, answering(show), {method: role}) for method, path, show, role in pages]


def _page(visit: Visit, template: str, title: str, sections: Sequence[Section] = (), **context: Any) -> Response:
    return page(template, title, visit.store, sections=place(sections), visit=visit, **context)


def _address(pool: PoolAtDesk, *rest: str) -> str:
    return "/".join([LABELS, quote(pool.name, safe=""), *rest])


def _back(pool: PoolAtDesk, form: Form) -> Response:
    return RedirectResponse(_address(pool) + ("?skipped=1" if form.get("skipped") == "1" else ""), 303)


def read_grade(given: str) -> float | None:
    if given == "skip":
        return None
    if not given.isdecimal() or not given.isascii():
        raise InputError("invalid grade", code="bad-value", field="grade", expected="a number, or skip", got=given)
    return float(given[:3])


def _passage(pair: ShownPair) -> Markup:
    text = (pair.text or "").replace("\r\n", "\n").replace("\r", "\n")
    found = shared_words(pair.query or "", text, pair.language, len(text) + 1)
    return marked(found.text, found.marks, len(text))


def in_words(grade: float | None, words: tuple[str, ...]) -> str:
    if grade is None:
        return "no grade"
    word = words[int(grade)] if grade == int(grade) and grade < len(words) else ""
    return f"{grade:g} {word}".strip()


def _closed(visit: Visit, pool: PoolAtDesk) -> set[tuple[str, str]]:
    """Pairs whose grades an annotator must not see yet. Visitors without a name do not label."""
    hidden = visit.desk.not_yet_graded(pool, visit.name) if visit.name else set()
    return {(pair.query, pair.item) for pair in hidden}


def _without_pairs(section: Section) -> Section:
    """Keeps the number of labels needed, but hides the judge's grades of open pairs."""
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
    columns = ("query", "item", "text", "people", "judge")
    said = f"Pairs with both grades, largest difference first: {len(both):,}"
    said += f"; {len(both) - len(seen):,} that you have not graded yet are not shown" if len(seen) < len(both) else ""
    said += f"; the first {_BESIDE} are shown." if len(seen) > _BESIDE else "."
    return Section("beside", "Pair by pair", [Text(said), *([table(columns, rows)] if rows else [])])
