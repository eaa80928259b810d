"""The result of an evaluation: judged tables, columns, audit and provenance. All else is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.attributes import cluster_numbers, segment_groups, segment_title
from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.ids import Floats, Ints
from karat.data.presented import Presented, above
from karat.errors import UnknownName
from karat.results.analyses.base import Lacking, Setup
from karat.results.bm25_baseline import mark_depth
from karat.results.context import Context, Precomputed
from karat.results.diagnosis.bands import EDGES, Reading, readings
from karat.results.diagnosis.finding import Finding
from karat.results.queries.lists import ListReader
from karat.results.summary import FEW, Scores, SegmentRow, SummaryRow, is_outage, nullable, summarise, summary_row
from karat.scoring.ceilings import Bounds, Ceilings, Extremes, Floors
from karat.scoring.collect import RunData
from karat.scoring.doubts import Doubts
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Judged, Rules, cutoffs
from karat.scoring.metrics.base import Metric, share
from karat.scoring.metrics.grammar import parse_metric, parse_metrics
from karat.scoring.unjudged import Lists, lists_of
from karat.scoring.views import BM25, OWN, Level, View
from karat.statistics.sampling import Sampling
from karat.statistics.tally import Tallies

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from karat.data.corpus import Corpus
    from karat.results.analyses.base import Analyses
    from karat.results.comparison.drift import Drift
    from karat.results.power import Plan
    from karat.results.queries.triage import Triage
    from karat.results.sweep import Sweep

_GROUPS, _TAGS = 15, 5
DEFAULT_KS = (1, 3, 5, 10, 20)  # of a sweep
DETECT = 0.03  # the default difference that a query set should detect


class Result(Presented, Bulk, frozen=True):
    """One system measured on one gold set. Columns have one entry per query.

    `result["recall@5"]` is one metric with its interval: `.mean`, `.low`, `.high`, `.n`.
    """

    system: str
    run: str
    gold: Gold
    rules: Rules
    data: RunData
    view: View
    rows: Ints  # which queries of the gold set, in its order
    metrics: list[Metric]
    values: dict[str, Floats]
    votes: dict[str, Floats] = {}  # weight of each query in the mean, if not all are 1
    background: tuple[str, ...] = ()  # metrics that only the diagnosis uses
    audit: Audit = msgspec.field(default_factory=Audit)
    provenance: dict[str, Any] = {}
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    cluster: str | None = None  # the attribute that groups queries
    segmented_by: tuple[str, ...] = ()
    context: Context = msgspec.field(default_factory=Context)
    doubts: Doubts = msgspec.field(default_factory=Doubts)  # why scores may say nothing about the retriever
    lists: ListReader | None = None  # the first hits of the queries; None for a result from a file
    known: Precomputed | None = None  # for a result from a file
    memo: dict[Any, Any] = {}  # computed values

    @cached_property
    def queries(self) -> list[str]:
        if len(self.rows) == len(self.gold.queries):
            return self.gold.queries
        return [self.gold.queries[i] for i in self.rows.tolist()]

    @property
    def corpus(self) -> Corpus | None:
        return self.context.corpus

    @property
    def labelling(self) -> Labelling:
        return self.context.labelling

    @property
    def setup(self) -> Setup:
        """What was known before the run was read."""
        return self.context.setup(self.gold, self.rules, self.metrics)

    @cached_property
    def depths(self) -> Ints:
        """Number of hits of each query."""
        table = self.data.tables.get(self.view)
        return np.zeros(0, np.int64) if table is None else self._here(table.depth)

    @cached_property
    def places(self) -> Ints:
        """Rank of each gold item in the list of its query; 0: not in it."""
        table = self.data.tables.get(self.view)
        return np.zeros(0, np.int64) if table is None else table.places

    @cached_property
    def missing(self) -> frozenset[str]:
        """Queries missing from the run, scored as failed."""
        table = self.data.tables.get(self.view)
        if table is None:
            return self.data.missing
        absent = self.rows[~table.present[self.rows]]
        return frozenset(self.gold.queries[i] for i in absent.tolist())

    def facts(self, name: str) -> list[Any]:
        """A fact that the run logged for each query; None: not logged."""
        said = self.data.facts.get(name)
        return [None] * len(self.rows) if said is None else [said[row] for row in self.rows.tolist()]

    def has_fact(self, name: str) -> bool:
        """Whether the run logged a fact for some query."""
        return name in self.data.facts

    @cached_property
    def stages(self) -> dict[str, Floats]:
        """Stage → ms per query, if a time metric was requested."""
        return {stage: self._here(times) for stage, times in self.data.stages.items()}

    def _here(self, column: NDArray[Any]) -> NDArray[Any]:
        """A column of all queries for those of this result: no copy if it has all, so that it is counted once."""
        return column if len(self.rows) == len(column) else column[self.rows]

    @property
    def missing_share(self) -> float:
        """Share of the answerable queries that are missing from the run (scored as failed or skipped) or have an
        error."""
        skipped = self.audit["missing_skipped"]
        left_out = skipped + self.audit["missing_no_answer"] if self.rules.missing == "skip" else 0
        answerable = len(self.rows) + left_out - self.audit["no_answer_queries"]
        lacking = self.audit["missing_queries"] + skipped + self.audit["failed_queries"]
        return min(lacking / max(answerable, 1), 1.0)

    @property
    def wrong_hits_judged(self) -> bool | None:
        """Whether the gold marks items as not relevant; None: a file does not say."""
        if self.known is not None and not len(self.gold.grades):
            return self.known.wrong_hits_judged
        return bool((self.gold.grades == 0).any())

    @property
    def definitions(self) -> dict[str, int]:
        """Version of each metric's definition."""
        now = {str(m): m.version for m in self.metrics}
        return now if self.known is None else now | self.known.definitions

    def counterpart(self, metric: Metric) -> str | None:
        """The evidence-text metric to use instead of an id-based metric that is undefined for every query, if the gold
        set has evidence texts."""
        if metric.by_text is None or not any(self.gold.fields.get("evidence", ())):
            return None
        if str(metric) not in self.values or not np.isnan(self.values[str(metric)]).all():
            return None
        return f"{metric.by_text}@{metric.k or self.rules.k}"

    def measure(self, metrics: Iterable[str | Metric], view: View | None = None) -> Result:
        """The same run in other metrics or another view. Raises Lacking if the pass did not collect the data."""
        asked, at = parse_metrics(metrics), self.view if view is None else view
        key = ("measure", at, *map(str, asked))
        if key not in self.memo:
            self.memo[key] = self._measure(asked, at)
        return self.memo[key]  # type: ignore[no-any-return]

    def also(self, metrics: Iterable[str | Metric]) -> Result:
        """The same result with those of the metrics that it has the data for."""
        more = [metric for metric in parse_metrics(metrics) if metric not in self.metrics and self._can_measure(metric)]
        return self.measure([*self.metrics, *more]) if more else self

    def _can_measure(self, metric: Metric) -> bool:
        try:
            self.measure([metric])
        except Lacking:
            return False
        return True

    def _measure(self, asked: list[Metric], view: View) -> Result:
        table = self.data.tables.get(view)
        if table is None:
            return self._of_file(asked, view)
        rows = self._rows(view, table.present)
        every = len(rows) == len(table.present)  # then columns are not copied
        values: dict[str, Floats] = {}
        votes: dict[str, Floats] = {}
        for metric in asked:
            name, at = str(metric), view.of(metric)
            found = self.data.values.get(at, {}).get(name)
            if found is not None:
                values[name] = found if every else found[rows]
                said = self.data.votes.get(at, {}).get(name)
                said = said if every or said is None else said[rows]
            elif metric.needs_hits:
                raise Lacking(f"{name} in the evaluation: it looks at the hits themselves")
            else:
                judged = self._judged(at, rows)
                values[name], said = metric.score(judged), metric.votes(judged)
            if said is not None:
                votes[name] = said
        audit = self.audit if view == self.view else Audit.merged(table.gold.audit, table.audit)
        return replace(
            self, view=view, rows=rows, metrics=asked, values=values, votes=votes, background=(), audit=audit
        )

    def _of_file(self, asked: list[Metric], view: View) -> Result:
        """A result saved by Karat 0.1, which has scores but no judged hits."""
        absent = [str(metric) for metric in asked if str(metric) not in self.values]
        if view != self.view or not (self.known and self.metrics):
            raise Lacking(f"`{view.lists}` in the run log")
        if absent:
            raise Lacking(f"{', '.join(absent)} in the saved result: run `karat eval … -o result.json` again")
        return replace(self, metrics=asked)

    def _rows(self, view: View, present: Any) -> Ints:
        failed = self.rules.missing == "worst" and view.lists in (OWN, BM25)
        return np.arange(len(present)) if failed else np.flatnonzero(present)

    def _judged(self, view: View, rows: Ints) -> Judged:
        key = ("judged", view)
        if key not in self.memo:
            table = self.data.tables.get(view)
            if table is None:
                raise Lacking("scores by document in the evaluation: name a metric with level=doc")
            self.memo[key] = table.judged(rows, view.rules(self.rules))
        return self.memo[key]  # type: ignore[no-any-return]

    def unjudged_lists(self, level: Level) -> Lists:
        """The lists with all their unjudged hits. Raises Lacking if they were not requested."""
        parts, view = self.data.opened.get(level), self.view.but(level=level)
        if parts is None:
            raise Lacking("the run itself: a saved result keeps no hits")
        return lists_of(self.data.tables[view], parts, view.rules(self.rules))

    @cached_property
    def columns(self) -> Scores:
        """The scores with everything their means depend on."""
        clusters = None if self.cluster is None else cluster_numbers(self.gold, self.cluster)[self.rows]
        return Scores(self.metrics, self.values, self.votes, clusters, self._extremes, self._tallies)

    @property
    def _tallies(self) -> Tallies:
        return self.memo.setdefault("tallies", {})  # type: ignore[no-any-return]

    @cached_property
    def _extremes(self) -> Extremes | None:
        """None for a result of Karat 0.1, which keeps no gold."""
        if not self.data.tables:
            return None
        longest = int(self.depths.max(initial=0))
        return Extremes(self.ceilings, cutoffs(self.gold, self.rows, self.rules), longest)

    @cached_property
    def ceilings(self) -> Bounds:
        """Metric → what a perfect ranking of the gold scores on each query."""
        return Ceilings(self.data.tables, self.view, self.rows, self.rules, self._tallies)

    @cached_property
    def floors(self) -> Bounds:
        """Metric → what a random ranking of the corpus scores on each query; empty if its size is unknown."""
        if not self.rules.corpus_size:
            return {}
        return Floors(self.data.tables, self.view, self.rows, self.rules, self.rules.corpus_size)

    def __getitem__(self, metric: str | Metric) -> SummaryRow:
        """One metric over all queries, with its interval. It is measured now if necessary."""
        parsed = parse_metric(metric)
        return self.row(parsed) if str(parsed) in self.values else self.measure([parsed]).row(parsed)

    def row(self, metric: str | Metric) -> SummaryRow:
        """The summary of a metric that was measured."""
        parsed = parse_metric(metric)
        key = ("row", self.view, str(parsed), self.sampling, self.cluster)
        if key not in self.memo:
            found = summary_row(parsed, self.columns, self.sampling, self.ceilings, self.floors)
            told = None if self.known is None else self.known.summary.get(found.metric)
            if told is not None and not self.data.tables:
                found = msgspec.structs.replace(found, ceiling=told.ceiling, floor=told.floor)
            self.memo[key] = found
        return self.memo[key]  # type: ignore[no-any-return]

    @property
    def summary_rows(self) -> list[SummaryRow]:
        return [self.row(metric) for metric in self.metrics]

    @cached_property
    def bm25(self) -> dict[str, float | None]:
        """Metric → what BM25 scores on the same queries; empty if unknown."""
        if self.known is not None and self.known.bm25:
            return self.known.bm25
        found = self._by_bm25(self.values)
        return {} if found is None else found.means

    def bm25_scores(self, metrics: Sequence[str]) -> dict[str, Floats]:
        """What BM25 scores on each query; empty if it was not run, or not on the same queries."""
        found = self._by_bm25(metrics)
        return {} if found is None or not np.array_equal(found.rows, self.rows) else found.values

    def _by_bm25(self, metrics: Iterable[str]) -> Result | None:
        """BM25 in the same metrics, as deep as the run's own lists."""
        if View.own(self.rules) not in self.data.tables:
            return None
        depth = mark_depth(self.data.tables, self.rules)
        try:
            return self.measure(metrics, View(lists=BM25, no_future=self.rules.no_future, top_k=depth))
        except Lacking:
            return None

    @cached_property
    def segment_rows(self) -> list[SegmentRow]:
        """The requested segments; by default those of every tag."""
        names = self.segmented_by or tuple(self.gold.tags)
        return [row for name in names for row in self.segment_by(name)]

    def segment_by(self, name: str, metrics: Sequence[Metric] | None = None) -> list[SegmentRow]:
        """Metrics by any tag, field or derived attribute: language, language×topic, query_length …"""
        asked = self.metrics if metrics is None else metrics
        key = ("segment", self.view, name, *map(str, asked), self.sampling, self.cluster)
        if key not in self.memo:
            title, columns = segment_title(self.gold, name), replace(self.columns, metrics=list(asked))
            self.memo[key] = [self._segment(title, value, at, columns) for value, at in self.groups(name)]
        return self.memo[key]  # type: ignore[no-any-return]

    def by(self, name: str, metrics: Iterable[str | Metric] | None = None) -> pl.DataFrame:
        """Segments by any tag, field or derived attribute: one row per value and metric."""
        from karat.results.frames import segments_frame

        asked = self if metrics is None else self.measure(metrics)
        return segments_frame(asked.segment_by(name))

    def groups(self, name: str) -> list[tuple[str, Ints]]:
        """The values of an attribute in their order, each with the places of its queries."""
        key = ("groups", self.view, name)
        if key not in self.memo:
            self.memo[key] = segment_groups(self.gold, name, self.rows)
        return self.memo[key]  # type: ignore[no-any-return]

    def telling_tags(self) -> list[str]:
        """Tags with a handful of groups: a longer breakdown would not be read."""
        return [tag for tag in self.gold.tags if 1 < len(self.groups(tag)) <= _GROUPS][:_TAGS]

    def _segment(self, name: str, label: str, at: Ints, columns: Scores) -> SegmentRow:
        names = [str(metric) for metric in columns.metrics]
        ceilings, floors = ({n: bound[n][at] for n in names if n in bound} for bound in (self.ceilings, self.floors))
        rows = summarise(columns.select(at), self.sampling, ceilings, floors)
        return SegmentRow(name, label, len(at), any(row.few and row.n for row in rows) or len(at) < FEW, rows)

    @cached_property
    def analyses(self) -> Analyses:
        """Stages, routes, time, cost …: what the run's own data shows beyond the scores."""
        from karat.results.analyses.base import analyse

        if self.known is not None and self.known.analyses is not None:
            return self.known.analyses
        return analyse(self)

    @cached_property
    def audited(self) -> Audit:
        """The audit, including what the analyses counted."""
        audit = Audit.of(self.audit)
        for found in self.analyses.found.values():
            for entry in getattr(found, "counted", ()):
                if not audit[entry.code]:
                    audit.count(entry.code, entry.count, entry.examples)
        return audit

    def sweep(self, ks: Iterable[int] = DEFAULT_KS) -> Sweep:
        """Recall and nDCG over k, with knees and headroom, for all queries and for the requested segments."""
        return above("karat.results.sweep", "draw_sweep")(self, ks)  # type: ignore[no-any-return]

    @cached_property
    def bands(self) -> list[Reading]:
        """Poor, acceptable, good or excellent, for recall."""
        if self.known is not None and self.known.bands is not None:
            return self.known.bands
        banded = [name for name in self.values if name in EDGES and name in self.ceilings]
        silent = self.gold.made_of != "labels" or is_outage(self.audit, len(self.rows))
        if silent or any(self.doubts.about(parse_metric(name)) for name in banded):
            return []  # a number that says nothing about the retriever is neither poor nor good
        return readings(self.summary_rows, lambda n: share(self.values[n], self.ceilings[n]) if n in banded else None)

    @property
    def findings(self) -> list[Finding]:
        """What to know and what to try: first whatever makes the scores unreliable, then what stands out."""
        return [*above("karat.results.doubts", "warnings_of")(self), *self.diagnosis]

    @cached_property
    def diagnosis(self) -> list[Finding]:
        """What stands out beyond noise, with evidence and what to try."""
        return above("karat.results.diagnosis.diagnose", "findings_of")(self)  # type: ignore[no-any-return]

    @property
    def means(self) -> dict[str, float | None]:
        """Metric → its mean (or quantile) over the queries on which it is defined."""
        return {str(m): self.columns.mean(m) for m in self.metrics}

    def score(self, metric: str | Metric) -> dict[str, float | None]:
        """Query → value of one metric, None if undefined."""
        name = str(parse_metric(metric))
        if name not in self.values:
            raise UnknownName("metric of this result", name, self.values)
        return dict(zip(self.queries, nullable(self.values[name]), strict=True))

    @cached_property
    def scores(self) -> pl.DataFrame:
        """One row per query, one column per metric, null where undefined."""
        from karat.results.frames import scores_frame

        return scores_frame(self)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per metric: n, undefined, mean, low, high, ceiling, floor, few, quartiles, shares of 0 and 1."""
        from karat.results.frames import summary_frame

        return summary_frame(self)

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row per segment and metric."""
        from karat.results.frames import segments_frame

        return segments_frame(self.segment_rows)

    def triage(self, most: int = 20) -> Triage:
        """The queries that failed, worst first, with what should have been found and what was found."""
        return above("karat.results.queries.triage", "triage")(self, most)  # type: ignore[no-any-return]

    def drift(self, before: Result, by: str) -> Drift:
        """What changed since an earlier period with other queries: the mix of kinds, and scores within kinds."""
        return above("karat.results.comparison.drift", "drift_between")([before, self], [by])[0]  # type: ignore[no-any-return]

    def power(self, against: Result | None = None, *, detect: float = DETECT, power: float = 0.8) -> Plan:
        """The smallest difference this query set can detect, and how many queries `detect` needs."""
        found: Plan = above("karat.results.power", "plan")(self, against, detect=detect, power=power)
        return found
