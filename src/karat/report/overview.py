"""Shared parts of pages: names instead of paths, the sections behind findings, and notes on intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

import msgspec

from karat.data.gold import Dataset
from karat.report.blocks import Block, Section, Table, Text
from karat.results.diagnosis.finding import Finding
from karat.results.numbers import amount, counted

_USUAL = {"gold", "qrels", "queries", "labels", "test", "dev", "train"}  # file names that do not describe the data
_ENDINGS = {".jsonl", ".json", ".csv", ".tsv", ".parquet", ".trec", ".txt", ".run", ".qrels", ".gz", ".zst", ".yaml"}
SURE = (
    "strong, likely: how certain the finding is. The suggestions usually help with such numbers; the cause itself is "
    "not proven."
)
# Finding → the sections that show its numbers, the most relevant first. The scores are on every page.
EXPLAINED_BY: dict[str, tuple[str, ...]] = {
    "labels_gone": ("label_health",),
    "short_lists": ("audit",),
    "repeated_hits": ("audit",),
    "unjudged": ("bounds",),
    "chunking": ("levels",),
    "not_found": ("waterfall", "over_k"),
    "too_far_down": ("over_k", "waterfall"),
    "buried": ("over_k",),
    "first_hit_only": ("over_k",),
    "reranker_hurts": ("reranker",),
    "reranker_wins_little": ("reranker",),
    "misrouted": ("router",),
    "rewriting_harms": ("rewriter",),
    "weak_segment": ("segments",),
    "slow": ("latency",),
    "slow_tail": ("latency",),
    "from_the_future": ("freshness",),
    "scores_do_not_tell": ("no_answer",),
    "no_threshold": ("no_answer",),
}


def run_names(runs: Sequence[str]) -> list[str]:
    """Returns short names for runs: the file name, with the folder if two would be the same.

    >>> run_names(["out/bm25.jsonl", "hybrid v1.2"]), run_names(["a/run.jsonl", "b/run.jsonl"])
    (['bm25', 'hybrid v1.2'], ['a/run', 'b/run'])
    """
    short = [_stem(run) for run in runs]
    parents = [PurePath(run).parent.name for run in runs]
    return [f"{p}/{s}" if p and short.count(s) > 1 else s for s, p in zip(short, parents, strict=True)]


def data_name(dataset: Dataset, gold: str) -> str:
    """Returns the name of a gold set: its own, or that of its file or folder.

    >>> data_name(Dataset(name="helpdesk", version="v3"), "x.jsonl"), data_name(Dataset(), "data/faq/gold.jsonl")
    ('helpdesk', 'faq')
    >>> data_name(Dataset(), "data/faq.jsonl"), data_name(Dataset(), "gold.jsonl")
    ('faq', 'gold')
    """
    if dataset.name:
        return dataset.name
    name, folder = _stem(gold), PurePath(gold).parent.name
    return (folder if folder and name in _USUAL else name) or "the gold set"


def _stem(path: str) -> str:
    """
    >>> _stem("runs/bm25.jsonl.gz"), _stem("bm25 + rerank"), _stem("v1.2"), _stem("s3a://bucket/run.parquet")
    ('bm25', 'bm25 + rerank', 'v1.2', 'run')
    """
    name = PurePath(path)
    if name.suffix.lower() not in _ENDINGS:
        return path
    while name.suffix.lower() in _ENDINGS:
        name = name.with_suffix("")
    return name.name


def range_title(means: Mapping[str, float | None], data: str, metric: str, unit: str) -> str:
    """
    >>> range_title({"bm25.jsonl": 0.332, "hybrid": 0.368}, "helpdesk", "recall@5", "pp")
    '2 systems on helpdesk: recall@5 from 33.2% (bm25) to 36.8% (hybrid)'
    """
    title = f"{counted(len(means), 'system')} on {data}"
    named = zip(means.values(), run_names([*means]), strict=True)
    found = sorted((mean, name) for mean, name in named if mean is not None)
    if len(found) < max(len(means), 2):
        return title
    (low, worst), *_, (high, best) = found
    return f"{title}: {metric} from {amount(low, unit)} ({worst}) to {amount(high, unit)} ({best})"


def score_note(level: float, cluster: str | None = None) -> Text:
    """Explains the interval of a score."""
    alike = f" Queries with the same {cluster} count together." if cluster else ""
    said = (
        f"In brackets: the {level * 100:g} % confidence interval. For {level * 100:g} of 100 query sets sampled like "
        f"this one, such an interval contains the value over all queries of this kind.{alike}"
    )
    return Text(said, "note", explains="score")


def difference_note(level: float, *, tested: bool = True) -> Text:
    """Explains the interval of a difference, and p if it is shown."""
    said = (
        f"Differences are shown with their {level * 100:g} % confidence interval, computed from per-query differences. "
        "If the interval contains 0, the difference may be noise."
    )
    p = " p: probability of a difference this large if neither were better, for each metric on its own."
    return Text(said + p * tested, "note", explains="difference")


def with_difference_note(blocks: Sequence[Block], level: float) -> list[Block]:
    """Adds a note about the intervals of differences after the first table that has some."""
    first = next((i for i, b in enumerate(blocks, 1) if isinstance(b, Table) and b.intervals == "difference"), None)
    return [*blocks] if first is None else [*blocks[:first], difference_note(level), *blocks[first:]]


def explained_once(sections: Iterable[Section]) -> list[Section]:
    """The sections of a page with each explanation shown only once."""
    seen, told = set[str](), []
    for section in sections:
        blocks = []
        for block in section.blocks:
            kind = block.explains if isinstance(block, Text) else ""
            if kind and kind in seen:
                continue
            seen.add(kind)
            blocks.append(block)
        told.append(msgspec.structs.replace(section, blocks=blocks))
    return told


def places_of(finding: Finding) -> tuple[str, ...]:
    """Names of the sections that show the numbers behind a finding, the most relevant first."""
    return (*EXPLAINED_BY.get(finding.code, ()), "panel", "findings")
