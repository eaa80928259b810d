"""BEIR folders."""

from __future__ import annotations

from typing import ClassVar

from karat.data.gold import Gold
from karat.formats.base import Format, Kind, ReadOptions, Source


class BeirFormat(Format):
    """A folder with queries.jsonl and qrels/test.tsv (`--split` names another)."""

    name = "beir"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"gold"})
    order = 5

    def recognises(self, source: Source, kind: Kind) -> bool:
        return source.is_folder and (source.path / "qrels").is_dir()

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.beir import read_beir

        return read_beir(source, options)
