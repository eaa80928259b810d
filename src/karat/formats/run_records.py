"""A line of a run log, as it is written and as it is read."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from functools import cache
from typing import Any

import msgspec

from karat.data.entities import Entity
from karat.data.prices import Count, Usage


class RankedId(msgspec.Struct, gc=False):
    """What every metric needs of a hit; the rest of it is skipped, not built, where nobody asks for it."""

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


class RunRecord(msgspec.Struct, kw_only=True, gc=False):
    """One line of a run log: what one system returned for one query."""

    query_id: str | int | None = None
    topk: list[str | int | Hit]
    system: str | None = None
    k_raw: int | None = None
    latency_ms: dict[str, float | None] | None = None
    index_version: str | int | float | None = None
    chunker: dict[str, Any] | str | None = None
    raw: list[str | int | Hit] | None = None  # hits before reranking
    query: str | None = None
    rewritten_query: str | None = None
    topk_original: list[str | int | Hit] | None = None  # hits of the query before rewriting
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
