"""`karat eval sweep`: recall and nDCG by depth."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import NeedsGold, named_options, options_of, report_options, run_and_gold, statistics_options
from karat.scoring.options import Options


@click.command(
    "sweep", cls=NeedsGold, short_help="Show recall and nDCG over k, the knee, and the possible gain of a reranker."
)
@run_and_gold
@click.option("--ks", default="1,3,5,10,20", show_default=True, help="Values of k, separated by commas.")
@options_of(
    Options,
    "segments",
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
    "corpus",
)
@statistics_options
@report_options
def command(run: str, gold: str, ks: str, as_json: bool, outputs: tuple[str, ...], **options: Any) -> None:
    """Show how recall and nDCG of RUN grow with k, where they stop growing, and where the rest is lost.

    \b
    karat eval sweep run.jsonl --gold gold.jsonl
    karat eval sweep run.jsonl --gold gold.jsonl --ks 1,5,10,50 --segment language
    """
    from karat.cli.scoring import check_outputs, score_files, show, whole_numbers
    from karat.report.sections.audit import with_audits
    from karat.report.sweep import sweep_report
    from karat.results.sweep import checked_depths

    depths = checked_depths(whole_numbers(ks, "--ks", "number", "1,3,5,10,20"))
    options = named_options(options)
    check_outputs(outputs, run, gold, options=options)
    results = score_files(run, gold, ["recall@5"], options)
    sweeps = [result.sweep(depths) for result in results]
    audited = {id(sweep): [result] for sweep, result in zip(sweeps, results, strict=True)}
    show(sweeps, lambda sweep: with_audits(sweep_report(sweep), audited[id(sweep)]), as_json, outputs, audited=results)
