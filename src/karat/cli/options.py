"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class NeedsGold(click.Command):
    """A command whose gold set is an option: said to those who give it as a second argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is None or error.param.name != "gold":
                raise
            run, gold = given if len(given) == 2 else (given[0], "GOLD")
            raise click.UsageError(
                f"the gold set is missing\nhint: {ctx.command_path} {run} --gold {gold}", ctx
            ) from None


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator for several, shown in the order in which they are given."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


reading_options = all_of(
    click.option("--run-format", metavar="NAME", help="Format of the run (default: recognised from its content)."),
    click.option("--gold-format", metavar="NAME", help="Format of the gold set (default: recognised)."),
    click.option("--target", metavar="FIELD", help="Field that holds the target of a single-target set."),
    click.option("--split", default="test", show_default=True, help="Which qrels of a BEIR folder."),
    click.option("--system", help="Only this system of a run that holds several."),
    click.option(
        "--hits",
        type=click.Choice(["topk", "raw", "topk_original"]),
        default="topk",
        show_default=True,
        help="Which lists of a run log: the final ones, those before reranking, or those before rewriting.",
    ),
)


engine_options = all_of(
    click.option(
        "--engine",
        metavar="NAME",
        default="local",
        show_default=True,
        help="Where it is worked out: local, processes (all cores) or spark.",
    ),
    click.option("--spark-master", metavar="URL", help="spark://host:7077, sc://host:15002, local[2] …; for spark."),
    click.option(
        "--run-columns",
        metavar="FILE",
        help="YAML that says what the columns of a table are for, such as `query_id: request_id`.",
    ),
)


def _named_runs(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, run in pairs:
        if not (name and equals and run):
            raise click.BadParameter(f"{name + equals + run!r} is not of the form NAME=RUN", ctx, option)
    return {name: run for name, _, run in pairs}


stage_options = all_of(
    click.option("--bm25", metavar="RUN", help="Run of BM25 to show beside.  [default: search in --corpus]"),
    click.option("--raw", metavar="RUN", help="Run with the lists before reranking, where the log has no `raw`."),
    click.option(
        "--original", metavar="RUN", help="Run with the lists before rewriting, where the log has no `topk_original`."
    ),
    click.option(
        "--route",
        "routes",
        multiple=True,
        metavar="NAME=RUN",
        callback=_named_runs,
        help="Run that asked the source NAME only, to tell what routing costs; repeat for more.",
    ),
)

metric_option = click.option(
    "--metric",
    "-m",
    "metrics",
    multiple=True,
    help="Metric such as recall@5; repeat for more. `karat metrics` lists them.",
)

doc_option = click.option(
    "--doc-of",
    default="#",
    show_default=True,
    help="What parts a chunk id from its document: a separator, or a regular expression with a group.",
)

scoring_options = all_of(
    click.option(
        "--k",
        type=click.IntRange(min=1),
        help="Cutoff for metrics that name none.  [default: karat.yaml, else 5]",
    ),
    click.option(
        "--missing",
        type=click.Choice(["worst", "skip"]),
        default="worst",
        show_default=True,
        help="Queries of the gold set that the run lacks.",
    ),
    click.option("--min-score", type=float, help="Cut hits with a lower score before evaluation."),
    doc_option,
    click.option("--no-future", is_flag=True, help="Remove hits newer than their query's as_of before evaluation."),
    click.option("--top-k", type=click.IntRange(min=1), help="Cut each list after so many hits before evaluation."),
    click.option("--prices", metavar="FILE", help="Price table in YAML, for the cost.  [default: karat.yaml's]"),
    click.option(
        "--no-answer",
        metavar="FIELD=VALUE",
        help="Which queries have no answer, besides those that say so: type=Null, or type=Null,None.",
    ),
    click.option(
        "--fuzzy-threshold",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.7,
        show_default=True,
        help="From which likeness on a chunk covers an evidence text.",
    ),
    click.option(
        "--corpus",
        help="Corpus (JSONL, BEIR folder or folder of texts): lends hits the texts and versions that the log left out; "
        "its size gives the random floor.",
    ),
    click.option(
        "--corpus-size", type=click.IntRange(min=1), help="Number of items in the corpus, for the random floor."
    ),
)

grade_option = click.option(
    "--max-grade", type=click.IntRange(1, 9), default=2, show_default=True, help="Highest grade of the labels."
)

bounds_option = click.option(
    "--bounds", is_flag=True, help="Also how far labels of unjudged hits could move each score: strict bounds."
)

judge_option = click.option(
    "--labels", multiple=True, metavar="FILE", help="Labels of a judge beside the gold set; repeat for more."
)

label_options = all_of(
    bounds_option,
    judge_option,
    click.option(
        "--calibration",
        metavar="FILE",
        help="Correct the judge: labels of people for some of its pairs, or what `karat calibrate` saved.",
    ),
    click.option("--pool", metavar="POOL", help="What other runs found: counts in the bounds."),
    grade_option,
)

segment_option = click.option(
    "--segment",
    "-s",
    "segments",
    multiple=True,
    metavar="NAME",
    help="Also by language, topic, language×topic (or language,topic), query_length, gold_items …; repeat for more.",
)

statistics_options = all_of(
    click.option(
        "--interval",
        "method",
        type=click.Choice(["bayes", "percentile", "bca", "strict"]),
        default="bayes",
        show_default=True,
        help="How intervals are made.",
    ),
    click.option("--confidence", "level", type=float, default=0.95, show_default=True, help="Level of the intervals."),
    click.option("--resamples", type=int, default=10_000, show_default=True, help="Resamples behind an interval."),
    click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same digits."),
    click.option(
        "--cluster",
        metavar="FIELD",
        help="Queries with the same value belong together; none: every query for itself.  "
        "[default: conversation_id, if given]",
    ),
)

gate_options = all_of(
    click.option("--gold", "-g", help="Gold set; not needed when RUN is a result saved by `karat eval`."),
    click.option("--criteria", "-c", metavar="FILE", help="Gates.  [default: ship-criteria.yaml]"),
    click.option("--gate", "gates", multiple=True, help="A gate as text, such as 'recall@5 >= 0.85'; repeat for more."),
    click.option("--baseline", "-b", metavar="RUN", help="A run or saved result that it may not fall behind."),
)

save_options = all_of(
    click.option("--save/--no-save", default=None, help="Keep it in the history.  [default: karat.yaml, else not]"),
    click.option("--tag", "tags", multiple=True, metavar="NAME", help="Keep it under this tag; repeat for more."),
)

store_option = click.option(
    "--store", metavar="PLACE", help="Folder or postgresql:// URL.  [default: KARAT_STORE, karat.yaml, else .karat]"
)

query_options = all_of(
    click.option("--gold-format", metavar="NAME", help="Format of the gold set (default: recognised)."),
    click.option("--target", metavar="FIELD", help="Field that holds the target of a single-target set."),
    click.option("--split", default="test", show_default=True, help="Which qrels of a BEIR folder."),
)

chunk_options = all_of(
    click.option("--chunk-tokens", "tokens", type=int, help="Words a chunk of a folder of texts.  [default: 200]"),
    click.option("--chunk-overlap", "overlap", type=int, help="Words shared with the chunk before.  [default: 40]"),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")

report_output = click.option(
    "--output",
    "-o",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write out.html, out.json or out.md; repeat for more.",
)
