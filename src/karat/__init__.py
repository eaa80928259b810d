"""Karat: is our retriever good, how sure are we, where does it lose, may this change ship?

Public names are loaded when they are first used, so that `import karat` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karat.data.audit import Audit as Audit
    from karat.data.gold import Gold as Gold
    from karat.data.hits import Run as Run
    from karat.errors import KaratError as KaratError
    from karat.formats.read import read_gold as read_gold
    from karat.formats.read import read_run as read_run
    from karat.formats.run_records import RunLogWriter as RunLogWriter
    from karat.gates.gate import gate as gate
    from karat.gates.verdict_form import Verdicts as Verdicts
    from karat.labels.calibration import calibrate as calibrate
    from karat.labels.calibration_file import Calibration as Calibration
    from karat.labels.files import read_labels as read_labels
    from karat.labels.judge.judge import Judgements as Judgements
    from karat.labels.judge.judge import judge as judge
    from karat.labels.labelled_gold import read_labelling as read_labelling
    from karat.labels.labelled_gold import with_labels as with_labels
    from karat.labels.pool import make_pool as make_pool
    from karat.results.comparison.compare import Comparison as Comparison
    from karat.results.comparison.compare import compare as compare
    from karat.results.diagnosis.diagnose import diagnose as diagnose
    from karat.results.diagnosis.finding import Finding as Finding
    from karat.results.evaluate import evaluate as evaluate
    from karat.results.evaluate import evaluate_all as evaluate_all
    from karat.results.power import Plan as Plan
    from karat.results.power import plan as plan
    from karat.results.queries.triage import Triage as Triage
    from karat.results.queries.triage import triage as triage
    from karat.results.result import Result as Result
    from karat.results.save import load as load
    from karat.results.saved import read_result as read_result
    from karat.results.saved import read_results as read_results
    from karat.results.sweep import Sweep as Sweep
    from karat.retrievers.base import Retriever as Retriever
    from karat.scoring.engines.spark import Spark as Spark
    from karat.scoring.metrics.base import Metric as Metric
    from karat.scoring.metrics.grammar import all_metrics as all_metrics
    from karat.scoring.metrics.grammar import parse_metric as parse_metric
    from karat.statistics.sampling import Sampling as Sampling
    from karat.systems.ladder import Ladder as Ladder
    from karat.systems.ladder import baseline_ladder as baseline_ladder
    from karat.systems.run import run_retriever as run_retriever
    from karat.systems.stress.stress import Stress as Stress
    from karat.systems.stress.stress import stress as stress
    from karat.systems.synthesize.synthesize import Synthesis as Synthesis
    from karat.systems.synthesize.synthesize import synthesize as synthesize

__version__ = "0.1.0"

_WHERE = {
    "Audit": "karat.data.audit",
    "Calibration": "karat.labels.calibration_file",
    "Comparison": "karat.results.comparison.compare",
    "Finding": "karat.results.diagnosis.finding",
    "Gold": "karat.data.gold",
    "KaratError": "karat.errors",
    "Judgements": "karat.labels.judge.judge",
    "Ladder": "karat.systems.ladder",
    "Metric": "karat.scoring.metrics.base",
    "Plan": "karat.results.power",
    "Result": "karat.results.result",
    "Retriever": "karat.retrievers.base",
    "Run": "karat.data.hits",
    "RunLogWriter": "karat.formats.run_records",
    "Sampling": "karat.statistics.sampling",
    "Spark": "karat.scoring.engines.spark",
    "Stress": "karat.systems.stress.stress",
    "Sweep": "karat.results.sweep",
    "Synthesis": "karat.systems.synthesize.synthesize",
    "Triage": "karat.results.queries.triage",
    "Verdicts": "karat.gates.verdict_form",
    "all_metrics": "karat.scoring.metrics.grammar",
    "baseline_ladder": "karat.systems.ladder",
    "calibrate": "karat.labels.calibration",
    "compare": "karat.results.comparison.compare",
    "diagnose": "karat.results.diagnosis.diagnose",
    "evaluate": "karat.results.evaluate",
    "evaluate_all": "karat.results.evaluate",
    "gate": "karat.gates.gate",
    "judge": "karat.labels.judge.judge",
    "load": "karat.results.save",
    "make_pool": "karat.labels.pool",
    "parse_metric": "karat.scoring.metrics.grammar",
    "plan": "karat.results.power",
    "read_gold": "karat.formats.read",
    "read_labelling": "karat.labels.labelled_gold",
    "read_labels": "karat.labels.files",
    "read_result": "karat.results.saved",
    "read_results": "karat.results.saved",
    "read_run": "karat.formats.read",
    "run_retriever": "karat.systems.run",
    "stress": "karat.systems.stress.stress",
    "synthesize": "karat.systems.synthesize.synthesize",
    "triage": "karat.results.queries.triage",
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
