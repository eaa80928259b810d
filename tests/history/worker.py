"""A process that saves runs: `python worker.py STORE FIRST COUNT [before|after]`, and dies in the middle if told to."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from karat.data.gold import Dataset
from karat.history.location import open_store
from karat.results.kept_run import KeptRun, keep
from karat.results.saved import SavedResult
from karat.results.summary import SegmentRow, SummaryRow


def made_run(
    number: int,
    queries: int = 20,
    *,
    system: str = "hybrid",
    metric: str = "recall@5",
    dataset: str = "helpdesk",
    **provenance: Any,
) -> KeptRun:
    """A run that differs from those of other numbers. Query i is found at rank i % 4 + 1, and scores 1/rank."""
    names = [f"q{i}" for i in range(queries)]
    ranks = [None if i % 7 == 6 else (i + number) % 4 + 1 for i in range(queries)]
    scores = [0.0 if rank is None else 1 / rank for rank in ranks]
    mean = sum(scores) / queries
    row = SummaryRow(metric, queries, 0, mean, mean - 0.05, mean + 0.05, few=queries < 20)
    halves = [SegmentRow("language", value, queries // 2, False, [row]) for value in ("de", "en")]
    saved = SavedResult(
        karat="0.1.0",
        system=system,
        run=f"runs/{number}.jsonl",
        gold="gold.jsonl",
        dataset=Dataset("v3", ["2025-01-01", "2025-06-01"], "abcd", dataset),
        settings={"missing": "worst", "doc_of": "#", "k": 5, "fuzzy_threshold": 0.7},
        provenance={"number": number, "index_version": "v7", "chunker": {"tokens": 200}, **provenance},
        audit=[],
        summary=[row],
        scores={q: {metric: score} for q, score in zip(names, scores, strict=True)},
        queries={q: f"What about {q}?" for q in names},
        statistics={"method": "bayes", "level": 0.95, "resamples": 10_000, "seed": 7, "cluster": None},
        segments=halves,
        attributes={"language": ["de" if i % 2 else "en" for i in range(queries)]},
        definitions={metric: 1},
    )
    case = {"query_id": "q6", "query": "What about q6?", "hits": [{"rank": 1, "id": "d9#1"}]}
    return keep(saved, first_ranks=ranks, triage={"run": "r", "cases": [case] if queries > 6 else []})


def main() -> None:
    place, first, count, *when = sys.argv[1:]
    with open_store(place, create=True) as store:
        if when:
            put = store._put

            def deadly(*arguments: Any) -> None:
                if when == ["after"]:
                    put(*arguments)
                os.kill(os.getpid(), signal.SIGKILL)

            store._put = deadly  # type: ignore[method-assign]
        for number in range(int(first), int(first) + int(count)):
            print(store.save(made_run(number)).id, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
