"""Pages from templates: the same blocks, style and script as the report, in a frame of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, FunctionLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from karat.report.blocks import Block, Section
from karat.report.charts.svg import element
from karat.report.renderers.html import asset, environment
from karat.web.access import VISITOR

_WIDTH, _HEIGHT, _EDGE = 96, 18, 3


@dataclass(frozen=True)
class Placed:
    """A section with its name in the address."""

    id: str
    title: str
    blocks: Sequence[Block] = ()


def place(sections: Iterable[Section]) -> list[Placed]:
    taken: dict[str, int] = {}
    found = []
    for section in sections:
        name = re.sub(r"[^a-z0-9]+", "-", section.name.lower()).strip("-") or "part"
        taken[name] = taken.get(name, 0) + 1
        found.append(Placed(name if taken[name] == 1 else f"{name}--{taken[name]}", section.title, section.blocks))
    return found


def page(template: str, title: str, *, status: int = 200, sections: Sequence[Placed] = (), **context: Any) -> Response:
    from karat import __version__

    frame = {"version": __version__, "visitor": VISITOR.get(), "alone": False, "place": ""}
    named = {"title": title, "sections": sections, **frame, **context}
    return HTMLResponse(_templates().get_template(template).render(**named), status)


def static(name: str) -> tuple[bytes, str] | None:
    """A file of the pages and its media type; None: there is no such file."""
    files = {
        "style.css": lambda: asset("style.css") + _own("dashboard.css") + _own("label.css"),
        "script.js": lambda: asset("script.js"),
        "label.js": lambda: _own("label.js"),
        "icon.svg": lambda: _own("icon.svg"),
    }
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    return (files[name]().encode(), kinds[name.rpartition(".")[2]]) if name in files else None


def sparkline(values: Sequence[float]) -> Markup:
    """A value over time, hidden from those who do not see it: the number beside it is the newest."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = (_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1)
    points = [
        f"{_EDGE + i * step:.1f},{_HEIGHT - _EDGE - (v - low) / span * (_HEIGHT - 2 * _EDGE):.1f}"
        for i, v in enumerate(values)
    ]
    x, _, y = points[-1].partition(",")
    line = element("polyline", points=" ".join(points), class_="history")
    dot = element("circle", cx=x, cy=y, r=2.5, class_="point")
    return element("svg", line, dot, class_="spark", width=_WIDTH, height=_HEIGHT, aria_hidden="true")


@cache
def _templates() -> Environment:
    blocks = environment()
    assert blocks.loader is not None
    return blocks.overlay(loader=ChoiceLoader([FunctionLoader(_known), blocks.loader]))


def _known(name: str) -> str | None:
    return _own(name) if (resources.files("karat.web") / "templates" / name).is_file() else None


@cache
def _own(name: str) -> str:
    return resources.files("karat.web").joinpath("templates", name).read_text(encoding="utf-8")
