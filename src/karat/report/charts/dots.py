"""Dots with whiskers: values, how sure they are, and what they are held against."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from karat.report.blocks import Dot, Dots
from karat.report.charts.scale import Scale, tick
from karat.report.charts.svg import axis, gutter, legend, line, mark, picture, short, text

ROW = 36  # pixels; on a narrow page a row's name stands above its dots
_OTHERS = ("square", "cross", "diamond", "stroke")


def draw_dots(dots: Dots, ident: str) -> Markup:
    scale = Scale(*dots.scale)
    height = ROW * len(dots.rows)
    parts = axis([(scale.share(v), tick(v)) for v in scale.ticks()], height, dots.x_title)
    if scale.low < 0 < scale.high:
        parts.append(line(scale.share(0), 0, scale.share(0), height, "zero"))
    for i, row in enumerate(dots.rows):
        parts += _row(row, dots, scale, ROW * (i + 0.5))
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


def _row(row: Dot, dots: Dots, scale: Scale, y: float) -> Iterator[Markup]:
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
