"""`karat eval triage`: show failed queries."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import Count, NeedsGold, named_options, options_of, report_options, run_and_gold
from karat.scoring.options import Options


@click.command("triage", cls=NeedsGold, short_help="Show the queries that failed, one by one.")
@run_and_gold
@click.option("-n", "most", type=Count(1), default=20, show_default=True, help="Number of queries.")
@click.option("--explain", is_flag=True, help="Show each query with its gold, its hits and the results of BM25.")
@options_of(
    Options,
    "k",
    "missing",
    "min_score",
    "scores",
    "ties",
    "score_width",
    "doc_of",
    "normalize_ids",
    "no_future",
    "top_k",
    "corpus",
)
@report_options
def command(
    run: str, gold: str, most: int, explain: bool, as_json: bool, outputs: tuple[str, ...], **options: Any
) -> None:
    """Show the queries with nothing relevant in the first ten hits, then those with the largest losses.

    --explain shows each with its gold, its hits (hit, miss or unjudged) and, if a corpus is given, the results of BM25.
    Files (-o) and one or two queries (-n 2) always have all of that.

    \b
    karat eval triage run.jsonl --gold gold.jsonl
    karat eval triage run.jsonl --gold gold.jsonl --corpus corpus.jsonl -n 5 --explain
    karat eval triage run.jsonl --gold gold.jsonl --corpus corpus.jsonl -o triage.html
    """
    from karat.cli.scoring import check_outputs, score_files, show
    from karat.report.triage import short_triage_report, triage_report
    from karat.results.queries.triage import LOSS, MISSED, triage, triage_need

    options = named_options(options)
    check_outputs(outputs, run, gold, options=options)
    results = score_files(run, gold, [MISSED, LOSS], options, consumers=[triage_need])
    found = [triage(result, most) for result in results]
    show(found, triage_report, as_json, outputs, printed=None if explain else short_triage_report)
