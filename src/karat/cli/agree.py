"""`karat labels agree`: agreement between annotators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from karat.cli.help import KaratCommand
from karat.cli.options import grade_option, json_option, options_of, table_option
from karat.cli.say import say
from karat.statistics.sampling import Sampling

if TYPE_CHECKING:
    from karat.labels.files import Label


@click.command("agree", cls=KaratCommand, short_help="Measure agreement between annotators; list and settle conflicts.")
@click.argument("files", nargs=-1, required=True)
@click.option("--output", "-o", metavar="FILE", help="Write one label per pair, by majority or adjudicator, as JSONL.")
@click.option("--adjudicator", metavar="NAME", help="Annotator whose labels decide conflicts.")
@click.option("--pool", "pooled", metavar="POOL", help="Labelled pool. Labels of other pairs are errors.")
@click.option("--conflicts", metavar="FILE", help="Write the pairs in conflict as a pool for an adjudicator.")
@grade_option
@options_of(Sampling, "level", "seed")
@json_option
@table_option
def command(
    files: tuple[str, ...],
    output: str | None,
    adjudicator: str | None,
    pooled: str | None,
    conflicts: str | None,
    max_grade: int,
    level: float,
    seed: int,
    as_json: bool,
    outputs: tuple[str, ...],
) -> None:
    """Show how well the annotators of label FILES agree, and where they disagree.

    Conflicts are settled by majority. Without a majority, one more person labels the pair and decides:

    \b
    karat labels agree ann.jsonl ben.jsonl --pool pool.jsonl --conflicts conflicts.jsonl
    karat labels label conflicts.jsonl -o eve.jsonl --annotator eve
    karat labels agree ann.jsonl ben.jsonl eve.jsonl --adjudicator eve -o labels.jsonl
    """
    from karat.cli.scoring import check_outputs, show
    from karat.errors import ConfigError
    from karat.files.atomic_write import check_writable
    from karat.labels.agreement import conflict_pool, find_agreement, is_conflict, settle
    from karat.labels.files import read_labels, read_pool, refuse_unknown, write_pairs
    from karat.report.labels import agreement_report
    from karat.results.numbers import counted

    if conflicts and pooled is None:
        raise ConfigError(
            "--conflicts needs the texts of the pool", code="missing-option", hint="give the pool with --pool"
        )
    if adjudicator is not None and output is None:
        raise ConfigError("--adjudicator needs an output file", code="missing-option", hint="name a file with -o")
    check_outputs(outputs, *files, pooled)
    for target in filter(None, (output, conflicts)):
        check_writable(target, [*files, pooled])
    labels = read_labels(*files, highest=max_grade)
    pool = None if pooled is None else read_pool(pooled)
    if pool is not None:
        refuse_unknown(labels, pool)
    found = find_agreement(labels, Sampling(level=level, seed=seed))
    settled = settle(labels, adjudicator)
    show([found], agreement_report, as_json, outputs)
    if conflicts and pool is not None:
        open_ones = conflict_pool(pool, settled)
        if open_ones:
            write_pairs(conflicts, open_ones)
            say(f"wrote {conflicts}: {counted(len(open_ones), 'pair')}", err=True)
        else:
            say(f"no open conflicts: {conflicts} was not written", err=True)
    if output is not None:
        write_pairs(output, settled)
        say(f"wrote {output}: {counted(len(settled), 'label')}{_ungraded(settled)}", err=True)
        if any(is_conflict(label) for label in settled):
            say("next, let one more person decide them:", err=True)
            for step in _next_steps(files, output, pooled, conflicts):
                say(f"  {step}", err=True)


def _ungraded(settled: Sequence[Label]) -> str:
    """What the labels without a grade are."""
    from karat.labels.agreement import is_conflict
    from karat.results.numbers import counted

    open_ones = sum(map(is_conflict, settled))
    skipped = sum(label.grade is None for label in settled) - open_ones
    conflicts = f"{counted(open_ones, 'open conflict')} without a grade" if open_ones else ""
    said = " and ".join(filter(None, [conflicts, f"{skipped:,} that no annotator graded" if skipped else ""]))
    return f", including {said}" if said else ""


def _next_steps(files: Sequence[str], output: str, pooled: str | None, conflicts: str | None) -> Iterator[str]:
    """The commands with which one more person decides the open conflicts."""
    given, to_label = " ".join(files), conflicts or "conflicts.jsonl"
    if not conflicts:
        yield f"karat labels agree {given} --pool {pooled or 'POOL'} --conflicts {to_label}"
    yield f"karat labels label {to_label} -o eve.jsonl --annotator eve"
    yield f"karat labels agree {given} eve.jsonl --adjudicator eve -o {output}"
