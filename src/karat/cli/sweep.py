"""`karat sweep`: how deep should we look."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import (
    NeedsGold,
    input_files,
    json_option,
    named_options,
    options_of,
    reading_options,
    report_output,
    statistics_options,
)
from karat.scoring.options import Options


@click.command("sweep", cls=NeedsGold, short_help="Recall and nDCG over k, the knee, and what a reranker could win.")
@click.argument("run")
@click.option("--gold", "-g", required=True, help="Gold set: a file in any format, or a BEIR folder.")
@click.option("--ks", default="1,3,5,10,20", show_default=True, help="The depths, with commas between them.")
@options_of(Options, "segments", "missing", "min_score", "doc_of", "no_future", "top_k", "no_answer", "corpus")
@statistics_options
@json_option
@report_output
@reading_options
def command(run: str, gold: str, ks: str, as_json: bool, outputs: tuple[str, ...], **options: Any) -> None:
    """Show how recall and nDCG of RUN grow with k, where they stop growing, and where the rest was lost.

    \b
    karat sweep run.jsonl --gold gold.jsonl
    karat sweep run.jsonl --gold gold.jsonl --ks 1,5,10,50 --segment language
    """
    from karat.cli.scoring import check_outputs, score_files, show
    from karat.report.sweep import sweep_report

    depths = _depths(ks)
    options = named_options(options)
    check_outputs(outputs, (run, gold, *input_files(options, Options)))
    sweeps = [result.sweep(depths) for result in score_files(run, gold, ["recall@5"], options)]
    show(sweeps, [sweep_report(s) for s in sweeps], as_json, outputs)


def _depths(text: str) -> list[int]:
    from karat.errors import ConfigError
    from karat.results.sweep import checked_depths

    try:
        return checked_depths(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError("--ks holds something that is no number", expected="such as 1,3,5,10,20", got=text) from None
