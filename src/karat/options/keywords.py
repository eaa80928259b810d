"""Options as keywords, for editors and type checkers. Written by `make docs` from the lists of options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from karat.statistics.sampling import Method, Sampling


class LadderKeywords(TypedDict, total=False):
    """Those of `ladder`."""

    missing: Literal["worst", "skip"]
    min_score: float | None
    doc_of: str
    no_future: bool
    top_k: int | None
    fuzzy_threshold: float
    target_false_evidence: float
    corpus_size: int | None
    prices: Any
    no_answer: str | None
    segments: Iterable[str]
    cluster: str | None
    method: Method
    level: float
    resamples: int
    seed: int
    bm25: Any
    raw: Any
    original: Any
    routes: Mapping[str, Any] | None
    run_format: str | None
    gold_format: str | None
    target: str | None
    split: str
    system: str | None
    hits: Literal["topk", "raw", "topk_original"]
    run_columns: Any
    engine: Any
    spark_master: str | None
    labelling: Any
    sampling: Sampling | None
    analyses: bool | None


class EvaluateKeywords(LadderKeywords, total=False):
    """Those of `evaluate`."""

    k: int
    corpus: Any


class JudgeKeywords(TypedDict, total=False):
    """Those of `judge`."""

    base_url: str | None
    workers: int
    timeout: float
    retries: int
    prices: Any
    cache: str | PathLike[str] | None
    fresh: bool
    seed: int
    model: str | None
    judge: str | Callable[..., Any] | None
    prompt: Any
    corpus: Any
    annotator: str | None
    canaries: int


class SynthesisKeywords(TypedDict, total=False):
    """Those of `synthesis`."""

    base_url: str | None
    workers: int
    timeout: float
    retries: int
    prices: Any
    cache: str | PathLike[str] | None
    fresh: bool
    seed: int
    model: Required[str]
    n: int
    no_answer_share: float
