"""JSON Schemas, generated from the structs that read and write the files, and shipped as files."""

from __future__ import annotations

from importlib import resources
from typing import Any

NAMES = (
    *("agreement", "calibration", "comparison", "corpus", "gates", "gold", "labels", "ladder", "plan", "pool"),
    *("pooling", "prices"),
    *("result", "run-log", "selftest", "ship-criteria", "stress", "sweep", "triage"),
    *("judgements", "synthesis"),
)


def schema_text(name: str) -> str:
    """The shipped schema."""
    return (resources.files("karat.schemas") / f"{name}.schema.json").read_text(encoding="utf-8")


def generate(name: str) -> str:
    """The schema made anew from the code; a test holds the shipped file to it."""
    import msgspec  # not for those who only print a schema

    from karat.data.prices import Prices
    from karat.formats.corpus import CorpusEntry
    from karat.formats.gold_records import GoldEntry
    from karat.formats.run_records import RunRecord
    from karat.gates.criteria import CriteriaFile
    from karat.gates.selftest import SelfTest
    from karat.gates.verdicts import Verdicts
    from karat.labels.agreement import Agreement
    from karat.labels.calibration_file import Calibration
    from karat.labels.judge.judge import Judgements
    from karat.labels.labels_file import Label
    from karat.labels.pool_file import PoolEntry
    from karat.labels.pooling import Pooling
    from karat.results.comparison.compare import Comparison
    from karat.results.power import Plan
    from karat.results.queries.triage import Triage
    from karat.results.saved import SavedResult
    from karat.results.sweep import Sweep
    from karat.systems.ladder import Ladder
    from karat.systems.stress.stress import Stress
    from karat.systems.synthesize.synthesize import Synthesis

    kinds: dict[str, Any] = {
        "run-log": RunRecord,
        "gold": GoldEntry,
        "corpus": CorpusEntry,
        "result": SavedResult,
        "comparison": Comparison,
        "sweep": Sweep,
        "plan": Plan,
        "ladder": Ladder,
        "calibration": Calibration,
        "labels": Label,
        "pool": PoolEntry,
        "pooling": Pooling,
        "agreement": Agreement,
        "ship-criteria": CriteriaFile,
        "prices": Prices,
        "gates": Verdicts,
        "selftest": SelfTest,
        "stress": Stress,
        "triage": Triage,
        "judgements": Judgements,
        "synthesis": Synthesis,
    }
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(kinds[name])}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
