"""`karat run`: ask a retriever every query and log its answers."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import Count, chunk_options, json_option, query_options


@click.command("run", short_help="Run a retriever over queries and write a run log.")
@click.argument("retriever")
@click.option("--queries", "-q", required=True, help="Gold set (its queries are asked), or a file of bare queries.")
@click.option("--corpus", help="What is searched: JSONL, a BEIR folder, or a folder of text or Markdown files.")
@click.option("-k", "k", type=Count(1), default=50, show_default=True, help="Hits to log for each query.")
@click.option("--output", "-o", default="run.jsonl", show_default=True, metavar="FILE", help="The run log.")
@click.option("--config", metavar="FILE", help="YAML with options of the retriever.")
@click.option("--workers", type=Count(1), default=1, show_default=True, help="Queries asked at once.")
@click.option("--timeout", type=float, default=30.0, show_default=True, metavar="S", help="Seconds for one query.")
@click.option("--warm-up", type=Count(0), default=3, show_default=True, help="Queries asked before, not timed.")
@click.option("--repeat", type=Count(1), default=1, show_default=True, help="Ask each query so often; median time.")
@click.option("--min-score", type=float, help="Cut hits with a lower score.")
@click.option("--prefetch-limit", "prefetch", type=Count(1), help="Hits that each part of `hybrid` brings.")
@click.option("--rerank-top-n", "top_n", type=Count(1), help="Hits that `rerank` looks at.")
@click.option("--rewrite", metavar="MODULE:CALLABLE", help="Rewrites queries; both lists are logged.")
@click.option("--system", help="Name of the system in the log.  [default: RETRIEVER]")
@click.option("--index-version", help="Version of the index.  [default: hash of the corpus]")
@chunk_options
@click.option("--overwrite", is_flag=True, help="Start anew where the file is there already.")
@click.option(
    "--max-errors",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="Exit with code 2 if a larger share of the queries failed, those of an earlier try included.",
)
@click.option("--retry-failed", is_flag=True, help="Ask again what failed in an earlier try.")
@query_options
@json_option
def command(
    retriever: str,
    queries: str,
    corpus: str | None,
    output: str,
    config: str | None,
    prefetch: int | None,
    top_n: int | None,
    tokens: int | None,
    overlap: int | None,
    columns: str | None,
    gold_format: str | None,
    target: str | None,
    split: str,
    max_errors: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask RETRIEVER every query; write a run log with hits, times, errors and settings.

    RETRIEVER is bm25, bm25:title, random, dense, hybrid, rerank, MODULE:CALLABLE, http://…, elasticsearch:URL,
    opensearch:URL, qdrant:URL, langchain:MODULE:NAME, llama_index:MODULE:NAME, haystack:MODULE:NAME, or a YAML file;
    with options as in 'hybrid(bm25(k1=1.2), dense, prefetch=100)'. docs/retrievers.md tells of each.

    A run that was stopped goes on where it was when the same command is given again.

    \b
    karat run bm25 --queries gold.jsonl --corpus corpus.jsonl -o bm25.jsonl
    karat run 'rerank(hybrid, my_app:score)' -q gold.jsonl --corpus corpus.jsonl -o reranked.jsonl
    karat run my_app:search -q gold.jsonl -k 20 --workers 8
    karat run http://localhost:8000/search -q gold.jsonl --config search.yaml
    """
    from karat.cli.scoring import mapped_fields, print_json, read_chunks
    from karat.errors import ConfigError
    from karat.files.atomic_write import refuse_overwriting
    from karat.files.progress import counting, working
    from karat.formats.questions import read_questions
    from karat.retrievers.specs import read_options
    from karat.systems.run import run_retriever

    refuse_overwriting(output, (queries, corpus, config))
    chosen = {} if config is None else read_options(config)
    chosen |= {name: value for name, value in (("prefetch", prefetch), ("top_n", top_n)) if value is not None}
    with working("reading"):
        fields = mapped_fields(columns)
        searched = None if corpus is None else read_chunks(corpus, tokens, overlap, fields)
        questions = read_questions(queries, format=gold_format, target=target, split=split, columns=fields)
        if fields is not None:
            fields.refuse_unused()
    try:
        done = run_retriever(
            retriever, questions, corpus=searched, output=output, options=chosen, progress=counting, **options
        )
    except KeyboardInterrupt:
        again = "the same command without --overwrite" if options["overwrite"] else "the same command"
        click.echo(f"stopped; {again} goes on where {output} ends", err=True)
        raise
    for note in done.notes:
        click.echo(f"note: {note}", err=True)
    before = f", {done.queries - done.asked:,} were there already" if done.asked < done.queries else ""
    click.echo(f"wrote {output}: {done.asked:,} queries in {done.seconds:.1f} s{before}", err=True)
    if as_json:
        print_json(done)
    if done.failed_share > max_errors:
        failed = done.failed + done.failed_before
        raise ConfigError(
            f"{failed:,} of {done.queries:,} queries failed: {done.first_error}",
            code="too-many-errors",
            file=output,
            hint="fix the cause, then run the same command with --retry-failed",
        )
