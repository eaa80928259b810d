"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def reading_options(command: F) -> F:
    for option in reversed(
        (
            click.option(
                "--run-format",
                metavar="NAME",
                help="Format of the run (default: recognised from its content).",
            ),
            click.option("--gold-format", metavar="NAME", help="Format of the gold set (default: recognised)."),
            click.option("--target", metavar="FIELD", help="Field that holds the target of a single-target set."),
            click.option("--split", default="test", show_default=True, help="Which qrels of a BEIR folder."),
            click.option("--system", help="Only this system of a run that holds several."),
        )
    ):
        command = option(command)
    return command
