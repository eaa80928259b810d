"""Groups of queries that do worse than the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from karat.data.attributes import NOT_GIVEN
from karat.data.ids import Floats
from karat.errors import shorten
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import Evidence, LazyInterval
from karat.results.diagnosis.rule import Proof, RuleTable
from karat.results.numbers import enumerated, share_of
from karat.results.summary import FEW
from karat.statistics.significance import apart_p, holm

TABLE: RuleTable[Evidence] = RuleTable()
rule = TABLE.rule


@rule(
    "weak_segment",
    "Queries whose {attribute} is {values} do worse than the others.",
    "look at the worst of these queries: `karat eval … --segment {attribute}` shows the groups",
    "check that the documents they need are in the index",
    "add to the synonyms: these queries may use other words than the documents",
)
def weak_segment(e: Evidence) -> Iterator[Proof]:
    """Recall@5 of a group of 20 queries or more lies more than 10 points below that of all others, beyond chance after
    Holm's correction for the number of groups of all attributes."""
    values = e.reached("recall@5")
    # That hard queries do worse is no news: it is what the tag says.
    names = [name for name in e.attributes if name != "difficulty"]
    groups = [group for name in names for group in _groups(e, name, values)]
    adjusted = holm(np.array([group.p for group in groups])).tolist()
    doubt = 1 - e.sampling.level
    for name in names:
        weak = [
            (group, p)
            for group, p in zip(groups, adjusted, strict=True)
            if group.attribute == name and p < doubt and group.rest.value - group.own.value > at.WIDE
        ]
        if weak:
            yield _weak(name, weak, doubt)


class _Group:
    """A group of queries and all others."""

    def __init__(self, attribute: str, value: str, own: LazyInterval, rest: LazyInterval) -> None:
        self.attribute, self.value, self.own, self.rest = attribute, value, own, rest

    @property
    def p(self) -> float:
        if self.own.value >= self.rest.value:
            return 1.0
        return apart_p(self.own.value, self.own.limits[1], self.rest.value, self.rest.limits[0], self.own.level)


def _groups(e: Evidence, name: str, values: Floats) -> Iterator[_Group]:
    for value, rows in e.groups(name):
        inside = np.zeros(len(values), np.bool_)
        inside[rows] = True
        sizes = [int((~np.isnan(values[side])).sum()) for side in (inside, ~inside)]
        if value != NOT_GIVEN and min(sizes) >= FEW:
            own, rest = (np.where(side, values, np.nan) for side in (inside, ~inside))
            yield _Group(name, value, e.estimate(f"recall@5, {value}", own), e.estimate("recall@5, others", rest))


def _weak(name: str, weak: list[tuple[_Group, float]], doubt: float) -> Proof:
    weak = sorted(weak, key=lambda found: found[0].own.value)
    said = "; ".join(
        f"for {shorten(g.value, 40)}, {share_of(g.own)} of the right items that fit into the first 5 hits are there, "
        f"for all others {share_of(g.rest)}"
        for g, _ in weak
    )
    tongue = ("check for this language: stop words, accents, how words are split, its own words for things",)
    return Proof(
        2 if min(p for _, p in weak) < doubt / 5 else 1,
        f"{said[0].upper()}{said[1:]}. This allows for the number of groups that were looked at.",
        [number for g, _ in weak for number in (g.own.number, g.rest.number)],
        about={"attribute": name, "values": enumerated([shorten(g.value, 40) for g, _ in weak], "or")},
        first_try=tongue if "lang" in name.lower() or "locale" in name.lower() else (),
    )
