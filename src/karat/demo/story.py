"""What happened in the two months of the demo, one step a run."""

from __future__ import annotations

from dataclasses import dataclass

KEYWORD, RERANKED = "keyword search", "keyword search + rerank"
GATES = (
    "recall@5 >= 0.33",
    "ndcg@5 >= 0.42",
    "recall@5 >= 0.30 in language=es-AR",
    "recall@5 drop <= 0.02",
)


@dataclass(frozen=True)
class Step:
    """One run: who searched what, and what was said of it. `until`: the newest article in the index."""

    day: str
    code: str
    until: str
    branch: str = "main"
    rerank: float = 0.0  # how much the reranker's order counts
    one_per_article: bool = False
    without: str | None = None  # a language that is not in the index
    tags: tuple[str, ...] = ()
    baseline: str | None = None  # pins that it gets
    anchor: str | None = None

    @property
    def system(self) -> str:
        return RERANKED if self.rerank else KEYWORD

    @property
    def time(self) -> str:
        return f"{self.day}T05:30:00.000000Z"


STORY = (
    # Keyword search, while the help centre is still being put into the index.
    Step("2025-09-01", "1f0c93a7d2e4", "2024-07", tags=("nightly",)),
    Step("2025-09-08", "58b6e01c9f37", "2024-10", tags=("nightly",)),
    Step("2025-09-15", "a3d97c4410be", "2025-01", tags=("nightly",)),
    Step("2025-09-22", "0e7745fb8c12", "2025-10", tags=("nightly", "v1.0"), anchor="release"),
    # A reranker, tried on a branch and taken over.
    Step("2025-09-25", "c91b2f6e5a08", "2025-10", "feature/rerank", rerank=0.25),
    # The same code as in v1.0 over another index: of one night, without the Brazilian articles.
    Step("2025-09-29", "0e7745fb8c12", "2025-10", without="pt-BR", tags=("nightly",)),
    Step("2025-09-30", "7d40ae13b6c5", "2025-10", "feature/rerank", rerank=0.75),
    Step("2025-10-02", "e2885d90f1a6", "2025-10", rerank=0.75, tags=("v1.1",), baseline="main"),
    Step("2025-10-06", "e2885d90f1a6", "2025-10", tags=("nightly",)),
    # One passage an article looks tidier, and loses what stood in the second.
    Step("2025-10-09", "4ba6c07de835", "2025-10", "feature/one-per-article", rerank=0.75, one_per_article=True),
    # The index is built anew, and the Argentine articles are not in it. Nobody would see it in the English ones.
    Step("2025-10-13", "96f3d81a02cb", "2025-10", rerank=0.75, without="es-AR", tags=("nightly",)),
    Step("2025-10-14", "d5091be7a64f", "2025-10", rerank=0.75, tags=("nightly", "mended")),
    Step("2025-10-20", "b8e26c5f9d01", "2025-10", "feature/rerank-only", rerank=1.0),
)


def baseline_of(step: Step) -> Step | None:
    """What was pinned as the baseline before it."""
    return next((one for one in reversed(STORY[: STORY.index(step)]) if one.baseline), None)
