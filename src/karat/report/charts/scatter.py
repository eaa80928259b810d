"""One value against another, query by query."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from karat.report.blocks import Scatter, Spot
from karat.report.charts.scale import Scale, tick
from karat.report.charts.svg import axis, legend, line, mark, picture, text
from karat.results.numbers import counted

HEIGHT = 320
_EDGE = 0.05  # of the scale, so that spots at its ends are whole
_LARGEST = 2.6  # times the size of a mark, for the spot with most queries
_SHAPES = {"gained": "up", "lost": "down", "same": "circle"}


def draw_scatter(scatter: Scatter, ident: str) -> Markup:
    low, high = scatter.scale
    edge = _EDGE * (high - low)
    scale = Scale(low - edge, high + edge)
    parts = [*_frame(scatter, scale)]
    most = max((spot.count for spot in scatter.spots), default=1)
    # The largest first, so that none hides a smaller one.
    parts += [_spot(spot, scatter, scale, most) for spot in sorted(scatter.spots, key=lambda s: -s.count)]
    counts = {kind: sum(s.count for s in scatter.spots if s.kind == kind) for kind in _SHAPES}
    told = f"{scatter.y_title} against {scatter.x_title}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items())
    samples = [(mark(_SHAPES[kind], 0.5, 7, f"spot {kind}"), f"{kind} ({n:,})") for kind, n in counts.items()]
    return picture(parts, "scatter", HEIGHT, scatter.title, told, ident) + legend(samples)


def _frame(scatter: Scatter, scale: Scale) -> Iterator[Markup]:
    for value in scale.ticks():
        at = HEIGHT * (1 - scale.share(value))
        yield line(0, at, 1, at, "gridline")
        yield text(tick(value), 0, at + 4, "tick end", dx=-10)
    yield from axis([(scale.share(v), tick(v)) for v in scale.ticks()], HEIGHT, scatter.x_title)
    yield text(scatter.y_title, 0, -14, "title", dx=-38)
    yield line(0, HEIGHT, 1, 0, "mark")  # where both are the same


def _spot(spot: Spot, scatter: Scatter, scale: Scale, most: int) -> Markup:
    size = 0.8 + (_LARGEST - 0.8) * math.sqrt((spot.count - 1) / max(most - 1, 1))
    told = f"{spot.x:.4g} → {spot.y:.4g}: {counted(spot.count)}"
    y = HEIGHT * (1 - scale.share(spot.y))
    return mark(_SHAPES[spot.kind], scale.share(spot.x), y, f"spot {spot.kind}", told, size)
