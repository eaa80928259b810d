"""Calibrate a judge with human labels: how often it is right, corrected estimates, and what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from os import PathLike
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat import __version__
from karat.data.attributes import segment_members, segment_title
from karat.data.gold import Gold
from karat.data.hits import ScoreMeaning
from karat.errors import ConfigError, InputError
from karat.formats.read import read_gold
from karat.labels.agreement import ONE_QUERY, settle
from karat.labels.calibration_file import (
    Calibration,
    CorrectedMetric,
    JudgeRates,
    NextPair,
    PersonsLabel,
    Rate,
    labels_hash,
)
from karat.labels.files import (
    CONFLICT,
    HIGHEST,
    Kind,
    Label,
    Labels,
    LabelsGiven,
    PoolEntry,
    as_labels,
    read_pool,
    refuse_unknown,
)
from karat.labels.labelled_gold import (
    blind_labels,
    by_name,
    chances,
    labels_of,
    refuse_no_overlap,
    settled_labels,
    with_labels,
)
from karat.results.analyses.bounds import BoundsAnalysis
from karat.results.analyses.bounds import Kind as Reading
from karat.results.corrected import BY_STRATA, BY_WEIGHTS, judge_strata, judged_pairs
from karat.results.doubts import refuse_doubtful_order
from karat.results.evaluate import evaluate_all
from karat.results.result import Result
from karat.results.summary import FEW, number
from karat.scoring.extra_labels import JudgedStratum, Labelling, Named
from karat.scoring.judged import relevance
from karat.scoring.views import Need
from karat.statistics.calibration import (
    LEAST_YOUDEN,
    CalibratedValue,
    JudgedPairs,
    Strata,
    expected_width,
    labels_for_width,
    no_strata,
    post_stratified,
    rates,
    standard_error,
)
from karat.statistics.sampling import Sampling

WIDTH = 0.1
_JUDGE: Kind = "judge"
_HUMAN: Kind = "human"
_NEXT = 1000  # most pairs that are listed


class _Pairs(msgspec.Struct, frozen=True, dict=True):
    """Pairs that the judge labelled, with human labels for some of them."""

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

    @cached_property
    def counted(self) -> list[JudgedStratum]:
        return judge_strata(self.judge, self.human, self.rel)

    @cached_property
    def judged(self) -> JudgedPairs:
        return judged_pairs(self.judge, self.human, self.probability if self.weighted else None, self.rel)

    @cached_property
    def strata(self) -> Strata:
        return self.judged.strata()


def calibrate(
    judge: LabelsGiven,
    human: LabelsGiven,
    *,
    gold: Any = None,
    runs: Sequence[Any] = (),
    segments: Sequence[str] = (),
    pool: str | PathLike[str] | Iterable[PoolEntry] | None = None,
    k: int = 5,
    rel: float | None = None,
    width: float = WIDTH,
    sampling: Sampling | None = None,
    doc_of: str = "#",
    highest: float = HIGHEST,
    scores: ScoreMeaning | None = None,
) -> Calibration:
    """Compare judge labels with human labels for some of the same pairs.

    Both are files, what `judge_pool` returned, or lists of labels: `{query_id, chunk_id, grade, annotator}`.
    `gold` with `segments`: also by segments of the queries; `runs` (with `gold`) or `pool`: also by system. Runs get
    precision@k and RBP as if humans had labelled all of their hits. `rel`: lowest grade that counts as relevant
    (default: any above 0); `width`: target width of the interval of the corrected share; `scores`: what the scores of
    runs mean.
    """
    if not 0 < width < 1:
        raise ConfigError("the target width must be between 0 and 1", got=width, expected="such as 0.1")
    if (runs or segments) and gold is None:
        raise ConfigError("runs and segments need a gold set", code="no-gold", hint="pass it with --gold")
    labels, people = (
        labels_of(kind, x, highest=highest) if isinstance(x, (str, PathLike)) else as_labels(x, name, highest)
        for x, kind, name in ((judge, _JUDGE, "the judge's labels"), (human, _HUMAN, "people's labels"))
    )
    judge, human = (
        str(x) if isinstance(x, (str, PathLike)) else read.files for x, read in ((judge, labels), (human, people))
    )
    pooled = read_pool(pool) if isinstance(pool, (str, PathLike)) else list(pool or ())
    for given in (labels, people) if pool is not None else ():
        refuse_unknown(given, pooled)
    seen, people = len(people), blind_labels(people)
    told = settled_labels(people, human)
    settled = settled_labels(labels, judge)
    documents = frozenset((label.key.query, label.key.item) for label in settled if label.key.is_document)
    pairs = _Pairs(by_name(settled), by_name(told), chances(told), documents, rel, sampling or Sampling())
    refuse_no_overlap(pairs.judge, pairs.human, human)
    _refuse_one_answer(pairs, judge)
    overall = _rates("all pairs", "", pairs)
    read = None if gold is None else read_gold(gold)
    measured = [] if read is None else _measured(runs, read, settled, pairs, k, doc_of, scores)
    needed, next_ = _plan(pairs, width, overall)
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
        queries=len({query for query, _ in pairs.judge}),
        strata=pairs.counted,
        overall=overall,
        segments=[] if read is None else [row for name in segments for row in _by_segment(read, name, pairs)],
        systems=_by_system(measured, pooled, pairs, k),
        metrics=[row for result in measured for row in _metrics(result)],
        width=width,
        needed=needed,
        next=next_,
        notes=[*_saw(seen - len(people)), *_notes(labels, people, pairs, overall)],
        labels=[PersonsLabel(*pair, pairs.human[pair], pairs.probability.get(pair)) for pair in pairs.shared],
    )


def _refuse_one_answer(pairs: _Pairs, file: str) -> None:
    said = relevance(np.array(list(pairs.judge.values())), pairs.rel)
    if said.all() or not said.any():
        raise InputError(
            f"the judge calls every pair {'relevant' if said.all() else 'irrelevant'}, so its labels are useless",
            code="one-sided-judge",
            file=file,
            hint="check its labels, then try another prompt or model, or use the human labels alone",
        )


def _rates(of: str, value: str, pairs: _Pairs) -> JudgeRates:
    strata, people = pairs.strata, pairs.judged.people
    found = rates(strata, pairs.sampling)
    units = strata.size.sum(axis=1)
    said = np.array([stratum.pairs for stratum in pairs.counted]) @ pairs.judged.positive
    return JudgeRates(
        of=of,
        value=value,
        pairs=len(people),
        labelled=(labelled := int((~np.isnan(people)).sum())),
        relevant=int((people > 0).sum()),
        sensitivity=_rate(found.sensitivity),
        specificity=_rate(found.specificity),
        kappa=_rate(found.kappa),
        said=float(said / len(people)),
        corrected=_rate(post_stratified(np.zeros(len(units)), units, strata, pairs.sampling)),
        by_people=None if pairs.weighted else _rate(_by_people(strata, pairs.sampling)),
        few=labelled < FEW,
        inverted=found.kappa.below_zero,
    )


def _rate(found: CalibratedValue) -> Rate:
    return Rate(*(None if (given := number(value)) is None else round(given, 6) for value in found))


def _by_people(strata: Strata, sampling: Sampling) -> CalibratedValue:
    """The share from human labels alone, as if they were a simple sample of the pairs of their queries."""
    relevant, labelled = strata.relevant.sum(axis=1), strata.labelled.sum(axis=1)
    at = np.flatnonzero(labelled)
    return post_stratified(relevant[at], labelled[at], no_strata(len(at)), sampling)


def _by_segment(gold: Gold, name: str, pairs: _Pairs) -> list[JudgeRates]:
    title, labels = segment_title(gold, name), dict[str, list[str]]()
    members = segment_members(gold, name)
    for row, label in zip(members.rows.tolist(), members.labels, strict=True):
        labels.setdefault(gold.queries[row], []).append(label)
    groups: dict[str, list[Named]] = {}
    for query, item in pairs.judge:
        for label in labels.get(query, ()):
            groups.setdefault(label, []).append((query, item))
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
    runs: Sequence[Any],
    gold: Gold,
    settled: list[Label],
    pairs: _Pairs,
    k: int,
    doc_of: str,
    scores: ScoreMeaning | None,
) -> list[Result]:
    labelling = Labelling(
        judge=pairs.judge,
        human=pairs.human,
        probability=pairs.probability,
        with_judge=partial(with_labels, labels=settled, doc_of=doc_of),
    )
    level = "" if pairs.rel is None else f"(rel={pairs.rel:g})"
    found = [
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
            scores=scores,
            consumers=[BoundsAnalysis().need, lambda setup: Need(lists=k)],
        ).values()
    ]
    for result in found:
        refuse_doubtful_order(result.doubts, result.run)
    return found


def _metrics(result: Result) -> list[CorrectedMetric]:
    analysis = BoundsAnalysis()
    found = analysis.find(result.measure(analysis.need(result.setup).metrics))
    rows: dict[tuple[str, Reading], Any] = {(row.metric, row.kind): row for row in found.rows}
    refused = {row.metric: row for row in found.refused}
    corrected: dict[str, Any] = {row.metric: row for row in found.rows if row.kind == "judge-calibrated estimate"}
    return [
        CorrectedMetric(
            system=result.system or result.run,
            metric=name,
            gold_only=rows[name, "gold only"].value,
            gold_plus_judge=rows[name, "gold plus judge"].value,
            corrected=Rate(None) if row is None else Rate(row.value, row.low, row.high),
            method="" if row is None else row.method or "",
            refused=refused.get(name),
        )
        for name in result.values
        if (row := corrected.get(name)) is not None or name in refused
    ]


def _plan(pairs: _Pairs, width: float, overall: JudgeRates) -> tuple[int | None, list[NextPair]]:
    """How many labels in total, and which pairs next: those of the strata that help most, in random order.

    The measured interval decides whether there are enough. It may be wider or narrower than the plan expects, so the
    plan aims at the wanted width in the same proportion.
    """
    low, high = overall.corrected.low, overall.corrected.high
    measured = None if low is None or high is None else high - low
    if measured is not None and measured <= width:
        return overall.labelled, []
    strata, judged = pairs.strata, pairs.judged
    at = strata.place[judged.grade]
    level = pairs.sampling.level
    error = standard_error(np.where(np.isnan(judged.people), strata.expected[at], judged.people), judged.unit, level)
    aim = width if measured is None else width * expected_width(strata, error, level) / measured
    wanted = labels_for_width(strata, aim, error, level)
    if wanted is None or wanted.sum() <= strata.labels.sum():  # all pairs have labels
        return None, []
    left: list[list[Named]] = [[] for _ in strata.pairs]
    for pair, stratum in sorted(zip(pairs.judge, at.tolist(), strict=True)):
        if pair not in pairs.human:
            left[stratum].append(pair)
    rng = np.random.default_rng([pairs.sampling.seed, 3])
    picked = [
        of[i]
        for of, more in zip(left, (wanted - strata.labels).tolist(), strict=True)
        for i in rng.permutation(len(of))[:more].tolist()
    ]
    chosen = [picked[i] for i in rng.permutation(len(picked))[:_NEXT].tolist()]
    return int(wanted.sum()), [NextPair(p[0], p[1], pairs.judge[p], p in pairs.documents) for p in chosen]


def _saw(labels: int) -> list[str]:
    return [f"Labels given with the ranking in sight, left out: {labels:,}."] if labels else []


def _notes(labels: Labels, people: Labels, pairs: _Pairs, overall: JudgeRates) -> list[str]:
    notes = []
    if overall.kappa.value is None:
        said = relevance(np.array([pairs.judge[pair] for pair in pairs.shared]), pairs.rel)
        which = "irrelevant" if said.all() else "relevant"
        notes.append(f"No pair that the judge calls {which} has a human label, so there is no overall estimate.")
    missing = len(labels) - len(labels.graded())
    if missing:
        notes.append(f"Pairs on which the judge failed, left out: {missing:,}.")
    conflicts = sum((label.reason or "").startswith(CONFLICT) for label in settle(people))
    if conflicts:
        notes.append(
            f"Pairs on which humans disagree, left out: {conflicts:,}. `karat labels agree` lists and settles them."
        )
    alone = len(pairs.human) - len(pairs.shared)
    if alone:
        notes.append(f"Pairs with a human label but no judge label, left out: {alone:,}.")
    if overall.kappa.value is not None and len({query for query, _ in pairs.shared}) == 1:
        notes.append(ONE_QUERY)
    sensitivity, specificity = overall.sensitivity.value, overall.specificity.value
    if overall.kappa.value is not None and (sensitivity is None or specificity is None):
        notes.append(
            "The human labels of the shared pairs are all relevant or all irrelevant, so one of the judge's error "
            "rates is unknown."
        )
    if overall.inverted:
        notes.append(
            "This judge is inverted: it calls relevant what humans call irrelevant. Check its scale and its prompt. Do "
            "not use its labels as they are."
        )
    elif sensitivity is not None and specificity is not None and sensitivity + specificity - 1 < LEAST_YOUDEN:
        notes.append(
            f"Sensitivity + specificity − 1 is {sensitivity + specificity - 1:.2f}, below {LEAST_YOUDEN}: this judge "
            "hardly separates relevant from irrelevant. It will not be used to correct other sets."
        )
    return notes


def pool_of(found: Calibration, pool: str | None) -> list[PoolEntry]:
    """The pairs to label next, with their texts and origin if the pool is given."""
    known = {} if pool is None else {(entry.key.query, entry.key.item): entry for entry in read_pool(pool)}
    for pair in found.next:
        chunk, document = (None, pair.item) if pair.is_document else (pair.item, None)
        new = PoolEntry(query_id=pair.query_id, chunk_id=chunk, doc_id=document)
        known.setdefault((pair.query_id, pair.item), new)
    return [known[pair.query_id, pair.item] for pair in found.next]
