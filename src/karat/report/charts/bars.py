"""Stacked bars and waterfalls."""

from __future__ import annotations

from markupsafe import Markup

from karat.report.blocks import Bar, Bars
from karat.report.charts.scale import Scale, tick
from karat.report.charts.svg import axis, element, gutter, legend, percent, picture, short, text

ROW = 44
_THICK = 20
_ROOM = 0.09  # share of the width under which a bar has no room for words
_KINDS = 5


def draw_bars(bars: Bars, ident: str) -> Markup:
    scale = Scale(*bars.scale)
    names = list(dict.fromkeys(bar.name for bar in bars.bars))
    height = ROW * len(names)
    parts = axis([(scale.share(v), tick(v)) for v in scale.ticks()], height, bars.x_title)
    parts += [text(short(name), 0, ROW * (i + 0.5), "name", title=name) for i, name in enumerate(names)]
    parts += [_bar(bar, bars, scale, ROW * (names.index(bar.name) + 0.5)) for bar in bars.bars]
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
