"""`karat serve`: the history in the browser, and as an API."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial

import click

from karat.cli.help import KaratCommand
from karat.cli.options import grade_option, store_option
from karat.cli.say import say


@click.command("serve", cls=KaratCommand, short_help="The history in the browser, and as an API.")
@store_option
@click.option("--demo", is_flag=True, help="A history to look at, which is gone afterwards; yours is not touched.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; others need a token or users.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any that is free.")
@click.option("--token-file", metavar="FILE", help="Token that scripts must send.  [default: KARAT_TOKEN]")
@click.option("--users", metavar="FILE", help="Who may log in; `karat serve users` writes it.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="Name under which it is asked for; repeat.")
@click.option("--pool", "pools", multiple=True, metavar="POOL", help="Pool to label in the browser; repeat for more.")
@click.option("--output", "-o", metavar="FILE", help="Where labels go, JSONL; continued if it is there.")
@click.option(
    "--labels", "judges", multiple=True, metavar="FILE", help="Labels of a judge, shown after one's own; repeat."
)
@grade_option
def command(
    store: str | None,
    demo: bool,
    host: str,
    port: int,
    token_file: str | None,
    users: str | None,
    names: tuple[str, ...],
    pools: tuple[str, ...],
    output: str | None,
    judges: tuple[str, ...],
    max_grade: int,
) -> None:
    """Serve the history, and pools to label, until Ctrl-C.

    \b
    karat serve
    karat serve --demo
    karat serve --pool pool.jsonl -o labels.jsonl --labels judge.jsonl
    karat serve --store postgresql://… --host 0.0.0.0 --allow-host karat.example.org --users users.txt
    """
    from karat.labels.desk import open_desk
    from karat.web.access import LOOPBACK, Access, read_token, read_users, rewrite_user
    from karat.web.server import listen, require_server, serve

    if demo and store:
        raise click.UsageError("--demo has a history of its own: leave --store out.")
    require_server()
    token = read_token(token_file, os.environ.get("KARAT_TOKEN"))
    known = {} if users is None else read_users(users)
    access = Access(frozenset({*LOOPBACK, host.lower(), *(name.lower() for name in names)}), token, known)
    access.upgraded = None if users is None else partial(rewrite_user, users)
    with ExitStack() as opened:
        # What may be refused comes first: a pool that cannot be read, an address that is taken.
        desk = opened.enter_context(open_desk(pools, output, judges, highest=max_grade))
        socket = opened.enter_context(listen(host, port, access))
        if demo:
            from karat.demo.helpdesk import write_demo_pool
            from karat.demo.history import demo_store

            history, folder = opened.enter_context(demo_store())
            if not pools:
                pool, output = write_demo_pool(folder)
                desk = opened.enter_context(open_desk([pool], output, judges, highest=max_grade))
        else:
            from karat.history.location import open_store

            history = opened.enter_context(open_store(store, create=True))
        name = f"[{host}]" if ":" in host else host
        say(f"{history.label} is served at http://{name}:{socket.getsockname()[1]}/ — Ctrl-C ends it")
        if not history.runs(limit=1).rows:
            say("it is empty: `karat eval … --save` keeps a run in it", err=True)
        serve(history, access, socket, desk)
