"""`karat history`: past runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import click

from karat.cli import history_order, push
from karat.cli.help import KaratGroup
from karat.cli.options import all_of, json_option, output_option, report_output, store_option
from karat.cli.say import say, say_text

if TYPE_CHECKING:
    from karat.history.rows import Filter
    from karat.history.store import Store

filter_options: Final = all_of(
    click.option("--system", help="Only this system."),
    click.option("--branch", help="Only this branch."),
    click.option("--tag", help="Only this tag."),
    click.option("--dataset", help="Only this dataset."),
    click.option("--author", help="Only runs of this author."),
    click.option("--since", metavar="TIME", help="Only runs saved at or after this time, such as 2025-06-01."),
    click.option("--until", metavar="TIME", help="Only runs saved before this time, such as 2025-07-01."),
)


@click.group("history", cls=KaratGroup, short_help="List, show, tag, pin, export, import and push past runs.")
def command() -> None:
    """Past runs, saved by `karat eval --save` and `karat gate --save`.

    Name a run by its id or the start of it, a tag (its newest run), a pin, or `latest`. Other commands accept
    history:NAME wherever they accept a saved result. --baseline and --anchor also accept the name of a pin.

    \b
    karat history list --branch main
    karat history pin latest main
    karat gate run.jsonl --gold gold.jsonl --baseline main
    karat history show latest -o report.html
    """


@command.command("list", short_help="List runs, newest first.")
@filter_options
@click.option("-n", "limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Number of runs.")
@click.option("--after", metavar="PLACE", help="Continue where an earlier list ended.")
@store_option
@json_option
@report_output
def list_runs(
    limit: int, after: str | None, store: str | None, as_json: bool, outputs: tuple[str, ...], **only: str | None
) -> None:
    """List runs with their main metrics, newest first."""
    from karat.cli.scoring import check_outputs, show
    from karat.history.report import list_report

    check_outputs(outputs)
    with _open(store) as opened:
        page = opened.runs(_filter(**only), limit=limit, after=after)
        total = opened.count()
    show([page], partial(list_report, total=total), as_json, outputs)


@command.command("show", short_help="Show one run as `karat eval` does.")
@click.argument("run")
@output_option("Write files as in `karat eval`: report.html, out.json …")
@store_option
@json_option
def show_run(run: str, outputs: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Show RUN, and write its report.

    \b
    karat history show latest
    karat history show 3f9a1c -o report.html -o result.json
    """
    from karat.cli.scoring import command_line, print_json, print_reports
    from karat.history.keep import restored
    from karat.history.report import origin_section
    from karat.report.build import evaluation_report
    from karat.report.export import check_target, export, to_json

    for output in outputs:
        check_target(output)
    with _open(store) as opened:
        run_id = opened.find(run)
        row, kept = opened.row(run_id), opened.kept(run_id)
    result = restored(kept)
    if as_json:
        print_json(to_json([result]))
    else:
        report = evaluation_report(result)
        print_reports([type(report)(report.title, [origin_section(row), *report.sections])])
    for output in outputs:
        say(f"wrote {export([result], output, command_line())}", err=True)


@command.command("trend", short_help="Show one metric over time.")
@click.argument("metric")
@click.option("--where", "segment", metavar="NAME=VALUE", help="Only these queries, such as language=de.")
@filter_options
@click.option("-n", "limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="Number of runs.")
@store_option
@json_option
@report_output
def trend(
    metric: str,
    segment: str | None,
    limit: int,
    store: str | None,
    as_json: bool,
    outputs: tuple[str, ...],
    **only: str | None,
) -> None:
    """Show METRIC over time with its intervals, oldest first.

    \b
    karat history trend recall@5 --branch main
    karat history trend recall@5 --where language=de
    """
    from karat.cli.scoring import check_outputs, show
    from karat.history.report import trend_report
    from karat.scoring.metrics.grammar import parse_metric

    name, equals, value = (segment or "=").partition("=")
    if not equals:
        raise click.BadParameter(f"{segment!r} does not have the form NAME=VALUE", param_hint="--where")
    asked = str(parse_metric(metric))
    check_outputs(outputs)
    with _open(store) as opened:
        points = opened.trend(asked, _filter(**only), segment=(name, value), limit=limit)
    show([points], partial(trend_report, asked, segment), as_json, outputs)


@command.command("tag", short_help="Add tags to a run.")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True)
@store_option
def tag(run: str, tags: tuple[str, ...], store: str | None) -> None:
    """Add TAGS to RUN."""
    with _open(store) as opened:
        run_id = opened.find(run)
        opened.tag(run_id, tags)
    _say(run_id, f"tagged {', '.join(tags)}")


@command.command("untag", short_help="Remove tags from a run.")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True)
@store_option
def untag(run: str, tags: tuple[str, ...], store: str | None) -> None:
    """Remove TAGS from RUN."""
    with _open(store) as opened:
        run_id = opened.find(run)
        opened.untag(run_id, tags)
    _say(run_id, f"removed {'tag' if len(tags) == 1 else 'tags'} {', '.join(tags)}")


@command.command("pin", short_help="Pin a run to a name, as baseline or anchor.")
@click.argument("run")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["baseline", "anchor"]),
    default="baseline",
    show_default=True,
    help="A baseline moves with the branch. An anchor stays, such as the last release.",
)
@store_option
def pin(run: str, name: str, kind: Literal["baseline", "anchor"], store: str | None) -> None:
    """Pin RUN as NAME. An existing pin moves.

    \b
    karat history pin latest main
    karat history pin 3f9a1c release --kind anchor
    """
    from karat.history.store import short

    with _open(store) as opened:
        run_id = opened.find(run)
        before = opened.pin(run_id, name, kind)
    moved = f" (was {short(before.run_id)})" if before is not None and before.run_id != run_id else ""
    _say(run_id, f"pinned as {kind} {name}{moved}")


@command.command("unpin", short_help="Remove a pin; the run stays.")
@click.argument("name")
@store_option
def unpin(name: str, store: str | None) -> None:
    """Remove the pin NAME; the run stays."""
    with _open(store) as opened:
        opened.unpin(name)
    say(f"removed pin {name}")


@command.command("pins", short_help="List baselines and anchors.")
@store_option
@json_option
@report_output
def pins(store: str | None, as_json: bool, outputs: tuple[str, ...]) -> None:
    """List baselines and anchors."""
    from karat.cli.scoring import check_outputs, show
    from karat.history.report import pins_report

    check_outputs(outputs)
    with _open(store) as opened:
        found = opened.pins()
        rows = {pin.run_id: opened.row(pin.run_id) for pin in found}
    show([found], partial(pins_report, rows=rows), as_json, outputs)


@command.command("delete", short_help="Delete runs; they can be restored for 30 days.")
@click.argument("runs", nargs=-1, required=True)
@store_option
def delete(runs: tuple[str, ...], store: str | None) -> None:
    """Delete RUNS. `karat history restore` brings them back within 30 days. Pinned runs cannot be deleted."""
    from karat.history.store import short

    with _open(store) as opened:
        for run_id in dict.fromkeys([opened.find(run) for run in runs]):
            opened.delete(run_id)
            _say(run_id, f"deleted (undo: karat history restore {short(run_id)})")


@command.command("export", short_help="Write runs to one file.")
@click.argument("runs", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All runs.")
@click.option("--output", "-o", required=True, metavar="FILE", help="File to write, such as runs.zip.")
@store_option
def export_command(runs: tuple[str, ...], everything: bool, output: str, store: str | None) -> None:
    """Write RUNS with their tags to one file, for `karat history import`."""
    from karat.files.atomic_write import check_writable, write_whole
    from karat.history.archive import pack

    if bool(runs) == everything:
        raise click.UsageError("give either RUNS or --all")
    check_writable(output)
    with _open(store) as opened:
        ids = opened.ids() if everything else [opened.find(run) for run in runs]
        write_whole(output, pack(opened, list(dict.fromkeys(ids))))
    say(f"wrote {output}: {_count(len(ids))}", err=True)


@command.command("import", short_help="Import runs from files.")
@click.argument("files", nargs=-1, required=True)
@store_option
def import_command(files: tuple[str, ...], store: str | None) -> None:
    """Import runs from FILES written by `karat history export`, or from the Parquet files of a history folder.

    A file with anything damaged or changed is not imported at all.
    """
    from pathlib import Path

    from karat.history.archive import import_runs

    with _open(store, create=True) as opened:
        for file in files:
            saved = import_runs(opened, Path(file), file)
            new = [run.id for run in saved if run.new]
            opened.log_import(new, len(saved))
            say(f"{file}: {_count(len(saved))}, {len(new)} new")


@command.command("check", short_help="Check that all runs are intact.")
@store_option
@json_option
def check(store: str | None, as_json: bool) -> None:
    """Read every run and check it against its id. The exit code is 2 if one is missing or changed."""
    from karat.cli.scoring import print_json
    from karat.errors import KaratError
    from karat.files.progress import working
    from karat.history.hits import check_hits
    from karat.history.store import short

    broken: dict[str, str] = {}
    with _open(store) as opened, working("reading all runs"):
        ids = opened.ids()
        for run_id in ids:
            try:
                if opened.kept(run_id).id != run_id:
                    broken[run_id] = "the content has changed since it was saved"
                with opened.transaction() as connection:
                    check_hits(connection, run_id)
            except KaratError as error:
                broken[run_id] = str(error)
        left = opened.clean()
    if as_json:
        print_json({"runs": len(ids), "broken": broken, "leftovers": left})
    else:
        for run_id, problem in broken.items():
            say_text(f"{short(run_id)}: {problem}")
        say(
            f"{_count(len(ids))}, {len(broken)} broken"
            + (f"; removed {left} unfinished {'file' if left == 1 else 'files'}" if left else "")
        )
    if broken:
        raise SystemExit(2)


def _open(place: str | None, *, create: bool = False) -> Store:
    from karat.history.location import open_store

    return open_store(place, create=create)


def _filter(since: str | None, until: str | None, **only: str | None) -> Filter:
    from karat.history.rows import Filter, utc

    return Filter(since=utc(since, "--since"), until=utc(until, "--until"), **only)


def _say(run_id: str, done: str) -> None:
    from karat.history.store import short

    say(f"{short(run_id)}: {done}")


def _count(runs: int) -> str:
    return f"{runs:,} {'run' if runs == 1 else 'runs'}"


command.add_command(push.command)
history_order.add_to(command)
