"""Lines of a run log that appear more than once, as after a retry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from karat.data.audit import Audit, Entry
from karat.errors import InputError, shorten
from karat.formats.base import Source
from karat.formats.records import is_json_lines
from karat.formats.run_parts import SystemRecords

Repeated: TypeAlias = Mapping[int, tuple[str, str]]  # line → system and query


def find_repeats(parts: Iterable[SystemRecords], records: Any) -> Repeated:
    """The lines that are equal to an earlier one, byte by byte. Raises for a query of a system with different lines."""
    first: dict[tuple[str, str], int | None] = {}
    again: dict[int, tuple[str, str]] = {}
    label = "run"
    for part in parts:
        label = part.label
        for query, line in zip(part.queries, part.lines, strict=True):
            key = part.system, query
            if key not in first:
                first[key] = line
            elif line is None or not isinstance(records, Source) or not is_json_lines(records):
                raise _different(label, line, key, first[key])
            else:
                again[line] = key
    texts = _lines(records, {*again, *(line for key in again.values() if (line := first[key]) is not None)})
    for line, key in again.items():
        if texts.get(line) != texts.get(first[key] or 0):
            raise _different(label, line, key, first[key])
    return again


def _lines(records: Any, wanted: set[int]) -> dict[int, int]:
    """Hashes of some lines of a file."""
    if not wanted:
        return {}
    with records.open() as stream:
        return {at: hash(line.strip()) for at, line in enumerate(stream, 1) if at in wanted}


def _different(label: str, line: int | None, key: tuple[str, str], first: int | None) -> InputError:
    return InputError(
        f"system {shorten(key[0], 40)!r} already has this query (line {first})",
        code="duplicate-query",
        file=label,
        line=line,
        query=key[1],
        hint="use one line per query and system: remove the one that does not count, or give it another `system`. Only "
        "lines that are exactly equal are counted once",
    )


def without_repeats(part: SystemRecords, repeated: Repeated) -> SystemRecords | None:
    """The records on other lines; None if there are none."""
    kept = [at for at, line in enumerate(part.lines) if line not in repeated]
    return part if len(kept) == len(part.lines) else part.pick(kept) if kept else None


def counted_repeats(system: str, repeated: Repeated) -> tuple[Entry, ...]:
    """For the audit of a system."""
    audit, found = Audit(), [query for name, query in repeated.values() if name == system]
    audit.count("repeated_lines", len(found), found[:3])
    return tuple(audit)
