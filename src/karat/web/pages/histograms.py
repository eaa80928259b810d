"""How the scores and latencies of a run are distributed over its queries."""

from __future__ import annotations

from collections.abc import Sequence

from karat.errors import ConfigError, InputError
from karat.history.queries import score_columns
from karat.history.report import leading
from karat.history.rows import RunRow
from karat.history.store import Store
from karat.report.blocks import Block, Section
from karat.report.histogram import histogram
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.web.page import SHOWN

_BEFORE = ("glance", "findings", "panel", "bands", "bounds", "over_k")  # sections about all queries
_LATENCY = "latency"


def with_histograms(store: Store, row: RunRow, sections: Sequence[Section]) -> list[Section]:
    """The sections of a run with histograms after those about all queries."""
    try:
        wanted = {str(metric): metric for metric in _shown(row)}
        columns = score_columns(store, row.id, list(wanted))
        found = [
            histogram(_LATENCY if _is_latency(metric) else name, columns[name], metric)
            for name, metric in wanted.items()
        ]
    except InputError:  # a damaged file; the page of its queries says so
        return list(sections)
    blocks: list[Block] = [block for block in found if block is not None]
    if not blocks:
        return list(sections)
    place = max((i for i, section in enumerate(sections, 1) if section.name in _BEFORE), default=0)
    return [*sections[:place], Section("distribution", "Distribution over queries", blocks), *sections[place:]]


def _shown(row: RunRow) -> list[Metric]:
    """The key metrics, and one whose value for a query is its latency."""
    known = []
    for name in row.measures:
        try:
            known.append(parse_metric(name))
        except ConfigError:  # from a plug-in that is not installed
            continue
    scores = [metric for metric in leading([row]) if not _is_latency(metric) and str(metric) in row.measures]
    return [*scores[:SHOWN], *[metric for metric in known if _is_latency(metric)][:1]]


def _is_latency(metric: Metric) -> bool:
    """Of all stages together."""
    return metric.name.startswith(_LATENCY) and "(" not in str(metric)
