"""`karat labels merge`: merge people's labels into the gold set."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand
from karat.cli.options import json_option, options_of, query_options
from karat.cli.say import say
from karat.labels.options import LabelOptions
from karat.scoring.options import Options


@click.command("merge", cls=KaratCommand, short_help="Merge people's labels into a new version of the gold set.")
@click.argument("labels", nargs=-1, required=True)
@click.option("--gold", "-g", required=True, help="Gold set, or a file of queries without judgements.")
@click.option("--output", "-o", required=True, metavar="FILE", help="New gold set, JSONL.")
@click.option(
    "--version", metavar="NAME", help="Version of the new gold set.  [default: the old one plus a hash of the labels]"
)
@click.option("--clicks", is_flag=True, help="Also merge labels from clicks, where people gave no grade.")
@options_of(LabelOptions, "max_grade", "gold_scale")
@options_of(Options, "doc_of")
@json_option
@query_options
def command(
    labels: tuple[str, ...],
    gold: str,
    output: str,
    version: str | None,
    clicks: bool,
    max_grade: int,
    gold_scale: float | None,
    doc_of: str,
    as_json: bool,
    columns: str | None,
    gold_format: str | None,
    target: str | None,
    split: str,
) -> None:
    """Merge LABELS from people into a gold set, and write a new version that records where each label comes from.

    Existing judgements are not changed. Labels from models and from clicks are left out; use them with `karat eval
    --labels`. If annotators disagree, settle that first with `karat labels agree`.

    \b
    karat labels merge labels.jsonl --gold gold.jsonl -o gold_v2.jsonl --version v2
    karat eval run.jsonl --gold gold_v2.jsonl
    """
    from karat.cli.scoring import mapped_fields, show
    from karat.files.atomic_write import check_writable, write_whole
    from karat.labels.labelled_gold import read_gold_or_queries
    from karat.labels.merge import merge_labels
    from karat.report.labels import merge_report
    from karat.results.numbers import counted

    check_writable(output, [gold, *labels])
    fields = mapped_fields(columns)
    read = read_gold_or_queries(gold, format=gold_format, target=target, split=split, columns=fields)
    if fields is not None:
        fields.refuse_unused([gold])
    made = merge_labels(
        read, labels, version=version, doc_of=doc_of, highest=max_grade, gold_scale=gold_scale, clicks=clicks
    )
    write_whole(output, made.text())
    show([made.merging], merge_report, as_json)
    say(f"wrote {output}: version {made.merging.version}, {counted(made.merging.added, 'label')} added", err=True)
