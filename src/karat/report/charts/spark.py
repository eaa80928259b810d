"""A small bar in the cell of a table: where a value lies, and how far it could be off."""

from __future__ import annotations

from markupsafe import Markup

from karat.report.blocks import Interval, Range
from karat.report.charts.scale import Scale
from karat.report.charts.svg import element

_WIDTH, _HEIGHT = 64, 14
_EDGE = 4


def draw_spark(cell: Interval, ends: Range) -> Markup:
    """Hidden from those who do not see it: the text beside it says the same."""
    scale = Scale(*ends)
    middle = _HEIGHT / 2
    parts = [element("path", d=f"M{_EDGE} {middle}H{_WIDTH - _EDGE}", class_="rail")]
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
    return _EDGE + scale.share(value) * (_WIDTH - 2 * _EDGE)
