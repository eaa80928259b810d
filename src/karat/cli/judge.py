"""`karat labels judge`: a model grades the pairs of a pool."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import dry_run_option, input_files, json_option, named_options, options_of, table_option
from karat.cli.say import say
from karat.labels.options import JudgeOptions
from karat.llm.options import ModelOptions
from karat.options.option import options_in


@click.command("judge", cls=KaratCommand, short_help="Let a model grade a pool of pairs, and test the model.")
@click.argument("pool")
@options_of(JudgeOptions, "judge")
@click.option("--output", "-o", default="labels.jsonl", show_default=True, metavar="FILE", help="The labels.")
@options_of(JudgeOptions, "prompt", "corpus", "annotator", "canaries", "model", *options_in(ModelOptions))
@dry_run_option
@json_option
@table_option
def command(pool: str, output: str, dry_run: bool, as_json: bool, outputs: tuple[str, ...], **options: Any) -> None:
    """Let a model grade every pair of POOL: 2 answers the query, 1 a part of it, 0 does not help.

    A pair that it cannot grade is missing, never 0. Any OpenAI-compatible endpoint will do; the key comes from
    KARAT_LLM_KEY or OPENAI_API_KEY. Every answer is kept on the disk: the same command, given again, pays for nothing
    twice.

    Canaries (hidden commands, words without sense, passages of other queries) are mixed in. A judge that falls for them
    is unfit: exit code 1.

    \b
    karat labels judge pool.jsonl --model gpt-4.1-mini --dry-run
    karat labels judge pool.jsonl --model qwen3 --base-url http://localhost:11434/v1 -o labels.jsonl
    karat labels judge pool.jsonl --judge my_judge:grade
    """
    from pathlib import Path

    from karat.cli.scoring import check_outputs, run_paid
    from karat.errors import ConfigError
    from karat.files.atomic_write import refuse_overwriting
    from karat.labels.files import check_labels
    from karat.labels.judge.judge import Judging
    from karat.report.models import judging_report
    from karat.settings import load_config

    target = Path(output)
    options = named_options(options)
    check_outputs(outputs, pool)
    refuse_overwriting(output, [pool, *input_files(options, JudgeOptions)])
    check_labels(target)
    judging = Judging(pool, **{"prices": load_config().prices, **options})
    done = run_paid(judging.estimate(), partial(judging.run, target), judging_report, dry_run, as_json, outputs)
    if done is None:
        return
    say(f"wrote {output}: {len(done.labels):,} labels in {done.seconds:.1f} s", err=True)
    if not any(done.grades.values()):
        what = f"no pair got a grade: {done.missing_examples[0]}"
        raise ConfigError(what, code="nothing-judged", file=output, hint="use another model or prompt")
    if done.fit is False:
        click.get_current_context().exit(1)
