"""`karat labels calibrate`: compare a judge's labels with people's."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import Count, grade_option, json_option, options_of, report_output
from karat.cli.say import say
from karat.scoring.options import Options
from karat.statistics.sampling import Sampling


@click.command("calibrate", cls=KaratCommand, short_help="Compare a judge's labels with people's and correct scores.")
@click.option("--labels", "judge", required=True, metavar="FILE", help="Labels from a judge, JSONL.")
@click.option("--human", required=True, metavar="FILE", help="Labels from people for some of the same pairs, JSONL.")
@click.option("--gold", "-g", help="Gold set, for segments and runs.")
@click.option(
    "--run", "runs", multiple=True, metavar="RUN", help="Also show this run with corrected precision@k; repeat."
)
@click.option(
    "--pool", metavar="POOL", help="Labelled pool, which names the systems. Labels of other pairs are errors."
)
@options_of(Options, "segments", help="Also show by language, topic …; repeat.")
@click.option("--depth", "k", type=Count(1), default=5, show_default=True, help="Hits of each run to include.")
@click.option("--rel", type=click.FloatRange(0, min_open=True), help="Lowest relevant grade.  [default: above 0]")
@click.option("--width", type=float, default=0.1, show_default=True, help="Target interval width, to plan labels.")
@click.option("--next", "next_pool", metavar="FILE", help="File for a pool of the pairs to label next.")
@grade_option
@options_of(Options, "level", "seed", "doc_of", "scores")
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
    """Measure how often a judge agrees with people on the same pairs, and correct the scores from its labels.

    \b
    karat labels calibrate --labels judge.jsonl --human human.jsonl
    karat labels calibrate --labels judge.jsonl --human human.jsonl --gold gold.jsonl --run run.jsonl --segment language
    karat labels calibrate --labels judge.jsonl --human human.jsonl --next pool.jsonl -o calibration.json
    """
    from karat.cli.scoring import check_outputs, meaning_of_scores, show
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
    options["scores"] = meaning_of_scores(options["scores"])
    with working("calibrating"):
        found = calibrate(judge, human, gold=gold, runs=runs, pool=pool, **options)
    show([found], calibration_report, as_json, outputs)
    if next_pool is not None and found.next:
        write_pairs(next_pool, pool_of(found, pool))
        say(f"wrote {next_pool}: {counted(len(found.next), 'pair')}", err=True)
    elif next_pool is not None:
        say(f"nothing more to label: {next_pool} was not written", err=True)
