"""Several searches per query: what each one adds, what is wasted, and where hops are lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.audit import Audit, Entry
from karat.data.gold import HOPS
from karat.data.ids import Ints
from karat.results.analyses.base import Analysis, NotAsked, Setup
from karat.results.summary import SummaryRow, mean_row
from karat.scoring.metrics.searches import SEARCHED, Search, SearchedQuery
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

_METRICS = ("union_recall", "steps", "wasted_steps", "relevant_per_step")
_HOP_METRICS = ("hops_covered", "all_hops")
_ROWS = 10  # the last row has all later searches, or hops
_EXAMPLES = 5


class Spent(msgspec.Struct, frozen=True):
    """Time or money of the searches for which it is known."""

    searches: int
    total: float
    share: float | None  # of all searches for which it is known
    per_relevant: float | None  # for each relevant item that these searches found first; null: they found none


class SearchStep(msgspec.Struct, frozen=True):
    """The n-th search of the queries."""

    number: int  # from 1
    onwards: bool  # with all later searches
    queries: int  # that have it
    searches: int
    recall: SummaryRow  # of all queries after this search; those without it keep what they had
    alone: float | None  # mean recall of this search by itself
    new: int  # relevant items that no earlier search found
    share: float | None  # of all relevant items that were found
    wasted: int  # searches without a new relevant item
    repeated: int  # searches with the same hits as an earlier one
    time: Spent | None  # ms
    cost: Spent | None


class LostHop(msgspec.Struct, frozen=True):
    """The n-th hop of the queries, and where it was lost."""

    number: int
    onwards: bool
    hops: int
    covered: int  # by the final list
    lost: dict[str, int]  # search → hops that it should have found; a search from 1
    stopped: int  # no search came after the hop before it was covered
    dropped: int  # a search found it, and the final list does not have it

    @property
    def missing(self) -> int:
        return self.hops - self.covered


class FirstLoss(msgspec.Struct, frozen=True):
    """The first hop that the final list of a query does not cover."""

    hop: int  # from 1
    search: int  # that should have found it; 0: no search was left, or one found it
    found_by: int  # the search that found it; 0: none


class SearchExample(msgspec.Struct, frozen=True):
    """A query with wasted searches or a lost hop."""

    query: str
    searches: int
    wasted: int
    repeated: int
    found: int
    relevant: int
    lost: FirstLoss | None  # null: no hop was lost
    asked: list[str]  # queries of the wasted searches, as far as logged


class Searches(msgspec.Struct, frozen=True):
    """The searches of queries with relevant gold."""

    queries: int
    searches: int
    wasted: int
    repeated: int
    found: int  # relevant items
    metrics: list[SummaryRow]
    per_relevant: SummaryRow | None  # searches per relevant item; null: none was found
    steps: list[SearchStep]
    time: Spent | None
    cost: Spent | None
    currency: str | None
    hops: list[LostHop]
    hop_metrics: list[SummaryRow]
    examples: list[SearchExample]
    counted: list[Entry] = []  # for the audit

    @property
    def worst_hop(self) -> LostHop | None:
        """The hop that is lost most often."""
        return max((hop for hop in self.hops if hop.missing), key=lambda hop: (hop.missing, -hop.number), default=None)


class SearchesAnalysis(Analysis):
    """Follows the searches of each query, as logged in `steps`, and the hops of the gold set."""

    name = "searches"
    title = "Searches"
    finds: ClassVar[type[msgspec.Struct]] = Searches

    def need(self, setup: Setup) -> Need:
        hops = any(setup.gold.fields.get(HOPS) or ())
        if not setup.stepped and not hops:
            raise NotAsked
        return Need(metrics=(*_METRICS, *(_HOP_METRICS if hops else ())), facts=frozenset({SEARCHED}))

    def find(self, side: Result) -> Searches:
        relevant = side.gold.count_items(side.gold.grades > 0)[side.rows]
        told = [
            _Told(at, query, int(relevant[at]), [Search(*one) for one in made.searches], made.hops, made.final)
            for at, (query, said) in enumerate(zip(side.queries, side.facts(SEARCHED), strict=True))
            if said and relevant[at] and (made := SearchedQuery(*said))
        ]
        longest = max((len(one.searches) for one in told), default=0)
        hops = _hops(told)
        if not hops and longest < 2:
            raise NotAsked
        every = [search for one in told for search in one.searches]
        found = sum(search.new for search in every)
        prices = side.rules.prices
        return Searches(
            queries=len(told),
            searches=len(every),
            wasted=sum(search.new == 0 for search in every),
            repeated=sum(search.repeated for search in every),
            found=found,
            metrics=[side.row(name) for name in _METRICS],
            per_relevant=_inverse(side.row("relevant_per_step")),
            steps=_steps(side, told, longest, relevant) if longest > 1 else [],
            time=_spent(every, every, "ms"),
            cost=_spent(every, every, "cost"),
            currency=None if prices is None else prices.currency,
            hops=hops,
            hop_metrics=[side.row(name) for name in _HOP_METRICS] if hops else [],
            examples=_examples(told),
            counted=_unknown(told),
        )


class _Told(msgspec.Struct, frozen=True):
    at: int  # in the result
    query: str
    relevant: int
    searches: list[Search]
    hops: list[int]
    final: list[bool]

    @property
    def wasted(self) -> list[Search]:
        return [search for search in self.searches if not search.new]

    @property
    def found(self) -> int:
        return sum(search.new for search in self.searches)

    def lost_in(self, hop: int) -> int | None:
        """The search that should have found a hop: the first one after the last covered hop before it. 0: there was no
        such search. None: a search found it."""
        if self.hops[hop]:
            return None
        expected = 1 + max(self.hops[:hop], default=0)
        return expected if expected <= len(self.searches) else 0


def _steps(side: Result, told: Sequence[_Told], longest: int, relevant: Ints) -> list[SearchStep]:
    every = [search for one in told for search in one.searches]
    rows = []
    for number in range(1, min(longest, _ROWS) + 1):
        end = longest if number == _ROWS else number
        here = [search for one in told for search in one.searches[number - 1 : end]]
        recall = np.where(relevant > 0, 0.0, np.nan)  # queries that the run lacks found nothing
        for one in told:
            recall[one.at] = sum(search.new for search in one.searches[:end]) / one.relevant
        alone = [one.searches[number - 1].found / one.relevant for one in told if len(one.searches) >= number]
        new, whole = sum(search.new for search in here), sum(search.new for search in every)
        rows.append(
            SearchStep(
                number=number,
                onwards=end > number,
                queries=len(alone),
                searches=len(here),
                recall=mean_row(f"recall after search {end}", recall, side.columns.clusters, side.sampling),
                alone=None if end > number else math.fsum(alone) / len(alone),
                new=new,
                share=new / whole if whole else None,
                wasted=sum(search.new == 0 for search in here),
                repeated=sum(search.repeated for search in here),
                time=_spent(here, every, "ms"),
                cost=_spent(here, every, "cost"),
            )
        )
    return rows


def _spent(some: Iterable[Search], every: Iterable[Search], name: str) -> Spent | None:
    known = [(getattr(one, name), one.new) for one in some if getattr(one, name) is not None]
    if not known:
        return None
    total, found = math.fsum(value for value, _ in known), sum(new for _, new in known)
    whole = math.fsum(value for one in every if (value := getattr(one, name)) is not None)
    return Spent(len(known), total, total / whole if whole else None, total / found if found else None)


def _inverse(row: SummaryRow) -> SummaryRow | None:
    """Searches per relevant item from relevant items per search: the ends of the interval change places."""
    if not row.mean:
        return None
    low, high = (1 / end if end else None for end in (row.high, row.low))
    if low is None or high is None:
        low = high = None
    return SummaryRow(
        "steps per relevant item", row.n, row.undefined, 1 / row.mean, low, high, few=row.few, narrow=row.narrow
    )


def _hops(told: Sequence[_Told]) -> list[LostHop]:
    rows = []
    most = max((len(one.hops) for one in told), default=0)
    for number in range(1, min(most, _ROWS) + 1):
        end = most if number == _ROWS else number
        pairs = [(one, hop) for one in told for hop in range(number - 1, min(end, len(one.hops)))]
        places = Counter(one.lost_in(hop) for one, hop in pairs if not one.final[hop])
        dropped, stopped = places.pop(None, 0), places.pop(0, 0)
        lost = {str(place): count for place, count in sorted(places.items(), key=lambda pair: pair[0] or 0)}
        covered = len(pairs) - dropped - stopped - sum(places.values())
        rows.append(LostHop(number, end > number, len(pairs), covered, lost, stopped, dropped))
    return rows


def _examples(told: Sequence[_Told]) -> list[SearchExample]:
    """Queries that lost a hop first, then those with the most wasted searches."""

    def weight(one: _Told) -> tuple[int, int, str]:
        return (-one.final.count(False), -len(one.wasted), one.query)

    shown = sorted((one for one in told if not all(one.final) or (one.wasted and len(one.searches) > 1)), key=weight)
    return [
        SearchExample(
            query=one.query,
            searches=len(one.searches),
            wasted=len(one.wasted),
            repeated=sum(search.repeated for search in one.searches),
            found=one.found,
            relevant=one.relevant,
            lost=None if all(one.final) else _loss(one, one.final.index(False)),
            asked=[search.query for search in one.wasted if search.query][:3],
        )
        for one in shown[:_EXAMPLES]
    ]


def _loss(one: _Told, hop: int) -> FirstLoss:
    return FirstLoss(hop + 1, one.lost_in(hop) or 0, one.hops[hop])


def _unknown(told: Sequence[_Told]) -> list[Entry]:
    """Steps of unknown time or cost, if others have it. A single search is no step: its time is that of its query."""
    audit = Audit()
    told = [one for one in told if len(one.searches) > 1]
    for name, code in (("ms", "untimed_searches"), ("cost", "unpriced_searches")):
        unknown = [one for one in told if any(getattr(search, name) is None for search in one.searches)]
        count = sum(getattr(search, name) is None for one in unknown for search in one.searches)
        if count < sum(len(one.searches) for one in told):
            audit.count(code, count, (one.query for one in unknown))
    return list(audit)
