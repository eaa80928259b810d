"""Compare runs without a gold set: the queries of the first run, and no labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from karat.data.gold import Gold
from karat.errors import ConfigError
from karat.formats.read import read_run
from karat.formats.spill import HeldRun
from karat.results.references import is_saved
from karat.results.result import Result
from karat.results.saved import SavedResult
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.options import Options
from karat.scoring.run_as_gold import gold_of_queries
from karat.scoring.top_lists import in_order

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords

_USUAL = ("distinct_docs@5", "latency_p50", "cost")  # what the usual metrics read, without labels
NOTE = "no gold set: only lists, times and errors are compared."


def unlabelled(
    sides: Sequence[Any],
    metrics: Iterable[str | Metric] | None,
    options: EvaluateKeywords,
    *,
    texts: bool = False,
) -> tuple[list[Any], Gold] | None:
    """The sides and a gold set without labels; None if there are saved results, which have their own.

    The first run is held while it is read, so that it is read once. `texts`: with the texts of hits, to show them.
    """
    if not sides or any(isinstance(side, (Result, SavedResult)) or is_saved(side) for side in sides):
        return None
    asked = parse_metrics(metrics or _USUAL)
    needing = [metric for metric in asked if "ids" in metric.rests_on]
    if needing:
        hint = "add --gold GOLD; without it, only rbo, jaccard, latency, cost and the like can be compared"
        raise ConfigError(f"{needing[0]} needs a gold set", code="no-gold", hint=hint)
    columns = frozenset({"text"} if texts else ()).union(*(metric.reads for metric in asked))
    first = HeldRun(read_run(sides[0], **Options(**options).of_run), columns)
    return in_order(first, lambda held: ([held, *sides[1:]], gold_of_queries(held)))
