"""How the scores and latencies of a run are distributed over its queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from karat.data.ids import Floats
from karat.report.blocks import Bin, Block, Histogram, Section
from karat.report.sections.segments import leading_metrics
from karat.report.svg import Scale
from karat.results.numbers import counted, titled, written
from karat.scoring.metrics.base import Metric

DISTRIBUTION = "distribution"  # the section
_BEFORE = ("glance", "findings", "panel", "bands", "bounds", "over_k")  # sections about all queries
_SHOWN = 3  # key metrics
_LATENCY = "latency"
_BINS = 20
_TAIL = 99  # per cent of the values of an open scale; the last bin has the rest


def distributed(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics with a histogram: the key ones, and one whose value for a query is its latency."""
    scores = [metric for metric in leading_metrics(list(metrics)) if not _is_latency(metric)]
    return [*scores[:_SHOWN], *[metric for metric in metrics if _is_latency(metric)][:1]]


def with_distribution(
    sections: Sequence[Section], metrics: Sequence[Metric], values: Mapping[str, Floats]
) -> list[Section]:
    """Sections with histograms of these metrics after those about all queries."""
    found = [histogram(_LATENCY if _is_latency(m) else str(m), values[str(m)], m) for m in metrics]
    blocks: list[Block] = [block for block in found if block is not None]
    if not blocks:
        return list(sections)
    place = max((i for i, section in enumerate(sections, 1) if section.name in _BEFORE), default=0)
    return [*sections[:place], Section(DISTRIBUTION, "Distribution over queries", blocks), *sections[place:]]


def _is_latency(metric: Metric) -> bool:
    """Of all stages together."""
    return metric.name.startswith(_LATENCY) and "(" not in str(metric)


def histogram(name: str, values: Floats, metric: Metric) -> Histogram | None:
    """How many queries have which value; None without values. `name`: what the values are, such as latency."""
    known = values[np.isfinite(values)]
    if not known.size:
        return None
    edges, longer = _edges(known, metric)
    counts = np.histogram(known, edges)[0].tolist()
    bins = [Bin(low, high, n, _between(low, high)) for low, high, n in zip(edges, edges[1:], counts, strict=False)]
    if longer:
        bins[-1] = Bin(edges[-2], edges[-1], counts[-1], f"{_number(edges[-2])} or more")
    middle, mean = (written(float(value), metric.unit) for value in (np.median(known), known.mean()))
    missing = values.size - known.size
    left_out = f"; {counted(missing)} without a value" if missing else ""
    title = f"{name} of {counted(known.size)}: mean {mean}, median {middle}{left_out}"
    return Histogram(title, titled(name, metric.unit), bins)


def _edges(known: Floats, metric: Metric) -> tuple[list[float], bool]:
    """The ends of the bins, and whether the last one is longer than the others."""
    low, high = metric.range
    if math.isfinite(low) and math.isfinite(high):
        return [low + (high - low) * i / _BINS for i in range(_BINS + 1)], False
    top, most = float(np.percentile(known, _TAIL)), float(known.max())
    begin = low if math.isfinite(low) and low >= 0 and known.min() < top / 2 else float(known.min())
    if not top > begin:
        top = most
    if not top > begin:  # all the same
        return [begin - 0.5, begin + 0.5], False
    ticks = Scale(begin, top).ticks()
    step = (ticks[1] - ticks[0]) / 4 if len(ticks) > 1 else (top - begin) / _BINS
    first = math.floor(begin / step)
    edges = [round(i * step, 10) for i in range(first, math.ceil(top / step) + 1)]
    if most > edges[-1]:
        return [*edges, most], True
    return edges, False


def _between(low: float, high: float) -> str:
    return f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
