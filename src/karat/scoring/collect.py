"""Parts of a run → everything that one pass measured for a system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.hits import Hits, Ungrouped
from karat.data.ids import Floats, Hashes, Ints, as_slice
from karat.formats.base import no_gc
from karat.scoring.doubts import SeenScores
from karat.scoring.judged import judge_missing
from karat.scoring.list_hashes import DEPTHS
from karat.scoring.metrics.forbidden import RuleUse
from karat.scoring.name_watch import SeenNames
from karat.scoring.one_pass import Golds, Part, PassRequest, measured_missing
from karat.scoring.table import JudgedTable, TablePart
from karat.scoring.top_lists import no_lists
from karat.scoring.views import Level, View

if TYPE_CHECKING:
    from karat.scoring.dates import OddVersion
    from karat.scoring.overlap import ThereFlags
    from karat.scoring.unjudged import OpenPart
    from karat.statistics.rank_overlap import Rankings

_UNKNOWN = 10_000
_LOOKED = 16  # values that tell most columns apart
Columns = dict[View, dict[str, Floats]]


class RunData(Bulk, frozen=True):
    """One system after the pass. Columns have one entry per query of the gold set."""

    system: str
    tables: Mapping[View, JudgedTable]
    values: Columns  # metrics that need the hits, NaN where undefined
    votes: Columns
    lacking: dict[str, str] = {}
    rule_use: RuleUse = RuleUse()
    facts: dict[str, list[Any]] = {}
    stages: dict[str, Floats] = {}
    names: SeenNames = msgspec.field(default_factory=SeenNames)
    slopes: SeenScores = msgspec.field(default_factory=SeenScores)
    odd_version: OddVersion | None = None
    unknown: list[str] = []  # the first queries that the gold set does not have
    hashes: Hashes | None = None  # 0 in the rows of queries that the run lacks
    tops: Rankings | None = None  # the first hits of each query; no list for queries that the run lacks
    places: Ints | None = None  # where each query can be read again, −1 = nowhere
    lists: list[Hits] = []  # the first hits of the queries
    opened: dict[Level, list[OpenPart]] = {}
    returned: ThereFlags | None = None  # which relevant gold items were returned for any query
    missing: frozenset[str] = frozenset()  # of a result without tables

    def joined(self, other: RunData) -> RunData:
        """With the views from another run."""
        return replace(
            self,
            tables={**self.tables, **other.tables},
            values=self.values | other.values,
            votes=self.votes | other.votes,
        )


def collect(parts: Iterable[Part], request: PassRequest, golds: Golds) -> dict[str, RunData]:
    """Every system of a run. Raises Ungrouped where a query comes back."""
    systems: dict[str, _Collector] = {}
    with no_gc():
        for part in parts:
            collector = systems.get(part.system)
            if collector is None:
                collector = systems[part.system] = _Collector(part.system, request, golds)
            collector.add(part)
    return {system: collector.finish() for system, collector in systems.items()}


def _shared(columns: dict[str, Floats]) -> dict[str, Floats]:
    """Equal columns as one array, so that it is counted once: latency and its quantiles have the same values."""
    known: dict[bytes, Floats] = {}

    def one(column: Floats) -> Floats:
        first = known.setdefault(column[:_LOOKED].tobytes(), column)
        # As whole numbers, since NaN differs from itself.
        return first if np.array_equal(first.view(np.int64), column.view(np.int64)) else column

    return {name: one(column) for name, column in columns.items()}


class _Collector:
    def __init__(self, system: str, request: PassRequest, golds: Golds) -> None:
        self.system, self.request, self.golds = system, request, golds
        self.size = len(golds.of(system, request.own).queries)
        self.tables: dict[View, list[TablePart]] = {}
        self.audits: dict[View, Audit] = {}
        self.values: Columns = {}
        self.votes: Columns = {}
        self.seen_rows: dict[View, Any] = {}
        self.first: Part | None = None
        self.lacking: dict[str, str] = {}
        self.rule_use: RuleUse = RuleUse()
        self.facts: dict[str, list[Any]] = {}
        self.stages: dict[str, Floats] = {}
        self.names, self.slopes = SeenNames(), SeenScores()
        self.odd_version: OddVersion | None = None
        self.unknown: list[str] = []
        self.hashes: Hashes | None = None
        self.tops: Rankings | None = None
        self.places: Ints | None = None
        self.lists: list[Hits] = []
        self.opened: dict[Level, list[OpenPart]] = {level: [] for level in request.open_levels}
        self.returned: list[tuple[Ints, Ints, Ints]] = []
        self.undefined: Floats = np.full(self.size, np.nan)  # shared by all columns without a value

    def add(self, part: Part) -> None:
        for view, table in part.tables.items():
            self._add_table(view, table, part)
        own = part.tables.get(self.request.own)
        if own is not None:
            self._add_own(part, own.queries)

    def _add_table(self, view: View, table: TablePart, part: Part) -> None:
        seen = self.seen_rows.get(view)
        if seen is None:
            seen = self.seen_rows[view] = np.zeros(self.size, np.bool_)
        rows = as_slice(table.queries)
        if seen[rows].any():
            raise Ungrouped
        seen[rows] = True
        self.tables.setdefault(view, []).append(table)
        self.audits.setdefault(view, Audit()).merge(part.audits[view])
        for into, found in ((self.values, part.values), (self.votes, part.votes)):
            for name, values in found.get(view, {}).items():
                columns = into.setdefault(view, {})
                if columns.get(name) is self.undefined or name not in columns:
                    columns[name] = self.undefined if np.isnan(values).all() else np.full(self.size, np.nan)
                if columns[name] is not self.undefined:
                    columns[name][rows] = values

    def _add_own(self, part: Part, queries: Ints) -> None:
        rows = as_slice(queries)
        self.lacking |= part.lacking
        self.rule_use |= part.rule_use
        for name, said in part.facts.items():
            if name not in self.facts:
                self.facts[name] = [None] * self.size
            column = self.facts[name]
            for row, value in zip(queries.tolist(), said, strict=True):
                column[row] = value
        for stage, times in part.stages.items():
            if stage not in self.stages:
                self.stages[stage] = np.full(self.size, np.nan)
            self.stages[stage][rows] = times
        if part.names is not None:
            self.names.add(part.names)
        if part.slopes is not None:
            self.slopes.add(part.slopes)
        self.odd_version = self.odd_version or part.odd_version
        self.unknown += part.unknown[: _UNKNOWN - len(self.unknown)]
        if part.hashes is not None:
            if self.hashes is None:
                self.hashes = np.zeros((self.size, len(DEPTHS) + 1), np.uint64)
            self.hashes[rows] = part.hashes
        if part.tops is not None:
            self.tops = no_lists(self.size, self.request.tops) if self.tops is None else self.tops
            self.tops.fill(queries, part.tops)
        if part.places is not None:
            self.places = np.full(self.size, -1) if self.places is None else self.places
            self.places[rows] = part.places
        if part.lists is not None:
            self.lists.append(part.lists)
        for level, opened in part.opened.items():
            self.opened[level].append(opened)
        if part.returned is not None:
            self.returned.append(part.returned)

    def finish(self) -> RunData:
        tables = {}
        for view, parts in self.tables.items():
            gold = self.golds.of(self.system, view)
            table = JudgedTable.joined(gold, parts, self.audits[view])
            if view.lists != self.request.main and not table.present.any():
                continue  # other lists, only for queries that the gold set does not have
            tables[view] = table
            self._add_missing(view, tables[view])
        return RunData(
            system=self.system,
            tables=tables,
            values={view: _shared(columns) for view, columns in self.values.items()},
            votes=self.votes,
            lacking=self.lacking,
            rule_use=self.rule_use,
            facts=self.facts,
            stages=self.stages,
            names=self.names,
            slopes=self.slopes,
            odd_version=self.odd_version,
            unknown=self.unknown,
            hashes=self.hashes,
            tops=self.tops,
            places=self.places,
            lists=self.lists,
            opened=self.opened,
            returned=self._flags() if self.request.returned else None,
        )

    def _flags(self) -> ThereFlags:
        none = np.zeros(0, np.int64)
        found = [np.concatenate(parts) for parts in zip((none, none, none), *self.returned, strict=True)]
        return self.golds.returned(self.system, self.request).flags(*found)

    def _add_missing(self, view: View, table: JudgedTable) -> None:
        """Fill in queries that the run does not have, in the metrics that need hits."""
        missing = np.flatnonzero(~table.present)
        if not len(missing) or not self.request.views[view]:
            return
        judged = judge_missing(table.gold, missing, view.rules(self.request.rules))
        values, votes = measured_missing(judged, self.request.views[view])
        for into, found in ((self.values, values), (self.votes, votes)):
            for name, column in found.items():
                columns = into.setdefault(view, {})
                columns[name] = columns.get(name, self.undefined).copy()
                columns[name][missing] = column
