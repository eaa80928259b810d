"""Entity linking: how many entities were recognised, and which were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import msgspec

from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import SummaryRow
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.data.entities import Link, Links
    from karat.results.result import Result

_KINDS = ("precision", "recall", "f1")
_LINKED = [f"entity_{kind}{average}" for kind in _KINDS for average in ("", "(average=micro)")]
_NIL = [f"entity_{kind}({form}of=nil)" for kind in _KINDS for form in ("", "average=micro,")]
_SHOWN = 5


class Often(msgspec.Struct, frozen=True):
    """An entity, and its number of links."""

    id: str
    times: int


class Linked(msgspec.Struct, frozen=True):
    """Links to entities, and separately mentions without one (NIL)."""

    queries: int  # with entities on both sides
    wanted: int
    linked: int
    right: int
    scores: list[SummaryRow]  # precision, recall and F1, by query and by link
    missed: list[Often]  # entities that were not linked, most often first
    wrong: list[Often]  # entities that should not have been linked
    nil_wanted: int
    nil_said: int
    nil_right: int
    nil_scores: list[SummaryRow]  # empty if neither side has any


class EntityAnalysis(Analysis):
    """Compares `entities` in the run log with those in the gold set."""

    name = "entities"
    title = "Entity linking"
    finds: ClassVar[type[msgspec.Struct]] = Linked

    def need(self, setup: Setup) -> Need:
        if setup.gold.fields.get("entities") is None:
            raise Lacking("`entities` in the gold set")
        return Need(metrics=[*_LINKED, *_NIL], facts=frozenset({"entities"}))

    def find(self, side: Result) -> Linked:
        said = side.facts("entities")
        if all(entities is None for entities in said):
            raise Lacking("`entities` in the run log")
        every = list(_links(side))
        linked, nil = ([links.only(nil=only) for links in every] for only in (False, True))
        return Linked(
            queries=len(every),
            wanted=sum(links.gold.total() for links in linked),
            linked=sum(links.run.total() for links in linked),
            right=sum(links.right.total() for links in linked),
            scores=list(map(side.row, _LINKED)),
            missed=_often(links.gold - links.run for links in linked),
            wrong=_often(links.run - links.gold for links in linked),
            nil_wanted=sum(links.gold.total() for links in nil),
            nil_said=sum(links.run.total() for links in nil),
            nil_right=sum(links.right.total() for links in nil),
            nil_scores=[row for name in _NIL if (row := side.row(name)).n],
        )


def _links(side: Result) -> Iterable[Links]:
    from karat.data.entities import link

    wanted = side.gold.fields["entities"]
    for row, query, said in zip(side.rows.tolist(), side.queries, side.facts("entities"), strict=True):
        given = [] if query in side.missing else said
        if wanted[row] is not None and given is not None:
            yield link(wanted[row], given)


def _often(links: Iterable[Counter[Link]]) -> list[Often]:
    counts: Counter[str] = Counter()
    for some in links:
        for one, times in some.items():
            counts[str(one[-1])] += times
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Often(name, times) for name, times in ordered[:_SHOWN]]
