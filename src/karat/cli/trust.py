"""`--trust-config`: of every command that may open a history, and before any command."""

from __future__ import annotations

import click


def _trust(_: click.Context, __: click.Parameter, asked: bool) -> None:
    if asked:
        from karat.settings import trust_config

        trust_config()


trust_option = click.option(
    "--trust-config",
    is_flag=True,
    expose_value=False,
    callback=_trust,
    help="Let karat.yaml name servers, code and folders outside of its own, in CI too.",
)
