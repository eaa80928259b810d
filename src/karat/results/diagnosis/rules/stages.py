"""Reranker, router and rewriter, groups of queries, time, and what should not have been shown."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from karat.data.attributes import NOT_GIVEN
from karat.data.ids import Floats
from karat.errors import shorten
from karat.results.analyses.freshness import Fresh
from karat.results.analyses.no_answer import Unanswerable
from karat.results.analyses.reranker import Reranked
from karat.results.analyses.rewriter import Rewritten
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.changes import moved
from karat.results.diagnosis.evidence import Evidence, LazyInterval
from karat.results.diagnosis.finding import MissingEvidence, Number, Proof, RuleTable
from karat.results.differences import Difference
from karat.results.numbers import decimal_of, enumerated, ms_of, percent, share_of
from karat.results.summary import FEW
from karat.statistics.significance import apart_p, holm

TABLE: RuleTable[Evidence] = RuleTable()
rule = TABLE.rule
_ROUNDING = 1e-9


@rule(
    "The reranker puts the hits in a worse order than the retriever's own.",
    "switch the reranker off, or mix its score with the retriever's, until it wins on these queries",
    "check what it reads: the right field, the right language, texts that were cut off",
    'look at the queries that it demoted: `karat eval` names some under "Retriever and reranker"',
)
def reranker_hurts(e: Evidence) -> Iterator[Proof]:
    """nDCG@k of the final lists lies 0.02 or more below that of the raw lists, beyond noise."""
    found = _reranked(e)
    change = _change(e, found.differences[0])
    if (sure := change.below(0)) and change.value <= -at.NDCG_DROPS:
        yield Proof(
            sure, f"From the raw lists to the final ones {moved(found.differences[0], 'goes')}.", [change.number]
        )


@rule(
    "The reranker wins little of what a better order could.",
    "try a stronger reranker (a cross-encoder), or train it on queries such as these",
    "let it read more: the title beside the text, whole chunks, the whole raw list",
    unless=("reranker_hurts",),
)
def reranker_wins_little(e: Evidence) -> Iterator[Proof]:
    """Of what the best order of the raw lists would win in nDCG@k, which is more than 10 points, less than half was."""
    found = _reranked(e)
    gain = found.gain
    if gain is None or gain.captured is None or gain.possible <= at.WIDE:
        return
    row = gain.captured
    captured = e.told("share captured", row.mean, (row.low, row.high), row.n)
    if sure := captured.below(at.CAPTURED):
        said = (
            f"The best order of the raw lists would take {gain.metric} from {gain.best - gain.possible:.2f} to "
            f"{gain.best:.2f}. Of that way reranking goes {share_of(captured)}."
        )
        yield Proof(sure, said, [captured.number, Number(f"{gain.metric}, best order − raw", gain.possible)])


@rule(
    "Many queries are sent to the wrong source.",
    'look at the confusion table under "Routing": which source is taken for which?',
    "where the router is unsure, ask two sources and let the reranker decide",
    "give the router examples of the queries that it gets wrong",
)
def misrouted(e: Evidence) -> Iterator[Proof]:
    """Less than 90% of the queries asked every source that they need."""
    right = e.score("route_accuracy")
    if sure := right.below(at.ROUTED_RIGHT):
        yield Proof(sure, f"{share_of(right)} of the queries asked the source that they need.", [right.number])


@rule(
    "Rewriting the query harms{where}.",
    "search with the original query too and merge both lists",
    "rewrite only where it is needed, such as follow-ups that make no sense alone",
    "look at the queries that lost most: does the rewrite drop names, numbers or the language?",
)
def rewriting_harms(e: Evidence) -> Iterator[Proof]:
    """nDCG@k with the rewritten query lies 0.02 or more below that with the original one, beyond noise; or more than
    20% of the queries are harmed, whatever the others win."""
    found: Rewritten = e.analysis("rewriter")
    row, first = found.harmed, found.differences[0]
    change, harmed = _change(e, first), e.told("share harmed", row.mean, (row.low, row.high), row.n)
    worse = change.below(0) if change.value <= -at.NDCG_DROPS else 0
    if sure := worse or harmed.above(at.HARMED):
        said = f"With the rewritten query {moved(first, 'goes')}; {share_of(harmed)} of the queries were harmed."
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
    "add to the synonyms: these queries may use other words than the documents",
)
def weak_segment(e: Evidence) -> Iterator[Proof]:
    """Recall@5 of a group of 20 queries or more lies more than 10 points below that of all others, beyond chance after
    Holm's correction for the number of groups of all attributes."""
    values = e.reached("recall@5")
    # That hard queries do worse is no news: it is what the tag says.
    names = [name for name in e.attributes if name != "difficulty"]
    if not any(_far_below(e, name, values) for name in names):
        return
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
        return apart_p(self.own.value, self.own.limits[1], self.rest.value, self.rest.limits[0], self.own.level)


def _far_below(e: Evidence, name: str, values: Floats) -> bool:
    """Whether the mean of a group may lie far below that of the others: a cheap look before intervals are drawn."""
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
        f"for {shorten(g.value, 40)}, {share_of(g.own)} of the right items that fit into the first 5 hits are there, "
        f"for all others {share_of(g.rest)}"
        for g, _ in weak
    )
    tongue = ("check for this language: stop words, accents, how words are split, its own words for things",)
    return Proof(
        2 if min(p for _, p in weak) < doubt / 5 else 1,
        f"{said[0].upper()}{said[1:]}. This allows for the number of groups that were looked at.",
        [number for g, _ in weak for number in (g.own.number, g.rest.number)],
        about={"attribute": name, "values": enumerated([shorten(g.value, 40) for g, _ in weak], "or")},
        first_try=tongue if "lang" in name.lower() or "locale" in name.lower() else (),
    )


@rule(
    "Answers take long{where}.",
    "look into the stage that takes most: fewer candidates (`k_raw`), a smaller model, batches",
    "cache frequent queries",
)
def slow(e: Evidence) -> Iterator[Proof]:
    """The median time is above 110 ms (60 ms to retrieve and 50 ms to rerank); names the stage that takes more than
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
            said += f" On average {share_of(part)} of a query's time goes into {name}."
            numbers.append(part.number)
            where = f", and most of the time goes into {shorten(name, 40)}"
    first = () if len(stages) > 1 else ("log the time of each stage: it tells where to look",)
    yield Proof(sure, said, numbers, about={"where": where}, first_try=first)


@rule(
    "One query in ten takes far longer than the usual one.",
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
    "Hits are newer than the time that the question asks from.",
    "search as of the question's time: filter by version or date in the index, not after the list was cut",
    "look at the queries in question: is `as_of` outdated, or the gold? `karat eval … --no-future` scores without them",
)
def from_the_future(e: Evidence) -> Iterator[Proof]:
    """More than 5% of the first hits are newer than their query's `as_of`, or more than 2 points of recall were earned
    with such hits."""
    found: Fresh = e.analysis("freshness")
    fresh, recall = found.freshness, found.differences[0]
    limits = e.told("freshness", fresh.mean, (fresh.low, fresh.high), fresh.n)
    change = e.told("change", recall.delta, (recall.low, recall.high), recall.n)
    newer = limits.mirrored(f"newer than as_of, top {found.k}", around=1.0)
    credit = change.mirrored(f"{recall.metric} earned with newer hits", around=0.0)
    if sure := max(newer.above(at.NEWER), credit.above(at.CREDIT)):
        said = (
            f"{share_of(newer)} of the first {found.k} hits are newer than their query's as_of. Without newer hits "
            f"{recall.metric} goes from {percent(recall.baseline or 0)} to {percent(recall.candidate or 0)}."
        )
        numbers = [newer.number, credit.number]
        if found.newer_gold:
            said += f" {found.newer_gold:,} relevant gold items are newer, too: a label or an as_of is wrong there."
            numbers.append(Number("relevant gold items newer than as_of", found.newer_gold))
        yield Proof(sure, said, numbers)


@rule(
    "Questions without an answer get hits, and scores do not tell them from the others.",
    "do not rely on a score threshold here: most of what it holds back has an answer",
    "rerank with a model whose scores mean relevance, or ask a model whether the hits answer the question",
)
def scores_do_not_tell(e: Evidence) -> Iterator[Proof]:
    """More than 20% of the queries without an answer get hits, and the AUROC of the top score is below 0.70."""
    _, wrong, apart = _no_answer(e)
    if sure := min(wrong.above(at.FALSE_EVIDENCE), apart.below(at.APART)):
        said = (
            f"{share_of(wrong)} of the queries without an answer get a hit. Of two queries, one with an answer and one "
            f"without, the first has the higher top score in {share_of(apart)} of the cases, where 50% is chance."
        )
        yield Proof(sure, said, [wrong.number, apart.number])


@rule(
    "Questions without an answer get hits, and a score threshold would hold many of them back.",
    "weigh what it costs: the misses beside it; another target: `karat eval … --target-false-evidence`",
    "check the threshold on other queries: it was chosen on these, and looks better here than it will elsewhere",
)
def no_threshold(e: Evidence) -> Iterator[Proof]:
    """More than 20% of the queries without an answer get hits, and the AUROC of the top score is above 0.70."""
    found, wrong, apart = _no_answer(e)
    chosen = found.chosen
    sure = min(wrong.above(at.FALSE_EVIDENCE), apart.above(at.APART))
    if not sure or chosen is None or not chosen.coverage:  # one that hides every hit is no advice
        return
    rates = (chosen.false_evidence.value, chosen.miss.value, found.miss.mean)
    after, missed, before = (percent(rate or 0.0) for rate in rates)
    said = (
        f"{share_of(wrong)} of the queries without an answer get a hit. With hits under {chosen.threshold} cut it is "
        f"{after}, and {missed} of the queries with an answer get no relevant hit instead of {before}. "
        f"AUROC of the top score: {decimal_of(apart)}."
    )
    first = f"cut hits with a score under {chosen.threshold} (`--min-score {chosen.threshold}` scores it)"
    yield Proof(sure, said, [wrong.number, apart.number], first_try=(first,))


def _no_answer(e: Evidence) -> tuple[Unanswerable, LazyInterval, LazyInterval]:
    found: Unanswerable = e.analysis("no_answer")
    row, apart = found.false_evidence, found.separation
    if apart is None or found.answerable < FEW:
        raise MissingEvidence("AUROC")
    wrong = e.told(row.metric, row.mean, (row.low, row.high), row.n)
    return found, wrong, e.told("AUROC of the top score", apart.area, (apart.low, apart.high), row.n)
