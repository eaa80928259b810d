"""The API under /api/v1: everything that the pages show, for scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from karat.history import queries
from karat.history.archive import import_runs, pack
from karat.history.records import QuerySides, query_sides
from karat.history.rows import ALL, Choices, Filter, Judgement, Page, Pin, PinKind, RunRow, TrendPoint, now, utc
from karat.history.sorting import SAVED, Direction, Sort
from karat.history.store import Store
from karat.results.kept_run import RunDocument
from karat.results.saved import SavedResult
from karat.web.endpoints import ZIP, Answer, Endpoint, Offset

PREFIX = "/api/v1"
_DOCUMENT = "A run without its per-query data."
_EXPORT = "The run as a file, for `karat history import`."
_IMPORT = "Import runs from a file of `karat history export`."
_JUDGEMENTS = "Its gate verdicts, newest first."
_SEGMENTS = "Segments that a trend can follow."
_Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
_Text = Annotated[str, msgspec.Meta(max_length=500)]


class Only(msgspec.Struct, frozen=True, kw_only=True):
    system: _Text | None = None
    branch: _Text | None = None
    tag: _Text | None = None
    dataset: _Text | None = None
    author: _Text | None = None
    since: _Text | None = None
    until: _Text | None = None

    def filter(self) -> Filter:
        """Returns a filter with `since` and `until` in the format of the catalogue."""
        given = {name: getattr(self, name) for name in Filter.__struct_fields__}
        return Filter(**given | {name: utc(given[name], name) for name in ("since", "until")})


class ListRuns(Only, frozen=True, kw_only=True):
    """`sort`: saved, system, branch, dataset, author, gates, or a metric."""

    limit: _Limit = 50
    after: Annotated[str, msgspec.Meta(max_length=4000)] | None = None  # may hold a name
    sort: _Text = SAVED
    order: Direction | None = None

    def sorting(self) -> Sort:
        return Sort(self.sort, self.order)


class AskTrend(Only, frozen=True, kw_only=True):
    metric: _Text
    segment: _Text = ALL
    value: _Text = ALL
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class AskQueries(msgspec.Struct, frozen=True, kw_only=True):
    """Some queries of a run; `tag` as name=value."""

    metric: _Text | None = None
    order: queries.Order = "given"
    text: _Text = ""
    tag: list[_Text] = []
    cases: bool = False
    offset: Offset = 0
    limit: _Limit = 50


class AskSides(msgspec.Struct, frozen=True, kw_only=True):
    """Two or more runs, and the metric to compare them by."""

    run: Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=10)]
    metric: _Text
    order: queries.Order = "changed"
    text: _Text = ""
    offset: Offset = 0
    limit: _Limit = 50


class AskQuery(Only, frozen=True, kw_only=True):
    query_id: _Text
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 20
    after: _Text | None = None


class AskHits(msgspec.Struct, frozen=True, kw_only=True):
    """A query, and one run or two."""

    query_id: _Text
    run: Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=2)]


class AskCase(msgspec.Struct, frozen=True, kw_only=True):
    query_id: _Text


class AskCases(msgspec.Struct, frozen=True, kw_only=True):
    offset: Offset = 0
    limit: _Limit = 20


class Cases(msgspec.Struct, frozen=True):
    """Failed queries, worst first, as `karat eval triage` shows them; `total`: how many there are."""

    total: int
    cases: list[dict[str, Any]]


class CaseOf(msgspec.Struct, frozen=True):
    """A query with its gold and hits; null if they were not kept."""

    case: dict[str, Any] | None


class NewPin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The run that a name should point to."""

    run: _Text
    kind: PinKind


class Uploaded(msgspec.Struct, frozen=True):
    """An imported run; `new`: it did not exist before."""

    id: str
    new: bool


class Done(msgspec.Struct, frozen=True):
    """Confirmation."""

    done: bool = True


def _list(store: Store, path: dict[str, str], asked: ListRuns, body: None) -> Page:
    return store.runs(asked.filter(), limit=asked.limit, after=asked.after, sort=asked.sorting())


def _trend(store: Store, path: dict[str, str], asked: AskTrend, body: None) -> list[TrendPoint]:
    return store.trend(asked.metric, asked.filter(), segment=(asked.segment, asked.value), limit=asked.limit)


def _queries(store: Store, path: dict[str, str], asked: AskQueries, body: None) -> queries.QueryPage:
    only = {name: value for name, _, value in (tag.partition("=") for tag in asked.tag)}
    wanted = msgspec.structs.asdict(asked)
    del wanted["tag"]
    return queries.scores_of(store, store.find(path["run"]), only=only, **wanted)


def _sides(store: Store, path: dict[str, str], asked: AskSides, body: None) -> queries.SidePage:
    ids = [store.find(run) for run in asked.run]
    where = {"offset": asked.offset, "limit": asked.limit}
    return queries.side_by_side(store, ids, asked.metric, order=asked.order, text=asked.text, **where)


def _query(store: Store, path: dict[str, str], asked: AskQuery, body: None) -> queries.QueryHistory:
    return queries.query_over_time(store, asked.query_id, asked.filter(), limit=asked.limit, after=asked.after)


def _hits(store: Store, path: dict[str, str], asked: AskHits, body: None) -> QuerySides:
    return query_sides(store, [store.find(run) for run in asked.run], asked.query_id)


def _cases(store: Store, path: dict[str, str], asked: AskCases, body: None) -> Cases:
    run_id = store.find(path["run"])
    found = queries.cases_of(store, run_id, offset=asked.offset, limit=asked.limit)
    return Cases(queries.failed_count(store, store.row(run_id)), found)


def _pin(store: Store, path: dict[str, str], asked: None, body: NewPin) -> Pin:
    run_id = store.find(body.run)
    store.pin(run_id, path["name"], body.kind)
    return Pin(path["name"], body.kind, run_id, now())


def _tagged(change: Callable[[Store, str, list[str]], None]) -> Answer:
    def answer(store: Store, path: dict[str, str], asked: None, body: None) -> RunRow:
        run_id = store.find(path["run"])
        change(store, run_id, [path["tag"]])
        return store.row(run_id)

    return answer


def _of_run(told: Callable[[Store, str], Any]) -> Answer:
    return lambda store, path, asked, body: told(store, store.find(path["run"]))


def _unpin(store: Store, path: dict[str, str], asked: None, body: None) -> Done:
    store.unpin(path["name"])
    return Done()


def _delete(store: Store, run_id: str) -> Done:
    store.delete(run_id)
    return Done()


def _result(store: Store, run_id: str) -> SavedResult:
    return store.kept(run_id).saved()


def _case(store: Store, path: dict[str, str], asked: AskCase, body: None) -> CaseOf:
    return CaseOf(queries.case_of(store, store.find(path["run"]), asked.query_id))


def _upload(store: Store, path: dict[str, str], asked: None, body: bytes) -> list[Uploaded]:
    found = [Uploaded(saved.id, saved.new) for saved in import_runs(store, body, "upload")]
    store.log_import([one.id for one in found if one.new], len(found))
    return found


ENDPOINTS = (
    Endpoint("GET", "/runs", "Runs, newest first or sorted.", Page, _list, ListRuns),
    Endpoint("POST", "/runs", _IMPORT, list[Uploaded], _upload, takes=bytes, role="editor"),
    Endpoint("GET", "/choices", "Values that runs can be filtered by.", Choices, lambda s, p, q, b: s.choices()),
    Endpoint("GET", "/runs/{run}", "One run.", RunRow, _of_run(Store.row)),
    Endpoint("DELETE", "/runs/{run}", "Delete a run that is not pinned.", Done, _of_run(_delete), role="editor"),
    Endpoint("GET", "/runs/{run}/document", _DOCUMENT, RunDocument, _of_run(Store.document)),
    Endpoint("GET", "/runs/{run}/result", "The complete saved result.", SavedResult, _of_run(_result)),
    Endpoint("GET", "/runs/{run}/export", _EXPORT, bytes, _of_run(lambda s, run: pack(s, [run])), file=ZIP),
    Endpoint("GET", "/runs/{run}/queries", "Its queries, page by page.", queries.QueryPage, _queries, AskQueries),
    Endpoint("GET", "/runs/{run}/cases", "Its failed queries, worst first.", Cases, _cases, AskCases),
    Endpoint("GET", "/runs/{run}/case", "One query with gold and hits.", CaseOf, _case, AskCase),
    Endpoint("GET", "/runs/{run}/judgements", _JUDGEMENTS, list[Judgement], _of_run(Store.judgements)),
    Endpoint("GET", "/runs/{run}/segments", _SEGMENTS, dict[str, list[str]], _of_run(Store.segments)),
    Endpoint("PUT", "/runs/{run}/tags/{tag}", "Add a tag to a run.", RunRow, _tagged(Store.tag), role="editor"),
    Endpoint(
        "DELETE", "/runs/{run}/tags/{tag}", "Remove a tag from a run.", RunRow, _tagged(Store.untag), role="editor"
    ),
    Endpoint("GET", "/trend", "One metric over time, oldest first.", list[TrendPoint], _trend, AskTrend),
    Endpoint("GET", "/side-by-side", "One metric of several runs, query by query.", queries.SidePage, _sides, AskSides),
    Endpoint("GET", "/query", "One query across runs, newest first.", queries.QueryHistory, _query, AskQuery),
    Endpoint("GET", "/hits", "Gold and hits of one query in one run or two.", QuerySides, _hits, AskHits),
    Endpoint("GET", "/pins", "Baselines and anchors.", list[Pin], lambda s, p, q, b: s.pins()),
    Endpoint("PUT", "/pins/{name}", "Point a name to a run.", Pin, _pin, takes=NewPin, role="editor"),
    Endpoint("DELETE", "/pins/{name}", "Remove a pin but not its run.", Done, _unpin, role="editor"),
)
