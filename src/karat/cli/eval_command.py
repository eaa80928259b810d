"""`karat eval`: score a run against a gold set."""

from __future__ import annotations

import click

from karat.cli.options import NeedsGold, reading_options


@click.command("eval", cls=NeedsGold, short_help="Score a run against a gold set.")
@click.argument("run")
@click.option("--gold", "-g", required=True, help="Gold set: a file in any format, or a BEIR folder.")
@click.option(
    "--metric",
    "-m",
    "metrics",
    multiple=True,
    help="Metric such as recall@5; repeat for more. `karat metrics` lists them.",
)
@click.option(
    "--k",
    type=click.IntRange(min=1),
    help="Cutoff for metrics that name none.  [default: karat.yaml, else 5]",
)
@click.option(
    "--missing",
    type=click.Choice(["worst", "skip"]),
    default="worst",
    show_default=True,
    help="Queries of the gold set that the run lacks.",
)
@click.option("--min-score", type=float, help="Cut hits with a lower score before evaluation.")
@click.option(
    "--doc-of",
    default="#",
    show_default=True,
    help="What parts a chunk id from its document: a separator, or a regular expression with a group.",
)
@click.option("--corpus", help="Corpus file or BEIR folder: its size gives the random floor.")
@click.option("--corpus-size", type=click.IntRange(min=1), help="Number of items in the corpus, for the random floor.")
@click.option("--json", "as_json", is_flag=True, help="Print the saved form of the result instead of tables.")
@click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    help="Also write out.json, out.md, scores.parquet, out.csv; summary=out.csv and audit=out.md name one table.",
)
@reading_options
def command(
    run: str,
    gold: str,
    metrics: tuple[str, ...],
    k: int | None,
    missing: str,
    min_score: float | None,
    doc_of: str,
    corpus: str | None,
    corpus_size: int | None,
    as_json: bool,
    outputs: tuple[str, ...],
    run_format: str | None,
    gold_format: str | None,
    target: str | None,
    split: str,
    system: str | None,
) -> None:
    """Score RUN against a gold set and print the panel, what it could reach, the audit and the worst queries.

    RUN and the gold set may be JSONL, JSON, YAML, TREC, CSV, TSV, Parquet or a BEIR folder, also .gz and .zst.

    \b
    karat eval run.jsonl --gold gold.jsonl
    karat eval run.trec --gold qrels.txt -m 'ndcg(gain=linear)@10' -m map
    karat eval run.jsonl --gold gold.yaml -o result.json -o scores.parquet
    """
    from karat.config import load_config
    from karat.evaluation import evaluate_all
    from karat.export import check_target, export, to_json
    from karat.formats.corpus import read_corpus
    from karat.formats.read import read_gold, read_run
    from karat.metrics.grammar import REGISTRY
    from karat.progress import working
    from karat.provenance import code_version

    for output in outputs:
        check_target(output, inputs=[path for path in (run, gold, corpus) if path])
    REGISTRY.refuse_clashes()
    if corpus is not None and corpus_size is None:
        corpus_size = len(read_corpus(corpus))
    with working(f"scoring {run}"):
        results = list(
            evaluate_all(
                read_run(run, format=run_format, system=system),
                read_gold(gold, format=gold_format, target=target, split=split),
                metrics or None,
                k=k or load_config().metrics.retrieval.default_k,
                missing=missing,  # type: ignore[arg-type]
                min_score=min_score,
                doc_of=doc_of,
                corpus_size=corpus_size,
            ).values()
        )
    version = code_version()
    for result in results:
        if version:
            result.provenance["code_version"] = version
    if as_json:
        click.echo(to_json(results).decode(), nl=False)
    else:
        from karat.report.build import evaluation_report
        from karat.report.renderers.terminal import print_report, terminal_console

        console = terminal_console()
        for i, result in enumerate(results):
            if i:
                console.print()
            print_report(evaluation_report(result), console)
    for output in outputs:
        click.echo(f"wrote {export(results, output)}", err=True)
