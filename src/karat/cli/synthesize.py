"""`karat synthesize`: generate queries with gold from a corpus."""

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


@click.command("synthesize", cls=KaratCommand, short_help="Generate queries with gold from a corpus, using a model.")
@click.argument("corpus")
@click.option("--paraphrase", is_flag=True, help="Rephrase the queries of a gold set, given in place of the corpus.")
@options_of(SynthesisOptions, "n", "variants")
@click.option("--output", "-o", default="synthetic.jsonl", show_default=True, metavar="FILE", help="Gold set to write.")
@click.option("--overwrite", is_flag=True, help="Overwrite an existing file.")
@options_of(SynthesisOptions, "no_answer_share", "model", *options_in(ModelOptions))
@dry_run_option
@chunk_options
@json_option
@table_option
def command(
    corpus: str,
    paraphrase: bool,
    output: str,
    overwrite: bool,
    dry_run: bool,
    tokens: int | None,
    overlap: int | None,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Generate queries from CORPUS, each with the chunk that answers it, the answer, and a quote that supports it.

    A query is kept only if the model finds the same answer again from the chunk alone, and if it differs enough from
    the other queries. Some queries have no answer in the corpus. All are marked as synthetic. Every reply of the model
    is cached, so repeating the command does not pay for it again.

    With --paraphrase, CORPUS is a gold set. The new gold set has its queries, and variants that ask the same in other
    words (`variant_of`), so that `karat eval` can show how much the wording matters.

    \b
    karat synthesize corpus.jsonl -n 200 --model gpt-4.1-mini --dry-run
    karat synthesize docs/ -n 50 --model qwen3 --base-url http://localhost:11434/v1 -o gold.jsonl
    karat synthesize gold.jsonl --paraphrase --model gpt-4.1-mini -o variants.jsonl
    """
    from pathlib import Path

    from karat.cli.scoring import check_outputs, read_chunks, run_paid
    from karat.errors import ConfigError
    from karat.files.atomic_write import check_writable
    from karat.files.progress import working
    from karat.report.models import synthesis_report
    from karat.results.numbers import counted
    from karat.settings import load_config
    from karat.systems.synthesize.paraphrase import Paraphrasing
    from karat.systems.synthesize.synthesize import Synthesizing

    target = Path(output)
    options = named_options(options)
    check_outputs(outputs, corpus)
    check_writable(target, [corpus, *input_files(options, SynthesisOptions)])
    if target.exists() and not overwrite:
        hint = "replace it with --overwrite, or choose another file with -o"
        raise ConfigError("this file already exists", code="would-overwrite", file=output, hint=hint)
    if "model" not in options:
        raise ConfigError(
            "no model is given",
            code="missing-option",
            expected="--model NAME",
            hint="use --base-url if the model is not at OpenAI",
        )
    options = {"prices": load_config().prices, **options}
    making: Synthesizing | Paraphrasing
    with working("reading"):
        if paraphrase:
            making = Paraphrasing(corpus, **options)
        else:
            making = Synthesizing(read_chunks(corpus, tokens, overlap), **options)
    done = run_paid(making.estimate(), partial(making.run, target), synthesis_report, dry_run, as_json, outputs)
    if done is None:
        return
    if not done.queries:
        raise ConfigError(
            f"no query was kept: {done.rejected_examples[0]}", code="nothing-kept", hint="use another model"
        )
    say(f"wrote {output}: {counted(len(done.queries))} in {done.seconds:.1f} s", err=True)
