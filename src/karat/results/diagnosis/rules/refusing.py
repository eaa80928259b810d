"""What should not have been shown: documents of a later time, hits for questions without an answer."""

from __future__ import annotations

from collections.abc import Iterator

from karat.results.analyses.freshness import Fresh
from karat.results.analyses.no_answer import Unanswerable
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import Evidence, LazyInterval, MissingEvidence
from karat.results.diagnosis.finding import Number
from karat.results.diagnosis.rule import Proof, RuleTable
from karat.results.numbers import decimal_of, percent, share_of
from karat.results.summary import FEW

TABLE: RuleTable[Evidence] = RuleTable()
rule = TABLE.rule


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
            f"{share_of(newer)} of the first {found.k} hits are newer than their query's as_of. Without newer hits "
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
            f"{share_of(wrong)} of the queries without an answer get a hit. Of two queries, one with an answer and one "
            f"without, the first has the higher top score in {share_of(apart)} of the cases, where 50% is chance."
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
