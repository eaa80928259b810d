"""`karat labels pool`: collect pairs to label."""

from __future__ import annotations

from typing import Any

import click

from karat.cli.help import KaratCommand
from karat.cli.options import READING, Count, json_option, options_of, reading_options, table_option
from karat.cli.say import say
from karat.labels.options import LabelOptions
from karat.scoring.options import Options


@click.command("pool", cls=KaratCommand, short_help="Collect unjudged hits of runs for labelling.")
@click.argument("runs", nargs=-1)
@click.option("--gold", "-g", help="Gold set, or a file of queries without judgements.")
@click.option("--output", "-o", required=True, metavar="FILE", help="Pool to write, JSONL.")
@click.option(
    "--traces",
    metavar="FILE",
    help="Draw questions from these traces, or from a run log with query texts, instead of RUNS.",
)
@click.option("--questions", metavar="FILE", help="Questions to write, JSONL: the start of a gold set.")
@click.option(
    "--max-questions", "size", type=Count(1), metavar="N", help="Number of questions to draw.  [default: 200]"
)
@click.option("--by", metavar="FIELD", help="Draw from each day, route, language or value of an attribute.")
@click.option(
    "--redact",
    multiple=True,
    metavar="PATTERN",
    help="Replace in all texts: email, phone, card, ip, iban, or a regular expression; repeat for more.",
)
@click.option("--depth", "k", type=Count(1), default=10, show_default=True, help="Hits of each run to include.")
@click.option("--corpus", help="Corpus with the texts and titles of hits.")
@click.option("--labelled", multiple=True, metavar="FILE", help="Existing labels; repeat for more.")
@options_of(LabelOptions, "max_grade", "gold_scale")
@click.option("--only-differences", is_flag=True, help="Only pairs whose label can change how the runs compare.")
@click.option(
    "--settle",
    is_flag=True,
    help="Order pairs so that labels settle the comparison of two runs soonest, and estimate how many are needed.",
)
@click.option("--budget", type=Count(1), metavar="N", help="Only the N pairs that can change it most.")
@click.option("--sample", type=Count(1), metavar="N", help="Only N random pairs.")
@click.option("--metric", "-m", help="Metric of the comparison.  [default: ndcg@k]")
@options_of(Options, "seed", help="Seed of the order and the sample.")
@options_of(Options, "doc_of", "scores")
@json_option
@table_option
@reading_options
def command(
    runs: tuple[str, ...],
    gold: str | None,
    output: str,
    traces: str | None,
    questions: str | None,
    labelled: tuple[str, ...],
    max_grade: int,
    gold_scale: float | None,
    as_json: bool,
    outputs: tuple[str, ...],
    **options: Any,
) -> None:
    """Collect the unjudged pairs among the first hits of RUNS, each once, in random order or as a queue (--settle).

    `karat labels label` shows them to a person, `karat labels judge` to a model. Neither sees ranks and runs, which
    are in the field `origin`.

    \b
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl --corpus corpus.jsonl -o pool.jsonl
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl --budget 100 -o pool.jsonl
    karat labels pool old.jsonl new.jsonl --gold gold.jsonl --settle -o pool.jsonl
    karat labels pool run.jsonl --gold gold.jsonl --sample 200 -o pool.jsonl
    karat labels pool --traces traces.jsonl --by day --redact email --questions questions.jsonl -o pool.jsonl
    """
    from msgspec.structs import replace

    from karat.cli.scoring import check_lines, check_outputs, mapped_fields, meaning_of_scores, show
    from karat.files.progress import working
    from karat.formats.read import read_run
    from karat.labels.files import read_labels, write_pairs
    from karat.labels.labelled_gold import read_gold_or_queries, with_labels
    from karat.labels.pool import make_pool
    from karat.report.labels import pool_report
    from karat.results.numbers import counted

    drawing = {name: options.pop(name) for name in ("size", "by", "redact")}
    _check_usage(runs, gold, traces, questions, drawing, options["hits"])
    check_outputs(outputs, *runs, gold, *labelled, traces)
    for written in (output, questions):
        if written is not None:
            check_lines(written, [*runs, gold, *labelled, options["corpus"], traces])
    options["columns"] = mapped_fields(options["columns"])
    options["scores"] = meaning_of_scores(options["scores"])
    asked = Options(**{name: options.pop(name) for name in READING})
    drawn = None
    with working("pooling"):
        judged = None if gold is None else read_gold_or_queries(gold, **asked.of_gold)
        if traces is not None:
            drawn, options["corpus"] = _draw(traces, judged, asked, drawing, options)
            judged, read = drawn.gold(), [drawn.run()]
        else:
            read = [read_run(run, **asked.of_run) for run in runs]
        assert judged is not None
        if labelled:
            labels = read_labels(*labelled, highest=max_grade)
            doc_of = options["doc_of"]
            judged = with_labels(judged, labels, doc_of=doc_of, highest=max_grade, gold_scale=gold_scale)
        if asked.columns is not None:
            asked.columns.refuse_unused()
        pool = make_pool(read, judged, **options)
    summary = pool.summary if drawn is None else replace(pool.summary, sampled=drawn.summary)
    if drawn is not None and questions is not None:
        drawn.save(questions)
    write_pairs(output, pool.entries if drawn is None else drawn.redacted(pool.entries))
    show([summary], pool_report, as_json, outputs)
    if drawn is not None:
        say(f"wrote {questions}: {counted(drawn.summary.drawn, 'question')}", err=True)
    say(f"wrote {output}: {counted(summary.pairs, 'pair')}", err=True)


def _check_usage(
    runs: tuple[str, ...],
    gold: str | None,
    traces: str | None,
    questions: str | None,
    drawing: dict[str, Any],
    hits: str,
) -> None:
    """Runs need a gold set; traces need a file for the questions."""
    if traces is not None and runs:
        hint = "draw the questions first, then pool runs with `--gold QUESTIONS`"
        raise click.UsageError(f"--traces and RUNS cannot be used together\nhint: {hint}")
    if traces is not None and hits != "topk":
        raise click.UsageError("--hits cannot be used with --traces: the final lists are pooled")
    if traces is not None and questions is None:
        raise click.UsageError("--traces needs a file for the drawn questions\nhint: add --questions questions.jsonl")
    if traces is None and (questions is not None or any(drawing.values())):
        raise click.UsageError("--questions, --max-questions, --by and --redact need --traces FILE")
    if traces is None and not runs:
        raise click.UsageError("Missing argument 'RUNS...'.\nhint: name a run, or use --traces FILE")
    if traces is None and gold is None:
        hint = "give a gold set or a file of queries, or draw the questions: --traces RUN --questions questions.jsonl"
        raise click.UsageError(f"Missing option '--gold' / '-g'.\nhint: {hint}")


def _draw(traces: str, gold: Any, asked: Options, drawing: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """The questions, and the corpus, read once."""
    from karat.formats.corpus import is_text_folder, read_corpus
    from karat.labels.production import draw_questions

    corpus = options["corpus"]
    if corpus is not None and not is_text_folder(corpus):
        corpus = read_corpus(corpus, columns=asked.columns)
    drawn = draw_questions(
        traces,
        gold=gold,
        corpus=corpus,
        seed=options["seed"],
        query_from=asked.query_from,
        columns=asked.columns,
        system=asked.system,
        **{**drawing, "size": drawing["size"] or 200},
    )
    return drawn, corpus
