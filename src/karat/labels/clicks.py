"""Labels from click logs: by a model of position bias, with uncertainty, and never as gold by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.gold import Gold
from karat.data.ids import Floats
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.formats.read import read_gold
from karat.labels.click_log import ClickLog, LogCounts, read_click_log
from karat.labels.files import HIGHEST, ClickEvidence, Key, Label, write_pairs
from karat.statistics.position_bias import Attraction, Examination, fit_attraction, fit_examination, sums_of

ANNOTATOR = "clicks"
UNCERTAIN, RARE, NOT_COMPARABLE = "uncertain", "shown too rarely", "position not comparable"
RARELY = 5  # showings below which intervals are too narrow in simulations
FEW_SESSIONS = 20


class PositionRow(msgspec.Struct, frozen=True):
    """One position: its clicks, and how often it is examined relative to the reference; null: not comparable."""

    position: int
    shown: int
    clicked: int
    examination: float | None
    low: float | None
    high: float | None


class ClickModel(SavedObject, frozen=True, kw_only=True):
    """What `karat labels clicks` found in a log, and what it could not use."""

    schema: Literal["karat/clicks/1"] = "karat/clicks/1"
    log: str
    gold: str | None
    counts: LogCounts
    sessions: int  # or lists, if the log has no sessions
    has_sessions: bool
    queries: int
    pairs: int
    clicks: int
    threshold: float  # attraction above which a pair counts as relevant
    chosen: Literal["given", "mean"]  # mean: the mean attraction of what was shown
    confidence: float
    highest: int
    reference: int  # the position whose examination is 1
    positions: list[PositionRow]
    relevant: int
    irrelevant: int
    uncertain: int
    rare: int  # pairs shown fewer than five times
    not_comparable: int  # pairs shown only at positions that cannot be compared with the reference


class ClickLabels(msgspec.Struct, frozen=True):
    """Labels, and how they were estimated."""

    labels: list[Label]
    model: ClickModel

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    def __repr__(self) -> str:
        found = self.model
        grades = f"{found.relevant} relevant, {found.irrelevant} irrelevant, {found.uncertain} uncertain"
        return f"ClickLabels of {found.log}: {grades}"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the labels as JSONL."""
        write_pairs(path, self.labels)
        return Path(path)


def labels_from_clicks(
    log: str | PathLike[str],
    gold: Any = None,
    *,
    threshold: float | None = None,
    confidence: float = 0.95,
    highest: int = HIGHEST,
    documents: bool = False,
) -> ClickLabels:
    """Labels of the pairs in a click log.

    A pair is relevant (the highest grade) if its attraction is above the threshold with this confidence, irrelevant (0)
    if it is below with this confidence, and has no grade otherwise. `threshold`: by default, the mean attraction of
    what was shown. `gold`: finds queries by their text, and only its queries are used.
    """
    if not 0.5 <= confidence < 1:
        raise ConfigError("invalid confidence", code="bad-setting", expected="0.5 to below 1", got=confidence)
    if threshold is not None and not 0 < threshold < 1:
        raise ConfigError("invalid threshold", code="bad-setting", expected="between 0 and 1", got=threshold)
    read = None if gold is None else gold if isinstance(gold, Gold) else read_gold(gold)
    found = read_click_log(log, read, documents=documents)
    examination = fit_examination(found.showings, found.clicks, confidence)
    attraction = fit_attraction(found.showings, examination)
    comparable = ~np.isnan(examination.value)[found.showings.position]
    shown, clicked = (
        sums_of(found.showings.item, np.where(comparable, counts, 0.0), len(found.pairs))
        for counts in (found.showings.shown, found.showings.clicked)
    )
    used = float(np.nansum(attraction.mean * shown) / shown.sum()) if threshold is None else threshold
    labels = _labels(found.pairs, shown, clicked, attraction, min(max(used, 1e-9), 1 - 1e-9), confidence, highest)
    reasons = [label.reason for label in labels]
    model = ClickModel(
        karat=__version__,
        log=found.file,
        gold=None if read is None else read.label,
        counts=found.counts,
        sessions=found.sessions,
        has_sessions=found.has_sessions,
        queries=len({pair.query for pair in found.pairs}),
        pairs=len(found.pairs),
        clicks=len(found.clicks.item),
        threshold=used,
        chosen="mean" if threshold is None else "given",
        confidence=confidence,
        highest=highest,
        reference=int(found.positions[examination.reference]),
        positions=_positions(found, examination),
        relevant=sum(bool(label.grade) for label in labels),
        irrelevant=sum(label.grade == 0 for label in labels),
        uncertain=reasons.count(UNCERTAIN),
        rare=reasons.count(RARE),
        not_comparable=reasons.count(NOT_COMPARABLE),
    )
    return ClickLabels(labels, model)


def _labels(
    pairs: list[Key],
    shown: Floats,
    clicked: Floats,
    attraction: Attraction,
    threshold: float,
    confidence: float,
    highest: int,
) -> list[Label]:
    low, high = attraction.limits(confidence)
    columns = zip(
        pairs,
        shown.astype(np.int64).tolist(),
        clicked.astype(np.int64).tolist(),
        np.round(attraction.mean, 6).tolist(),
        np.round(low, 6).tolist(),
        np.round(high, 6).tolist(),
        np.round(attraction.above(threshold), 6).tolist(),
        strict=True,
    )
    labels = []
    for pair, times, clicks, mean, lower, upper, above in columns:
        grade: float | None = None
        reason: str | None = NOT_COMPARABLE if not times else RARE if times < RARELY else UNCERTAIN
        if reason == UNCERTAIN and max(above, 1 - above) >= confidence:
            grade, reason = (float(highest) if above > 0.5 else 0.0), None
        labels.append(
            Label(
                query_id=pair.query,
                chunk_id=None if pair.is_document else pair.item,
                doc_id=pair.item if pair.is_document else None,
                grade=grade,
                annotator=ANNOTATOR,
                kind="clicks",
                reason=reason,
                confidence=None if not times else round(max(above, 1 - above), 6),
                clicks=None if not times else ClickEvidence(mean, lower, upper, times, clicks),
            )
        )
    return labels


def _positions(log: ClickLog, found: Examination) -> list[PositionRow]:
    shown, clicked = (log.showings.per_position(counts) for counts in (log.showings.shown, log.showings.clicked))
    rows = zip(
        log.positions.tolist(),
        shown.astype(np.int64).tolist(),
        clicked.astype(np.int64).tolist(),
        *(_or_none(values) for values in (found.value, found.low, found.high)),
        strict=True,
    )
    return [PositionRow(*row) for row in rows]


def _or_none(values: Floats) -> list[float | None]:
    return [round(value, 6) if np.isfinite(value) else None for value in values.tolist()]
