"""Runs of a trend that are on different gold sets: a step between them may say nothing of the retriever."""

from __future__ import annotations

from collections.abc import Sequence

from karat.data.gold import Dataset
from karat.history.rows import TrendPoint
from karat.history.store import short
from karat.report.blocks import Mark

_RUNS = 3  # of a gold set that are named
_SETS = 3  # that are named
_HASH = 8  # letters of one


def gold_set(dataset: Dataset) -> str:
    """What a gold set is called.

    >>> gold_set(Dataset(version="v3", hash="abcdef0123456789", name="helpdesk")), gold_set(Dataset())
    ('helpdesk v3 abcdef01', 'unnamed')
    """
    known = (dataset.name, dataset.version, _letters(dataset))
    return " ".join(part for part in known if part) or "unnamed"


def brief_gold_set(dataset: Dataset) -> str:
    """The same for a narrow column."""
    return _letters(dataset) or gold_set(dataset)


def other_gold(one: TrendPoint, another: TrendPoint) -> bool:
    return _identity(one.dataset) != _identity(another.dataset)


def several_gold_sets(points: Sequence[TrendPoint]) -> bool:
    return any(other_gold(point, points[0]) for point in points)


def gold_set_note(points: Sequence[TrendPoint]) -> str:
    """Which runs are on another gold set than the newest."""
    newest, groups = points[-1], dict[object, list[TrendPoint]]()
    for point in reversed(points):
        if other_gold(point, newest):
            groups.setdefault(_identity(point.dataset), []).append(point)
    told = [f"On {gold_set(runs[0].dataset)}: {_named(runs)}" for runs in list(groups.values())[:_SETS]]
    more = len(groups) - len(told)
    return (
        f"Not all runs are on the gold set of the newest ({gold_set(newest.dataset)}), and scores on different ones "
        f"cannot be compared. {'. '.join(told)}{f'. And {more:,} more gold sets' if more else ''}."
    )


def gold_set_marks(points: Sequence[TrendPoint], systems: Sequence[str]) -> list[Mark]:
    """Where a system goes on with another gold set."""
    found, last = list[Mark](), dict[str, TrendPoint]()
    for place, point in enumerate(points, 1):
        before = last.get(point.system)
        if point.system in systems and before is not None and other_gold(before, point):
            found.append(Mark(float(place), "other gold set"))
        last[point.system] = point
    return found


def _letters(dataset: Dataset) -> str:
    return (dataset.hash or "").removeprefix("sha256:")[:_HASH]


def _identity(dataset: Dataset) -> object:
    """The content decides; where nobody knows it, the name and the version."""
    return dataset.hash or (dataset.name, dataset.version)


def _named(runs: Sequence[TrendPoint]) -> str:
    shown = ", ".join(short(run.run_id) for run in runs[:_RUNS])
    more = len(runs) - _RUNS
    return f"{shown} and {more:,} more" if more > 0 else shown
