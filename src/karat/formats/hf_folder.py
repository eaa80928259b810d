"""Finds the files of a Hugging Face dataset for retrieval in its folder."""

from __future__ import annotations

from pathlib import Path

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
