"""Sentences about doubtful data, for all outputs: what is wrong, and what to type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from karat.data.gold import FORBIDDEN
from karat.errors import InputError, shorten
from karat.errors.spelling import spell
from karat.results.analyses.forbidden import Leaks
from karat.results.diagnosis.finding import Finding
from karat.results.numbers import counted
from karat.results.summary import is_outage
from karat.scoring.doubts import MOST_MISSING, Doubts, IdMismatch, NearIds, RisingScores, RowOrder
from karat.scoring.metrics.base import Metric

if TYPE_CHECKING:
    from karat.results.result import Result

_SHOWN = 60  # characters of an id


# Findings about the data itself, by code: they come before all others.
READ_FIRST = {
    "leaks": "Some queries get hits that they must not get.",
    "lost_queries": "Many queries failed or are missing.",
    "empty_lists": "Many result lists are empty.",
    "near_queries": "Some queries of the run differ from those of the gold set only in the spelling of the id.",
    "unmatched_ids": "No hit has an id of the gold set.",
    "near_ids": "Some hits differ from gold items only in the spelling of the id.",
    "distances": "The scores may be distances.",
    "falling_distances": "The scores may not be distances.",
    "row_order": "The order of the rows may not be the ranking.",
}


def warnings_of(result: Result) -> list[Finding]:
    """What a reader must know before any number: failed or missing queries, and doubts about ids and order."""
    told = _told(result)
    found = {
        "leaks": _leaks(result),
        "lost_queries": _lost(result),
        "empty_lists": _empty(result),
        "near_queries": _near_queries(result),
        "falling_distances": _falling(result),
    }
    texts = {code: text for code, text in found.items() if text is not None} | _doubt_texts(told)
    ways = {"lost_queries": _again(result), "unmatched_ids": what_to_do(told)}
    unsure = {"empty_lists", *({"unmatched_ids"} if told.ids is not None and not told.ids.sure else ())}
    return [
        Finding(
            code=code,
            title=READ_FIRST[code],
            sure="likely" if code in unsure else "strong",
            evidence=spell(text),
            what_to_try=list(map(spell, ways.get(code, []))),
            numbers=[],
        )
        for code, text in texts.items()
    ]


def read_first(result: Result) -> list[str]:
    """The warnings, a sentence or two each."""
    return [found.evidence for found in warnings_of(result)]


def _leaks(result: Result) -> str | None:
    """Say that there are forbidden hits: one is enough."""
    if not result.rules.forbid and FORBIDDEN not in result.gold.fields:
        return None
    found = result.analyses.found.get("forbidden")
    if not isinstance(found, Leaks) or not found.leaked:
        return None
    first = found.examples[0]
    hit = shorten(first.hits[0], _SHOWN)
    return (
        f"{found.leaked:,} of {counted(found.queries.n)} got a forbidden hit among the first {found.k}, such as {hit} "
        f"for {shorten(first.query, _SHOWN)}."
    )


def _again(result: Result) -> list[str]:
    again = ["run the failed queries again: karat run … --retry-failed"] if result.audit["failed_queries"] else []
    absent = result.audit["missing_queries"] and result.rules.missing != "skip"
    part = "if the run is meant to have only some of the queries, score those: --missing skip"
    return [*again, *([part] if absent else [])]


def _told(result: Result) -> Doubts:
    """The doubts, without those about ids after an outage: failed queries explain why nothing was found."""
    doubts = result.doubts
    if doubts.ids is not None and not doubts.ids.sure and is_outage(result.audit, len(result.rows)):
        return replace(doubts, ids=None)
    return doubts


def _lost(result: Result) -> str | None:
    """Say that too many queries failed or are missing for the means to be meaningful."""
    lost, entries = lost_queries(result), {entry.code: entry for entry in result.audit}
    if lost is None:
        return None
    failed = entries.get("failed_queries")
    such_as = f", such as {failed.examples[0]}" if failed is not None and failed.examples else ""
    if is_outage(result.audit, len(result.rows)):
        return f"{lost}{such_as}. They count as not found, so the scores say little about the retriever."
    return f"{lost}{such_as}. Missing queries are left out: the scores cover only the rest."


def _empty(result: Result) -> str | None:
    """Say that many lists are empty without a reason: a retriever that was down, or one that finds nothing."""
    if result.rules.min_score is not None or not len(result.depths) or lost_queries(result) is not None:
        return None
    answerable = ~np.array(result.gold.no_answer, np.bool_)[result.rows]
    empty = int((answerable & (result.depths == 0)).sum()) - result.audit["failed_queries"]
    empty -= result.audit["missing_queries"]
    if empty <= MOST_MISSING * max(int(answerable.sum()), 1):
        return None
    lists = counted(int(answerable.sum()), "result list")
    return (
        f"{empty:,} of {lists} {'is' if empty == 1 else 'are'} empty, and no error is logged. If the retriever was "
        "down, log `error` for these queries: gates then stop with exit code 2."
    )


def _near_queries(result: Result) -> str | None:
    found = next((entry for entry in result.audit if entry.code == "near_queries"), None)
    if found is None:
        return None
    return (
        f"{counted(found.count)} of the run left out, although the gold set has an id that differs only in spelling "
        f"({found.examples[0]}). --normalize-ids treats them as the same."
    )


def _falling(result: Result) -> str | None:
    queries = result.audit["falling_distances"]
    return (
        f"Scores fall down the lists of {counted(queries)}, but the lowest counts as the best. If they are not "
        "distances, use --scores higher-is-better, and look at `scores` in karat.yaml."
        if queries
        else None
    )


def in_doubt(result: Result) -> str | None:
    """Why the scores say little about the retriever, in a few words; None if nothing is wrong."""
    doubts = _told(result)
    if doubts.ids is not None:
        return "ids do not match" if doubts.ids.sure else "no hit is a gold item"
    if doubts.near is not None and doubts.near.share > MOST_MISSING:
        return "many ids do not match"
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
    return list(map(spell, _doubt_texts(doubts).values()))


def _doubt_texts(doubts: Doubts) -> dict[str, str]:
    """The sentences by the code of their finding."""
    found = {} if doubts.ids is None else {"unmatched_ids": _mismatch(doubts.ids)}
    if doubts.near is not None:
        found["near_ids"] = _near(doubts.near, alone=doubts.ids is None)
    found |= {} if doubts.scores is None else {"distances": _rising(doubts.scores)}
    return found if doubts.order is None else {**found, "row_order": _row_order(doubts.order)}


def refuse_doubtful_order(doubts: Doubts, run: str) -> None:
    """Raise if the first hits of a run may not be its best ones, where work on them would be wasted."""
    order = doubts.order if doubts.order is not None and doubts.order.sure else None
    found = doubt_text(Doubts(scores=doubts.scores, order=order))
    if found:
        what = "the first hits of this run may not be its best ones"
        raise InputError(what, code="doubtful-order", file=run, hint=found[0])


def what_to_do(doubts: Doubts) -> list[str]:
    """What to try if ids do not match, most likely first."""
    if doubts.ids is None:
        return []
    near = (
        []
        if doubts.near is None
        else [_ONE_WAY if doubts.near.normalized else "compare normalized ids: --normalize-ids"]
    )
    if doubts.ids.why == "kinds":
        return ["name the items as chunks: `chunk_id` or `id` instead of `doc_id`", *near]
    return [*near, *(_OTHER_CHUNKS if doubts.ids.documents else _OTHER_NAMES), *([] if doubts.ids.corpus else _CORPUS)]


_ONE_WAY = "write ids in the same way in both files, if they are the same"
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
    if found.why == "kinds":
        return f"{_KINDS.format(_quoted(found.gold_id))}: {nothing}. Scores by id are meaningless here."
    kind = "split documents into different chunks" if found.documents else "use different ids"
    known = _KNOWN.get(found.why, "")
    return f"Run and gold set {kind}: {nothing}. {examples}{known} Scores by id are meaningless here."


_KINDS = "The gold set names documents (`doc_id`) with ids that the run has for chunks, such as {}"
_KNOWN = {
    "corpus-gold": " The corpus has the items of the run, but not those of the gold set.",
    "corpus-run": " The corpus has the items of the gold set, but not those of the run.",
}


def _near(found: NearIds, *, alone: bool) -> str:
    differ = "only in a prefix" if found.how == "prefix" else "only in spelling"
    items, estimated = counted(found.count, "gold item"), ""
    if found.searched is not None:
        items, estimated = f"about {items}", f" This is an estimate from {counted(found.searched)}."
    if not alone:  # examples are already given
        return f"For {items}, the query has a hit whose id differs {differ}.{estimated} {_JOINED[found.normalized]}"
    pair = found.examples[0]
    text = (
        f"{items[0].upper()}{items[1:]} not found, although the id of a hit differs {differ}: the run has "
        f"{_quoted(pair.run)}, the gold set has {_quoted(pair.gold)}.{estimated}"
    )
    if found.how == "prefix":  # other ids match, so it is not a prefix of all ids
        return f"{text} If they are the same, use one spelling in both files."
    many = f" This affects {_roughly(found)} of the queries: scores by id are meaningless here."
    return f"{text} {_JOINED[found.normalized]}{many if found.share > MOST_MISSING else ''}"


def _roughly(found: NearIds) -> str:
    return f"{'' if found.searched is None else 'about '}{found.share:.0%}"


# By whether --normalize-ids is used.
_JOINED = {
    False: "--normalize-ids treats them as the same.",
    True: "--normalize-ids keeps them apart, because they may be different documents. If they are the same, write them "
    "in the same way in both files.",
}


def _rising(found: RisingScores) -> str:
    if found.listed:
        return (
            f"Hits have {_quoted(found.field or '')} and no score, and it does not rise down the lists. The order of "
            f"the lists counts; {_BY_DISTANCE.format(found.field)}."
        )
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


_BY_DISTANCE = "to rank by it, use --map score={} and --scores lower-is-better; otherwise use --scores as-listed"
_RANKED_BY = "If a column ranks them, name it: --map rank=COLUMN or --map score=COLUMN"


def _incomplete(name: str, result: Result, absent: int, queries: int) -> str | None:
    """Why a side says little about its retriever. `absent`: queries that count as failed because they are missing."""
    failed = result.audit["failed_queries"]
    if failed + absent <= MOST_MISSING * max(queries - result.audit["no_answer_queries"], 1):
        return None
    parts = [f"{n:,} of {counted(queries)} {how}" for n, how in ((failed, "failed"), (absent, "missing")) if n]
    way = "Run them again: karat run … --retry-failed" if failed else "Compare only the others with --missing skip"
    return spell(f"{name}: {', '.join(parts)}, which says little about the retriever. {way}.")


def _quoted(item: str) -> str:
    return repr(shorten(item, _SHOWN))


def invalid_reason(doubts: Doubts, metric: Metric, name: str = "The run", most: float = MOST_MISSING) -> str | None:
    """Why a metric of a result cannot be judged, or None if it can. `name`: whose result it is; `most`: the share of
    queries that may have misspelled ids."""
    reason = _invalid_reason(doubts, metric, name, most)
    return None if reason is None else spell(reason)


def _invalid_reason(doubts: Doubts, metric: Metric, name: str, most: float) -> str | None:
    about = doubts.about(metric, most)
    if about == "near" and doubts.near is not None:
        pair = doubts.near.examples[0]
        return (
            f"{name} spells ids differently from the gold set in {_roughly(doubts.near)} of the queries: "
            f"{_quoted(pair.run)}, and in the gold set {_quoted(pair.gold)}. At most {most:.0%} is allowed. "
            f"{_JOINED[doubts.near.normalized]}"
        )
    if about == "ids" and doubts.ids is not None:
        found = doubts.ids
        if found.why == "kinds":
            return f"{_KINDS.format(_quoted(found.gold_id))}. Name them as chunks: `chunk_id` or `id`."
        kind = "different chunks from" if found.documents else "different ids from"
        return (
            f"{name} has {kind} the gold set: {_quoted(found.run_id)}, and in the gold set "
            f"{_quoted(found.gold_id)}. No hit is a gold item, for any of {counted(found.queries)}."
            f"{'' if doubts.near is None else ' ' + _near(doubts.near, alone=False)}"
        )
    if about == "scores":
        assert doubts.scores is not None
        field = doubts.scores.field
        if doubts.scores.listed:
            return f"{name} has {_quoted(field or '')} and no score: {_BY_DISTANCE.format(field)}."
        have = "scores that rise down its lists" if field is None else f"hits ordered by {_quoted(field)}"
        return f"{name} has {have}: use --scores lower-is-better or higher-is-better."
    if about == "order":
        return (
            f"{name} has neither rank nor score, and its rows are not ordered by relevance. {_RANKED_BY}; or use "
            "--scores as-listed."
        )
    return None


def gate_notes(result: Result, most: float) -> list[str]:
    """Notes shown with verdicts. What makes a verdict invalid is in the verdict itself."""
    doubts = _told(result)
    unsure = doubts.ids if doubts.ids is not None and not doubts.ids.sure else None
    near = doubts.near if doubts.near is not None and doubts.near.share <= most else None
    order = doubts.order if doubts.order is not None and not doubts.order.sure else None
    about_data = (_empty(result), _near_queries(result), _falling(result))
    texts = filter(None, (*about_data, lost_in_short(result), _unchecked(result)))
    deep = too_deep(result)
    return [*map(spell, texts), *doubt_text(Doubts(unsure, near, order=order)), *([deep] if deep else [])]


def _unchecked(result: Result) -> str | None:
    """Say that rules of `--forbid` could not check some hits: that none is forbidden says nothing about them."""
    hits = result.audit["unchecked_hits"]
    return (
        f"{counted(hits, 'hit')} could not be checked for --forbid: a field is missing or cannot be compared."
        if hits
        else None
    )


# Short texts about queries that were not scored normally.
_IN_SHORT = {
    "failed_queries": "{} failed",
    "missing_queries": "{} missing from the run and scored as failed",
    "missing_skipped": "{} missing from the run and left out",
    "unknown_queries": "{} not in the gold set and left out",
}


def lost_in_short(result: Result) -> str | None:
    """One line about queries that failed, are missing, unknown or left out; None if there are none."""
    # If many failed or are missing, the report begins with that.
    shown = set(_IN_SHORT) if lost_queries(result) is None else {"unknown_queries"}
    found = [(e, _IN_SHORT[e.code].format(counted(e.count))) for e in result.audited if e.code in shown]
    failed = next((f" ({e.examples[0]})" for e, _ in found if e.code == "failed_queries" and e.examples), "")
    said = "; ".join(text + (failed if entry.code == "failed_queries" else "") for entry, text in found)
    return f"{said}." if said else None


def too_deep(result: Result) -> str | None:
    """One line about metrics with a k beyond the longest list; None if there are none."""
    found = [text for e in result.audited if e.code == "beyond_lists" for text in e.examples]
    return f"The lists are shorter than k: {'; '.join(found)}." if found else None


def judgeable(
    metrics: Sequence[Metric], baseline: Result, candidate: Result, queries: Sequence[str]
) -> tuple[list[Metric], list[str]]:
    """The metrics that can be compared, and why the others are left out. `queries`: those that are compared; a
    baseline has all of them."""
    sides = {"The baseline": baseline, "The candidate": candidate}
    absent = [0, sum(query in candidate.missing for query in queries) if candidate.missing else 0]
    lost = (_incomplete(*side, n, len(queries)) for side, n in zip(sides.items(), absent, strict=True))
    down = next(filter(None, lost), None)
    reasons: dict[str, list[str]] = {}
    kept = []
    for metric in metrics:
        doubted = (invalid_reason(side.doubts, metric, name) for name, side in sides.items())
        why = down if down and metric.rests_on else next(filter(None, doubted), None)
        if why is None:
            kept.append(metric)
        else:
            reasons.setdefault(why, []).append(str(metric))
    return kept, [f"not compared: {', '.join(names)}. {why}" for why, names in reasons.items()]
