"""Sentences about doubtful data, for all outputs: what is wrong, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from karat.errors import shorten
from karat.results.numbers import counted
from karat.results.summary import MOST_MISSING, is_outage
from karat.scoring.doubts import Doubts, IdMismatch, NearIds, RisingScores, RowOrder
from karat.scoring.metrics.base import Metric

if TYPE_CHECKING:
    from karat.results.result import Result

_SHOWN = 60  # characters of an id


def read_first(result: Result) -> list[str]:
    """What a reader must know before any number: failed or missing queries, and a sentence or two for each doubt."""
    return [*_lost(result), *_empty(result), *_near_queries(result), *doubt_text(_told(result))]


def ways_out(result: Result) -> list[str]:
    """What to try, most likely first."""
    failed = result.audit["failed_queries"] and lost_queries(result) is not None
    again = ["run the failed queries again: karat run … --retry-failed"] if failed else []
    return [*again, *what_to_do(_told(result))]


def _told(result: Result) -> Doubts:
    """The doubts, without those about ids after an outage: failed queries explain why nothing was found."""
    doubts = result.doubts
    if doubts.ids is not None and not doubts.ids.sure and is_outage(result.audit, len(result.rows)):
        return replace(doubts, ids=None)
    return doubts


def _lost(result: Result) -> Iterator[str]:
    """Say that too many queries failed or are missing for the means to be meaningful."""
    lost, entries = lost_queries(result), {entry.code: entry for entry in result.audit}
    if lost is not None:
        failed = entries.get("failed_queries")
        such_as = f", such as {failed.examples[0]}" if failed is not None and failed.examples else ""
        if is_outage(result.audit, len(result.rows)):
            yield f"{lost}{such_as}. They count as not found, so the scores say little about the retriever."
        else:
            yield f"{lost}{such_as}. Missing queries are left out: the scores cover only the rest."


def _empty(result: Result) -> list[str]:
    """Say that many lists are empty without a reason: a retriever that was down, or one that finds nothing."""
    if result.rules.min_score is not None or not len(result.depths) or lost_queries(result) is not None:
        return []
    answerable = ~np.array(result.gold.no_answer, np.bool_)[result.rows]
    empty = int((answerable & (result.depths == 0)).sum()) - result.audit["failed_queries"]
    empty -= result.audit["missing_queries"]
    if empty <= MOST_MISSING * max(int(answerable.sum()), 1):
        return []
    lists = counted(int(answerable.sum()), "result list")
    return [
        f"{empty:,} of {lists} {'is' if empty == 1 else 'are'} empty, and no error is logged. If the retriever was "
        "down, log `error` for these queries: gates then stop with exit code 2."
    ]


def _near_queries(result: Result) -> list[str]:
    found = next((entry for entry in result.audit if entry.code == "near_queries"), None)
    if found is None:
        return []
    return [
        f"{counted(found.count)} of the run left out, although the gold set has an id that differs only in spelling "
        f"({found.examples[0]}). --normalize-ids treats them as the same."
    ]


def in_doubt(result: Result) -> str | None:
    """Why the scores say little about the retriever, in a few words; None if nothing is wrong."""
    doubts = _told(result)
    if doubts.ids is not None:
        return "ids do not match" if doubts.ids.sure else "no hit is a gold item"
    if doubts.scores is not None:
        return "are the scores distances?"
    if doubts.order is not None and doubts.order.sure:
        return "are the rows in ranking order?"
    return lost_queries(result)


def lost_queries(result: Result) -> str | None:
    """How many queries failed or are missing, if that is more than gates allow."""
    if result.missing_share <= MOST_MISSING:
        return None
    skipped = result.audit["missing_skipped"]
    failed, missing = result.audit["failed_queries"], result.audit["missing_queries"] + skipped
    of = f"of {counted(len(result.rows) + (skipped if result.rules.missing == 'skip' else 0))}"
    if not failed:
        return f"{missing:,} {of} missing"
    return f"{failed:,} {of} failed" + (f", {missing:,} missing" if missing else "")


def doubt_text(doubts: Doubts) -> list[str]:
    """A sentence or two for each doubt."""
    found = [] if doubts.ids is None else [_mismatch(doubts.ids)]
    if doubts.near is not None:
        found.append(_near(doubts.near, alone=doubts.ids is None))
    found += [] if doubts.scores is None else [_rising(doubts.scores)]
    return found if doubts.order is None else [*found, _row_order(doubts.order)]


def what_to_do(doubts: Doubts) -> list[str]:
    """What to try if ids do not match, most likely first."""
    if doubts.ids is None:
        return []
    near = ["compare normalized ids: --normalize-ids"] if doubts.near is not None else []
    return [*near, *(_OTHER_CHUNKS if doubts.ids.documents else _OTHER_NAMES), *([] if doubts.ids.corpus else _CORPUS)]


_PASSAGES = "label passages (`doc_id` with `quote`) or evidence texts: both work with any chunking"
_SYNTHESIZE = "make a gold set from your own chunks: karat synthesize"
_OTHER_CHUNKS = (
    "score documents instead of chunks: --by-document, or metrics with level=doc",
    _PASSAGES,
    _SYNTHESIZE,
)
_OTHER_NAMES = (
    "name the field with the gold set's ids: --map chunk_id=FIELD",
    "if the gold set has document ids, say how to get them from chunk ids: --doc-of",
    _PASSAGES,
    _SYNTHESIZE,
)
_CORPUS = ("pass the corpus, which shows what the ids of both sides mean: --corpus FILE",)


def _mismatch(found: IdMismatch) -> str:
    examples = f"The run has {_quoted(found.run_id)}, the gold set has {_quoted(found.gold_id)}."
    nothing = f"no hit is a gold item, for any of {counted(found.queries)}"
    if not found.sure:
        return (
            f"{nothing[0].upper()}{nothing[1:]}: the run finds nothing, or its ids differ from those of the gold set. "
            f"{examples}"
        )
    kind = "split documents into different chunks" if found.documents else "use different ids"
    known = _KNOWN.get(found.why, "")
    return f"Run and gold set {kind}: {nothing}. {examples}{known} Scores by id are meaningless here."


_KNOWN = {
    "corpus-gold": " The corpus has the items of the run, but not those of the gold set.",
    "corpus-run": " The corpus has the items of the gold set, but not those of the run.",
}


def _near(found: NearIds, *, alone: bool) -> str:
    differ = "only in a prefix" if found.how == "prefix" else "only in spelling"
    if not alone:  # examples are already given
        of = f"For {counted(found.count, 'gold item')}, the query has a hit whose id differs {differ}"
        return f"{of}: --normalize-ids treats them as the same."
    pair = found.examples[0]
    return (
        f"{counted(found.count, 'gold item')} not found, although the id of a hit differs {differ}: the run has "
        f"{_quoted(pair.run)}, the gold set has {_quoted(pair.gold)}. --normalize-ids treats them as the same."
    )


def _rising(found: RisingScores) -> str:
    if found.field is not None:
        return (
            f"Hits are ordered by {_quoted(found.field)}, highest first. If these are distances, use "
            "--scores lower-is-better; otherwise use --scores higher-is-better."
        )
    return (
        f"Scores rise down the lists of {found.queries:,} of {counted(found.of)}, but the highest counts as the best. "
        "If they are distances, use --scores lower-is-better or log score_order; otherwise use "
        "--scores higher-is-better."
    )


def _row_order(found: RowOrder) -> str:
    part = "" if found.queries == found.of else f" for {found.queries:,} of {counted(found.of)}"
    told = f"The table has neither rank nor score{part}"
    if found.why == "rows":
        return f"{told}: the order of its rows counts as the ranking. {_RANKED_BY}."
    how = "sorted by id" if found.why == "by-id" else "not together"
    return (
        f"{told}, and the rows of a query are {how}: their order says nothing about relevance. {_RANKED_BY}. If the "
        "rows are in ranking order anyway, use --scores as-listed."
    )


_RANKED_BY = "If a column ranks them, name it: --map rank=COLUMN or --map score=COLUMN"


def _quoted(item: str) -> str:
    return repr(shorten(item, _SHOWN))


def invalid_reason(doubts: Doubts, metric: Metric, name: str = "The run") -> str | None:
    """Why a metric of a result cannot be judged, or None if it can. `name`: whose result it is."""
    about = doubts.about(metric)
    if about == "ids" and doubts.ids is not None:
        found = doubts.ids
        kind = "different chunks from" if found.documents else "different ids from"
        return (
            f"{name} has {kind} the gold set: {_quoted(found.run_id)}, and in the gold set "
            f"{_quoted(found.gold_id)}. No hit is a gold item, for any of {counted(found.queries)}."
        )
    if about == "scores":
        assert doubts.scores is not None
        field = doubts.scores.field
        have = "scores that rise down its lists" if field is None else f"hits ordered by {_quoted(field)}"
        return f"{name} has {have}: use --scores lower-is-better or higher-is-better."
    if about == "order":
        return (
            f"{name} has neither rank nor score, and its rows are not ordered by relevance. {_RANKED_BY}; or use "
            "--scores as-listed."
        )
    return None


def gate_notes(result: Result) -> list[str]:
    """Notes shown with verdicts. What makes a verdict invalid is in the verdict itself."""
    doubts = _told(result)
    unsure = doubts.ids if doubts.ids is not None and not doubts.ids.sure else None
    order = doubts.order if doubts.order is not None and not doubts.order.sure else None
    return [*_empty(result), *_near_queries(result), *doubt_text(Doubts(unsure, doubts.near, order=order))]


def judgeable(metrics: Sequence[Metric], sides: dict[str, Doubts]) -> tuple[list[Metric], list[str]]:
    """The metrics that are valid on all sides, and why the others are left out."""
    reasons: dict[str, list[str]] = {}
    kept = []
    for metric in metrics:
        why = next((why for name, doubts in sides.items() if (why := invalid_reason(doubts, metric, name))), None)
        if why is None:
            kept.append(metric)
        else:
            reasons.setdefault(why, []).append(str(metric))
    return kept, [f"not compared: {', '.join(names)}. {why}" for why, names in reasons.items()]
