"""Names that lead to runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from karat.history.store import Store
from karat.web.rendering import page


def pins_page(store: Store, request: Request) -> Response:
    pins = [(pin, store.row(pin.run_id)) for pin in store.pins()]
    return page("pins.html", "Baselines and anchors", place="pins", store=store.label, pins=pins)
