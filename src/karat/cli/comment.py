"""`karat gate comment`: comment on the pull request."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from karat.cli.help import KaratCommand
from karat.cli.options import F
from karat.cli.say import say, say_text


def _seconds(flag: str, default: int, limits: click.IntRange, about: str) -> Callable[[F], F]:
    return click.option(flag, metavar="SECONDS", type=limits, default=default, show_default=True, help=about)


@click.command("comment", cls=KaratCommand, short_help="Create or update a comment on a GitHub or GitLab pull request.")
@click.argument("file")
@click.option("--name", default="karat", show_default=True, help="Name of the comment; each name has its own comment.")
@click.option(
    "--service",
    "host",
    type=click.Choice(["github", "gitlab"]),
    help="Service of the pull request.  [default: from the environment]",
)
@click.option(
    "--pull-request",
    "number",
    metavar="N",
    type=click.IntRange(min=1, max=999_999_999),
    help="Number of the pull or merge request.  [default: from the environment]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done without sending anything.")
@_seconds("--patience", 90, click.IntRange(0, 3600), "Time to keep retrying while the service is busy or down.")
@_seconds("--timeout", 20, click.IntRange(1, 600), "Time to wait for one response.")
def command(
    file: str, name: str, host: str | None, number: int | None, dry_run: bool, patience: int, timeout: int
) -> None:
    """Post the Markdown in FILE (- for standard input) as a comment, or update the existing one.

    \b
    karat gate comment comment.md                 # GITHUB_TOKEN on GitHub, GITLAB_TOKEN on GitLab
    karat gate comment comment.md --name german   # second gate with its own comment

    If the token may not comment, the text goes to the job summary (GitHub) or log (GitLab). This is not an error.
    """
    from msgspec.structs import replace

    from karat.net.hosts.comments import PATIENCE, find_host, plan, post, read_body

    body = read_body(file)
    found = find_host(os.environ, host, number, dry_run)
    if dry_run:
        say_text(plan(found, name, body))
        return
    outcome = post(found, name, body, replace(PATIENCE, limit=patience), timeout)
    if outcome.warning:
        say(outcome.warning, err=True, label="warning: ", fg="yellow", bold=True)
    say_text(outcome.text or outcome.done)
