"""`karat run`: run a retriever over queries and log its hits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from karat.cli.help import KaratCommand
from karat.cli.live import max_errors_option, refuse_failures, tell
from karat.cli.options import Count, chunk_options, json_option, query_options
from karat.cli.say import say, say_text
from karat.cli.trust import listed_retrievers, require_trusted, trust_option
from karat.errors import ConfigError, KaratError

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.data.question import Question
    from karat.systems.run import Finished


@click.command("run", cls=KaratCommand, short_help="Run a retriever over queries and write a run log.")
@click.argument("retriever", required=False)
@click.option(
    "--queries",
    "--gold",
    "-q",
    "-g",
    required=True,
    help="Gold set, or a file of queries.",
)
@click.option("--corpus", help="Corpus to search: JSONL, a BEIR folder, or a folder of text or Markdown files.")
@click.option("--depth", "k", type=Count(1), default=50, show_default=True, help="Hits to log per query.")
@click.option(
    "--output", "-o", metavar="FILE", help="Run log, or a folder for several.  [default: run.jsonl, or the folder runs]"
)
@click.option("--config", metavar="FILE", help="YAML file with options of the retriever.")
@click.option("--workers", type=Count(1), default=1, show_default=True, help="Concurrent queries.")
@click.option("--timeout", type=float, default=30.0, show_default=True, metavar="S", help="Seconds per query.")
@click.option("--warm-up", type=Count(0), default=3, show_default=True, help="Untimed queries before the run.")
@click.option(
    "--repeat", type=Count(1), default=1, show_default=True, help="Times to run each query; logs the median time."
)
@click.option("--min-score", type=float, help="Remove hits with a lower score.")
@click.option("--prefetch-limit", "prefetch", type=Count(1), help="Hits from each part of `hybrid`.")
@click.option("--rerank-top-n", "top_n", type=Count(1), help="Hits that `rerank` reorders.")
@click.option("--rewrite", metavar="MODULE:CALLABLE", help="Function that rewrites queries; both lists are logged.")
@click.option("--system", help="Name of the system in the log.  [default: RETRIEVER]")
@click.option("--index-version", help="Version of the index.  [default: hash of the corpus]")
@chunk_options
@click.option("--overwrite", is_flag=True, help="Start again instead of continuing an existing file.")
@max_errors_option
@click.option("--retry-failed", is_flag=True, help="Run the queries again that failed in earlier attempts.")
@query_options
@json_option
@trust_option
def command(
    retriever: str | None,
    queries: str,
    corpus: str | None,
    output: str | None,
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
    """Run RETRIEVER over all queries and write a run log with hits, times, errors and settings.

    RETRIEVER is bm25, bm25:title, random, dense, hybrid, rerank, MODULE:CALLABLE, http://…, elasticsearch:URL,
    opensearch:URL, qdrant:URL, postgres, langchain:MODULE:NAME, llama_index:MODULE:NAME, haystack:MODULE:NAME, or a
    YAML file; with options as in 'hybrid(bm25(k1=1.2), dense, prefetch=100)'. docs/retrievers.md describes each. It can
    also be a name under `retrievers:` in karat.yaml. Without RETRIEVER, all of those run, each into its own file.

    To continue a run that was stopped, run the same command again.

    \b
    karat run bm25 --queries gold.jsonl --corpus corpus.jsonl -o bm25.jsonl
    karat run 'rerank(hybrid, my_app:score)' -q gold.jsonl --corpus corpus.jsonl -o reranked.jsonl
    karat run my_app:search -q gold.jsonl --depth 20 --workers 8 -o search.jsonl
    karat run http://localhost:8000/search -q gold.jsonl --config search.yaml -o served.jsonl
    karat run -q gold.jsonl --corpus corpus.jsonl -o runs   # all retrievers of karat.yaml
    """
    from karat.cli.scoring import mapped_fields, print_json, read_chunks
    from karat.files.atomic_write import refuse_overwriting
    from karat.files.progress import working
    from karat.formats.questions import read_questions
    from karat.retrievers.specs import read_options

    chosen = {} if config is None else read_options(config)
    chosen |= {name: value for name, value in (("prefetch", prefetch), ("top_n", top_n)) if value is not None}
    asked = _asked(retriever, output, options, chosen)
    for one in asked:
        refuse_overwriting(one.output, (queries, corpus, config))
    with working("reading"):
        fields = mapped_fields(columns)
        searched = None if corpus is None else read_chunks(corpus, tokens, overlap, fields)
        questions = read_questions(queries, format=gold_format, target=target, split=split, columns=fields)
        if fields is not None:
            fields.refuse_unused()
    finished: list[Finished] = []
    failed: list[tuple[_Asked, KaratError]] = []
    if retriever is None:
        Path(asked[0].output).parent.mkdir(parents=True, exist_ok=True)
    for one in asked:
        try:
            finished.append(_run(one, questions, searched, options))
            refuse_failures(finished[-1], one.output, max_errors)
        except KaratError as error:  # the other retrievers still run
            failed.append((one, error))
    if as_json and finished:
        print_json(finished if retriever is None else finished[0])
    if retriever is not None and failed:
        raise failed[0][1]
    for one, problem in failed:
        say_text(f"failed {one.name}: {problem}", err=True)
    if failed:
        raise SystemExit(2)


class _Asked(NamedTuple):
    """A retriever to run, and its output."""

    name: str | None  # in karat.yaml
    spec: Any
    output: str
    chosen: dict[str, Any]  # its options


def _asked(retriever: str | None, output: str | None, options: dict[str, Any], chosen: dict[str, Any]) -> list[_Asked]:
    """Return the retriever of the command line, or all in karat.yaml."""
    listed = listed_retrievers()
    if retriever is not None:
        if retriever in listed:
            require_trusted({retriever: listed[retriever]})
        named = retriever if retriever in listed else None
        return [_Asked(named, listed.get(retriever, retriever), output or "run.jsonl", chosen)]
    if not listed:
        hint = "give a retriever, such as my_app:search, or list several under `retrievers:` in karat.yaml"
        raise ConfigError("no retriever is given", code="no-retriever", hint=hint)
    if options["system"] is not None or chosen:
        hint = "name one retriever, or write the options into karat.yaml"
        raise ConfigError("--system and retriever options need one retriever", code="only-for-one", hint=hint)
    folder = Path(output or "runs")
    if folder.is_file() or folder.suffix == ".jsonl":
        hint = "name a folder, such as -o runs"
        raise ConfigError("several runs need a folder", code="not-a-folder", file=str(folder), hint=hint)
    require_trusted(listed)
    return [_Asked(name, spec, str(folder / f"{name}.jsonl"), {}) for name, spec in listed.items()]


def _run(one: _Asked, questions: list[Question], searched: Corpus | None, options: dict[str, Any]) -> Finished:
    from karat.files.progress import counting
    from karat.systems.run import run_retriever

    system = options["system"] or one.name
    try:
        done = run_retriever(
            one.spec,
            questions,
            corpus=searched,
            output=one.output,
            options=one.chosen,
            progress=counting,
            **{**options, "system": system},
        )
    except KeyboardInterrupt:
        again = "the same command without --overwrite" if options["overwrite"] else "the same command"
        say(f"stopped; run {again} to continue {one.output}", err=True)
        raise
    tell(done, one.output)
    return done
