"""`karat serve users`: manage the users of `karat serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from karat.cli.help import KaratCommand
from karat.cli.say import say

if TYPE_CHECKING:
    from karat.web.access import Role


@click.command("users", cls=KaratCommand, short_help="Add a user to the file that `karat serve --users` reads.")
@click.argument("file")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["viewer", "labeller", "editor", "admin"]),
    help="What the user may do.  [default: labeller for a new user, otherwise unchanged]",
)
def command(file: str, name: str, role: Role | None) -> None:
    """Add NAME to FILE, or change its password. The password is prompted for, or read from standard input.

    A viewer reads. A labeller also labels. An editor also pins, tags, renames, deletes and restores runs. An admin also
    reads the audit log and sets how long runs are kept. A running server reads the file when it starts.

    \b
    karat serve users users.txt ada --role admin
    """
    import sys
    from pathlib import Path

    from karat.files.atomic_write import write_whole
    from karat.web.access import PRIVATE, parse_user, user_line

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    path = Path(file)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if line.partition(":")[0] != name]
    known = dict(found for line in lines if (found := parse_user(line)) is not None)
    role = role or (known[name].role if name in known else "labeller")
    line = user_line(name, password, role=role)
    write_whole(path, "".join(f"{line}\n" for line in (*kept, line)).encode(), mode=PRIVATE)
    say(f"wrote {file}: {name}, {role}", err=True)
