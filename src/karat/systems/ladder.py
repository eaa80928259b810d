"""The ladder: simple systems from random to hybrid, and where a run ranks among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import msgspec

from karat import __version__
from karat.data.corpus import Corpus
from karat.data.gold import Dataset
from karat.data.saved import SavedObject
from karat.errors import ConfigError, MissingExtra
from karat.formats.corpus import read_corpus
from karat.formats.questions import read_questions
from karat.formats.read import read_gold
from karat.options.option import takes
from karat.results.comparison.compare import paired_sides
from karat.results.comparison.sides import as_results
from karat.results.differences import Difference
from karat.results.doubts import doubt_text
from karat.results.evaluate import evaluate_all
from karat.results.result import Result
from karat.results.summary import SummaryRow
from karat.retrievers.base import Nothing
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.options import Options
from karat.statistics.sampling import Sampling
from karat.systems.run import corpus_facts, run_retriever

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords, LadderKeywords

BASELINES = ("random", "bm25:title", "bm25", "dense", "hybrid")
METRICS = ("recall@5", "ndcg@5")
_REFERENCE = "bm25"


class Rung(msgspec.Struct, frozen=True):
    """One system. Differences are paired by query; empty if there is nothing to compare with."""

    system: str
    baseline: bool  # False: a run that was given
    values: list[SummaryRow]
    above_next: list[Difference] = []  # compared with the rung below
    above_bm25: list[Difference] = []


class Ladder(SavedObject, frozen=True, kw_only=True):
    """What `karat baseline` saves: rungs from the lowest to the highest, by the first metric."""

    schema: Literal["karat/ladder/1"] = "karat/ladder/1"
    gold: str
    dataset: Dataset
    corpus: dict[str, Any]
    statistics: dict[str, Any]
    units: dict[str, str]
    rungs: list[Rung]
    ceilings: dict[str, float | None]  # scores of a perfect ranking
    floors: dict[str, float | None]  # mean scores of random rankings
    skipped: dict[str, str]  # baseline → reason
    notes: list[str]


@takes(Options)
def baseline_ladder(
    corpus: Any,
    gold: Any,
    *,
    runs: Sequence[Any] = (),
    metrics: Iterable[str] = METRICS,
    baselines: Sequence[str] = BASELINES,
    k: int = 50,
    keep: str | None = None,
    progress: Callable[[str, int], AbstractContextManager[Callable[[], None]]] | None = None,
    **options: Unpack[LadderKeywords],
) -> Ladder:
    """Run the baselines over a corpus, score them, and place any other runs among them.

    `runs`: run files, records, or results. `baselines`: specs of retrievers. `keep`: a folder for the run logs of the
    baselines. A baseline whose package is not installed is skipped and reported.
    """
    how = Options(**options)
    how = how.replace(columns=how.fields)
    searched = corpus if isinstance(corpus, Corpus) else read_corpus(corpus, columns=how.columns)
    judged = read_gold(gold, **how.of_gold)
    parsed = parse_metrics(metrics)
    if not parsed:
        raise ConfigError("no metric is given", expected="such as recall@5")
    asked, k = list(map(str, parsed)), max(k, *(metric.k or 0 for metric in parsed))  # recall@100 needs 100 hits
    sampling = how.intervals
    scoring = cast("EvaluateKeywords", {**options, "corpus": searched, "columns": how.columns})
    if not len(searched):
        raise ConfigError("the corpus is empty", code="empty-corpus", file=searched.label)
    questions = read_questions(judged)
    results: dict[str, Result] = {}
    skipped: dict[str, str] = {}
    notes: list[str] = []
    for spec in baselines:
        output = None if keep is None else Path(keep) / (re.sub(r"[^\w.-]+", "_", spec).strip("_") + ".jsonl")
        try:
            done = run_retriever(spec, questions, corpus=searched, k=k, output=output, progress=progress)
        except (MissingExtra, Nothing) as error:
            skipped[spec] = str(error).replace("\nhint: ", "; ")
            continue
        notes += [f"{spec}: {note}" for note in done.notes]
        results[spec] = evaluate_all(done.run, judged, asked, **scoring)[done.system]
    own = set(results)
    for run in runs:
        for result in as_results(run, judged, asked, scoring):
            name = _free(result.system or result.run, results)
            results[name] = result
            notes += [f"{name}: {text}" for text in doubt_text(result.doubts)]
    if how.columns is not None:
        how.columns.refuse_unused()
    if not results:
        hint = "; ".join(f"{n}: {why}" for n, why in skipped.items())
        raise ConfigError("no baseline can run", code="no-baseline", hint=hint)
    ordered = sorted(results, key=lambda name: (_first(results[name]), name not in own, name))
    first = results[ordered[0]]
    return Ladder(
        karat=__version__,
        gold=judged.label,
        dataset=judged.dataset,
        corpus=corpus_facts(searched),
        statistics=sampling.saved(first.cluster),
        units={str(m): m.told_in(first.rules) for m in first.metrics},
        rungs=[_rung(name, ordered[:at], results, name in own, sampling) for at, name in enumerate(ordered)],
        ceilings={row.metric: row.ceiling for row in first.summary_rows},
        floors={row.metric: row.floor for row in first.summary_rows},
        skipped=skipped,
        notes=notes,
    )


def _first(result: Result) -> float:
    """Return the sort key of a rung; undefined scores come lowest."""
    row = result.summary_rows[0]
    mean = float("-inf") if row.mean is None else row.mean
    return mean if result.metrics[0].direction == "higher" else -mean


def _free(name: str, taken: dict[str, Result]) -> str:
    return name if name not in taken else next(n for i in range(2, 10**6) if (n := f"{name} #{i}") not in taken)


def _rung(name: str, below: list[str], results: dict[str, Result], own: bool, sampling: Sampling) -> Rung:
    result = results[name]

    def above(other: str | None) -> list[Difference]:
        if other is None or other == name:
            return []
        return paired_sides(results[other], result).differences(sampling, sampling.resamples)

    reference = _REFERENCE if _REFERENCE in results else None
    return Rung(name, own, result.summary_rows, above(below[-1] if below else None), above(reference))
