"""One query in one run or two: its gold and hits, and what moved between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from karat.errors import ConfigError
from karat.history.hits import QueryRecord, RecordedHit, has_hits, read_record
from karat.history.store import Store
from karat.results.queries.shown import MarkedText, ShownGold, ShownHit, shared_words
from karat.results.queries.triage import LOSS, MISSED, Case

MOST_SIDES = 2
_LENGTH = 400  # characters shown of a text


class MovedHit(msgspec.Struct, frozen=True):
    """A hit of one of two runs: its rank in each; null: not among the first hits kept."""

    id: str
    before: int | None
    after: int | None


class RecordOfRun(msgspec.Struct, frozen=True):
    """One query in one run. `kept`: the run keeps the hits of every query; `record`: null if it lacks the query."""

    run_id: str
    kept: bool
    record: QueryRecord | None


class QuerySides(msgspec.Struct, frozen=True):
    """One query in one run, or in two: what moved, entered or left, in the order of the second run."""

    query_id: str
    sides: list[RecordOfRun]
    moved: list[MovedHit]


def record_of(store: Store, run_id: str, query_id: str, *, texts: bool = True) -> RecordOfRun:
    with store.transaction() as connection:
        if not has_hits(connection, run_id):
            return RecordOfRun(run_id, False, None)
        return RecordOfRun(run_id, True, read_record(connection, run_id, query_id, texts=texts))


def query_sides(store: Store, run_ids: Sequence[str], query_id: str) -> QuerySides:
    if not 1 <= len(run_ids) <= MOST_SIDES:
        raise ConfigError("too many runs", code="too-many-runs", expected=f"1 to {MOST_SIDES}", got=len(run_ids))
    sides = [record_of(store, run_id, query_id) for run_id in run_ids]
    records = [side.record for side in sides if side.record is not None]
    return QuerySides(query_id, sides, moved_between(*records) if len(records) == MOST_SIDES else [])


def moved_between(before: QueryRecord, after: QueryRecord) -> list[MovedHit]:
    """Hits whose rank changed; those that left come last."""
    old, new = ({hit.id: hit.rank for hit in side.hits} for side in (before, after))
    moved = [MovedHit(name, old.get(name), rank) for name, rank in new.items() if old.get(name) != rank]
    return [*moved, *(MovedHit(name, rank, None) for name, rank in old.items() if name not in new)]


def case_from(record: QueryRecord) -> Case:
    """The query as `karat eval triage` shows it."""
    about = _Passages(record)
    relevant = None if record.bm25 is None else sum((hit.grade or 0) > 0 for hit in record.bm25)
    return Case(
        query_id=record.query_id,
        query=record.query,
        kind=record.kind or "nothing lost",
        scores={name: record.scores[name] for name in (MISSED, LOSS) if name in record.scores},
        tags={name: _tag(value) for name, value in record.tags.items() if value is not None},
        gold=[ShownGold(item.id, item.grade, item.rank, about.passage(item.text)) for item in record.gold],
        gold_items=record.gold_items,
        hits=about.hits(record.hits),
        bm25=None if record.bm25 is None else about.hits(record.bm25),
        bm25_relevant=relevant,
        lost=record.lost,
    )


class _Passages:
    """The texts of a query with the words that they share with it."""

    def __init__(self, record: QueryRecord) -> None:
        self.query = record.query or ""
        language = record.tags.get("language")
        self.language = None if language is None else str(language)

    def passage(self, text: str | None) -> MarkedText | None:
        return None if not text else shared_words(self.query, text, self.language, _LENGTH)

    def hits(self, hits: Sequence[RecordedHit]) -> list[ShownHit]:
        return [ShownHit(h.rank, h.id, h.mark, h.grade, h.score, self.passage(h.text)) for h in hits]


def _tag(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
