"""`gate`: judge runs or saved results by criteria."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from karat import __version__
from karat.errors import ConfigError
from karat.gates.criteria import Criteria, Gate, check_gates, find_criteria, parse_gate, read_criteria
from karat.gates.verdict_form import Verdicts
from karat.gates.verdicts import Baseline, GateJudge, overall
from karat.options.option import takes
from karat.results.analyses.base import Consumer
from karat.results.comparison.compare import Comparison, compare_need, compare_results
from karat.results.comparison.sides import SETTINGS, as_results, is_several, lists_read, refuse_different
from karat.results.doubts import gate_notes
from karat.results.numbers import percent
from karat.results.references import is_reference, is_saved
from karat.results.result import Result
from karat.scoring.judged import Rules
from karat.scoring.options import Options
from karat.scoring.views import OWN, Need

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords
    from karat.results.analyses.base import Consumer

_OLD = 90  # days after which the age of a baseline is noted


@takes(Options, gate="criteria", gates="criteria")
def gate(
    run: Any,
    gold: Any = None,
    criteria: str | Path | Criteria | Iterable[str | Gate] | None = None,
    *,
    baseline: Any = None,
    **options: Unpack[EvaluateKeywords],
) -> Verdicts:
    """Decide whether a run may ship. `run` and `baseline` are runs, results or saved results, as in `compare`.

    `criteria`: a file (default: ship-criteria.yaml), or gates as text such as `recall@5 >= 0.85`.
    """
    for side, what in ((run, "run"), (baseline, "baseline")):
        if is_several(side) and len(side) > 1:
            hint = "call karat.gate once for each" if what == "run" else "choose one"
            raise ConfigError(f"a gate takes one {what}, not {len(side)}", code="several-runs", hint=hint)
    asked = as_criteria(criteria)
    metrics = gate_metrics(asked)
    options = {"analyses": False, **options}
    result = only_one(as_results(run, gold, metrics, options, [compare_need(), *judge_needs(asked)]), "run")
    before = None
    if baseline is not None:
        measured = baseline_metrics(baseline, metrics)
        before = only_one(as_results(baseline, gold, measured, options, [compare_need()]), "baseline")
    return judge_result(result, asked, before)


def baseline_metrics(baseline: Any, metrics: list[str]) -> list[str] | None:
    """Metrics to measure on the baseline. None for a saved one, which may not have those that no gate compares."""
    return None if is_saved(baseline) else metrics


def as_criteria(criteria: str | Path | Criteria | Iterable[str | Gate] | None) -> Criteria:
    if criteria is None:
        return read_criteria(find_criteria())
    if isinstance(criteria, Criteria):
        return criteria
    if isinstance(criteria, Path) or (isinstance(criteria, str) and criteria.endswith((".yaml", ".yml"))):
        return read_criteria(Path(criteria))
    texts = [criteria] if isinstance(criteria, str) else criteria
    return Criteria(gates=check_gates([parse_gate(g) if isinstance(g, str) else g for g in texts]))


def asked_for(file: str | None, gates: Sequence[str]) -> Criteria:
    """The gates of a file and those given as text; the default file if neither is given."""
    if file is None and gates:
        return as_criteria(gates)
    criteria = read_criteria(find_criteria() if file is None else Path(file))
    return replace(criteria, gates=[*criteria.gates, *map(parse_gate, gates)])


def anchored(criteria: Criteria, anchor: str | None) -> Criteria:
    """Set the anchor of every gate that compares with a baseline and has no anchor of its own."""
    if anchor is None:
        return criteria
    for gate_ in criteria.gates:
        if gate_.compares and gate_.anchor is None:
            gate_.anchor = anchor
    return criteria


def judge_needs(criteria: Criteria) -> list[Consumer]:
    """What gates on judge labels need from the run."""
    if not any(gate_.labels == "judge" for gate_ in criteria.gates):
        return []
    from karat.gates.by_judge import judge_need

    return [judge_need]


def gate_metrics(criteria: Criteria) -> list[str]:
    """The metrics of all gates, without duplicates."""
    return list(dict.fromkeys(str(g.parsed) for g in criteria.gates))


def gate_need(criteria: Criteria) -> Consumer:
    """What `judge_result` needs without a breakdown: a proof must know whether the rankings are the same."""
    proves = any(g.on == "bound" and g.compares for g in criteria.gates)
    return lambda setup: Need(hashes=proves)


def judge_result(result: Result, criteria: Criteria, baseline: Result | None, *, breakdown: bool = True) -> Verdicts:
    """Judge a result. `breakdown`: include what changed by tag and by query, which only some outputs show."""
    said = gate_notes(result, criteria.max_missing)
    metrics = gate_metrics(criteria)
    result = result.also(metrics)
    judge = GateJudge(result, max_missing=criteria.max_missing)
    comparison, segments = None, []
    if baseline is not None:
        baseline = baseline.also(metrics)
        judge.baseline = Baseline(baseline.system or baseline.run, baseline)
        said += _same_measure(baseline, result, criteria, "the baseline")
        said += _age_note(baseline, result)
        compared = _breakdown(baseline, result, whole=breakdown)
        said += [note for note in compared.pairs[0].notes if note not in said]
        said += _separate_notes(criteria, result.sampling.level)
        comparison = compared if breakdown else None
    elif breakdown:
        segments = [row for tag in result.telling_tags() for row in result.segment_by(tag)]
    for gate_ in criteria.gates:
        if gate_.anchor is not None and gate_.anchor not in judge.anchors:
            anchor = _anchor(gate_.anchor, criteria)
            said += _same_measure(anchor.result, result, criteria, anchor.name)
            judge.anchors[gate_.anchor] = anchor
    verdicts = judge.verdicts(criteria)
    outcome, exit_code = overall(verdicts)
    return Verdicts(
        karat=__version__,
        outcome=outcome,
        exit_code=exit_code,
        run=result.system or result.run,
        baseline=None if baseline is None else baseline.system or baseline.run,
        gold=result.gold.label,
        dataset=result.gold.dataset,
        statistics=result.sampling.saved(result.cluster),
        queries=len(result.rows),
        verdicts=verdicts,
        notes=said,
        comparison=comparison,
        segments=segments,
    )


def _same_measure(before: Result, result: Result, criteria: Criteria, name: str) -> list[str]:
    try:
        return refuse_different(before, result, force=False)
    except ConfigError as error:
        error.hint = f"save {name} again: {_saving(before, result, criteria)}"
        raise


def _saving(before: Result, result: Result, criteria: Criteria) -> str:
    """The command that saves a baseline with the settings of a result."""
    asked = [f"-m {quote(metric)}" for metric in gate_metrics(criteria)]
    if criteria.file:
        asked = [f"--criteria {quote(str(criteria.file))}"]
    usual, options = Rules(), []
    for name in SETTINGS:
        value = getattr(result.rules, name)
        if value != getattr(usual, name):
            option = "--" + name.replace("_", "-")
            options.append(option if value is True else f"{option} {quote(str(value))}")
    lists = lists_read(result)
    options += [] if lists == OWN else [f"--hits {lists}"]
    options += [f"{option} {quote(value)}" for option, value in result.labelling.given]
    depth, reference = (result.provenance.get(name) for name in ("gold_depth", "reference"))
    options += [f"--depth {depth}"] if depth else []
    options += [f"--reference {quote(str(reference))}"] if reference not in (None, result.gold.label) else []
    files = f"karat eval {quote(before.run)} --gold {quote(result.gold.label)}"
    return " ".join([files, *asked, *options, "-o baseline.json"])


def _breakdown(baseline: Result, result: Result, *, whole: bool) -> Comparison:
    """What changed, by tag and by query, in the metrics of the gates. Without `whole`, only what notes need."""
    asked = [m for m in baseline.metrics if m in result.metrics] or baseline.metrics
    sides = [replace(baseline, metrics=asked), result]
    tags, changes = result.telling_tags(), 5 if whole else 0
    return compare_results(sides, segments=tags, sampling=result.sampling, changes=changes, test=whole)


def _anchor(path: str, criteria: Criteria) -> Baseline:
    if not is_saved(path):
        there, expected = Path(path).exists(), "an anchor saved with `karat eval … -o release.json`"
        what, code = ("not a saved result", "not-a-result") if there else ("no such file", "no-such-file")
        hint = f"see {criteria.file}; " if criteria.file else ""
        hint += f"for a run pinned in the history, write history:{Path(path).name}"
        raise ConfigError(what, code=code, file=path, expected=expected, hint=hint)
    name = f"the anchor {path if is_reference(path) else Path(path).name}"
    saved = only_one(as_results(path, None, None, {}), name.removeprefix("the "))
    return Baseline(name, saved.also(gate_metrics(criteria)))


def only_one(results: list[Result], what: str) -> Result:
    if len(results) > 1:
        said = f"the {what} has {len(results)} systems: {', '.join(r.system for r in results)}"
        hint = "pick one with --system" if what == "run" else "save one of them: karat eval … --system NAME -o FILE"
        raise ConfigError(said, code="several-systems", hint=hint)
    return results[0]


def _separate_notes(criteria: Criteria, level: float) -> list[str]:
    """Notes on gates that check the values of one attribute one by one, without a correction for their number."""
    groups: dict[tuple[str, str], int] = {}
    for gate_ in criteria.gates:
        if gate_.compares and gate_.on == "mean" and gate_.segment:
            key = str(gate_.parsed), "×".join(sorted(gate_.segment))
            groups[key] = groups.get(key, 0) + 1
    notes = []
    for (metric, attribute), many in groups.items():
        chance = 1 - ((1 + level) / 2) ** many  # a drop fails beyond one end of its interval
        if chance > 1 - level:
            notes.append(
                f"{many} gates check {metric} for one {attribute} each. If each fails by chance in "
                f"{percent((1 - level) / 2)} of comparisons, at least one does in {percent(chance)}. One gate with "
                f"`each: {attribute}` corrects for that."
            )
    return notes


def _age_note(baseline: Result, result: Result) -> list[str]:
    """A note on an old baseline, which may no longer be what runs in production."""
    days = [side.provenance.get("code_date") for side in (baseline, result)]
    try:
        before, now = (date.fromisoformat(str(day)) for day in days)
    except ValueError:
        return []
    age = (now - before).days
    return [f"The baseline is {age} days older than the run."] if age > _OLD else []
