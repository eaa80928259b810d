"""HITS: what one system returned, in slices of whole queries."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit, Entry
from karat.data.bulk import Bulk
from karat.data.ids import Bools, DocRule, Floats, Hashes, Ints, hashes_if_needed, may_repeat, take
from karat.data.score_order import ScoreOrder, ranks_are_places, score_order
from karat.errors import ConfigError

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.data.gold import Gold
    from karat.data.ids import Ids

# Columns of a hit that cost time and memory. They are read only on request.
METADATA = "metadata"
OPTIONAL_COLUMNS = frozenset({"text", "doc_version", "source", "tokens", METADATA})
SIZES = "sizes"  # requested beside `tokens` and `text`: texts are only needed of hits without tokens
WRITTEN = "written"  # field of a query whose id the run spells differently: its spelling
OTHER_TIMES = "other_times"  # field of a query whose rows have several times: which ones
# What the user may say about scores: which end is best, or that the order of the hits is the ranking.
ScoreMeaning: TypeAlias = Literal["higher-is-better", "lower-is-better", "as-listed"]
_SHARE = 8  # rows are many if they are more than one in so many
DISTANCE = r"(?i)distance|(?<![a-z])(?:dist|l2)(?![a-z])"  # names of scores that are distances
# Other lists of a query: before reranking, and for the query before rewriting.
OTHER_LISTS = ("raw", "topk_original")
STEPS = "steps"  # all lists of a query with several searches, joined in order of first appearance
SEARCHES = "searches"  # the same; a line without steps is one search. Its hits have the column FOUND_AT
FOUND_AT = "found_at"  # (search, rank) of each place where a hit was, in order; both from 1


def step_lists(step: int) -> str:
    """Name of the lists of one search, counted from 1."""
    return f"step {step}"


def step_of(name: str) -> int | None:
    """The search that these lists are of; None for other lists."""
    found = re.fullmatch(r"step ([1-9]\d{0,3})", name) if name.startswith("step ") else None
    return None if found is None else int(found[1])


def is_other_list(name: str) -> bool:
    """Whether a line of a run may have these lists beside its final one."""
    return name in (*OTHER_LISTS, STEPS, SEARCHES) or step_of(name) is not None


class Hits(Bulk, frozen=True):
    """Some whole queries of one system: query i owns rows offsets[i] … offsets[i+1] of every column."""

    system: str
    queries: list[str]
    offsets: Ints
    ids: Ids
    score: Floats | None = None  # NaN where a hit has none
    rank: Floats | None = None  # NaN where a hit has none; never set where the format's score decides
    docs: Ids | None = None  # document of each hit where the log has it ("" = not given)
    columns: dict[str, list[Any]] = {}  # requested OPTIONAL_COLUMNS
    latency: dict[str, Floats] = {}  # stage → ms per query, NaN where not measured
    fields: dict[str, list[Any]] = {}  # other data of a query, None = not given
    lines: Ints | None = None  # line of each query in its file
    written: bytes | None = None  # the bytes that the ids were read from
    others: dict[str, Hits] = msgspec.field(
        default_factory=dict
    )  # requested OTHER_LISTS and lists of steps, for the queries that have one
    turned: bool | None = None  # True: scores were distances, and are negated; None: unknown
    places: Ints | None = None  # one number per query: where Run.look can read it again; None = it cannot
    rowwise: bool = False  # hits were rows of a table: their order may mean nothing
    scattered: bool = False  # and the rows of a query were not adjacent
    score_field: str | None = None  # the name of scores in the file, if it differs
    distance_field: str | None = None  # hits have no score, but a field that is named like a distance
    distances_rise: bool = False  # and it rises down the lists, as far as known
    counted: tuple[Entry, ...] = ()  # what the reader counted since its previous slice

    @cached_property
    def hashed(self) -> Hashes | None:
        """A hash of every id, shared by all lookups; None where ids are looked up in another way."""
        return hashes_if_needed(self.ids)

    def with_hashes(self, hashed: Hashes) -> Hits:
        """Say the hashes of the ids, where a reader knows them already."""
        self.__dict__["hashed"] = hashed
        return self

    def doc_hashes(self, rule: DocRule) -> Hashes:
        """A hash of every id's document, by its id."""
        made: dict[str, Hashes] = self.__dict__.setdefault("_doc_hashes", {})
        if rule.rule not in made:
            made[rule.rule] = rule.doc_hashes(self.ids)
        return made[rule.rule]

    @cached_property
    def may_repeat(self) -> bool:
        """Whether some id may occur twice in its list; never False when one does."""
        return may_repeat(self.ids, self.offsets, self.hashed)

    @cached_property
    def ranked_as_listed(self) -> bool:
        """Whether every rank is the place of its hit in its list."""
        return self.rank is not None and ranks_are_places(self.rank, self.offsets)

    @cached_property
    def counts(self) -> Ints:
        """Hits of each query."""
        return self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def query_of_row(self) -> Ints:
        return np.repeat(np.arange(len(self.queries)), self.counts)

    def score_order(self, width: int | None = None) -> ScoreOrder:
        """How the scores of each list are ordered, compared at this many bits; None: it does not matter how many."""
        made: dict[int, ScoreOrder] = self.__dict__.setdefault("score_orders", {})
        width = width or next(iter(made), 32)
        if width not in made:
            assert self.score is not None
            made[width] = score_order(self.score, self.offsets, width)
        return made[width]

    def query_at(self, rows: Ints) -> Ints:
        """The query of some rows."""
        if _SHARE * len(rows) > self.offsets[-1]:
            return self.query_of_row[rows]
        return np.searchsorted(self.offsets, rows, "right") - 1

    def with_scores(self, meaning: ScoreMeaning) -> Hits:
        """With the order that the user asked for."""
        if meaning != "as-listed":
            return self.with_best_highest(meaning == "lower-is-better")
        query = self.query_of_row
        return replace(self, rank=(np.arange(len(query)) - self.offsets[query] + 1).astype(np.float64))

    def with_best_highest(self, distances: bool) -> Hits:
        """With scores where the highest is best; distances are negated."""
        turned = self.turned or False
        return replace(
            self, score=self.score if self.score is None or distances == turned else -self.score, turned=distances
        )

    def select_queries(self, keep: Bools) -> Hits:
        kept = self.select_rows(np.flatnonzero(np.repeat(keep, self.counts)), self.counts)
        picked = np.flatnonzero(keep).tolist()
        return replace(
            kept,
            queries=[self.queries[i] for i in picked],
            offsets=np.append(0, np.cumsum(self.counts[keep])),
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
        """The given rows, in the given order; the rows of a query must stay together."""
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


class SaidLate(Exception):
    """Hits have an optional column, although `Run.may_say` found none: read again, and ask for it."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class NoLists(Exception):
    """The run has no lists of this kind."""


class Run(ABC):
    """One file or object with the hits of one or more systems. It can be read repeatedly."""

    label: str = "run"
    threaded: bool = False  # whether reading uses several cores by itself
    overlap_hint: str = "name the field with the gold set's ids: --map query_id=FIELD"  # if no query is in the gold set
    watched: frozenset[str] = frozenset()  # optional columns: `slices` raises SaidLate if a hit has one
    knows_columns: bool = True  # whether `may_say` knows; otherwise it always says True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"

    @abstractmethod
    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        """Yield slices of whole queries; each query of a system appears once. May raise Ungrouped.

        `lists`: which of OTHER_LISTS and lists of steps to return in `Hits.others`. A run without them leaves `others`
        empty.
        """

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Inside, the first slices may be read in the background, before they are asked for."""
        yield

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

    def match_queries(self, gold: Gold) -> None:  # noqa: B027 — most runs have the ids of the gold set
        """Find the queries of the gold set by their text, where the run has no ids. Call before reading."""

    def match_texts(self, corpus: Corpus) -> None:  # noqa: B027 — most hits have ids
        """Find hits without an id in the corpus by their text. Call before reading."""

    def grouped(self) -> Run:
        """The same run with every query's hits together; use it after Ungrouped."""
        return self

    def parts(self, least: int) -> list[Run] | None:
        """The same run in several parts, each of at least this many bytes, with whole queries and in order. They can be
        sent to other processes. None where the run is small, or cannot be read from the middle."""
        return None

    def notes(self) -> Any:
        """What a part collected, for `take_notes` of the whole run."""
        return None

    def take_notes(self, notes: Any) -> None:  # noqa: B027 — most parts have no notes
        """Take what a part collected; parts come in order."""

    def lists(self, name: str) -> Run:
        """The same run with the lists before reranking (`raw`) or of the query before rewriting (`topk_original`).

        Queries that have none are left out. Raises NoLists, now or when it is read, where no query has one.
        """
        raise NoLists(name)

    def provenance(self) -> dict[str, Any]:
        """What is known about the run apart from its hits, once it has been read."""
        return {}

    def said(self, system: str, field: str) -> list[Any]:
        """The different values (at most a hundred) of a provenance field in the records of a system read so far."""
        return []

    def may_say(self, column: str) -> bool:
        """Whether hits may have this optional column, before they are read. False: none has, or `slices` will raise
        SaidLate."""
        return False

    def opening(self) -> dict[str, Any]:
        """The first record, for facts that are needed before the run is read; empty where there is none."""
        return {}


class LentRun(Run):
    """Lists for the systems of another run: each for the system of the same name, or one for all of them."""

    def __init__(self, run: Run, systems: set[str]) -> None:
        self._run, self._systems = run, systems
        self.label: str = run.label

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        first: str | None = None
        for hits in self._run.slices(columns, audit):
            first = hits.system if first is None else first
            if first in self._systems:
                if hits.system in self._systems:
                    yield hits
            elif hits.system != first:
                what = f"several systems ({first!r}, {hits.system!r} …), none of which is a system of the run"
                hint = "keep one system in this file, or use the run's names: " + ", ".join(sorted(self._systems))
                raise ConfigError(what, code="several-systems", file=self.label, hint=hint)
            else:
                yield from (replace(hits, system=system) for system in sorted(self._systems))

    def grouped(self) -> Run:
        return LentRun(self._run.grouped(), self._systems)
