"""Settings that tuning tries: how lists are fused, and where a list is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Literal

import msgspec
import numpy as np

from karat.scoring.fusion import Candidates, Ranked

CONSTANTS = (5.0, 20.0, 60.0, 120.0)
USUAL_CONSTANT = 60.0
TOP_KS = (1, 2, 3, 5, 8, 10, 15, 20, 30, 50)
MOST_LISTS = 6
_SHARES = tuple(round(share / 10, 1) for share in range(1, 10))
_QUARTERS = 4  # three lists share this many parts
_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class Setting(msgspec.Struct, frozen=True):
    """One way to make a list of the lists of a query."""

    method: Literal["list", "rrf", "scores"]  # one list; reciprocal rank fusion; sum of scores scaled to 0 … 1
    weights: list[float]  # of the lists; they add up to 1
    constant: float | None = None  # of reciprocal rank fusion
    top_k: int | None = None
    min_score: float | None = None

    def told(self, names: Sequence[str]) -> str:
        """`rrf, constant 60, bm25 × 0.5, dense × 0.5`"""
        used = [(name, weight) for name, weight in zip(names, self.weights, strict=True) if weight]
        parts = [names[self.weights.index(1.0)] if self.method == "list" else self.method]
        if self.constant is not None:
            parts.append(f"constant {self.constant:g}")
        if self.method != "list":
            parts += [f"{name} × {weight:g}" for name, weight in used]
        parts += [] if self.top_k is None else [f"top_k {self.top_k}"]
        parts += [] if self.min_score is None else [f"min_score {self.min_score:g}"]
        return ", ".join(parts)


def fusions(lists: int, *, scored: bool) -> Iterator[Setting]:
    """Each list alone, then the usual fusion, then all others."""
    for at in range(lists):
        yield Setting("list", [float(i == at) for i in range(lists)])
    equal = [round(1 / lists, 6)] * lists
    yield Setting("rrf", equal, USUAL_CONSTANT)
    for weights in _weights(lists):
        for constant in CONSTANTS:
            if (weights, constant) != (equal, USUAL_CONSTANT):
                yield Setting("rrf", weights, constant)
        if scored:
            yield Setting("scores", weights)


def is_simple(setting: Setting, *, budget: bool) -> bool:
    """What one would use without tuning: a list as it is, or the usual fusion. A budget needs some cutoff."""
    uncut = setting.min_score is None and (setting.top_k is None or budget)
    usual = setting.constant == USUAL_CONSTANT and len(set(setting.weights)) == 1
    return uncut and (setting.method == "list" or (setting.method == "rrf" and usual))


def cuts(candidates: Candidates, depth: int) -> Iterator[Setting]:
    """One list as it is, then cut by rank, by score, and by both."""
    scores: list[float] = []
    if candidates.scores is not None:
        found = candidates.scores[0][~np.isnan(candidates.scores[0])]
        scores = sorted({float(f"{score:.6g}") for score in np.quantile(found, _QUANTILES)}) if len(found) else []
    ks = [None, *(k for k in TOP_KS if k < depth)]
    for top_k, min_score in product(ks, [None, *scores]):
        yield Setting("list", [1.0], None, top_k, min_score)


def with_cutoffs(settings: Sequence[Setting], depth: int) -> Iterator[Setting]:
    for setting in settings:
        yield setting
        yield from (msgspec.structs.replace(setting, top_k=k) for k in TOP_KS if k < depth)


def _weights(lists: int) -> Iterator[list[float]]:
    """Weights of several lists. Two: in tenths. Three: in quarters. More: equal weights of some of them."""
    if lists == 2:
        yield from ([share, round(1 - share, 1)] for share in _SHARES)
    elif lists == 3:
        yield [round(1 / 3, 6)] * 3
        for parts in product(range(_QUARTERS + 1), repeat=3):
            if sum(parts) == _QUARTERS and max(parts) < _QUARTERS:
                yield [part / _QUARTERS for part in parts]
    else:
        for count in range(2, lists + 1):
            for some in combinations(range(lists), count):
                yield [round(1 / count, 6) if at in some else 0.0 for at in range(lists)]


def rankings(candidates: Candidates, settings: Sequence[Setting]) -> Iterator[tuple[Setting, Ranked]]:
    """Each setting with the order that it gives. Settings that differ in their cutoff only share an order."""
    parts: dict[float | None, np.ndarray] = {}
    last: tuple[Setting, Ranked] | None = None
    for setting in settings:
        uncut = msgspec.structs.replace(setting, top_k=None)
        if last is None or last[0] != uncut:
            last = uncut, Ranked.by(candidates, _scores(candidates, setting, parts))
        yield setting, last[1].cut(setting.top_k)


def scores_of(candidates: Candidates, setting: Setting) -> np.ndarray:
    """The score of each hit, −∞ for hits that are left out."""
    return _scores(candidates, setting, {})


def _scores(candidates: Candidates, setting: Setting, parts: dict[float | None, np.ndarray]) -> np.ndarray:
    if setting.method == "list":
        return candidates.listed(setting.weights.index(1.0), setting.min_score)
    if setting.constant not in parts:
        of_scores = setting.constant is None
        parts[setting.constant] = (
            candidates.scaled_scores() if of_scores else candidates.reciprocal_ranks(setting.constant or 0.0)
        )
    # Equal weights are 1 each, as in the retriever `hybrid`.
    used = sum(weight > 0 for weight in setting.weights)
    weights = [used * weight for weight in setting.weights]
    equal = len({weight for weight in setting.weights if weight}) == 1
    return candidates.fused(parts[setting.constant], [float(w > 0) for w in weights] if equal else weights)
