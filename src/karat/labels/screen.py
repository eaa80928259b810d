"""Label pairs in a terminal with single keys."""

from __future__ import annotations

import os
import select
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from karat.errors import ConfigError
from karat.labels.files import PoolEntry
from karat.labels.session import Session, grade_words
from karat.results.queries.shown import shared_words

_JOINERS = "\u200c\u200d\u00ad"  # invisible, and a part of words and emoji
_END, _INTERRUPT = "\x04", "\x03"
_ESCAPE = "\x1b"
_PATIENCE = 0.05  # seconds to wait for the rest of an arrow key
_WIDTH = 100


class _Console(Console):
    """A console that raises BrokenPipeError instead of exiting with code 1, so that the command line can decide."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def terminal_console() -> Console:
    """Standard output, as wide as the terminal but at most 100 columns."""
    console = _Console(highlight=False, soft_wrap=False)
    console.width = min(console.width, _WIDTH)
    return console


def escaped(text: str) -> str:
    """Text that cannot move the cursor, colour the screen or change the writing direction.

    >>> escaped("a\\x1b[2Jb\\u202ec\\td\\n")
    'a\\\\x1b[2Jb\\\\u202ec    d\\n'
    """

    def harmless(letter: str) -> bool:
        return letter in "\n" + _JOINERS or not unicodedata.category(letter).startswith("C")

    return "".join(c if harmless(c) else c.encode("unicode_escape").decode("ascii") for c in text.expandtabs(4))


def _line(text: str) -> str:
    return escaped(text).replace("\n", " ")


def label_by_keys(session: Session, keys: Keyboard, console: Console, highest: int) -> None:
    """Show pairs until all are labelled or the user quits."""
    note, said = "", ""
    while True:
        entry = session.current
        console.clear()
        console.print(_page(entry, session, highest, note, said) if entry else _end(session, said))
        key, said = keys.key(), ""
        if key in ("q", _END, _INTERRUPT, "") or (entry is None and key != "u"):
            return
        if key == "u":
            note, said = "", "" if session.undo() else "you have no label to undo"
        elif key == "s":
            session.give(None, note)
            note = ""
        elif key == "n":
            console.print("note: ", end="")
            note = keys.line()
        elif key.isdecimal() and int(key) <= highest:
            session.give(float(key), note)
            note = ""
        else:
            said = f"unknown key {escaped(key)!r}"


def _page(entry: PoolEntry, session: Session, highest: int, note: str, said: str) -> RenderableType:
    head = f"{_line(session.annotator)}: {_count(session)}, of {len(session.pool):,}"
    query = Text.assemble(("query  ", "dim"), (escaped(entry.query or str(entry.query_id)), "bold"))
    repeats = ""
    if entry.near_duplicate_of is not None:
        grade = session.grade_of_duplicate(entry)
        yours = "" if grade is None else f", which you graded {grade:g}"
        repeats = f"nearly the same text as {_line(entry.near_duplicate_of)}{yours}"
    asides = [Text(text, style="italic") for text in (repeats, note and f"note: {note}", said) if text]
    keys = [*((str(grade), word) for grade, word in enumerate(grade_words(highest))), ("s", "skip"), ("n", "note")]
    keys += [("u", "undo")] * bool(session.given) + [("q", "quit")]
    legend = Text("   ").join(Text.assemble((key, "bold reverse"), f" {word}".rstrip()) for key, word in keys)
    return Group(Text(head, style="dim"), Text(), query, _passage(entry), *asides, legend)


def _count(session: Session) -> str:
    return f"{session.graded:,} labelled, {session.skipped:,} skipped"


def _passage(entry: PoolEntry) -> Panel:
    """The passage in a frame, so that it cannot be mistaken for Karat's own text."""
    text = escaped(entry.text or "") or "(no text; create the pool with --corpus to include it)"
    found = shared_words(entry.query or "", text, entry.language, len(text) + 1)
    shown = Text(found.text)
    for start, end in found.marks:
        shown.stylize("bold underline", start, end)
    title = _line(entry.title or "")
    return Panel(
        shown, title=Text(title) if title else None, title_align="left", subtitle=Text(_line(entry.key.item), "dim")
    )


def _end(session: Session, said: str) -> RenderableType:
    undo = Text("Press u to undo the last label, any other key to quit.", style="dim")
    return Group(Text(f"No pairs left: {_count(session)}."), undo, *([Text(said, style="italic")] if said else []))


class Keyboard:
    """Reads keys as they are pressed, without echo. Keys pressed early are kept."""

    def __init__(self, handle: int, usual: list[Any]) -> None:
        self._handle, self._usual = handle, usual

    def key(self) -> str:
        """The next key; "" at the end of the input. An arrow or function key is one key, whatever it sends."""
        found = self._read()
        if found == _ESCAPE and self._more():
            rest = self._read()  # `[` or `O`, then up to a letter or a tilde
            while rest[0] in "[O" and (len(rest) == 1 or not "@" <= rest[-1] <= "~") and self._more():
                rest += self._read()
            return found + rest
        return found

    def line(self) -> str:
        """Read a line with echo."""
        import termios
        import tty

        termios.tcsetattr(self._handle, termios.TCSADRAIN, self._usual)
        try:
            typed = b""
            while not typed.endswith(b"\n") and (more := os.read(self._handle, 1)):
                typed += more
        finally:
            tty.setcbreak(self._handle, termios.TCSADRAIN)
        return typed.decode("utf-8", "replace").strip()

    def _read(self) -> str:
        try:
            return os.read(self._handle, 1).decode("latin-1")
        except OSError:  # the terminal is gone
            return ""

    def _more(self) -> bool:
        return bool(select.select([self._handle], [], [], _PATIENCE)[0])


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Read the terminal key by key, and restore it afterwards."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        hint = "other programs can also write labels: see docs/labels.md for the format"
        raise ConfigError("labelling with keys needs a terminal", code="no-terminal", hint=hint)
    try:
        import termios
        import tty
    except ImportError:
        what = "labelling with keys needs a Unix terminal"
        raise ConfigError(what, code="no-terminal", hint="on Windows, use WSL") from None
    handle = sys.stdin.fileno()
    usual = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)
        yield Keyboard(handle, usual)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, usual)
