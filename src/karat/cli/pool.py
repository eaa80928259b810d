"""`karat pool`: what should be labelled."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import READING, Count, json_option, options_of, reading_options, table_option
from karat.cli.say import say
from karat.labels.options import LabelOptions
from karat.scoring.options import Options


@click.command("pool", short_help="Collect what runs found and nobody has judged, to be labelled.")
@click.argument("runs", nargs=-1, required=True)
@click.option("--gold", "-g", required=True, help="Gold set; or a file of bare queries, where nothing is judged yet.")
@click.option("--output", "-o", required=True, metavar="FILE", help="The pool, JSONL.")
@options_of(Options, "k", default=10, help="Hits of each run to look at.")
@click.option("--corpus", help="Corpus: lends hits their texts and titles.")
@click.option("--labels", "labelled", multiple=True, metavar="FILE", help="Labels given already; repeat for more.")
@options_of(LabelOptions, "max_grade", "gold_scale")
@click.option("--only-differences", is_flag=True, help="Only pairs whose label can change the comparison of the runs.")
@click.option("--budget", type=Count(1), metavar="N", help="The N pairs that may change it most.")
@click.option("--sample", type=Count(1), metavar="N", help="N pairs at random.")
@click.option("--metric", "-m", help="What a change is measured by.  [default: ndcg@k]")
@options_of(Options, "seed", help="Of the order and the sample.")
@options_of(Options, "doc_of")
@json_option
@table_option
@reading_options
def command(
    runs: tuple[str, ...],
    gold: str,
    output: str,
    labelled: tuple[str, ...],
    max_grade: int,
    gold_scale: float | None,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Pool the first k hits of RUNS that the gold set does not judge, each pair once, in random order.

    `karat label` shows them to a person, `karat judge` to a model. Ranks and runs stand apart in the field `origin`,
    which neither shows.

    \b
    karat pool old.jsonl new.jsonl --gold gold.jsonl --corpus corpus.jsonl -o pool.jsonl
    karat pool old.jsonl new.jsonl --gold gold.jsonl --budget 100 -o pool.jsonl
    karat pool run.jsonl --gold gold.jsonl --sample 200 -o pool.jsonl
    """
    from karat.cli.scoring import check_outputs, mapped_fields, show
    from karat.files.atomic_write import check_writable
    from karat.files.progress import working
    from karat.formats.read import read_run
    from karat.labels.files import read_labels, write_pairs
    from karat.labels.labelled_gold import read_gold_or_queries, with_labels
    from karat.labels.pool import make_pool
    from karat.report.labels import pool_report
    from karat.results.numbers import counted

    check_outputs(outputs, *runs, gold, *labelled)
    check_writable(output, [*runs, gold, *labelled, options["corpus"]])
    options["columns"] = mapped_fields(options["columns"])
    asked = Options(**{name: options.pop(name) for name in READING})
    with working("pooling"):
        judged = read_gold_or_queries(gold, **asked.of_gold)
        if labelled:
            labels = read_labels(*labelled, highest=max_grade)
            doc_of = options["doc_of"]
            judged = with_labels(judged, labels, doc_of=doc_of, highest=max_grade, gold_scale=gold_scale)
        read = [read_run(run, **asked.of_run) for run in runs]
        if asked.columns is not None:
            asked.columns.refuse_unused()
        pool = make_pool(read, judged, **options)
    write_pairs(output, pool.entries)
    show([pool.summary], pool_report, as_json, outputs)
    say(f"wrote {output}: {counted(pool.summary.pairs, 'pair')}", err=True)
