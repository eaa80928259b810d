"""Options of the commands that ask a model."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import all_of
from karat.llm.options import ModelOptions, Option, options_in


def _declared(name: str, of: Any, option: Option) -> Any:
    flag = f"--{name.replace('_', '-')}"
    if of is bool:
        return click.option(flag, is_flag=True, help=option.about)
    return click.option(
        flag,
        type=_type(of, option),
        default=option.default,
        show_default=option.default is not None,
        metavar=option.metavar,
        help=f"{option.about}  [default: {option.instead}]" if option.instead else option.about,
    )


def _type(of: Any, option: Option) -> Any:
    if option.default is None:  # it may be many things, of which a command line can say one
        return str
    return of if option.least is None else click.IntRange(min=option.least)


llm_options = all_of(
    click.option("--model", metavar="NAME", help="Chat model, as the endpoint calls it."),
    *(_declared(name, of, option) for name, (of, option) in options_in(ModelOptions).items() if option is not None),
    click.option("--dry-run", is_flag=True, help="Only say how many calls there would be, and what they cost."),
)
