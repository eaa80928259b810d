"""Four scores that treat unjudged hits differently: gold only, gold plus judge, strict bounds, calibrated estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
import numpy as np

from karat.data.ids import Floats
from karat.data.presented import above
from karat.results.analyses.base import Analysis, NotAsked, Setup
from karat.results.no_estimate import NoEstimate
from karat.scoring.metrics.base import Metric, Relevance
from karat.scoring.metrics.discounted import NDCG, RBP
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.metrics.precision import Precision
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

# Other metrics use gold only: what a judge calls relevant was found by the systems being measured.
BY_JUDGE = (Precision, NDCG, RBP)
BOUNDED = ("hit", "precision", "recall", "mrr", "ndcg", "rbp")

Kind = Literal["gold only", "gold plus judge", "strict bounds", "judge-calibrated estimate"]


def judged_side(side: Result, metrics: Sequence[str]) -> Result | None:
    """The same run measured with judge labels; None if there are none."""
    return None if side.labelling.with_judge is None else side.measure(metrics, side.view.but(labels="judge"))


def judged_values(side: Result, judged: Result, metric: str) -> Floats:
    """Values for queries that have an answer in the gold: judge labels do not add answers."""
    place = np.searchsorted(judged.rows, side.rows)
    return np.where(np.isnan(side.values[metric]), np.nan, judged.values[metric][place])


class BoundsRow(msgspec.Struct, frozen=True):
    """One metric in one reading. Strict bounds have `lower` and `upper` instead of a value."""

    metric: str
    kind: Kind
    n: int
    value: float | None = None
    low: float | None = None  # interval over queries
    high: float | None = None
    lower: float | None = None
    upper: float | None = None
    method: str | None = None
    depth: int | None = None  # rank below which no human labels were sampled; the interval allows for anything there


BELOW_SCALE = (
    "No label has the highest grade of the scale. Gold items without grades count as the highest grade, so they count "
    "for more in nDCG than any labelled hit. If labels only say relevant or not, use --max-grade 1."
)


class BoundsFound(msgspec.Struct, frozen=True):
    """How much of the lists is judged, and how the rest could change the scores."""

    rows: list[BoundsRow]
    k: int
    hits: int  # in the top k of the queries that have an answer
    unjudged: int  # of them, those not in the gold
    open_items: int  # distinct items without a grade, found anywhere
    judge_labels: int = 0
    source: Literal["judge", "clicks"] = "judge"  # of these labels
    by_judge: int = 0  # unjudged hits of the top k that only the judge has labelled
    by_people: int = 0
    unlabelled: int = 0  # without any label: irrelevant in the estimate, either in its interval
    overruled: int = 0  # judge labels that contradict the gold
    unknown: int = 0  # judge labels for queries that are not in the gold set
    refused: list[NoEstimate] = []  # metrics without a judge-calibrated estimate
    inverted: bool = False  # the judge's kappa with human labels is below 0, with its whole interval
    other_scale: int = 0  # gold items whose grade scale has another maximum than that of the labels
    below_scale: int = 0  # labels in addition to gold without grades, none with the highest grade of the scale


class BoundsAnalysis(Analysis):
    """Computes four readings of the same run."""

    name = "bounds"
    title = "What unjudged hits leave open"
    finds: ClassVar[type[msgspec.Struct]] = BoundsFound

    def need(self, setup: Setup) -> Need:
        if not setup.labelling.asked:
            raise NotAsked
        metrics = _metrics(setup)
        judged = [metric for metric in metrics if isinstance(metric, BY_JUDGE)]
        return Need(metrics=metrics, views={setup.own.but(labels="judge"): judged}, open_hits=True)

    def find(self, side: Result) -> BoundsFound:
        found: BoundsFound = above("karat.results.four_readings", "four_readings")(side)  # loaded only if requested
        return found


def _metrics(setup: Setup) -> list[Metric]:
    own = [m for m in setup.metrics if m.name in BOUNDED and m.budget is None and isinstance(m, Relevance)]
    usual = [name if name in ("mrr", "rbp") else f"{name}@{setup.rules.k}" for name in BOUNDED]
    return parse_metrics([*usual, *own])
