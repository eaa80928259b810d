"""Rules over the differences between two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from karat.data.prices import money
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.finding import Finding, Number, Proof, RuleTable

if TYPE_CHECKING:
    from karat.results.differences import Difference

TABLE: RuleTable[Mapping[str, Difference]] = RuleTable()
rule: Final = TABLE.rule
_TIMES = ("latency_p50", "latency_p90")


def find_changes(differences: list[Difference], stages: Callable[[], list[Difference]] = list) -> list[Finding]:
    """Everything that a change did beyond noise. `stages`: times per stage, called only if the total time rose."""
    changes = {d.metric: d for d in differences if not d.few}
    if any(_slower(changes[name]) for name in _TIMES if name in changes):
        changes = {d.metric: d for d in stages() if not d.few} | changes
    return TABLE.apply(changes)


@rule(
    "The change finds as much as before, but in a worse order.",
    "look at the reranker or the scoring, not at the index: the ordering broke",
    "compare the order before and after reranking on the queries that lost most",
)
def order_got_worse(changes: Mapping[str, Difference]) -> Iterator[Proof]:
    """nDCG@k dropped by 0.02 or more, beyond noise, while recall@k certainly dropped by less than 0.03."""
    for k in (5, 10, 3, 20):
        ndcg, recall = changes.get(f"ndcg@{k}"), changes.get(f"recall@{k}")
        if ndcg is None or recall is None or ndcg.high is None or recall.low is None:
            continue
        assert ndcg.delta is not None
        if ndcg.high < 0 and ndcg.certain and ndcg.delta <= -at.NDCG_DROPS and recall.low > -at.RECALL_HOLDS:
            said = f"{moved(ndcg)}, while {moved(recall)}."
            yield Proof(_sure(ndcg), said, [_number(ndcg), _number(recall)])
            return


@rule(
    "The change made answers slower.",
    "time each stage before and after: search and reranking separately",
    "limit the number of candidates (`k_raw`), cache frequent queries",
)
def got_slower(changes: Mapping[str, Difference]) -> Iterator[Proof]:
    """The median or 90th-percentile time rose by more than 10% and more than 1 ms, beyond noise. Names the stage whose
    time rose most, if that rise is beyond noise."""
    slower = [change for name in _TIMES if (change := changes.get(name)) and _slower(change)]
    if slower:
        said, stage = " and ".join(map(moved, slower)), _slowest_stage(slower[-1], changes)
        if stage is not None:
            said += f". One stage accounts for most of it: {moved(stage)}"
        yield Proof(1, f"{said}.", [_number(change) for change in (*slower, *([stage] if stage else []))])


@rule(
    "The change made answers more expensive.",
    "compare the cost by stage and by model before and after: which one grew?",
    "rerank fewer candidates, send shorter texts, or use a smaller model in the stage that grew",
)
def got_dearer(changes: Mapping[str, Difference]) -> Iterator[Proof]:
    """The mean cost per query rose by more than 10%, beyond noise."""
    cost = changes.get("cost")
    if (
        cost is not None
        and cost.low is not None
        and cost.baseline is not None
        and cost.low > at.COSTLIER * cost.baseline
    ):
        yield Proof(_sure(cost), f"{moved(cost)}.", [_number(cost)])


def _slowest_stage(whole: Difference, changes: Mapping[str, Difference]) -> Difference | None:
    """The stage whose time rose most, if it rose beyond noise."""
    stages = [d for name, d in changes.items() if name.startswith(f"{whole.metric}(stage=") and _slower(d)]
    return max(stages, key=lambda d: d.delta or 0.0, default=None)


def _slower(change: Difference) -> bool:
    if change.low is None or change.baseline is None:
        return False
    return change.low > max(at.SLOWER * change.baseline, at.NOTICED)


def _sure(change: Difference) -> int:
    return 2 if change.p is not None and change.p < 0.01 else 1


def moved(change: Difference, verb: str = "went") -> str:
    """`ndcg@5 went from 0.81 to 0.76 (a change of −0.07 to −0.03)`."""
    values = (change.baseline, change.candidate, change.low, change.high)
    digits, unit = (1, " ms") if change.metric.startswith("latency") else (2, "")
    texts = (money(value or 0.0) if change.metric == "cost" else f"{value:.{digits}f}" for value in values)
    before, after, low, high = (text.replace("-", "−") for text in texts)
    return f"{change.metric} {verb} from {before} to {after}{unit} (change between {low} and {high})"


def _number(change: Difference) -> Number:
    assert change.delta is not None
    return Number(f"{change.metric}, difference", change.delta, change.low, change.high)
