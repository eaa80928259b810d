"""`karat serve users`: manage the users of `karat serve`."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand
from karat.cli.say import say


@click.command("users", cls=KaratCommand, short_help="Add a user to the file that `karat serve --users` reads.")
@click.argument("file")
@click.argument("name")
def command(file: str, name: str) -> None:
    """Add NAME to FILE, or change its password. The password is prompted for, or read from standard input."""
    import sys
    from pathlib import Path

    from karat.files.atomic_write import write_whole
    from karat.web.access import PRIVATE, user_line

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    path = Path(file)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if line.partition(":")[0] != name]
    write_whole(path, "".join(f"{line}\n" for line in (*kept, user_line(name, password))).encode(), mode=PRIVATE)
    say(f"wrote {file}: {name}", err=True)
