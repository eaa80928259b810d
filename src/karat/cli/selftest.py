"""`karat gate selftest`: how often gates fail by chance."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import gate_options, named_options, options_of, ranking_options, report_options
from karat.scoring.options import Options


@click.command("selftest", cls=KaratCommand, short_help="Measure how often gates fail although nothing changed.")
@gate_options
@click.option("--rounds", type=int, default=200, show_default=True, help="Number of resamples of the queries.")
@ranking_options
@options_of(Options, "method", "level", "seed", "cluster")
@report_options
def command(
    run: str,
    gold: str | None,
    criteria: str | None,
    gates: tuple[str, ...],
    baseline: str | None,
    rounds: int,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Resample the queries of RUN, change nothing else, and count how often each gate fails.

    \b
    karat gate selftest run.jsonl --gold gold.jsonl --criteria ship-criteria.yaml
    karat gate selftest run.jsonl --gold gold.jsonl --gate 'recall@5 drop <= 0.02' --baseline old.jsonl
    """
    from karat.cli.scoring import check_outputs, show, sides_of
    from karat.files.progress import working
    from karat.gates.gate import asked_for
    from karat.gates.selftest import selftest
    from karat.history.location import named
    from karat.report.gate import selftest_report

    seed, options = options["seed"], named_options(options)
    check_outputs(outputs, run, gold, baseline, options=options)
    asked = asked_for(criteria, gates)
    result, before = sides_of(run, gold, asked, named(baseline), options)
    with working(f"drawing {rounds} rounds"):
        found = selftest(result, asked, before, rounds, seed)
    show([found], selftest_report, as_json, outputs)
