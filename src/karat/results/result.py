"""What an evaluation gives: scores, their summary, the audit, and where they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from karat.data.attributes import (
    attribute,
    attribute_names,
    cluster_numbers,
    label_order,
    segment_labels,
    segment_title,
)
from karat.data.audit import Audit
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import NoLists, Run
from karat.data.ids import DocRule, Floats, Ints
from karat.errors import ConfigError, InputError, UnknownName
from karat.results.analyses.analyse import Analyses, analyse, restore_analyses
from karat.results.analyses.base import Lacking
from karat.results.analyses.label_health import LabelHealth, label_health
from karat.results.bm25_baseline import LISTS, NoWordSearch
from karat.results.diagnosis.bands import EDGES, Reading, readings
from karat.results.diagnosis.finding import Finding
from karat.results.saved import SavedResult, SegmentRow
from karat.results.summary import FEW, Scores, SummaryRow, summarise
from karat.results.sweep import (
    ALL,
    DEFAULT_KS,
    Sweep,
    SweptGroup,
    checked_depths,
    draw_curve,
    measured_depths,
    sweep_metrics,
)
from karat.scoring.dates import NoVersions
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric, parse_metrics
from karat.statistics.distribution import Distribution
from karat.statistics.intervals import Sampling

if TYPE_CHECKING:
    import polars as pl

_S = TypeVar("_S", Rules, Sampling)
_GROUPS, _TAGS = 15, 5


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Scores of one system on one gold set."""

    system: str
    run: str
    gold: Gold
    rows: Ints  # which queries of the gold set, in its order
    metrics: list[Metric]
    values: dict[str, Floats]
    ceilings: Mapping[str, Floats]
    floors: Mapping[str, Floats]
    audit: Audit
    provenance: dict[str, Any] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    corpus_size: int | None = None
    votes: dict[str, Floats] = field(default_factory=dict)  # of each query in the mean, where not all have one
    sampling: Sampling = field(default_factory=Sampling)
    cluster: str | None = None  # the attribute by which queries belong together
    segmented_by: tuple[str, ...] = ()
    depths: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # hits that each query got
    places: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # of each gold item in its list, 0 = not there
    missing: frozenset[str] = frozenset()  # queries that the run lacks, and that were scored as failed
    facts: dict[str, list[Any]] = field(default_factory=dict)  # what the run says of a query, where asked for
    stages: dict[str, Floats] = field(default_factory=dict)  # ms a query, where a metric of time was asked for
    corpus: Corpus | None = None
    routes: tuple[str, ...] = ()  # sources of which there is a run that asked them alone
    has_bm25: bool = False  # there is a run of BM25 beside, or a corpus to search for one
    again: Callable[..., dict[str, Result]] | None = None  # measures the same run once more, as `measure` says
    source: Run | None = None  # to read the hits again; a saved result has none
    labelling: Labelling = field(default_factory=Labelling)  # labels beside the gold set
    background: dict[str, Floats] = field(default_factory=dict)  # measured for the diagnosis only
    saved_findings: list[Finding] | None = None  # of a saved result, which has no background to look at
    saved_definitions: dict[str, int] | None = None  # versions of the metrics when the result was saved
    saved_analyses: Analyses | None = None  # of a saved result, which has no run to look at
    saved_sweep: Sweep | None = None  # of a run in a history, which keeps more than a saved result
    saved_triage: Any = None
    saved_summary: list[SummaryRow] | None = None  # of a saved result, which has neither ceilings nor floors
    saved_bm25: dict[str, float | None] = field(default_factory=dict)
    saved_wrong_hits_judged: bool | None = None  # of a saved result, which has no gold items to look at

    @cached_property
    def queries(self) -> list[str]:
        return [self.gold.queries[i] for i in self.rows.tolist()]

    @property
    def missing_share(self) -> float:
        """Of the queries that have an answer, how many the run lacks, whether they were scored as failed or skipped."""
        skipped = self.audit["missing_skipped"]
        left_out = skipped + self.audit["missing_no_answer"] if self.rules.missing == "skip" else 0
        answerable = len(self.rows) + left_out - self.audit["no_answer_queries"]
        return (self.audit["missing_queries"] + skipped) / max(answerable, 1)

    @property
    def wrong_hits_judged(self) -> bool | None:
        """Whether the gold says of some items that they are not relevant; None: a result was saved without it."""
        restored = self.saved_summary is not None
        return self.saved_wrong_hits_judged if restored else bool((self.gold.grades == 0).any())

    @property
    def definitions(self) -> dict[str, int]:
        """Version of each metric's definition."""
        return {str(m): m.version for m in self.metrics} if self.saved_definitions is None else self.saved_definitions

    @cached_property
    def columns(self) -> Scores:
        """The scores with all that their means depend on."""
        clusters = None if self.cluster is None else cluster_numbers(self.gold, self.cluster)[self.rows]
        return Scores(self.metrics, self.values, self.votes, clusters)

    @cached_property
    def summary_rows(self) -> list[SummaryRow]:
        rows = summarise(self.columns, self.sampling, self.ceilings, self.floors)
        bounds = {row.metric: (row.ceiling, row.floor) for row in self.saved_summary or ()}
        known = (bounds.get(row.metric, (row.ceiling, row.floor)) for row in rows)
        return [msgspec.structs.replace(r, ceiling=c, floor=f) for r, (c, f) in zip(rows, known, strict=True)]

    @property
    def bm25(self) -> dict[str, float | None]:
        """Metric → what plain word search scores on the same queries; empty where that is not known."""
        return self._bm25[0]

    @property
    def no_bm25(self) -> str | None:
        """Why it is not known, although there is a corpus to search."""
        return self._bm25[1]

    @cached_property
    def _bm25(self) -> tuple[dict[str, float | None], str | None]:
        if not self.has_bm25:
            return self.saved_bm25, None
        try:
            # A threshold for the scores of one system says nothing of another's.
            return self.measure(self.values, hits=LISTS, min_score=None).means, None
        except Lacking:
            return {}, None
        except NoWordSearch as error:
            return {}, str(error).replace("\nhint: ", "; ")

    @cached_property
    def segment_rows(self) -> list[SegmentRow]:
        """The segments that were asked for; if none were, those of every tag."""
        names = self.segmented_by or tuple(self.gold.tags)
        return [row for name in names for row in self.segment_by(name)]

    def segment_by(self, name: str, metrics: Sequence[Metric] | None = None) -> list[SegmentRow]:
        """All metrics, or some, by language, topic, language×topic, query_length …: any tag, field or derived
        attribute."""
        known: dict[Any, list[SegmentRow]] = self.__dict__.setdefault("_segmented", {})
        asked = self.metrics if metrics is None else metrics
        key = (name, *map(str, asked))
        if key not in known:
            title, columns = segment_title(self.gold, name), replace(self.columns, metrics=list(asked))
            known[key] = [self._segment(title, value, at, columns) for value, at in self.groups(name)]
        return known[key]

    def groups(self, name: str) -> list[tuple[str, Ints]]:
        """The values of an attribute in their order, each with the places of its queries."""
        known: dict[str, list[tuple[str, Ints]]] = self.__dict__.setdefault("_groups", {})
        if name not in known:
            known[name] = self._grouped(name)
        return known[name]

    def _grouped(self, name: str) -> list[tuple[str, Ints]]:
        labels = segment_labels(self.gold, name)
        found: dict[str, list[int]] = {}
        for place, row in enumerate(self.rows.tolist()):
            found.setdefault(labels[row], []).append(place)
        return [(label, np.array(found[label])) for label in sorted(found, key=label_order)]

    def telling_tags(self) -> list[str]:
        """Tags that part the queries into a handful of groups: a breakdown with more is no longer read."""
        return [tag for tag in self.gold.tags if 1 < len(self.groups(tag)) <= _GROUPS][:_TAGS]

    def measure(self, metrics: Iterable[str], hits: str | None = None, **changes: Any) -> Result:
        """The same run measured in other metrics, lists (`raw`, `topk_original`) or options of `evaluate`."""
        asked = [str(metric) for metric in parse_metrics(metrics)]
        key = (hits, *sorted((name, str(value)) for name, value in changes.items() if name != "facts"))
        known: dict[Any, Result] = self.__dict__.setdefault("_measured", {})
        there = known.get(key) or (self if len(key) == 1 and hits is None else None)
        if there is not None and set(asked) <= set(there.values) and set(changes.get("facts", ())) <= set(there.facts):
            return there
        if self.again is None:
            raise Lacking("a saved result keeps no hits: give the run itself")
        try:
            found = self.again(asked, hits, **changes)
        except NoLists:
            raise Lacking(f"`{hits}` in the run log") from None
        except NoVersions:
            raise Lacking(f"`doc_version` in `{hits or 'topk'}` of the run log, or in a corpus (--corpus)") from None
        if self.system not in found:
            raise Lacking(f"`{hits}` in the run log")
        known[key] = found[self.system]
        return known[key]

    @cached_property
    def analyses(self) -> Analyses:
        """Stages, routes, time, cost …: all that the run's own data tells beyond the scores."""
        return self.saved_analyses or analyse(self)

    @cached_property
    def audited(self) -> Audit:
        """The audit, with what the analyses counted besides."""
        audit = Audit.of(self.audit)
        for found in self.analyses.found.values():
            for entry in getattr(found, "counted", ()):
                if not audit[entry.code]:
                    audit.count(entry.code, entry.count, entry.examples)
        return audit

    def sweep(self, ks: Iterable[int] = DEFAULT_KS) -> Sweep:
        """Recall and nDCG over k, with knees and headroom, for all queries and for the segments asked for."""
        from karat import __version__

        wanted = checked_depths(ks)
        names = sweep_metrics(wanted)
        if self.again is None:
            raise ConfigError(
                "a saved result keeps no hits to sweep over", code="no-hits-kept", hint="give the run itself"
            )
        if not set(names) <= set(self.values):
            return self.again(names)[self.system].sweep(wanted)
        depth = int(self.depths.max(initial=0))
        ks, notes = measured_depths(wanted, depth)
        before = self.provenance.get("k_raw")
        if isinstance(before, int) and before > depth:
            notes.append(f"before reranking the log's lists are {before} deep: `--hits raw` looks at those.")
        everything = [(ALL, ALL, np.arange(len(self.rows)))]
        groups = [
            (segment_title(self.gold, by), value, at) for by in self.segmented_by for value, at in self.groups(by)
        ]
        return Sweep(
            karat=__version__,
            system=self.system,
            run=self.run,
            gold=self.gold.label,
            dataset=self.gold.dataset,
            statistics={**msgspec.structs.asdict(self.sampling), "cluster": self.cluster},
            ks=ks,
            depth=depth,
            notes=notes,
            curves=[draw_curve(self._measured(*group), ks, depth, self.sampling) for group in (*everything, *groups)],
        )

    def _measured(self, segment: str, value: str, at: Ints) -> SweptGroup:
        ceilings = {name: values[at] for name, values in self.ceilings.items()}
        return SweptGroup(segment, value, self.columns.select(at), ceilings, len(at))

    def _segment(self, name: str, label: str, at: Ints, columns: Scores) -> SegmentRow:
        ceilings = {n: values[at] for n, values in self.ceilings.items()}
        floors = {n: values[at] for n, values in self.floors.items()}
        rows = summarise(columns.select(at), self.sampling, ceilings, floors)
        return SegmentRow(name, label, len(at), any(row.few and row.n for row in rows) or len(at) < FEW, rows)

    @cached_property
    def bands(self) -> list[Reading]:
        """Poor, acceptable, good or excellent, for recall."""
        banded = self.values.keys() & self.ceilings.keys() & EDGES.keys()
        reached = {n: self.values[n] / self.ceilings[n] for n in banded}
        return readings(self.summary_rows, reached)

    @cached_property
    def findings(self) -> list[Finding]:
        """What stands out beyond noise, with its evidence and what to try."""
        if self.saved_findings is not None:
            return self.saved_findings
        from karat.results.diagnosis.evidence import Evidence
        from karat.results.diagnosis.rules import find  # who asks for scores alone need not load them

        return find(
            Evidence(
                values=self.background | self.values,
                ceilings=self.ceilings,
                floors=self.floors,
                depths=self.depths,
                clusters=self.columns.clusters,
                sampling=self.sampling,
                corpus_size=self.corpus_size,
                repeats=self.audit["duplicate_hits"],
                wrong_hits_judged=bool(self.wrong_hits_judged),
                attributes=tuple(dict.fromkeys((*self.gold.tags, *self.segmented_by))),
                groups=self.groups,
                # As with all else that rules look at: where metrics were named, only those are looked at.
                analyses=lambda: self.analyses.found if self.background else {},
                labels=self._labels,
            )
        )

    @property
    def _labels(self) -> LabelHealth | None:
        """Only against a corpus: what the run did not return may exist all the same."""
        if self.corpus is None:
            return None
        return label_health(self.gold, DocRule(self.rules.doc_of), self.corpus)

    @property
    def means(self) -> dict[str, float | None]:
        """Metric → its mean (or quantile) over the queries on which it is defined."""
        return {str(m): self.columns.mean(m) for m in self.metrics}

    def score(self, metric: str | Metric) -> dict[str, float | None]:
        """Query → value of one metric, None where it is undefined."""
        name = str(parse_metric(metric))
        if name not in self.values:
            raise UnknownName("metric of this result", name, self.values)
        return dict(zip(self.queries, _nullable(self.values[name]), strict=True))

    @cached_property
    def scores(self) -> pl.DataFrame:
        """One row a query, a column a metric, null where undefined."""
        import polars as pl

        columns = {"query_id": pl.Series(self.queries, dtype=pl.String)}
        return pl.DataFrame(
            {**columns, **{n: pl.Series(_nullable(v), dtype=pl.Float64) for n, v in self.values.items()}}
        )

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row a metric: n, undefined, mean, low, high, ceiling, floor, few, quartiles, shares of zeros and ones."""
        import polars as pl

        return pl.DataFrame([_flat(r) for r in self.summary_rows], schema=_summary_columns())

    @cached_property
    def segments(self) -> pl.DataFrame:
        """One row a segment and metric."""
        import polars as pl

        rows = [
            {"segment": s.segment, "value": s.value, "queries": s.queries, **_flat(r)}
            for s in self.segment_rows
            for r in s.summary
        ]
        kinds = {"segment": pl.String, "value": pl.String, "queries": pl.Int64, **_summary_columns()}
        return pl.DataFrame(rows, schema=kinds)

    def saved(self) -> SavedResult:
        from karat import __version__

        columns = {name: _nullable(values) for name, values in self.values.items()}
        per_query = zip(*columns.values(), strict=True) if columns else ([] for _ in self.queries)
        scores = {q: dict(zip(columns, row, strict=True)) for q, row in zip(self.queries, per_query, strict=True)}
        return SavedResult(
            karat=__version__,
            system=self.system,
            run=self.run,
            gold=self.gold.label,
            dataset=self.gold.dataset,
            settings={**msgspec.structs.asdict(self.rules), "corpus_size": self.corpus_size},
            provenance=self.provenance,
            audit=list(self.audited),
            summary=self.summary_rows,
            bm25=self.bm25,
            scores=scores,
            queries={q: self.gold.text(i) for q, i in zip(self.queries, self.rows.tolist(), strict=True)},
            statistics={**msgspec.structs.asdict(self.sampling), "cluster": self.cluster},
            segments=self.segment_rows if self.segmented_by else [],
            attributes=self._attributes(),
            votes={name: votes.tolist() for name, votes in self.votes.items()},
            definitions=self.definitions,
            missing=sorted(self.missing),
            bands=self.bands,
            findings=self.findings,
            analyses=self.analyses.found,
            lacking=self.analyses.lacking,
            wrong_hits_judged=self.wrong_hits_judged,
        )

    def _attributes(self) -> dict[str, list[Any]]:
        columns = {name: attribute(self.gold, name) for name in attribute_names(self.gold)}
        return {name: [column[i] for i in self.rows.tolist()] for name, column in columns.items()}

    def __repr__(self) -> str:
        shown = ", ".join(f"{m}={'–' if v is None else format(v, '.4f')}" for m, v in self.means.items())
        return f"Result({self.system or self.run!r}, {len(self.rows)} queries: {shown})"


def restore(saved: SavedResult) -> Result:
    """A saved result as one that can be summarised, cut into segments and compared again."""
    _refuse_torn(saved)
    names = [row.metric for row in saved.summary]
    values = {name: np.array([scores[name] for scores in saved.scores.values()], np.float64) for name in names}
    return from_columns(saved, list(saved.scores), values)


def from_columns(saved: SavedResult, queries: list[str], values: dict[str, Floats]) -> Result:
    """The same, with the scores of all metrics or some apart from the rest: one column each, a place a query."""
    size = len(queries)
    gold = Gold(
        queries=queries,
        offsets=np.zeros(size + 1, np.int64),
        items=[],
        grades=np.zeros(0),
        kinds=np.zeros(0, np.int8),
        k=np.zeros(size, np.int64),
        no_answer=np.zeros(size, np.int64),
        fields={"query": list(saved.queries.values())},
        tags=saved.attributes,
        dataset=saved.dataset,
        label=saved.gold,
    )
    return Result(
        system=saved.system,
        run=saved.run,
        gold=gold,
        rows=np.arange(size),
        metrics=[parse_metric(name) for name in values],
        values=values,
        ceilings={},
        floors={},
        audit=Audit.of(saved.audit),
        provenance=saved.provenance,
        rules=_settings(saved.settings, Rules),
        corpus_size=saved.settings.get("corpus_size"),
        votes={name: np.array(votes) for name, votes in saved.votes.items()},
        sampling=_settings(saved.statistics, Sampling),
        cluster=saved.statistics.get("cluster"),
        segmented_by=tuple(dict.fromkeys(row.segment for row in saved.segments)),
        missing=frozenset(saved.missing),
        saved_findings=saved.findings,
        saved_definitions=saved.definitions,
        saved_analyses=restore_analyses(saved.analyses, saved.lacking),
        saved_summary=saved.summary,
        saved_bm25=saved.bm25,
        saved_wrong_hits_judged=saved.wrong_hits_judged,
    )


def _refuse_torn(saved: SavedResult) -> None:
    """A saved result is a file that anyone can edit: its parts must still fit together."""
    size, names = len(saved.scores), {row.metric for row in saved.summary}
    columns = (saved.queries, *saved.attributes.values(), *saved.votes.values())
    fits = all(len(column) == size for column in columns) and isinstance(saved.statistics.get("cluster"), str | None)
    if not size or not fits or not all(names <= scores.keys() for scores in saved.scores.values()):
        raise InputError(
            f"the parts of the saved result of {saved.run} do not fit together",
            code="damaged-result",
            hint="save it again: karat eval … -o result.json",
        )


def _settings(saved: dict[str, Any], kind: type[_S]) -> _S:
    try:
        return msgspec.convert({name: saved[name] for name in kind.__struct_fields__ if name in saved}, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"the saved result has a setting that is none: {error}", code="damaged-result") from error


def _flat(row: SummaryRow) -> dict[str, Any]:
    spread = row.distribution
    values = {name: None if spread is None else getattr(spread, name) for name in Distribution.__struct_fields__}
    return {name: getattr(row, name) for name in row.__struct_fields__ if name != "distribution"} | values


def _summary_columns() -> dict[str, Any]:
    import polars as pl

    kinds: dict[str, Any] = {"metric": pl.String, "n": pl.Int64, "undefined": pl.Int64, "few": pl.Boolean}
    names = (*SummaryRow.__struct_fields__[:-1], *Distribution.__struct_fields__)
    return {name: kinds.get(name, pl.Float64) for name in names}


def _nullable(values: Floats) -> list[float | None]:
    return [None if v != v else v for v in values.tolist()]  # only NaN differs from itself
