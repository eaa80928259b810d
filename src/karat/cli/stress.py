"""`karat stress`: does the order withstand hard negatives."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import NeedsGold, doc_option, json_option, reading_options, report_output, statistics_options


@click.command("stress", cls=NeedsGold, short_help="Does the order withstand hard negatives at the top.")
@click.argument("run")
@click.option("--gold", "-g", required=True, help="Gold set: a file in any format, or a BEIR folder.")
@click.option("--negatives", metavar="FILE", help="Negatives of each query.  [default: those of the gold set]")
@click.option("--queries", type=int, default=100, show_default=True, help="How many queries, drawn by the seed.")
@click.option("--at", default="1,2,3", show_default=True, help="The ranks, with commas between them.")
@click.option("--reranker", metavar="MODULE:CALLABLE", help="Reranks the raw lists, with and without negatives.")
@click.option("--corpus", help="Corpus file or BEIR folder: lends texts to hits and negatives.")
@click.option("--k", type=int, default=5, show_default=True, help="Cutoff of nDCG.")
@doc_option
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
    doc_of: str,
    cluster: str | None,
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
    from karat.statistics.intervals import Sampling
    from karat.systems.stress.stress import stress

    check_outputs(outputs, (run, gold, negatives, corpus))
    named = click.get_current_context().get_parameter_source("hits") is click.core.ParameterSource.COMMANDLINE
    with working(f"stressing {run}"):
        found = stress(
            read_run(run, format=options["run_format"], system=options["system"], hits=options["hits"]),
            read_gold(gold, format=options["gold_format"], target=options["target"], split=options["split"]),
            negatives=negatives,
            at=_ranks(at),
            queries=queries,
            reranker=reranker,
            corpus=corpus,
            k=k,
            hits=options["hits"] if named else None,
            doc_of=doc_of,
            cluster=cluster,
            sampling=Sampling(options["method"], options["level"], options["resamples"], options["seed"]),
        )
    show([found], [stress_report(found)], as_json, outputs)


def _ranks(text: str) -> list[int]:
    from karat.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError("--at holds something that is no rank", expected="such as 1,2,3", got=text) from None
