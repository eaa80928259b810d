"""`karat metrics`: list metrics and their definitions."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand
from karat.cli.options import report_output
from karat.cli.say import say_data


@click.command(
    "metrics", cls=KaratCommand, short_help="List the metrics with definition, convention and trec_eval name."
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.option("--markdown", is_flag=True, help="Print the whole reference as Markdown.")
@report_output
def command(name: str | None, as_json: bool, markdown: bool, outputs: tuple[str, ...]) -> None:
    """List all metrics, or describe one (NAME or an alias)."""
    from karat.cli.scoring import check_outputs, show
    from karat.report.catalogue import metrics_report
    from karat.scoring.metrics.reference import describe, describe_all, reference

    check_outputs(outputs)
    if markdown:
        say_data(reference())
        return
    found = describe_all() if name is None else [describe(name)]
    show([found], lambda _: metrics_report(name), as_json, outputs)
