"""A line of a run log, as written and as read, and a writer for your own code."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from collections.abc import Iterable
from functools import cache
from typing import IO, Any, Literal, Self

import msgspec

from karat.data.entities import Entity
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


class RunRecord(msgspec.Struct, kw_only=True, gc=False):
    """One line of a run log: what one system returned for one query."""

    query_id: str | int | None = None
    topk: list[str | int | Hit]
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


class SlimRecord(RunRecord, kw_only=True, gc=False):
    """A line of a run log read for ids, ranks and scores only."""

    topk: list[str | int | RankedId]  # type: ignore[assignment]
    raw: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    topk_original: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


@cache
def slim_record(lists: frozenset[str]) -> type[SlimRecord]:
    """SlimRecord that also reads these lists."""
    if not lists:
        return SlimRecord
    fields = [(name, list[str | int | RankedId] | None, None) for name in sorted(lists)]
    return msgspec.defstruct("SlimRecord", fields, bases=(SlimRecord,), kw_only=True, gc=False)  # type: ignore[return-value]


class RunLogWriter:
    """Writes a run log from your own code, one whole line at a time.

    >>> import io
    >>> out = io.BytesIO()
    >>> log = RunLogWriter(out, system="bm25", index_version="v1")
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
