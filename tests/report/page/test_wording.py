"""What a written page says beyond what the terminal does, as text."""

from __future__ import annotations

import re
from typing import Any

import karat
from golden import check
from karat.report.blocks import Column, Report, Section, Table
from karat.report.export import to_html
from karat.report.renderers.html import render_html
from wording import words_of


def words(page: str) -> str:
    text = words_of(page).replace(karat.__version__, "…")
    return re.sub(r"(code (?:version|date) \| )\S+", r"\1…", re.sub(r"/(?:tmp|dev)/\S*?/(?=examples)", "", text))


def test_pages(pages: Any) -> None:
    for name, page in (("report", "few"), ("verdict", "few_judged")):
        text = words(pages[page].read_text()).replace(str(pages.folder), "…")
        check(f"wording/{name}_page.txt", text + "\n")


def test_what_is_left_out() -> None:
    long = Table([Column("query"), Column("n", "count")], [[f"q{i}", i] for i in range(1_000)])
    gold = {f"q{i}": {f"d{i}": 1} for i in range(1500)}
    run = {f"q{i}": [f"d{i + 1}", f"d{i}"] if i % 3 else [f"d{i}"] for i in range(1500)}
    cut = words(render_html(Report("Long", [Section("long", "Long", [long])])).decode())
    said = [line for line in cut.splitlines() if "800" in line]
    shown = [line for line in words(to_html([karat.evaluate(run, gold)]).decode()).splitlines() if "1,000" in line]
    check("wording/left_out.txt", "\n".join([*said, *shown]) + "\n")
