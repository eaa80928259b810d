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
    score_width: Literal[32, 64]
    ties: Literal["id", "listed"]
    scores: Literal["higher-is-better", "lower-is-better"] | None
    no_relevant: Literal["undefined", "zero"]
    doc_of: str
    normalize_ids: bool
    no_future: bool
    top_k: int | None
    fuzzy_threshold: float
    target_false_evidence: float
    rerank_depth: int | None
    corpus_size: int | None
    method: Method
    level: float
    resamples: int
    seed: int
    like: Literal["trec_eval", "ranx", "ir_measures", "ragas"] | None
    prices: Any
    no_answer: str | None
    segments: Iterable[str]
    cluster: str | None
    bm25: Any
    raw: Any
    original: Any
    routes: Mapping[str, Any] | None
    quality: Any
    run_format: str | None
    gold_format: str | None
    target: str | None
    split: str
    system: str | None
    hits: Literal["topk", "raw", "topk_original"]
    run_columns: Any
    columns: Any
    engine: Any
    spark_master: str | None
    labelling: Any
    sampling: Sampling | None
    analyses: bool | None


class EvaluateKeywords(LadderKeywords, total=False):
    """Those of `evaluate`."""

    k: int
    corpus: Any


class ModelKeywords(TypedDict, total=False):
    """Those of `model`."""

    base_url: str | None
    workers: int
    timeout: float
    retries: int
    prices: Any
    cache: str | PathLike[str] | None
    fresh: bool
    seed: int


class JudgeKeywords(ModelKeywords, total=False):
    """Those of `judge`."""

    model: str | None
    judge: str | Callable[..., Any] | None
    prompt: Any
    corpus: Any
    annotator: str | None
    canaries: int


class SynthesisKeywords(ModelKeywords, total=False):
    """Those of `synthesis`."""

    model: Required[str]
    n: int
    no_answer_share: float
