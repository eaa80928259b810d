"""Whether the numbers can be trusted: labels, lists and judgements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import DIFFERENCE, Evidence, MissingEvidence
from karat.results.diagnosis.finding import Number
from karat.results.diagnosis.rule import Proof, RuleTable
from karat.results.numbers import enumerated, percent, share_of

TABLE: RuleTable[Evidence] = RuleTable()
rule = TABLE.rule


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
        raise MissingEvidence("labels")
    if e.labels.rechunked:
        named, gone = e.labels.chunks.count, e.labels.chunks.moved + e.labels.changed
        such = [*e.labels.chunks.examples, *e.labels.changed_examples]
        said = f"Of {named:,} chunks that the gold set names, {gone:,} are gone or changed, such as {enumerated(such)}."
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
    if "recall@5" not in e.floors:
        raise MissingEvidence("floor")
    floors = e.floors["recall@5"]
    gap = e.estimate("recall@5 − random floor", e.column("recall@5") - floors, DIFFERENCE, few=1)
    if sure := gap.below(0):
        recall = e.estimate("recall@5", e.column("recall@5"), few=1)
        chance = float(np.nanmean(floors))
        yield Proof(
            sure,
            f"recall@5 is {share_of(recall)}; blind draws from {e.corpus_size:,} items would give {percent(chance)}.",
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
            f"{share_of(short)} of the queries have fewer than 5 hits, {none:,} of them none at all.",
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
        yield Proof(sure, f"The gold set knows {share_of(judged)} of the hits in the top 5.", [judged.number])
