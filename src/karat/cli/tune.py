"""`karat eval tune`: choose how lists are fused or cut."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.options import (
    Count,
    NeedsGold,
    gold_option,
    named_options,
    options_of,
    output_option,
    statistics_options,
)
from karat.scoring.options import Options

_SPEC, _RUN = (".yaml", ".yml"), ".jsonl"


@click.command(
    "tune", cls=NeedsGold, short_help="Choose fusion weights or cutoffs from run logs, with the honest gain."
)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@gold_option
@click.option("--metric", "-m", default="ndcg@10", show_default=True, help="What to improve.")
@click.option(
    "--settings",
    "what",
    type=click.Choice(["fusion", "cut"]),
    help="What to choose: how lists are fused, or where a list is cut.  [default: fusion of several lists, else cut]",
)
@click.option(
    "--budget",
    type=Count(1),
    metavar="TOKENS",
    help="Try only settings with at most this many tokens per query.",
)
@click.option("--prefetch", type=Count(1), default=100, show_default=True, help="Number of hits of each list to use.")
@options_of(
    Options,
    "k",
    "missing",
    "min_score",
    "scores",
    "ties",
    "score_width",
    "no_relevant",
    "doc_of",
    "normalize_ids",
    "no_future",
    "corpus",
)
@statistics_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")
@output_option("Write tuned.yaml (the setting), tuned.jsonl (its run), out.html, out.json or out.md. Repeat for more.")
def command(
    runs: tuple[str, ...],
    gold: str,
    metric: str,
    what: Any,
    budget: int | None,
    prefetch: int,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Choose how the lists of RUN… are fused, or where the list of one RUN is cut, without calling any engine.

    The gain is measured by nested cross-validation, on queries that did not choose the setting. If it is not more than
    chance, the best simple setting is kept. With --settings fusion, one RUN is fused with its `raw` lists.

    \b
    karat eval tune bm25.jsonl dense.jsonl --gold gold.jsonl --metric ndcg@10 -o tuned.yaml
    karat eval tune run.jsonl --gold gold.jsonl --metric recall@50 --budget 2000
    """
    from karat.cli.say import say
    from karat.cli.scoring import check_outputs, evaluation_options, load_numpy, show
    from karat.files.atomic_write import check_writable, whole_file, write_whole
    from karat.files.progress import working

    load_numpy()
    from karat.report.sections.audit import with_audits
    from karat.report.tune import tuning_report
    from karat.systems.tuned_files import run_lines, spec_text
    from karat.systems.tuning import tuned

    options = named_options(options)
    own = [output for output in outputs if output.endswith((*_SPEC, _RUN))]
    reports = tuple(output for output in outputs if output not in own)
    check_outputs(reports, *runs, gold, options=options, expected=".yaml, .jsonl, .html, .json or .md")
    for output in own:
        check_writable(output, [*runs, gold])
    with working(f"tuning {', '.join(runs)}"):
        found, candidates, sides = tuned(
            list(runs), gold, metric, what=what, prefetch=prefetch, budget=budget, **evaluation_options(options)
        )
    show([found], lambda one: with_audits(tuning_report(one), sides), as_json, reports, audited=sides)
    for output in own:
        if output.endswith(_RUN):
            with whole_file(output) as stream:
                stream.writelines(run_lines(found, candidates))
        else:
            write_whole(output, spec_text(found).encode("utf-8", "backslashreplace"))
        say(f"wrote {output}", err=True)
