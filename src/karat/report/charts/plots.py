"""Small charts: bars, dots, points in a square, and a line in a cell."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from karat.report.blocks import Bar, Bars, Dot, Dots, Interval, Range, Scatter, Spot
from karat.report.charts.svg import (
    Scale,
    axis,
    element,
    gutter,
    legend,
    line,
    mark,
    percent,
    picture,
    short,
    text,
    tick,
)
from karat.results.numbers import counted

_BAR_ROW = 44
_THICK = 20
_ROOM = 0.09  # share of the width under which a bar has no room for words
_KINDS = 5
_DOT_ROW = 36  # pixels; on a narrow page a row's name stands above its dots
_OTHERS = ("square", "cross", "diamond", "stroke")
HEIGHT = 320
_EDGE = 0.05  # of the scale, so that spots at its ends are whole
_LARGEST = 2.6  # times the size of a mark, for the spot with most queries
_SHAPES = {"gained": "up", "lost": "down", "same": "circle"}
_WIDTH, _HEIGHT = 64, 14
_MARGIN = 4


def draw_bars(bars: Bars, ident: str) -> Markup:
    scale = Scale(*bars.scale)
    names = list(dict.fromkeys(bar.name for bar in bars.bars))
    height = _BAR_ROW * len(names)
    parts = axis([(scale.share(v), tick(v)) for v in scale.ticks()], height, bars.x_title)
    parts += [text(short(name), 0, _BAR_ROW * (i + 0.5), "name", title=name) for i, name in enumerate(names)]
    parts += [_bar(bar, bars, scale, _BAR_ROW * (names.index(bar.name) + 0.5)) for bar in bars.bars]
    told = "; ".join(f"{bar.name}: {bars.kinds[bar.kind]} {bar.text}" for bar in bars.bars)
    samples = [(element("rect", x=3, width=24, height=14, class_=_kind(i)), name) for i, name in enumerate(bars.kinds)]
    return picture(parts, f"bars {gutter(names)}", height, bars.title, told, ident) + legend(samples)


def _bar(bar: Bar, bars: Bars, scale: Scale, y: float) -> Markup:
    low, high = sorted((scale.share(bar.start), scale.share(bar.end)))
    drawn = element(
        "rect",
        element("title", f"{bar.name}: {bars.kinds[bar.kind]} {bar.text}"),
        x=percent(low),
        y=y - _THICK / 2,
        width=percent(high - low),
        height=_THICK,
        class_=_kind(bar.kind),
    )
    # A waterfall's bars stand apart, so that words fit beside them; those of a stack need room inside.
    alone = sum(other.name == bar.name for other in bars.bars) == 1
    if alone and high - low < _ROOM:
        return drawn + text(bar.text, high if high < 0.8 else low, y + 4, "beside" + ("" if high < 0.8 else " end"))
    return drawn + (
        text(bar.text, (low + high) / 2, y + 4, f"inside i{bar.kind % _KINDS}") if high - low >= _ROOM else Markup("")
    )


def _kind(i: int) -> str:
    return f"bar b{i % _KINDS}"


def draw_dots(dots: Dots, ident: str) -> Markup:
    scale = Scale(*dots.scale)
    height = _DOT_ROW * len(dots.rows)
    parts = axis([(scale.share(v), tick(v)) for v in scale.ticks()], height, dots.x_title)
    if scale.low < 0 < scale.high:
        parts.append(line(scale.share(0), 0, scale.share(0), height, "zero"))
    for i, row in enumerate(dots.rows):
        parts += _dot_row(row, dots, scale, _DOT_ROW * (i + 0.5))
    told = "; ".join(f"{row.name} {row.value.text}" for row in dots.rows)
    value = (line(0, 7, 1, 7, "whisker") + mark("circle", 0.5, 7, "dot s0"), "value with its interval")
    others = [
        (mark(_OTHERS[i % 4], 0.5, 7, f"other o{i % 4}"), name)
        for i, name in enumerate(dots.others)
        if any(row.others[i] is not None for row in dots.rows)
    ]
    return picture(parts, f"dots {gutter(row.name for row in dots.rows)}", height, dots.title, told, ident) + legend(
        [value, *others]
    )


def _dot_row(row: Dot, dots: Dots, scale: Scale, y: float) -> Iterator[Markup]:
    found = row.value
    yield text(short(row.name), 0, y, "name", title=row.name)
    if found.low is not None and found.high is not None:
        low, high = scale.share(found.low), scale.share(found.high)
        yield line(low, y, high, y, "whisker")
        yield from (line(end, y - 5, end, y + 5, "whisker") for end in (low, high))
    for i, (name, value) in enumerate(zip(dots.others, row.others, strict=True)):
        if value is not None:
            yield mark(_OTHERS[i % 4], scale.share(value), y, f"other o{i % 4}", f"{name}: {value:.4g}")
    if found.value is not None:
        yield mark("circle", scale.share(found.value), y, "dot s0", f"{row.name}: {found.text}")
    yield text(found.text, 1, y, "value")


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


def draw_spark(cell: Interval, ends: Range) -> Markup:
    """Hidden from those who do not see it: the text beside it says the same."""
    scale = Scale(*ends)
    middle = _HEIGHT / 2
    parts = [element("path", d=f"M{_MARGIN} {middle}H{_WIDTH - _MARGIN}", class_="rail")]
    if scale.low < 0 < scale.high:
        parts.append(element("path", d=f"M{_x(scale, 0):.1f} 1V{_HEIGHT - 1}", class_="zero"))
    if cell.low is not None and cell.high is not None:
        parts.append(
            element("path", d=f"M{_x(scale, cell.low):.1f} {middle}H{_x(scale, cell.high):.1f}", class_="reach")
        )
    if cell.value is not None:
        parts.append(element("circle", cx=_x(scale, cell.value), cy=middle, r=3, class_="point"))
    return element("svg", *parts, class_="spark", width=_WIDTH, height=_HEIGHT, aria_hidden="true")


def _x(scale: Scale, value: float) -> float:
    return _MARGIN + scale.share(value) * (_WIDTH - 2 * _MARGIN)
