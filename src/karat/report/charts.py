"""Charts as SVG, made from the figures of a report.

They fit any width without a script: x is in per cent of the width and y in pixels, so that text and dots keep their
size. Colours are CSS variables of the page; shape, dash or position carry the same information.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from karat.report.blocks import Bar, Bars, Bin, Chart, Dot, Dots, Histogram, Interval, Range, Scatter, Series, Spot
from karat.report.cells import around
from karat.report.readable import safe
from karat.report.svg import (
    Scale,
    axis,
    element,
    gutter,
    legend,
    line,
    mark,
    percent,
    picture,
    plain,
    short,
    text,
    tick,
)
from karat.report.time_axis import moment, time_ticks
from karat.results.numbers import counted, interval

_LINES_HEIGHT = 240
_WIDE = 1000  # units of the part that is stretched
_SHAPES = (
    "circle",
    "square",
    "up",
    "diamond",
    "down",
    "plus",
)  # dashes and colours with the same index are in the style sheet
_STYLES = len(_SHAPES)
_TICKS = 8  # values that each get their own tick
_LETTER = 13  # pixels between two lines of text
_ROWS = _LINES_HEIGHT // _LETTER - 2  # lines of text between the top and the axis
_NARROWEST, _DIGIT, _GAP = 300, 7, 6  # pixels: axis on a narrow page, digit, gap between two numbers
_BAR_ROW, _THICK = 44, 20
_ROOM = 0.09  # share of the width below which a bar has no room for text
_KINDS = 5
_DOT_ROW = 36  # pixels; on a narrow page a row's name is above its dots
_OTHERS = ("square", "cross", "diamond", "stroke")
_SCATTER_HEIGHT = 320
_HISTOGRAM_HEIGHT = 160
_EDGE = 0.05  # of the scale, so that spots at its ends are not cut
_LARGEST = 2.6  # factor for the spot with the most queries
_SPOT_SHAPES = {"gained": "up", "lost": "down", "same": "circle"}
_SPARK_WIDTH, _SPARK_HEIGHT, _MARGIN = 64, 14, 4
_SPARK = (
    f'<svg class="spark" width="{_SPARK_WIDTH}" height="{_SPARK_HEIGHT}" aria-hidden="true">'
    f'<path d="M{_MARGIN} {_SPARK_HEIGHT / 2}H{_SPARK_WIDTH - _MARGIN}" class="rail"></path>'
)


def draw(figure: Chart | Dots | Bars | Scatter | Histogram, ident: str) -> Markup:
    """Returns an SVG with its legend. `ident`: unique on the page."""
    if isinstance(figure, Chart):
        return draw_lines(figure, ident)
    if isinstance(figure, Dots):
        return _draw_dots(figure, ident)
    if isinstance(figure, Bars):
        return _draw_bars(figure, ident)
    if isinstance(figure, Histogram):
        return _draw_histogram(figure, ident)
    return _draw_scatter(figure, ident)


def draw_lines(chart: Chart, ident: str) -> Markup:
    xs = [v for series in chart.series for v in series.x]
    ys = [v for s in chart.series for values in (s.y, s.low or (), s.high or ()) for v in values if v is not None]
    x, y = (
        Scale(*around(xs), "log" if chart.x_scale == "log" else "linear"),
        Scale(*(chart.y_range or around(ys, zero=True))),
    )
    lines = list(enumerate(chart.series))
    stretched = [shape for i, series in lines for shape in _line(series, i, x, y)]
    box = {"viewBox": f"0 0 {_WIDE} {_LINES_HEIGHT}", "preserveAspectRatio": "none"}
    parts = [*_grid(chart, x, y), *_marks(chart, x)]
    parts.append(element("svg", *stretched, **box, width="100%", height=_LINES_HEIGHT))
    parts += [shape for i, series in lines for shape in _whiskers(series, i, x, y)]
    parts += [point for i, series in lines for point in _points(chart, series, i, x, y)]
    told = f"{chart.y_title} over {chart.x_title}: " + "; ".join(_ends(chart, series) for series in chart.series)
    names = legend((_sample(i), series.name) for i, series in lines)
    return picture(parts, "lines", _LINES_HEIGHT, chart.title, told, ident) + names


def _grid(chart: Chart, x: Scale, y: Scale) -> Iterator[Markup]:
    yield from _y_axis(y, _LINES_HEIGHT)
    yield text(chart.y_title, 0, -14, "title", dx=-38)
    xs = sorted({v for series in chart.series for v in series.x})
    if chart.x_scale == "time":
        ticks = [(x.share(v), name) for v, name in time_ticks(x.low, x.high)]
    else:
        places = xs if len(xs) <= _TICKS or chart.x_words else x.ticks()
        ticks = [(x.share(v), _at(chart, v)) for v in places]
    yield from axis(_with_room(ticks), _LINES_HEIGHT, chart.x_title, grid=chart.x_scale == "time")


def _y_axis(scale: Scale, height: float) -> Iterator[Markup]:
    for value in scale.ticks():
        at = height * (1 - scale.share(value))
        yield line(0, at, 1, at, "gridline")
        yield text(tick(value), 0, at + 4, "tick end", dx=-10)


def _at(chart: Chart, x: float) -> str:
    if chart.x_scale == "time":
        return moment(x)
    return chart.x_words[int(x) - 1] if chart.x_words else tick(x)


def _with_room(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Returns the ticks whose labels do not overlap on the narrowest page.

    >>> _with_room([(0.0, "0.025"), (0.7, "0.0303"), (0.8, "0.0313"), (0.99, "0.0325"), (1.0, "0.0326")])
    [(0.0, '0.025'), (0.7, '0.0303'), (0.99, '0.0325')]
    """
    kept = ticks[:1]
    for share, words in ticks[1:]:
        before, last = kept[-1]
        if (share - before) * _NARROWEST >= (len(last) + len(words)) / 2 * _DIGIT + _GAP:
            kept.append((share, words))
    return kept


def _marks(chart: Chart, x: Scale) -> Iterator[Markup]:
    for i, found in enumerate(chart.marks):
        share = x.share(found.x)
        yield line(share, 0, share, _LINES_HEIGHT, "mark")
        place, dx = ("mark-words end", -6) if share > 0.5 else ("mark-words", 6)  # on the side with more room
        yield text(found.text, share, _LINES_HEIGHT - 10 - _LETTER * (i % _ROWS), place, dx=dx)


def _line(series: Series, i: int, x: Scale, y: Scale) -> Iterator[Markup]:
    """Band and line in stretched units; both break at missing values."""
    low, high = series.low or (), series.high or ()
    across = x.shares(series.x)
    drawn, bottom, top = (_corners(across, y.shares(values)) for values in (series.y, low, high))
    for run in _runs(series.y):
        if low and high and all(low[j] is not None and high[j] is not None for j in run):
            edge = " ".join([*(top[j] for j in run), *(bottom[j] for j in reversed(run))])
            yield element("polygon", points=edge, class_=f"band s{i % _STYLES}")
        yield element("polyline", points=" ".join(drawn[j] for j in run), class_=f"line s{i % _STYLES}")


def _corners(across: Sequence[float], up: Sequence[float]) -> list[str]:
    return [f"{a * _WIDE:.1f},{_LINES_HEIGHT * (1 - u):.1f}" for a, u in zip(across, up, strict=False)]


def _whiskers(series: Series, i: int, x: Scale, y: Scale) -> Iterator[Markup]:
    """The interval of an isolated value, for which a band would have no width."""
    low, high = series.low or (), series.high or ()
    for run in _runs(series.y):
        if len(run) == 1 and low and high:
            bottom, top = low[run[0]], high[run[0]]
            if bottom is not None and top is not None:
                at, ends = x.share(series.x[run[0]]), [_LINES_HEIGHT * (1 - y.share(end)) for end in (bottom, top)]
                yield line(at, ends[0], at, ends[1], f"whisker s{i % _STYLES}")


def _runs(values: Sequence[float | None]) -> list[list[int]]:
    """Indices of consecutive values without a gap."""
    groups = groupby(range(len(values)), lambda i: values[i] is None)
    return [list(run) for is_gap, run in groups if not is_gap]


def _points(chart: Chart, series: Series, i: int, x: Scale, y: Scale) -> Iterator[Markup]:
    places = zip(series.y, x.shares(series.x), y.shares(series.y), strict=True)
    for j, (value, across, up) in enumerate(places):
        if value is not None:
            told = _told(chart, series, j)
            yield mark(_SHAPES[i % _STYLES], across, _LINES_HEIGHT * (1 - up), f"dot s{i % _STYLES}", told)


def _told(chart: Chart, series: Series, j: int) -> str:
    """One point in words."""
    x, y = series.x[j], series.y[j]
    limits = f" {interval(series.low[j], series.high[j])}" if series.low and series.high else ""
    place = _at(chart, x) if chart.x_words or chart.x_scale == "time" else f"{x:g}"
    return f"{series.name} at {place}: {'–' if y is None else format(y, '.4f')}{limits}"


def _ends(chart: Chart, series: Series) -> str:
    if not series.x:
        return f"{short(series.name)}: nothing"
    return f"{_told(chart, series, 0)}, {_told(chart, series, -1)}"


def _sample(i: int) -> Markup:
    return line(0, 7, 1, 7, f"line s{i % _STYLES}") + mark(_SHAPES[i % _STYLES], 0.5, 7, f"dot s{i % _STYLES}")


def _draw_bars(bars: Bars, ident: str) -> Markup:
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
    # In a waterfall, text fits next to a bar; in a stack it needs room inside.
    alone = sum(other.name == bar.name for other in bars.bars) == 1
    if high - low >= _ROOM:
        return drawn + text(bar.text, (low + high) / 2, y + 4, f"inside i{bar.kind % _KINDS}")
    if not alone:
        return drawn
    return drawn + text(bar.text, high if high < 0.8 else low, y + 4, "beside" + ("" if high < 0.8 else " end"))


def _kind(i: int) -> str:
    return f"bar b{i % _KINDS}"


def _draw_dots(dots: Dots, ident: str) -> Markup:
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
    room = gutter(row.name for row in dots.rows)
    return picture(parts, f"dots {room}", height, dots.title, told, ident) + legend([value, *others])


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


def _draw_scatter(scatter: Scatter, ident: str) -> Markup:
    low, high = scatter.scale
    edge = _EDGE * (high - low)
    scale = Scale(low - edge, high + edge)
    parts = list(_frame(scatter, scale))
    most = max((spot.count for spot in scatter.spots), default=1)
    # The largest first, so that they do not hide smaller ones.
    parts += [_spot(spot, scatter, scale, most) for spot in sorted(scatter.spots, key=lambda s: -s.count)]
    counts = {kind: sum(s.count for s in scatter.spots if s.kind == kind) for kind in _SPOT_SHAPES}
    told = f"{scatter.y_title} against {scatter.x_title}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items())
    samples = [(mark(_SPOT_SHAPES[kind], 0.5, 7, f"spot {kind}"), f"{kind} ({n:,})") for kind, n in counts.items()]
    linked = any(spot.link for spot in scatter.spots)
    return picture(parts, "scatter", _SCATTER_HEIGHT, scatter.title, told, ident, linked) + legend(samples)


def _frame(scatter: Scatter, scale: Scale) -> Iterator[Markup]:
    yield from _y_axis(scale, _SCATTER_HEIGHT)
    yield from axis([(scale.share(v), tick(v)) for v in scale.ticks()], _SCATTER_HEIGHT, scatter.x_title)
    yield text(scatter.y_title, 0, -14, "title", dx=-38)
    yield line(0, _SCATTER_HEIGHT, 1, 0, "mark")  # where both are the same


def _spot(spot: Spot, scatter: Scatter, scale: Scale, most: int) -> Markup:
    size = 0.8 + (_LARGEST - 0.8) * math.sqrt((spot.count - 1) / max(most - 1, 1))
    told = f"{spot.x:.4g} → {spot.y:.4g}: {spot.name or counted(spot.count)}"
    y = _SCATTER_HEIGHT * (1 - scale.share(spot.y))
    drawn = mark(_SPOT_SHAPES[spot.kind], scale.share(spot.x), y, f"spot {spot.kind}", told, size)
    return element("a", drawn, href=spot.link, aria_label=told) if spot.link else drawn


def _draw_histogram(histogram: Histogram, ident: str) -> Markup:
    bins = histogram.bins
    most = max((one.count for one in bins), default=0)
    y = Scale(0, max(most, 1))
    parts = [*_y_axis(y, _HISTOGRAM_HEIGHT), text("queries", 0, -14, "title", dx=-38)]
    edges = [*(one.low for one in bins), *(one.high for one in bins[-1:])]
    values = [edges[-1], *reversed(Scale(edges[0], bins[-1].low).ticks())]
    ticks = _with_room([(1 - _among(edges, value), tick(value)) for value in values])  # from the right: it says the end
    parts += axis([(1 - share, words) for share, words in ticks], _HISTOGRAM_HEIGHT, histogram.x_title, grid=False)
    parts += [_bin(one, i, len(bins), y) for i, one in enumerate(bins) if one.count]
    told = "; ".join(f"{one.text}: {counted(one.count)}" for one in bins if one.count)
    return picture(parts, "histogram", _HISTOGRAM_HEIGHT, histogram.title, told, ident)


def _bin(one: Bin, place: int, bins: int, y: Scale) -> Markup:
    high = max(_HISTOGRAM_HEIGHT * y.share(one.count), 1.5)  # a single query among thousands is visible
    where = f'x="{percent(place / bins)}" y="{plain(_HISTOGRAM_HEIGHT - high)}"'
    size = f'width="{percent(1 / bins)}" height="{plain(high)}"'
    title = f"<title>{safe(one.text)}: {counted(one.count)}</title>"
    return Markup(f'<rect {where} {size} class="bar b0">{title}</rect>')  # escaped


def _among(edges: Sequence[float], value: float) -> float:
    """The place of a value on an axis on which all bins have the same width.

    >>> _among([0, 1, 2, 10], 1.5), _among([0, 1, 2, 10], 6), _among([0, 1], 7)
    (0.5, 0.8333333333333334, 1.0)
    """
    bins = len(edges) - 1
    for i in range(bins):
        if value < edges[i + 1]:
            return (i + Scale(edges[i], edges[i + 1]).share(value)) / bins
    return 1.0


def draw_spark(cell: Interval, ends: Range) -> Markup:
    """Hidden from screen readers: the text next to it says the same."""
    # Only numbers, so nothing to escape; made here because a page has hundreds of them.
    scale = Scale(*ends)
    parts = ""
    if scale.low < 0 < scale.high:
        parts += f'<path d="M{_x(scale, 0):.1f} 1V{_SPARK_HEIGHT - 1}" class="zero"></path>'
    if cell.low is not None and cell.high is not None:
        reach = f"M{_x(scale, cell.low):.1f} {_SPARK_HEIGHT / 2}H{_x(scale, cell.high):.1f}"
        parts += f'<path d="{reach}" class="reach"></path>'
    if cell.value is not None:
        at = f'cx="{plain(_x(scale, cell.value))}" cy="{plain(_SPARK_HEIGHT / 2)}"'
        parts += f'<circle {at} r="3" class="point"></circle>'
    return Markup(f"{_SPARK}{parts}</svg>")


def _x(scale: Scale, value: float) -> float:
    return _MARGIN + scale.share(value) * (_SPARK_WIDTH - 2 * _MARGIN)
