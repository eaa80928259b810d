"""Charts as SVG, made from the figures of a report.

They fit any width without a script: x goes by per cent of the width and y by pixels, so that letters and dots keep
their size. Colours are CSS variables of the page; what they tell is also told by shape, dash or place.
"""

from __future__ import annotations

from markupsafe import Markup

from karat.report.blocks import Bars, Chart, Dots, Scatter
from karat.report.charts.lines import draw_lines
from karat.report.charts.plots import draw_bars, draw_dots, draw_scatter, draw_spark

__all__ = ["draw", "draw_spark"]


def draw(figure: Chart | Dots | Bars | Scatter, ident: str) -> Markup:
    """An SVG with its legend. `ident`: a name that no other chart of the page has."""
    if isinstance(figure, Chart):
        return draw_lines(figure, ident)
    if isinstance(figure, Dots):
        return draw_dots(figure, ident)
    if isinstance(figure, Bars):
        return draw_bars(figure, ident)
    return draw_scatter(figure, ident)
