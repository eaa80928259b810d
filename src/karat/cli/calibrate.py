"""`karat calibrate`: what the labels of a judge are worth."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import grade_option, json_option, options_of, report_output
from karat.cli.say import say
from karat.scoring.options import Options
from karat.statistics.sampling import Sampling


@click.command("calibrate", short_help="Hold a judge's labels against people's, and correct what they say.")
@click.option("--judge", required=True, metavar="FILE", help="Labels of a judge, JSONL.")
@click.option("--human", required=True, metavar="FILE", help="Labels of people for some of the same pairs, JSONL.")
@click.option("--gold", "-g", help="Gold set, for segments and runs.")
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Also by system, with corrected precision@k; repeat.")
@click.option(
    "--pool", metavar="POOL", help="The pool that was labelled: refuses labels of other pairs, knows systems."
)
@options_of(Options, "segments", help="Also by language, topic …; repeat.")
@options_of(Options, "k", default=5, help="Hits of each run to look at.")
@click.option(
    "--rel", type=click.FloatRange(0, min_open=True), help="Lowest grade that is relevant.  [default: above 0]"
)
@click.option(
    "--width", type=float, default=0.1, show_default=True, help="Wanted width of the interval, to plan labels."
)
@click.option("--next", "next_pool", metavar="FILE", help="Write the pairs to label next as a pool.")
@grade_option
@options_of(Options, "level", "seed", "doc_of")
@json_option
@report_output
def command(
    judge: str,
    human: str,
    gold: str | None,
    runs: tuple[str, ...],
    pool: str | None,
    next_pool: str | None,
    max_grade: int,
    level: float,
    seed: int,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Say how often a judge is right, by labels of people for some of its pairs, and correct what its labels say.

    \b
    karat calibrate --judge judge.jsonl --human human.jsonl
    karat calibrate --judge judge.jsonl --human human.jsonl --gold gold.jsonl --run run.jsonl --segment language
    karat calibrate --judge judge.jsonl --human human.jsonl --next pool.jsonl -o calibration.json
    """
    from karat.cli.scoring import check_outputs, show
    from karat.files.atomic_write import check_writable
    from karat.files.progress import working
    from karat.labels.calibration import calibrate, pool_of
    from karat.labels.files import write_pairs
    from karat.report.labels import calibration_report
    from karat.results.numbers import counted

    inputs = (judge, human, gold, pool, *runs)
    check_outputs(outputs, *inputs)
    if next_pool is not None:
        check_writable(next_pool, inputs)
    options |= {"sampling": Sampling(level=level, seed=seed), "highest": max_grade}
    with working("calibrating"):
        found = calibrate(judge, human, gold=gold, runs=runs, pool=pool, **options)
    show([found], calibration_report, as_json, outputs)
    if next_pool is not None and found.next:
        write_pairs(next_pool, pool_of(found, pool))
        say(f"wrote {next_pool}: {counted(len(found.next), 'pair')}", err=True)
    elif next_pool is not None:
        say(f"nothing more to label: {next_pool} was not written", err=True)
