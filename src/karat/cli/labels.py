"""`karat labels`: from what runs found to gold that people and models agree on."""

from __future__ import annotations

import importlib

import click

_STEPS = ("pool", "label", "judge", "agree", "calibrate", "merge")


class Steps(click.Group):
    """The commands of a labelling, in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_STEPS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _STEPS:
            return None
        found: click.Command = importlib.import_module(f"karat.cli.{name}").command
        return found


@click.command("labels", cls=Steps, short_help="Pool what runs found, label it, judge it, settle it, make it gold.")
def command() -> None:
    """Labels for what the gold set does not know.

    \b
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl -o pool.jsonl
    karat labels label pool.jsonl -o ann.jsonl --annotator ann
    karat labels judge pool.jsonl --model gpt-4.1-mini -o judge.jsonl
    karat labels agree ann.jsonl ben.jsonl -o human.jsonl
    karat labels merge human.jsonl --gold gold.jsonl -o gold_v2.jsonl --version v2
    """
