"""`karat metrics`: what can be measured, and how it is defined."""

from __future__ import annotations

import click


@click.command("metrics", short_help="List the metrics with definition, convention and trec_eval's name.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.option("--markdown", is_flag=True, help="Print the whole reference as Markdown.")
def command(name: str | None, as_json: bool, markdown: bool) -> None:
    """List all metrics, or say everything about one (NAME, an alias works too)."""
    from karat.scoring.metrics.reference import describe, describe_all, reference

    if markdown:
        click.echo(reference(), nl=False)
    elif as_json:
        from karat.cli.scoring import print_json

        found = describe_all() if name is None else [describe(name)]
        print_json(found)
    else:
        from karat.report.catalogue import metrics_report
        from karat.report.renderers.terminal import print_report, terminal_console

        print_report(metrics_report(name), terminal_console())
