"""BEIR folders, and folders of Hugging Face datasets with the same content."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from karat.data.gold import Gold
from karat.formats.base import Format, Kind, ReadOptions, Source

_SUFFIXES = (".parquet", ".jsonl")


def tables_in(folder: Path, role: str) -> list[Path]:
    """Files of queries, qrels or a corpus in a folder of a Hugging Face dataset."""
    places = (
        folder.glob(f"{role}*"),
        folder.glob(f"{role}/*"),
        folder.glob(f"*-{role}/*"),
        folder.glob(f"data/{role}*"),
    )
    found = [path for place in places for path in place if path.suffix in _SUFFIXES and path.is_file()]
    if role == "qrels" and not found:  # the default configuration
        others = [path for name in ("data", "default") for path in folder.glob(f"{name}/*.parquet")]
        found = [path for path in others if not path.name.startswith(("corpus", "queries"))]
    return sorted(found)


def is_mteb(folder: Path) -> bool:
    """Whether a folder has queries and qrels as Parquet or JSONL; BEIR's own qrels are TSV."""
    return folder.is_dir() and bool(tables_in(folder, "qrels")) and bool(tables_in(folder, "queries"))


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
