"""Lines with bands, such as recall and nDCG over k."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from karat.report.blocks import Chart, Mark, Series
from karat.report.cells import around
from karat.report.charts.svg import Scale, axis, element, legend, line, mark, picture, short, text, tick
from karat.results.numbers import interval

HEIGHT = 240
_WIDE = 1000  # units of the part that is stretched to the width
_SHAPES = ("circle", "square", "up", "diamond")  # dashes and colours of the same number are in the style sheet
_TICKS = 8  # places of the axis that are named one by one
_LETTER = 13  # pixels from one line of letters to the next
_ROWS = HEIGHT // _LETTER - 2  # lines of letters between the top and the axis
_NARROWEST, _DIGIT, _GAP = 300, 7, 6  # pixels of the axis on a narrow page, of a digit, and between two numbers


def draw_lines(chart: Chart, ident: str) -> Markup:
    x, y = _scales(chart)
    parts = [*_grid(chart, x, y), *_marks(chart, x)]
    stretched = [shape for i, series in enumerate(chart.series) for shape in _line(series, i, x, y)]
    box = f"0 0 {_WIDE} {HEIGHT}"
    parts.append(element("svg", *stretched, viewBox=box, preserveAspectRatio="none", width="100%", height=HEIGHT))
    parts += [shape for i, series in enumerate(chart.series) for shape in _whiskers(series, i, x, y)]
    parts += [point for i, series in enumerate(chart.series) for point in _points(chart, series, i, x, y)]
    told = f"{chart.y_title} over {chart.x_title}: " + "; ".join(_ends(chart, series) for series in chart.series)
    names = legend((_sample(i), series.name) for i, series in enumerate(chart.series))
    return picture(parts, "lines", HEIGHT, chart.title, told, ident) + names


def _scales(chart: Chart) -> tuple[Scale, Scale]:
    xs = [v for series in chart.series for v in series.x]
    ys = [v for s in chart.series for values in (s.y, s.low or (), s.high or ()) for v in values if v is not None]
    return Scale(*around(xs), chart.x_scale), Scale(*(chart.y_range or around(ys, zero=True)))


def _grid(chart: Chart, x: Scale, y: Scale) -> Iterator[Markup]:
    for value in y.ticks():
        at = HEIGHT * (1 - y.share(value))
        yield line(0, at, 1, at, "gridline")
        yield text(tick(value), 0, at + 4, "tick end", dx=-10)
    yield text(chart.y_title, 0, -14, "title", dx=-38)
    xs = sorted({v for series in chart.series for v in series.x})
    places = xs if len(xs) <= _TICKS or chart.x_words else x.ticks()
    yield from axis(_with_room([(x.share(v), _at(chart, v)) for v in places]), HEIGHT, chart.x_title, grid=False)


def _at(chart: Chart, x: float) -> str:
    return chart.x_words[int(x) - 1] if chart.x_words else tick(x)


def _with_room(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those whose words do not run into the ones before, on the narrowest page.

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
        yield line(share, 0, share, HEIGHT, "mark")
        yield _words(found, share, HEIGHT - 10 - _LETTER * (i % _ROWS))


def _words(found: Mark, share: float, y: float) -> Markup:
    """Beside its line, on the side where there is room."""
    return text(found.text, share, y, "mark-words end" if share > 0.5 else "mark-words", dx=-6 if share > 0.5 else 6)


def _line(series: Series, i: int, x: Scale, y: Scale) -> Iterator[Markup]:
    """Band and line in units that are stretched; both break where there is no value."""
    low, high = series.low or (), series.high or ()
    for run in _runs(series.y):
        at = [x.share(series.x[j]) * _WIDE for j in run]
        if low and high and all(low[j] is not None and high[j] is not None for j in run):
            edge = [_pair(a, y, high[j]) for a, j in zip(at, run, strict=True)]
            back = [_pair(a, y, low[j]) for a, j in zip(at, run, strict=True)]
            yield element("polygon", points=" ".join([*edge, *reversed(back)]), class_=f"band s{i % 4}")
        points = " ".join(_pair(a, y, series.y[j]) for a, j in zip(at, run, strict=True))
        yield element("polyline", points=points, class_=f"line s{i % 4}")


def _whiskers(series: Series, i: int, x: Scale, y: Scale) -> Iterator[Markup]:
    """The interval of a value that stands alone: a band there would have no width."""
    low, high = series.low or (), series.high or ()
    for run in _runs(series.y):
        if len(run) == 1 and low and high:
            bottom, top = low[run[0]], high[run[0]]
            if bottom is not None and top is not None:
                at, ends = x.share(series.x[run[0]]), [HEIGHT * (1 - y.share(end)) for end in (bottom, top)]
                yield line(at, ends[0], at, ends[1], f"whisker s{i % 4}")


def _runs(values: object) -> list[list[int]]:
    runs: list[list[int]] = [[]]
    assert isinstance(values, (list, tuple))
    for i, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(i)
    return [run for run in runs if run]


def _pair(at: float, y: Scale, value: float | None) -> str:
    return f"{at:.1f},{HEIGHT * (1 - y.share(value or 0.0)):.1f}"


def _points(chart: Chart, series: Series, i: int, x: Scale, y: Scale) -> Iterator[Markup]:
    for at, value, told in zip(series.x, series.y, _told(chart, series), strict=True):
        if value is not None:
            place = HEIGHT * (1 - y.share(value))
            yield mark(_SHAPES[i % 4], x.share(at), place, f"dot s{i % 4}", told)


def _told(chart: Chart, series: Series) -> Iterator[str]:
    for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        limits = f" {interval(series.low[i], series.high[i])}" if series.low and series.high else ""
        place = f"{x:g}" if not chart.x_words else _at(chart, x)
        yield f"{series.name} at {place}: {'–' if y is None else format(y, '.4f')}{limits}"


def _ends(chart: Chart, series: Series) -> str:
    told = list(_told(chart, series))
    return f"{told[0]}, {told[-1]}" if told else f"{short(series.name)}: nothing"


def _sample(i: int) -> Markup:
    return line(0, 7, 1, 7, f"line s{i % 4}") + mark(_SHAPES[i % 4], 0.5, 7, f"dot s{i % 4}")
