"""`karat eval`: score a run against a gold set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from karat.cli.options import (
    NeedsGold,
    gold_option,
    input_files,
    metric_option,
    named_options,
    options_of,
    output_option,
    ranking_options,
    reading_options,
    save_options,
    send_option,
    statistics_options,
)
from karat.cli.say import say
from karat.labels.options import LabelOptions
from karat.scoring.options import Options

if TYPE_CHECKING:
    from karat.cli.scoring import Keeper
    from karat.report.blocks import Report
    from karat.results.analyses.base import Consumer
    from karat.results.leaderboard import Leaderboard
    from karat.results.result import Result
    from karat.scoring.metrics.base import Metric
    from karat.sinks.base import Sink


@click.command("eval", cls=NeedsGold, short_help="Score a run, or several, against a gold set.")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@gold_option
@metric_option
@click.option("--by-document", is_flag=True, help="Also score by document, ignoring chunks.")
@click.option("--criteria", "-c", metavar="FILE", help="Also measure the metrics of these gates.")
@options_of(Options, "segments", "like")
@ranking_options
@options_of(Options, "corpus_size")
@options_of(LabelOptions, "bounds", "labels", "gold_labels", "calibration", "borrow", "pool", "max_grade", "gold_scale")
@options_of(Options, "bm25", "raw", "rerank_depth", "original", "routes", "target_false_evidence", "quality", "context")
@statistics_options
@click.option("--brief", is_flag=True, help="Print only scores and notable findings.")
@click.option("--explain", is_flag=True, help="Print every table.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON instead of tables.")
@output_option(
    "Write report.html, out.json, out.md, scores.parquet or out.csv; of several runs, also table.tex. NAME=FILE writes "
    "one table: summary=out.csv, segments=out.csv, audit=out.md, findings=out.csv, latency.stages=out.csv … "
    "Repeat for more."
)
@save_options
@send_option
@reading_options
@options_of(Options, "engine", "spark_master", "run_columns")
def command(
    runs: tuple[str, ...],
    gold: str,
    metrics: tuple[str, ...],
    by_document: bool,
    criteria: str | None,
    brief: bool,
    explain: bool,
    as_json: bool,
    outputs: tuple[str, ...],
    save: bool | None,
    tags: tuple[str, ...],
    places: tuple[str, ...],
    **options: Any,
) -> None:
    """Score RUN against a gold set: metrics with intervals, ceilings, segments, worst queries and an audit.
    Several runs give one table of systems and metrics.

    RUN and the gold set can be JSONL, JSON, YAML, TREC, CSV, TSV, Parquet or a BEIR folder, also as .gz or .zst. RUN
    can also be a folder of Parquet files, a pattern such as 'runs/*.parquet', or a Delta table.

    \b
    karat eval run.jsonl --gold gold.jsonl
    karat eval run.jsonl --gold gold.jsonl --segment language --segment language,topic
    karat eval run.trec --gold qrels.txt -m 'ndcg(gain=linear)@10' -m map
    karat eval run.jsonl --gold gold.jsonl --labels judge.jsonl --calibration human.jsonl --bounds
    karat eval run.jsonl --gold gold.yaml -o report.html -o result.json -o scores.parquet
    karat eval run.jsonl --gold gold.jsonl --save
    karat eval runs/*.jsonl --gold gold.jsonl -m recall@5,ndcg@10,mrr -o table.tex -o table.csv -o table.html
    karat eval 's3a://bucket/runs/*.parquet' --gold gold.jsonl --engine spark --spark-master spark://host:7077
    """
    from karat.cli.scoring import command_line, load_numpy, open_for_saving, print_json, print_reports, score_files
    from karat.cli.send import open_sinks

    load_numpy()
    options = named_options(options)
    sinks = open_sinks(places)
    if len(runs) > 1:
        _many(runs, gold, metrics, options, as_json, brief, outputs, open_for_saving(save, tags), sinks)
        return
    [run] = runs
    if outputs or as_json:  # not needed to print
        from karat.report.export import check_target, export, to_json
    for output in outputs:
        check_target(output, inputs=[run, gold, *input_files(options)])
    keeper = open_for_saving(save, tags)
    asked: Sequence[str | Metric] = metrics if criteria is None else _with_gates(metrics, criteria)
    consumers = _consumers(outputs, as_json=as_json, keep=keeper is not None, sinks=sinks)
    wanted = _with_documents(asked, options) if by_document else asked
    names_commit = bool(outputs or as_json or explain or keeper or sinks)
    results = score_files(run, gold, wanted, options, analyses=True, consumers=consumers, with_commit=names_commit)
    if as_json:
        print_json(to_json(results))
    else:
        from karat.report.build import brief_report, evaluation_report, short_report

        print_reports(map(brief_report if brief else evaluation_report if explain else short_report, results))
    for output in outputs:
        say(f"wrote {export(results, output, command_line())}", err=True)
    if keeper is not None:
        for result in results:
            keeper.keep(result)
    _send(results, sinks)


def _send(results: Sequence[Result], sinks: Sequence[Sink]) -> None:
    if sinks:
        from functools import partial

        from karat.cli.scoring import command_line
        from karat.cli.send import deliver, raise_first
        from karat.files.git import code_branch
        from karat.report.export import to_html
        from karat.sinks.base import Parcel

        pages = [partial(to_html, [result], command_line()) for result in results]
        branch = code_branch()
        parcels = [Parcel(result, page=page, branch=branch) for result, page in zip(results, pages, strict=True)]
        raise_first(deliver(sinks, parcels))


def _many(
    runs: Sequence[str],
    gold: str,
    metrics: Sequence[str],
    options: dict[str, Any],
    as_json: bool,
    brief: bool,
    outputs: Sequence[str],
    keeper: Keeper | None,
    sinks: Sequence[Sink],
) -> None:
    """Score several runs and show them in one table."""
    from functools import partial

    from msgspec.structs import replace

    from karat.cli.scoring import check_outputs, score_files, show
    from karat.files.atomic_write import write_whole
    from karat.formats.read import SharedGold
    from karat.report.leaderboard import board_file, board_json, leaderboard_report
    from karat.report.sections.audit import audit_sections
    from karat.report.tables import table_name
    from karat.results.leaderboard import DEFAULT, rank_systems

    # Without NAME=, such a file holds the table that is shown.
    tables = [o for o in outputs if o.endswith((".tex", ".csv", ".parquet")) and table_name(o) is None]
    saved = [output for output in outputs if output.endswith(".json") and table_name(output) is None]
    others = [output for output in outputs if output not in (*tables, *saved)]
    check_outputs([*saved, *others], gold, *runs, options=options, expected=".html, .json, .md, .csv, .parquet or .tex")
    consumers = _consumers(saved, as_json=False, keep=keeper is not None, sinks=sinks)
    shared = SharedGold(gold)
    scored = (score_files(run, shared, metrics or DEFAULT, options, consumers=consumers) for run in runs)
    results = [result for some in scored for result in some]
    board = rank_systems(results)

    def report(board: Leaderboard, *, brief: bool = False, pictures: bool = False) -> Report:
        shown = leaderboard_report(board, pictures=pictures)
        return replace(shown, sections=[*shown.sections, *audit_sections(results, brief=brief)])

    show(
        [board],
        report,
        as_json,
        others,
        lambda: report(board, pictures=True),
        audited=results,
        printed=partial(report, brief=brief),
    )
    for output in tables:
        write_whole(output, board_file(board, output[output.rindex(".") :]))
        say(f"wrote {output}", err=True)
    for output in saved:
        write_whole(output, board_json(board, results))
        say(f"wrote {output}", err=True)
    if keeper is not None:
        for result in results:
            keeper.keep(result)
    _send(results, sinks)


def _consumers(outputs: Sequence[str], *, as_json: bool, keep: bool, sinks: Sequence[Sink]) -> list[Consumer]:
    """Return what the output files need from the run."""
    found: list[Consumer] = []
    files = any(sink.takes_files for sink in sinks)
    if files or any(output.endswith(".html") for output in outputs):
        from karat.results.queries.triage import triage_need

        found.append(triage_need)
    if files or as_json or any(output.endswith((".json", ".parquet")) for output in outputs):
        from karat.results.save import save_need

        found.append(save_need)
    if keep:
        from karat.history.keep import keep_need

        found.append(keep_need)
    return found


def _with_gates(metrics: Sequence[str], criteria: str) -> list[str | Metric]:
    from pathlib import Path

    from karat.gates.criteria import read_criteria
    from karat.gates.gate import gate_metrics
    from karat.results.pipeline import PANEL

    return [*(metrics or PANEL), *gate_metrics(read_criteria(Path(criteria)))]


def _with_documents(metrics: Sequence[str | Metric], options: Mapping[str, Any]) -> list[Metric]:
    from karat.results.pipeline import PANEL
    from karat.scoring.metrics.base import Relevance
    from karat.scoring.peers import metrics_like

    asked = metrics_like(options.get("like"), metrics or None, PANEL, options.get("k"))
    return [*asked, *(m.by_document for m in asked if isinstance(m, Relevance))]
