"""Shared by commands: read and score files, show results, save them to the history."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from karat.cli.options import input_files, with_gold
from karat.cli.say import say, say_data, say_rendered
from karat.errors.redaction import redact
from karat.labels.options import LabelOptions
from karat.options.option import options_in
from karat.scoring.options import Options

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.data.hits import ScoreMeaning
    from karat.gates.criteria import Criteria
    from karat.gates.verdict_form import Verdicts
    from karat.history.store import Store
    from karat.llm.client import CostEstimate
    from karat.report.blocks import Report
    from karat.results.analyses.base import Consumer
    from karat.results.result import Result
    from karat.scoring.extra_labels import Labelling
    from karat.scoring.metrics.base import Metric

T = TypeVar("T")


def score_files(
    run: Any,
    gold: Any,
    metrics: Sequence[str | Metric] | None,
    options: Mapping[str, Any],
    *,
    analyses: bool = False,
    consumers: Sequence[Consumer] = (),
    with_commit: bool = True,
) -> list[Result]:
    """Score a run (a file or records); return one result per system. `options`: those given on the command line.
    `consumers` declare what the results must contain. `with_commit`: note the commit of the code, which takes three
    processes and is not in a short report."""
    load_numpy()
    from karat.errors import ConfigError
    from karat.files.git import code_date, code_version
    from karat.files.progress import working
    from karat.results.pipeline import score_systems
    from karat.results.references import is_saved
    from karat.scoring.metrics.grammar import REGISTRY
    from karat.scoring.peers import options_like

    REGISTRY.refuse_clashes()
    if is_saved(run):
        hint = f"give the run that it was made from: {with_gold('karat eval', [run])}"
        raise ConfigError("this is a saved result, which has no hits", code="no-hits-kept", file=run, hint=hint)
    asked = evaluation_options(options) | {"analyses": analyses}
    asked["labelling"] = _labelling(options, Options(**asked).doc_of)
    name = run if isinstance(run, str) else getattr(run, "label", "the answers")
    with working(f"scoring {name}"):
        results = score_systems(run, gold, metrics or None, Options(**options_like(asked)), consumers)
    code = {"code_version": code_version(), "code_date": code_date()} if with_commit else {}
    for result in results.values():
        result.provenance.update({name: value for name, value in code.items() if value})
    return list(results.values())


def evaluation_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an evaluation: those of the command line, else of karat.yaml."""
    from karat.settings import load_config

    config = load_config()
    asked: dict[str, Any] = {"k": config.metrics.retrieval.default_k, "prices": config.prices}
    asked |= {"scores": config.scores, "normalize_ids": config.normalize_ids}
    asked |= {name: value for name, value in options.items() if name in options_in(Options)}
    return asked | {"columns": mapped_fields(asked.get("columns"))}


def meaning_of_scores(said: ScoreMeaning | None) -> ScoreMeaning | None:
    """What scores mean, by the command line, else by karat.yaml."""
    from karat.settings import load_config

    return said or load_config().scores


def gold_once(gold: str | None, options: Mapping[str, Any]) -> Any:
    """A gold set for several runs, which is read once."""
    from karat.formats.read import SharedGold, is_run_as_gold, read_gold

    if not is_run_as_gold(gold):
        return None if gold is None else SharedGold(gold)
    load_numpy()
    asked = Options(**evaluation_options(options))
    return read_gold(gold, **asked.replace(columns=asked.fields).of_gold)


def load_numpy() -> None:
    """Load numpy with one thread for linear algebra, unless the environment sets a number. An evaluation does not need
    more, and starting them would take a quarter of the startup time."""
    chosen = {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"} & os.environ.keys()
    if "numpy" in sys.modules:
        return
    from karat.files.machine import keep_freed_memory

    keep_freed_memory()
    if chosen:
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        import numpy  # noqa: F401 - OpenBLAS reads the variable now, once
    finally:
        del os.environ["OPENBLAS_NUM_THREADS"]


def _labelling(options: Mapping[str, Any], doc_of: str) -> Labelling | None:
    """Return the extra labels; without any, nothing is imported."""
    asked = LabelOptions(**{name: value for name, value in options.items() if name in options_in(LabelOptions)})
    if not (asked.bounds or asked.labels or asked.gold_labels or asked.calibration or asked.gold_scale):
        return None
    from karat.labels.labelled_gold import read_labelling

    return read_labelling(
        asked.labels,
        asked.calibration,
        bounds=asked.bounds,
        pool=asked.pool,
        borrow=asked.borrow,
        doc_of=doc_of,
        highest=asked.max_grade,
        gold_scale=asked.gold_scale,
        people=asked.gold_labels,
    )


def whole_numbers(text: str, option: str, kind: str, example: str) -> list[int]:
    """Parse whole numbers separated by commas."""
    from karat.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        what = f"{option} has an invalid {kind}"
        raise ConfigError(what, expected=f"such as {example}", got=text) from None


def mapped_fields(said: Any) -> Any:
    """Return the field map of the command line, else that of karat.yaml, which applies to the files that it fits."""
    from karat.settings import load_config

    settings = None if said else "karat.yaml"
    said = said or load_config().map
    if said is None:
        return None
    from karat.formats.field_map import FieldMap

    return FieldMap.of(said, settings=settings)


def read_chunks(corpus: str, tokens: int | None, overlap: int | None, columns: Any = None) -> Corpus:
    """Read a corpus, in chunks as the command line sets them."""
    from karat.formats.corpus import Chunker, read_corpus

    given = {name: value for name, value in (("tokens", tokens), ("overlap", overlap)) if value is not None}
    return read_corpus(corpus, Chunker(**given) if given else None, columns=columns)


def results_of(
    side: Any, gold: Any, metrics: Sequence[str | Metric] | None, options: Mapping[str, Any], **more: Any
) -> list[Result]:
    """Return the results of a run file or records, or those saved by `karat eval`. `more`: as in `score_files`."""
    from karat.results.comparison.sides import as_results
    from karat.results.references import is_saved

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
) -> tuple[Result, Result | None]:
    """Return the results of run and baseline, with the metrics of the gates."""
    load_numpy()
    from karat.errors import ConfigError
    from karat.formats.read import SharedGold
    from karat.gates.gate import baseline_metrics, gate_metrics, only_one
    from karat.results.references import is_saved

    labelled = next((name for name in ("labels", "gold_labels", "calibration") if options.get(name)), None)
    if labelled and is_saved(run):
        what = f"--{labelled.replace('_', '-')} needs the run file: a saved result has no hits"
        raise ConfigError(what, code="no-hits-kept", file=run, hint="give the run file")
    system = options.get("system")
    if system and baseline and os.path.exists(baseline) and os.path.exists(run) and os.path.samefile(baseline, run):
        what = f"the baseline is the same as the run: --system {system} applies to both"
        hint = f"save the other system first: karat eval {run} --gold GOLD --system OTHER -o baseline.json"
        raise ConfigError(what, code="same-run", file=baseline, hint=hint)
    metrics = gate_metrics(criteria)
    gold = None if gold is None else SharedGold(gold)
    result = only_one(results_of(run, gold, metrics, options, consumers=consumers, analyses=analyses), "run")
    if baseline is None:
        return result, None
    measured = baseline_metrics(baseline, metrics)
    found = results_of(baseline, gold, measured, {**options, "system": None}, consumers=consumers)
    named = [side for side in found if side.system == system]  # a baseline of one system may have another name
    return result, only_one(named if len(found) > 1 and named else found, "baseline")


def check_outputs(
    outputs: Sequence[str],
    *inputs: str | None,
    options: Mapping[str, Any] | None = None,
    expected: str = ".html, .json or .md, or NAME=FILE with .csv or .parquet for one table",
) -> None:
    """Raise ConfigError for outputs that cannot be written, before any work. `options` may name more inputs."""
    from karat.errors import ConfigError
    from karat.files.atomic_write import check_writable
    from karat.report.tables import table_target

    given = [path for path in (*inputs, *input_files(options or {})) if path]
    for output in outputs:
        table = table_target(output)
        if table is None and not output.endswith((".html", ".json", ".md")):
            raise ConfigError(f"cannot write {output!r}", code="unknown-output", expected=expected)
        check_writable(output if table is None else table[1], given)


def check_lines(output: str, given: Sequence[str | None]) -> None:
    """Raise ConfigError if JSON lines cannot be written to this file, or its name promises a page."""
    from karat.errors import ConfigError
    from karat.files.atomic_write import check_writable

    if output.endswith((".html", ".md")):
        hint = f"--report {output} writes what is shown"
        raise ConfigError(f"cannot write {output!r}", code="unknown-output", expected="a .jsonl file", hint=hint)
    check_writable(output, given)


def show(
    found: Sequence[T],
    report: Callable[[T], Report],
    as_json: bool,
    outputs: Sequence[str] = (),
    page: Callable[[], Report] | None = None,
    audited: Sequence[Result] = (),
    printed: Callable[[T], Report] | None = None,
) -> None:
    """Print tables or JSON, and write the output files. `page`: the HTML report, if it differs; `printed`: what the
    terminal shows, if it differs. `audited`: results whose audits are shown and can be written as a table."""
    value = found[0] if len(found) == 1 else found
    if as_json:
        print_json(value)
    else:
        print_reports(map(printed or report, found))
    if not outputs:
        return
    from karat.report.present import write

    for output in outputs:
        say(f"wrote {write(found, output, report, page, audited, command_line())}", err=True)


def print_reports(reports: Iterable[Report]) -> None:
    from karat.report.renderers.terminal import render_terminal, terminal_codes, terminal_width

    width, codes = terminal_width(), terminal_codes()
    for i, report in enumerate(reports):
        say_rendered("\n" * bool(i) + render_terminal(report, width, codes), color=True)


def run_paid(
    estimate: CostEstimate,
    work: Callable[..., T],
    report: Callable[[T], Report],
    dry_run: bool,
    as_json: bool,
    outputs: Sequence[str] = (),
) -> T | None:
    """Show the estimated cost, then run the work. A dry run only shows the estimate."""
    from karat.files.progress import counting
    from karat.report.models import estimate_text

    if dry_run and as_json:
        print_json(estimate)
    else:
        say(estimate_text(estimate), err=not dry_run)
    if dry_run:
        return None
    try:
        done = work(progress=counting)
    except KeyboardInterrupt:
        say("stopped; run the same command to continue. Finished calls are not paid for again", err=True)
        raise
    show([done], report, as_json, outputs)
    return done


def page_text(report: Report) -> bytes:
    from karat.report.export import page

    return page(report, command_line())


def command_line() -> str:
    """Return the current command line, without secrets."""
    import shlex

    return shlex.join(["karat", *map(redact, sys.argv[1:])])


def print_json(value: Any) -> None:
    """Print JSON. `##[command]` is escaped, so that CI servers do not run it."""
    from karat.data.saved import json_text

    text = value if isinstance(value, bytes) else json_text(value)
    say_data(re.sub(r"##(?=\w*\[)", r"#\\u0023", text.decode()))


class Keeper:
    """Saves results to an open history, with the tags of this command."""

    def __init__(self, store: Store, tags: tuple[str, ...]) -> None:
        self._store, self._tags = store, tags

    def keep(self, result: Result, verdicts: Verdicts | None = None) -> None:
        from karat.files.git import code_author, code_branch
        from karat.files.progress import working
        from karat.history.keep import judgement, keep_result
        from karat.history.store import short

        with working("saving"):
            judged = [] if verdicts is None else [judgement(verdicts)]
            kept = keep_result(result)
            origin = {"branch": code_branch(), "author": code_author()}
            saved = self._store.save(kept, **origin, tags=self._tags, judgements=judged)
        done = "saved" if saved.new else "already saved"
        say(f"{result.system or result.run}: {done} as {short(saved.id)} in {self._store.label}", err=True)


def open_for_saving(save: bool | None, tags: tuple[str, ...]) -> Keeper | None:
    """Open the history before any work, so that errors show early; None if nothing is to be saved."""
    from karat.settings import load_config

    wanted = bool(tags) or load_config().save if save is None else save
    if not (wanted or tags):
        return None
    from karat.history.location import open_store
    from karat.history.store import checked_name

    for tag in tags:
        checked_name(tag, "tag")
    return Keeper(open_store(create=True), tags) if wanted else None
