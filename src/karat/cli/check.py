"""`karat check`: look at files without scoring them."""

from __future__ import annotations

import click

from karat.cli.options import options_of
from karat.scoring.options import Options


@click.command("check", short_help="Look at files without scoring them.")
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@options_of(Options, "target")
def command(files: tuple[str, ...], as_json: bool, target: str | None) -> None:
    """Read FILES (runs, gold sets, in any format), say what they hold and what would be repaired.

    With one gold set and any number of runs, the runs are also matched against it. Nothing is scored.
    Exit code 2 when a file cannot be used.
    """
    from karat.report.check import checked_report
    from karat.results.check import check_files

    found = check_files(list(files), target)
    if as_json:
        from karat.cli.scoring import print_json

        print_json(found)
    else:
        from karat.report.renderers.terminal import print_report, terminal_console

        print_report(checked_report(found), terminal_console())
    if any(f.error for f in found):
        raise SystemExit(2)
