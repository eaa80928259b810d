"""`evaluate`: the pipeline as a function, with a keyword for each option. The command line calls the pipeline itself,
since making these signatures takes time at every start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, cast

from karat.data.hits import Run
from karat.options.option import takes
from karat.results.analyses.base import Consumer
from karat.results.pipeline import hashes_need, score_systems
from karat.results.result import Result
from karat.results.results import Results
from karat.scoring.metrics.base import Metric
from karat.scoring.options import Options
from karat.scoring.peers import options_like

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords


@takes(Options)
def evaluate(
    run: Any,
    gold: Any = None,
    metrics: Iterable[str | Metric] | None = None,
    *,
    consumers: Sequence[Consumer] | None = None,
    **options: Unpack[EvaluateKeywords],
) -> Result:  # or Results; a union would make type checkers refuse `r["recall@5"].mean` of every run of one system
    """Score a run against gold. Returns a `Result`, or `Results` by system if the run has several and none is named.

    `run` and `gold` are paths (any format), dicts, lists of records or frames; `run` may also be a result, which is
    measured again without its file, or a list of paths: one run each, which gives `Results`. `metrics` are names such
    as `recall@5` (default: the panel). `consumers`: what the result will be used for (default: to be saved).
    """
    if isinstance(run, Result):
        return run if metrics is None else run.measure(metrics)
    if isinstance(run, (list, tuple)) and run and all(isinstance(one, (str, PathLike, Run, Result)) for one in run):
        found = [evaluate(one, gold, metrics, consumers=consumers, **options) for one in run]
        each = [one.values() if isinstance(one, Results) else [one] for one in found]
        return cast(Result, Results([result for some in each for result in some]))
    results = evaluate_all(run, gold, metrics, consumers=consumers, **options)
    return next(iter(results.values())) if len(results) == 1 else cast(Result, Results(results))


@takes(Options)
def evaluate_all(
    run: Any,
    gold: Any,
    metrics: Iterable[str | Metric] | None = None,
    *,
    consumers: Sequence[Consumer] | None = None,
    **options: Unpack[EvaluateKeywords],
) -> dict[str, Result]:
    """Score every system of a run. Arguments are those of `evaluate`."""
    declared = [hashes_need] if consumers is None else consumers
    return score_systems(run, gold, metrics, Options(**options_like(options)), declared)
