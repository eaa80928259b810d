"""`karat judge`: a model grades the pairs of a pool."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.llm_options import llm_options
from karat.cli.options import json_option


@click.command("judge", short_help="Let a model grade a pool of pairs, and test the model.")
@click.argument("pool")
@click.option("--judge", metavar="MODULE:CALLABLE", help="A function (query, passage) → 0, 1 or 2 instead of a model.")
@click.option("--output", "-o", default="labels.jsonl", show_default=True, metavar="FILE", help="The labels.")
@click.option("--prompt", metavar="FILE", help="Other instructions for the model.")
@click.option("--corpus", help="Lends passages to pairs that have none.")
@click.option("--annotator", metavar="NAME", help="Name in the labels.  [default: the model]")
@click.option(
    "--canaries", type=click.IntRange(min=0), default=5, show_default=True, help="Of each kind, to test the judge."
)
@llm_options
@json_option
def command(
    pool: str, corpus: str | None, output: str, prices: str | None, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Let a model grade every pair of POOL: 2 answers the query, 1 a part of it, 0 does not help.

    A pair that it cannot grade is missing, never 0. Any OpenAI-compatible endpoint will do; the key comes from
    KARAT_LLM_KEY or OPENAI_API_KEY. Every answer is kept on the disk: the same command, given again, pays for nothing
    twice.

    Canaries (hidden commands, words without sense, passages of other queries) are mixed in. A judge that falls for them
    is unfit: exit code 1.

    \b
    karat judge pool.jsonl --model gpt-4.1-mini --dry-run
    karat judge pool.jsonl --model qwen3 --base-url http://localhost:11434/v1 -o labels.jsonl
    karat judge pool.jsonl --judge my_judge:grade
    """
    from pathlib import Path

    from karat.cli.scoring import show, show_estimate
    from karat.errors import ConfigError
    from karat.files.atomic_write import refuse_overwriting
    from karat.files.progress import counting
    from karat.labels.judge.judge import Judging
    from karat.labels.labels_file import check_labels
    from karat.report.models import judging_report
    from karat.settings import load_config

    target = Path(output)
    refuse_overwriting(target, [path for path in (pool, corpus, options["prompt"], prices) if path])
    check_labels(target)
    judging = Judging(pool, corpus=corpus, prices=prices or load_config().prices, **options)
    show_estimate(judging.estimate(), dry_run, as_json)
    if dry_run:
        return
    try:
        done = judging.run(target, progress=counting)
    except KeyboardInterrupt:
        click.echo("stopped; the same command goes on, and pays for nothing twice", err=True)
        raise
    show([done], [judging_report(done)], as_json, ())
    click.echo(f"wrote {output}: {len(done.labels):,} labels in {done.seconds:.1f} s", err=True)
    if not any(done.grades.values()):
        what = f"no pair got a grade: {done.missing_examples[0]}"
        raise ConfigError(what, code="nothing-judged", file=output, hint="use another model or prompt")
    if done.fit is False:
        click.get_current_context().exit(1)
