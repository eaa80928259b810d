"""`karat check schema`: print the JSON Schema of a file format."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand
from karat.cli.say import say_data
from karat.schemas import NAMES


@click.command("schema", cls=KaratCommand, short_help="Print the JSON Schema of a file that Karat reads or writes.")
@click.argument("name", type=click.Choice(NAMES))
def command(name: str) -> None:
    """Print the JSON Schema of NAME."""
    from karat.schemas import schema_text

    say_data(schema_text(name))
