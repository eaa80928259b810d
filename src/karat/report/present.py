"""How public objects are shown, saved and turned into frames: the implementation behind `Presented`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from karat.data.saved import SavedObject, json_text
from karat.errors import MissingExtra
from karat.errors.redaction import redact_all
from karat.files.atomic_write import check_writable, write_whole
from karat.report.blocks import Report, Section
from karat.report.build import full_report, joined, page_title, short_report
from karat.report.export import TABLES, check_target, export, found_frame, joined_frame, page
from karat.report.renderers.html import asset, environment, place
from karat.report.renderers.markdown import render_markdown
from karat.report.renderers.terminal import render_terminal
from karat.report.tables import audit_records, find_table, frame_of, joined_tables, table_target, tables_of, write_table
from karat.results.numbers import counted
from karat.results.result import Result
from karat.results.results import Results

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# KIND in the schema of a saved object (karat/KIND/1) → module and function of its report.
_REPORTS = {
    "agreement": ("labels", "agreement_report"),
    "calibration": ("labels", "calibration_report"),
    "clicks": ("labels", "clicks_report"),
    "comparison": ("comparison", "comparison_page"),
    "drift": ("drift", "drift_report"),
    "gates": ("gate", "gate_report"),
    "judgements": ("models", "judging_report"),
    "ladder": ("systems", "ladder_report"),
    "leaderboard": ("leaderboard", "leaderboard_report"),
    "merging": ("labels", "merge_report"),
    "plan": ("sweep", "power_report"),
    "pooling": ("labels", "pool_report"),
    "selftest": ("gate", "selftest_report"),
    "stress": ("systems", "stress_report"),
    "sweep": ("sweep", "sweep_report"),
    "synthesis": ("models", "synthesis_report"),
    "triage": ("triage", "triage_report"),
    "tuning": ("tune", "tuning_report"),
}
# What `to_polars()` gives without a name; else the first table that is not about the object itself.
_TELLING = {
    "agreement": "kappas",
    "calibration": "overall",
    "clicks": "positions",
    "comparison": "differences",
    "drift": "metrics",
    "gates": "verdicts",
    "judgements": "labels",
    "ladder": "rungs",
    "leaderboard": "systems",
    "plan": "rows",
    "selftest": "alarms",
    "stress": "rows",
    "sweep": "points",
    "synthesis": "queries",
    "triage": "cases",
    "tuning": "settings",
}
_ABOUT = ("about", "dataset", "statistics", "spending")
_IN_A_VIEW = ("doubts", "glance", "panel", "over_k", "systems")  # sections of a page that a notebook shows
_LINK = re.compile(r'<a [^>]*?href="#([^"]+)"[^>]*>(.*?)</a>', re.S)
_LINES, _WIDTH = 8, 100


def report_of(thing: object) -> Report:
    """Returns the report of an object."""
    if isinstance(thing, Result):
        return full_report([thing])
    if isinstance(thing, Results):
        return full_report([*thing.values()])
    module, name = _REPORTS[_kind(thing)]
    made: Report = getattr(import_module(f"karat.report.{module}"), name)(thing)
    return made


def save(thing: object, path: str | PathLike[str]) -> Path:
    """Writes an object to a file; the file extension selects the format."""
    target = fspath(path)
    if isinstance(thing, Result | Results):
        return export([thing] if isinstance(thing, Result) else [*thing.values()], target)
    table = table_target(target)
    if table is None:
        check_target(target)
    else:
        check_writable(table[1])
    return write([thing], target, report_of)


def write(
    found: Sequence[Any],
    target: str,
    report: Callable[[Any], Report],
    page_report: Callable[[], Report] | None = None,
    audited: Sequence[Result] = (),
    command: str = "",
) -> Path:
    """Writes objects of one kind to a file: .json, .html, .md, or one table as .csv or .parquet.

    `page_report`: what HTML shows if it differs from `report`; `audited`: results whose audits become a table;
    `command`: the command that made the page.
    """
    if (table := table_target(target)) is not None:
        write_table(joined_tables(found) | audit_records(audited), *table)
        return table[1]
    if target.endswith(".json"):
        content = json_text(found[0] if len(found) == 1 else found)
    elif target.endswith(".html"):
        content = page(page_report() if page_report else joined([*map(report, found)]), command)
    else:
        content = "\n".join(render_markdown(report(one)) for one in found).encode()
    write_whole(target, content)
    return Path(target)


def table_names(thing: object) -> list[str]:
    if isinstance(thing, Result | Results):
        first = thing if isinstance(thing, Result) else next(iter(thing.values()))
        return [*TABLES, *(name for name, records in tables_of(first.analyses.found).items() if records)]
    return [name for name, records in tables_of(thing).items() if records]


def frame(thing: object, table: str | None) -> pl.DataFrame:
    """One of the tables of an object."""
    if isinstance(thing, Result | Results):
        results = [thing] if isinstance(thing, Result) else [*thing.values()]
        name = table or "summary"
        return joined_frame(results, TABLES[name] if name in TABLES else found_frame(name))
    tables = tables_of(thing)
    first = _TELLING.get(_kind(thing)) or next((name for name in tables if name not in _ABOUT), "about")
    return frame_of(find_table(tables, table or first))


def pandas_frame(thing: object, table: str | None) -> pd.DataFrame:
    """The same for pandas, built column by column because polars itself would need pyarrow."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("to_pandas()", "pandas", None) from None
    made = frame(thing, table)
    numeric = {name for name, kind in made.schema.items() if kind.is_numeric()}
    return pd.DataFrame(
        {name: made[name].to_numpy() if name in numeric else made[name].to_list() for name in made.columns}
    )


def text(thing: object) -> str:
    """The text that a terminal shows for an object."""
    if isinstance(thing, Results):
        return "\n".join(map(text, thing.values()))
    report = short_report(thing) if isinstance(thing, Result) else report_of(thing)
    return render_terminal(report, _WIDTH)


def few_lines(thing: object) -> str:
    """The repr of an object in an interpreter."""
    if isinstance(thing, Results):
        return "\n".join(
            [f"Results of {counted(len(thing), 'system')}", *(f"  {page_title(r)}" for r in thing.values())]
        )
    if isinstance(thing, Result):
        return "\n".join([f"Result: {page_title(thing)}", *_some([f"  {_estimate(thing, m)}" for m in thing.means])])
    if _kind(thing) not in _REPORTS:
        return f"{type(thing).__name__}({_kind(thing)})"
    report = redact_all(report_of(thing))
    names = ", ".join(table_names(thing))
    return f"{type(thing).__name__}: {report.page_title or report.title}\n  tables: {names}"


def view(thing: object) -> str:
    """The HTML of an object in a notebook: the start of its page, with scoped style."""
    report = report_of(thing)
    sections: Sequence[Section] = report.sections
    if isinstance(thing, Result | Results):
        sections = [section for section in sections if section.name in _IN_A_VIEW]
    page_of = environment().get_template("view.html")
    shown = redact_all(report.page_title or report.title)
    made = page_of.render(title=shown, sections=place(sections), style=Markup(_scoped_style()))  # Karat's own file
    there = set(re.findall(r'\bid="([^"]+)"', made))
    # What leads to a section that only the page has is plain text here.
    return _LINK.sub(lambda link: link[0] if link[1] in there else link[2], made)


def _scoped_style() -> str:
    style = re.sub(r":root\[data-theme[^}]*\}", "", asset("style.css"))
    return f"@scope (.karat-view) {{\n{re.sub(r'^(:root|body) ', ':scope ', style, flags=re.M)}\n}}"


def _kind(thing: object) -> str:
    if not isinstance(thing, SavedObject):
        raise TypeError(f"{type(thing).__name__} cannot be shown")
    return thing.schema.split("/")[1]


def _some(lines: list[str]) -> list[str]:
    left = len(lines) - _LINES
    return lines if left <= 0 else [*lines[:_LINES], f"  … and {left} more"]


def _estimate(result: Result, metric: str) -> str:
    row = result[metric]
    if row.mean is None:
        return f"{metric}: undefined"
    limits = "" if row.low is None or row.high is None else f" [{row.low:.4f}, {row.high:.4f}]"
    return f"{metric} {row.mean:.4f}{limits}"
