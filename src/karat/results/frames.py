"""A result as polars frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from karat.results.summary import SegmentRow, SummaryRow, nullable
from karat.statistics.distribution import Distribution

if TYPE_CHECKING:
    from karat.results.result import Result


def scores_frame(result: Result) -> pl.DataFrame:
    columns = {"query_id": pl.Series(result.queries, dtype=pl.String)}
    scores = {name: pl.Series(nullable(values), dtype=pl.Float64) for name, values in result.values.items()}
    return pl.DataFrame(columns | scores)


def summary_frame(result: Result) -> pl.DataFrame:
    return pl.DataFrame([_flat(row) for row in result.summary_rows], schema=_columns())


def segments_frame(groups: Sequence[SegmentRow]) -> pl.DataFrame:
    rows = [
        {"segment": group.segment, "value": group.value, "queries": group.queries, **_flat(row)}
        for group in groups
        for row in group.summary
    ]
    kinds = {"segment": pl.String, "value": pl.String, "queries": pl.Int64, **_columns()}
    return pl.DataFrame(rows, schema=kinds)


def _flat(row: SummaryRow) -> dict[str, Any]:
    spread = row.distribution
    values = {name: None if spread is None else getattr(spread, name) for name in Distribution.__struct_fields__}
    return {name: getattr(row, name) for name in row.__struct_fields__ if name != "distribution"} | values


def _columns() -> dict[str, Any]:
    kinds: dict[str, Any] = {"metric": pl.String, "n": pl.Int64, "undefined": pl.Int64, "few": pl.Boolean}
    kinds["narrow"] = pl.Boolean
    names = (*SummaryRow.__struct_fields__[:-1], *Distribution.__struct_fields__)
    return {name: kinds.get(name, pl.Float64) for name in names}
