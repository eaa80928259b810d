"""The debugging playbook as a table of rules over one result. A new rule is one more entry here.

Order matters twice: it is the order in which findings are told, and `unless` looks at those told before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from karat.analyses.freshness import Fresh
from karat.analyses.no_answer import Unanswerable
from karat.analyses.reranker import Reranked
from karat.analyses.rewriter import Rewritten
from karat.attributes import NOT_GIVEN
from karat.diagnosis import thresholds as at
from karat.diagnosis.evidence import DIFFERENCE, Estimate, Evidence, NotMeasured
from karat.diagnosis.finding import Finding, Number
from karat.diagnosis.rule import Proof, Table
from karat.diagnosis.words import listed, milliseconds, percent, points, share
from karat.differences import Difference
from karat.errors import shorten
from karat.ids import Bools, Floats
from karat.statistics.apart import apart_p
from karat.statistics.corrections import holm
from karat.summary import FEW

TABLE: Table[Evidence] = Table()
rule = TABLE.rule


def find(evidence: Evidence) -> list[Finding]:
    """Everything that stands out beyond noise in one result."""
    return TABLE.apply(evidence, silent=NotMeasured)


@rule(
    "labels_gone",
    "Labels point at chunks that no longer exist: the corpus was cut in another way.",
    "do not read this as a worse retriever: scores by document (`--by-document`) still tell",
    "score with the corpus that the gold set was made for, or label anew",
    "label passages (`doc_id` with `quote`, or with `start` and `end`): they outlive every chunking",
)
def labels_gone(e: Evidence) -> Iterator[Proof]:
    """More than 5% of the chunks that the gold set names, and at least 5, are not in the corpus or have lost the quote
    beside their id, while their documents are there (a count, not an estimate; needs the corpus)."""
    if e.labels is None:
        raise NotMeasured("labels")
    if e.labels.rechunked:
        named, gone = e.labels.chunks.count, e.labels.chunks.moved + e.labels.changed
        such = [*e.labels.chunks.examples, *e.labels.changed_examples]
        said = f"Of {named:,} chunks that the gold set names, {gone:,} are gone or changed, such as {listed(such)}."
        yield Proof(2, said, [Number("chunks named", named), Number("chunks gone or changed", gone)])


@rule(
    "worse_than_random",
    "Drawing items blindly would find more than this system does.",
    "check that the ids of the run and of the gold set mean the same items",
    "check that the run was made with this corpus and these queries",
    "look at the worst queries: is the order upside down, or are the lists of other queries?",
    unless=("labels_gone",),
)
def worse_than_random(e: Evidence) -> Iterator[Proof]:
    """Recall@5 lies below the random floor k/N (needs the size of the corpus)."""
    floors = e.floors.get("recall@5")
    if floors is None:
        raise NotMeasured("floor")
    gap = e.estimate("recall@5 − random floor", e.column("recall@5") - floors, DIFFERENCE, few=1)
    if sure := gap.below(0):
        recall = e.estimate("recall@5", e.column("recall@5"), few=1)
        chance = float(np.nanmean(floors))
        yield Proof(
            sure,
            f"recall@5 is {share(recall)}; blind draws from {e.corpus_size:,} items would give {percent(chance)}.",
            [recall.number, Number("random floor", chance), gap.number],
        )


@rule(
    "short_lists",
    "Many queries got fewer than five hits.",
    "look at the audit: missing, failed and empty queries count as not found",
    "check filters and score thresholds that cut hits away",
)
def short_lists(e: Evidence) -> Iterator[Proof]:
    """More than 5% of the queries got fewer than 5 hits although other lists are longer."""
    if e.depths.max(initial=0) < 5:
        return  # the system was asked for fewer
    short = e.estimate("share of queries with fewer than 5 hits", (e.depths < 5).astype(np.float64))
    if sure := short.above(at.SHORT_LISTS):
        none = int((e.depths == 0).sum())
        yield Proof(
            sure,
            f"{share(short)} of the queries have fewer than 5 hits, {none:,} of them none at all.",
            [short.number, Number("queries without a hit", none)],
        )


@rule(
    "repeated_hits",
    "The same hit stands in a list several times and takes the place of others.",
    "remove repeats before the list is cut to k, after merging the results of several searches above all",
)
def repeated_hits(e: Evidence) -> Iterator[Proof]:
    """More than 1% of all hits are repeats of a hit in the same list (a count, not an estimate)."""
    total = e.repeats + int(e.depths.sum())
    if total and e.repeats / total > at.REPEATED:
        said = f"{e.repeats:,} of {total:,} hits are repeats. They were left out of all scores."
        yield Proof(2, said, [Number("repeated hits", e.repeats), Number("hits", total)])


@rule(
    "unjudged",
    "Many of the hits were never judged, so the scores may be too low.",
    "read recall, precision and nDCG as lower bounds: a hit without a judgement counts as wrong",
    "have the unjudged hits of the top 5 judged and add them to the gold set",
)
def unjudged(e: Evidence) -> Iterator[Proof]:
    """Judged@5 is below 80%, in a gold set that also says of some items that they are not relevant."""
    if not e.wrong_hits_judged:
        return  # whoever lists the relevant items alone means that all others are not
    judged = e.score("judged@5")
    if sure := judged.below(at.UNJUDGED):
        yield Proof(sure, f"The gold set knows {share(judged)} of the hits in the top 5.", [judged.number])


@rule(
    "chunking",
    "The right documents are found, but not the right passages in them.",
    "check whether the chunker cuts answers in two: try larger chunks, more overlap, or cuts at headings",
    "fetch the neighbours of a found chunk, or find documents first and then passages inside them",
    "put title and headings into every chunk",
    unless=("labels_gone", "worse_than_random"),
)
def chunking(e: Evidence) -> Iterator[Proof]:
    """Recall at the depth of the lists is low by chunk (below 70%) and fine by document (above 85%)."""
    chunks, documents = f"recall@{e.depth}", f"recall(level=doc)@{e.depth}"
    by_chunk, by_document = e.reach(chunks), e.reach(documents)
    gap = e.estimate("by document − by chunk", e.reached(documents) - e.reached(chunks), DIFFERENCE)
    sure = min(by_chunk.below(at.LOW_RECALL[e.depth]), by_document.above(at.FINE_BY_DOCUMENT), gap.above(at.WIDE))
    if sure:
        said = f"{_said(e, chunks, by_chunk)}, but {_said(e, documents, by_document)}."
        yield _as_deep_as_looked(e, Proof(sure, said, [by_chunk.number, by_document.number, gap.number]))


@rule(
    "not_found",
    "Much of what should be found is not in the lists at all.",
    "check that the missing items are in the index",
    "search by words and by meaning together (hybrid), or try another embedding model",
    "rewrite or expand the queries with the words that the documents use",
    "look at missed queries beside their gold: are words missing, or were passages cut apart?",
    unless=("labels_gone", "worse_than_random", "chunking"),
)
def not_found(e: Evidence) -> Iterator[Proof]:
    """Recall at the depth of the lists is low: below 70%, or 60% where they are five deep. Where the log keeps the
    lists before reranking, theirs decides."""
    deeper = _raw_recall(e)
    if deeper is not None:
        if sure := deeper.below(at.LOW_RECALL[50]):
            depth = deeper.name.rpartition("@")[2]
            said = f"{share(deeper)} of the right items are among the first {depth} hits before reranking."
            yield Proof(sure, said, [deeper.number])
        return
    found = e.reach(f"recall@{e.depth}")
    sure = found.below(at.LOW_RECALL[e.depth])
    if not sure:
        return
    said, numbers = _said(e, f"recall@{e.depth}", found), [found.number]
    by_document = f"recall(level=doc)@{e.depth}"
    if by_document in e.values:
        documents = e.reach(by_document)
        said += f"; {_said(e, by_document, documents)}"
        numbers.append(documents.number)
    yield _as_deep_as_looked(e, Proof(sure, f"{said}.", numbers))


def _raw_recall(e: Evidence) -> Estimate | None:
    """Recall of the lists before reranking, as deep as they go, where the log keeps some that are deeper than the final
    ones."""
    reranked = e.analyses().get("reranker")
    if reranked is None or reranked.raw_depth <= e.depth:
        return None
    row = max((r for r in reranked.raw if r.metric.startswith("recall@")), key=lambda r: int(r.metric[7:]))
    return e.told(f"raw {row.metric}", row.mean, (row.low, row.high), row.n)


def _as_deep_as_looked(e: Evidence, proof: Proof) -> Proof:
    """Of short lists it is certain that something is missing, not that the search lost it and not the order."""
    if e.depth >= at.DEEP_ENOUGH:
        return proof
    said = f"{proof.evidence} Nobody looked further down than {e.depth} hits, where the rest may stand."
    first = (
        "log deeper lists (50 hits, as `raw` where the final ones must be short): they tell whether search or order is "
        "to blame"
    )
    return replace(proof, sure=1, evidence=said, first_try=(first,))


@rule(
    "too_far_down",
    "Right items are found, but too far down to be among the first five.",
    "rerank the whole list, not only its top, for example with a cross-encoder",
    "if there is a reranker already, test it alone: it may push right items down",
    "pass on more than five hits, if the budget allows",
    unless=("worse_than_random",),
)
def too_far_down(e: Evidence) -> Iterator[Proof]:
    """Recall@5 is not yet good (below 80%) and a perfect order of the whole list would win more than 10 points."""
    if e.depth == 5:
        return
    now, best = e.reach("recall@5"), e.estimate(f"recall@5 / ceiling, best order of {e.depth}", e.reordered(e.depth))
    gap = e.estimate("best order − now", e.reordered(e.depth) - e.reached("recall@5"), DIFFERENCE)
    if sure := min(now.below(at.GOOD_RECALL_AT_5), gap.above(at.WIDE)):
        said = (
            f"{_said(e, 'recall@5', now)}. With the first {e.depth} hits in the best possible order it would be "
            f"{share(best)}, {points(gap)} more."
        )
        yield Proof(sure, said, [now.number, best.number, gap.number])


@rule(
    "buried",
    "The right items are among the first five, but not at the top.",
    "rerank the first hits with a cross-encoder",
    "tune the scoring: weights of title and text, BM25's parameters, the embedding model",
    "expand the queries with the words that the documents use",
)
def buried(e: Evidence) -> Iterator[Proof]:
    """Recall@5 is good (above 80%), but MRR is low (below 0.62) or nDCG@5 more than 20 points below recall@5."""
    recall, mrr = e.reach("recall@5"), e.score("mrr")
    ndcg = e.score("ndcg@5")
    cost = e.estimate("recall@5 / ceiling − ndcg@5", e.reached("recall@5") - e.column("ndcg@5"), DIFFERENCE)
    if sure := min(recall.above(at.GOOD_RECALL_AT_5), max(mrr.below(at.LOW_MRR), cost.above(at.ORDER_COST))):
        first = e.reach("recall@1")
        said = (
            f"{_said(e, 'recall@5', recall)}, but only {_said(e, 'recall@1', first)}; "
            f"MRR is {_decimal(mrr)} and nDCG@5 {_decimal(ndcg)}, where 1 means right from the top."
        )
        yield Proof(sure, said, [recall.number, first.number, mrr.number, ndcg.number, cost.number])


@rule(
    "clutter",
    "The right items are there, with many wrong ones between them.",
    "rerank the first hits with a cross-encoder",
    "ask for words that must occur, or cut hits under a score",
    "prefer hits from documents that are not in the list yet",
    unless=("buried",),
)
def clutter(e: Evidence) -> Iterator[Proof]:
    """Of queries with several relevant items: recall@5 is good (above 80%), but of the first R hits, R being the number
    of relevant items, fewer than 60% are right. Precision@5 itself cannot tell: few relevant items keep it low."""
    several = e.ceiling("precision@5") >= 2 / 5
    recall, clean = e.reach("recall@5", several), e.score("rprecision", several)
    if sure := min(recall.above(at.GOOD_RECALL_AT_5), clean.below(at.LOW_PRECISION)):
        precision = e.score("precision@5", several)
        most = float(np.mean(e.ceiling("precision@5")[several]))
        said = (
            f"Over the queries with two or more right items, {_said(e, 'recall@5', recall, several)}. Yet of the first "
            f"hits, taking as many as there are right items, only {share(clean)} are right (rprecision); "
            f"precision@5 is {share(precision)}, where {percent(most)} is possible."
        )
        yield Proof(sure, said, [recall.number, clean.number, precision.number])


@rule(
    "first_hit_only",
    "The first hit is usually right, but the rest of what is needed is missing.",
    "fine where one hit answers the question; where several are needed, raise k or add a second search",
    "prefer hits that add something new over hits that repeat the first",
    unless=("chunking", "not_found", "too_far_down"),
)
def first_hit_only(e: Evidence) -> Iterator[Proof]:
    """MRR is high (above 0.70), recall@5 is not good (below 80%), and nothing above explains it."""
    mrr, recall = e.score("mrr"), e.reach("recall@5")
    if sure := min(mrr.above(at.HIGH_MRR), recall.below(at.GOOD_RECALL_AT_5)):
        said = f"MRR is {_decimal(mrr)}, where 1 means that every first hit is right; {_said(e, 'recall@5', recall)}."
        yield Proof(sure, said, [mrr.number, recall.number])


@rule(
    "same_documents",
    "The first five hits come from few documents, while right items are missing.",
    "allow only one or two hits from the same document, or give a bonus to new documents",
    "check whether the corpus holds the same text several times, such as old versions",
)
def same_documents(e: Evidence) -> Iterator[Proof]:
    """More than 40% of the top 5 are further hits from a document already there, and recall@5 is not good."""
    hits = np.where(e.depths > 0, np.minimum(e.depths, 5), np.nan)
    redundancy = e.estimate("redundancy@5", 1 - e.column("distinct_docs@5") / hits)
    recall = e.reach("recall@5")
    if sure := min(redundancy.above(at.REDUNDANT), recall.below(at.GOOD_RECALL_AT_5)):
        said = (
            f"{share(redundancy)} of the top 5 come from a document that is there already; "
            f"{_said(e, 'recall@5', recall)}."
        )
        yield Proof(sure, said, [redundancy.number, recall.number])


@rule(
    "reranker_hurts",
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
        yield Proof(sure, f"From the raw lists to the final ones {_went(found.differences[0])}.", [change.number])


@rule(
    "reranker_wins_little",
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
            f"{gain.best:.2f}. Of that way reranking goes {share(captured)}."
        )
        yield Proof(sure, said, [captured.number, Number(f"{gain.metric}, best order − raw", gain.possible)])


def _reranked(e: Evidence) -> Reranked:
    found: Reranked = e.analysis("reranker")
    if not found.reordered:
        raise NotMeasured("reranker")
    return found


def _change(e: Evidence, change: Difference) -> Estimate:
    return e.told(f"{change.metric}, difference", change.delta, (change.low, change.high), change.n)


def _went(change: Difference) -> str:
    """`ndcg@5 goes from 0.81 to 0.76 (change between −0.07 and −0.03)`."""
    values = (change.baseline, change.candidate, change.low, change.high)
    before, after, low, high = (f"{value:.2f}".replace("-", "−") for value in values)
    return f"{change.metric} goes from {before} to {after} (change between {low} and {high})"


@rule(
    "misrouted",
    "Many queries are sent to the wrong source.",
    'look at the confusion table under "Routing": which source is taken for which?',
    "where the router is unsure, ask two sources and let the reranker decide",
    "give the router examples of the queries that it gets wrong",
)
def misrouted(e: Evidence) -> Iterator[Proof]:
    """Less than 90% of the queries asked every source that they need."""
    right = e.score("route_accuracy")
    if sure := right.below(at.ROUTED_RIGHT):
        yield Proof(sure, f"{share(right)} of the queries asked the source that they need.", [right.number])


@rule(
    "rewriting_harms",
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
        said = f"With the rewritten query {_went(first)}; {share(harmed)} of the queries were harmed."
        where = " more than it helps" if worse else " many queries"
        yield Proof(sure, said, [change.number, harmed.number], about={"where": where})


@rule(
    "weak_segment",
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

    def __init__(self, attribute: str, value: str, own: Estimate, rest: Estimate) -> None:
        self.attribute, self.value, self.own, self.rest = attribute, value, own, rest

    @property
    def p(self) -> float:
        if self.own.value >= self.rest.value:
            return 1.0
        return apart_p(self.own.value, self.own.limits[1], self.rest.value, self.rest.limits[0], self.own.level)


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
        f"for {shorten(g.value, 40)}, {share(g.own)} of the right items that fit into the first 5 hits are there, "
        f"for all others {share(g.rest)}"
        for g, _ in weak
    )
    tongue = ("check for this language: stop words, accents, how words are split, its own words for things",)
    return Proof(
        2 if min(p for _, p in weak) < doubt / 5 else 1,
        f"{said[0].upper()}{said[1:]}. This allows for the number of groups that were looked at.",
        [number for g, _ in weak for number in (g.own.number, g.rest.number)],
        about={"attribute": name, "values": listed([shorten(g.value, 40) for g, _ in weak], "or")},
        first_try=tongue if "lang" in name.lower() or "locale" in name.lower() else (),
    )


@rule(
    "slow",
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
    said, numbers, where = f"Half of the queries take longer than {milliseconds(median)}.", [median.number], ""
    stages = _stages(e)
    for name, times in stages.items():
        part = e.estimate(f"share of the time in {name}", times / total)
        more = e.estimate("stage − all others", times - (total - times), (-np.inf, np.inf))
        if len(stages) > 1 and more.above(0):
            said += f" On average {share(part)} of a query's time goes into {name}."
            numbers.append(part.number)
            where = f", and most of the time goes into {shorten(name, 40)}"
    first = () if len(stages) > 1 else ("log the time of each stage: it tells where to look",)
    yield Proof(sure, said, numbers, about={"where": where}, first_try=first)


@rule(
    "slow_tail",
    "One query in ten takes far longer than the usual one.",
    "look at the slowest queries: long texts, many candidates, cold caches, waiting for another service",
    "set a time limit after which the order of the first stage is used",
)
def slow_tail(e: Evidence) -> Iterator[Proof]:
    """The 90th percentile is more than three times the median, and above 110 ms."""
    total = e.column("latency_p90")
    usual, tail = e.quantile("latency_p50", total, 0.5), e.quantile("latency_p90", total, 0.9)
    if sure := min(tail.above(at.SLOW_MS), tail.above(at.LONG_TAIL * usual.limits[1])):
        said = f"Half of the queries take up to {milliseconds(usual)}, one in ten {milliseconds(tail)} or more."
        yield Proof(sure, said, [usual.number, tail.number])


@rule(
    "from_the_future",
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
            f"{share(newer)} of the first {found.k} hits are newer than their query's as_of. Without newer hits "
            f"{recall.metric} goes from {percent(recall.baseline or 0)} to {percent(recall.candidate or 0)}."
        )
        numbers = [newer.number, credit.number]
        if found.newer_gold:
            said += f" {found.newer_gold:,} relevant gold items are newer, too: a label or an as_of is wrong there."
            numbers.append(Number("relevant gold items newer than as_of", found.newer_gold))
        yield Proof(sure, said, numbers)


@rule(
    "scores_do_not_tell",
    "Questions without an answer get hits, and scores do not tell them from the others.",
    "do not rely on a score threshold here: most of what it holds back has an answer",
    "rerank with a model whose scores mean relevance, or ask a model whether the hits answer the question",
)
def scores_do_not_tell(e: Evidence) -> Iterator[Proof]:
    """More than 20% of the queries without an answer get hits, and the AUROC of the top score is below 0.70."""
    _, wrong, apart = _no_answer(e)
    if sure := min(wrong.above(at.FALSE_EVIDENCE), apart.below(at.APART)):
        said = (
            f"{share(wrong)} of the queries without an answer get a hit. Of two queries, one with an answer and one "
            f"without, the first has the higher top score in {share(apart)} of the cases, where 50% is chance."
        )
        yield Proof(sure, said, [wrong.number, apart.number])


@rule(
    "no_threshold",
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
        f"{share(wrong)} of the queries without an answer get a hit. With hits under {chosen.threshold} cut it is "
        f"{after}, and {missed} of the queries with an answer get no relevant hit instead of {before}. "
        f"AUROC of the top score: {_decimal(apart)}."
    )
    first = f"cut hits with a score under {chosen.threshold} (`--min-score {chosen.threshold}` scores it)"
    yield Proof(sure, said, [wrong.number, apart.number], first_try=(first,))


def _no_answer(e: Evidence) -> tuple[Unanswerable, Estimate, Estimate]:
    found: Unanswerable = e.analysis("no_answer")
    row, apart = found.false_evidence, found.separation
    if apart is None or found.answerable < FEW:
        raise NotMeasured("AUROC")
    wrong = e.told(row.metric, row.mean, (row.low, row.high), row.n)
    return found, wrong, e.told("AUROC of the top score", apart.area, (apart.low, apart.high), row.n)


def _stages(e: Evidence) -> dict[str, Floats]:
    prefix = "latency(stage="
    found = {name[len(prefix) : -1]: values for name, values in e.values.items() if name.startswith(prefix)}
    return {name: values for name, values in found.items() if name != "total"}


def _said(e: Evidence, name: str, reach: Estimate, of: Bools | None = None) -> str:
    """`37% of the right items are among the first 5 hits (recall@5)`, and where not all of them fit there, how many of
    those that do."""
    k = name.rpartition("@")[2]
    what, how = ("documents", " by document") if "level=doc" in name else ("items", "")
    place = "are the first hit" if k == "1" else f"are among the first {k} hits"
    where = f"{place} (recall@{k}{how})"
    if e.uncapped(name):
        return f"{share(reach)} of the right {what} {where}"
    found = percent(e.score(name, of).value)
    return f"{found} of the right {what} {where}, which is {share(reach)} of those that fit there"


def _decimal(estimate: Estimate) -> str:
    low, high = estimate.limits
    return f"{estimate.value:.2f} ({low:.2f} to {high:.2f})"
