"""Sweep over k: recall and nDCG, their knees, and what a reranker could still gain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from karat.data.attributes import segment_title
from karat.data.ids import Floats, Ints
from karat.data.saved import SavedOfSystem
from karat.errors import ConfigError
from karat.errors.spelling import spell
from karat.results.analyses.base import Lacking
from karat.results.numbers import counted
from karat.results.saved import origin
from karat.results.summary import FEW, Scores, SummaryRow, summarise
from karat.statistics.resampling import NEARLY_NORMAL, bayesian_means
from karat.statistics.sampling import Sampling
from karat.statistics.sums import sum_up

if TYPE_CHECKING:
    from karat.results.result import Result

ALL = "all queries"
_CURVES: tuple[Literal["recall"], Literal["ndcg"]] = ("recall", "ndcg")
_WITHIN = 0.01  # a knee is as good as the deepest k to within one percentage point
_ROUNDING = 1e-9
_EVERYTHING = 2**53  # a cutoff deeper than any list


class Point(msgspec.Struct, frozen=True):
    """The curves at one k."""

    k: int
    recall: SummaryRow
    ndcg: SummaryRow


class Knee(msgspec.Struct, frozen=True):
    """The smallest k within a percentage point of the deepest k, and how sure that is. If it is the deepest k itself,
    the curve still rises and has no knee."""

    metric: Literal["recall", "ndcg"]
    k: int
    chosen: dict[int, float]  # k → share of the resamples in which it is the knee

    @property
    def rising(self) -> bool:
        """Whether the curve still rises at the deepest k, and so has no knee."""
        return len(self.chosen) > 1 and self.k == max(self.chosen)


class Headroom(msgspec.Struct, frozen=True):
    """Where the missing recall@k was lost. recall, recoverable and lost add up to 1."""

    k: int
    depth: int  # of the deepest list
    recall: float  # recall@k
    recoverable: float  # found deeper than k: a better order could gain it
    lost: float  # not found at any depth: only a better index could gain it
    cap: float  # the highest possible recall@k: min(k, relevant) / relevant


class Curve(msgspec.Struct, frozen=True):
    """One system on one group of queries."""

    segment: str
    value: str
    queries: int
    few: bool
    points: list[Point]
    auc_recall: SummaryRow
    knees: list[Knee]
    headroom: list[Headroom]


class Sweep(SavedOfSystem, frozen=True, kw_only=True):
    """What `karat eval sweep` saves."""

    schema: Literal["karat/sweep/1"] = "karat/sweep/1"
    statistics: dict[str, Any]
    ks: list[int]
    depth: int
    notes: list[str]
    curves: list[Curve]  # all queries first, then each segment


def draw_sweep(result: Result, ks: Iterable[int]) -> Sweep:
    """Recall and nDCG over k, with knees and headroom, for all queries and for the requested segments."""
    wanted = checked_depths(ks)
    if not result.data.tables:
        raise Lacking("judged hits in the saved result: run `karat eval RUN --gold GOLD -o result.json` again")
    depth = int(result.depths.max(initial=0))
    ks, notes = measured_depths(wanted, depth)
    measured = result.measure([*_names(ks)])
    before = result.provenance.get("k_raw")
    if isinstance(before, int) and before > depth:
        notes.append(spell(f"before reranking, the lists have {before} hits: use --hits raw to sweep over those."))
    groups = [(ALL, ALL, np.arange(len(result.rows)))]
    for by in result.segmented_by:
        groups += [(segment_title(result.gold, by), value, at) for value, at in result.groups(by)]
    return Sweep(
        **origin(result),
        statistics=result.sampling.saved(result.cluster),
        ks=ks,
        depth=depth,
        notes=notes,
        curves=[_curve(measured, *group, ks, depth) for group in groups],
    )


def checked_depths(ks: Iterable[int]) -> list[int]:
    wanted = sorted(set(ks))
    if not wanted or wanted[0] < 1 or wanted[-1] >= _EVERYTHING:
        what = "the depths of a sweep must be whole numbers of at least 1"
        raise ConfigError(what, expected="such as 1,3,5,10,20", got=wanted)
    return wanted


def measured_depths(wanted: list[int], depth: int) -> tuple[list[int], list[str]]:
    """The depths that the lists reach, and notes. Beyond the end of the lists, nothing is known."""
    ks = [k for k in wanted if k <= depth] or wanted[:1]
    if ks[0] > depth:
        return ks, [f"the longest list has {counted(depth, 'hit')}, so recall@{ks[0]} covers only {depth}."]
    if len(ks) == len(wanted):
        return ks, []
    left_out = ", ".join(str(k) for k in wanted if k not in ks)
    return ks, [f"the longest list has {counted(depth, 'hit')}: k = {left_out} is left out."]


def _names(ks: list[int]) -> Iterator[str]:
    yield from (f"{curve}@{k}" for k in ks for curve in _CURVES)
    yield from (f"auc_recall@{ks[-1]}", f"recall@{_EVERYTHING}")


def _curve(measured: Result, segment: str, value: str, at: Ints, ks: list[int], depth: int) -> Curve:
    """The curves of one group. `depth`: of the deepest list."""
    scores, sampling = measured.columns.select(at), measured.sampling
    ceilings = {name: measured.ceilings[name][at] for name in _names(ks)}
    rows = {row.metric: row for row in summarise(scores, sampling, ceilings, {})}
    knees = [knee for name in _CURVES if (knee := _knee(name, ks, scores, sampling)) is not None]
    return Curve(
        segment=segment,
        value=value,
        queries=len(at),
        few=0 < rows[f"recall@{ks[-1]}"].n < FEW or len(at) < FEW,
        points=[Point(k, rows[f"recall@{k}"], rows[f"ndcg@{k}"]) for k in ks],
        auc_recall=rows[f"auc_recall@{ks[-1]}"],
        knees=knees,
        headroom=[h for k in ks if (h := _headroom(k, depth, rows)) is not None],
    )


def _knee(name: Literal["recall", "ndcg"], ks: list[int], scores: Scores, sampling: Sampling) -> Knee | None:
    values = np.column_stack([scores.values[f"{name}@{k}"] for k in ks])
    # Many units are drawn by their moments, which needs no sorting.
    sums = sum_up(values, None, scores.clusters, distinct=len(values) <= NEARLY_NORMAL)
    if not sums.defined.all():
        return None
    drawn = bayesian_means(sums, sampling.seed, sampling.resamples)
    chosen = np.bincount(_knees(drawn), minlength=len(ks)) / sampling.resamples
    observed = int(_knees(sums.estimate[None, :])[0])
    return Knee(name, ks[observed], {k: round(float(share), 4) for k, share in zip(ks, chosen, strict=True)})


def _knees(curves: Floats) -> Ints:
    """The first point of each curve that is good enough."""
    good = curves >= curves[:, -1:] - _WITHIN - _ROUNDING
    return np.asarray(np.argmax(good, axis=1), np.int64)


def _headroom(k: int, depth: int, rows: dict[str, SummaryRow]) -> Headroom | None:
    at_k, everywhere = rows[f"recall@{k}"], rows[f"recall@{_EVERYTHING}"].mean
    if at_k.mean is None or everywhere is None or at_k.ceiling is None:
        return None
    return Headroom(k, depth, at_k.mean, everywhere - at_k.mean, 1 - everywhere, at_k.ceiling)
