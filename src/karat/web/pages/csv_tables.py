"""Tables of queries as CSV files."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from karat.errors import ConfigError
from karat.history.queries import score_frame, side_frame
from karat.history.report import leading
from karat.history.store import Store, short
from karat.results.kept_run import SCORE
from karat.web.csv_file import MOST_QUERIES, csv_file
from karat.web.page import AskPage, asked_of
from karat.web.pages.compare import asked_runs, headline


def queries_csv(store: Store, request: Request) -> Response:
    """Every query of a run with all its scores, in the order of the page."""
    row = store.row(store.find(request.path_params["run"]))
    asked, metrics = asked_of(request, AskPage), list(row.measures)
    by, order = asked.metric or str(leading([row])[0]), asked.order or "worst"
    found = score_frame(store, row.id, metrics, by=by, order=order, text=asked.text)
    name = f"queries-{short(row.id)}"
    titles = [column.removeprefix(SCORE) for column in found.columns]
    return csv_file(name, titles, found.iter_rows(), found.height, MOST_QUERIES)


def compare_csv(store: Store, request: Request) -> Response:
    """One metric of several runs, query by query, in the order of the page."""
    runs, _ = asked_runs(store, request)
    if not runs:
        raise ConfigError("no runs given", code="no-runs", hint="such as /compare.csv?run=main&run=latest")
    asked, ids = asked_of(request, AskPage), [run.id for run in runs]
    metric = asked.metric or headline(runs)[0]
    found = side_frame(store, ids, metric, order=asked.order or "changed", text=asked.text)
    titles = ["query_id", "query"]
    columns = ["query_id", "query"]
    for place, run_id in enumerate(ids):
        titles += [f"{metric} {short(run_id)}", f"first_rank {short(run_id)}"]
        columns += [f"value{place}", f"rank{place}"]
    rows = found.select(*columns, "delta").iter_rows()
    return csv_file("compare-" + "-".join(map(short, ids)), [*titles, "difference"], rows, found.height, MOST_QUERIES)
