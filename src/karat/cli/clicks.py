"""`karat labels clicks`: labels from a click log."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand
from karat.cli.options import json_option, options_of, table_option
from karat.cli.say import say
from karat.labels.options import LabelOptions
from karat.scoring.options import Options


@click.command("clicks", cls=KaratCommand, short_help="Estimate labels from a log of clicks.")
@click.argument("log")
@click.option("--output", "-o", required=True, metavar="FILE", help="Labels to write, JSONL.")
@click.option("--gold", "-g", help="Gold set, or a file of queries. Finds queries by their text; others are left out.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Attraction above which a pair is relevant.  [default: the mean of what was shown]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    default=0.95,
    show_default=True,
    help="Probability from which a pair gets a grade, and of the intervals.",
)
@click.option("--documents", is_flag=True, help="The ids of the log are document ids, not chunk ids.")
@options_of(LabelOptions, "max_grade")
@json_option
@table_option
@options_of(Options, "columns", "gold_format")
def command(
    log: str,
    output: str,
    gold: str | None,
    threshold: float | None,
    confidence: float,
    documents: bool,
    max_grade: int,
    as_json: bool,
    outputs: tuple[str, ...],
    columns: str | None,
    gold_format: str | None,
) -> None:
    """Estimate labels from LOG: which items were shown for a query, in which order, and which were clicked.

    People click what they see first. A model of position bias separates how often a position is looked at from how
    attractive an item is. Pairs on which the log leaves doubt get no grade. The labels are never gold by themselves:
    `karat eval --labels` shows what they say next to the gold set.

    \b
    karat labels clicks log.jsonl --gold gold.jsonl -o clicks.jsonl
    karat eval run.jsonl --gold gold.jsonl --labels clicks.jsonl
    karat labels agree clicks.jsonl ann.jsonl
    """
    from karat.cli.scoring import check_lines, check_outputs, mapped_fields, show
    from karat.files.progress import working
    from karat.labels.clicks import labels_from_clicks
    from karat.labels.labelled_gold import read_gold_or_queries
    from karat.report.labels import clicks_report
    from karat.results.numbers import counted

    given = [log, *([gold] if gold else [])]
    check_outputs(outputs, *given)
    check_lines(output, given)
    fields = mapped_fields(columns)
    with working("reading clicks"):
        read = None if gold is None else read_gold_or_queries(gold, format=gold_format, columns=fields)
        if fields is not None:
            fields.refuse_unused(given)
        found = labels_from_clicks(
            log, read, threshold=threshold, confidence=confidence, highest=max_grade, documents=documents
        )
    found.save(output)
    show([found.model], clicks_report, as_json, outputs)
    graded = found.model.relevant + found.model.irrelevant
    say(f"wrote {output}: {counted(graded, 'label')} with a grade", err=True)
