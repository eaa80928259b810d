"""The first hits of some queries, read again from the run, in the order that was judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.hits import Run, Ungrouped
from karat.data.ids import take_list
from karat.results.result import Result
from karat.scoring.judged import Judged, judge

T = TypeVar("T")


class ListedHit(msgspec.Struct, frozen=True):
    """One place of a list."""

    rank: int
    id: str
    doc: str  # the document of the hit
    grade: float | None  # null: not judged
    score: float | None = None
    text: str | None = None


def top_lists(result: Result, depths: dict[str, int], *, texts: bool = False) -> dict[str, list[ListedHit]]:
    """Query → its first hits, as many as `depths` says. A saved result keeps none."""

    def listed(slices: Iterator[Judged]) -> dict[str, list[ListedHit]]:
        found: dict[str, list[ListedHit]] = {}
        for judged in slices:
            _add(found, judged, depths)
        return found

    return look_again(result, depths, listed, texts=texts) if result.source is not None and depths else {}


def look_again(
    result: Result, depths: dict[str, int], take: Callable[[Iterator[Judged]], T], *, texts: bool = False
) -> T:
    """What `take` makes of some queries of the run, which are read and judged again. It may be called twice, where it
    is only seen on the way that the hits of a query do not stand together."""
    assert result.source is not None
    try:
        return take(_read(result, result.source, depths, texts))
    except Ungrouped:
        return take(_read(result, result.source.grouped(), depths, texts))


def _read(result: Result, source: Run, depths: dict[str, int], texts: bool) -> Iterator[Judged]:
    for hits in source.slices(result.rules.needs | ({"text"} if texts else set()), Audit()):
        keep = np.array([q in depths for q in hits.queries], np.bool_)
        if hits.system == result.system and keep.any():
            depth = max(depths.values())
            yield judge(hits.select_queries(keep), result.gold, result.rules, Audit(), depth=depth)


def _add(found: dict[str, list[ListedHit]], judged: Judged, depths: dict[str, int]) -> None:
    hits = judged.hits
    assert hits is not None
    places = zip(judged.hit_query.tolist(), judged.hit_rank.tolist(), strict=True)
    grades = dict(zip(places, judged.hit_grade.tolist(), strict=True))
    of, rows = judged.top(np.array([depths[q] for q in hits.queries]))
    texts: list[Any] | None = hits.columns.get("text")
    names, docs = take_list(hits.ids, rows), judged.docs_of(rows)
    for query, row, name, doc in zip(of.tolist(), rows.tolist(), names, docs, strict=True):
        listed = found.setdefault(hits.queries[query], [])
        rank = len(listed) + 1
        score = None if hits.score is None or np.isnan(hits.score[row]) else float(hits.score[row])
        text = None if texts is None else texts[row]
        listed.append(ListedHit(rank, name, doc, grades.get((query, rank)), score, text))
