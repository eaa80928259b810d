"""The one way to a terminal: no secrets, nothing that moves a cursor, nothing that a CI server obeys."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import click

from karat.errors import no_commands, printable
from karat.errors.redaction import redact, redact_known

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def be_quiet() -> None:
    """From now on, print only results and errors."""
    _quiet.set(True)


def say(line: str, *, err: bool = False, label: str = "", always: bool = False, **style: Any) -> None:
    """One line, whatever is in it: names of systems and files come from others. `label`: a styled word in front;
    `always`: also where only results and errors are wanted."""
    if err and _quiet.get() and not always:
        return
    shown = _safe(redact(" ".join(line.splitlines()) if "\n" in line or "\r" in line else line))
    click.echo(click.style(label, **style) + shown if label else shown, err=err)


def say_text(text: str, *, err: bool = False) -> None:
    """Several lines of our own, or of a file that the user wants to see."""
    click.echo(_safe(redact(text)), err=err, nl=not text.endswith("\n"))


def say_rendered(text: str, **how: Any) -> None:
    """What a renderer made, colours among it: it has seen to the rest."""
    click.echo(redact(text), nl=False, **how)


def say_data(text: str) -> None:
    """JSON and other text that programs read."""
    click.echo(redact_known(text), nl=False)


def _safe(text: str) -> str:
    return no_commands(printable(text))
