"""SVG shapes, and the position of values on an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Literal

import msgspec
from markupsafe import Markup

from karat.report.readable import safe

_NAME = 26  # characters of a name next to a chart
_TICKS = 6  # on an axis, approximately
SHAPES = {
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "square": "M-4-4h8v8h-8z",
    "up": "M0-5L5 4H-5z",
    "diamond": "M0-5.5L5.5 0L0 5.5L-5.5 0z",
    "down": "M0 5L5-4H-5z",
    "plus": "M-1.8-5h3.6v3.2h3.2v3.6h-3.2v3.2h-3.6v-3.2h-3.2v-3.6h3.2z",
    "cross": "M-4-4L4 4M-4 4L4-4",
    "stroke": "M0-7V7",
}


def element(name: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """An element. In names of attributes `_` becomes `-`; children and values are escaped.

    >>> element("text", "a < b", x=1.50, class_="label", fill=None)
    Markup('<text x="1.5" class="label">a &lt; b</text>')
    """
    given = ""
    for key, value in attributes.items():
        if value is not None:
            shown = safe(value) if isinstance(value, str) else plain(value)
            given += f' {_attribute(key)}="{shown}"'
    inner = "".join([child if isinstance(child, Markup) else safe(child) for child in children])
    return Markup(f"<{name}{given}>{inner}</{name}>")


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def plain(value: float) -> str:
    """
    >>> plain(1.5), plain(2.0), plain(1 / 3)
    ('1.5', '2', '0.33')
    """
    shown = f"{value:.2f}"
    return shown if shown[-1] != "0" else shown[:-1] if shown[-2] != "0" else shown[:-3]


def percent(share: float) -> str:
    """
    >>> percent(0.25), percent(1 / 3)
    ('25%', '33.33%')
    """
    return plain(share * 100) + "%"


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line; x is a share of the width."""
    # Written out, as `mark` and `text` are: a page has hundreds of them. Only names of classes are not numbers.
    ends = f'x1="{percent(x1)}" y1="{plain(y1)}" x2="{percent(x2)}" y2="{plain(y2)}"'
    return Markup(f'<line {ends} class="{class_}"></line>')


def mark(shape: str, x: float, y: float, class_: str, title: str = "", size: float = 1.0) -> Markup:
    """A mark that keeps its size at any chart width; x is a share of the width."""
    grown = "" if size == 1.0 else f' transform="scale({size:.2f})"'
    path = f'<path d="{SHAPES[shape]}" class="{class_}"{grown}>{_titled(title)}</path>'
    return Markup(f'<svg x="{percent(x)}" y="{plain(y)}" overflow="visible">{path}</svg>')  # the title is escaped


def text(words: str, x: float, y: float, class_: str, dx: float | None = None, title: str = "") -> Markup:
    moved = "" if dx is None else f' dx="{plain(dx)}"'
    inner = f"{_titled(title)}{safe(words)}"
    return Markup(f'<text x="{percent(x)}" y="{plain(y)}"{moved} class="{class_}">{inner}</text>')  # escaped


def _titled(title: str) -> str:
    return f"<title>{safe(title)}</title>" if title else ""


def short(name: str) -> str:
    """Shortens a name so that it fits next to a chart.

    >>> short("ndcg@5"), short("x" * 99)
    ('ndcg@5', 'xxxxxxxxxxxxxxxxxxxxxxxxx…')
    """
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


def gutter(names: Iterable[str]) -> str:
    """Returns the class of a chart, by the space that the names of its rows need."""
    return "roomy" if any(len(name) > _NAME // 2 for name in names) else "close"


def picture(
    parts: Iterable[Markup], kind: str, height: float, title: str, told: str, ident: str, linked: bool = False
) -> Markup:
    """The whole image, with title and description for screen readers. `linked`: it has links."""
    return element(
        "svg",
        element("title", title, id=f"{ident}-title"),
        element("desc", told, id=f"{ident}-desc"),
        *parts,
        class_=f"chart {kind}",
        width="100%",
        height=height,
        role="group" if linked else "img",  # the parts of an img cannot be reached
        aria_labelledby=f"{ident}-title",
        aria_describedby=f"{ident}-desc",
    )


def legend(entries: Iterable[tuple[Markup, str]]) -> Markup:
    """Explains each kind of mark; empty if there is only one."""
    size = {"width": 30, "height": 14}
    samples = [(element("svg", mark, class_="sample", **size, aria_hidden="true"), name) for mark, name in entries]
    shown = [element("li", sample, element("span", name)) for sample, name in samples]
    return element("ul", *shown, class_="legend") if len(shown) > 1 else Markup("")


def axis(ticks: Iterable[tuple[float, str]], height: float, title: str, grid: bool = True) -> list[Markup]:
    """The x axis below a chart; ticks are (share of the width, text)."""
    parts = []
    for share, words in ticks:
        if grid:
            parts.append(line(share, 0, share, height, "gridline"))
        parts.append(text(words, share, height + 18, "tick middle"))
    return [*parts, text(title, 0.5, height + 38, "title middle")]


class Scale(msgspec.Struct, frozen=True):
    """An axis from `low` to `high`."""

    low: float
    high: float
    kind: Literal["linear", "log"] = "linear"

    def share(self, value: float) -> float:
        """Returns the position of a value on the axis, from 0 to 1.

        >>> Scale(0, 4).share(1), Scale(1, 100, "log").share(10), Scale(0, 1).share(7), Scale(3, 3).share(3)
        (0.25, 0.5, 1.0, 0.5)
        """
        low, high, at = self.low, self.high, max(value, self.low)
        if self.kind == "log" and low > 0:
            low, high, at = map(math.log, (low, high, at))
        if not high > low:
            return 0.5
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def shares(self, values: Iterable[float | None]) -> list[float]:
        """The positions of many values; that of a missing one is meaningless."""
        if self.kind == "log" or not self.high > self.low:
            return [self.share(self.low if value is None else value) for value in values]
        low, span = self.low, self.high - self.low
        return [0.0 if v is None or v <= low else 1.0 if v - low >= span else (v - low) / span for v in values]

    def ticks(self) -> list[float]:
        """Round values along the axis.

        >>> Scale(0, 1).ticks(), Scale(-3, 22).ticks(), Scale(2, 2).ticks()
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0, 15.0, 20.0], [2])
        """
        span = self.high - self.low
        if not span > 0 or not math.isfinite(span):
            return [self.low]
        rough = span / (_TICKS - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [round(i * step, 10) + 0.0 for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def tick(value: float) -> str:
    """
    >>> tick(0.2), tick(-5.0), tick(12_000)
    ('0.2', '−5', '12,000')
    """
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}").replace("-", "−")
