"""HITS: what one system returned, in slices of whole queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.ids import Bools, Floats, Hashes, Ints, hashes_if_needed, take
from karat.errors import ConfigError

if TYPE_CHECKING:
    from karat.data.ids import Ids

# Columns of a hit that cost time and memory, and are read only when something asks for them.
OPTIONAL_COLUMNS = frozenset({"text", "doc_version", "source", "tokens"})
WRITTEN = "written"  # field of a query whose id the run writes in another way: how
OTHER_TIMES = "other_times"  # field of a query whose rows have several times: which ones
# What the user may say of scores: which end is the best, or that the order of the hits is the ranking.
ScoreMeaning: TypeAlias = Literal["higher-is-better", "lower-is-better", "as-listed"]
# Lists a query can have besides the final one: before reranking, and for the query before rewriting.
OTHER_LISTS = ("raw", "topk_original")


class Hits(Bulk, frozen=True):
    """Some whole queries of one system: query i owns rows offsets[i] … offsets[i+1] of every column."""

    system: str
    queries: list[str]
    offsets: Ints
    ids: Ids
    score: Floats | None = None  # NaN where a hit has none
    rank: Floats | None = None  # NaN where a hit has none; never set where the format says that score decides
    docs: Ids | None = None  # document of each hit where the log says so ("" = not said)
    columns: dict[str, list[Any]] = {}  # OPTIONAL_COLUMNS that were asked for
    latency: dict[str, Floats] = {}  # stage → ms a query, NaN where not measured
    fields: dict[str, list[Any]] = {}  # other things said of a query, None = not said
    lines: Ints | None = None  # line of each query in its file
    written: bytes | None = None  # what the ids were read from: what is not in it is in none of them
    others: dict[str, Hits] = msgspec.field(
        default_factory=dict
    )  # requested OTHER_LISTS, for the queries that have one
    turned: bool | None = None  # True: scores were distances, and are negated; None: nobody says what they are
    places: Ints | None = None  # one number per query: where Run.look can read it again; None = cannot
    rowwise: bool = False  # hits were rows of a table: no list says that their order means something
    scattered: bool = False  # and the rows of a query were not together
    score_field: str | None = None  # where the file has scores under another name

    @cached_property
    def hashed(self) -> Hashes | None:
        """A hash of every id, once for all who look ids up; None where they are looked up in another way."""
        return hashes_if_needed(self.ids)

    @cached_property
    def query_of_row(self) -> Ints:
        return np.repeat(np.arange(len(self.queries)), np.diff(self.offsets))

    def with_scores(self, meaning: ScoreMeaning) -> Hits:
        """With an order as the user says that it is meant."""
        if meaning != "as-listed":
            return self.with_best_highest(meaning == "lower-is-better")
        query = self.query_of_row
        return replace(self, rank=(np.arange(len(query)) - self.offsets[query] + 1).astype(np.float64))

    def with_best_highest(self, distances: bool) -> Hits:
        """With scores of which the highest is the best; those that were distances are negated."""
        turned = self.turned or False
        return replace(
            self, score=self.score if self.score is None or distances == turned else -self.score, turned=distances
        )

    def select_queries(self, keep: Bools) -> Hits:
        counts = np.diff(self.offsets)
        kept = self.select_rows(np.flatnonzero(np.repeat(keep, counts)), counts)
        picked = np.flatnonzero(keep).tolist()
        return replace(
            kept,
            queries=[self.queries[i] for i in picked],
            offsets=np.append(0, np.cumsum(counts[keep])),
            latency={stage: ms[keep] for stage, ms in self.latency.items()},
            fields={name: [values[i] for i in picked] for name, values in self.fields.items()},
            lines=None if self.lines is None else self.lines[keep],
            places=None if self.places is None else self.places[keep],
            others=self._others_of({self.queries[i] for i in picked}),
        )

    def select_named(self, queries: Collection[str]) -> Hits | None:
        """Select queries by name; None if there are none."""
        keep = np.fromiter(map(queries.__contains__, self.queries), np.bool_, len(self.queries))
        return self if keep.all() and len(keep) else self.select_queries(keep) if keep.any() else None

    def _others_of(self, queries: set[str]) -> dict[str, Hits]:
        found = ((name, other.select_named(queries)) for name, other in self.others.items())
        return {name: other for name, other in found if other is not None}

    def select_rows(self, rows: Ints, counts: Ints | None = None) -> Hits:
        """The given rows, in the given order; queries stay, and must stay together."""
        if counts is None:
            counts = np.bincount(self.query_of_row[rows], minlength=len(self.queries))
        picked = rows.tolist() if self.columns else []
        return replace(
            self,
            offsets=np.append(0, np.cumsum(counts)),
            ids=take(self.ids, rows),
            score=None if self.score is None else self.score[rows],
            rank=None if self.rank is None else self.rank[rows],
            docs=None if self.docs is None else take(self.docs, rows),
            columns={name: [values[i] for i in picked] for name, values in self.columns.items()},
        )


class Ungrouped(Exception):
    """A query came back after its slice was handed out: the run must be read whole and grouped first."""


class NoLists(Exception):
    """The run keeps no lists of this kind."""


class Run(ABC):
    """One file or object with the hits of one or more systems. It can be read again and again."""

    label: str = "run"
    threaded: bool = False  # does reading use several cores by itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"

    @abstractmethod
    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        """Yield slices of whole queries; each query of a system comes once. May raise Ungrouped.

        `lists`: which of OTHER_LISTS to return in `Hits.others`. A run without them leaves `others` empty.
        """

    @property
    def can_look(self) -> bool:
        """Whether `look` reads only the requested queries, given their `places`."""
        return False

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        """Read some queries of one system again, in the order of the run. Unknown queries are left out.

        `places`: one per query, as returned by `slices`. `Hits.lines` may be missing in the answer.
        """
        wanted = set(queries)
        for hits in self.slices(columns, Audit()):
            found = hits.select_named(wanted) if hits.system == system else None
            if found is not None:
                yield found

    def grouped(self) -> Run:
        """The same run with every query's hits together; what to use after Ungrouped."""
        return self

    def parts(self, least: int) -> list[Run] | None:
        """The same run as several, each of at least so many bytes, with whole queries and in order; they can be sent to
        other processes. None where it is small, or cannot be read from the middle."""
        return None

    def notes(self) -> Any:
        """What a part learnt on the way, for `take_notes` of the whole."""
        return None

    def take_notes(self, notes: Any) -> None:  # noqa: B027 — most parts have nothing to tell
        """What a part learnt on the way; parts come in order."""

    def lists(self, name: str) -> Run:
        """The same run with the lists before reranking (`raw`) or of the query before rewriting (`topk_original`).

        Queries that have none are left out. Raises NoLists, now or when it is read, where no query has one.
        """
        raise NoLists(name)

    def provenance(self) -> dict[str, Any]:
        """What is known of the run besides its hits, once it was read."""
        return {}

    def said(self, system: str, field: str) -> list[Any]:
        """The different values (at most a hundred) of a provenance field in the records of a system read so far."""
        return []

    def may_say(self, column: str) -> bool:
        """Whether hits may have this optional column, before they are read; False where surely none has."""
        return False

    def opening(self) -> dict[str, Any]:
        """The first record, for what must be known of a run before it is read; empty where there is none."""
        return {}


class LentRun(Run):
    """Lists that serve the systems of another run: each its namesake, or all of them where there is but one."""

    def __init__(self, run: Run, systems: set[str]) -> None:
        self._run, self._systems = run, systems
        self.label = run.label

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        first: str | None = None
        for hits in self._run.slices(columns, audit):
            first = hits.system if first is None else first
            if first in self._systems:
                if hits.system in self._systems:
                    yield hits
            elif hits.system != first:
                what = f"several systems ({first!r}, {hits.system!r} …), none of which has the name of one of the run"
                hint = "keep one system in this file, or name them alike: " + ", ".join(sorted(self._systems))
                raise ConfigError(what, code="several-systems", file=self.label, hint=hint)
            else:
                yield from (replace(hits, system=system) for system in sorted(self._systems))

    def grouped(self) -> Run:
        return LentRun(self._run.grouped(), self._systems)
