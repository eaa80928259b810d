"""Traces of production systems."""

from __future__ import annotations

import re
from typing import ClassVar

from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.layout import is_span_table

# Names that only exports of spans have. Compiled when used: every start loads this file.
_MARKS = (
    rb'"(?:resourceSpans|resource_spans|run_type|span_kind|openinference\.span\.kind|gen_ai\.operation\.name'
    rb'|mlflow\.spanType|langfuse\.observation\.type|parentObservationId|parent_observation_id|parent_run_id)"\s*:'
    rb'|"context\.span_id"\s*:|\\"mlflow\.spanType\\"|"key"\s*:\s*"(?:openinference|gen_ai|langfuse|mlflow)\.'
)
_OTHERS = ("gold", "query_id", "actualOutput", "samples")


def _columns(source: Source) -> list[str]:
    """The columns of a table as they are written."""
    if not source.is_parquet:
        return re.split(r"[,\t;]", source.first_line.decode("utf-8", "replace").strip().replace('"', ""))
    from karat.formats.kinds.table import parquet_columns

    return parquet_columns(source) or []


def is_traces(source: Source) -> bool:
    """Whether a file has spans, by names in its first bytes or columns."""
    if source.is_folder:
        return False
    if source.is_parquet or not source.looks_like_json:
        return is_span_table(_columns(source))
    if not re.search(_MARKS, source.head):
        return False
    from karat.formats.traces.forms import is_span

    first = source.first_object
    if first is None or "topk" in first:
        return first is None
    return is_span(first) or not any(name in first for name in _OTHERS)


class TracesFormat(Format):
    """Spans of OpenTelemetry (OTLP JSON), OpenInference (Phoenix), MLflow, LangSmith or Langfuse, in lines or as one
    JSON document."""

    name = "traces"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 5

    def recognises(self, source: Source, kind: Kind) -> bool:
        return is_traces(source)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.traces.run import TraceRun, trace_options

        return TraceRun(source.label, source, options.system, options.hits, options=trace_options(options))
