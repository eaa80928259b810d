"""`karat serve`: serve the history in the browser and as an API."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import grade_option, store_option
from karat.cli.say import say
from karat.cli.send import open_sinks

if TYPE_CHECKING:
    from karat.web.access import Role


@click.command("serve", cls=KaratCommand, short_help="Serve the history in the browser and as an API.")
@store_option
@click.option("--demo", is_flag=True, help="Serve a temporary example history; yours is not used.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; a public one needs a token or users.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--token-file", metavar="FILE", help="File with the token for scripts.  [default: KARAT_TOKEN]")
@click.option(
    "--metrics-token-file",
    metavar="FILE",
    help="File with a token that opens only /metrics.  [default: KARAT_METRICS_TOKEN]",
)
@click.option("--users", metavar="FILE", help="File of users, written by `karat serve users`.")
@click.option("--path-prefix", default="", metavar="PATH", help="Path of the server behind a proxy, such as /karat.")
@click.option("--user-header", metavar="NAME", help="Header in which a proxy names the user, such as X-Forwarded-User.")
@click.option(
    "--proxy", "proxies", multiple=True, metavar="ADDRESS", help="Address of that proxy, or a network; repeat."
)
@click.option(
    "--proxy-role",
    type=click.Choice(["viewer", "labeller", "editor", "admin"]),
    default="labeller",
    show_default=True,
    help="Role of users that the proxy names and that are not in the file of users.",
)
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="Host name of the server; repeat.")
@click.option("--pool", "pools", multiple=True, metavar="POOL", help="Pool to label in the browser; repeat for more.")
@click.option("--output", "-o", metavar="FILE", help="File for labels, JSONL; an existing file is continued.")
@click.option(
    "--labels", "judges", multiple=True, metavar="FILE", help="Labels from a judge, shown after labelling; repeat."
)
@click.option(
    "--alert", "alerts", multiple=True, metavar="PLACE", help="Send alerts to slack, teams or webhook; repeat."
)
@click.option(
    "--alert-on",
    "kinds",
    multiple=True,
    type=click.Choice(["gate", "drop"]),
    help="Reason for an alert: a failed gate, or a drop beyond noise; repeat.  [default: both]",
)
@click.option(
    "--alert-branch",
    "branches",
    multiple=True,
    metavar="NAME",
    help="Branch to watch; repeat.  [default: the main branch]",
)
@click.option("--public-url", metavar="URL", help="Address of the dashboard for links in alerts.")
@grade_option
def command(
    store: str | None,
    demo: bool,
    host: str,
    port: int,
    token_file: str | None,
    metrics_token_file: str | None,
    users: str | None,
    path_prefix: str,
    user_header: str | None,
    proxies: tuple[str, ...],
    proxy_role: Role,
    names: tuple[str, ...],
    pools: tuple[str, ...],
    output: str | None,
    judges: tuple[str, ...],
    alerts: tuple[str, ...],
    kinds: tuple[Any, ...],
    branches: tuple[str, ...],
    public_url: str | None,
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
    from karat.web.server import listen, made_server, require_server, serve

    if demo and store:
        raise click.UsageError("--demo has its own history: leave --store out.")
    require_server()
    from karat.web.daily import Daily
    from karat.web.page_workers import PageWorkers
    from karat.web.proxy import checked_prefix, read_proxy

    prefix = checked_prefix(path_prefix)
    token = read_token(token_file, os.environ.get("KARAT_TOKEN"))
    scraper = read_token(metrics_token_file, os.environ.get("KARAT_METRICS_TOKEN"))
    known = {} if users is None else read_users(users)
    access = Access(frozenset({*LOOPBACK, host.lower(), *(name.lower() for name in names)}), token, known, scraper)
    access.proxy, access.proxy_role = read_proxy(user_header, proxies), proxy_role
    sinks = open_sinks(alerts)  # wrong settings show early
    access.upgraded = None if users is None else partial(rewrite_user, users)
    with ExitStack() as opened:
        # What can fail comes first: reading pools, listening on the address.
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
        if sinks:
            from karat.web.alerts import Watch, made_alerts

            wanted = made_alerts(sinks, kinds, branches, public_url)
            watch = opened.enter_context(closing(Watch(history, wanted, lambda text: say(text, err=True))))
            watch.start()
        daily = opened.enter_context(closing(Daily(history)))
        workers = opened.enter_context(closing(PageWorkers(history)))
        workers.start()
        server = made_server(history, access, desk, workers=workers, prefix=prefix)  # loads while the processes do
        workers.wait()
        name = f"[{host}]" if ":" in host else host
        say(f"serving {history.label} at http://{name}:{socket.getsockname()[1]}{prefix}/ (stop with Ctrl-C)")
        if not history.runs(limit=1).rows:
            say("the history is empty: save a run with `karat eval … --save`", err=True)
        daily.start()
        serve(server, socket)
