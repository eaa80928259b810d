"""What an evaluation gives: scores, their summary, the audit, and where they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from karat.audit import Audit, Entry
from karat.errors import InputError
from karat.gold import Dataset, Gold
from karat.ids import Floats, Ints
from karat.judged import Rules
from karat.metrics.base import Metric
from karat.metrics.grammar import parse_metric

if TYPE_CHECKING:
    import polars as pl

SCHEMA: Literal["karat/result/1"] = "karat/result/1"


class SummaryRow(msgspec.Struct, frozen=True):
    """One metric over all queries. `mean` is the metric's own aggregate: the mean, or a quantile of latency."""

    metric: str
    n: int  # queries on which it is defined
    undefined: int
    mean: float | None
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None  # what a perfect ranking of the gold would reach
    floor: float | None = None  # what a random ranking of the corpus would reach


class SavedResult(msgspec.Struct, kw_only=True):
    """The saved form of a result. Later versions add keys and never change the meaning of these."""

    schema: Literal["karat/result/1"] = SCHEMA
    karat: str
    system: str
    run: str
    gold: str
    dataset: Dataset
    settings: dict[str, Any]
    provenance: dict[str, Any]
    audit: list[Entry]
    summary: list[SummaryRow]
    scores: dict[str, dict[str, float | None]]
    queries: dict[str, str | None]  # text of each query, null where the gold set has none


@dataclass(frozen=True)
class Result:
    """Scores of one system on one gold set."""

    system: str
    run: str
    gold: Gold
    rows: Ints  # which queries of the gold set, in its order
    metrics: list[Metric]
    values: dict[str, Floats]
    ceilings: dict[str, Floats]
    floors: dict[str, Floats]
    audit: Audit
    provenance: dict[str, Any] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    corpus_size: int | None = None

    @cached_property
    def queries(self) -> list[str]:
        return [self.gold.queries[i] for i in self.rows.tolist()]

    @cached_property
    def summary_rows(self) -> list[SummaryRow]:
        return [self._summarise(m) for m in self.metrics]

    @property
    def means(self) -> dict[str, float | None]:
        """Metric → its mean (or quantile) over the queries on which it is defined."""
        return {row.metric: row.mean for row in self.summary_rows}

    def score(self, metric: str | Metric) -> dict[str, float | None]:
        """Query → value of one metric, None where it is undefined."""
        return dict(zip(self.queries, _nullable(self.values[str(parse_metric(metric))]), strict=True))

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
        """One row a metric: n, undefined, mean, low, high, ceiling, floor."""
        import polars as pl

        rows = [msgspec.structs.asdict(r) for r in self.summary_rows]
        kinds: dict[str, Any] = {"metric": pl.String, "n": pl.Int64, "undefined": pl.Int64}
        return pl.DataFrame(rows, schema={f: kinds.get(f, pl.Float64) for f in SummaryRow.__struct_fields__})

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
            audit=list(self.audit),
            summary=self.summary_rows,
            scores=scores,
            queries={q: self.gold.text(i) for q, i in zip(self.queries, self.rows.tolist(), strict=True)},
        )

    def _summarise(self, metric: Metric) -> SummaryRow:
        name = str(metric)
        values = self.values[name]
        defined = values[~np.isnan(values)]
        return SummaryRow(
            metric=name,
            n=len(defined),
            undefined=len(values) - len(defined),
            mean=_aggregate(defined, metric),
            ceiling=_mean_beside(values, self.ceilings[name]),
            floor=_mean_beside(values, self.floors[name]) if name in self.floors else None,
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{m}={'–' if v is None else format(v, '.4f')}" for m, v in self.means.items())
        return f"Result({self.system or self.run!r}, {len(self.rows)} queries: {shown})"


def read_result(path: str | PathLike[str]) -> SavedResult:
    """A result that was saved with `karat eval … -o out.json`."""
    from karat.formats.base import Source, refusal

    source = Source(str(path))
    with source.open() as stream:
        text = stream.read()
    try:
        return msgspec.json.decode(text, type=SavedResult)
    except msgspec.ValidationError as error:
        problem = refusal(error, source.label, None, text)
        problem.hint = f"expected a result saved by Karat ({SCHEMA})"
        raise problem from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a saved result: {error}", file=source.label) from error


def _aggregate(defined: Floats, metric: Metric) -> float | None:
    if not len(defined):
        return None
    return _mean(defined) if metric.aggregate is None else float(np.quantile(defined, metric.aggregate))


def _mean(values: Floats) -> float | None:
    """Exactly rounded, so that neither the order of the queries nor the slicing changes a digit."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return None
    return _exact_sum(defined) / len(defined)


def _exact_sum(values: Floats) -> float:
    """As math.fsum. Numbers from 0 to 1, if not tiny, are added as whole multiples of 2^-63, which rounds nothing."""
    if values.min() >= 0 and values.max() <= 1:
        scaled = values * 2.0**63
        if (scaled == np.floor(scaled)).all():
            units = scaled.astype(np.uint64)
            high, low = units >> np.uint64(32), units & np.uint64(2**32 - 1)  # neither sum can overflow
            return ((int(high.sum()) << 32) + int(low.sum())) / 2**63  # division of whole numbers rounds once
    return math.fsum(values.tolist())


def _mean_beside(values: Floats, bounds: Floats) -> float | None:
    """Mean of a bound; None where a query on which the metric is defined has no bound."""
    return None if np.isnan(bounds[~np.isnan(values)]).any() else _mean(bounds)


def _nullable(values: Floats) -> list[float | None]:
    return [None if v != v else v for v in values.tolist()]  # only NaN differs from itself
