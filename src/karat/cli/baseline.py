"""`karat baseline`: score simple systems on a corpus."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import (
    Count,
    chunk_options,
    json_option,
    metric_option,
    named_options,
    options_of,
    query_options,
    report_output,
    statistics_options,
)
from karat.scoring.options import Options


@click.command("baseline", cls=KaratCommand, short_help="Score random, BM25, dense and hybrid, and compare your run.")
@click.option("--corpus", required=True, help="Corpus: JSONL, a BEIR folder, or a folder of text or Markdown files.")
@click.option(
    "--queries", "--gold", "-g", "-q", "gold", required=True, help="Gold set: a file in any format, or a BEIR folder."
)
@click.option(
    "--run", "-r", "runs", multiple=True, metavar="RUN", help="Run to compare with the baselines; repeat for more."
)
@metric_option
@click.option(
    "--retriever",
    "baselines",
    multiple=True,
    metavar="RETRIEVER",
    help="Baseline to run; repeat for more.  [default: random, bm25:title, bm25, dense, hybrid]",
)
@click.option("--depth", type=Count(1), default=50, show_default=True, help="Hits per query of a baseline.")
@click.option("--keep", metavar="FOLDER", help="Save the run logs of the baselines here.")
@options_of(Options, "missing", "doc_of", "scores", "normalize_ids")
@chunk_options
@statistics_options
@json_option
@report_output
@query_options
def command(
    corpus: str,
    gold: str,
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    baselines: tuple[str, ...],
    depth: int,
    keep: str | None,
    tokens: int | None,
    overlap: int | None,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Run simple systems over a corpus, score them, and rank them from random to the best.

    The first metric sets the order. Runs given with --run are ranked among them.

    \b
    karat baseline --corpus corpus.jsonl --queries gold.jsonl
    karat baseline --corpus corpus.jsonl --queries gold.jsonl --run run.jsonl -m ndcg@10
    """
    from pathlib import Path

    from karat.cli.scoring import check_outputs, evaluation_options, mapped_fields, read_chunks, show
    from karat.files.progress import counting
    from karat.report.systems import ladder_report
    from karat.systems.ladder import BASELINES, METRICS, baseline_ladder

    check_outputs(outputs, corpus, gold, *runs)
    if keep is not None:
        Path(keep).mkdir(parents=True, exist_ok=True)
    given = named_options(options)
    used = evaluation_options(given)
    given |= {name: used[name] for name in ("scores", "normalize_ids")}
    fields = mapped_fields(given.pop("columns", None))
    chunks = read_chunks(corpus, tokens, overlap, fields)
    found = baseline_ladder(
        chunks,
        gold,
        runs=runs,
        metrics=metrics or METRICS,
        baselines=baselines or BASELINES,
        k=depth,
        keep=keep,
        progress=counting,
        **given,
        columns=fields,
    )
    show([found], ladder_report, as_json, outputs)
