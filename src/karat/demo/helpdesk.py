"""The demo: gold, articles, the results of two real searches, and the story of two months of runs."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.errors import InputError
from karat.formats.corpus import read_corpus
from karat.formats.read import read_gold
from karat.labels.files import write_pairs
from karat.labels.pool import make_pool

# In a wheel the files are next to this one (see pyproject.toml), in a checkout they are in examples.
_PLACES = (Path(__file__).parent / "files", Path(__file__).parents[3] / "examples" / "helpdesk")
_FOLDER = "examples/helpdesk"
_TOP = 10
_SMOOTH = 10  # constant of reciprocal rank fusion
_SLOWER = 100  # the logged times are of an in-memory index; a remote server is slower
_PAIRS = 40  # to label: few, so that it does not take long
_EVERY = 2  # use every second query, to save time


class DemoQuestion(msgspec.Struct, frozen=True):
    """One query: the hits of keyword search, and the best of them in the order of a reranker."""

    query_id: str
    text: str
    found: list[str]
    reranked: list[str]
    latency_ms: dict[str, float]


class Helpdesk(msgspec.Struct, frozen=True):
    gold: Gold
    corpus: Corpus
    questions: list[DemoQuestion]
    keyword: list[dict[str, Any]]  # the run log of keyword search alone


@cache
def read_helpdesk() -> Helpdesk:
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        hint = "install Karat from a wheel, or run it in a checkout"
        raise InputError("the demo set is not installed", code="no-demo-set", hint=hint)
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
    # Replace the path, which is specific to this machine.
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


KEYWORD, RERANKED = "keyword search", "keyword search + rerank"
GATES = ("recall@5 >= 0.33", "ndcg@5 >= 0.42", "recall@5 >= 0.30 in language=es-AR", "recall@5 drop <= 0.02")


class Step(msgspec.Struct, frozen=True):
    """One run of the story. `until`: the newest article in the index."""

    day: str
    code: str
    until: str
    branch: str = "main"
    rerank: float = 0.0  # how much the reranker's order counts
    one_per_article: bool = False
    without: str | None = None  # a language that is not in the index
    tags: tuple[str, ...] = ()
    baseline: str | None = None  # name of the pin it gets
    anchor: str | None = None

    @property
    def system(self) -> str:
        return RERANKED if self.rerank else KEYWORD

    @property
    def author(self) -> str:
        return "ada" if self.branch == "main" else "grace"

    @property
    def time(self) -> str:
        return f"{self.day}T05:30:00.000000Z"


STORY = (
    # Keyword search, while the help centre is still being indexed.
    Step("2025-09-01", "1f0c93a7d2e4", "2024-07", tags=("nightly",)),
    Step("2025-09-08", "58b6e01c9f37", "2024-10", tags=("nightly",)),
    Step("2025-09-15", "a3d97c4410be", "2025-01", tags=("nightly",)),
    Step("2025-09-22", "0e7745fb8c12", "2025-10", tags=("nightly", "v1.0"), anchor="release"),
    # A reranker, tried on a branch and merged.
    Step("2025-09-25", "c91b2f6e5a08", "2025-10", "feature/rerank", rerank=0.25),
    # The same code as v1.0 on another index: one night without the Brazilian articles.
    Step("2025-09-29", "0e7745fb8c12", "2025-10", without="pt-BR", tags=("nightly",)),
    Step("2025-09-30", "7d40ae13b6c5", "2025-10", "feature/rerank", rerank=0.75),
    Step("2025-10-02", "e2885d90f1a6", "2025-10", rerank=0.75, tags=("v1.1",), baseline="main"),
    Step("2025-10-06", "e2885d90f1a6", "2025-10", tags=("nightly",)),
    # One passage per article looks tidier, but loses the second passage.
    Step("2025-10-09", "4ba6c07de835", "2025-10", "feature/one-per-article", rerank=0.75, one_per_article=True),
    # The index is rebuilt without the Argentine articles. English queries do not show it.
    Step("2025-10-13", "96f3d81a02cb", "2025-10", rerank=0.75, without="es-AR", tags=("nightly",)),
    Step("2025-10-14", "d5091be7a64f", "2025-10", rerank=0.75, tags=("nightly", "mended")),
    Step("2025-10-20", "b8e26c5f9d01", "2025-10", "feature/rerank-only", rerank=1.0),
)


def baseline_of(step: Step) -> Step | None:
    """The step that was pinned as baseline before this one."""
    return next((one for one in reversed(STORY[: STORY.index(step)]) if one.baseline), None)


def run_log(helpdesk: Helpdesk, step: Step) -> list[dict[str, Any]]:
    """One record per query, as a search would log it."""
    fields = helpdesk.corpus.fields
    articles = zip(helpdesk.corpus.ids, fields["version"], fields["language"], strict=True)
    indexed = {chunk for chunk, version, language in articles if version < step.until and language != step.without}
    share = len(indexed) / len(helpdesk.corpus)
    common = {
        "system": step.system,
        "index_version": f"helpdesk-{step.until}" + (f"-without-{step.without}" if step.without else ""),
        "chunker": {"algo": "by hand, a paragraph each", "overlap": 0},
        "k_raw": len(helpdesk.questions[0].found),
        "code_version": step.code,
        "code_date": step.day,
    }
    if step.rerank:
        common["reranker"] = {"name": "static vectors", "weight": step.rerank}
    return [_record(question, step, indexed, share) | common for question in helpdesk.questions]


def _record(question: DemoQuestion, step: Step, indexed: set[str], share: float) -> dict[str, Any]:
    raw = [chunk for chunk in question.found if chunk in indexed]
    final = [chunk for chunk in _fused(question, step.rerank) if chunk in indexed]
    if step.one_per_article:
        first: dict[str, str] = {}  # of each article
        for chunk in final:
            first.setdefault(chunk.partition("#")[0], chunk)
        final = list(first.values())
    stages = question.latency_ms if step.rerank else {"retrieve": question.latency_ms["retrieve"]}
    return {
        "query_id": question.query_id,
        "query": question.text,
        "topk": _hits(final[:_TOP]),
        "raw": _hits(raw),
        "latency_ms": {stage: round(ms * _SLOWER * share, 1) for stage, ms in stages.items()},
    }


def _fused(question: DemoQuestion, weight: float) -> list[str]:
    """Fuses both orders by reciprocal rank."""
    score = {chunk: (1 - weight) / (_SMOOTH + rank) for rank, chunk in enumerate(question.found)}
    for rank, chunk in enumerate(question.reranked):
        score[chunk] += weight / (_SMOOTH + rank)
    return sorted(score, key=lambda chunk: -score[chunk])


def _hits(chunks: list[str]) -> list[dict[str, Any]]:
    return [{"rank": rank, "chunk_id": chunk} for rank, chunk in enumerate(chunks, 1)]


def write_demo_pool(folder: Path) -> tuple[str, str]:
    """Writes a pool of unjudged pairs of two runs; returns the paths of the pool and of its labels."""
    helpdesk = read_helpdesk()
    runs = [run_log(helpdesk, step) for step in (STORY[0], STORY[-1])]
    pool = make_pool(runs, helpdesk.gold, corpus=helpdesk.corpus, sample=_PAIRS)
    write_pairs(str(folder / "pool.jsonl"), pool.entries)
    return str(folder / "pool.jsonl"), str(folder / "labels.jsonl")
