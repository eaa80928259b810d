"""BEIR folders, and folders of Hugging Face datasets with the same content."""

from __future__ import annotations

from typing import ClassVar

from karat.data.gold import Gold
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.hf_folder import is_mteb


class MtebFormat(Format):
    """A folder of a Hugging Face dataset for retrieval, as MTEB has them: corpus, queries and qrels."""

    name = "mteb"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"gold"})
    order = 4

    def recognises(self, source: Source, kind: Kind) -> bool:
        return source.is_folder and not any(source.path.glob("qrels/*.tsv")) and is_mteb(source.path)

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.mteb import read_mteb

        return read_mteb(source, options)


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
