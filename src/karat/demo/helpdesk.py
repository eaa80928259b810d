"""The demo set: gold, articles, and what two real searches found."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.errors import InputError
from karat.formats.corpus import read_corpus
from karat.formats.read import read_gold

# In a wheel the files lie beside this one (pyproject.toml puts them there), in a checkout among the examples.
_PLACES = (Path(__file__).parent / "files", Path(__file__).parents[3] / "examples" / "helpdesk")
_FOLDER = "examples/helpdesk"
_EVERY = 2  # every second query: enough to tell a good search from a bad one, and measured in half the time


@dataclass(frozen=True)
class DemoQuestion:
    """One query: what keyword search found, and the order in which a reranker put the best of it."""

    query_id: str
    text: str
    found: list[str]
    reranked: list[str]
    latency_ms: dict[str, float]


@dataclass(frozen=True)
class Helpdesk:
    gold: Gold
    corpus: Corpus
    questions: list[DemoQuestion]
    keyword: list[dict[str, Any]]  # the run log of keyword search alone


def read_helpdesk() -> Helpdesk:
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        raise InputError(
            "the demo set is not installed",
            code="no-demo-set",
            hint="install Karat from a wheel, or run it in a checkout",
        )
    corpus = read_corpus(folder / "corpus.jsonl")
    keyword, reranked = (_records(_lines(folder / name)) for name in ("bm25.jsonl", "bm25_rerank.jsonl"))
    questions = [
        DemoQuestion(
            query_id=plain["query_id"],
            text=plain["query"],
            found=[hit["chunk_id"] for hit in plain["raw"]],
            reranked=[hit["chunk_id"] for hit in better["topk"]],
            latency_ms=better["latency_ms"],
        )
        for plain, better in zip(keyword, reranked, strict=True)
    ]
    # Where it was read from says something of this machine only.
    return Helpdesk(_gold(folder), replace(corpus, label=f"{_FOLDER}/corpus.jsonl"), questions, keyword)


def _gold(folder: Path) -> Gold:
    lines, whole = _lines(folder / "gold.jsonl"), read_gold(folder / "gold.jsonl").dataset
    digest = hashlib.sha256(b"\n".join(lines)).hexdigest()[:16]
    dataset = msgspec.structs.replace(whole, hash=f"sha256:{digest}")
    return replace(read_gold(_records(lines)), dataset=dataset, label=f"{_FOLDER}/gold.jsonl")


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()[::_EVERY]


def _records(lines: list[bytes]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in lines]
