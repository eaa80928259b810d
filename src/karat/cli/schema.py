"""`karat schema`: the JSON Schema of a file that Karat reads or writes."""

from __future__ import annotations

import click

# The same as karat.schemas.NAMES, which would load msgspec for a mere --help; a test holds the two together.
_NAMES = (
    "comparison",
    "corpus",
    "gates",
    "gold",
    "plan",
    "prices",
    "result",
    "run-log",
    "selftest",
    "ship-criteria",
    "sweep",
)


@click.command("schema", short_help="Print the JSON Schema of a file that Karat reads or writes.")
@click.argument("name", type=click.Choice(_NAMES))
def command(name: str) -> None:
    """Print the JSON Schema of NAME, as it ships in the package."""
    from karat.schemas import schema_text

    click.echo(schema_text(name), nl=False)
