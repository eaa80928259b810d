"""Which hits are newer than the time or version that their query asks from."""

from __future__ import annotations

from typing import Any

import numpy as np

from karat.errors import InputError, shorten
from karat.gold import Gold
from karat.hits import Hits
from karat.ids import Floats, Ints, take_list
from karat.versions import EXPECTED, Version, is_said


class NoVersions(InputError):
    """Newer hits should be removed, and no hit says how old it is."""


def newer(hits: Hits, gold: Gold, queries: Ints, rows: Ints) -> Floats:
    """1 for a hit that is newer than its query's `as_of`, 0 for one that is not, NaN where either says nothing.

    `queries`: row of each query of the hits in the gold set; `rows`: the hits that are looked at.
    """
    found = np.full(len(rows), np.nan)
    versions = hits.columns.get("doc_version")
    if versions is None:
        return found
    as_of = [gold.as_of[query] for query in queries.tolist()]
    known: dict[tuple[str, Any], bool] = {}  # few pairs are different
    query_of = hits.query_of_row[rows].tolist()
    for place, (query, row) in enumerate(zip(query_of, rows.tolist(), strict=True)):
        asked, version = as_of[query], versions[row]
        if asked is None or not is_said(version):
            continue
        pair = (asked.text, version)
        if pair not in known:
            known[pair] = _is_newer(hits, query, row, version, asked)
        found[place] = known[pair]
    return found


def _is_newer(hits: Hits, query: int, row: int, value: Any, as_of: Version) -> bool:
    version = Version.read(value)
    verdict = None if version is None else version.newer_than(as_of)
    if verdict is not None:
        return verdict
    of = shorten(take_list(hits.ids, np.array([row]))[0], 40)
    raise InputError(
        f"the version of {of!r} cannot be compared with as_of {shorten(as_of.text, 40)!r}, {as_of.kind}",
        line=None if hits.lines is None else int(hits.lines[query]) or None,
        field="doc_version",
        query=hits.queries[query],
        expected=EXPECTED if version is None else "a date on both sides, or a version number on both",
        got=value if version is None else f"{version.text} ({version.kind})",
    )
