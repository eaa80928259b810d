"""Karat: is our retriever good, how sure are we, where does it lose, may this change ship?

    import karat
    r = karat.evaluate("run.jsonl", "gold.jsonl")
    r["recall@5"].mean, r["recall@5"].low, r["recall@5"].high
    karat.compare("old.jsonl", "new.jsonl", "gold.jsonl")["recall@5"].reading
    assert karat.gate("new.jsonl", "gold.jsonl", ["recall@5 >= 0.8"])

Pools, judges and calibration are in `karat.labels`; retrievers, baselines, stress tests and synthetic queries in
`karat.systems`; saved runs in `karat.history`; MLflow, W&B, Slack and other places for results in `karat.sinks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.lazy import public

if TYPE_CHECKING:
    from karat import history as history
    from karat import labels as labels
    from karat import sinks as sinks
    from karat import systems as systems
    from karat.errors import KaratError as KaratError
    from karat.formats.read import read_gold as read_gold
    from karat.formats.read import read_run as read_run
    from karat.formats.run_records import RunLogWriter as RunLogWriter
    from karat.gates.gate import gate as gate
    from karat.results.comparison.compare import compare as compare
    from karat.results.evaluate import evaluate as evaluate
    from karat.results.result import Result as Result
    from karat.results.save import load as load
    from karat.scoring.metrics.base import Metric as Metric
    from karat.scoring.options import Options as Options

__version__ = "0.1.0"

__all__ = [
    "KaratError",
    "Metric",
    "Options",
    "Result",
    "RunLogWriter",
    "__version__",
    "compare",
    "evaluate",
    "gate",
    "load",
    "read_gold",
    "read_run",
]

_WHERE = {
    "KaratError": "karat.errors",
    "Metric": "karat.scoring.metrics.base",
    "Options": "karat.scoring.options",
    "Result": "karat.results.result",
    "RunLogWriter": "karat.formats.run_records",
    "compare": "karat.results.comparison.compare",
    "evaluate": "karat.results.evaluate",
    "gate": "karat.gates.gate",
    "load": "karat.results.save",
    "read_gold": "karat.formats.read",
    "read_run": "karat.formats.read",
}
# Names of version 0.1 (docs/renamed.md).
_RENAMED = {
    "Audit": "result.audit; the class is karat.data.audit.Audit",
    "Calibration": "karat.labels.Calibration",
    "Comparison": "karat.compare; the class is karat.results.comparison.compare.Comparison",
    "Finding": "result.findings",
    "Gold": "karat.read_gold; the class is karat.data.gold.Gold",
    "Judgements": "karat.labels.Judgements",
    "Ladder": "karat.systems.Ladder",
    "Plan": "result.power()",
    "Retriever": "karat.systems.Retriever",
    "Run": "karat.read_run; the class is karat.data.hits.Run",
    "Sampling": "the options method, level, resamples and seed of karat.evaluate",
    "Spark": "karat.systems.Spark, or engine='spark'",
    "Stress": "karat.systems.Stress",
    "Sweep": "result.sweep()",
    "Synthesis": "karat.systems.Synthesis",
    "Triage": "result.triage()",
    "Verdicts": "karat.gate; the class is karat.gates.verdict_form.Verdicts",
    "all_metrics": "karat.Metric.all()",
    "baseline_ladder": "karat.systems.baseline_ladder",
    "calibrate": "karat.labels.calibrate",
    "diagnose": "result.findings",
    "evaluate_all": "karat.evaluate, which returns all systems of a run and accepts a list of runs",
    "judge": "karat.labels.judge_pool",
    "make_pool": "karat.labels.make_pool",
    "parse_metric": "karat.Metric.parse",
    "plan": "result.power()",
    "read_labelling": "karat.labels.read_labelling",
    "read_labels": "karat.labels.read_labels",
    "read_result": "karat.load",
    "read_results": "karat.load",
    "run_retriever": "karat.systems.run_retriever",
    "stress": "karat.systems.stress_test",
    "synthesize": "karat.systems.synthesize_gold",
    "triage": "result.triage()",
    "with_labels": "karat.labels.with_labels",
}

if not TYPE_CHECKING:  # so that type checkers and editors report unknown names
    __getattr__, __dir__ = public(__name__, _WHERE, _RENAMED, ("history", "labels", "sinks", "systems"))
