"""`karat convert`: convert a run or a gold set to another format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import click

from karat.cli.help import KaratCommand
from karat.cli.options import options_of
from karat.cli.say import say
from karat.scoring.options import Options

if TYPE_CHECKING:
    from karat.data.hits import ScoreMeaning


@click.command("convert", cls=KaratCommand, short_help="Convert a run or a gold set to another format.")
@click.argument("input")
@click.argument("output")
@click.option(
    "--to",
    metavar="NAME",
    help="Format of OUTPUT: run-log, gold, trec-run, trec-qrels, beir, ragas, deepeval, promptfoo, rank-eval, quepid "
    "or parquet.  [default: by its name; .jsonl is Karat's own]",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["run", "gold"]),
    help="Read INPUT as a run or as a gold set, if it may be both.",
)
@click.option("--from", "format", metavar="NAME", help="Format of INPUT, if it is not recognised.")
@click.option(
    "--gold", "-g", metavar="FILE", help="Gold set of the run: for samples with both, and for ids of queries."
)
@click.option("--corpus", metavar="FILE", help="Corpus with the texts of hits, or the corpus of a BEIR folder.")
@click.option("--index", metavar="NAME", help="Index of the ratings, for rank-eval.")
@click.option("--lossy", is_flag=True, help="Write the file even if the format cannot hold everything.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@options_of(Options, "scores", "columns", "target", "split", "system", "query_from")
def command(
    input: str,
    output: str,
    to: str | None,
    kind: Literal["run", "gold"] | None,
    format: str | None,
    gold: str | None,
    corpus: str | None,
    index: str | None,
    lossy: bool,
    as_json: bool,
    scores: ScoreMeaning | None,
    columns: str | None,
    target: str | None,
    split: str,
    system: str | None,
    query_from: Literal["retriever", "root"],
) -> None:
    """Read INPUT, a run or a gold set in any format that Karat reads, and write it to OUTPUT (- for standard output).

    If the format of OUTPUT cannot hold something that INPUT has, nothing is written; --lossy accepts that.

    \b
    karat convert samples.jsonl gold.jsonl --as gold
    karat convert run.jsonl run.trec --lossy
    karat convert run.jsonl samples.jsonl --to ragas --gold gold.jsonl --corpus corpus.jsonl --lossy
    karat convert gold.jsonl dataset/ --to beir
    """
    from karat.cli.scoring import mapped_fields, meaning_of_scores, print_json
    from karat.data.hits import Hits
    from karat.files.progress import working
    from karat.formats.convert import STDOUT, convert
    from karat.results.doubts import doubt_text
    from karat.results.numbers import counted
    from karat.scoring.doubts import SeenScores, order_doubts, seen_scores
    from karat.scoring.judged import Rules

    if as_json and output == STDOUT:
        raise click.UsageError("--json prints to standard output, and so does the output -\nhint: name an output file")
    fields, scores = mapped_fields(columns), meaning_of_scores(scores)
    seen = SeenScores()

    def watch() -> Callable[[Hits], None]:
        nonlocal seen
        seen = SeenScores()
        return lambda hits: None if hits.turned is not None else seen.add(seen_scores(hits))

    with working(f"converting {input}"):
        made = convert(
            input,
            output,
            to=to,
            kind=kind,
            format=format,
            gold=gold,
            corpus=corpus,
            system=system,
            index=index,
            target=target,
            split=split,
            columns=fields,
            query_from=query_from,
            scores=scores,
            lossy=lossy,
            watch=watch,
        )
    made.notes += doubt_text(order_doubts(seen, Rules(scores=scores)))
    if as_json:
        print_json(made)
        return
    items = counted(made.items, "gold item" if made.kind == "gold" else "hit")
    say(f"wrote {output}: {made.format}, {counted(made.queries)}, {items}", err=True)
    for note in made.notes:
        say(note, err=True)
    if made.lost:
        say(f"not in the file: {', '.join(made.lost)}", err=True)
