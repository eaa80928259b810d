"""Which missing labels would settle a comparison, and how many of them it takes.

The difference of two runs is a mean over queries. A label of an open item would shift the difference of its query, and
how likely items of its kind are relevant is known roughly. docs/decisions/124-clicks-and-the-next-label.md explains the
model.
"""

from __future__ import annotations

import msgspec
import numpy as np

from karat.statistics.special import student_quantile
from karat.statistics.sums import Floats, Ints

PRIOR = 10.0  # labels that a share known from elsewhere counts for
WORLDS = 400
_PLANNED = 20_000  # labels whose order is planned one by one
_ALIKE = 0.3  # correlation of the relevance of two hits of a query
_STOPS = 40  # how often the simulation looks at the interval
_NUMBERS = 1 << 23  # most numbers in memory
_NEVER = np.iinfo(np.int64).max


def shares_of(kinds: int, known_kind: Ints, relevant: Floats, before: Floats) -> tuple[Floats, Floats]:
    """The share of relevant items of each kind, drawn towards `before`, and the labels that it counts for."""
    count = np.bincount(known_kind, minlength=kinds).astype(np.float64)
    found = np.asarray(np.bincount(known_kind, relevant, kinds), np.float64)
    return (found + PRIOR * before) / (count + PRIOR), count + PRIOR


class OpenLabels(msgspec.Struct, frozen=True):
    """Items without a label. A label that says relevant adds `effect` to the difference of the item's query."""

    query: Ints
    effect: Floats
    kind: Ints  # items of a kind are equally likely to be relevant
    share: Floats  # of relevant items, by kind
    weight: Floats  # labels that the share counts for, by kind
    group: Ints  # of each kind, such as that of one run at all ranks: labels of a group and query tell less together

    @property
    def chance(self) -> Floats:
        return self.share[self.kind]

    def order(self) -> Ints:
        """Labels by what each is expected to take off the variance of the difference, most first.

        A label tells about its item, and about all open items of its kind; about these the less, the more items of the
        same query were labelled before. Equal ones are in random order: the order of the pairs would put high ranks
        first, which are relevant more often than others of their kind. Labels that cannot change anything are left out.
        """
        ties = np.random.default_rng(0).permutation(len(self.effect))
        relative = np.round(np.abs(self.effect) / max(float(np.abs(self.effect).max(initial=0.0)), 1e-12), 6)
        spread, news = self.share * (1 - self.share), self._news(relative, ties)
        by_size = np.lexsort((ties, -np.round(relative * news, 6)))
        by_size = by_size[np.abs(self.effect[by_size]) > 1e-12]
        waiting = [by_size[self.kind[by_size] == kind].tolist() for kind in range(len(self.share))]
        left = np.bincount(self.kind, self.effect, len(self.share)).tolist()
        size, weight, taken = self.effect.tolist(), self.weight.tolist(), [0] * len(waiting)

        def gain(kind: int) -> float:
            """What the next label of a kind takes off the variances in `_State.limits`."""
            if taken[kind] == len(waiting[kind]):
                return -1.0
            item = waiting[kind][taken[kind]]
            rest, one, labels = left[kind], size[item], weight[kind]
            shared = rest**2 / (labels + 1) - (rest - one) ** 2 / (labels + 2)
            return float(spread[kind] * (2 * one**2 + news[item] * shared))

        gains, order = [gain(kind) for kind in range(len(waiting))], list[int]()
        for _ in range(min(len(by_size), _PLANNED)):
            best = max(range(len(gains)), key=gains.__getitem__)
            item = waiting[best][taken[best]]
            order.append(item)
            taken[best] += 1
            left[best] -= size[item]
            weight[best] += 1
            gains[best] = gain(best)
        planned = set(order)
        return np.array([*order, *(item for item in by_size.tolist() if item not in planned)], np.int64)

    def _news(self, relative: Floats, ties: Ints) -> Floats:
        """What each label adds to those of its group and query, in labels of other queries; largest effect first."""
        of = self.group[self.kind]
        order = np.lexsort((ties, -relative, self.query, of))
        group = of[order] * (int(self.query.max(initial=0)) + 1) + self.query[order]
        before = np.arange(len(order)) - np.searchsorted(group, group)
        news = np.empty(len(order))
        news[order] = _worth(before + 1) - _worth(before)
        return news


def _worth(labels: Ints) -> Floats:
    """Labels of one query, in labels of different queries."""
    return np.asarray(labels / (1 + np.maximum(labels - 1, 0) * _ALIKE))


class Outlook(msgspec.Struct, frozen=True):
    """What a comparison says with all that is unknown, and what labels could make of it."""

    mean: float  # the expected difference once everything is labelled
    low: float
    high: float
    chance: float  # probability that labels decide it
    labels: int | None  # the median number of labels if they do; null if they hardly ever do
    few: int | None  # 10 % of these cases need at most this many
    many: int | None  # 90 % of these cases need at most this many
    worlds: int

    @property
    def decided(self) -> bool:
        return self.low > 0 or self.high < 0


def outlook(
    values: Floats,
    labels: OpenLabels,
    order: Ints,
    *,
    clusters: Ints | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Outlook:
    """Simulate labelling in this order, and count the labels until the interval of the difference excludes 0.

    `values`: the difference of each query by today's labels, in which open items count as irrelevant. In each simulated
    world, the shares of relevant items are drawn first, then the labels. What labels tell about their kind is used for
    the items that are still open.
    """
    units = np.arange(len(values)) if clusters is None else np.unique(clusters, return_inverse=True)[1].ravel()
    state = _State(values, units, labels, level)
    mean, low, high = (float(part[0]) for part in state.limits())
    if not len(order) or low > 0 or high < 0:
        done = float(low > 0 or high < 0)
        return Outlook(mean, low, high, done, 0 if done else None, 0 if done else None, 0 if done else None, 0)
    worlds = int(np.clip(_NUMBERS // max(len(values), len(order), 1), 20, WORLDS))
    rng = np.random.default_rng(seed)
    shares = rng.beta(*_beta(labels), (worlds, len(labels.share))).T
    state.split(worlds)
    needed, start = np.full(worlds, _NEVER), 0
    for stop in _stops(len(order)):
        items = order[start:stop]
        drawn = rng.random((len(items), worlds)) < shares[labels.kind[items]]
        state.label(items, drawn.astype(np.float64))
        _, lows, highs = state.limits()
        needed = np.where((needed == _NEVER) & ((lows > 0) | (highs < 0)), stop, needed)
        start = stop
        if (needed < _NEVER).all():
            break
    settled = np.sort(needed[needed < _NEVER])
    few, middle, many = (
        int(np.quantile(settled, q, method="inverted_cdf")) if len(settled) >= max(worlds // 20, 1) else None
        for q in (0.1, 0.5, 0.9)
    )
    return Outlook(mean, low, high, len(settled) / worlds, middle, few, many, worlds)


def _beta(labels: OpenLabels) -> tuple[Floats, Floats]:
    return np.maximum(labels.share * labels.weight, 1e-6), np.maximum((1 - labels.share) * labels.weight, 1e-6)


def _stops(count: int) -> list[int]:
    """Where the simulation looks: after every label first, then less often."""
    even = np.linspace(1, count, min(count, _STOPS // 2))
    growing = np.geomspace(1, count, _STOPS // 2)
    return sorted({round(stop) for stop in (*even.tolist(), *growing.tolist())})


class _State:
    """The interval of the difference while labels are added, in several worlds at once."""

    def __init__(self, values: Floats, units: Ints, labels: OpenLabels, level: float) -> None:
        self._labels, self._of = labels, units[labels.query]
        self._n, self._units = len(values), int(units.max(initial=-1)) + 1
        kinds = len(labels.share)
        self._size = np.bincount(units, minlength=self._units).astype(np.float64)
        self._sums = np.asarray(np.bincount(units, values, self._units), np.float64)[:, None]
        place = self._of * kinds + labels.kind
        self._open = np.asarray(np.bincount(place, labels.effect, self._units * kinds), np.float64).reshape(-1, kinds)
        self._squares = np.asarray(np.bincount(labels.kind, labels.effect**2, kinds), np.float64)
        self._a, self._b = (part[:, None] for part in _beta(labels))
        self._wide = student_quantile((1 + level) / 2, self._units - 1) if self._units > 1 else np.inf

    def split(self, worlds: int) -> None:
        self._sums = np.repeat(self._sums, worlds, axis=1)
        self._a, self._b = (np.repeat(part, worlds, axis=1) for part in (self._a, self._b))

    def label(self, items: Ints, relevant: Floats) -> None:
        """Add labels: item × world."""
        kind, effect, unit = self._labels.kind[items], self._labels.effect[items], self._of[items]
        np.add.at(self._sums, unit, effect[:, None] * relevant)
        np.add.at(self._a, kind, relevant)
        np.add.at(self._b, kind, 1 - relevant)
        np.subtract.at(self._open, (unit, kind), effect)
        np.subtract.at(self._squares, kind, effect**2)

    def limits(self) -> tuple[Floats, Floats, Floats]:
        """The mean, and the interval: over queries, and over the labels that are still missing."""
        total = self._a + self._b
        share = self._a / total
        sums = self._sums + self._open @ share
        mean = sums.sum(axis=0) / self._n
        within = ((sums - self._size[:, None] * mean) ** 2).sum(axis=0) * self._units / max(self._units - 1, 1)
        each = np.maximum(self._squares, 0) @ (share * (1 - share))
        shared = (self._open.sum(axis=0) ** 2) @ (share * (1 - share) / (total + 1))
        # A missing label adds to the spread between queries, and it is unknown besides.
        reach = self._wide * np.sqrt(within + 2 * each + shared) / self._n
        return mean, mean - reach, mean + reach
