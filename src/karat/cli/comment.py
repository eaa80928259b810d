"""`karat gate comment`: say it on the pull request."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from karat.cli.help import KaratCommand
from karat.cli.options import F
from karat.cli.say import say, say_text


def _seconds(flag: str, default: int, limits: click.IntRange, about: str) -> Callable[[F], F]:
    return click.option(flag, metavar="SECONDS", type=limits, default=default, show_default=True, help=about)


@click.command(
    "comment", cls=KaratCommand, short_help="Keep one comment on a pull request of GitHub or GitLab up to date."
)
@click.argument("file")
@click.option("--name", default="karat", show_default=True, help="Which comment: each name has one of its own.")
@click.option(
    "--service",
    "host",
    type=click.Choice(["github", "gitlab"]),
    help="Where.  [default: recognised from the environment]",
)
@click.option(
    "--pull-request",
    "number",
    metavar="N",
    type=click.IntRange(min=1, max=999_999_999),
    help="Number of the pull or merge request.  [default: from the environment]",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and send nothing.")
@_seconds("--patience", 90, click.IntRange(0, 3600), "How long to keep trying while the host is busy or down.")
@_seconds("--timeout", 20, click.IntRange(1, 600), "How long to wait for one answer.")
def command(
    file: str, name: str, host: str | None, number: int | None, dry_run: bool, patience: int, timeout: int
) -> None:
    """Write the Markdown of FILE (- for standard input) as a comment, or update the one written before.

    \b
    karat gate comment comment.md                 GITHUB_TOKEN on GitHub, GITLAB_TOKEN on GitLab
    karat gate comment comment.md --name german   a second gate with a comment of its own

    A token that may not comment is no error: the text goes to the job's summary (GitHub) or log (GitLab).
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
