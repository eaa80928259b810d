"""`karat stress`: does the order withstand hard negatives."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import (
    NeedsGold,
    json_option,
    named_options,
    options_of,
    reading_options,
    report_output,
    statistics_options,
)
from karat.scoring.options import Options


@click.command("stress", cls=NeedsGold, short_help="Does the order withstand hard negatives at the top.")
@click.argument("run")
@click.option("--gold", "-g", required=True, help="Gold set: a file in any format, or a BEIR folder.")
@click.option("--negatives", metavar="FILE", help="Negatives of each query.  [default: those of the gold set]")
@click.option("--queries", type=int, default=100, show_default=True, help="How many queries, drawn by the seed.")
@click.option("--at", default="1,2,3", show_default=True, help="The ranks, with commas between them.")
@click.option("--reranker", metavar="MODULE:CALLABLE", help="Reranks the raw lists, with and without negatives.")
@click.option("--corpus", help="Corpus file or BEIR folder: lends texts to hits and negatives.")
@options_of(Options, "k", default=5, help="Cutoff of nDCG.")
@options_of(Options, "doc_of")
@statistics_options
@json_option
@report_output
@reading_options
def command(
    run: str,
    gold: str,
    negatives: str | None,
    queries: int,
    at: str,
    reranker: str | None,
    corpus: str | None,
    k: int,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Put hard negatives into the lists of RUN, at each rank and at all together, and show what nDCG loses.

    A reranker is a Python callable that takes the text of a query and its hits (dicts with chunk_id, rank, score, text)
    and gives the ids in their new order, (id, score) pairs, or a score for each hit.

    \b
    karat stress run.jsonl --gold gold.jsonl
    karat stress run.jsonl --gold gold.jsonl --corpus corpus.jsonl --reranker mine:rerank
    karat stress run.jsonl --gold gold.jsonl --negatives negatives.jsonl --at 1,5 --queries 50
    """
    from karat.cli.scoring import check_outputs, show
    from karat.files.progress import working
    from karat.formats.read import read_gold, read_run
    from karat.report.systems import stress_report
    from karat.systems.stress.stress import stress

    check_outputs(outputs, (run, gold, negatives, corpus))
    given = named_options(options)
    asked = Options(**given)
    with working(f"stressing {run}"):
        found = stress(
            read_run(run, **asked.of_run),
            read_gold(gold, **asked.of_gold),
            negatives=negatives,
            at=_ranks(at),
            queries=queries,
            reranker=reranker,
            corpus=corpus,
            k=k,
            hits=given.get("hits"),
            doc_of=asked.doc_of,
            cluster=asked.cluster,
            sampling=asked.intervals,
        )
    show([found], [stress_report(found)], as_json, outputs)


def _ranks(text: str) -> list[int]:
    from karat.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError("--at holds something that is no rank", expected="such as 1,2,3", got=text) from None
