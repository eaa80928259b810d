"""`karat check`: check files without scoring them."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import named_options, options_of, report_output
from karat.scoring.options import Options


@click.command("check", cls=KaratCommand, short_help="Check files without scoring them.")
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--gold", metavar="FILE", help="Gold set; FILES are then runs.")
@report_output
@options_of(Options, "scores", "normalize_ids", "columns", "target")
def command(
    files: tuple[str, ...],
    as_json: bool,
    gold: str | None,
    outputs: tuple[str, ...],
    target: str | None,
    **options: Any,
) -> None:
    """Read FILES (runs, gold sets or corpora, in any format) and show what they contain and what would be repaired.

    With one gold set and any number of runs, the runs are also matched against it. Nothing is scored.
    The exit code is 2 if a file cannot be used.
    """
    from karat.cli.scoring import check_outputs, evaluation_options, show
    from karat.report.catalogue import checked_report
    from karat.results.check import check_files
    from karat.scoring.judged import Rules

    check_outputs(outputs, *files, *([gold] if gold else []))
    asked = evaluation_options(named_options(options))
    fields, rules = asked["columns"], Rules(scores=asked["scores"], normalize_ids=asked["normalize_ids"])
    found = check_files(list(files), target, fields, gold, rules)
    show([found], checked_report, as_json, outputs)
    if any(f.error for f in found):
        raise SystemExit(2)
    if fields is not None:
        fields.refuse_unused(files)
