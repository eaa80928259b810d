"""TREC runs and qrels."""

from __future__ import annotations

from typing import ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.trec_rows import is_number


class TrecRunFormat(Format):
    """Lines of `query Q0 document rank score tag`. As in trec_eval, the rest of a line is not read; it is counted."""

    name = "trec-run"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 60

    def recognises(self, source: Source, kind: Kind) -> bool:
        parts = source.first_line.split()
        return len(parts) >= 5 and not source.looks_like_json and b"," not in parts[0] and is_number(parts[4])

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.trec import TrecRun

        return TrecRun(source, options.system)


class QrelsFormat(Format):
    """Lines of `query iteration document grade`."""

    name = "trec-qrels"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"gold"})
    order = 60

    def recognises(self, source: Source, kind: Kind) -> bool:
        parts = source.first_line.split()
        return len(parts) == 4 and not source.looks_like_json and is_number(parts[3])

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.qrels import read_qrels

        return read_qrels(source)
