"""The sides of a comparison: runs, results and saved results, and whether they are comparable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import Run
from karat.errors import ConfigError, shorten
from karat.errors.redaction import same_redacted
from karat.formats.read import read_run
from karat.results.analyses.base import Consumer, Lacking
from karat.results.evaluate import evaluate_all
from karat.results.numbers import counted
from karat.results.references import is_saved
from karat.results.result import Result
from karat.results.save import restore
from karat.results.saved import SavedResult, read_saved
from karat.scoring.metrics.against_run import AgainstRun
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.options import named_sampling
from karat.scoring.views import ORIGINAL, OWN, RAW

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords

_SIDES = ("baseline", "candidate")
# Settings that must be the same on both sides.
SETTINGS = (
    *("missing", "doc_of", "k", "fuzzy_threshold", "score_width", "ties", "no_relevant"),
    *("min_score", "top_k", "no_future", "normalize_ids", "forbid"),
)


def is_several(side: Any) -> bool:
    """Whether it is a list of runs or results, not of records."""
    kinds = (str, PathLike, Run, Result, SavedResult)
    return isinstance(side, (list, tuple)) and bool(side) and all(isinstance(one, kinds) for one in side)


def as_results(
    side: Any,
    gold: Any,
    metrics: Iterable[str | Metric] | None,
    options: EvaluateKeywords,
    consumers: Sequence[Consumer] = (),
) -> list[Result]:
    """The results of one side: one, or one per system of a run, or those of several runs."""
    if is_several(side):
        return [one for part in side for one in as_results(part, gold, metrics, options, consumers)]
    if isinstance(side, Result):
        return [side]
    if isinstance(side, SavedResult):
        return [_restored(side, metrics, options)]
    if is_saved(side):
        return [_restored(saved, metrics, options) for saved in read_saved(side)]
    if isinstance(side, (str, PathLike)) and not Path(side).exists():
        read_run(side)  # raises an error about the path
    if gold is None:
        raise ConfigError(
            "the gold set is missing",
            code="no-gold",
            hint="add --gold GOLD; only results saved with `karat eval … -o result.json` need none",
        )
    return list(evaluate_all(side, gold, metrics, consumers=consumers, **options).values())


def _restored(saved: SavedResult, metrics: Iterable[str | Metric] | None, options: EvaluateKeywords) -> Result:
    """A saved result with the requested metrics, intervals and clusters."""
    result, cluster = restore(saved), options.get("cluster")
    result = replace(result, sampling=named_sampling(options, result.sampling))
    if cluster is not None:
        result = replace(result, cluster=None if cluster == "none" else cluster)
    if metrics is None:
        return result
    try:
        return result.measure(metrics)
    except Lacking:
        absent = [str(m) for m in parse_metrics(metrics) if m not in result.metrics]
        has = ", ".join(map(str, result.metrics))
        raise ConfigError(
            f"the saved result of {result.run} has no {', '.join(absent)}", code="missing-metric", hint=f"it has: {has}"
        ) from None


def refuse_different(first: Result, other: Result, force: bool) -> list[str]:
    """Raise if two results do not measure the same thing, and return notes. With `force` the problems become notes."""
    problems = [
        *_different_data(first, other),
        *_different_lists(first, other),
        *_different_definitions(first, other),
        *_different_labels(first, other),
        *_unfiltered(first, other),
    ]
    notes = _refused(problems, force)
    if first.rules.scores != other.rules.scores:
        read = [side.rules.scores or "as logged" for side in (first, other)]
        notes.append(f"the scores of the baseline are read {read[0]}, those of the candidate {read[1]}.")
    notes += _lacking("baseline", first.missing, "left out of the comparison")
    notes += _lacking("candidate", other.missing - first.missing, "counted as failed")
    hashes = {first.gold.dataset.hash, other.gold.dataset.hash} - {None}
    if len(hashes) > 1 and not problems:
        notes.append("the gold sets have different content, but their versions do not differ.")
    return notes


def refuse_other_measures(first: Result, other: Result, force: bool) -> list[str]:
    """The same for runs with different queries, whose gold sets may differ as well."""
    same = replace(other, rules=other.rules.replace(missing=first.rules.missing))  # a query may be of another period
    checks = (_different_lists, _different_definitions, _different_labels, _unfiltered)
    return _refused([problem for check in checks for problem in check(first, same)], force)


def _refused(problems: list[str], force: bool) -> list[str]:
    if problems and not force:
        raise ConfigError(
            "these results are not comparable: " + "; ".join(problems),
            code="not-comparable",
            hint="--force compares them anyway",
        )
    return [f"compared with --force although {problem}." for problem in problems]


def _lacking(name: str, missing: Collection[str], done: str) -> list[str]:
    """A note on missing queries. Those of a run count against it; those of a baseline would look like a gain."""
    return [f"the {name} is missing {counted(len(missing))} of the gold set: {done}."] if missing else []


def compared_audits(sides: Sequence[Result]) -> list[Audit]:
    """The audits of the results, which say what the comparison does with missing queries."""
    return [_compared_audit(side, sides[0].missing) for side in sides]


def _compared_audit(side: Result, left_out: Collection[str]) -> Audit:
    audit = Audit.of(entry for entry in side.audited if entry.code != "missing_queries")
    answerable = (side.gold.no_answer[side.rows] == 0).tolist()
    missing = [q for q, wanted in zip(side.queries, answerable, strict=True) if wanted and q in side.missing]
    for code, gone in (("missing_queries", False), ("unshared_queries", True)):
        queries = [query for query in missing if (query in left_out) is gone]
        audit.count(code, len(queries), queries)
    return audit


def _different_data(first: Result, other: Result) -> list[str]:
    found = []
    for what in ("name", "version"):
        values = [getattr(side.gold.dataset, what) for side in (first, other)]
        if None not in values and values[0] != values[1] and not same_redacted(*values):  # saved without secrets
            found.append(f"the dataset {what}s are {values[0]} and {values[1]}")
    return found


def _different_lists(first: Result, other: Result) -> list[str]:
    """Final lists on one side, lists before reranking or rewriting on the other (`--hits`)."""
    lists = [lists_read(side) for side in (first, other)]
    return [] if lists[0] == lists[1] else [f"the lists are {lists[0]} and {lists[1]} (--hits)"]


def lists_read(result: Result) -> str:
    """Which lists of the run were evaluated, as `--hits` names them."""
    said = result.provenance.get("hits")
    return said if said in (RAW, ORIGINAL) else OWN


def _different_definitions(first: Result, other: Result) -> list[str]:
    shared = [name for name in first.definitions if name in other.definitions]
    found = [f"{n} is defined differently" for n in shared if first.definitions[n] != other.definitions[n]]
    if first.rules.prices != other.rules.prices:
        found += [f"{m} uses different prices" for m in first.metrics if "prices" in m.needs and str(m) in shared]
    hashes = [side.provenance.get("reference_hash") for side in (first, other)]
    if hashes[0] != hashes[1]:
        found += [f"{m} compares with different reference runs" for m in first.metrics if _is_shared(m, other)]
    for setting in SETTINGS:
        values = [getattr(side.rules, setting) for side in (first, other)]
        if values[0] != values[1]:
            found.append(f"the setting {setting} is {values[0]!r} and {values[1]!r}")
    return [*found, *_unknown_width(first, other), *_unknown_width(other, first)]


def _is_shared(metric: Metric, other: Result) -> bool:
    """Whether both results have this metric of a reference run."""
    return isinstance(metric, AgainstRun) and metric in other.metrics


def _unknown_width(saved: Result, other: Result) -> list[str]:
    """Files of older versions do not record how scores were compared. It matters where that decides an order."""
    close = other.audit["score_width"]
    if saved.known is None or saved.known.says_score_width or not close:
        return []
    return [f"{saved.run} does not record its score_width, which decides the order in {counted(close)}"]


def _different_labels(first: Result, other: Result) -> list[str]:
    """Whether the gold sets grade the items of shared queries differently, whatever their versions say."""
    found = []
    if first.labelling.judge and other.labelling.judge and first.labelling.judge != other.labelling.judge:
        found.append("the judge labels differ")
    one, two = first.gold, other.gold
    same = one.dataset is two.dataset or (one.dataset.hash is not None and one.dataset.hash == two.dataset.hash)
    # Passages are located in each run; results of Karat 0.1 have no items.
    if one is two or one.passages or two.passages or not len(one.grades) or not len(two.grades):
        return found
    # Labels added to the gold set change the scale of its grades, but not its hash.
    if np.array_equal(one.grades, two.grades) and (same or (one.queries == two.queries and one.ids == two.ids)):
        return found
    before, after = _labels(one), _labels(two)
    changed = [query for query, labels in before.items() if query in after and labels != after[query]]
    other_items = [q for q in changed if not (same and _same_but_scale(before[q], after[q]))]
    if other_items:
        example = f", such as those of {shorten(other_items[0], 40)!r}"
        found.append(f"the gold sets have different labels for {counted(len(other_items))}{example}")
    moved = [str(m) for m in first.metrics if m in other.metrics and m.by_grade]
    if changed and not other_items and moved:
        scales = f"the gold sets use different grade scales in {counted(len(changed))}"
        found.append(f"{scales}, which changes {', '.join(moved)}")
    return found


def _same_but_scale(before: dict[str, float], after: dict[str, float]) -> bool:
    """Whether the same items are relevant, all with the same grade: then only the value of the grade differs."""
    grades = [{grade for grade in labels.values() if grade > 0} for labels in (before, after)]
    return all(len(levels) <= 1 for levels in grades) and (
        {item: grade > 0 for item, grade in before.items()} == {item: grade > 0 for item, grade in after.items()}
    )


def _labels(gold: Gold) -> dict[str, dict[str, float]]:
    """Query → item → grade, without items that count as unjudged."""
    labels: dict[str, dict[str, float]] = {query: {} for query in gold.queries}
    items = zip(gold.query_of_item.tolist(), gold.ids, gold.grades.tolist(), strict=True)
    for query, item, grade in items:
        if grade >= 0:
            labels[gold.queries[query]][item] = grade
    return labels


def _unfiltered(first: Result, other: Result) -> list[str]:
    """A filter that had no effect on one side, because its hits have no versions or no scores."""
    tables = [side.data.tables.get(side.view) for side in (first, other)]
    undated, unscored = ([t is not None and getattr(t, what) for t in tables] for what in ("undated", "unscored"))
    found = []
    if undated[0] != undated[1]:
        found.append(f"the {_SIDES[undated[1]]} has no versions, so --no-future removed nothing there")
    if unscored[0] != unscored[1]:
        found.append(f"the {_SIDES[unscored[1]]} has no scores, so --min-score removed nothing there")
    return found


def shared_metrics(first: Result, other: Result, notes: list[str]) -> list[Metric]:
    shared = [m for m in first.metrics if m in other.metrics]
    if not shared:
        raise ConfigError(
            "the results have no metric in common",
            code="no-common-metric",
            hint=f"one has {', '.join(map(str, first.metrics))}; the other has {', '.join(map(str, other.metrics))}",
        )
    alone = [str(m) for m in (*first.metrics, *other.metrics) if m not in shared]
    if alone:
        notes.append(f"left out because only one side has them: {', '.join(alone)}.")
    return shared
