"""Gates on estimates from judge labels, corrected with human labels."""

from __future__ import annotations

from typing import NamedTuple

from karat.results.analyses.base import Lacking, NotAsked, Setup
from karat.results.analyses.bounds import BELOW_SCALE, BoundsAnalysis, BoundsFound
from karat.results.corrected import rows_by_people
from karat.results.no_estimate import why_no_estimate
from karat.results.result import Result
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.discounted import NDCG
from karat.scoring.views import Need

_PEOPLE = "human labels for some of the judge's pairs (--calibration)"

INVERTED = "This judge is inverted: it calls relevant what humans call irrelevant. Check its scale and its prompt."


class JudgeEstimate(NamedTuple):
    """A mean over queries, as if humans had labelled all hits."""

    value: float
    low: float
    high: float
    n: int
    warnings: list[str]


def judge_need(setup: Setup) -> Need:
    try:
        return BoundsAnalysis().need(setup)
    except NotAsked:
        return Need()


def judge_estimate(result: Result, metric: Metric) -> JudgeEstimate | str:
    """The estimate, or why there is none."""
    said = result.labelling
    if not said.judge or not (said.human or said.known):
        missing = _PEOPLE if said.judge else f"judge labels (--labels) and {_PEOPLE}"
        return f"There is no judge-calibrated estimate of {metric}: it needs {missing}."
    if said.source == "clicks":
        return f"There is no judge-calibrated estimate of {metric}: the labels are from clicks, not by a judge."
    analysis = BoundsAnalysis()
    try:
        found = analysis.find(result.measure(analysis.need(result.setup).metrics))
    except Lacking as error:
        return f"There is no judge-calibrated estimate of {metric}: it needs {error}."
    wanted = (str(metric), "judge-calibrated estimate")
    row = next((row for row in found.rows if (row.metric, row.kind) == wanted), None)
    if row is None or row.value is None or row.low is None or row.high is None:
        return _why_none(result, metric, found)
    warnings = [INVERTED] if found.inverted else []
    if found.below_scale and isinstance(metric, NDCG):
        warnings.append(BELOW_SCALE)
    return JudgeEstimate(row.value, row.low, row.high, row.n, warnings)


def _why_none(result: Result, metric: Metric, found: BoundsFound) -> str:
    """Say why there is no estimate. Labels merged into the gold set no longer count as a random sample."""
    gold, said = result.gold, result.labelling
    names = zip((gold.queries[query] for query in gold.query_of_item.tolist()), gold.ids, strict=True)
    merged = sum(name in said.human and name in said.judge for name in names) - len(rows_by_people(result))
    if merged > len(said.human) / 2:
        why = f"{merged:,} of {len(said.human):,} human labels are part of the gold set"
        way = "Use the gold set without them, and pass the labels with --gold-labels and --calibration."
        return f"There is no judge-calibrated estimate of {metric}: {why}. {way}"
    reasons = [row for row in found.refused if row.metric == str(metric)]
    return next(why_no_estimate(reasons), f"There is no judge-calibrated estimate of {metric}.")
