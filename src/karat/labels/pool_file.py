"""Pool files: JSONL, one pair of query and passage a line that waits for a label (docs/labels.md)."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import msgspec

from karat.errors import InputError
from karat.labels.base import Key, Pair, Probability, SourcePlace, read_pairs, write_pairs
from karat.labels.labels_file import CONFLICT, Label, Labels


class Origin(msgspec.Struct, omit_defaults=True):
    """Where a pair comes from. It is for those who reckon with the labels: whoever labels must not see it."""

    ranks: dict[str, int] = {}  # run → place in its list
    influence: float | None = None  # by how much its label is expected to move the comparison


class PoolEntry(Pair, kw_only=True, omit_defaults=True):
    """One pair to be labelled. The order of a pool says nothing."""

    query: str | None = None  # its text
    title: str | None = None
    text: str | None = None
    language: str | None = None
    near_duplicate_of: str | None = None  # another item of the same query in the pool with nearly the same text
    inclusion_probability: Probability | None = None  # with which it came into the pool; null: picked, not drawn
    origin: Origin | None = None


def read_pool(path: str | PathLike[str]) -> list[PoolEntry]:
    """The pairs of a pool, each once."""
    seen: dict[Key, SourcePlace] = {}
    found = []
    for entry, place in read_pairs(str(path), PoolEntry):
        before = seen.setdefault(entry.key, place)
        if before is not place:
            what = f"{entry.key.item} stands in the pool already ({before})"
            raise place.error(
                what,
                code="duplicate-pair",
                query=entry.key.query,
                hint="a pair is labelled once: remove one of the lines",
            )
        found.append(entry)
    return found


def by_key(entries: Sequence[PoolEntry]) -> dict[Key, PoolEntry]:
    return {entry.key: entry for entry in entries}


def write_pool(path: str | PathLike[str], entries: Sequence[PoolEntry]) -> None:
    write_pairs(str(path), list(entries))


def refuse_unknown(labels: Labels, pool: Sequence[PoolEntry]) -> None:
    """Labels of pairs that are not in the pool belong to another pool."""
    known = {entry.key for entry in pool}
    for label, place in zip(labels.entries, labels.places, strict=True):
        if label.key not in known:
            raise _unknown(label, place)


def conflict_pool(pool: Sequence[PoolEntry], settled: Sequence[Label]) -> list[PoolEntry]:
    """The pairs of a pool on which nobody could settle, in its order."""
    conflicts = {label.key for label in settled if label.grade is None and (label.reason or "").startswith(CONFLICT)}
    return [entry for entry in pool if entry.key in conflicts]


def _unknown(label: Pair, place: SourcePlace) -> InputError:
    return place.error(
        f"{label.key.item} is not in the pool for this query",
        code="unknown-pair",
        query=label.key.query,
        hint="labels and pool do not belong together: give the pool that was labelled",
    )
