"""`karat eval`: score a run against a gold set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from karat.cli.options import (
    NeedsGold,
    input_files,
    metric_option,
    named_options,
    options_of,
    reading_options,
    save_options,
    statistics_options,
)
from karat.labels.options import LabelOptions
from karat.scoring.options import Options

if TYPE_CHECKING:
    from karat.results.analyses.base import Consumer


@click.command("eval", cls=NeedsGold, short_help="Score a run against a gold set.")
@click.argument("run")
@click.option("--gold", "-g", required=True, help="Gold set: a file in any format, or a BEIR folder.")
@metric_option
@click.option("--by-document", is_flag=True, help="Also ask for the right documents, whatever the chunk.")
@click.option("--criteria", "-c", metavar="FILE", help="Also measure what these gates ask of a baseline.")
@options_of(Options, "segments", "k", "missing", "min_score", "doc_of", "no_future", "top_k", "prices", "no_answer")
@options_of(Options, "fuzzy_threshold", "corpus", "corpus_size")
@options_of(LabelOptions, "bounds", "labels", "calibration", "pool", "max_grade")
@options_of(Options, "bm25", "raw", "original", "routes", "target_false_evidence")
@statistics_options
@click.option("--brief", is_flag=True, help="Print only the scores and what stands out; files hold everything.")
@click.option("--json", "as_json", is_flag=True, help="Print the saved form of the result instead of tables.")
@click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write report.html, out.json, out.md, scores.parquet, out.csv; summary=out.csv, segments=out.csv and "
    "audit=out.md name one table.",
)
@save_options
@reading_options
@options_of(Options, "engine", "spark_master", "run_columns")
def command(
    run: str,
    gold: str,
    metrics: tuple[str, ...],
    by_document: bool,
    criteria: str | None,
    brief: bool,
    as_json: bool,
    outputs: tuple[str, ...],
    save: bool | None,
    tags: tuple[str, ...],
    **options: Any,
) -> None:
    """Score RUN against a gold set: the panel with intervals, what it could reach, segments, worst queries, audit.

    RUN and the gold set may be JSONL, JSON, YAML, TREC, CSV, TSV, Parquet or a BEIR folder, also .gz and .zst. RUN may
    also be a folder of Parquet files, a pattern such as 'runs/*.parquet', or a Delta table.

    \b
    karat eval run.jsonl --gold gold.jsonl
    karat eval run.jsonl --gold gold.jsonl --segment language --segment language,topic
    karat eval run.trec --gold qrels.txt -m 'ndcg(gain=linear)@10' -m map
    karat eval run.jsonl --gold gold.jsonl --labels judge.jsonl --calibration human.jsonl --bounds
    karat eval run.jsonl --gold gold.yaml -o report.html -o result.json -o scores.parquet
    karat eval run.jsonl --gold gold.jsonl --save
    karat eval 's3a://bucket/runs/*.parquet' --gold gold.jsonl --engine spark --spark-master spark://host:7077
    """
    from karat.cli.scoring import command_line, open_for_saving, print_json, score_files
    from karat.report.export import check_target, export, to_json

    options = named_options(options)
    for output in outputs:
        check_target(output, inputs=[run, gold, *input_files(options, Options, LabelOptions)])
    keeper = open_for_saving(save, tags)
    asked: Sequence[str] = metrics if criteria is None else _with_gates(metrics, criteria)
    consumers = _consumers(outputs, as_json=as_json, keep=keeper is not None)
    wanted = _with_documents(asked) if by_document else asked
    results = score_files(run, gold, wanted, options, analyses=True, consumers=consumers)
    if as_json:
        print_json(to_json(results))
    else:
        from karat.report.build import brief_report, evaluation_report
        from karat.report.renderers.terminal import print_report, terminal_console

        console = terminal_console()
        for i, result in enumerate(results):
            if i:
                console.print()
            print_report(brief_report(result) if brief else evaluation_report(result), console)
    for output in outputs:
        click.echo(f"wrote {export(results, output, command_line())}", err=True)
    if keeper is not None:
        for result in results:
            keeper.keep(result)


def _consumers(outputs: Sequence[str], *, as_json: bool, keep: bool) -> list[Consumer]:
    """What the files that are written need of the run."""
    found: list[Consumer] = []
    if any(output.endswith(".html") for output in outputs):
        from karat.results.queries.triage import triage_need

        found.append(triage_need)
    if as_json or any(output.endswith((".json", ".parquet")) for output in outputs):
        from karat.results.save import save_need

        found.append(save_need)
    if keep:
        from karat.history.keep import keep_need

        found.append(keep_need)
    return found


def _with_gates(metrics: Sequence[str], criteria: str) -> list[str]:
    from pathlib import Path

    from karat.gates.criteria import read_criteria
    from karat.gates.gate import gate_metrics
    from karat.results.evaluate import PANEL

    return [*(metrics or PANEL), *gate_metrics(read_criteria(Path(criteria)))]


def _with_documents(metrics: Sequence[str]) -> list[str]:
    from karat.results.evaluate import PANEL
    from karat.scoring.metrics.base import Relevance
    from karat.scoring.metrics.grammar import parse_metrics

    asked = parse_metrics(metrics or PANEL)
    return list(map(str, [*asked, *(m.by_document for m in asked if isinstance(m, Relevance))]))
