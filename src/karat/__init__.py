"""Karat: is our retriever good, how sure are we, where does it lose, may this change ship?

Public names are loaded when they are first used, so that `import karat` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karat.audit import Audit as Audit
    from karat.comparison.compare import Comparison as Comparison
    from karat.comparison.compare import compare as compare
    from karat.diagnosis.diagnose import diagnose as diagnose
    from karat.diagnosis.finding import Finding as Finding
    from karat.engines.spark import Spark as Spark
    from karat.errors import KaratError as KaratError
    from karat.evaluation import evaluate as evaluate
    from karat.evaluation import evaluate_all as evaluate_all
    from karat.formats.read import read_gold as read_gold
    from karat.formats.read import read_run as read_run
    from karat.formats.run_log_writer import RunLogWriter as RunLogWriter
    from karat.gates.gate import gate as gate
    from karat.gates.verdicts import Verdicts as Verdicts
    from karat.gold import Gold as Gold
    from karat.hits import Run as Run
    from karat.judging.judge import Judgements as Judgements
    from karat.judging.judge import judge as judge
    from karat.labels.beside_gold import read_labelling as read_labelling
    from karat.labels.calibrating import calibrate as calibrate
    from karat.labels.calibration_file import Calibration as Calibration
    from karat.labels.labelled_gold import with_labels as with_labels
    from karat.labels.labels_file import read_labels as read_labels
    from karat.labels.pooling import make_pool as make_pool
    from karat.ladder import Ladder as Ladder
    from karat.ladder import baseline_ladder as baseline_ladder
    from karat.metrics.base import Metric as Metric
    from karat.metrics.grammar import all_metrics as all_metrics
    from karat.metrics.grammar import parse_metric as parse_metric
    from karat.planning import Plan as Plan
    from karat.planning import plan as plan
    from karat.result import Result as Result
    from karat.retrievers.base import Retriever as Retriever
    from karat.running.run import run_retriever as run_retriever
    from karat.saved_result import read_result as read_result
    from karat.saved_result import read_results as read_results
    from karat.statistics.intervals import Sampling as Sampling
    from karat.stressing.stress import Stress as Stress
    from karat.stressing.stress import stress as stress
    from karat.sweeping import Sweep as Sweep
    from karat.synthesizing.synthesize import Synthesis as Synthesis
    from karat.synthesizing.synthesize import synthesize as synthesize
    from karat.triaging import Triage as Triage
    from karat.triaging import triage as triage

__version__ = "0.1.0"

_WHERE = {
    "Audit": "karat.audit",
    "Calibration": "karat.labels.calibration_file",
    "Comparison": "karat.comparison.compare",
    "Finding": "karat.diagnosis.finding",
    "Gold": "karat.gold",
    "KaratError": "karat.errors",
    "Judgements": "karat.judging.judge",
    "Ladder": "karat.ladder",
    "Metric": "karat.metrics.base",
    "Plan": "karat.planning",
    "Result": "karat.result",
    "Retriever": "karat.retrievers.base",
    "Run": "karat.hits",
    "RunLogWriter": "karat.formats.run_log_writer",
    "Sampling": "karat.statistics.intervals",
    "Spark": "karat.engines.spark",
    "Stress": "karat.stressing.stress",
    "Sweep": "karat.sweeping",
    "Synthesis": "karat.synthesizing.synthesize",
    "Triage": "karat.triaging",
    "Verdicts": "karat.gates.verdicts",
    "all_metrics": "karat.metrics.grammar",
    "baseline_ladder": "karat.ladder",
    "calibrate": "karat.labels.calibrating",
    "compare": "karat.comparison.compare",
    "diagnose": "karat.diagnosis.diagnose",
    "evaluate": "karat.evaluation",
    "evaluate_all": "karat.evaluation",
    "gate": "karat.gates.gate",
    "judge": "karat.judging.judge",
    "make_pool": "karat.labels.pooling",
    "parse_metric": "karat.metrics.grammar",
    "plan": "karat.planning",
    "read_gold": "karat.formats.read",
    "read_labelling": "karat.labels.beside_gold",
    "read_labels": "karat.labels.labels_file",
    "read_result": "karat.saved_result",
    "read_results": "karat.saved_result",
    "read_run": "karat.formats.read",
    "run_retriever": "karat.running.run",
    "stress": "karat.stressing.stress",
    "synthesize": "karat.synthesizing.synthesize",
    "triage": "karat.triaging",
    "with_labels": "karat.labels.labelled_gold",
}

__all__ = [*sorted(_WHERE), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'karat' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
