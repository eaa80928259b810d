"""`karat eval power`: which differences a gold set can detect."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import PERCENTAGE, metric_option, named_options, options_of, report_options
from karat.scoring.options import Options


@click.command(
    "power",
    cls=KaratCommand,
    short_help="Show which differences a gold set can detect, and how many queries others need.",
)
@click.argument("run")
@click.option("--gold", "-g", help="Gold set; not needed if RUN is a saved result.")
@click.option("--detect", type=PERCENTAGE, default=0.03, show_default=True, help="Difference to detect: 0.03 or 3%.")
@click.option("--against", metavar="RUN", help="Second run, to measure how the scores of two runs vary.")
@click.option("--power", type=PERCENTAGE, default=0.8, show_default=True, help="Probability of detecting it.")
@click.option(
    "--correlation",
    type=float,
    default=0.5,
    show_default=True,
    help="Assumed correlation between two versions, without --against.",
)
@metric_option
@options_of(
    Options,
    "k",
    "missing",
    "min_score",
    "scores",
    "ties",
    "score_width",
    "no_relevant",
    "doc_of",
    "normalize_ids",
    "no_future",
    "top_k",
)
@options_of(Options, "no_answer", "fuzzy_threshold", "corpus", "level", "cluster")
@report_options
def command(
    run: str,
    gold: str | None,
    detect: float,
    against: str | None,
    power: float,
    correlation: float,
    metrics: tuple[str, ...],
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which differences the gold set can detect, given the spread of RUN's scores.

    \b
    karat eval power run.jsonl --gold gold.jsonl --detect 0.03
    karat eval power old.jsonl --against new.jsonl --gold gold.jsonl
    """
    from karat.cli.scoring import check_outputs, results_of, show
    from karat.report.sections.audit import with_audits
    from karat.report.sweep import power_report
    from karat.results.power import plan

    options = named_options(options)
    check_outputs(outputs, run, gold, against, options=options)
    sides = [None] if against is None else results_of(against, gold, metrics, options)[:1]
    results = results_of(run, gold, metrics, options)
    plans = [plan(result, sides[0], detect=detect, power=power, correlation=correlation) for result in results]
    audited = {id(one): [result, *(side for side in sides if side)] for one, result in zip(plans, results, strict=True)}
    every = list({id(side): side for some in audited.values() for side in some}.values())
    show(plans, lambda one: with_audits(power_report(one), audited[id(one)]), as_json, outputs, audited=every)
