"""One run: all that its report has."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from karat.history.keep import kept_sections
from karat.history.report import minute
from karat.history.rows import RunRow
from karat.history.store import Store
from karat.report.blocks import Section
from karat.report.gate import gate_report
from karat.web.pages.verdicts import kept_verdicts
from karat.web.rendering import page, place


def run_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    sections = [*_verdicts(store, row), *kept_sections(store, row.id)]
    head, dataset = row.head, row.head.dataset
    facts = {
        "run": row.id[:16],
        "saved (UTC)": minute(row.saved_at),
        "branch": head.branch,
        "code": head.code_version,
        "dataset": " ".join(part for part in (dataset.name, dataset.version) if part),
        "index": head.index_version,
        "tags": ", ".join(row.tags),
        "pinned as": ", ".join(f"{pin.kind} {pin.name}" for pin in row.pins),
    }
    pinned = [pin.name for pin in store.pins() if pin.kind == "baseline" and pin.run_id != row.id]
    return page(
        "run.html",
        head.system or head.run,
        place="runs",
        store=store.label,
        row=row,
        facts=[(name, str(value)) for name, value in facts.items() if value],
        baseline=pinned[0] if pinned else None,
        sections=place(sections),
    )


def _verdicts(store: Store, row: RunRow) -> list[Section]:
    judged = store.judgements(row.id)
    return list(gate_report(kept_verdicts(judged[0].document)).sections) if judged else []
