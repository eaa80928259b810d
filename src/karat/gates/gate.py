"""`gate`: from runs or saved results and criteria to verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from karat.comparison.compare import compare_results
from karat.comparison.sides import as_results, refuse_different
from karat.errors import ConfigError
from karat.gates.criteria import Criteria, Gate, check_gates, find_criteria, read_criteria
from karat.gates.text_form import parse_gate
from karat.gates.verdicts import Baseline, Judge, Verdicts, overall
from karat.result import Result

_OLD = 90  # days after which a baseline is worth a note
_GROUPS, _TAGS = 15, 5  # a breakdown with more is no longer read


def gate(
    run: Any,
    gold: Any = None,
    criteria: str | Path | Criteria | Iterable[str | Gate] | None = None,
    *,
    baseline: Any = None,
    **options: Any,
) -> Verdicts:
    """May this run ship? `run` and `baseline` are runs, results or saved results, as in `compare`.

    `criteria`: a file (default: ship-criteria.yaml), or gates as text such as `recall@5 >= 0.85`.
    Options are those of `evaluate`.
    """
    asked = as_criteria(criteria)
    metrics = gate_metrics(asked)
    result = only_one(as_results(run, gold, metrics, options), "run")
    before = None if baseline is None else only_one(as_results(baseline, gold, metrics, options), "baseline")
    return judge_result(result, asked, before, age_note(baseline))


def as_criteria(criteria: str | Path | Criteria | Iterable[str | Gate] | None) -> Criteria:
    if criteria is None:
        return read_criteria(find_criteria())
    if isinstance(criteria, Criteria):
        return criteria
    if isinstance(criteria, Path) or (isinstance(criteria, str) and criteria.endswith((".yaml", ".yml"))):
        return read_criteria(Path(criteria))
    texts = [criteria] if isinstance(criteria, str) else criteria
    return Criteria(gates=check_gates([parse_gate(g) if isinstance(g, str) else g for g in texts]))


def gate_metrics(criteria: Criteria) -> list[str]:
    """What must be measured, each metric once."""
    return list(dict.fromkeys(str(g.parsed) for g in criteria.gates))


def judge_result(result: Result, criteria: Criteria, baseline: Result | None, notes: Sequence[str] = ()) -> Verdicts:
    from karat import __version__

    said = list(notes)
    judge = Judge(result, max_missing=criteria.max_missing)
    if baseline is not None:
        said += refuse_different(baseline, result, force=False)
        judge.baseline = Baseline(baseline.system or baseline.run, baseline)
    for gate_ in criteria.gates:
        if gate_.anchor is not None and gate_.anchor not in judge.anchors:
            anchor = _anchor(gate_.anchor)
            said += refuse_different(anchor.result, result, force=False)
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
        statistics={**msgspec.structs.asdict(result.sampling), "cluster": result.cluster},
        queries=len(result.rows),
        verdicts=verdicts,
        notes=said,
        comparison=None if baseline is None else compare_results([baseline, result], segments=_tags(result)),
        segments=[] if baseline is not None else [row for tag in _tags(result) for row in result.segment_by(tag)],
    )


def _tags(result: Result) -> list[str]:
    """Tags that part the queries into a handful of groups."""
    parted = [(tag, len(result.groups(tag))) for tag in result.gold.tags]
    return [tag for tag, groups in parted if 1 < groups <= _GROUPS][:_TAGS]


def _anchor(path: str) -> Baseline:
    (found,) = as_results(path, None, None, {})[:1]
    return Baseline(f"the anchor {Path(path).name}", found)


def only_one(results: list[Result], what: str) -> Result:
    if len(results) > 1:
        systems = ", ".join(r.system for r in results)
        raise ConfigError(f"the {what} holds {len(results)} systems: {systems}", hint="pick one with --system")
    return results[0]


def age_note(baseline: Any) -> list[str]:
    """A baseline nobody renewed for long may no longer be what runs in production."""
    if not isinstance(baseline, (str, Path)) or not Path(baseline).is_file():
        return []
    days = (time.time() - Path(baseline).stat().st_mtime) / 86_400
    return [f"The baseline {Path(baseline).name} is {days:.0f} days old."] if days > _OLD else []
