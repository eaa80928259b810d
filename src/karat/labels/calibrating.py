"""A judge held against people: how often it is right, what its labels are worth once corrected, what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from karat import __version__
from karat.data.attributes import segment_labels, segment_title
from karat.data.gold import Gold
from karat.data.ids import Bools, Floats, Ints
from karat.errors import ConfigError, InputError
from karat.formats.read import read_gold
from karat.labels.agreement import settle
from karat.labels.beside_gold import by_name, chances, refuse_no_overlap, settled_labels
from karat.labels.calibration_file import (
    Calibration,
    CorrectedMetric,
    JudgeRates,
    NextPair,
    Rate,
    labels_hash,
)
from karat.labels.labelled_gold import with_labels
from karat.labels.labels_file import CONFLICT, HIGHEST, Label, Labels, read_labels
from karat.labels.pool_file import PoolEntry, read_pool, refuse_unknown
from karat.results.analyses.bounds import BoundsAnalysis, Kind
from karat.results.analyses.calibrated import BY_STRATA, BY_WEIGHTS, as_strata, judge_strata
from karat.results.evaluate import evaluate_all
from karat.results.result import Result
from karat.results.summary import FEW, number
from karat.scoring.extra_labels import Labelling, Named
from karat.scoring.judged import relevance
from karat.scoring.views import Need
from karat.statistics.calibration import (
    LEAST_YOUDEN,
    CalibratedValue,
    labels_for_width,
    post_stratified,
    prediction_powered,
    rates,
    standard_error,
)
from karat.statistics.sampling import Sampling
from karat.statistics.special import beta_quantile

WIDTH = 0.1
_NEXT = 1000  # pairs that are named at most


@dataclass(frozen=True)
class _Pairs:
    """Pairs that the judge labelled, and what people say of some of them."""

    judge: dict[Named, float]
    human: dict[Named, float]
    probability: dict[Named, float]
    documents: frozenset[Named]  # pairs whose item is a whole document
    rel: float | None
    sampling: Sampling

    def select(self, keep: Iterable[Named]) -> _Pairs:
        return replace(self, judge={pair: self.judge[pair] for pair in keep if pair in self.judge})

    @property
    def shared(self) -> list[Named]:
        return [pair for pair in self.judge if pair in self.human]

    @property
    def weighted(self) -> bool:
        return len({self.probability[pair] for pair in self.shared if pair in self.probability}) > 1


def calibrate(
    judge: str | PathLike[str] | Labels,
    human: str | PathLike[str] | Labels,
    *,
    gold: Any = None,
    runs: Sequence[Any] = (),
    segments: Sequence[str] = (),
    pool: str | PathLike[str] | Sequence[PoolEntry] | None = None,
    k: int = 5,
    rel: float | None = None,
    width: float = WIDTH,
    sampling: Sampling | None = None,
    doc_of: str = "#",
    highest: float = HIGHEST,
) -> Calibration:
    """Hold the labels of a judge against those of people for some of the same pairs.

    `gold` with `segments`: also by segments of the queries; `runs` (with `gold`) or `pool`: also by system. Runs get
    precision@k and RBP as people would have labelled all of their hits. `rel`: lowest grade that counts as relevant
    (default: any above 0); `width`: wanted width of the interval of the corrected share.
    """
    if not 0 < width < 1:
        raise ConfigError("the wanted width is a share, above 0 and under 1", got=width, expected="such as 0.1")
    if (runs or segments) and gold is None:
        raise ConfigError("runs and segments need a gold set", code="no-gold", hint="give it with --gold")
    labels, people = (x if isinstance(x, Labels) else read_labels(x, highest=highest) for x in (judge, human))
    judge, human = (x.files if isinstance(x, Labels) else str(x) for x in (judge, human))
    pooled = read_pool(pool) if isinstance(pool, (str, PathLike)) else list(pool or ())
    for given in (labels, people) if pool is not None else ():
        refuse_unknown(given, pooled)
    told = settled_labels(people, human)
    settled = settled_labels(labels, judge)
    documents = frozenset((label.key.query, label.key.item) for label in settled if label.key.is_document)
    pairs = _Pairs(by_name(settled), by_name(told), chances(told), documents, rel, sampling or Sampling())
    refuse_no_overlap(pairs.judge, pairs.human, human)
    _refuse_one_answer(pairs, judge)
    overall = _rates("all pairs", "", pairs)
    read = None if gold is None else read_gold(gold)
    measured = [] if read is None else _measured(runs, read, settled, pairs, k, doc_of)
    needed, next_ = _plan(pairs, width)
    return Calibration(
        karat=__version__,
        judge=judge,
        human=human,
        judge_hash=labels_hash(pairs.judge),
        level=pairs.sampling.level,
        seed=pairs.sampling.seed,
        rel=rel,
        method=BY_WEIGHTS if pairs.weighted else BY_STRATA,
        judge_labels=len(pairs.judge),
        human_labels=len(pairs.human),
        shared=overall.labelled,
        strata=judge_strata(pairs.judge, pairs.human, rel),
        overall=overall,
        segments=[] if read is None else [row for name in segments for row in _by_segment(read, name, pairs)],
        systems=_by_system(measured, pooled, pairs, k),
        metrics=[row for result in measured for row in _metrics(result)],
        width=width,
        needed=needed,
        next=next_,
        notes=_notes(labels, people, pairs, overall),
    )


def _refuse_one_answer(pairs: _Pairs, file: str) -> None:
    said = relevance(np.array(list(pairs.judge.values())), pairs.rel)
    if said.all() or not said.any():
        raise InputError(
            f"the judge calls every pair {'relevant' if said.all() else 'irrelevant'}: nothing can be learnt from that",
            code="one-sided-judge",
            file=file,
            hint="look at its labels, then try another prompt or model; the labels of people alone say as much",
        )


def _rates(of: str, value: str, pairs: _Pairs) -> JudgeRates:
    counted = judge_strata(pairs.judge, pairs.human, pairs.rel)
    strata, _, _ = as_strata(counted, pairs.rel)
    found = rates(strata, pairs.sampling)
    shared = pairs.shared
    labelled, relevant = int(strata.labelled.sum()), int(strata.relevant.sum())
    return JudgeRates(
        of=of,
        value=value,
        pairs=len(pairs.judge),
        labelled=labelled,
        relevant=relevant,
        sensitivity=_rate(found.sensitivity),
        specificity=_rate(found.specificity),
        kappa=_rate(found.kappa),
        said=float(strata.pairs[strata.positive].sum() / strata.pairs.sum()),
        corrected=_rate(_by_weights(pairs, shared) if pairs.weighted and len(shared) > 1 else _by_strata(pairs)),
        by_people=None if pairs.weighted else _by_people(relevant, labelled, pairs.sampling),
        few=labelled < FEW,
    )


def _rate(found: CalibratedValue) -> Rate:
    return Rate(*(None if (given := number(value)) is None else round(given, 6) for value in found))


def _by_people(relevant: int, labelled: int, sampling: Sampling) -> Rate:
    """Jeffreys' interval, as if they were a plain sample."""
    if not labelled:
        return Rate(None)
    low, high = (beta_quantile(at, relevant + 0.5, labelled - relevant + 0.5) for at in sampling.tails)
    return _rate(
        CalibratedValue(relevant / labelled, 0.0 if not relevant else low, 1.0 if relevant == labelled else high)
    )


def _by_strata(pairs: _Pairs) -> CalibratedValue:
    known, open_, clusters = _units(pairs)
    strata, _, _ = as_strata(judge_strata(pairs.judge, pairs.human, pairs.rel), pairs.rel)
    return post_stratified(known, open_, strata, pairs.sampling, clusters)


def _units(pairs: _Pairs) -> tuple[Floats, Floats, Ints]:
    """What is known of each pair, which stratum it is in where nothing is, and its query: pairs of one are alike."""
    strata, place, grades = as_strata(judge_strata(pairs.judge, pairs.human, pairs.rel), pairs.rel)
    said = np.array([pairs.human.get(pair, np.nan) for pair in pairs.judge], np.float64)
    people: Bools = ~np.isnan(said)
    known = (people & relevance(np.nan_to_num(said), pairs.rel)).astype(np.float64)
    open_ = np.zeros((len(said), len(strata.pairs)))
    at = place[np.searchsorted(grades, np.array(list(pairs.judge.values())))]
    open_[np.flatnonzero(~people), at[~people]] = 1.0
    _, clusters = np.unique([query for query, _ in pairs.judge], return_inverse=True)
    return known, open_, clusters


def _by_weights(pairs: _Pairs, shared: list[Named]) -> CalibratedValue:
    def says(grades: dict[Named, float], of: Iterable[Named]) -> Floats:
        return relevance(np.array([grades[pair] for pair in of]), pairs.rel).astype(np.float64)

    probability = np.array([pairs.probability.get(pair, 1.0) for pair in shared])
    return prediction_powered(
        says(pairs.judge, pairs.judge),
        says(pairs.judge, shared),
        says(pairs.human, shared),
        probability,
        pairs.sampling,
    )


def _by_segment(gold: Gold, name: str, pairs: _Pairs) -> list[JudgeRates]:
    labels, title = segment_labels(gold, name), segment_title(gold, name)
    groups: dict[str, list[Named]] = {}
    for query, item in pairs.judge:
        if query in gold.index:
            groups.setdefault(labels[gold.index[query]], []).append((query, item))
    return [_rates(title, value, pairs.select(of)) for value, of in sorted(groups.items())]


def _by_system(measured: list[Result], pool: list[PoolEntry], pairs: _Pairs, k: int) -> list[JudgeRates]:
    groups: dict[str, list[Named]] = {}
    for result in measured:
        lists = {} if result.lists is None else result.lists.first(dict.fromkeys(result.queries, k))
        found = [(query, hit.id) for query, hits in lists.items() for hit in hits]
        groups[result.system or result.run] = found
    for entry in pool if not measured else ():
        for system in entry.origin.ranks if entry.origin else ():
            groups.setdefault(system, []).append((entry.key.query, entry.key.item))
    chosen = {system: pairs.select(of) for system, of in groups.items()}
    return [_rates("system", system, of) for system, of in chosen.items() if of.judge]


def _measured(
    runs: Sequence[Any], gold: Gold, settled: list[Label], pairs: _Pairs, k: int, doc_of: str
) -> list[Result]:
    labelling = Labelling(
        judge=pairs.judge,
        human=pairs.human,
        probability=pairs.probability,
        with_judge=partial(with_labels, labels=settled, doc_of=doc_of),
    )
    level = "" if pairs.rel is None else f"(rel={pairs.rel:g})"
    return [
        result
        for run in runs
        for result in evaluate_all(
            run,
            gold,
            [f"precision{level}@{k}", f"rbp{level}"],
            k=k,
            labelling=labelling,
            sampling=pairs.sampling,
            doc_of=doc_of,
            consumers=[BoundsAnalysis().need, lambda setup: Need(lists=k)],
        ).values()
    ]


def _metrics(result: Result) -> list[CorrectedMetric]:
    analysis = BoundsAnalysis()
    found = analysis.find(result.measure(analysis.need(result.setup).metrics))
    rows: dict[tuple[str, Kind], Any] = {(row.metric, row.kind): row for row in found.rows}
    return [
        CorrectedMetric(
            system=result.system or result.run,
            metric=row.metric,
            gold_only=rows[row.metric, "gold only"].value,
            gold_plus_judge=rows[row.metric, "gold plus judge"].value,
            corrected=Rate(row.value, row.low, row.high),
            method=row.method or "",
        )
        for row in found.rows
        if row.kind == "judge-calibrated estimate" and row.metric in result.values
    ]


def _plan(pairs: _Pairs, width: float) -> tuple[int | None, list[NextPair]]:
    """How many labels in all, and which pairs next: those of the strata that help most, in random order."""
    counted = judge_strata(pairs.judge, pairs.human, pairs.rel)
    strata, place, grades = as_strata(counted, pairs.rel)
    known, open_, clusters = _units(pairs)
    error = standard_error(known + open_ @ strata.expected, clusters)
    wanted = labels_for_width(strata, width, error, pairs.sampling.level)
    if wanted is None:
        return None, []
    left: list[list[Named]] = [[] for _ in strata.pairs]
    for pair, grade in sorted(pairs.judge.items()):
        if pair not in pairs.human:
            left[int(place[np.searchsorted(grades, grade)])].append(pair)
    rng = np.random.default_rng([pairs.sampling.seed, 3])
    picked = [
        of[i]
        for of, more in zip(left, (wanted - strata.labelled).tolist(), strict=True)
        for i in rng.permutation(len(of))[:more].tolist()
    ]
    order = rng.permutation(len(picked))[:_NEXT].tolist()
    chosen = [picked[i] for i in order]
    return int(wanted.sum()), [
        NextPair(pair[0], pair[1], pairs.judge[pair], pair in pairs.documents) for pair in chosen
    ]


def _notes(labels: Labels, people: Labels, pairs: _Pairs, overall: JudgeRates) -> list[str]:
    notes = []
    if overall.kappa.value is None:
        said = relevance(np.array([pairs.judge[pair] for pair in pairs.shared]), pairs.rel)
        which = "irrelevant" if said.all() else "relevant"
        notes.append(f"People gave no label to pairs that the judge calls {which}: nothing can be said of the whole.")
    missing = len(labels) - len(labels.graded())
    if missing:
        notes.append(f"Pairs on which the judge failed, left out: {missing:,}.")
    conflicts = sum((label.reason or "").startswith(CONFLICT) for label in settle(people))
    if conflicts:
        notes.append(f"Pairs on which people disagree, left out: {conflicts:,}. `karat agree` lists and settles them.")
    alone = len(pairs.human) - len(pairs.shared)
    if alone:
        notes.append(f"Pairs that people labelled and the judge did not, left out: {alone:,}.")
    sensitivity, specificity = overall.sensitivity.value, overall.specificity.value
    if overall.kappa.value is not None and (sensitivity is None or specificity is None):
        notes.append(
            "People called all of the shared pairs relevant, or none: one of the judge's errors cannot be seen."
        )
    if sensitivity is not None and specificity is not None and sensitivity + specificity - 1 < LEAST_YOUDEN:
        notes.append(
            f"Sensitivity + specificity − 1 is {sensitivity + specificity - 1:.2f}, under {LEAST_YOUDEN}: this judge "
            "hardly tells relevant from irrelevant. It will not be used to correct other sets."
        )
    return notes


def pool_of(found: Calibration, pool: str | None) -> list[PoolEntry]:
    """The pairs to label next, with what the pool that they come from says of them."""
    known = {} if pool is None else {(entry.key.query, entry.key.item): entry for entry in read_pool(pool)}
    return [
        known.get((pair.query_id, pair.item)) or PoolEntry(query_id=pair.query_id, **_item(pair)) for pair in found.next
    ]


def _item(pair: NextPair) -> dict[str, Any]:
    return {"doc_id" if pair.is_document else "chunk_id": pair.item}
