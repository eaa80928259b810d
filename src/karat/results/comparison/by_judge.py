"""A comparison with a judge's labels where the gold has none."""

from __future__ import annotations

from dataclasses import replace

from karat.data.ids import Ints
from karat.results.analyses.base import Lacking
from karat.results.analyses.with_judge import BY_JUDGE, judged_side, judged_values
from karat.results.differences import Difference, Paired
from karat.results.result import Result
from karat.results.summary import Scores
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.judged_share import JudgedShare
from karat.statistics.sampling import Sampling


def differences_by_judge(
    first: Result, other: Result, metrics: list[Metric], at: Ints, of: Ints, sampling: Sampling
) -> list[Difference]:
    """Of precision, nDCG and RBP, and of how much is judged; the others stay with the gold. Raises Lacking."""
    if not any(isinstance(metric, BY_JUDGE) for metric in metrics):
        raise Lacking("labels of a judge count for precision, nDCG and RBP, and none of them is compared.")
    asked: list[Metric] = [metric for metric in metrics if isinstance(metric, (*BY_JUDGE, JudgedShare))]
    sides = _scores(first, asked).select(at), _scores(other, asked).select(of)
    return Paired(*sides).differences(sampling, 10 * sampling.resamples)


def _scores(side: Result, metrics: list[Metric]) -> Scores:
    names = [str(metric) for metric in metrics]
    judged = judged_side(side, names)
    if judged is None:
        raise Lacking("labels of a judge were given for one side only: a saved result keeps no hits to label.")
    return replace(side.columns, metrics=metrics, values={name: judged_values(side, judged, name) for name in names})
