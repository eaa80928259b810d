"""Rules on reranker, router and rewriter, groups of queries, time, and hits that should not be shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from karat.data.attributes import NOT_GIVEN
from karat.data.ids import Floats
from karat.errors import shorten
from karat.results.analyses.freshness import Fresh
from karat.results.analyses.no_answer import Unanswerable
from karat.results.analyses.reranker import Reranked
from karat.results.analyses.rewriter import Rewritten
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import Evidence, LazyInterval
from karat.results.diagnosis.finding import MissingEvidence, Number, Proof, RuleTable
from karat.results.differences import Difference
from karat.results.numbers import decimal_of, enumerated, ms_of, percent, share_of
from karat.results.summary import FEW

TABLE: RuleTable[Evidence] = RuleTable()
rule: Final = TABLE.rule
_ROUNDING = 1e-9


@rule(
    "The reranker makes the order worse.",
    "turn the reranker off, or mix its score with the retriever's, until it helps on these queries",
    "check its input: the right field, the right language, truncated texts",
    'look at queries that it made worse: `karat eval` lists some under "Retriever and reranker"',
)
def reranker_hurts(e: Evidence) -> Iterator[Proof]:
    """nDCG@k of the final lists is 0.02 or more below that of the raw lists, beyond noise."""
    from karat.results.diagnosis.changes import moved

    found = _reranked(e)
    change = _change(e, found.differences[0])
    if (sure := change.below(0)) and change.value <= -at.NDCG_DROPS:
        yield Proof(
            sure, f"From the raw lists to the final ones {moved(found.differences[0], 'goes')}.", [change.number]
        )


@rule(
    "The reranker gains little of what a better order could.",
    "try a stronger reranker (a cross-encoder), or train it on queries such as these",
    "give it more to read: title and text, whole chunks, the whole raw list",
    unless=("reranker_hurts",),
)
def reranker_wins_little(e: Evidence) -> Iterator[Proof]:
    """The best order of the raw lists would gain more than 10 points of nDCG@k, and the reranker gains less than half
    of that."""
    found = _reranked(e)
    gain = found.gain
    if gain is None or gain.captured is None or gain.possible <= at.WIDE:
        return
    row = gain.captured
    captured = e.told("share captured", row.mean, (row.low, row.high), row.n)
    if sure := captured.below(at.CAPTURED):
        said = (
            f"The best order of the raw lists would take {gain.metric} from {gain.best - gain.possible:.2f} to "
            f"{gain.best:.2f}. The reranker achieves {share_of(captured)} of that gain."
        )
        yield Proof(sure, said, [captured.number, Number(f"{gain.metric}, best order − raw", gain.possible)])


@rule(
    "Many queries are sent to the wrong source.",
    'look at the confusion table under "Routing": which sources are confused?',
    "if the router is unsure, search two sources and let the reranker decide",
    "give the router examples of the queries that it gets wrong",
)
def misrouted(e: Evidence) -> Iterator[Proof]:
    """Fewer than 90% of the queries were sent to every source that they need."""
    right = e.score("route_accuracy")
    if sure := right.below(at.ROUTED_RIGHT):
        yield Proof(sure, f"{share_of(right)} of the queries were sent to the source that they need.", [right.number])


@rule(
    "Rewriting the query harms{where}.",
    "search with the original query too, and merge both lists",
    "rewrite only where needed, such as follow-ups that make no sense alone",
    "look at the queries that lost most: does the rewrite drop names, numbers or the language?",
)
def rewriting_harms(e: Evidence) -> Iterator[Proof]:
    """nDCG@k with the rewritten query is 0.02 or more below that with the original one, beyond noise; or more than 20%
    of the queries got worse, whatever the others gain."""
    from karat.results.diagnosis.changes import moved

    found: Rewritten = e.analysis("rewriter")
    row, first = found.harmed, found.differences[0]
    change, harmed = _change(e, first), e.told("share harmed", row.mean, (row.low, row.high), row.n)
    worse = change.below(0) if change.value <= -at.NDCG_DROPS else 0
    if sure := worse or harmed.above(at.HARMED):
        said = f"With the rewritten query {moved(first, 'goes')}. {share_of(harmed)} of the queries got worse."
        where = " more than it helps" if worse else " many queries"
        yield Proof(sure, said, [change.number, harmed.number], about={"where": where})


def _reranked(e: Evidence) -> Reranked:
    found: Reranked = e.analysis("reranker")
    if not found.reordered:
        raise MissingEvidence("reranker")
    return found


def _change(e: Evidence, change: Difference) -> LazyInterval:
    return e.told(f"{change.metric}, difference", change.delta, (change.low, change.high), change.n)


@rule(
    "Queries whose {attribute} is {values} do worse than the others.",
    "look at the worst of these queries: `karat eval … --segment {attribute}` shows the groups",
    "check that the documents they need are in the index",
    "add synonyms: these queries may use other words than the documents",
)
def weak_segment(e: Evidence) -> Iterator[Proof]:
    """Recall@5 of a group of 20 or more queries is more than 10 points below that of all others, beyond chance after
    Holm's correction for the number of groups over all attributes."""
    values = e.reached("recall@5")
    # Hard queries do worse by definition.
    names = [name for name in e.attributes if name != "difficulty"]
    if not any(_far_below(e, name, values) for name in names):
        return
    from karat.statistics.significance import holm

    groups = [group for name in names for group in _groups(e, name, values)]
    adjusted = holm(np.array([group.p for group in groups])).tolist()
    doubt = 1 - e.sampling.level
    for name in names:
        weak = [
            (group, p)
            for group, p in zip(groups, adjusted, strict=True)
            if group.attribute == name and p < doubt and group.rest.value - group.own.value > at.WIDE
        ]
        if weak:
            yield _weak(name, weak, doubt)


class _Group:
    """A group of queries and all others."""

    def __init__(self, attribute: str, value: str, own: LazyInterval, rest: LazyInterval) -> None:
        self.attribute, self.value, self.own, self.rest = attribute, value, own, rest

    @property
    def p(self) -> float:
        if self.own.value >= self.rest.value:
            return 1.0
        from karat.statistics.significance import apart_p

        return apart_p(self.own.value, self.own.limits[1], self.rest.value, self.rest.limits[0], self.own.level)


def _far_below(e: Evidence, name: str, values: Floats) -> bool:
    """Whether a group's mean may be far below that of the others: a cheap check before computing intervals."""
    groups = [rows for _, rows in e.groups(name)]
    sums = np.array([np.nansum(values[rows]) for rows in groups])
    counts = np.array([np.count_nonzero(~np.isnan(values[rows])) for rows in groups])
    own = sums / np.maximum(counts, 1)
    rest = (sums.sum() - sums) / np.maximum(counts.sum() - counts, 1)
    return bool((rest - own > at.WIDE - _ROUNDING).any())


def _groups(e: Evidence, name: str, values: Floats) -> Iterator[_Group]:
    for value, rows in e.groups(name):
        inside = np.zeros(len(values), np.bool_)
        inside[rows] = True
        sizes = [int((~np.isnan(values[side])).sum()) for side in (inside, ~inside)]
        if value != NOT_GIVEN and min(sizes) >= FEW:
            own, rest = (np.where(side, values, np.nan) for side in (inside, ~inside))
            yield _Group(name, value, e.estimate(f"recall@5, {value}", own), e.estimate("recall@5, others", rest))


def _weak(name: str, weak: list[tuple[_Group, float]], doubt: float) -> Proof:
    weak = sorted(weak, key=lambda found: found[0].own.value)
    said = "; ".join(
        f"for {shorten(g.value, 40)}, {share_of(g.own)} of the right items that fit into the first 5 hits are found, "
        f"for all others {share_of(g.rest)}"
        for g, _ in weak
    )
    tongue = ("check for this language: stop words, accents, tokenization, regional words",)
    return Proof(
        2 if min(p for _, p in weak) < doubt / 5 else 1,
        f"{said[0].upper()}{said[1:]}. This is corrected for the number of groups.",
        [number for g, _ in weak for number in (g.own.number, g.rest.number)],
        about={"attribute": name, "values": enumerated([shorten(g.value, 40) for g, _ in weak], "or")},
        first_try=tongue if "lang" in name.lower() or "locale" in name.lower() else (),
    )


@rule(
    "Answers take long{where}.",
    "speed up the slowest stage: fewer candidates (`k_raw`), a smaller model, batching",
    "cache frequent queries",
)
def slow(e: Evidence) -> Iterator[Proof]:
    """The median time is above 110 ms (60 ms to retrieve and 50 ms to rerank). Names the stage that takes more than
    half of it."""
    total = e.column("latency_p50")
    median = e.quantile("latency_p50", total, 0.5)
    sure = median.above(at.SLOW_MS)
    if not sure:
        return
    said, numbers, where = f"Half of the queries take longer than {ms_of(median)}.", [median.number], ""
    stages = _stages(e)
    for name, times in stages.items():
        part = e.estimate(f"share of the time in {name}", times / total)
        more = e.estimate("stage − all others", times - (total - times), (-np.inf, np.inf))
        if len(stages) > 1 and more.above(0):
            said += f" On average, {share_of(part)} of a query's time is spent in {name}."
            numbers.append(part.number)
            where = f", and most of the time is spent in {shorten(name, 40)}"
    first = () if len(stages) > 1 else ("log the time of each stage to see which one is slow",)
    yield Proof(sure, said, numbers, about={"where": where}, first_try=first)


@rule(
    "One query in ten takes far longer than a typical one.",
    "look at the slowest queries: long texts, many candidates, cold caches, waiting for another service",
    "set a time limit after which the order of the first stage is used",
)
def slow_tail(e: Evidence) -> Iterator[Proof]:
    """The 90th percentile is more than three times the median, and above 110 ms."""
    total = e.column("latency_p90")
    usual, tail = e.quantile("latency_p50", total, 0.5), e.quantile("latency_p90", total, 0.9)
    if sure := min(tail.above(at.SLOW_MS), tail.above(at.LONG_TAIL * usual.limits[1])):
        said = f"Half of the queries take up to {ms_of(usual)}, one in ten {ms_of(tail)} or more."
        yield Proof(sure, said, [usual.number, tail.number])


def _stages(e: Evidence) -> dict[str, Floats]:
    prefix = "latency(stage="
    found = {name[len(prefix) : -1]: values for name, values in e.values.items() if name.startswith(prefix)}
    return {name: values for name, values in found.items() if name != "total"}


@rule(
    "Results include documents newer than the question's date.",
    "search as of the question's date: filter by version or date in the index, not after cutting the list",
    "check these queries: is `as_of` or the gold outdated? `karat eval … --no-future` scores without newer hits",
)
def from_the_future(e: Evidence) -> Iterator[Proof]:
    """More than 5% of the first hits are newer than their query's `as_of`, or more than 2 points of recall come from
    such hits."""
    found: Fresh = e.analysis("freshness")
    fresh, recall = found.freshness, found.differences[0]
    limits = e.told("freshness", fresh.mean, (fresh.low, fresh.high), fresh.n)
    change = e.told("change", recall.delta, (recall.low, recall.high), recall.n)
    newer = limits.mirrored(f"newer than as_of, top {found.k}", around=1.0)
    credit = change.mirrored(f"{recall.metric} earned with newer hits", around=0.0)
    if sure := max(newer.above(at.NEWER), credit.above(at.CREDIT)):
        said = (
            f"{share_of(newer)} of the first {found.k} hits are newer than their query's as_of. Without newer hits, "
            f"{recall.metric} goes from {percent(recall.baseline or 0)} to {percent(recall.candidate or 0)}."
        )
        numbers = [newer.number, credit.number]
        if found.newer_gold:
            said += f" Relevant gold items that are newer too: {found.newer_gold:,}. Their label or as_of is wrong."
            numbers.append(Number("relevant gold items newer than as_of", found.newer_gold))
        yield Proof(sure, said, numbers)


@rule(
    "Questions without an answer get hits, and scores do not separate them from the others.",
    "do not rely on a score threshold here: most of the questions it blocks have an answer",
    "rerank with a model whose scores mean relevance, or ask a model whether the hits answer the question",
)
def scores_do_not_tell(e: Evidence) -> Iterator[Proof]:
    """More than 20% of the queries without an answer get hits, and the AUROC of the top score is below 0.70."""
    _, wrong, apart = _no_answer(e)
    if sure := min(wrong.above(at.FALSE_EVIDENCE), apart.below(at.APART)):
        said = (
            f"{share_of(wrong)} of the queries without an answer get a hit. A query with an answer has a higher top "
            f"score than one without in {share_of(apart)} of all pairs (50% is chance)."
        )
        yield Proof(sure, said, [wrong.number, apart.number])


@rule(
    "Questions without an answer get hits, and a score threshold would remove many of them.",
    "weigh the gain against the misses; to set another target, use `karat eval … --target-false-evidence`",
    "check the threshold on other queries: it was chosen on these, so it looks better here",
)
def no_threshold(e: Evidence) -> Iterator[Proof]:
    """More than 20% of the queries without an answer get hits, and the AUROC of the top score is above 0.70."""
    found, wrong, apart = _no_answer(e)
    chosen = found.chosen
    sure = min(wrong.above(at.FALSE_EVIDENCE), apart.above(at.APART))
    if not sure or chosen is None or not chosen.coverage:  # a threshold that removes every hit is useless
        return
    rates = (chosen.false_evidence.value, chosen.miss.value, found.miss.mean)
    after, missed, before = (percent(rate or 0.0) for rate in rates)
    said = (
        f"{share_of(wrong)} of the queries without an answer get a hit. Dropping hits with a score below "
        f"{chosen.threshold} makes it {after}. {missed} of the queries with an answer then get no relevant hit, "
        f"instead of {before}. AUROC of the top score: {decimal_of(apart)}."
    )
    first = f"drop hits with a score below {chosen.threshold} (try it with `--min-score {chosen.threshold}`)"
    yield Proof(sure, said, [wrong.number, apart.number], first_try=(first,))


def _no_answer(e: Evidence) -> tuple[Unanswerable, LazyInterval, LazyInterval]:
    found: Unanswerable = e.analysis("no_answer")
    row, apart = found.false_evidence, found.separation
    if apart is None or found.answerable < FEW:
        raise MissingEvidence("AUROC")
    wrong = e.told(row.metric, row.mean, (row.low, row.high), row.n)
    return found, wrong, e.told("AUROC of the top score", apart.area, (apart.low, apart.high), row.n)
