"""`karat labels pool`: collect pairs to label."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import READING, Count, json_option, options_of, reading_options, table_option
from karat.cli.say import say
from karat.labels.options import LabelOptions
from karat.scoring.options import Options


@click.command("pool", cls=KaratCommand, short_help="Collect unjudged hits of runs for labelling.")
@click.argument("runs", nargs=-1, required=True)
@click.option("--gold", "-g", required=True, help="Gold set, or a file of queries without judgements.")
@click.option("--output", "-o", required=True, metavar="FILE", help="Pool to write, JSONL.")
@click.option("--depth", "k", type=Count(1), default=10, show_default=True, help="Hits of each run to include.")
@click.option("--corpus", help="Corpus with the texts and titles of hits.")
@click.option("--labelled", multiple=True, metavar="FILE", help="Existing labels; repeat for more.")
@options_of(LabelOptions, "max_grade", "gold_scale")
@click.option("--only-differences", is_flag=True, help="Only pairs whose label can change how the runs compare.")
@click.option(
    "--settle",
    is_flag=True,
    help="Order pairs so that labels settle the comparison of two runs soonest, and estimate how many are needed.",
)
@click.option("--budget", type=Count(1), metavar="N", help="Only the N pairs that can change it most.")
@click.option("--sample", type=Count(1), metavar="N", help="Only N random pairs.")
@click.option("--metric", "-m", help="Metric of the comparison.  [default: ndcg@k]")
@options_of(Options, "seed", help="Seed of the order and the sample.")
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
    """Collect the unjudged pairs among the first hits of RUNS, each once, in random order or as a queue (--settle).

    `karat labels label` shows them to a person, `karat labels judge` to a model. Neither sees ranks and runs, which
    are in the field `origin`.

    \b
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl --corpus corpus.jsonl -o pool.jsonl
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl --budget 100 -o pool.jsonl
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl --settle -o pool.jsonl
    karat labels pool run.jsonl --gold gold.jsonl --sample 200 -o pool.jsonl
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
