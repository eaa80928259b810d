"""The layout of terminal reports, held against rich's."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text as RichText

from karat.report.blocks import Column, Report, Section, Table, Text
from karat.report.renderers.columns import cells_of, cut, shared_width, wrapped
from karat.report.renderers.terminal import _Fitting, render_terminal

ROOT = Path(__file__).parents[2]
words = st.text("abc 漢é[", min_size=1, max_size=40)
numbers = st.floats(0, 1000).map(lambda value: f"{value:.4f}")
columns = st.one_of(st.tuples(st.just("t"), words), st.tuples(st.just("n"), numbers))


def rich_lines(what: RichText | RichTable, width: int) -> list[str]:
    stream = io.StringIO()
    Console(width=width, file=stream, highlight=False, emoji=False).print(what)
    return stream.getvalue().splitlines()


@given(st.text("abcdefg 漢é,", max_size=200), st.integers(2, 60))
def test_lines_break_where_rich_breaks_them(text: str, width: int) -> None:
    assert wrapped(text, width) == rich_lines(RichText(text), width)


@given(st.text(st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Zs"], max_codepoint=0x24FF)))
def test_letters_are_as_wide_as_rich_says(text: str) -> None:
    assert cells_of(text) == cell_len(text)


@pytest.mark.parametrize(
    "text", ["👍🏽", "👩\u200d🚀", "❤\ufe0f", "한글", "e\u0301\u0302", "नमस्ते", "ﾊﾝｶｸ", "ｗｉｄｅ", "1\ufe0f\u20e3"]
)
def test_what_is_one_letter_of_several_code_points(text: str) -> None:
    assert cells_of(text) == cell_len(text)


def test_a_wide_letter_is_never_cut_in_half() -> None:
    assert cut("漢字漢", 5) == "漢字 "
    assert cut("漢", 1) == " "


@given(st.lists(columns, min_size=1, max_size=5), st.integers(1, 4), st.data(), st.integers(30, 100))
def test_columns_share_a_line_as_with_rich(
    kinds: list[tuple[str, str]], rows: int, data: st.DataObject, width: int
) -> None:
    made = {"t": words, "n": numbers}
    cells = [[data.draw(made[kind]) for kind, _ in kinds] for _ in range(rows)]
    fitting = _Fitting(Table([Column(f"{kind}{i}") for i, (kind, _) in enumerate(kinds)], cells), width)
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=False)
    for i, title in enumerate(fitting._titles):
        right = "right" if fitting._numeric[i] else "left"
        table.add_column(
            title, justify=right, no_wrap=fitting._unbroken[i], overflow="fold", min_width=fitting._needs(i)
        )
    for row in fitting._rows:
        table.add_row(*map(escape, row))
    if len(fitting._parts()) == 1:
        assert [line for line, _ in fitting.lines()] == rich_lines(table, width)


@given(st.lists(st.tuples(st.integers(0, 80), st.booleans()), min_size=1, max_size=6), st.integers(1, 200))
def test_shared_widths_fit_and_take_from_the_widest(found: list[tuple[int, bool]], room: int) -> None:
    sizes, foldable = zip(*found, strict=True)
    given_to = shared_width(sizes, foldable, room)
    assert sum(given_to) == min(sum(sizes), room)
    assert all(0 <= new <= old for new, old in zip(given_to, sizes, strict=True))
    fixed = sum(size for size, may in found if not may)
    if fixed <= room:
        assert all(new == old for new, (old, may) in zip(given_to, found, strict=True) if not may)
        cut_ones = [new for new, (old, may) in zip(given_to, found, strict=True) if may and new < old]
        kept = [old for new, (old, may) in zip(given_to, found, strict=True) if may and new == old]
        assert max(cut_ones, default=0) - min(cut_ones, default=0) <= 1  # the same for all that were cut
        assert max(kept, default=0) <= min(cut_ones, default=80) + 1


def test_a_number_is_shown_where_its_title_fills_the_line() -> None:
    table = Table([Column("name"), Column("a title that is wider than the whole terminal", "score")], [["x", 0.12345]])
    *_, last = render_terminal(Report("t", [Section("s", "S", [table])]), 20).splitlines()
    assert last == "0.1235".rjust(20) or last == "0.1234".rjust(20)


def test_each_line_has_its_own_codes_and_nothing_of_the_data_is_one() -> None:
    report = Report("t", [Section("s", "S", [Text("a b", "note"), Text("\033[31mred", "warning")])])
    codes = {"title": "1", "heading": "1;4", "note": "2", "warning": "33"}
    shown = render_terminal(report, 2, codes)  # type: ignore[arg-type]
    start = ["\033[1mt\033[0m", "", "\033[1;4mS\033[0m", "\033[2ma \033[0m", "\033[2mb\033[0m", "\033[33m�[\033[0m"]
    assert shown.splitlines()[:6] == start


def on_a_terminal(**environment: str) -> str:
    """What `karat eval` prints on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "karat", "eval", "bm25.jsonl", "--gold", "gold.jsonl", "-m", "mrr", "--brief"]
    known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")}
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.PIPE, env=known | environment, cwd=ROOT / "examples/helpdesk"
    ) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                more = os.read(ours, 1 << 16)
            except OSError:  # Linux says so when the other end is closed
                break
            if not more:
                break
            found += more
    os.close(ours)
    assert process.returncode == 0
    return found.decode().replace("\r\n", "\n")


def test_a_terminal_gets_its_width_and_codes() -> None:
    shown = on_a_terminal(TERM="xterm", COLUMNS="60")
    assert shown.startswith("\033[1m")
    assert "\033[1;4m" in shown
    plain = on_a_terminal(TERM="dumb", COLUMNS="60")
    assert "\033" not in plain
    assert 50 < max(map(cells_of, plain.splitlines())) <= 60


def test_no_colour_where_none_is_wanted() -> None:
    code = (
        "from karat.report.renderers import terminal\nimport sys\nsys.stdout.isatty = lambda: True\n"
        "print(sorted(terminal.terminal_codes()))"
    )

    def styles(**environment: str) -> str:
        known = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
        done = subprocess.run([sys.executable, "-c", code], env=known | environment, capture_output=True, check=True)
        return done.stdout.decode()

    assert "warning" in styles()
    assert "warning" not in styles(NO_COLOR="1")
    assert "heading" in styles(NO_COLOR="1")  # bold and underlined are no colours
    assert styles(TERM="dumb").strip() == "[]"
