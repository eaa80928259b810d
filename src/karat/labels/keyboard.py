"""Single keys from a terminal."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from karat.errors import ConfigError

_ESCAPE = "\x1b"
_PATIENCE = 0.05  # seconds in which the rest of an arrow key comes


class Keyboard:
    """Keys as they are pressed. Keys pressed while nobody reads are kept, and nothing is shown of them."""

    def __init__(self, handle: int, usual: list[Any]) -> None:
        self._handle, self._usual = handle, usual

    def key(self) -> str:
        """The next key; an arrow or function key is one key, whatever digits it sends; "" at the end of the input."""
        found = self._read()
        if found == _ESCAPE and self._more():
            return found + self._rest()
        return found

    def line(self) -> str:
        """A line that is shown while it is typed."""
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

    def _rest(self) -> str:
        """What follows an escape: `[` or `O`, then up to a letter or a tilde."""
        found = self._read()
        while found[0] in "[O" and (len(found) == 1 or not "@" <= found[-1] <= "~") and self._more():
            found += self._read()
        return found


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """The terminal, key by key, and as it was afterwards."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        hint = "labels may also be written by other programs: docs/labels.md has the format"
        raise ConfigError("labelling by keys needs a terminal", code="no-terminal", hint=hint)
    try:
        import termios
        import tty
    except ImportError:
        raise ConfigError(
            "labelling by keys needs a Unix terminal", code="no-terminal", hint="under Windows, use WSL"
        ) from None
    handle = sys.stdin.fileno()
    usual = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)
        yield Keyboard(handle, usual)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, usual)
