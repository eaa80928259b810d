"""`karat gate`: check a run against gates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import (
    gate_options,
    input_files,
    json_option,
    named_options,
    options_of,
    output_option,
    ranking_options,
    reading_options,
    save_options,
    send_option,
    statistics_options,
)
from karat.cli.say import say, say_rendered
from karat.errors.redaction import redact_known
from karat.labels.options import LabelOptions
from karat.scoring.options import Options

if TYPE_CHECKING:
    from karat.gates.verdict_form import Verdicts
    from karat.results.analyses.base import Consumer

_KINDS = ("html", "json", "md", "junit", "annotations", "codequality", "summary")
_WITH_BREAKDOWN = {"html", "json", "md", "summary"}  # outputs with changes by tag and by query
_TABLE = "table "  # prefix of a table's name
_ENDINGS = {".html": "html", ".json": "json", ".md": "md", ".xml": "junit"}


class _OneRun(KaratCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            hint = "`karat gate` takes one run: use `karat compare` for several, or one command per run"
            raise click.UsageError(f"{error.message}\nhint: {hint}", ctx) from None


@click.command("gate", cls=_OneRun, short_help="Check whether a run can ship, with the gates in ship-criteria.yaml.")
@gate_options
@ranking_options
@options_of(Options, "corpus_size")
@options_of(LabelOptions, "labels", "gold_labels", "calibration", "max_grade", "gold_scale")
@statistics_options
@json_option
@output_option(
    "Write verdict.html, out.json, comment.md or junit.xml. Other forms: annotations=FILE (- prints them), "
    "codequality=FILE, summary=FILE (appends). NAME=out.csv or NAME=out.parquet writes one table. Repeat for more."
)
@click.option(
    "--anchor", metavar="RESULT", help="Second baseline, for gates with regression_max and no baseline of their own."
)
@save_options
@send_option
@click.option(
    "--send-on",
    type=click.Choice(["always", "fail"]),
    default="always",
    show_default=True,
    help="When to send: always, or only if the run may not ship or could not be judged.",
)
@reading_options
def command(
    run: str,
    gold: str | None,
    criteria: str | None,
    gates: tuple[str, ...],
    baseline: str | None,
    as_json: bool,
    outputs: tuple[str, ...],
    anchor: str | None,
    save: bool | None,
    tags: tuple[str, ...],
    places: tuple[str, ...],
    send_on: str,
    **options: Any,
) -> None:
    """Check RUN against its gates, which say what it must reach to ship.

    Exit codes: 0 success, 1 a gate failed, 2 could not judge (bad input or usage).

    \b
    karat gate run.jsonl --gold gold.jsonl --baseline baseline.json
    karat gate run.jsonl --gold gold.jsonl --gate 'recall@5 >= 0.85' --gate 'ndcg@5 drop <= 0.02'
    karat gate result.json -o comment.md -o junit.xml
    karat gate run.jsonl --gold gold.jsonl --baseline main --anchor release --save   # pins: karat history
    karat gate run.jsonl --gold gold.jsonl --send slack --send-on fail
    """
    from karat.cli.scoring import open_for_saving, page_text, show, sides_of
    from karat.cli.send import open_sinks
    from karat.gates.gate import anchored, asked_for, gate_need, judge_needs, judge_result
    from karat.history.location import named
    from karat.report.gate import gate_page, gate_report
    from karat.results.pipeline import with_panel

    options = named_options(options)
    inputs = (run, gold, criteria, baseline, *input_files(options))
    targets = [_target(output, inputs) for output in outputs]
    sinks = open_sinks(places, forks=True)
    keeper = open_for_saving(save, tags)
    asked = anchored(asked_for(criteria, gates), named(anchor))
    files = any(sink.takes_files for sink in sinks)
    kinds = {kind for kind, _ in targets} | ({"html"} if files else set())
    told = as_json or keeper is not None or bool(kinds & _WITH_BREAKDOWN) or any(k.startswith(_TABLE) for k in kinds)
    consumers = [gate_need(asked), *_consumers(kinds, told=told, keep=keeper is not None or files), *judge_needs(asked)]
    shows_all = "html" in kinds or keeper is not None
    result, before = sides_of(run, gold, asked, named(baseline), options, consumers=consumers, analyses=shows_all)
    found = judge_result(result, asked, before, breakdown=told)
    show([found], gate_report, as_json)

    def page() -> bytes:
        return page_text(gate_page(found, result, before))

    for kind, path in targets:
        _write(found, kind, path, page)
    if keeper is not None:
        keeper.keep(with_panel(result), found)
    if sinks and (send_on == "always" or found.exit_code):
        from karat.cli.send import deliver, warn_of
        from karat.files.git import code_branch
        from karat.sinks.base import Parcel

        kept = with_panel(result) if files else result
        warn_of(deliver(sinks, [Parcel(kept, found, page, code_branch())]))
    raise SystemExit(found.exit_code)


def _consumers(kinds: set[str], *, told: bool, keep: bool) -> list[Consumer]:
    """Return what the outputs need from the runs."""
    from karat.history.keep import keep_need
    from karat.results.comparison.compare import compare_need
    from karat.results.queries.changed import changes_need
    from karat.results.queries.triage import triage_need

    found: list[Consumer] = [compare_need()] if told else []
    if "html" in kinds:
        found += [triage_need, changes_need]
    return [*found, keep_need] if keep else found


def _target(output: str, inputs: tuple[str | None, ...]) -> tuple[str, str]:
    """Return (kind, path); the kind is given as KIND=, else by the file extension."""
    from karat.errors import ConfigError
    from karat.files.atomic_write import check_writable
    from karat.report.tables import table_target

    if (table := table_target(output)) is not None:
        check_writable(table[1], inputs)
        return f"{_TABLE}{table[0]}", str(table[1])
    kind, equals, path = output.partition("=")
    if not equals or kind not in _KINDS:
        path, kind = output, _ENDINGS.get(Path(output).suffix, "")
    if not kind:
        raise ConfigError(
            f"unknown kind of output {output!r}",
            code="unknown-output",
            expected=f".html, .json, .md or .xml, a prefix ({', '.join(f'{k}=' for k in _KINDS)}), "
            "or NAME=FILE with .csv or .parquet for one table",
        )
    if path != "-":
        check_writable(path, inputs)
    return kind, path


def _write(found: Verdicts, kind: str, path: str, page: Callable[[], bytes]) -> None:
    from karat.cli.scoring import print_json
    from karat.data.saved import json_text
    from karat.errors import no_commands
    from karat.files.atomic_write import write_whole
    from karat.report.gate import comment, render_annotations, render_code_quality, render_junit
    from karat.report.tables import joined_tables, write_table

    if kind.startswith(_TABLE):
        write_table(joined_tables([found]), kind.removeprefix(_TABLE), Path(path))
        say(f"wrote {path}", err=True)
        return
    makers: dict[str, Callable[[], bytes]] = {
        "html": page,
        "json": lambda: json_text(found),
        "md": lambda: comment(found).encode(),
        "summary": lambda: comment(found).encode(),
        "junit": lambda: render_junit(found),
        "annotations": lambda: render_annotations(found).encode(),
        "codequality": lambda: render_code_quality(found),
    }
    made = redact_known(makers[kind]().decode()).encode()
    if path == "-":
        if kind in ("json", "codequality"):
            print_json(made)
        else:
            text = made.decode()
            say_rendered(text if kind == "annotations" else no_commands(text))
        return
    if kind == "summary":
        with open(path, "ab") as stream:  # earlier steps may have written to it
            stream.write(made)
    else:
        write_whole(path, made)
    say(f"wrote {path}", err=True)
