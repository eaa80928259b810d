"""What a search of the demo finds at one step of its story."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from karat.demo.helpdesk import DemoQuestion, Helpdesk
from karat.demo.story import Step

_TOP = 10
_SMOOTH = 10  # of ranks when two orders are fused
_SLOWER = 100  # the logged times are those of an index in memory; a server with a network before it takes longer


def run_log(helpdesk: Helpdesk, step: Step) -> list[dict[str, Any]]:
    """One record a query, as a search would have logged it."""
    indexed = set(_indexed(helpdesk, step))
    share = len(indexed) / len(helpdesk.corpus)
    common = {
        "system": step.system,
        "index_version": f"helpdesk-{step.until}" + (f"-without-{step.without}" if step.without else ""),
        "chunker": {"algo": "by hand, a paragraph each", "overlap": 0},
        "k_raw": len(helpdesk.questions[0].found),
        "code_version": step.code,
        "code_date": step.day,
    }
    if step.rerank:
        common["reranker"] = {"name": "static vectors", "weight": step.rerank}
    return [_record(question, step, indexed, share) | common for question in helpdesk.questions]


def _record(question: DemoQuestion, step: Step, indexed: set[str], share: float) -> dict[str, Any]:
    raw = [chunk for chunk in question.found if chunk in indexed]
    final = [chunk for chunk in _fused(question, step.rerank) if chunk in indexed]
    final = list(_one_per_article(final)) if step.one_per_article else final
    stages = question.latency_ms if step.rerank else {"retrieve": question.latency_ms["retrieve"]}
    return {
        "query_id": question.query_id,
        "query": question.text,
        "topk": _hits(final[:_TOP]),
        "raw": _hits(raw),
        "latency_ms": {stage: round(ms * _SLOWER * share, 1) for stage, ms in stages.items()},
    }


def _indexed(helpdesk: Helpdesk, step: Step) -> Iterator[str]:
    fields = helpdesk.corpus.fields
    for chunk, version, language in zip(helpdesk.corpus.ids, fields["version"], fields["language"], strict=True):
        if version < step.until and language != step.without:
            yield chunk


def _fused(question: DemoQuestion, weight: float) -> list[str]:
    """Both orders, by reciprocal ranks."""
    score = {chunk: (1 - weight) / (_SMOOTH + rank) for rank, chunk in enumerate(question.found)}
    for rank, chunk in enumerate(question.reranked):
        score[chunk] += weight / (_SMOOTH + rank)
    return sorted(score, key=lambda chunk: -score[chunk])


def _one_per_article(chunks: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for chunk in chunks:
        article = chunk.partition("#")[0]
        if article not in seen:
            seen.add(article)
            yield chunk


def _hits(chunks: list[str]) -> list[dict[str, Any]]:
    return [{"rank": rank, "chunk_id": chunk} for rank, chunk in enumerate(chunks, 1)]
