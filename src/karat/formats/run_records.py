"""A line of a run log, as written and as read, and a writer for your own code."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from collections.abc import Iterable, Sequence
from functools import cache
from typing import IO, Any, Literal, Self, TypeAlias

import msgspec

from karat.data.entities import Entity
from karat.data.hits import STEPS
from karat.data.prices import Count, Usage


class RankedId(msgspec.Struct, gc=False):
    """What every metric needs of a hit; the rest is skipped unless requested."""

    rank: int | None = None
    chunk_id: str | int | None = None
    score: float | None = None
    doc_id: str | int | None = None
    id: str | int | None = None


class Hit(RankedId, gc=False):
    """One hit. Only an id is needed; rank wins over score, score over the position in the list."""

    doc_version: str | int | float | None = None
    text: str | None = None
    source: str | None = None
    tokens: Count | None = None  # of the text, for metrics with a token budget
    metadata: dict[str, Any] | None = None  # what rules about forbidden hits read


class RunStep(msgspec.Struct, kw_only=True, gc=False):
    """One of several searches for a query, by an agent or a fan-out."""

    query: str | None = None
    topk: list[str | int | Hit]
    latency_ms: dict[str, float | None] | float | None = None
    usage: list[Usage] | None = None
    name: str | None = None


class SlimRunStep(RunStep, kw_only=True, gc=False):
    """A step read for ids, ranks and scores only."""

    topk: list[str | int | RankedId]  # type: ignore[assignment]


class RunRecord(msgspec.Struct, kw_only=True, gc=False):
    """One line of a run log: what one system returned for one query."""

    query_id: str | int | None = None
    topk: list[str | int | Hit]  # may be left out if there are steps: then it is their union
    steps: list[RunStep] | None = None
    step: int | None = None  # in lines with one step each: its number
    system: str | None = None
    k_raw: int | None = None
    latency_ms: dict[str, float | None] | float | None = None  # {stage: ms}, or the total time
    started_at: Any = None  # a time, or {stage: time}: with ended_at, gives the latency where latency_ms has none
    ended_at: Any = None
    timestamps: Any = None  # {stage: {started_at, ended_at}}
    index_version: str | int | float | None = None
    chunker: dict[str, Any] | str | None = None
    raw: list[str | int | Hit] | None = None  # hits before reranking
    query: str | None = None
    rewritten_query: str | None = None
    topk_original: list[str | int | Hit] | None = None  # hits of the query before rewriting
    score_order: Literal["higher-is-better", "lower-is-better"] | None = None  # what a score means; default: the first
    route: str | list[str] | None = None
    entities: list[str | int | Entity | None] | None = None
    reranker: Any = None
    usage: list[Usage] | None = None
    error: Any = None
    trace_id: str | None = None  # of the trace that the line was made from


class SlimRecord(RunRecord, kw_only=True, gc=False):
    """A line of a run log read for ids, ranks and scores only."""

    topk: list[str | int | RankedId]  # type: ignore[assignment]
    raw: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    topk_original: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    steps: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


@cache
def hits_record(lists: frozenset[str]) -> type[SlimRecord]:
    """SlimRecord that reads all fields of hits, and also these lists."""
    fields: list[Any] = [("topk", list[str | int | Hit])]
    fields += [(name, list[str | int | Hit] | None, None) for name in sorted(lists)]
    return msgspec.defstruct("HitsRecord", fields, bases=(SlimRecord,), kw_only=True, gc=False)  # type: ignore[return-value]


@cache
def slim_record(lists: frozenset[str]) -> type[SlimRecord]:
    """SlimRecord that also reads these lists; `steps` stands for those of all steps."""
    if not lists:
        return SlimRecord
    fields: list[Any] = [(name, list[str | int | RankedId] | None, None) for name in sorted(lists - {STEPS})]
    fields += [(STEPS, list[SlimRunStep] | None, None)] if STEPS in lists else []
    return msgspec.defstruct("SlimRecord", fields, bases=(SlimRecord,), kw_only=True, gc=False)  # type: ignore[return-value]


class RunLogWriter:
    """Writes a run log from your own code, one whole line at a time.

    >>> import io, karat
    >>> out = io.BytesIO()
    >>> log = karat.RunLogWriter(out, system="bm25", index_version="v1")
    >>> log.write("q1", [("doc_1#p2", 7.5), "doc_3#p1"], latency_ms={"retrieve": 3.5})
    >>> out.getvalue().decode().count("doc_1#p2")
    1
    """

    def __init__(self, target: str | IO[bytes], *, system: str, **provenance: Any) -> None:
        self._stream: IO[bytes] = open(target, "wb") if isinstance(target, str) else target  # noqa: SIM115
        self._common = {"system": system, **provenance}

    def write(self, query_id: str, hits: Iterable[Any], **fields: Any) -> None:
        """`hits`: ids, (id, score) pairs or dicts, best first. Other fields are written as given."""
        record = {"query_id": query_id, **self._common, "topk": ranked_hits(hits), **fields}
        self._stream.write(msgspec.json.encode(record) + b"\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def ranked_hits(hits: Iterable[Any]) -> list[dict[str, Any]]:
    """Hits in any accepted form, as the objects of a run log, with ranks from 1."""
    ranked = []
    for rank, hit in enumerate(hits, 1):
        if isinstance(hit, dict):
            ranked.append({"rank": rank, **hit})
        elif isinstance(hit, tuple):
            ranked.append({"rank": rank, "chunk_id": hit[0], "score": hit[1]})
        else:
            ranked.append({"rank": rank, "chunk_id": hit})
    return ranked


Places: TypeAlias = list[tuple[int, int]]  # (step, rank) of a hit, both from 1
LOWER = "lower-is-better"


def union_of(steps: Iterable[Any], order: str | None = None) -> list[Any]:
    """The hits of all steps in order of first appearance, each once, without scores: those of different searches cannot
    be compared. `order`: what a score means, as in a line.

    >>> union_of([{"topk": ["a", {"id": "b", "score": 2.0}]}, {"topk": [{"chunk_id": "a"}, "c"]}])
    [{'rank': 1, 'chunk_id': 'a'}, {'rank': 2, 'id': 'b'}, {'rank': 3, 'chunk_id': 'c'}]
    """
    return [hit for hit, _ in union_with_places(steps, order)]


def union_with_places(steps: Iterable[Any], order: str | None = None) -> list[tuple[Any, Places]]:
    """The same, with the places of each hit."""
    found: dict[Any, tuple[Any, Places]] = {}
    for number, step in enumerate(steps, 1):
        hits = step["topk"] if isinstance(step, dict) else step.topk
        rank = 0
        for hit in in_order(hits, order):
            places = found.setdefault(_key(hit), (hit, []))[1]
            if not places or places[-1][0] < number:  # else it was in this list already
                rank += 1
                places.append((number, rank))
    return [(_placed(hit, rank), places) for rank, (hit, places) in enumerate(found.values(), 1)]


def step_facts(steps: list[RunStep] | None) -> list[dict[str, Any]] | None:
    """What each step of a query says beside its hits."""
    if steps is None:
        return None
    said = ("name", "query", "latency_ms", "usage")
    return [{**{name: getattr(step, name) for name in said}, "hits": len(step.topk)} for step in steps]


def in_order(hits: Sequence[Any], order: str | None = None) -> Sequence[Any]:
    """Hits as they are ranked: by rank if all have one, else by score if all have one."""
    for name, sign in (("rank", 1), ("score", 1 if order == LOWER else -1)):
        values = [_value(hit, name) for hit in hits]
        if hits and all(isinstance(value, (int, float)) for value in values):
            return [hit for _, hit in sorted(zip(values, hits, strict=True), key=lambda pair: sign * pair[0])]
    return hits


def _value(hit: Any, name: str) -> Any:
    return hit.get(name) if isinstance(hit, dict) else getattr(hit, name, None)


def _key(hit: Any) -> Any:
    if isinstance(hit, (str, int)):
        return str(hit)
    found = (_value(hit, name) for name in ("chunk_id", "id", "doc_id"))
    named = next((one for one in found if one is not None), None)
    return ("text", _value(hit, "text")) if named is None else str(named)


def _placed(hit: Any, rank: int) -> Any:
    if isinstance(hit, (str, int)):
        return {"rank": rank, "chunk_id": hit}
    if isinstance(hit, dict):
        return {"rank": rank, **{name: value for name, value in hit.items() if name not in ("rank", "score")}}
    return msgspec.structs.replace(hit, rank=rank, score=None)
