"""`karat compare`: compare runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from karat.cli.help import KaratCommand
from karat.cli.live import ask_live, live_options, take_live
from karat.cli.options import (
    Count,
    metric_option,
    named_options,
    options_of,
    ranking_options,
    report_options,
    statistics_options,
)
from karat.labels.options import LabelOptions
from karat.scoring.options import Options, named_sampling
from karat.statistics.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.options.keywords import EvaluateKeywords
    from karat.report.blocks import Report
    from karat.results.analyses.base import Consumer
    from karat.results.comparison.compare import Comparison
    from karat.results.result import Result
    from karat.scoring.metrics.base import Metric


@click.command(
    "compare", cls=KaratCommand, short_help="Compare runs: which is better, by how much, how certain, and where."
)
@click.argument("runs", nargs=-1, required=True)
@click.option("--gold", "-g", help="Gold set; without it, lists and times of runs are compared.")
@metric_option
@options_of(Options, "segments")
@click.option(
    "--drift",
    "drifts",
    multiple=True,
    metavar="NAME",
    help="The runs are two periods with different queries: what changed through the mix of language, topic …, and what "
    "within each.",
)
@click.option("--changes", type=Count(0), default=5, show_default=True, help="Number of changed queries to show.")
@options_of(LabelOptions, "bounds", "labels", "gold_labels", "max_grade", "gold_scale")
@click.option("--force", is_flag=True, help="Compare even if dataset version, labels, definitions or settings differ.")
@ranking_options
@statistics_options
@live_options
@report_options
def command(
    runs: tuple[str, ...],
    gold: str | None,
    metrics: tuple[str, ...],
    segments: tuple[str, ...],
    drifts: tuple[str, ...],
    changes: int,
    bounds: bool,
    labels: tuple[str, ...],
    force: bool,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare RUNS query by query; the first is the baseline for all others.

    RUNS are run files (one file may have several systems), results saved with `karat eval … -o result.json`, or
    runs from the history: history:ID, or the name of a pin. With --live, RUNS are retrievers as in `karat run`: each
    query is sent to one after the other, and then their answers are compared. Without gold, it shows errors, times
    and how many lists differ.

    \b
    karat compare old.jsonl new.jsonl --gold gold.jsonl
    karat compare old.jsonl new.jsonl --gold gold.jsonl --segment language
    karat compare old.jsonl new.jsonl --gold gold.jsonl --labels judge.jsonl --bounds
    karat compare old.jsonl new.jsonl   # without labels: do they return the same lists?
    karat compare before.json after.json
    karat compare main history:latest
    karat compare may.jsonl june.jsonl --gold gold.jsonl --drift topic
    karat compare --live old.yaml new.yaml --queries gold.jsonl
    """
    from karat.cli.scoring import check_outputs, load_numpy, show

    load_numpy()
    from karat.errors import ConfigError
    from karat.history.location import named
    from karat.report.comparison import comparison_report
    from karat.report.sections.audit import with_audits
    from karat.results.comparison.compare import compare_need, compare_results
    from karat.results.comparison.overlap import split_overlap
    from karat.results.comparison.sides import compared_audits
    from karat.results.queries.changed import changes_need

    live = take_live(options)
    options = named_options(options) | {"labels": labels}
    if drifts:
        _refuse_with_drift({"--segment": segments, "--bounds": bounds, "--live": live["live"]})
        _show_drift(runs, gold, metrics, drifts, force, as_json, outputs, options)
        return
    sides_given: list[Any] = list(runs)
    if live["live"]:
        check_outputs(outputs, gold, live["queries"], options=options)
        asked = ask_live(runs, gold, live, options)
        sides_given, gold = asked.runs, asked.gold
    else:
        sides_given = [named(run) or run for run in runs]
        check_outputs(outputs, *sides_given, gold, options=options)
    sampling = named_sampling(options, Sampling())
    overlap, wanted = split_overlap(metrics or None, options.get("reference"))
    consumers: list[Consumer] = [compare_need(bounds=bounds, overlap=overlap)]
    if texts := any(output.endswith(".html") for output in outputs):
        consumers.append(changes_need)
    sides = _sides(sides_given, gold, wanted, options, consumers, texts=texts)
    given = "--labels" if labels else "--gold-labels"
    if (labels or options.get("gold_labels")) and not all(side.labelling.prepare for side in sides):
        raise ConfigError(
            f"{given} needs the run files: a saved result has no hits",
            code="no-hits-kept",
            hint="give the run files",
        )
    compared = partial(
        compare_results, sides, sampling=sampling, force=force, changes=changes, bounds=bounds, overlap=overlap
    )
    found = compared(segments=segments)

    def page() -> Report:
        shown = found if segments else compared(segments=sides[0].telling_tags())
        return with_audits(comparison_report(shown, sides), sides, compared_audits(sides))

    def report(one: Comparison) -> Report:
        return with_audits(comparison_report(one), sides, compared_audits(sides))

    show([found], report, as_json, outputs, page, sides)
    if any(pair.invalid for pair in found.pairs):
        raise SystemExit(2)


def _sides(
    runs: Sequence[str],
    gold: str | None,
    metrics: Sequence[Metric] | None,
    options: dict[str, Any],
    consumers: Sequence[Consumer],
    *,
    texts: bool,
) -> list[Result]:
    """Score the runs. Without a gold set, they share a gold set without labels."""
    from karat.cli.scoring import evaluation_options, gold_once, load_numpy, results_of

    load_numpy()
    from karat.results.comparison.unlabelled import unlabelled

    asked: EvaluateKeywords = evaluation_options(options)  # type: ignore[assignment]
    if gold is None and (found := unlabelled(runs, metrics, asked, texts=texts)) is not None:
        given, judged = found
    else:
        given, judged = list(runs), gold_once(gold, options)
    return [result for run in given for result in results_of(run, judged, metrics, options, consumers=consumers)]


def _refuse_with_drift(given: Mapping[str, Any]) -> None:
    from karat.errors import ConfigError

    for name in (name for name, value in given.items() if value):
        hint = "--drift language×topic uses both" if name == "--segment" else f"leave out {name}"
        raise ConfigError(f"--drift and {name} cannot be combined", code="contradiction", hint=hint)


def _show_drift(
    runs: Sequence[str],
    gold: str | None,
    metrics: Sequence[str],
    drifts: Sequence[str],
    force: bool,
    as_json: bool,
    outputs: Sequence[str],
    options: dict[str, Any],
) -> None:
    """Compare two periods. Without a gold set, each run is measured on its own queries."""
    from karat.cli.scoring import check_outputs, show
    from karat.history.location import named
    from karat.report.drift import drift_report
    from karat.report.sections.audit import with_audits
    from karat.results.comparison.drift import as_periods, drift_between
    from karat.scoring.metrics.grammar import parse_metrics

    given = [named(run) or run for run in runs]
    check_outputs(outputs, *given, gold, options=options)
    asked = parse_metrics(metrics) if metrics else None
    whole = [given] if gold is not None else [[run] for run in given]
    sides = [side for some in whole for side in _sides(some, gold, asked, options, [], texts=False)]
    found = drift_between(sides, drifts, sampling=named_sampling(options, Sampling()), force=force)
    periods = as_periods(sides)
    show(found, lambda one: with_audits(drift_report(one), periods), as_json, outputs, None, periods)
    if any(one.invalid for one in found):
        raise SystemExit(2)
