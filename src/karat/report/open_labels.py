"""What unjudged hits leave open in a comparison, as blocks."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Interval, Table, Text
from karat.results.comparison.compare import CandidateComparison
from karat.results.comparison.open_labels import BoundedDifference
from karat.results.numbers import difference

_SHOWN = 5
_NOTE = (
    "strict bounds: between which ends any labels of the unjudged hits would leave the difference, the same labels for "
    "both runs. labels to flip: the fewest pairs that, if all were relevant, would leave the run that is ahead no "
    "longer ahead; ≤: found greedily, and fewer might do."
)


def open_label_blocks(pair: CandidateComparison) -> list[Block]:
    if not pair.bounds:
        return []
    rows = [_row(found) for found in pair.bounds]
    columns = [Column(c) for c in ("metric", "gold only (pp)", "strict bounds (pp)", "who is ahead", "labels to flip")]
    return [Table(columns, rows, _NOTE), *_hangs_on(pair)]


def _hangs_on(pair: CandidateComparison) -> list[Block]:
    """The pairs behind the metric by which the changed queries go, or else behind the first that can be flipped."""
    leading = {change.metric for change in pair.changes}
    flips = [(found.metric, found.flip) for found in pair.bounds if found.flip]
    if not flips:
        return []
    metric, taken = min(flips, key=lambda flip: flip[0] not in leading)
    named = ", ".join(f"{p.item} ({p.query_id})" for p in taken.pairs[:_SHOWN])
    more = taken.labels - min(len(taken.pairs), _SHOWN)
    return [Text(f"{metric} hangs on {named}{f' and {more:,} more' if more else ''}.")]


def _row(found: BoundedDifference) -> list[Cell]:
    ends = difference(found.low, "pp", (None, None), 1), difference(found.high, "pp", (None, None), 1)
    bounds = Interval(f"{ends[0]} to {ends[1]}", None, found.low, found.high)
    return [found.metric, difference(found.delta, "pp", (None, None), 1), bounds, _reading(found), _flip(found)]


def _reading(found: BoundedDifference) -> str:
    if found.settled:
        return f"{'candidate' if found.low > 0 else 'baseline'}, whatever the labels"
    if found.low == found.high:
        return "neither, whatever the labels"
    return "hangs on missing labels"


def _flip(found: BoundedDifference) -> str | None:
    if found.flip is None:
        return None
    return f"{'' if found.flip.exact else '≤ '}{found.flip.labels:,}"
