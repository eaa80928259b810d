"""`karat history rename`, `note`, `deleted`, `restore`, `audit`, `retention` and `clean`: order in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from karat.cli.help import KaratCommand
from karat.cli.options import json_option, report_output, store_option
from karat.cli.say import say

if TYPE_CHECKING:
    from karat.history.retention import Cleaned
    from karat.history.store import Store


@click.command("rename", cls=KaratCommand, short_help="Give a run a title.")
@click.argument("run")
@click.argument("title")
@store_option
def rename(run: str, title: str, store: str | None) -> None:
    """Give RUN a TITLE, which lists and pages show. An empty one removes it.

    \b
    karat history rename latest 'Reranker, first try'
    """
    with _open(store) as opened:
        run_id = opened.find(run)
        opened.set_title(run_id, title)
    _say(run_id, "renamed" if title.strip() else "removed the title")


@click.command("note", cls=KaratCommand, short_help="Write a note on a run.")
@click.argument("run")
@click.argument("text")
@store_option
def note(run: str, text: str, store: str | None) -> None:
    """Write a note on RUN. TEXT may have several lines; an empty one removes the note."""
    with _open(store) as opened:
        run_id = opened.find(run)
        opened.set_note(run_id, text)
    _say(run_id, "noted" if text.strip() else "removed the note")


@click.command("deleted", cls=KaratCommand, short_help="List deleted runs that can be restored.")
@click.option("-n", "limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Number of runs.")
@store_option
@json_option
@report_output
def deleted(limit: int, store: str | None, as_json: bool, outputs: tuple[str, ...]) -> None:
    """List deleted runs, the last one first. After 30 days they are removed for good."""
    from karat.cli.scoring import check_outputs, show
    from karat.history.order_report import deleted_report

    check_outputs(outputs)
    with _open(store) as opened:
        found, _ = opened.deleted(limit=limit)
    show([found], deleted_report, as_json, outputs)


@click.command("restore", cls=KaratCommand, short_help="Restore deleted runs.")
@click.argument("runs", nargs=-1, required=True)
@store_option
def restore(runs: tuple[str, ...], store: str | None) -> None:
    """Restore deleted RUNS, by their ids or the start of them, with tags, titles, notes and verdicts.

    \b
    karat history deleted
    karat history restore 3f9a1c
    """
    with _open(store) as opened:
        for run_id in dict.fromkeys([opened.find_deleted(run) for run in runs]):
            opened.restore(run_id)
            _say(run_id, "restored")


@click.command("audit", cls=KaratCommand, short_help="Show who changed what.")
@click.option("--who", help="Only changes by this name, such as ada, token or cli:ada.")
@click.option("--action", help="Only this action, such as delete.")
@click.option("--run", help="Only changes of this run: its id, or the start of it.")
@click.option("-n", "limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Number of changes.")
@click.option("--after", metavar="PLACE", help="Continue where an earlier list ended.")
@store_option
@json_option
@report_output
def audit(
    who: str | None,
    action: str | None,
    run: str | None,
    limit: int,
    after: str | None,
    store: str | None,
    as_json: bool,
    outputs: tuple[str, ...],
) -> None:
    """Show who changed what in the dashboard, in the API and on the command line, newest first.

    \b
    karat history audit
    karat history audit --run 3f9a1c --json
    """
    from karat.cli.scoring import check_outputs, show
    from karat.history.audit import AuditFilter
    from karat.history.order_report import audit_report

    check_outputs(outputs)
    with _open(store) as opened:
        found = opened.audit(AuditFilter(who=who, action=action, run=run), limit=limit, after=after)
    show([found], audit_report, as_json, outputs)


@click.command("retention", cls=KaratCommand, short_help="Show or set how long runs are kept.")
@click.option(
    "--keep-last",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="Keep the last N runs of each dataset, system and branch.",
)
@click.option("--days", type=click.IntRange(1, 36_500), metavar="N", help="Keep runs younger than N days.")
@click.option("--keep-all", is_flag=True, help="Remove the rule.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@store_option
@json_option
def retention(
    keep_last: int | None, days: int | None, keep_all: bool, dry_run: bool, store: str | None, as_json: bool
) -> None:
    """Show or set the rule for old runs. With both numbers, a run is kept if either keeps it.

    Runs with a pin or a tag, and restored runs, are always kept. `karat serve` applies the rule once a day, and
    `karat history clean` at once. What it deletes can be restored for 30 days.

    \b
    karat history retention --keep-last 100 --days 90 --dry-run
    karat history retention --keep-last 100 --days 90
    """
    from karat.cli.scoring import print_json
    from karat.history.retention import RetentionRule, preview, read_rule, save_rule

    given = keep_last is not None or days is not None
    if given and keep_all:
        raise click.UsageError("give either numbers or --keep-all")
    with _open(store) as opened:
        rule = RetentionRule(keep_last=keep_last, days=days) if given or keep_all else read_rule(opened)
        found = preview(opened, rule)
        if (given or keep_all) and not dry_run:
            save_rule(opened, rule)
    if as_json:
        print_json(found)
        return
    saved = "saved: keep" if (given or keep_all) and not dry_run else "keep"
    say(f"{saved} {rule}")
    when = "now" if dry_run or not (given or keep_all) else "at the next clean-up"
    say(f"{'would delete' if when == 'now' else 'deletes'} {found.deletes:,} of {_count(found.runs)} {when}")


@click.command("clean", cls=KaratCommand, short_help="Delete what the retention rule no longer keeps.")
@store_option
@json_option
def clean(store: str | None, as_json: bool) -> None:
    """Clean up, as `karat serve` does once a day: apply the retention rule, remove runs for good that were deleted more
    than 30 days ago, and remove texts that no run refers to, and what killed processes left behind."""
    from karat.cli.scoring import print_json
    from karat.history.retention import clean as clean_up

    with _open(store) as opened:
        done = clean_up(opened)
    if as_json:
        print_json(done)
    else:
        say(_cleaned(done))


def add_to(group: click.Group) -> None:
    for command in (rename, note, deleted, restore, audit, retention, clean):
        group.add_command(command)


def _cleaned(done: Cleaned) -> str:
    texts = f"{done.texts:,} unused {'text' if done.texts == 1 else 'texts'}"
    left = f"{done.leftovers:,} unfinished {'file' if done.leftovers == 1 else 'files'}"
    return f"deleted {_count(done.deleted)} by the rule; removed {_count(done.removed)}, {texts} and {left} for good"


def _open(place: str | None) -> Store:
    from karat.history.location import open_store

    return open_store(place)


def _say(run_id: str, done: str) -> None:
    from karat.history.store import short

    say(f"{short(run_id)}: {done}")


def _count(runs: int) -> str:
    return f"{runs:,} {'run' if runs == 1 else 'runs'}"
