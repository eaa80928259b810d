"""`compare`: compare runs with a baseline on the queries that both have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

import msgspec
import numpy as np
from msgspec.structs import replace

from karat import __version__
from karat.data.attributes import segment_titles
from karat.data.gold import Dataset
from karat.data.ids import Ints
from karat.data.saved import SavedObject
from karat.errors import ConfigError, UnknownName, shorten
from karat.formats.read import read_gold
from karat.options.option import takes
from karat.results.analyses.base import Consumer, Lacking, Setup
from karat.results.analyses.bounds import BY_JUDGE
from karat.results.comparison.open_labels import (
    BoundedDifference,
    JudgedAt,
    bounded_differences,
    differences_by_judge,
    judged_at,
)
from karat.results.comparison.overlap import (
    ListOverlap,
    list_overlap,
    lowest,
    overlap_depth,
    split_overlap,
)
from karat.results.comparison.rankings import other_lists
from karat.results.comparison.sides import as_results, is_several, refuse_different, shared_metrics
from karat.results.comparison.stage_times import stage_differences
from karat.results.comparison.unlabelled import NOTE, unlabelled
from karat.results.diagnosis.changes import find_changes
from karat.results.diagnosis.finding import Finding
from karat.results.differences import SAME, Difference, Paired
from karat.results.doubts import judgeable
from karat.results.queries.lists import ListedHit
from karat.results.result import Result
from karat.results.results import names_of
from karat.results.summary import FEW
from karat.scoring.list_hashes import DEPTHS
from karat.scoring.metrics.against_run import AgainstRun
from karat.scoring.metrics.base import Metric, Relevance
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.metrics.lists import JudgedShare
from karat.scoring.options import Options, named_sampling
from karat.scoring.peers import metrics_like
from karat.scoring.top_lists import TOP
from karat.scoring.views import Need
from karat.statistics.sampling import Sampling
from karat.statistics.significance import benjamini_hochberg, holm

if TYPE_CHECKING:
    from karat.options.keywords import EvaluateKeywords

_HEADLINE = ("recall@5", "ndcg@5", "mrr")  # decides which queries changed most; else the first relevance metric


class Moved(msgspec.Struct, frozen=True):
    """A hit that only one of the two lists has."""

    id: str
    rank: int
    grade: float | None  # null: not judged


class Change(msgspec.Struct, frozen=True):
    """One query whose score differs."""

    query_id: str
    query: str | None
    metric: str
    baseline: float
    candidate: float
    delta: float
    k: int  # how deep the lists were compared
    fell_out: list[Moved]  # of the baseline's list, relevant ones first
    came_in: list[Moved]  # into the candidate's


class SegmentDifferences(msgspec.Struct, frozen=True):
    """One group of queries, with every metric's difference. `p_bh` is adjusted over all groups of all segments."""

    segment: str
    value: str
    queries: int
    few: bool
    differences: list[Difference]


class UnknownMetric(UnknownName, KeyError):
    """A metric that was not compared."""


class CandidateComparison(msgspec.Struct, frozen=True):
    """One candidate against the baseline. `pair["recall@5"]` is the difference in one metric."""

    candidate: str
    queries: int
    identical: bool  # the same score on every query and metric; latency and cost alone do not count
    differences: list[Difference]
    segments: list[SegmentDifferences]
    changes: list[Change]
    notes: list[str]  # caveats that reports must show
    findings: list[Finding] = []  # what the change did, and what to try
    judged: JudgedAt | None = None  # how much of both lists is judged
    bounds: list[BoundedDifference] = []  # how labels of unjudged hits could change the differences, if requested
    by_judge: list[Difference] = []  # with judge labels where the gold has none, if there are any
    labels_from: Literal["judge", "clicks"] = "judge"  # of these labels
    other_lists: int | None = None  # queries whose first 20 hits differ; null if a side has no list hashes
    overlap: ListOverlap | None = None  # how alike the lists are; null if a side keeps no lists
    invalid: list[str] = []  # metrics that are meaningless: ids do not match, scores may be distances, a run was down

    def __getitem__(self, metric: str | Metric) -> Difference:
        name = str(parse_metric(metric))
        found = {difference.metric: difference for difference in self.differences}
        if name in self.invalid:
            reasons = (note.removeprefix("not compared: ").partition(". ") for note in self.notes)
            why = next((why for names, _, why in reasons if name in names.split(", ")), None)
            raise ConfigError(f"{name} was not compared", code="not-compared", hint=why)
        if name not in found:
            raise UnknownMetric("metric of this comparison", name, found)
        return found[name]


class Comparison(SavedObject, frozen=True, kw_only=True):
    """What `karat compare` saves. `comparison["recall@5"]` is the difference in one metric: `.delta`, `.low`, `.high`,
    `.p`, `.reading`. With several candidates, `comparison.pairs` has one entry per candidate."""

    schema: Literal["karat/comparison/1"] = "karat/comparison/1"
    baseline: str
    dataset: Dataset
    statistics: dict[str, Any]
    units: dict[str, str]  # of each metric's difference: pp (of a share, to be written × 100), ms, or empty
    lower_is_better: list[str]
    pairs: list[CandidateComparison]

    def __getitem__(self, metric: str | Metric) -> Difference:
        if len(self.pairs) > 1:
            names = ", ".join(pair.candidate for pair in self.pairs)
            what = f"the comparison has {len(self.pairs)} candidates: {names}"
            raise ConfigError(what, code="several-systems", hint=f"comparison.pairs[0][{str(metric)!r}] is the first")
        return self.pairs[0][metric]


_T = TypeVar("_T")
_P = TypeVar("_P", SegmentDifferences, CandidateComparison)


def compare_need(*, bounds: bool = False, overlap: Sequence[AgainstRun] = ()) -> Consumer:
    """What `compare_results` needs: lists of the queries that changed most, list hashes, and data for judge labels and
    bounds. `overlap`: metrics that compare the lists."""

    def declare(setup: Setup) -> Need:
        headline = headline_metric(setup.metrics)
        depth = 0 if headline is None else headline.k or max(setup.gold.largest_k, setup.rules.k)
        judged = [metric for metric in setup.metrics if isinstance(metric, (*BY_JUDGE, JudgedShare))]
        views = {setup.own.but(labels="judge"): judged} if setup.labelling.judge else {}
        tops = max(TOP, overlap_depth(overlap, setup.rules.k))
        return Need(lists=depth, views=views, open_hits=bounds, hashes=True, tops=tops)

    return declare


@takes(Options)
def compare(
    baseline: Any,
    candidate: Any,
    gold: Any = None,
    metrics: Iterable[str | Metric] | None = None,
    *,
    others: Sequence[Any] = (),
    force: bool = False,
    changes: int = 5,
    bounds: bool = False,
    **options: Unpack[EvaluateKeywords],
) -> Comparison:
    """Compare candidates with a baseline, query by query.

    Each side is a run (as in `evaluate`, which has the same options), a result, or a saved result; runs need `gold`.
    `candidate` may be a list of them. `others`: more candidates. `force`: compare even if data or definitions
    differ. `changes`: how many of the queries that lost and gained most to list. `bounds`: also compute what labels
    of unjudged hits could change.
    """
    segments = options.pop("segments", ())
    wanted = None if metrics is None else metrics_like(options.get("like"), metrics, (), options.get("k"))
    asked: EvaluateKeywords = {"analyses": False, **options}
    overlap, wanted = split_overlap(wanted, options.get("reference"))
    given = [one for side in (baseline, candidate, *others) for one in (side if is_several(side) else [side])]
    read = None if gold is None else read_gold(gold, **Options(**options).of_gold)
    if read is None and (found := unlabelled(given, wanted, options)) is not None:
        given, read = found
    needs = [compare_need(bounds=bounds, overlap=overlap)]
    sides = [one for side in given for one in as_results(side, read, wanted, asked, needs)]
    sampling = named_sampling(options, sides[0].sampling)
    return compare_results(
        sides, segments=segments, sampling=sampling, force=force, changes=changes, bounds=bounds, overlap=overlap
    )


def compare_results(
    sides: Sequence[Result],
    *,
    segments: Iterable[str] = (),
    sampling: Sampling | None = None,
    force: bool = False,
    changes: int = 5,
    bounds: bool = False,
    test: bool = True,
    overlap: Sequence[AgainstRun] | None = None,
) -> Comparison:
    """Compare results with the first one. `test`: compute p-values, the most expensive part."""
    if len(sides) < 2:
        raise ConfigError(
            "a comparison needs two runs", code="one-run", hint="add another run, or use a file with two systems"
        )
    first = sides[0]
    sampling = sampling or first.sampling
    names = names_of(sides)
    segmented_by = segment_titles(first.gold, segments)
    overlap = split_overlap(None)[0] if overlap is None else overlap
    pairs = [
        _pair(first, other, name, segmented_by, sampling, force, changes, bounds, 10 if test else 0, overlap)
        for other, name in zip(sides[1:], names[1:], strict=True)
    ]
    return Comparison(
        karat=__version__,
        baseline=names[0],
        dataset=first.gold.dataset,
        statistics=sampling.saved(first.cluster),
        units={str(m): m.told_in(first.rules) for m in first.metrics},
        lower_is_better=[str(m) for m in first.metrics if m.direction == "lower"],
        pairs=_adjusted(pairs, decide=True),
    )


def _pair(
    first: Result,
    other: Result,
    name: str,
    segmented_by: tuple[str, ...],
    sampling: Sampling,
    force: bool,
    shown: int,
    bounds: bool,
    permutations: int,  # per resample; a tenth of them in a segment
    overlap: Sequence[AgainstRun],
) -> CandidateComparison:
    notes = refuse_different(first, other, force)
    paired, at, of = _paired(first, other, notes)
    shared = paired.baseline.metrics
    queries = [first.queries[i] for i in at.tolist()]
    kept, left_out = judgeable(shared, first, other, queries)
    notes[:0] = [note if not force else note.replace("not compared", "compared with --force", 1) for note in left_out]
    paired = paired if force else paired.of(kept)
    metrics = paired.baseline.metrics
    differences = paired.differences(sampling, permutations * sampling.resamples)
    fewer = permutations * sampling.resamples // 10
    groups = [group for by in segmented_by for group in _segments(first, paired, at, by, sampling, fewer)]
    notes += _disagreements(differences, groups, metrics)
    headline = headline_metric(metrics)
    labelled = first.gold.made_of == "labels"
    judged = None if headline is None or not labelled else judged_at(first, other, at, of, headline.k or first.rules.k)
    invalid = [] if force else [metric for metric in shared if metric not in kept]
    differ = other_lists(first, other, at, of, DEPTHS[-1])
    notes[:0] = [NOTE] if first.gold.made_of == "queries" else []
    lists = list_overlap(first, other, paired, at, of, overlap, segmented_by, sampling, notes)
    return CandidateComparison(
        candidate=name,
        queries=len(queries),
        identical=not invalid
        and any(d.n and metric.rests_on for d, metric in zip(differences, metrics, strict=True))
        and all(d.wins == d.losses == 0 for d in differences),
        differences=differences,
        segments=_adjusted(groups, decide=False),
        changes=[]
        if headline is None or not shown
        else biggest_changes(paired, headline, queries, first, other, shown),
        notes=notes,
        findings=find_changes(differences, lambda: stage_differences(first, other, at, of, sampling)),
        judged=judged,
        bounds=_or_note(lambda: bounded_differences(first, other, metrics, first.rows[at]), notes) if bounds else [],
        by_judge=_or_note(lambda: differences_by_judge(first, other, metrics, at, of, sampling), notes)
        if first.labelling.judge or other.labelling.judge
        else [],
        labels_from="clicks" if "clicks" in (first.labelling.source, other.labelling.source) else "judge",
        other_lists=None if differ is None else int(differ.sum()),
        overlap=lists,
        invalid=list(map(str, invalid)),
    )


def _or_note(find: Callable[[], list[_T]], notes: list[str]) -> list[_T]:
    """Return what `find` finds. If that is impossible, the reason becomes a note."""
    try:
        return find()
    except Lacking as error:
        notes.append(str(error))
        return []


def paired_sides(first: Result, other: Result, force: bool = False) -> Paired:
    """Two results, query by query."""
    return _paired(first, other, refuse_different(first, other, force))[0]


def _paired(first: Result, other: Result, notes: list[str]) -> tuple[Paired, Ints, Ints]:
    metrics = shared_metrics(first, other, notes)
    at, of = _shared_queries(first, other, notes)
    sides = replace(first.columns, metrics=metrics).select(at), replace(other.columns, metrics=metrics).select(of)
    return Paired(*sides), at, of


def _shared_queries(first: Result, other: Result, notes: list[str]) -> tuple[Ints, Ints]:
    """Places of the queries that both have, in the order of the first. The other may have failed on them."""
    if not first.missing and not other.missing and first.queries == other.queries:
        same = np.arange(len(first.queries))
        return same, same
    places = {query: i for i, query in enumerate(other.queries)}
    shared = [(i, places[q]) for i, q in enumerate(first.queries) if q in places and q not in first.missing]
    if all(first.queries[i] in other.missing for i, _ in shared):
        examples = [next((q for q in side.queries if q not in side.missing), None) for side in (first, other)]
        one, another = (shorten(str(example), 40) for example in examples)
        hint = f"one has {one!r}, the other {another!r}; for two periods with their own queries: karat compare --drift"
        raise ConfigError("the runs have no queries in common", code="no-common-query", hint=hint)
    lacking = sum(query in places for query in first.missing)  # reported elsewhere
    left, right = (len(side.queries) - len(shared) - lacking for side in (first, other))
    if left or right:
        failed = sum(first.queries[i] in other.missing for i, _ in shared)
        which = f"of the baseline ({failed:,} of them failed in the candidate)" if failed else "that both have"
        notes.append(
            f"compared on the {len(shared):,} queries {which}; "
            f"only in the baseline: {left:,}, only in the candidate: {right:,}."
        )
    at, of = (np.array(column, np.int64) for column in zip(*shared, strict=True))
    return at, of


def _segments(
    first: Result, paired: Paired, at: Ints, by: str, sampling: Sampling, permutations: int
) -> list[SegmentDifferences]:
    place = {row: i for i, row in enumerate(at.tolist())}  # of a query of the baseline among the shared ones
    groups = [(value, [place[i] for i in rows.tolist() if i in place]) for value, rows in first.groups(by)]
    found = []
    for value, rows in groups:
        if rows:
            differences = paired.select(np.array(rows)).differences(sampling, permutations)
            few = len(rows) < FEW or any(d.few and d.n for d in differences)
            found.append(SegmentDifferences(by, value, len(rows), few, differences))
    return found


def headline_metric(metrics: Sequence[Metric]) -> Metric | None:
    """The metric that decides which queries lost or gained."""
    by_name = {str(m): m for m in metrics}
    preferred = (by_name[name] for name in _HEADLINE if name in by_name)
    return next(preferred, next((m for m in metrics if isinstance(m, Relevance)), None))


def _disagreements(overall: list[Difference], groups: list[SegmentDifferences], metrics: list[Metric]) -> list[str]:
    """Notes on segments that move against the mean, which the mean alone would hide.

    Only if mean and segment both move beyond noise: with many metrics and segments, some differ by chance.
    """
    notes = []
    for at, difference in enumerate(overall):
        if not difference.certain or not isinstance(metrics[at], Relevance):
            continue
        for name in dict.fromkeys(group.segment for group in groups):
            parts = [(g.value, g.differences[at]) for g in groups if g.segment == name and not g.differences[at].few]
            against = [value for value, d in parts if d.certain and _moves(d) == -_moves(difference)]
            if against:
                notes.append(_disagreement(difference, name, against, len(parts)))
    return notes


def _moves(difference: Difference) -> int:
    """1: it rises, −1: it falls, 0: neither, apart from rounding."""
    delta = difference.delta or 0.0
    return 0 if abs(delta) <= SAME else 1 if delta > 0 else -1


def _disagreement(overall: Difference, name: str, against: list[str], parts: int) -> str:
    way, other = ("rises", "falls") if _moves(overall) > 0 else ("falls", "rises")
    return (
        f"{overall.metric} {way} overall but {other} in {len(against)} of {parts} segments by {name}, "
        f"both beyond chance: {', '.join(against)}. The overall difference does not apply to them (Simpson's paradox)."
    )


def _adjusted(parts: list[_P], *, decide: bool) -> list[_P]:
    """Add p-values adjusted for the number of comparisons in the table; also Holm's if they are used to decide."""
    p = np.array([d.p for part in parts for d in part.differences if d.p is not None])
    by_holm: list[float | None] = holm(p).tolist() if decide else [None] * len(p)
    adjusted = zip(by_holm, benjamini_hochberg(p).tolist(), strict=True)

    def with_adjusted(difference: Difference) -> Difference:
        if difference.p is None:
            return difference
        p_holm, p_bh = next(adjusted)
        return msgspec.structs.replace(difference, p_holm=p_holm, p_bh=p_bh)

    return [msgspec.structs.replace(one, differences=[with_adjusted(d) for d in one.differences]) for one in parts]


def biggest_changes(
    paired: Paired, metric: Metric, queries: list[str], baseline: Result, candidate: Result, shown: int
) -> list[Change]:
    """The biggest losses, worst first, then the biggest gains, best first."""
    deltas = paired.deltas(metric) * (1 if metric.direction == "higher" else -1)
    moved = np.abs(np.nan_to_num(deltas)) > SAME
    losses = lowest(deltas, np.flatnonzero(moved & (deltas < 0)), queries, shown)
    gains = lowest(-deltas, np.flatnonzero(moved & (deltas > 0)), queries, shown)
    picked = [*losses, *gains]
    gold, before, after = baseline.gold, {}, {}
    depths = {q: metric.k or int(gold.k[gold.index[q]]) or baseline.rules.k for q in (queries[i] for i in picked)}
    # A saved result keeps no hits, and with one list alone every hit would look moved.
    if baseline.lists is not None and candidate.lists is not None:
        before, after = baseline.lists.first(depths), candidate.lists.first(depths)
    return [
        Change(
            query_id=queries[i],
            query=gold.text(gold.index[queries[i]]),
            metric=str(metric),
            baseline=float(paired.baseline.values[str(metric)][i]),
            candidate=float(paired.candidate.values[str(metric)][i]),
            delta=float(paired.deltas(metric)[i]),
            k=depths[queries[i]],
            fell_out=_only_in(before.get(queries[i], []), after.get(queries[i], [])),
            came_in=_only_in(after.get(queries[i], []), before.get(queries[i], [])),
        )
        for i in picked
    ]


def _only_in(these: list[ListedHit], those: list[ListedHit]) -> list[Moved]:
    other = {hit.id for hit in those}
    only = sorted((hit for hit in these if hit.id not in other), key=lambda hit: (-(hit.grade or 0.0), hit.rank))
    return [Moved(hit.id, hit.rank, hit.grade) for hit in only]
