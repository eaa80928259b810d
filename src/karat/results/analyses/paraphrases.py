"""Paraphrases: how much the result depends on the wording of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.audit import Audit, Entry
from karat.data.ids import Floats, Ints
from karat.data.variants import variant_groups
from karat.results.analyses.base import Analysis, Lacking, NotAsked, Setup
from karat.results.differences import SAME
from karat.results.summary import SummaryRow, mean_row
from karat.scoring.metrics.variants import grouped_values
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

_EXAMPLES = 5
_LARGEST = 0.5**0.5  # standard deviation of values from 0 to 1: of one 0 and one 1


class Wording(msgspec.Struct, frozen=True):
    """One query of a group."""

    query: str
    text: str | None
    value: float


class VariantGroup(msgspec.Struct, frozen=True):
    """A query and its variants, best first."""

    original: str
    spread: float
    wordings: list[Wording]


class Paraphrases(msgspec.Struct, frozen=True):
    """How far the queries of a group differ. Every mean is over groups."""

    k: int
    metric: str  # of each query
    groups: int
    queries: int  # in these groups
    average: SummaryRow  # mean of a group
    worst: SummaryRow  # lowest value of a group
    spread: SummaryRow  # highest − lowest value
    deviation: SummaryRow  # standard deviation within a group (n − 1)
    flips: SummaryRow  # share of groups in which some query finds something and another nothing
    flipped: int
    all_or_nothing: int  # of these, groups in which some query finds everything
    examples: list[VariantGroup]  # largest spread first
    counted: list[Entry] = []  # for the audit


class ParaphraseAnalysis(Analysis):
    """Compares queries that ask the same in other words."""

    name = "paraphrases"
    title = "Paraphrases"
    finds: ClassVar[type[msgspec.Struct]] = Paraphrases

    def need(self, setup: Setup) -> Need:
        if variant_groups(setup.gold) is None or setup.gold.made_of != "labels":
            raise NotAsked
        return Need(metrics=_metrics(setup.rules.k))

    def find(self, side: Result) -> Paraphrases:
        every = variant_groups(side.gold)
        assert every is not None
        groups, (base, worst, spread) = every[side.rows], _metrics(side.rules.k)
        at, number, values = grouped_values(groups, side.values[base])
        if not len(at):
            raise Lacking("at least two queries with relevant gold ids in a group of variants (`variant_of`)")
        starts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
        counts = np.diff(np.append(starts, len(at)))
        mean = np.add.reduceat(values, starts) / counts
        deviation = np.sqrt(np.add.reduceat((values - mean[number]) ** 2, starts) / (counts - 1))
        highest, lowest = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
        flips = (lowest <= SAME) & (highest > SAME)

        def row(name: str, found: Floats, largest: float = 1.0) -> SummaryRow:
            column = np.full(len(groups), np.nan)
            column[at[starts]] = found
            alone = np.flatnonzero(~np.isnan(column))
            clusters = side.columns.clusters
            return mean_row(
                name, column[alone], None if clusters is None else clusters[alone], side.sampling, (0.0, largest)
            )

        audit = Audit()
        lone = np.setdiff1d(groups[groups >= 0], groups[at]).tolist()
        audit.count("lone_variants", len(lone), (side.gold.queries[row] for row in lone[:3]))
        return Paraphrases(
            k=side.rules.k,
            metric=base,
            groups=len(starts),
            queries=len(at),
            average=row(base, mean),
            worst=_over_groups(side.row(worst)),
            spread=_over_groups(side.row(spread)),
            deviation=row("deviation", deviation, _LARGEST),
            flips=row("flips", flips.astype(np.float64)),
            flipped=int(flips.sum()),
            all_or_nothing=int((flips & (highest >= 1 - SAME)).sum()),
            examples=_examples(side, at, values, starts, counts),
            counted=list(audit),
        )


def _over_groups(row: SummaryRow) -> SummaryRow:
    """Queries that are not the first of their group are not undefined groups."""
    return msgspec.structs.replace(row, undefined=0)


def _examples(side: Result, at: Ints, values: Floats, starts: Ints, counts: Ints) -> list[VariantGroup]:
    found = []
    spreads = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    for group in np.argsort(-spreads, kind="stable")[:_EXAMPLES].tolist():
        if spreads[group] <= SAME:
            break
        own = slice(starts[group], starts[group] + counts[group])
        rows = side.rows[at[own]].tolist()
        wordings = [
            Wording(side.gold.queries[row], side.gold.text(row), value)
            for row, value in zip(rows, values[own].tolist(), strict=True)
        ]
        best_first = sorted(wordings, key=lambda one: -one.value)
        found.append(VariantGroup(side.gold.queries[rows[0]], float(spreads[group]), best_first))
    return found


def _metrics(k: int) -> list[str]:
    return [f"recall@{k}", f"worst_variant@{k}", f"variant_spread@{k}"]
