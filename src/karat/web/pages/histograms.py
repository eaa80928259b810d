"""Histograms for runs of earlier versions, which did not keep them."""

from __future__ import annotations

from collections.abc import Sequence

from karat.errors import ConfigError, InputError
from karat.history.queries import score_columns
from karat.history.rows import RunRow
from karat.history.store import Store
from karat.report.blocks import Section
from karat.report.histogram import DISTRIBUTION, distributed, with_distribution
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric


def with_histograms(store: Store, row: RunRow, sections: Sequence[Section]) -> list[Section]:
    if any(section.name == DISTRIBUTION for section in sections):
        return list(sections)
    shown = distributed(_known(row))
    try:
        columns = score_columns(store, row.id, [str(metric) for metric in shown])
    except InputError:  # a damaged file; the page of its queries says so
        return list(sections)
    return with_distribution(sections, shown, columns)


def _known(row: RunRow) -> list[Metric]:
    known = []
    for name in row.measures:
        try:
            known.append(parse_metric(name))
        except ConfigError:  # from a plug-in that is not installed
            continue
    return known
