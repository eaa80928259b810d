"""`karat stress`: test rankings with hard negatives."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import NeedsGold, named_options, options_of, report_options, run_and_gold, statistics_options
from karat.scoring.options import Options


@click.command("stress", cls=NeedsGold, short_help="Test how rankings react to hard negatives at the top.")
@run_and_gold
@click.option("--negatives", metavar="FILE", help="Negatives of each query.  [default: from the gold set]")
@click.option("--sample", "queries", type=int, default=100, show_default=True, help="Number of random queries.")
@click.option("--at", default="1,2,3", show_default=True, help="Ranks for the negatives, separated by commas.")
@click.option(
    "--reranker",
    metavar="RERANKER",
    help="Rerank the raw lists, with and without negatives: module:callable, URL of a service, or static.",
)
@click.option("--corpus", help="Corpus file or BEIR folder with the texts of hits and negatives.")
@options_of(Options, "k", default=5, help="Cutoff of nDCG.")
@options_of(Options, "doc_of", "scores")
@statistics_options
@report_options
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
    """Insert hard negatives into the lists of RUN, at each rank and at all ranks, and show how much nDCG drops.

    A reranker is the same as for `karat run rerank`: a callable (query, texts) → scores, or (query, hits) → scores,
    ids in their new order or (id, score) pairs; the URL of a service; or `static`.

    \b
    karat stress run.jsonl --gold gold.jsonl
    karat stress run.jsonl --gold gold.jsonl --corpus corpus.jsonl --reranker my_app:score
    karat stress run.jsonl --gold gold.jsonl --negatives negatives.jsonl --at 1,5 --sample 50
    """
    from karat.cli.scoring import check_outputs, mapped_fields, meaning_of_scores, show, whole_numbers
    from karat.files.progress import working
    from karat.formats.read import read_gold, read_run
    from karat.report.systems import stress_report
    from karat.systems.stress.stress import stress_test

    check_outputs(outputs, run, gold, negatives, corpus)
    given = named_options(options)
    asked = Options(**given | {"columns": mapped_fields(given.get("columns"))})
    with working(f"stressing {run}"):
        logged, judged = read_run(run, **asked.of_run), read_gold(gold, **asked.of_gold)
        if asked.columns is not None:
            asked.columns.refuse_unused()
        found = stress_test(
            logged,
            judged,
            negatives=negatives,
            at=whole_numbers(at, "--at", "rank", "1,2,3"),
            queries=queries,
            reranker=reranker,
            corpus=corpus,
            k=k,
            hits=given.get("hits"),
            doc_of=asked.doc_of,
            scores=meaning_of_scores(asked.scores),
            cluster=asked.cluster,
            sampling=asked.intervals,
        )
    show([found], stress_report, as_json, outputs)
