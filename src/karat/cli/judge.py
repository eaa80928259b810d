"""`karat labels judge`: a model grades the pairs of a pool."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import dry_run_option, input_files, json_option, named_options, options_of, table_option
from karat.cli.say import say
from karat.labels.judge.options import JudgeOptions
from karat.llm.options import ModelOptions
from karat.options.option import options_in


@click.command("judge", cls=KaratCommand, short_help="Grade a pool of pairs with a model, and test the model.")
@click.argument("pool")
@options_of(JudgeOptions, "judge")
@click.option("--output", "-o", default="labels.jsonl", show_default=True, metavar="FILE", help="Labels to write.")
@options_of(JudgeOptions, "prompt", "corpus", "annotator", "canaries", "model", *options_in(ModelOptions))
@dry_run_option
@json_option
@table_option
def command(pool: str, output: str, dry_run: bool, as_json: bool, outputs: tuple[str, ...], **options: Any) -> None:
    """Grade every pair of POOL with a model: 2 answers the query, 1 answers a part of it, 0 does not help.

    A pair that the model cannot grade is missing, never 0. Any OpenAI-compatible endpoint works; the key is read from
    KARAT_LLM_KEY or OPENAI_API_KEY. Every reply is cached, so repeating the command does not pay for it again.

    Canaries (hidden commands, nonsense, passages of other queries) are mixed in. If the judge falls for them, the exit
    code is 1.

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
    from karat.results.numbers import counted
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
    say(f"wrote {output}: {counted(len(done.labels), 'label')} in {done.seconds:.1f} s", err=True)
    if not any(done.grades.values()):
        what = f"no pair got a grade: {done.missing_examples[0]}"
        raise ConfigError(what, code="nothing-judged", file=output, hint="use another model or prompt")
    if done.fit is False:
        click.get_current_context().exit(1)
