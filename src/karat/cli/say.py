"""Prints to the terminal: without secrets, control characters and commands to CI servers."""

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


def say(
    line: str, *, err: bool = False, label: str = "", code: str | None = None, always: bool = False, **style: Any
) -> None:
    """Print one line; line breaks in names of systems and files are removed. `label`: a styled prefix. `code`: of an
    error, dimmed at the end. `always`: print even with --quiet."""
    if err and _quiet.get() and not always:
        return
    shown = _safe(redact(" ".join(line.splitlines()) if "\n" in line or "\r" in line else line))
    if code is not None:
        shown += click.style(f" [{code}]", dim=True)
    click.echo(click.style(label, **style) + shown if label else shown, err=err)


def say_text(text: str, *, err: bool = False) -> None:
    """Print several lines."""
    click.echo(_safe(redact(text)), err=err, nl=not text.endswith("\n"))


def say_rendered(text: str, **how: Any) -> None:
    """Print the output of a renderer, with colours; renderers escape text themselves."""
    click.echo(redact(text), nl=False, **how)


def say_data(text: str) -> None:
    """Print JSON and other text for programs."""
    click.echo(redact_known(text), nl=False)


def _safe(text: str) -> str:
    return no_commands(printable(text))
