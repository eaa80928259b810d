"""`karat synthesize`: queries with gold, made up from a corpus."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import (
    chunk_options,
    dry_run_option,
    input_files,
    json_option,
    named_options,
    options_of,
    table_option,
)
from karat.cli.say import say
from karat.llm.options import ModelOptions
from karat.options.option import options_in
from karat.systems.synthesize.options import SynthesisOptions


@click.command("synthesize", cls=KaratCommand, short_help="Let a model make up queries with gold from a corpus.")
@click.argument("corpus")
@options_of(SynthesisOptions, "n")
@click.option("--output", "-o", default="synthetic.jsonl", show_default=True, metavar="FILE", help="The gold set.")
@click.option("--overwrite", is_flag=True, help="Replace the file where it is there already.")
@options_of(SynthesisOptions, "no_answer_share", "model", *options_in(ModelOptions))
@dry_run_option
@chunk_options
@json_option
@table_option
def command(
    corpus: str,
    output: str,
    overwrite: bool,
    dry_run: bool,
    tokens: int | None,
    overlap: int | None,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Make up queries from CORPUS, each with the chunk that answers it, the answer, and the words that show it.

    A query is kept only if the model, given nothing but the chunk, finds the same answer again, and if it is unlike the
    others. Some queries have no answer in the corpus. All are marked as synthetic. Every answer of the model is kept
    on the disk: the same command, given again, pays for nothing twice.

    \b
    karat synthesize corpus.jsonl -n 200 --model gpt-4.1-mini --dry-run
    karat synthesize docs/ -n 50 --model qwen3 --base-url http://localhost:11434/v1 -o gold.jsonl
    """
    from pathlib import Path

    from karat.cli.scoring import check_outputs, read_chunks, run_paid
    from karat.errors import ConfigError
    from karat.files.atomic_write import check_writable
    from karat.files.progress import working
    from karat.report.models import synthesis_report
    from karat.settings import load_config
    from karat.systems.synthesize.synthesize import Synthesizing

    target = Path(output)
    options = named_options(options)
    check_outputs(outputs, corpus)
    check_writable(target, [corpus, *input_files(options, SynthesisOptions)])
    if target.exists() and not overwrite:
        hint = "--overwrite replaces it; -o names another"
        raise ConfigError(
            "this file is there already, and may be somebody's work", code="would-overwrite", file=output, hint=hint
        )
    if "model" not in options:
        raise ConfigError(
            "which model?",
            code="missing-option",
            expected="--model NAME",
            hint="--base-url says where, if not at OpenAI",
        )
    with working("reading"):
        chunks = read_chunks(corpus, tokens, overlap)
        making = Synthesizing(chunks, **{"prices": load_config().prices, **options})
    done = run_paid(making.estimate(), partial(making.run, target), synthesis_report, dry_run, as_json, outputs)
    if done is None:
        return
    if not done.queries:
        raise ConfigError(
            f"no query was kept: {done.rejected_examples[0]}", code="nothing-kept", hint="use another model"
        )
    say(f"wrote {output}: {len(done.queries):,} queries in {done.seconds:.1f} s", err=True)
