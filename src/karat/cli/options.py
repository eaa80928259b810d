"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class NeedsGold(click.Command):
    """A command whose gold set is an option: said to those who give it as a second argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is None or error.param.name != "gold":
                raise
            run, gold = given if len(given) == 2 else (given[0], "GOLD")
            raise click.UsageError(
                f"the gold set is missing\nhint: {ctx.command_path} {run} --gold {gold}", ctx
            ) from None


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
