"""What is known only after the pass, and makes an evaluation pointless."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from karat.data.gold import Gold
from karat.errors import InputError, NoOverlap, shorten
from karat.scoring.collect import RunData
from karat.scoring.dates import NoVersions
from karat.scoring.views import View

_NO_SCORE = "log the score of each hit, or leave the threshold (--min-score) out"
_NO_VERSION = "log the doc_version of each hit, or give a corpus that has it (--corpus)"


def refuse_no_overlap(measured: RunData, run: str, gold: Gold, views: Iterable[View]) -> None:
    """Refuse a system that has none of the queries of the gold set. `run`: its label."""
    tables = [measured.tables[view] for view in views if view in measured.tables]
    if any(table.present.any() for table in tables):
        return
    of = f" (system {shorten(measured.system, 40)!r})" if measured.system else ""
    entries = [entry for table in tables for entry in table.audit if entry.code == "unknown_queries"]
    run_has = f", the run {entries[0].examples[0]!r}" if entries and entries[0].examples else ""
    raise NoOverlap(
        f"no query of {run}{of} stands in {gold.label}",
        hint=f"do the ids match? The gold set has {shorten(gold.queries[0], 60)!r}{run_has}",
    )


def refuse_unscored(systems: Collection[RunData], run: str, own: View) -> None:
    """Refuse a score threshold where no hit of any system has a score: nothing was removed.

    Where other systems have scores, the audit of the one without counts its hits.
    """
    if own.min_score is not None and all(measured.tables[own].unscored for measured in systems):
        what = f"no hit has a score, so a threshold of {own.min_score:g} removes nothing"
        raise InputError(what, code="no-scores", file=run, field="score", hint=_NO_SCORE)


def refuse_undated(systems: Collection[RunData], run: str, own: View) -> None:
    """Refuse to remove newer hits where no hit of any system has a usable version: nothing was removed.

    Where other systems have versions, the audit of the one without counts its hits.
    """
    if not own.no_future or not all(measured.tables[own].undated for measured in systems):
        return
    for measured in systems:
        if measured.odd_version is not None:
            raise measured.odd_version.error(run)
    raise NoVersions("no hit has a version", file=run, field="doc_version", hint=_NO_VERSION)
