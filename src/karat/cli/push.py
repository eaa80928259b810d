"""`karat history push`: send runs to a server."""

from __future__ import annotations

import os

import click

from karat.cli.help import KaratCommand
from karat.cli.options import store_option
from karat.cli.say import say


@click.command("push", cls=KaratCommand, short_help="Send runs to a `karat serve` server.")
@click.argument("url")
@click.argument("runs", nargs=-1)
@click.option("--token-file", metavar="FILE", help="Token of the server.  [default: KARAT_TOKEN]")
@click.option("--timeout", type=click.IntRange(1, 3600), default=60, show_default=True, help="Seconds to wait.")
@store_option
def command(url: str, runs: tuple[str, ...], token_file: str | None, timeout: int, store: str | None) -> None:
    """Send RUNS of the local history (default: the latest) to the server at URL.

    Runs that the server already has are not changed.

    \b
    karat eval run.jsonl --gold gold.jsonl --save
    karat history push https://karat.example.org   # KARAT_TOKEN in the environment
    """
    from karat.files.progress import working
    from karat.history.archive import pack, push
    from karat.history.location import open_store
    from karat.history.store import short
    from karat.web.access import read_token

    token = read_token(token_file, os.environ.get("KARAT_TOKEN"))
    with open_store(store) as opened:
        ids = list(dict.fromkeys(opened.find(run) for run in runs or ("latest",)))
        content = pack(opened, ids)
    with working(f"sending to {url}"):
        sent = push(url, content, token, timeout)
    for run_id, new in sent:
        say(f"{short(run_id)}: {'sent' if new else 'already there'}")
