"""What reranker, router and rewriter did."""

from __future__ import annotations

from collections.abc import Iterator

from karat.results.analyses.reranker import Reranked
from karat.results.analyses.rewriter import Rewritten
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import Evidence, LazyInterval, MissingEvidence
from karat.results.diagnosis.finding import Number
from karat.results.diagnosis.rule import Proof, RuleTable
from karat.results.differences import Difference
from karat.results.numbers import share_of

TABLE: RuleTable[Evidence] = RuleTable()
rule = TABLE.rule


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
            f"{gain.best:.2f}. Of that way reranking goes {share_of(captured)}."
        )
        yield Proof(sure, said, [captured.number, Number(f"{gain.metric}, best order − raw", gain.possible)])


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
        yield Proof(sure, f"{share_of(right)} of the queries asked the source that they need.", [right.number])


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
        said = f"With the rewritten query {_went(first)}; {share_of(harmed)} of the queries were harmed."
        where = " more than it helps" if worse else " many queries"
        yield Proof(sure, said, [change.number, harmed.number], about={"where": where})


def _reranked(e: Evidence) -> Reranked:
    found: Reranked = e.analysis("reranker")
    if not found.reordered:
        raise MissingEvidence("reranker")
    return found


def _change(e: Evidence, change: Difference) -> LazyInterval:
    return e.told(f"{change.metric}, difference", change.delta, (change.low, change.high), change.n)


def _went(change: Difference) -> str:
    """`ndcg@5 goes from 0.81 to 0.76 (change between −0.07 and −0.03)`."""
    values = (change.baseline, change.candidate, change.low, change.high)
    before, after, low, high = (f"{value:.2f}".replace("-", "−") for value in values)
    return f"{change.metric} goes from {before} to {after} (change between {low} and {high})"
