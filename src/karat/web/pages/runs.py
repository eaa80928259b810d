"""One run, and pins."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from karat.history.changes import DAYS, LONGEST_NOTE, LONGEST_TITLE
from karat.history.keep import kept_sections
from karat.history.report import minute
from karat.history.store import Store
from karat.report.gate import gate_report
from karat.report.renderers.html import place
from karat.web.page import kept_verdicts, page
from karat.web.pages.histograms import with_histograms


def run_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    judged = store.judgements(row.id)
    verdicts = gate_report(kept_verdicts(judged[0].document)).sections if judged else []
    head, dataset = row.head, row.head.dataset
    facts = {
        "run": row.id,
        "system": head.system if row.title else None,
        "saved (UTC)": minute(row.saved_at),
        "branch": head.branch,
        "author": head.author,
        "code": head.code_version,
        "dataset": " ".join(part for part in (dataset.name, dataset.version) if part),
        "index": head.index_version,
        "tags": ", ".join(row.tags),
        "pinned as": ", ".join(f"{pin.kind} {pin.name}" for pin in row.pins),
    }
    pinned = [pin.name for pin in store.pins() if pin.kind == "baseline" and pin.run_id != row.id]
    return page(
        "run.html",
        row.title or head.system or head.run,
        store,
        request=request,
        row=row,
        longest_title=LONGEST_TITLE,
        longest_note=LONGEST_NOTE,
        days=DAYS,
        facts=[(name, str(value)) for name, value in facts.items() if value],
        baseline=pinned[0] if pinned else None,
        sections=place([*verdicts, *with_histograms(store, row, kept_sections(store, row.id))]),
    )


def pins_page(store: Store, request: Request) -> Response:
    pins = [(pin, store.row(pin.run_id)) for pin in store.pins()]
    return page("pins.html", "Baselines and anchors", store, request=request, pins=pins)
