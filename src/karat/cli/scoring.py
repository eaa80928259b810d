"""What commands share: reading and scoring files, showing what comes of it, keeping it in the history."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from karat.labels.options import LabelOptions
from karat.options.option import options_in
from karat.scoring.options import Options, named_sampling
from karat.statistics.sampling import Sampling

if TYPE_CHECKING:
    import msgspec

    from karat.data.corpus import Corpus
    from karat.gates.criteria import Criteria
    from karat.gates.verdicts import Verdicts
    from karat.history.store import Store
    from karat.llm.client import CostEstimate
    from karat.report.blocks import Report
    from karat.results.analyses.base import Consumer
    from karat.results.result import Result
    from karat.scoring.extra_labels import Labelling


def score_files(
    run: str,
    gold: str,
    metrics: Sequence[str] | None,
    options: Mapping[str, Any],
    *,
    analyses: bool = False,
    consumers: Sequence[Consumer] = (),
) -> list[Result]:
    """One result for each system of a run. `options`: those that the command line names; `consumers` declare what the
    results will be asked for."""
    from karat.errors import ConfigError
    from karat.files.git import code_date, code_version
    from karat.files.progress import working
    from karat.results.evaluate import evaluate_all
    from karat.results.saved import is_saved
    from karat.scoring.metrics.grammar import REGISTRY
    from karat.settings import load_config

    REGISTRY.refuse_clashes()
    if is_saved(run):
        raise ConfigError(
            "this is a saved result, which keeps no hits", code="no-hits-kept", file=run, hint="give the run itself"
        )
    config = load_config()
    asked: dict[str, Any] = {"k": config.metrics.retrieval.default_k, "prices": config.prices, "analyses": analyses}
    asked |= {name: value for name, value in options.items() if name in options_in(Options)}
    asked["labelling"] = _labelling(options, Options(**asked).doc_of)
    with working(f"scoring {run}"):
        results = evaluate_all(run, gold, metrics or None, consumers=consumers, **asked)
    code = {"code_version": code_version(), "code_date": code_date()}
    for result in results.values():
        result.provenance.update({name: value for name, value in code.items() if value})
    return list(results.values())


def _labelling(options: Mapping[str, Any], doc_of: str) -> Labelling | None:
    """Labels beside the gold set; most evaluations have none, and import nothing for them."""
    asked = LabelOptions(**{name: value for name, value in options.items() if name in options_in(LabelOptions)})
    if not (asked.bounds or asked.labels or asked.calibration):
        return None
    from karat.labels.beside_gold import read_labelling

    return read_labelling(
        asked.labels,
        asked.calibration,
        bounds=asked.bounds,
        pool=asked.pool,
        doc_of=doc_of,
        highest=asked.max_grade,
    )


def read_chunks(corpus: str, tokens: int | None, overlap: int | None) -> Corpus:
    """A corpus, cut as the command line says."""
    from karat.formats.corpus import read_corpus
    from karat.formats.text_folder import Chunker

    given = {name: value for name, value in (("tokens", tokens), ("overlap", overlap)) if value is not None}
    return read_corpus(corpus, Chunker(**given) if given else None)


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """How intervals are made, as far as the command line says it."""
    return named_sampling(options, Sampling())


def results_of(
    side: str, gold: str | None, metrics: Sequence[str] | None, options: Mapping[str, Any], **more: Any
) -> list[Result]:
    """Results of a run file, or those that a file saved by `karat eval` holds. `more`: as in `score_files`."""
    from karat.results.comparison.sides import as_results
    from karat.results.saved import is_saved

    if gold is None or is_saved(side):
        asked = {name: value for name, value in options.items() if name in options_in(Options)}
        return as_results(side, gold, metrics or None, asked)  # type: ignore[arg-type]
    return score_files(side, gold, metrics, options, **more)


def sides_of(
    run: str,
    gold: str | None,
    criteria: Criteria,
    baseline: str | None,
    options: Mapping[str, Any],
    *,
    consumers: Sequence[Consumer] = (),
    analyses: bool = False,
) -> tuple[Result, Criteria, Result | None]:
    """What gates look at: the run, the gates and the baseline, measured in what the gates ask for."""
    from karat.gates.gate import baseline_metrics, gate_metrics, only_one

    metrics = gate_metrics(criteria)
    result = only_one(results_of(run, gold, metrics, options, consumers=consumers, analyses=analyses), "run")
    if baseline is None:
        return result, criteria, None
    measured = baseline_metrics(baseline, metrics)
    before = results_of(baseline, gold, measured, options, consumers=consumers)
    return result, criteria, only_one(before, "baseline")


def check_outputs(outputs: Sequence[str], inputs: Sequence[str | None]) -> None:
    """Refuse what cannot be written before any work is done for it."""
    from karat.errors import ConfigError
    from karat.report.export import check_target

    for output in outputs:
        if not output.endswith((".html", ".json", ".md")):
            raise ConfigError(f"cannot write {output!r}", code="unknown-output", expected=".html, .json or .md")
        check_target(output, inputs=[path for path in inputs if path])


def show(
    saved: Sequence[msgspec.Struct],
    reports: list[Report],
    as_json: bool,
    outputs: Sequence[str],
    page: Callable[[], Report] | None = None,
) -> None:
    """Print tables or JSON, and write the files that were asked for. `page`: what HTML shows, if more than that."""
    from karat.data.saved import json_text
    from karat.files.atomic_write import write_whole
    from karat.report.build import joined
    from karat.report.renderers.terminal import print_report, terminal_console

    value = saved[0] if len(saved) == 1 else saved
    if as_json:
        print_json(value)
    else:
        console = terminal_console()
        for i, report in enumerate(reports):
            if i:
                console.print()
            print_report(report, console)
    for output in outputs:
        if output.endswith(".json"):
            content = json_text(value)
        elif output.endswith(".html"):
            content = page_text(page() if page else joined(reports))
        else:
            content = markdown_text(reports)
        write_whole(output, content)
        click.echo(f"wrote {output}", err=True)


def show_estimate(estimate: CostEstimate, dry_run: bool, as_json: bool) -> None:
    """What a model will be asked: told before it is paid for; the only output of a dry run."""
    from karat.report.models import estimate_text

    if dry_run and as_json:
        print_json(estimate)
    else:
        click.echo(estimate_text(estimate), err=not dry_run)


def page_text(report: Report) -> bytes:
    from karat.report.export import page

    return page(report, command_line())


def markdown_text(reports: list[Report]) -> bytes:
    from karat.report.renderers.markdown import render_markdown

    return "\n".join(map(render_markdown, reports)).encode()


def command_line() -> str:
    """The command that is running, as one would type it."""
    import shlex
    import sys

    return shlex.join(["karat", *sys.argv[1:]])


def print_json(value: Any) -> None:
    """JSON on standard output, in which a CI server finds no `##[command]`: it reads the same with # written out."""
    from karat.data.saved import json_text

    text = value if isinstance(value, bytes) else json_text(value)
    click.echo(re.sub(r"##(?=\w*\[)", r"#\\u0023", text.decode()), nl=False)


class Keeper:
    """An open history, and how runs of this command are named in it."""

    def __init__(self, store: Store, tags: tuple[str, ...]) -> None:
        self._store, self._tags = store, tags

    def keep(self, result: Result, verdicts: Verdicts | None = None) -> None:
        from karat.files.git import code_branch
        from karat.files.progress import working
        from karat.history.keep import judgement, keep_result
        from karat.history.store import short

        with working("saving"):
            judged = [] if verdicts is None else [judgement(verdicts)]
            kept = keep_result(result)
            saved = self._store.save(kept, branch=code_branch(), tags=self._tags, judgements=judged)
        done = "saved" if saved.new else "was saved before"
        click.echo(f"{result.system or result.run}: {done} as {short(saved.id)} in {self._store.label}", err=True)


def open_for_saving(save: bool | None, tags: tuple[str, ...]) -> Keeper | None:
    """Opened before the work: a history that cannot be written is told at once."""
    from karat.settings import load_config

    wanted = bool(tags) or load_config().save if save is None else save
    if not (wanted or tags):
        return None
    from karat.history.opening import open_store
    from karat.history.store import checked_name

    for tag in tags:
        checked_name(tag, "tag")
    return Keeper(open_store(create=True), tags) if wanted else None
