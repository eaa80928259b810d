"""Drawings of the documentation, each for light and for dark pages: docs/assets/drawings/NAME-{light,dark}.svg.

`make docs` writes them. The rooms come from the list of layers in docs/architecture.md, the charts from the committed
pages of the benchmarks. A test fails if they are out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from karat.report.svg import element

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "assets" / "drawings"
WIDTH = 600
LETTER = 7.7  # width of a letter of 15 px, on average


class Theme(NamedTuple):
    page: str
    text: str
    quiet: str
    line: str
    box: str
    strong: str
    others: tuple[str, str, str]


THEMES = {
    "light": Theme("#ffffff", "#1c2430", "#55606e", "#c3cad4", "#eef3f9", "#0b5cad", ("#b3541e", "#5b43b8", "#6b7684")),
    "dark": Theme("#1e2129", "#e6e9ef", "#a9b2c0", "#4a5260", "#2a3140", "#8ebdf8", ("#f0a070", "#b3a6f0", "#98a2b0")),
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in drawings().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def drawings() -> dict[str, str]:
    """Every file with its content."""
    draw: dict[str, Callable[[Theme], str]] = {"flow": flow, "rooms": rooms, "coverage": coverage, "speed": speed}
    return {f"{name}-{scheme}.svg": one(theme) for name, one in draw.items() for scheme, theme in THEMES.items()}


# Parts


def sheet(theme: Theme, height: float, *parts: Markup) -> str:
    """A whole drawing; its background is that of the page, so that it can be read anywhere."""
    style = f"text{{font:15px system-ui,sans-serif;fill:{theme.text}}}.small{{font-size:13px;fill:{theme.quiet}}}"
    style += ".bold{font-weight:600}.middle{text-anchor:middle}.end{text-anchor:end}"
    back = element("rect", width=WIDTH, height=height, rx=6, fill=theme.page)
    whole = element(
        "svg",
        element("style", style),
        back,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
    )
    return f"{whole}\n"


def label(text: str, x: float, y: float, kind: str = "") -> Markup:
    return element("text", text, x=x, y=y, class_=kind or None)


def box(theme: Theme, x: float, y: float, width: float, title: str, *more: str, strong: bool = False) -> Markup:
    """A box with a title and lines below it; 34 high, and 18 for each line."""
    height = 34 + 18 * len(more)
    edge = theme.strong if strong else theme.line
    frame = element("rect", x=x, y=y, width=width, height=height, rx=5, fill=theme.box, stroke=edge)
    lines = [label(line, x + width / 2, y + 40 + 18 * at, "small middle") for at, line in enumerate(more)]
    return Markup("").join([frame, label(title, x + width / 2, y + 22, "bold middle"), *lines])


def arrow(theme: Theme, x: float, y: float, end: float) -> Markup:
    """Downward."""
    tip = f"M{x - 5:g} {end - 8:g}L{x:g} {end:g}L{x + 5:g} {end - 8:g}"
    return element("path", d=f"M{x:g} {y:g}V{end:g}{tip}", fill="none", stroke=theme.quiet, stroke_width=1.5)


# Drawings


def flow(theme: Theme) -> str:
    """From files to a decision."""
    parts = [
        box(theme, 20, 16, 170, "run", "what was returned"),
        box(theme, 215, 16, 170, "gold set", "what is relevant"),
        box(theme, 410, 16, 170, "corpus, labels", "if there are any"),
        *(arrow(theme, x, 68, 100) for x in (105, 300, 495)),
        box(theme, 20, 100, 560, "one pass", "every hit is read and judged once", strong=True),
        arrow(theme, 300, 152, 180),
        box(
            theme,
            20,
            180,
            560,
            "result",
            "every metric with its interval, segments, warnings; can be saved",
            strong=True,
        ),
        *(arrow(theme, x, 232, 264) for x in (105, 300, 495)),
        box(theme, 20, 264, 170, "compare", "is it better?"),
        box(theme, 215, 264, 170, "gate", "may it ship?"),
        box(theme, 410, 264, 170, "triage, diagnosis", "why does it fail?"),
        *(arrow(theme, x, 316, 348) for x in (105, 300, 495)),
        box(theme, 20, 348, 560, "report", "terminal · page · Markdown · JSON · tables · exit code"),
        arrow(theme, 300, 400, 428),
        box(theme, 20, 428, 560, "history", "trends and dashboard · baselines · Slack, MLflow and others"),
    ]
    return sheet(theme, 496, *parts)


def rooms(theme: Theme) -> str:
    """The layers of the code; imports point downward."""
    parts, y = [label("Imports point downward only", WIDTH / 2, 26, "small middle")], 38.0
    for names, purpose in layers():
        parts.append(element("rect", x=20, y=y, width=560, height=52, rx=5, fill=theme.box, stroke=theme.line))
        words = [element("tspan", name, dx=18 if at else None) for at, name in enumerate(names)]
        parts.append(element("text", *words, x=34, y=y + 22, class_="bold", style=f"fill:{theme.strong}"))
        parts.append(label(purpose, 34, y + 42, "small"))
        y += 58
    return sheet(theme, y + 8, *parts)


def layers() -> Iterator[tuple[list[str], str]]:
    """Rooms of each layer, from the top, and the first part of what they are for."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for line in page.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0].strip().splitlines():
        names, _, purpose = line.removeprefix("1. ").partition(": ")
        yield re.findall(r"`(\w+)`", names), re.split(r"[;.] |\.$", purpose)[0]


def coverage(theme: Theme) -> str:
    """How often a 95 % interval holds the truth, by method."""
    rows = [row for row in table("COVERAGE.md", "## Queries one by one") if row["method"] != "strict"]
    left, right, top = 190, 560, 92
    colours = {"bayes": theme.strong, "percentile": theme.others[0], "bca": theme.others[1]}
    shown = {"bayes": "Karat", "percentile": "plain bootstrap", "bca": "BCa bootstrap"}
    kinds = list(dict.fromkeys((row["scores"], row["true mean"], row["units"]) for row in rows))
    height = top + 26 * len(kinds) + 40

    def at(share: float) -> float:
        return left + (right - left) * (share - 30) / 70

    parts = [label("How often a 95 % interval holds the truth", 20, 30, "bold")]
    x = 20.0
    for method, said in shown.items():
        parts += [dot(colours[method], x + 6, 53, method), label(said, x + 18, 58)]
        x += LETTER * len(said) + 44
    for share in (40, 60, 80, 95):
        wanted = share == 95
        parts.append(
            element(
                "line",
                x1=at(share),
                x2=at(share),
                y1=top - 12,
                y2=height - 34,
                stroke=theme.text if wanted else theme.line,
            )
        )
        parts.append(label(f"{share} %", at(share), height - 14, "middle" if wanted else "small middle"))
    for number, (scores, mean, units) in enumerate(kinds):
        y = top + 26 * number
        parts.append(label(f"{scores} {mean}, {units} queries", 20, y + 5, "small"))
        found = {
            row["method"]: float(row["coverage"].rstrip(" %"))
            for row in rows
            if (row["scores"], row["true mean"], row["units"]) == (scores, mean, units)
        }
        parts.append(
            element("line", x1=at(min(found.values())), x2=at(max(found.values())), y1=y, y2=y, stroke=theme.line)
        )
        parts += [dot(colours[method], at(found[method]), y, method) for method in reversed(shown)]
    return sheet(theme, height, *parts)


def dot(colour: str, x: float, y: float, method: str) -> Markup:
    """A shape of its own for each method, so that colour is not all that tells them apart."""
    if method == "bayes":
        return element("circle", cx=x, cy=y, r=6, fill=colour)
    if method == "percentile":
        return element("rect", x=x - 5, y=y - 5, width=10, height=10, fill=colour)
    return element("path", d=f"M{x:g} {y - 7:g}L{x + 6:g} {y + 5:g}H{x - 6:g}z", fill=colour)


WORKLOADS = {
    "## W1": "6,980 queries × 1,000 hits, from TREC files",
    "## W3": "200,000 queries × 10 hits, from JSON Lines",
    "## Whole process": "50 queries × 1,000 hits, a whole process with its start",
}


def speed(theme: Theme) -> str:
    """CPU seconds of four tools for the same seven metrics."""
    found = {said: table("RESULTS.md", heading) for heading, said in WORKLOADS.items()}
    most = max(float(row["CPU s"]) for rows in found.values() for row in rows)
    parts, y = [label("CPU seconds for the same seven metrics; less is better", 20, 30, "bold")], 62.0
    for said, rows in found.items():
        parts.append(label(said, 20, y, "small"))
        for at, row in enumerate(rows):
            name, spent = row[""].strip("*"), float(row["CPU s"])
            middle, own = y + 14 + 26 * at, row[""].startswith("*")
            length = max(2.0, 370 * spent / most)
            parts.append(label(name, 130, middle + 12, "bold end" if own else "end"))
            colour = theme.strong if own else theme.others[2]
            parts.append(element("rect", x=140, y=middle, width=length, height=16, rx=2, fill=colour))
            parts.append(label(f"{row['CPU s']} s", 148 + length, middle + 13, "small"))
        y += 26 * len(rows) + 42
    return sheet(theme, y - 12, *parts)


def table(page: str, heading: str) -> list[dict[str, str]]:
    """The first table below a heading of a page of the benchmarks, as rows by column."""
    text = (ROOT / "benchmarks" / page).read_text(encoding="utf-8")
    lines = text.partition(f"\n{heading}")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


if __name__ == "__main__":
    main()
