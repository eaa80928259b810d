"""The position-bias model of clicks: how often each position is looked at, and how attractive each item is.

A shown item is clicked if its position is examined and the item is attractive: P(click) = examination × attraction.
docs/decisions/124-clicks-and-the-next-label.md says why it is fitted in this form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from karat.statistics.special import student_quantile
from karat.statistics.sums import Floats, Ints

Bools = NDArray[np.bool_]

_ROUNDS = 5_000
_SAME = 1e-9  # relative change of an examination at which the fit has converged
_BLOCK = 1 << 20  # numbers in memory at a time
_PRIOR_ROUNDS = 500
_PRIOR_ITEMS = 20_000
_PRIOR = (0.05, 1_000.0)  # limits of the parameters of the prior
_STEPS = 30  # of Newton's method
_GRID = 256


def sums_of(place: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values at each place."""
    return np.asarray(np.bincount(place, values, size), np.float64)


class Showings(msgspec.Struct, frozen=True):
    """How often each item was shown and clicked at each position. Sorted by item; each cell once."""

    item: Ints
    position: Ints  # 0 to positions − 1
    shown: Floats
    clicked: Floats
    items: int
    positions: int

    def of(self, cells: Bools) -> Showings:
        """Only these cells."""
        kept = (self.item[cells], self.position[cells], self.shown[cells], self.clicked[cells])
        return Showings(*kept, self.items, self.positions)

    def per_item(self, values: Floats) -> Floats:
        return sums_of(self.item, values, self.items)

    def per_position(self, values: Floats) -> Floats:
        return sums_of(self.position, values, self.positions)

    def blocks(self, *values: Floats) -> Iterator[tuple[Floats, ...]]:
        """Tables of item × position, some items at a time."""
        size = max(_BLOCK // max(self.positions, 1), 1)
        for start in range(0, self.items, size):
            low, high = np.searchsorted(self.item, [start, start + size])
            shape = min(size, self.items - start), self.positions
            place = (self.item[low:high] - start) * self.positions + self.position[low:high]
            yield tuple(sums_of(place, v[low:high], shape[0] * shape[1]).reshape(shape) for v in values)


class Clicks(msgspec.Struct, frozen=True):
    """Single clicks, with the session (or list) of each."""

    item: Ints
    position: Ints
    session: Ints


class Examination(msgspec.Struct, frozen=True):
    """How often each position is examined, relative to the reference; NaN where the log cannot say."""

    value: Floats
    low: Floats
    high: Floats
    covariance: Floats  # of the logarithms; 0 for the reference
    reference: int
    sessions: int  # that the intervals are based on
    rounds: int  # of the fit


def comparable_positions(log: Showings) -> Bools:
    """The positions that can be compared with each other; the group with the most clicks.

    Two positions can be compared if items that were shown at both were clicked at both, directly or through other
    positions. Otherwise a ratio of 0 or infinity would fit best, or any ratio would.
    """
    linked = np.eye(log.positions, dtype=np.bool_)
    for shown, clicked in log.blocks(log.shown, log.clicked):
        linked |= (clicked > 0).T.astype(np.float32) @ (shown > 0).astype(np.float32) > 0
    for _ in range(int(np.ceil(np.log2(max(log.positions, 2))))):
        linked |= linked.astype(np.float32) @ linked.astype(np.float32) > 0
    clicks = log.per_position(log.clicked)
    together = linked & linked.T
    found: Bools = together[int(np.argmax(together @ clicks))]
    return found


def fit_examination(log: Showings, clicks: Clicks, level: float) -> Examination:
    """Fit how often each position is examined, with intervals over sessions."""
    known = comparable_positions(log)
    reference = int(np.argmax(known))
    several = log.per_item((known[log.position] & (log.shown > 0)).astype(np.float64)) > 1
    clicked = log.per_item(log.clicked * known[log.position]) > 0
    telling = log.of((several & clicked)[log.item] & known[log.position])
    value, rounds = _fit(telling, known, reference)
    used = (several & clicked)[clicks.item] & known[clicks.position]
    told = Clicks(clicks.item[used], clicks.position[used], clicks.session[used])
    while True:
        covariance, sessions = _covariance(telling, told, value, known, reference)
        error = np.sqrt(np.maximum(np.diag(covariance), 0))
        # Fewer than two sessions show no spread at all.
        wide = student_quantile((1 + level) / 2, sessions - 1) if sessions > 1 else np.inf
        reach = np.where(error > 0, wide * error, 0.0) if sessions > 1 else np.where(known, np.inf, np.nan)
        reach[reference] = 0.0
        low, high = value * np.exp(-reach), value * np.exp(reach)
        best = int(np.argmax(np.nan_to_num(low)))
        if low[best] <= 1:
            return Examination(value, low, high, covariance, reference, sessions, rounds)
        value, reference = value / value[best], best  # surely seen more often than the first position


def _fit(log: Showings, known: Bools, reference: int) -> tuple[Floats, int]:
    """Examination by position: the maximum of the likelihood of click counts, by EM.

    The E-step is the attraction of each item given the examinations, the M-step the examinations given the attractions.
    Only positions at which the same item was shown are compared, so that a ranker that puts good items first does not
    look like a bias.
    """
    value = np.where(known, 1.0, np.nan)
    total, at_position = log.per_item(log.clicked), log.per_position(log.clicked)
    rounds = 0
    while rounds < _ROUNDS:
        rounds += 1
        expected = log.per_item(log.shown * value[log.position])
        attraction = np.divide(total, expected, out=np.zeros(log.items), where=expected > 0)
        seen = log.per_position(log.shown * attraction[log.item])
        new = np.where(known, np.divide(at_position, seen, out=np.ones(log.positions), where=seen > 0), np.nan)
        new /= new[reference]
        change = float(np.nanmax(np.abs(new / value - 1)))
        value = new
        if change < _SAME:
            break
    return value, rounds


def _shares(shown: Floats, value: Floats) -> Floats:
    """The share of each position in an item's expected clicks, by item; 0 for an item without any."""
    weight = shown * np.nan_to_num(value)
    total = weight.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0))


def _covariance(log: Showings, clicks: Clicks, value: Floats, known: Bools, reference: int) -> tuple[Floats, int]:
    """Covariance of the logarithms of the examinations: robust, with sessions as units; and the number of sessions."""
    size, free = log.positions, known.copy()
    free[reference] = False
    information, spread = np.zeros((size, size)), np.zeros((size, size))
    for shown, clicked in log.blocks(log.shown, log.clicked):
        share, total = _shares(shown, value), clicked.sum(axis=1)
        information += np.diag(total @ share) - (share * total[:, None]).T @ share
    expected = log.per_item(log.shown * np.nan_to_num(value)[log.position])
    cell_share = log.shown * np.nan_to_num(value)[log.position] / np.maximum(expected[log.item], 1e-300)
    first = np.searchsorted(log.item, np.arange(log.items + 1))
    order = np.argsort(clicks.session, kind="stable")
    session, units = clicks.session[order], len(np.unique(clicks.session))
    carried, owner = np.zeros(size), -1
    for start in range(0, len(order), max(_BLOCK // max(size, 1), 1)):
        rows = order[start : start + max(_BLOCK // max(size, 1), 1)]
        item, of = clicks.item[rows], session[start : start + len(rows)]
        count = first[item + 1] - first[item]
        cells = np.repeat(first[item] - np.cumsum(count) + count, count) + np.arange(count.sum())
        row = np.repeat(np.arange(len(rows)), count)
        score = -sums_of(row * size + log.position[cells], cell_share[cells], len(rows) * size).reshape(-1, size)
        score[np.arange(len(rows)), clicks.position[rows]] += 1
        starts = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
        sums = np.add.reduceat(score, starts, axis=0)
        if of[0] == owner:
            sums[0] += carried
        else:
            spread += np.outer(carried, carried)
        spread += sums[:-1].T @ sums[:-1]
        carried, owner = sums[-1], int(of[-1])
    spread += np.outer(carried, carried)
    found = np.zeros((size, size))
    if free.any() and units > 1:
        at = np.ix_(free, free)
        inverse = np.linalg.pinv(information[at])
        found[at] = inverse @ spread[at] @ inverse * units / (units - 1)
    return found, units


class Attraction(msgspec.Struct, frozen=True):
    """Beta distributions of the probability that an examined item is clicked; NaN for items that cannot be judged."""

    a: Floats
    b: Floats
    prior: tuple[float, float]

    @property
    def mean(self) -> Floats:
        return self.a / (self.a + self.b)

    def limits(self, level: float) -> tuple[Floats, Floats]:
        low, high = self._read(lambda grid, below: _quantiles(grid, below, ((1 - level) / 2, (1 + level) / 2)))
        return low, high

    def above(self, threshold: float) -> Floats:
        """The probability that each attraction is above a threshold."""
        at = np.log(threshold) - np.log1p(-threshold)
        return self._read(lambda grid, below: (1 - _interpolated(grid, below, np.full(len(grid), at)),))[0]

    def _read(self, look: Callable[[Floats, Floats], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        size = max(_BLOCK // _GRID, 1)
        found = [look(*_below(self.a[i : i + size], self.b[i : i + size])) for i in range(0, max(len(self.a), 1), size)]
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def fit_attraction(log: Showings, examination: Examination) -> Attraction:
    """The attraction of every item: a Beta distribution around the mode of its posterior, exact where examination is 1.

    The prior is the Beta distribution of all items in the log, fitted by moments. The uncertainty of the examinations
    is added.
    """
    value = np.minimum(np.nan_to_num(examination.value), 1.0)
    log = log.of(~np.isnan(examination.value)[log.position])
    shown = log.per_item(log.shown)
    there = shown > 0
    clicked, missed = log.per_item(log.clicked), log.shown - log.clicked
    theta = value[log.position]
    prior = _prior(log, np.flatnonzero(there), value)
    start = np.full(log.items, np.log(prior[0] / prior[1]))
    logit, information = _mode(log, clicked, missed, theta, prior, start)
    alpha = 1 / (1 + np.exp(-logit))
    # An error in the examinations shifts the logarithm of the attraction, as far as it rests on clicks.
    own = np.clip(1 - (prior[0] + prior[1]) * alpha * (1 - alpha) / information, 0, 1)
    unsure = np.concatenate(
        [_unsure(shares, examination.covariance) for shares in _all_shares(log, value)] or [np.zeros(0)]
    )
    information = 1 / (1 / information + unsure * (own / (1 - alpha)) ** 2)
    a, b = information / (1 - alpha), information / alpha
    return Attraction(np.where(there, a, np.nan), np.where(there, b, np.nan), prior)


def _all_shares(log: Showings, value: Floats) -> Iterator[Floats]:
    for (shown,) in log.blocks(log.shown):
        yield _shares(shown, value)


def _unsure(shares: Floats, covariance: Floats) -> Floats:
    found: Floats = np.einsum("ij,jk,ik->i", shares, covariance, shares, optimize=True)
    return np.maximum(found, 0)


def _mode(
    log: Showings, clicked: Floats, missed: Floats, theta: Floats, prior: tuple[float, float], logit: Floats
) -> tuple[Floats, Floats]:
    """The mode of each posterior on the scale of log-odds, and its curvature there, by Newton's method."""
    information = np.ones(log.items)
    for _ in range(_STEPS):
        alpha = 1 / (1 + np.exp(-logit))
        cell = alpha[log.item]
        left = 1 - theta * cell
        slope = log.per_item(missed * theta * cell * (1 - cell) / left)
        bend = log.per_item(missed * theta * (1 - 2 * cell + theta * cell**2) / left**2)
        gradient = (prior[0] + clicked) * (1 - alpha) - prior[1] * alpha - slope
        information = alpha * (1 - alpha) * np.maximum(prior[0] + prior[1] + clicked + bend, 0.1)
        step = np.clip(gradient / information, -2, 2)
        logit = np.clip(logit + step, -30, 30)
        if float(np.abs(step).max(initial=0)) < 1e-9:
            break
    return logit, information


def _prior(log: Showings, items: Ints, value: Floats) -> tuple[float, float]:
    """The Beta distribution that has the mean and the variance of the attractions of all items.

    Each item's posterior is computed on a grid; the mean of them all must have the moments of the prior. At most 20,000
    items are used, evenly spaced.
    """
    items = items[:: len(items) // _PRIOR_ITEMS + 1]
    number = np.full(log.items, -1)
    number[items] = np.arange(len(items))
    cells = number[log.item] >= 0
    kept = Showings(
        number[log.item[cells]],
        log.position[cells],
        log.shown[cells],
        log.clicked[cells],
        len(items),
        log.positions,
    )
    grid = np.linspace(-15, 15, 151)
    alpha = 1 / (1 + np.exp(-grid))
    missing = np.log1p(-np.outer(value, alpha))
    fits = [np.zeros((0, len(grid)))]
    for shown, clicked in kept.blocks(kept.shown, kept.clicked):
        logs = clicked.sum(axis=1)[:, None] * np.log(alpha) + (shown - clicked) @ missing
        fits.append(np.exp(logs - logs.max(axis=1, keepdims=True)))
    likelihood = np.concatenate(fits)
    prior = (1.0, 1.0)
    for _ in range(_PRIOR_ROUNDS):
        height = prior[0] * np.log(alpha) + prior[1] * np.log1p(-alpha)
        weight = np.exp(height - height.max()) + 1e-200
        moments = likelihood @ np.column_stack([weight, weight * alpha, weight * alpha**2])
        mean, square = (float((moments[:, i] / moments[:, 0]).mean()) for i in (1, 2))
        strength = max(mean * (1 - mean) / max(square - mean**2, 1e-12) - 1, 1e-6)
        a, b = np.clip([mean * strength, (1 - mean) * strength], *_PRIOR).tolist()
        change = max(abs(a / prior[0] - 1), abs(b / prior[1] - 1))
        prior = (float(a), float(b))
        if change < 1e-5:
            break
    return prior


def _below(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Log-odds around each Beta distribution, and the probability below each of them."""
    a, b = np.nan_to_num(a, nan=1.0), np.nan_to_num(b, nan=1.0)
    centre, error = np.log(a) - np.log(b), np.sqrt(1 / a + 1 / b)
    left, right = centre - np.maximum(6 * error, 12 / a), centre + np.maximum(6 * error, 12 / b)
    # Most points lie near the centre: the tails of a wide distribution are long.
    part = np.linspace(-1, 1, _GRID)
    bent = np.sign(part) * np.abs(part) ** 1.5
    grid = centre[:, None] + np.where(bent < 0, (centre - left)[:, None], (right - centre)[:, None]) * bent
    # Minus a·log(1 + e^−x) − b·log(1 + e^x), relative to its value at the centre.
    height = -a[:, None] * np.logaddexp(0, -grid) - b[:, None] * np.logaddexp(0, grid)
    density = np.exp(height - height.max(axis=1, keepdims=True))
    pieces = (density[:, 1:] + density[:, :-1]) * np.diff(grid, axis=1)
    below = np.concatenate([np.zeros((len(a), 1)), np.cumsum(pieces, axis=1)], axis=1)
    return grid, below / below[:, -1:]


def _interpolated(x: Floats, y: Floats, at: Floats) -> Floats:
    """The value of each row's curve at a point of its own."""
    place = np.clip((x < at[:, None]).sum(axis=1), 1, x.shape[1] - 1)
    rows = np.arange(len(x))
    x0, x1, y0, y1 = x[rows, place - 1], x[rows, place], y[rows, place - 1], y[rows, place]
    share = np.divide(at - x0, x1 - x0, out=np.zeros(len(x)), where=x1 > x0)
    return np.asarray(y0 + np.clip(share, 0, 1) * (y1 - y0))


def _quantiles(grid: Floats, below: Floats, at: tuple[float, ...]) -> tuple[Floats, ...]:
    logits = (_interpolated(below, grid, np.full(len(grid), p)) for p in at)
    return tuple(1 / (1 + np.exp(-x)) for x in logits)
