"""`--trust-config`: an option of `karat` and of every command that can open a history."""

from __future__ import annotations

from typing import Final

import click


def _trust(_: click.Context, __: click.Parameter, asked: bool) -> None:
    if asked:
        from karat.settings import trust_config

        trust_config()


trust_option: Final = click.option(
    "--trust-config",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Let karat.yaml name servers, code and outside folders, also in CI.",
)
