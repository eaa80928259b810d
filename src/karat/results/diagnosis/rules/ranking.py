"""Rules on whether the numbers can be trusted, what was found, and how high it ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace

from karat.data.ids import Bools
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import DIFFERENCE, Evidence, LazyInterval, above_zero
from karat.results.diagnosis.finding import MissingEvidence, Number, Proof, RuleTable
from karat.results.numbers import decimal_of, enumerated, percent, points_of, share_of

TABLE: RuleTable[Evidence] = RuleTable()
rule: Final = TABLE.rule
BM25_METRICS = ("recall@5", "ndcg@5", "mrr")  # in which a system may lose to BM25


@rule(
    "Plain keyword search (BM25) does better than this system.",
    "use BM25, alone or together with the system (hybrid), until the system beats it",
    "check how queries and passages are embedded: the right model, prefixes, language, truncated texts",
    "check that the index contains every chunk of the corpus",
)
def loses_to_bm25(e: Evidence) -> Iterator[Proof]:
    """BM25 has a higher recall@5, ndcg@5 or mrr on the same queries, beyond noise (corrected for several metrics with
    Holm's method; needs a corpus or a BM25 run)."""
    both = [name for name in BM25_METRICS if name in e.bm25 and name in e.values]
    if not both:
        raise MissingEvidence("bm25")
    gaps = {name: e.estimate(f"{name} of BM25 − {name}", e.bm25[name] - e.column(name), DIFFERENCE) for name in both}
    sure = above_zero(gaps)
    if not sure:
        return
    said, numbers = [], []
    for name in sure:
        ours, theirs, gap = e.score(name), e.estimate(f"{name} of BM25", e.bm25[name]), gaps[name]
        value, more = (share_of, points_of) if name.startswith("recall") else (decimal_of, decimal_of)
        said.append(f"{name} is {value(ours)}. BM25 reaches {value(theirs)}, {more(gap)} more, query by query.")
        numbers += [ours.number, theirs.number, gap.number]
    yield Proof(max(sure.values()), " ".join(said), numbers)


@rule(
    "Labels point at chunks that no longer exist: the corpus was chunked differently.",
    "do not blame the retriever: scores by document (`--by-document`) are still valid",
    "score with the corpus that the gold set was made for, or label again",
    "label passages (`doc_id` with `quote`, or with `start` and `end`): they survive rechunking",
)
def labels_gone(e: Evidence) -> Iterator[Proof]:
    """More than 5% of the chunks in the gold set, and at least 5, are not in the corpus or no longer contain their
    quote, while their documents are in the corpus (a count, not an estimate; needs the corpus)."""
    if e.labels is None:
        raise MissingEvidence("labels")
    if e.labels.rechunked:
        named, gone = e.labels.chunks.count, e.labels.chunks.moved + e.labels.changed
        such = [*e.labels.chunks.examples, *e.labels.changed_examples]
        said = f"{gone:,} of the {named:,} chunks in the gold set are gone or changed, such as {enumerated(such)}."
        yield Proof(2, said, [Number("chunks named", named), Number("chunks gone or changed", gone)])


@rule(
    "Drawing items at random would find more than this system.",
    "check that the ids of the run and of the gold set mean the same items",
    "check that the run was made with this corpus and these queries",
    "look at the worst queries: is the order reversed, or do the lists belong to other queries?",
    unless=("labels_gone",),
)
def worse_than_random(e: Evidence) -> Iterator[Proof]:
    """Recall@5 is below the random floor (needs the corpus, or its size if the gold set has chunk ids)."""
    if "recall@5" not in e.floors:
        raise MissingEvidence("floor")
    floors = e.floors["recall@5"]
    gap = e.estimate("recall@5 − random floor", e.column("recall@5") - floors, DIFFERENCE, few=1)
    if sure := gap.below(0):
        recall = e.estimate("recall@5", e.column("recall@5"), few=1)
        chance = float(np.nanmean(floors))
        yield Proof(
            sure,
            f"recall@5 is {share_of(recall)}; random draws from {e.corpus_size:,} items would give {percent(chance)}.",
            [recall.number, Number("random floor", chance), gap.number],
        )


@rule(
    "This system is no better than drawing items at random.",
    "check that the ids of the run and of the gold set mean the same items",
    "check that the run was made with this corpus and these queries",
    "check that queries and passages are embedded by the same model",
    unless=("labels_gone", "worse_than_random"),
)
def no_better_than_random(e: Evidence) -> Iterator[Proof]:
    """Recall@5 is less than 2 points above the random floor k/N, beyond noise (needs the size of the corpus)."""
    if "recall@5" not in e.floors:
        raise MissingEvidence("floor")
    floors = e.floors["recall@5"]
    gap = e.estimate("recall@5 − random floor", e.column("recall@5") - floors, DIFFERENCE)
    chance = float(np.nanmean(floors))
    if gap.above(0) or not (sure := gap.below(at.NO_BETTER)):
        return
    recall = e.score("recall@5")
    yield Proof(
        sure,
        f"recall@5 is {share_of(recall)}; random draws from {e.corpus_size:,} items would give {percent(chance)}.",
        [recall.number, Number("random floor", chance), gap.number],
    )


@rule(
    "Many queries got fewer than five hits.",
    "look at the audit: missing, failed and empty queries count as not found",
    "check filters and score thresholds that remove hits",
)
def short_lists(e: Evidence) -> Iterator[Proof]:
    """More than 5% of the queries got fewer than 5 hits, while other queries got more."""
    if e.depths.max(initial=0) < 5:
        return  # fewer than 5 were requested
    short = e.estimate("share of queries with fewer than 5 hits", (e.depths < 5).astype(np.float64))
    if sure := short.above(at.SHORT_LISTS):
        none = int((e.depths == 0).sum())
        yield Proof(
            sure,
            f"{share_of(short)} of the queries have fewer than 5 hits, {none:,} of them none at all.",
            [short.number, Number("queries without a hit", none)],
        )


@rule(
    "The same hit appears several times in a list and takes the place of others.",
    "remove duplicates before cutting the list to k, especially after merging several searches",
)
def repeated_hits(e: Evidence) -> Iterator[Proof]:
    """More than 1% of all hits are repeats of a hit in the same list (a count, not an estimate)."""
    total = e.repeats + int(e.depths.sum())
    if total and e.repeats / total > at.REPEATED:
        said = f"{e.repeats:,} of {total:,} hits are repeats. They are left out of all scores."
        yield Proof(2, said, [Number("repeated hits", e.repeats), Number("hits", total)])


@rule(
    "Many of the hits were never judged, so the scores may be too low.",
    "read recall, precision and nDCG as lower bounds: an unjudged hit counts as wrong",
    "label the unjudged hits in the top 5 and add them to the gold set",
)
def unjudged(e: Evidence) -> Iterator[Proof]:
    """Judged@5 is below 80%, in a gold set that also marks some items as not relevant."""
    if not e.wrong_hits_judged:
        return  # a gold set that lists only relevant items means that all others are not
    judged = e.score("judged@5")
    if sure := judged.below(at.UNJUDGED):
        yield Proof(sure, f"The gold set judges {share_of(judged)} of the hits in the top 5.", [judged.number])


@rule(
    "The right documents are found, but not the right passages in them.",
    "check whether the chunker splits answers: try larger chunks, more overlap, or splitting at headings",
    "fetch the neighbours of a found chunk, or find documents first and then passages in them",
    "add title and headings to every chunk",
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
    "Many relevant items are not in the lists at all.",
    "check that the missing items are in the index",
    "combine keyword and vector search (hybrid), or try another embedding model",
    "rewrite or expand the queries with the words that the documents use",
    "compare missed queries with their gold: do they use other words, or were passages split?",
    unless=("labels_gone", "worse_than_random", "chunking"),
)
def not_found(e: Evidence) -> Iterator[Proof]:
    """Recall at the depth of the lists is low: below 70%, or 60% for lists of five. If the log has the lists before
    reranking, their recall decides."""
    deeper = _raw_recall(e)
    if deeper is not None:
        if sure := deeper.below(at.LOW_RECALL[50]):
            depth = deeper.name.rpartition("@")[2]
            said = f"{share_of(deeper)} of the right items are among the first {depth} hits before reranking."
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


def _raw_recall(e: Evidence) -> LazyInterval | None:
    """Recall of the lists before reranking at their full depth, if the log has them and they are deeper than the final
    lists."""
    reranked = e.analyses().get("reranker")
    if reranked is None or reranked.raw_depth <= e.depth:
        return None
    row = max((r for r in reranked.raw if r.metric.startswith("recall@")), key=lambda r: int(r.metric[7:]))
    return e.told(f"raw {row.metric}", row.mean, (row.low, row.high), row.n)


def _as_deep_as_looked(e: Evidence, proof: Proof) -> Proof:
    """Weaken a proof from short lists: items are missing, but search or ranking may be the cause."""
    if e.depth >= at.DEEP_ENOUGH:
        return proof
    half = int(e.length)
    ends = f"Half of the lists end after {half} hits or earlier"
    if half == e.depths.max():
        ends = f"The lists end after {half} hits"
    said = f"{proof.evidence} {ends}; the rest may be further down."
    first = "log deeper lists (50 hits, as `raw` if the final ones must be short) to see whether search or order fails"
    return replace(proof, sure=1, evidence=said, first_try=(first,))


@rule(
    "Right items are found, but too far down to be among the first five.",
    "rerank the whole list, not only its top, for example with a cross-encoder",
    "if there already is a reranker, test it alone: it may push right items down",
    "pass on more than five hits, if the budget allows",
    unless=("worse_than_random",),
)
def too_far_down(e: Evidence) -> Iterator[Proof]:
    """Recall@5 is not good (below 80%), and a perfect order of the whole list would gain more than 10 points."""
    if e.depth == 5:
        return
    now, best = e.reach("recall@5"), e.estimate(f"recall@5 / ceiling, best order of {e.depth}", e.reordered(e.depth))
    gap = e.estimate("best order − now", e.reordered(e.depth) - e.reached("recall@5"), DIFFERENCE)
    if sure := min(now.below(at.GOOD_RECALL_AT_5), gap.above(at.WIDE)):
        said = (
            f"{_said(e, 'recall@5', now)}. With the first {e.depth} hits in the best possible order it would be "
            f"{share_of(best)}, {points_of(gap)} more."
        )
        yield Proof(sure, said, [now.number, best.number, gap.number])


@rule(
    "The right items are among the first five, but not at the top.",
    "rerank the first hits with a cross-encoder",
    "tune the scoring: weights of title and text, BM25 parameters, the embedding model",
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
            f"MRR is {decimal_of(mrr)} and nDCG@5 is {decimal_of(ndcg)} (1 is perfect)."
        )
        yield Proof(sure, said, [recall.number, first.number, mrr.number, ndcg.number, cost.number])


@rule(
    "The right items are found, but many wrong ones are mixed in.",
    "rerank the first hits with a cross-encoder",
    "require certain words, or drop hits below a minimum score",
    "prefer hits from documents that are not in the list yet",
    unless=("buried",),
)
def clutter(e: Evidence) -> Iterator[Proof]:
    """For queries with several relevant items, recall@5 is good (above 80%), but fewer than 60% of the first R hits are
    right, where R is the number of relevant items. Precision@5 cannot show this: few relevant items keep it low."""
    several = e.ceiling("precision@5") >= 2 / 5
    recall, clean = e.reach("recall@5", several), e.score("rprecision", several)
    if sure := min(recall.above(at.GOOD_RECALL_AT_5), clean.below(at.LOW_PRECISION)):
        precision = e.score("precision@5", several)
        most = float(np.mean(e.ceiling("precision@5")[several]))
        said = (
            f"For queries with two or more right items, {_said(e, 'recall@5', recall, several)}. But of the first R "
            f"hits, where R is the number of right items, only {share_of(clean)} are right (rprecision). "
            f"precision@5 is {share_of(precision)}; at most {percent(most)} is possible."
        )
        yield Proof(sure, said, [recall.number, clean.number, precision.number])


@rule(
    "The first hit is usually right, but other relevant items are missing.",
    "this is fine if one hit answers the question; if several are needed, raise k or add a second search",
    "prefer hits that add something new over hits that repeat the first",
    unless=("chunking", "not_found", "too_far_down"),
)
def first_hit_only(e: Evidence) -> Iterator[Proof]:
    """MRR is high (above 0.70), recall@5 is not good (below 80%), and nothing above explains it."""
    mrr, recall = e.score("mrr"), e.reach("recall@5")
    if sure := min(mrr.above(at.HIGH_MRR), recall.below(at.GOOD_RECALL_AT_5)):
        said = f"MRR is {decimal_of(mrr)} (1: every first hit is right), but {_said(e, 'recall@5', recall)}."
        yield Proof(sure, said, [mrr.number, recall.number])


@rule(
    "The first five hits come from few documents, while right items are missing.",
    "allow only one or two hits per document, or give a bonus to new documents",
    "check whether the corpus contains the same text several times, such as old versions",
)
def same_documents(e: Evidence) -> Iterator[Proof]:
    """More than 40% of the top 5 come from a document that is already in the list, and recall@5 is not good."""
    hits = np.where(e.depths > 0, np.minimum(e.depths, 5), np.nan)
    redundancy = e.estimate("redundancy(by=returned)@5", 1 - e.column("distinct_docs@5") / hits)
    recall = e.reach("recall@5")
    if sure := min(redundancy.above(at.REDUNDANT), recall.below(at.GOOD_RECALL_AT_5)):
        said = (
            f"{share_of(redundancy)} of the top 5 come from a document that is already in the list; "
            f"{_said(e, 'recall@5', recall)}."
        )
        yield Proof(sure, said, [redundancy.number, recall.number])


def _said(e: Evidence, name: str, reach: LazyInterval, of: Bools | None = None) -> str:
    """`37% of the right items are among the first 5 hits (recall@5)`; if not all of them fit there, also the share of
    those that do."""
    k = name.rpartition("@")[2]
    what, how = ("documents", " by document") if "level=doc" in name else ("items", "")
    place = "are the first hit" if k == "1" else f"are among the first {k} hits"
    where = f"{place} (recall@{k}{how})"
    if e.uncapped(name):
        return f"{share_of(reach)} of the right {what} {where}"
    found = percent(e.score(name, of).value)
    return f"{found} of the right {what} {where}, which is {share_of(reach)} of those that fit there"
