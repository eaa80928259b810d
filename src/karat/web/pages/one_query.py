"""One query: its gold and hits in one run or two, and its ranks over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.errors import ConfigError
from karat.history.keep import shown_case
from karat.history.queries import QueryHistory, QueryPoint, case_of, query_over_time
from karat.history.records import MOST_SIDES, record_of
from karat.history.report import day, leading
from karat.history.rows import RunRow
from karat.history.store import Store, short
from karat.report.blocks import Block, Chart, Section, Series, Text
from karat.report.fit import SIGNS
from karat.report.renderers.html import Placed, place
from karat.report.triage import case_example, sides_example
from karat.results.queries.triage import Case
from karat.web.api import AskQuery
from karat.web.page import SHOWN, asked_of, link, page, score_cells
from karat.web.pages.compare import run_labels, run_options

_LINES = 4  # systems in a chart
_DEPTH = 5  # ranks, at least
_SEARCHED = 500  # runs in which to look for one that failed
_EARLIER = "Earlier versions of Karat kept the hits of the 100 worst queries of a run."
_NO_WORD_SEARCH = (
    "BM25's hits are kept if the run was saved with a corpus: of every query up to 2,000 queries, otherwise of the "
    "100 worst."
)


def query_page(store: Store, request: Request, grading: Callable[[str, str], Any] | None = None) -> Response:
    """`grading`: what whoever may label sees of a run and a query."""
    choices = store.choices()
    names = [name for name in request.query_params.getlist("run") if name]
    if len(names) > MOST_SIDES:
        expected = f"at most {MOST_SIDES}"
        raise ConfigError("too many runs to show side by side", code="too-many-runs", expected=expected)
    runs = [store.row(store.find(name)) for name in names]
    shared: dict[str, Any] = {
        "choices": choices,
        "options": run_options(store, runs, names),
        "names": [*names, "", ""][:MOST_SIDES],
    }
    if not request.query_params.get("query_id"):
        nothing = AskQuery(query_id="")
        return page("query.html", "One query across runs", store, **shared, asked=nothing, text=None, rows=[])
    asked = asked_of(request, AskQuery)
    found = query_over_time(store, asked.query_id, asked.filter(), limit=asked.limit, after=asked.after)
    columns = _metrics(store, found.points)
    hits = _of_runs(store, runs, asked.query_id) if runs else _of_failed(store, found, asked)
    graded = None if grading is None or not runs else grading(runs[-1].id, asked.query_id)
    return page(
        "query.html",
        f"Query {found.query_id}",
        store,
        **shared,
        asked=asked,
        text=found.query,
        shown=columns,
        rows=[(point, score_cells(point.scores, columns)) for point in found.points],
        links=[("Older runs", link("/query", request, after=found.after))] if found.after else [],
        grading=graded,
        sections=[
            *place([*hits, Section("rank", "Rank over time", _rank_blocks(found))]),
            *([Placed("grade", "Grade the hits")] if graded else []),
            *([Placed("runs", "In each run")] if found.points else []),
        ],
    )


def _metrics(store: Store, points: Sequence[QueryPoint]) -> list[str]:
    """The key metrics that the newest run has for this query."""
    if not points:
        return []
    told = [str(metric) for metric in leading([store.row(points[0].run_id)])]
    return [name for name in told if name in points[0].scores][:SHOWN]


def _of_failed(store: Store, found: QueryHistory, asked: AskQuery) -> list[Section]:
    """The newest run that failed on the query; if none did, the newest that keeps its hits."""
    failed = next((point for point in _points(store, found, asked) if point.failed), None)
    seen = failed or next((point for point in found.points if point.has_case), None)
    if seen is None:
        return []
    case = shown_case(case_of(store, seen.run_id, found.query_id))
    told = f"From run {short(seen.run_id)} of {seen.system}, {day(seen.saved_at)}: "
    told += "the newest that failed on this query." if failed else "the newest. No run failed on this query."
    if case is None:
        return [Section("hits", "Gold and hits", [Text(f"{told} Its hits were not kept.")])]
    return [Section("hits", "Gold and hits", [Text(told), *_shown(store, seen.run_id, case)])]


def _points(store: Store, found: QueryHistory, asked: AskQuery) -> Iterator[QueryPoint]:
    """The query in each run, newest first, whichever page is shown."""
    after, seen = None, 0
    if asked.after is None:
        yield from found.points
        after, seen = found.after, asked.limit
        if after is None:
            return
    while seen < _SEARCHED:
        more = query_over_time(store, asked.query_id, asked.filter(), limit=50, after=after)
        yield from more.points
        after, seen = more.after, seen + 50
        if after is None:
            return


def _of_runs(store: Store, runs: Sequence[RunRow], query_id: str) -> list[Section]:
    cases = [shown_case(case_of(store, run.id, query_id)) for run in runs]
    labels = _labels(runs)
    both = [case for case in cases if case is not None]
    if len(both) == MOST_SIDES:
        both = [_with_key_scores(store, case, run, runs[-1]) for case, run in zip(both, runs, strict=True)]
        blocks: list[Block] = [Text(SIGNS, "note"), sides_example(both[0], both[1], labels), *_word_search(both)]
        return [Section("hits", "Side by side", blocks)]
    sections = []
    for number, (run, case, label) in enumerate(zip(runs, cases, labels, strict=True), 1):
        title = f"Gold and hits: {label}" if len(runs) > 1 else "Gold and hits"
        lacking = f"Run {short(run.id)} does not have this query, or did not keep its hits. {_EARLIER}"
        shown: list[Block] = [Text(lacking)] if case is None else _shown(store, run.id, case)
        sections.append(Section(f"hits{number}", title, shown))
    return sections


def _with_key_scores(store: Store, case: Case, run: RunRow, of: RunRow) -> Case:
    """The query with its scores by the key metrics of a run. Runs of earlier versions keep them in another place."""
    record = record_of(store, run.id, case.query_id, texts=False).record
    if record is None:
        return case
    names = [str(metric) for metric in leading([of])[:SHOWN] if metric.direction == "higher"]
    scores = {name: record.scores[name] for name in names if name in record.scores}
    return msgspec.structs.replace(case, scores=scores or case.scores)


def _shown(store: Store, run_id: str, case: Case) -> list[Block]:
    k = (store.document(run_id).triage or {}).get("k")
    return [Text(SIGNS, "note"), case_example(case, k if isinstance(k, int) else _DEPTH), *_word_search([case])]


def _word_search(cases: Sequence[Case]) -> list[Block]:
    return [] if any(case.bm25 is not None for case in cases) else [Text(_NO_WORD_SEARCH, "note")]


def _labels(runs: Sequence[RunRow]) -> list[str]:
    return [f"{run.head.system or run.head.run}, {when}" for run, when in zip(runs, run_labels(runs), strict=True)]


def _rank_blocks(found: QueryHistory) -> list[Block]:
    points = found.points
    if not points:
        return [Text(f"No run has a query with the id {found.query_id}.")]
    ranks = [point.first_rank for point in points if point.first_rank is not None]
    if not ranks:
        return [Text("No run returned a relevant hit for this query.")]
    if len(points) == 1:
        return [Text("There is only one run so far.")]
    oldest_first = list(reversed(points))
    systems = sorted({point.system for point in points})[:_LINES]
    chart = Chart(
        "Rank of its first relevant hit by run, oldest first (lower is better; a gap: none found)",
        "run",
        "rank",
        [_line(system, oldest_first) for system in systems],
        y_range=(0.0, float(max(*ranks, _DEPTH))),
        x_words=[day(point.saved_at) for point in oldest_first],
        told=True,
    )
    return [chart]


def _line(system: str, points: Sequence[QueryPoint]) -> Series:
    own = [(float(place), point.first_rank) for place, point in enumerate(points, 1) if point.system == system]
    return Series(system, [at for at, _ in own], [None if rank is None else float(rank) for _, rank in own])
