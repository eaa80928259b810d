"""`karat compare`: is one run better than another."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import (
    json_option,
    metric_option,
    reading_options,
    report_output,
    scoring_options,
    segment_option,
    statistics_options,
)


@click.command("compare", short_help="Is one run better than another, by how much, how sure, where.")
@click.argument("runs", nargs=-1, required=True)
@click.option("--gold", "-g", help="Gold set; not needed when all RUNS are results saved by `karat eval`.")
@metric_option
@segment_option
@click.option("--changes", type=click.IntRange(min=0), default=5, show_default=True, help="Changed queries to show.")
@click.option("--force", is_flag=True, help="Compare although dataset version or definitions differ.")
@scoring_options
@statistics_options
@json_option
@report_output
@reading_options
def command(
    runs: tuple[str, ...],
    gold: str | None,
    metrics: tuple[str, ...],
    segments: tuple[str, ...],
    changes: int,
    force: bool,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare RUNS query by query; the first is the baseline of all others.

    RUNS are run files (also one that holds several systems) or results saved with `karat eval … -o result.json`.

    \b
    karat compare old.jsonl new.jsonl --gold gold.jsonl
    karat compare old.jsonl new.jsonl --gold gold.jsonl --segment language
    karat compare before.json after.json
    """
    from karat.cli.scoring import check_outputs, show
    from karat.comparison.compare import compare_results
    from karat.report.comparison import comparison_report
    from karat.statistics.intervals import Sampling

    check_outputs(outputs, (*runs, gold, options["corpus"]))
    sampling = Sampling(options["method"], options["level"], options["resamples"], options["seed"])
    sides = [result for run in runs for result in _results(run, gold, metrics, options)]
    found = compare_results(sides, segments=segments, sampling=sampling, force=force, changes=changes)
    show([found], [comparison_report(found)], as_json, outputs)


def _results(run: str, gold: str | None, metrics: tuple[str, ...], options: dict[str, Any]) -> list[Any]:
    from pathlib import Path

    from karat.cli.scoring import score_files
    from karat.comparison.sides import as_results
    from karat.result import is_saved_result

    if gold is None or is_saved_result(Path(run)):
        return as_results(run, gold, metrics or None, {"cluster": options["cluster"]})
    return score_files(run, gold, metrics, **options)
