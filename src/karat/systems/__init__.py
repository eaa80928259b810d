"""Makes runs: retrievers, baselines, tuning, stress tests and synthetic queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.lazy import public

if TYPE_CHECKING:
    from karat.retrievers.base import Retriever as Retriever
    from karat.retrievers.dense import make_embedder as make_embedder
    from karat.scoring.engines.spark import Spark as Spark
    from karat.systems.ladder import Ladder as Ladder
    from karat.systems.ladder import baseline_ladder as baseline_ladder
    from karat.systems.run import run_retriever as run_retriever
    from karat.systems.side_by_side import run_side_by_side as run_side_by_side
    from karat.systems.stress.stress import Stress as Stress
    from karat.systems.stress.stress import stress_test as stress_test
    from karat.systems.synthesize.paraphrase import paraphrase_gold as paraphrase_gold
    from karat.systems.synthesize.synthesize import Synthesis as Synthesis
    from karat.systems.synthesize.synthesize import synthesize_gold as synthesize_gold
    from karat.systems.tuning import Tuning as Tuning
    from karat.systems.tuning import tune as tune

__all__ = [
    "Ladder",
    "Retriever",
    "Spark",
    "Stress",
    "Synthesis",
    "Tuning",
    "baseline_ladder",
    "make_embedder",
    "paraphrase_gold",
    "run_retriever",
    "run_side_by_side",
    "stress_test",
    "synthesize_gold",
    "tune",
]
_WHERE = {
    "Ladder": "karat.systems.ladder",
    "Retriever": "karat.retrievers.base",
    "Spark": "karat.scoring.engines.spark",
    "Stress": "karat.systems.stress.stress",
    "Synthesis": "karat.systems.synthesize.synthesize",
    "Tuning": "karat.systems.tuning",
    "baseline_ladder": "karat.systems.ladder",
    "make_embedder": "karat.retrievers.dense",
    "paraphrase_gold": "karat.systems.synthesize.paraphrase",
    "run_retriever": "karat.systems.run",
    "run_side_by_side": "karat.systems.side_by_side",
    "stress_test": "karat.systems.stress.stress",
    "synthesize_gold": "karat.systems.synthesize.synthesize",
    "tune": "karat.systems.tuning",
}
if not TYPE_CHECKING:  # so that type checkers and editors report unknown names
    __getattr__, __dir__ = public(__name__, _WHERE)
