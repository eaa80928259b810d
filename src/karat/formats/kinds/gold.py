"""Gold sets."""

from __future__ import annotations

import re
from typing import ClassVar

from karat.data.gold import Gold
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.dataset import HEADER, holds_entries


class GoldFormat(Format):
    """JSONL, JSON or YAML with `query_id` and `gold` (or evidence, answer, no_answer, a single target)."""

    name = "gold"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"gold"})
    takes_target = True
    order = 30

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder:
            return False
        first = source.first_object
        if first is not None:
            return bool({"query_id", "query", "gold"} & set(first) or HEADER & set(first)) or holds_entries(first)
        if source.looks_like_json:
            return re.search(rb'"(query_id|query|gold|queries)"\s*:', source.head) is not None
        return (b"quer" in source.head or b"gold" in source.head) and (
            re.search(rb"^\s*(-\s+(\{\s*)?)?[\"']?(query_id|query|gold|queries)[\"']?\s*:", source.head, re.M)
            is not None
        )

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.gold_file import read_gold_file

        return read_gold_file(source, options)
