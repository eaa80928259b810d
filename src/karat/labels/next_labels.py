"""Which labels would settle the comparison of two runs, and how many are still needed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Floats, Ints
from karat.errors import ConfigError
from karat.labels.files import HIGHEST
from karat.labels.influence import ChangesInWorlds, FoundPair, changes_in_worlds, check_metric
from karat.results.result import Result
from karat.scoring.metrics.base import Metric
from karat.statistics.settling import PRIOR, OpenLabels, outlook, shares_of

_BANDS = np.array([3, 6, 11])  # ranks at which a new band begins: 1–2, 3–5, 6–10, 11 and below
_WORLDS, _PAIRS = 32, 400_000  # worlds in which effects are measured; fewer if there are many pairs
_KINDS = 3 * (len(_BANDS) + 1)  # found by the first run only, the second only, or both, in each band


class Settling(msgspec.Struct, frozen=True):
    """What the comparison says with all that is unknown, and what labels could make of it."""

    baseline: str
    candidate: str
    metric: str
    queries: int
    delta: float  # by today's labels: unjudged hits count as irrelevant
    expected: float  # with unjudged hits as likely to be relevant as those like them
    low: float  # over queries and missing labels
    high: float
    level: float
    decided: bool  # the interval excludes 0
    open: int  # pairs whose label can change the difference
    chance: float  # probability that labels decide it
    labels: int | None  # the median number of labels if they do; null if they hardly ever do
    few: int | None  # 10 % of these cases need at most this many
    many: int | None  # 90 % of these cases need at most this many
    worlds: int  # simulated


def find_next(
    results: dict[str, Result],
    pairs: Sequence[FoundPair],
    metric: Metric,
    gold: Gold,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[list[FoundPair], Settling]:
    """The pairs without a label in the order in which labels settle the comparison soonest, and the outlook.

    `pairs`: what the first hits of both runs hold, with and without labels.
    """
    if len(results) != 2:
        what = f"a comparison to settle has two systems, not {len(results)}"
        raise ConfigError(what, code="several-systems", hint="give two runs, with one system each")
    check_metric(metric)
    (first, other), names = results.values(), list(results)
    waiting = [pair for pair in pairs if pair.grade is None]
    values, row, clusters = _values(first, other, metric)
    usual = gold.grades[gold.grades > 0]
    grade = float(np.median(usual)) if len(usual) else float(HIGHEST)
    waiting = [pair for pair in waiting if pair.query in row]
    kind, (share, weight) = np.array([_kind(pair, names) for pair in waiting], np.int64), _shares(pairs, names)
    worlds = int(np.clip(_PAIRS // max(len(waiting), 1), 4, _WORLDS))
    drawn = np.random.default_rng(seed).random((len(waiting), worlds)) < share[kind][:, None]
    before, after = (changes_in_worlds(result, waiting, metric, grade, drawn) for result in (first, other))
    labels = OpenLabels(
        np.array([row[pair.query] for pair in waiting], np.int64),
        after.effects - before.effects,
        kind,
        share,
        weight,
        np.arange(_KINDS) // (len(_BANDS) + 1),
    )
    order = labels.order()
    today = float(np.nanmean(values)) if (~np.isnan(values)).any() else 0.0
    values = np.nan_to_num(values)  # no relevant item yet: a label may add one
    found = outlook(
        _centred(values, row, before, after, labels), labels, order, clusters=clusters, level=level, seed=seed
    )
    settling = Settling(
        baseline=names[0],
        candidate=names[1],
        metric=str(metric),
        queries=len(values),
        delta=today,
        expected=found.mean,
        low=found.low,
        high=found.high,
        level=level,
        decided=found.decided,
        open=len(order),
        chance=found.chance,
        labels=found.labels,
        few=found.few,
        many=found.many,
        worlds=found.worlds,
    )
    return [waiting[i] for i in order.tolist()], settling


def _centred(
    values: Floats, row: dict[str, int], before: ChangesInWorlds, after: ChangesInWorlds, labels: OpenLabels
) -> Floats:
    """The difference of each query without open labels, so that with all of them it has the mean of the worlds."""
    centred = values.copy()
    for query in before.values.keys() | after.values.keys():
        centred[row[query]] = after.values.get(query, 0.0) - before.values.get(query, 0.0)
    touched = np.array(sorted(row[query] for query in before.values.keys() | after.values.keys()), np.int64)
    expected = np.bincount(labels.query, labels.chance * labels.effect, len(values))
    centred[touched] -= expected[touched]
    return centred


def _values(first: Result, other: Result, metric: Metric) -> tuple[Floats, dict[str, int], Ints | None]:
    """The difference of each query, its row, and the cluster of each row."""
    name = str(metric)
    sides = [result.measure([name]) for result in (first, other)]
    place = {query: at for at, query in enumerate(sides[1].queries)}
    gold = first.gold
    shared = [
        (at, place[query])
        for at, query in enumerate(sides[0].queries)
        if query in place and not gold.no_answer[gold.index[query]]
    ]
    at, of = np.array(shared, np.int64).reshape(-1, 2).T
    values = sides[1].values[name][of] - sides[0].values[name][at]
    clusters = sides[0].columns.clusters
    rows = {sides[0].queries[i]: row for row, i in enumerate(at.tolist())}
    return values, rows, None if clusters is None else clusters[at]


def _kind(pair: FoundPair, names: list[str]) -> int:
    """Which of the runs found a pair, and at which ranks."""
    who = 2 if len(pair.ranks) == 2 else names.index(next(iter(pair.ranks)))
    band = int(np.searchsorted(_BANDS, min(pair.ranks.values()), side="right"))
    return who * (len(_BANDS) + 1) + band


def _shares(pairs: Sequence[FoundPair], names: list[str]) -> tuple[Floats, Floats]:
    """The share of relevant pairs of each kind, and the labels that it counts for.

    Judged pairs of the same kind tell it, drawn towards those of the same ranks, and these towards all. If no hit is
    judged irrelevant, the gold set only names what is relevant: then hits without a label count as irrelevant here, and
    kinds are not told apart.
    """
    judged = [pair for pair in pairs if pair.grade is not None]
    complete = any(pair.grade == 0 for pair in judged)
    known = judged if complete else list(pairs)
    kind = np.array([_kind(pair, names) for pair in known], np.int64)
    relevant = np.array([float((pair.grade or 0) > 0) for pair in known])
    overall = (float(relevant.sum()) + 1) / (len(known) + 2)
    bands = len(_BANDS) + 1
    by_band, _ = shares_of(bands, kind % bands, relevant, np.full(bands, overall))
    of_kind = by_band[np.arange(_KINDS) % bands]
    if not complete:
        return of_kind, np.full(_KINDS, PRIOR)
    return shares_of(_KINDS, kind, relevant, of_kind)
