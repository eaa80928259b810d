"""Writes a run: as a run log, in TREC's format, as samples of other tools, or as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.hits import (
    OPTIONAL_COLUMNS,
    OTHER_LISTS,
    OTHER_TIMES,
    STEPS,
    WRITTEN,
    Hits,
    Run,
    ScoreMeaning,
    step_lists,
)
from karat.data.ids import as_list
from karat.data.text_index import normal_text
from karat.errors import InputError, shorten

Record = dict[str, Any]
# What a run may hold that a format may not, by the name that users see.
_OF_HIT = {
    "score": "scores",
    "text": "texts of hits",
    "doc_id": "document ids",
    "doc_version": "document versions",
    "source": "sources",
    "tokens": "token counts",
}
_OF_RECORD = {
    "system": "system names",
    "query": "query texts",
    "latency_ms": "times",
    "raw": "lists before reranking",
    "topk_original": "lists before rewriting",
    "steps": "steps",
    "score_order": "",
    "query_id": "",
    "topk": "",
}
RUN_HOLDS: dict[str, frozenset[str]] = {
    "trec-run": frozenset({"scores", "system names"}),
    "ragas": frozenset({"texts of hits", "query texts", "queries without hits"}),
    "deepeval": frozenset({"texts of hits", "query texts", "queries without hits"}),
    "parquet": frozenset({"system names", "total times", *_OF_HIT.values()}),
}
_TAG = "run"  # of a run without a name, in a TREC file


def run_records(
    run: Run, scores: ScoreMeaning | None = None, watch: Callable[[Hits], None] | None = None
) -> Iterator[Record]:
    """Every query of a run, as a record of a run log. May raise Ungrouped.

    `scores`: what its scores mean; `watch` gets every slice of a run that is not made of traces."""
    records = _records(run, watch)
    yield from records if scores is None else (_meant(record, scores) for record in records)


def _meant(record: Record, scores: ScoreMeaning) -> Record:
    """A record that says what its scores mean."""
    if scores != "as-listed":
        return {**record, "score_order": scores}
    return {**record, "topk": [{**hit, "rank": rank} for rank, hit in enumerate(record["topk"], 1)]}


def _records(run: Run, watch: Callable[[Hits], None] | None) -> Iterator[Record]:
    from karat.formats.traces.run import TraceRun

    if isinstance(run, TraceRun):
        yield from (_named_by_text(record) for _, record in run.records())
        return
    steps = [step_lists(at + 1) for at in range(_most_steps(run))]
    wanted = OPTIONAL_COLUMNS | {"latency"} | ({STEPS} if steps else set())
    for hits in run.slices(wanted, Audit(), frozenset({*OTHER_LISTS, *steps})):
        if watch is not None:
            watch(hits)
        others = {name: dict(zip(other.queries, _lists(other), strict=True)) for name, other in hits.others.items()}
        searches = [others.pop(name, {}) for name in steps]
        stages = {stage: ms.tolist() for stage, ms in hits.latency.items()}
        common = _common(run, hits)
        for at, (query, topk) in enumerate(zip(hits.queries, _lists(hits), strict=True)):
            times = {stage: ms[at] for stage, ms in stages.items() if not np.isnan(ms[at])}
            fields = {name: values[at] for name, values in hits.fields.items() if name not in (WRITTEN, OTHER_TIMES)}
            record = {"query_id": query, **common, **({"latency_ms": times} if times else {}), "topk": topk}
            record |= {name: lists[query] for name, lists in others.items() if query in lists}
            if fields.get(STEPS):
                fields[STEPS] = [
                    _step(said, lists[query]) for said, lists in zip(fields[STEPS], searches, strict=False)
                ]
            yield record | {name: value for name, value in fields.items() if value is not None}


def _named_by_text(record: Record) -> Record:
    """A record of a trace: without an id of its own, the text is the id, as it was written."""
    text = record.get("query")
    return {**record, "query_id": text} if text and record["query_id"] == normal_text(text) else record


def _most_steps(run: Run) -> int:
    """The most searches that a query has."""
    if not run.may_say(STEPS):
        return 0
    told = (hits.fields.get(STEPS, ()) for hits in run.slices(frozenset({STEPS}), Audit()))
    return max((len(steps) for slice in told for steps in slice if steps), default=0)


def _step(said: Mapping[str, Any], topk: list[Record]) -> Record:
    return {**{name: value for name, value in said.items() if value is not None and name != "hits"}, "topk": topk}


def _common(run: Run, hits: Hits) -> Record:
    """What all records of a system say so far. A field whose values differ between lines is left out: `varied`."""
    told = run.provenance().get(hits.system)
    names = [name for name in told if name != "hits"] if isinstance(told, Mapping) else []
    said = {name: run.said(hits.system, name) for name in names}
    common = {name: values[0] for name, values in said.items() if len(values) == 1 and values[0] is not None}
    return {**common, **({"system": hits.system} if hits.system else {}), **_order(hits)}


def _order(hits: Hits) -> Record:
    return {} if not hits.turned else {"score_order": "lower-is-better"}


def varied(run: Run, systems: Iterable[str]) -> list[str]:
    """Fields that differ between the lines of a system, which cannot be told apart any more."""
    names = {name for system in systems for name in run.provenance().get(system) or ()}
    return sorted(name for name in names if any(len(run.said(system, name)) > 1 for system in systems))


def _lists(hits: Hits) -> Iterator[list[Record]]:
    columns: dict[str, list[Any]] = {"chunk_id": as_list(hits.ids)}
    if hits.score is not None:
        columns["score"] = [None if np.isnan(s) else -s if hits.turned else s for s in hits.score.tolist()]
    if hits.rank is not None:
        columns["rank"] = [None if np.isnan(r) else int(r) for r in hits.rank.tolist()]
    if hits.docs is not None:
        columns["doc_id"] = [doc or None for doc in as_list(hits.docs)]
    columns |= hits.columns
    rows = zip(*columns.values(), strict=True)
    records = [{n: v for n, v in zip(columns, row, strict=True) if v is not None} for row in rows]
    bounds = hits.offsets.tolist()
    yield from (records[start:end] for start, end in pairwise(bounds))


def said_in_run(record: Mapping[str, Any]) -> set[str]:
    """What a record holds, by the names that users see."""
    hits = record["topk"]
    found = {_OF_HIT[name] for hit in hits for name in hit if name in _OF_HIT}
    found |= {_OF_RECORD.get(name, f"the field {name}") for name in record} - {""}
    if found & {"times"} and set(record["latency_ms"]) == {"total"}:
        found = (found - {"times"}) | {"total times"}
    return found if hits else found | {"queries without hits"}


def ranked(record: Mapping[str, Any]) -> tuple[list[Record], bool]:
    """The hits of a record in ranking order, best first, and whether their scores give the same order."""
    hits: list[Record] = list(record["topk"])
    sign = -1 if record.get("score_order") == "lower-is-better" else 1
    scored = all("score" in hit for hit in hits)
    if all("rank" in hit for hit in hits):
        hits.sort(key=lambda hit: hit["rank"])
    elif scored:
        hits.sort(key=lambda hit: -sign * hit["score"])
        return hits, True
    scores = [sign * hit["score"] for hit in hits] if scored else []
    return hits, scored and all(a > b for a, b in pairwise(scores))


def run_log_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """Lines of a run log. An id that is the text of the query is left out, so that a gold set is matched by text."""
    for record in records:
        by_text = record.get("query") == record["query_id"]
        yield msgspec.json.encode({n: v for n, v in record.items() if n != "query_id" or not by_text}) + b"\n"


def trec_lines(records: Iterable[Record], lossy: bool) -> Iterator[bytes]:
    """Lines of a TREC run. Where ranks and scores disagree, the ranks are kept and scores are made from them."""
    for record in records:
        hits, agree = ranked(record)
        sign = -1 if record.get("score_order") == "lower-is-better" else 1
        if not agree and any("score" in hit for hit in hits) and not lossy:
            raise InputError(
                "the scores of this query do not give the order of its hits",
                code="lossy",
                query=record["query_id"],
                hint="--lossy writes the ranks, with scores made from them",
            )
        query, tag = plain(record["query_id"], "query id"), record.get("system") or _TAG
        if len(tag.split()) != 1:
            if not lossy:
                what, hint = "the name of the system has a space", "--lossy replaces it by _"
                raise InputError(what, code="lossy", field="system", got=tag, hint=hint)
            tag = "_".join(tag.split()) or _TAG
        for at, hit in enumerate(hits, 1):
            score = sign * hit["score"] if agree else len(hits) - at + 1
            yield f"{query} Q0 {plain(hit['chunk_id'], 'id')} {at} {score!r} {tag}\n".encode()


def plain(name: str, what: str) -> str:
    """An id for a format whose columns are separated by white space."""
    if not name or name.split() != [name]:
        raise InputError(
            f"white space in {what}s cannot be written in this format",
            code="unwritable-id",
            got=shorten(name, 60),
            hint="choose another format, such as --to run-log or --to parquet",
        )
    return name


def run_frame(records: Iterable[Record]) -> Any:
    """One row per hit, as a polars frame."""
    import polars as pl

    rows: list[Record] = []
    for record in records:
        hits, agree = ranked(record)
        sign = -1 if record.get("score_order") == "lower-is-better" else 1
        of_query = {"query_id": record["query_id"], "system": record.get("system")}
        times = record.get("latency_ms")
        total = None if times is None else times.get("total", sum(times.values()))
        for at, hit in enumerate(hits, 1):
            score = None if "score" not in hit else float(sign * hit["score"])
            texts = {name: str(hit[name]) for name in ("doc_version",) if name in hit}
            rows.append({**of_query, "latency_ms": total, **hit, **texts, "rank": at, "score": score})
            if agree and all("rank" not in one for one in hits):
                del rows[-1]["rank"]
    names = ("query_id", "system", "chunk_id", "rank", "score", "doc_id", *sorted(OPTIONAL_COLUMNS), "latency_ms")
    columns = {name: [row.get(name) for row in rows] for name in names}
    kept = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in kept.items()})
