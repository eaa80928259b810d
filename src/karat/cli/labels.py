"""`karat labels`: turn unjudged hits into gold."""

from __future__ import annotations

import importlib

import click

from karat.cli.help import KaratGroup

_STEPS = ("pool", "label", "judge", "clicks", "agree", "calibrate", "merge")


class Steps(KaratGroup):
    """The commands of labelling, in order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_STEPS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _STEPS:
            return None
        found: click.Command = importlib.import_module(f"karat.cli.{name}").command
        return found


@click.command(
    "labels", cls=Steps, short_help="Collect unjudged hits, label them, and merge the labels into the gold set."
)
def command() -> None:
    """Label hits that the gold set does not judge.

    \b
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl -o pool.jsonl
    karat labels label pool.jsonl -o ann.jsonl --annotator ann
    karat labels judge pool.jsonl --model gpt-4.1-mini -o judge.jsonl
    karat labels clicks log.jsonl --gold gold.jsonl -o clicks.jsonl
    karat labels agree ann.jsonl ben.jsonl -o human.jsonl
    karat labels merge human.jsonl --gold gold.jsonl -o gold_v2.jsonl --version v2
    """
