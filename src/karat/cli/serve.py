"""`karat serve`: serve the history in the browser and as an API."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import grade_option, store_option
from karat.cli.say import say
from karat.cli.send import open_sinks
from karat.cli.trust import listed_retrievers, require_trusted
from karat.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.systems.live import LiveRetrievers
    from karat.web.access import Role

_NAME = re.compile(r"\w[\w.-]{0,39}")


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
    "--desk",
    "desk_folder",
    metavar="FOLDER",
    help="Folder for pools, labels and queries made in the browser.  [default: desk in the folder of the history]",
)
@click.option(
    "--retriever",
    "retrievers",
    multiple=True,
    metavar="NAME=SPEC",
    help="Retriever to try in the browser, as in `karat run`; repeat.",
)
@click.option("--corpus", help="Corpus that these retrievers search.")
@click.option(
    "--timeout",
    type=float,
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds per question to these retrievers.",
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
    desk_folder: str | None,
    retrievers: tuple[str, ...],
    corpus: str | None,
    timeout: float,
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
    karat serve --retriever bm25=bm25 --retriever new=new.yaml --corpus corpus.jsonl
    karat serve --store postgresql://… --host 0.0.0.0 --allow-host karat.example.org --users users.txt
    """
    from karat.history.location import desk_of
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
        live = _live(retrievers, corpus, timeout)
        at = None if demo else desk_folder or desk_of(store)
        desk = opened.enter_context(open_desk(pools, output, judges, highest=max_grade, folder=at))
        socket = opened.enter_context(listen(host, port, access))
        if demo:
            from karat.demo.helpdesk import write_demo_pool
            from karat.demo.history import demo_store

            history, folder = opened.enter_context(demo_store())
            if not pools:
                pool, output = write_demo_pool(folder)
                own = desk_folder or folder / "desk"
                desk = opened.enter_context(open_desk([pool], output, judges, highest=max_grade, folder=own))
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
        server = made_server(
            history, access, desk, workers=workers, prefix=prefix, live=live
        )  # loads while the processes do
        workers.wait()
        name = f"[{host}]" if ":" in host else host
        say(f"serving {history.label} at http://{name}:{socket.getsockname()[1]}{prefix}/ (stop with Ctrl-C)")
        if not history.runs(limit=1).rows:
            say("the history is empty: save a run with `karat eval … --save`", err=True)
        daily.start()
        serve(server, socket)


def _live(given: Sequence[str], corpus: str | None, timeout: float) -> LiveRetrievers | None:
    """The retrievers to try in the browser, with their corpus indexed; None if there are none."""
    if not given:
        if corpus is not None:
            raise click.UsageError("--corpus needs --retriever NAME=SPEC.")
        return None
    from karat.cli.scoring import read_chunks
    from karat.files.progress import working
    from karat.systems.live import LiveRetrievers

    listed, specs = listed_retrievers(), dict[str, Any]()
    for one in given:
        name, equals, spec = one.partition("=")
        if not equals or not _NAME.fullmatch(name) or not spec:
            hint = "NAME has letters, digits and . _ -, such as: --retriever new=new.yaml"
            raise ConfigError("invalid --retriever", code="bad-setting", expected="NAME=SPEC", got=one, hint=hint)
        if name in specs:
            raise ConfigError(f"two retrievers are called {name}", code="duplicate-value", hint="rename one of them")
        specs[name] = listed.get(spec, spec)
    require_trusted({spec: listed[spec] for spec in (one.partition("=")[2] for one in given) if spec in listed})
    with working("reading"):
        searched = None if corpus is None else read_chunks(corpus, None, None, None)
    live = LiveRetrievers(specs, searched, timeout=timeout)
    with working("indexing"):
        live.index()
    return live
