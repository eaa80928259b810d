"""Rules over the differences between two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from karat.data.prices import money
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import MissingEvidence
from karat.results.diagnosis.finding import Finding, Number
from karat.results.diagnosis.rule import Proof, RuleTable

if TYPE_CHECKING:
    from karat.results.differences import Difference

TABLE: RuleTable[Mapping[str, Difference]] = RuleTable()
rule = TABLE.rule


def find_changes(differences: list[Difference]) -> list[Finding]:
    """Everything that a change did beyond noise."""
    return TABLE.apply({d.metric: d for d in differences if not d.few}, silent=MissingEvidence)


@rule(
    "order_got_worse",
    "The change finds as much as before, but in a worse order.",
    "look at the reranker or the scoring, not at the index: something in the order broke",
    "compare the order before and after reranking on the queries that lost most",
)
def order_got_worse(changes: Mapping[str, Difference]) -> Iterator[Proof]:
    """nDCG@k dropped by 0.02 or more, beyond noise, while recall@k certainly dropped by less than 0.03."""
    for k in (5, 10, 3, 20):
        ndcg, recall = changes.get(f"ndcg@{k}"), changes.get(f"recall@{k}")
        if ndcg is None or recall is None or ndcg.high is None or recall.low is None:
            continue
        assert ndcg.delta is not None
        if ndcg.high < 0 and ndcg.delta <= -at.NDCG_DROPS and recall.low > -at.RECALL_HOLDS:
            said = f"{_moved(ndcg)}, while {_moved(recall)}."
            yield Proof(_sure(ndcg), said, [_number(ndcg), _number(recall)])
            return


@rule(
    "got_slower",
    "The change made answers slower.",
    "time each stage before and after: search and reranking separately",
    "limit the number of candidates (`k_raw`), cache frequent queries",
)
def got_slower(changes: Mapping[str, Difference]) -> Iterator[Proof]:
    """The median or the 90th percentile of the time rose by more than 10% and a millisecond, beyond noise."""
    slower = [change for name in ("latency_p50", "latency_p90") if (change := changes.get(name)) and _slower(change)]
    if slower:
        yield Proof(1, f"{' and '.join(map(_moved, slower))}.", [_number(change) for change in slower])


@rule(
    "got_dearer",
    "The change made answers dearer.",
    "look at the cost by stage and by model, before and after: which of them grew",
    "rerank fewer candidates, shorten what is sent, or give the stage that grew a smaller model",
)
def got_dearer(changes: Mapping[str, Difference]) -> Iterator[Proof]:
    """The mean cost of a query rose by more than 10%, beyond noise."""
    cost = changes.get("cost")
    if cost is not None and cost.low is not None and cost.baseline is not None and cost.low > at.DEARER * cost.baseline:
        yield Proof(_sure(cost), f"{_moved(cost)}.", [_number(cost)])


def _slower(change: Difference) -> bool:
    if change.low is None or change.baseline is None:
        return False
    return change.low > max(at.SLOWER * change.baseline, at.NOTICED)


def _sure(change: Difference) -> int:
    return 2 if change.p is not None and change.p < 0.01 else 1


def _moved(change: Difference) -> str:
    """`ndcg@5 went from 0.81 to 0.76 (a change of −0.07 to −0.03)`."""
    values = (change.baseline, change.candidate, change.low, change.high)
    digits, unit = (1, " ms") if change.metric.startswith("latency") else (2, "")
    texts = (money(value or 0.0) if change.metric == "cost" else f"{value:.{digits}f}" for value in values)
    before, after, low, high = (text.replace("-", "−") for text in texts)
    return f"{change.metric} went from {before} to {after}{unit} (change between {low} and {high})"


def _number(change: Difference) -> Number:
    assert change.delta is not None
    return Number(f"{change.metric}, difference", change.delta, change.low, change.high)
