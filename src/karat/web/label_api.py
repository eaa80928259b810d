"""The labelling part of the API: what to label next, labels given and taken back, what they say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from karat.errors import ConfigError, InputError
from karat.history.store import NotThere, Store
from karat.labels.agreement import Agreement, find_agreement, settle
from karat.labels.base import Key, as_lines
from karat.labels.calibrating import calibrate
from karat.labels.calibration_file import Calibration
from karat.labels.desk import Desk, Given, PoolAtDesk, Progress, Turn, checked_name
from karat.labels.labels_file import Label
from karat.web.endpoints import Endpoint

JSON_LINES = "application/x-ndjson"
_Text = Annotated[str, msgspec.Meta(max_length=500)]


@dataclass(frozen=True)
class Visit:
    """Somebody at the desk. Who is logged in labels under that name and no other."""

    store: Store
    desk: Desk
    name: str = ""
    logged_in: bool = False

    def pool(self, name: str) -> PoolAtDesk:
        if name not in self.desk.pools:
            raise NotThere("pool", name, self.desk.pools, hint="karat serve --pool FILE --labels FILE")
        return self.desk.pools[name]

    def annotator(self, given: str | None) -> str:
        if self.logged_in and given not in (None, "", self.name):
            raise ConfigError(
                "another name than that of the log-in", code="wrong-annotator", field="annotator", got=given
            )
        name = self.name if self.logged_in else given or self.name
        if not name:
            raise ConfigError("nobody is named", code="missing-field", field="annotator", expected="who labels")
        return checked_name(name)


class AskTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turn; not needed of who is logged in."""

    annotator: _Text | None = None
    skipped: bool = False  # once more through what was skipped


class AskAnnotator(msgspec.Struct, frozen=True, kw_only=True):
    """Whose label; not needed of who is logged in."""

    annotator: _Text | None = None


class AskSettled(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides where annotators disagree; else the majority does."""

    adjudicator: _Text | None = None


class NewLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grade, or null to skip the pair; `doc_id` without `chunk_id` for a whole document."""

    query_id: _Text
    chunk_id: _Text | None = None
    doc_id: _Text | None = None
    grade: Annotated[float, msgspec.Meta(ge=0, le=9)] | None
    annotator: _Text | None = None
    note: Annotated[str, msgspec.Meta(max_length=2000)] | None = None

    @property
    def pair(self) -> Key:
        item = self.chunk_id if self.chunk_id is not None else self.doc_id
        if item is None:
            raise InputError(
                "the field is missing", code="missing-field", field="chunk_id", hint="or doc_id, for a whole document"
            )
        return Key(self.query_id, item, self.chunk_id is None)


class PoolState(msgspec.Struct, frozen=True):
    """A pool, and how far everybody has come."""

    name: str
    pairs: int
    queries: int
    judged: int  # pairs that judges have graded
    annotators: list[Progress]


def pool_state(desk: Desk, pool: PoolAtDesk) -> PoolState:
    return PoolState(pool.name, len(pool.entries), pool.queries, desk.judged_pairs(pool), desk.progress(pool))


def agreement_of(desk: Desk, pool: PoolAtDesk) -> Agreement:
    """Of people: how far a judge agrees with them is told by a calibration."""
    return find_agreement(desk.labels(pool, "human"))


def calibration_of(desk: Desk, pool: PoolAtDesk) -> Calibration:
    judged = desk.judged(pool)
    if not judged.graded():
        hint = "`karat judge` labels a pool; `karat serve --judge FILE` shows what it said"
        raise ConfigError("no judge has labelled this pool", code="no-labels", hint=hint)
    return calibrate(judged, desk.labels(pool, "human"), pool=list(pool.entries.values()), highest=desk.highest)


def _pools(visit: Visit, path: dict[str, str], asked: Any, body: None) -> list[PoolState]:
    return [pool_state(visit.desk, pool) for pool in visit.desk.pools.values()]


def _next(visit: Visit, path: dict[str, str], asked: AskTurn, body: None) -> Turn:
    pool = visit.pool(path["pool"])
    return visit.desk.turn(pool, visit.annotator(asked.annotator), skipped=asked.skipped)


def _give(visit: Visit, path: dict[str, str], asked: Any, body: NewLabel) -> Given:
    pool = visit.pool(path["pool"])
    return visit.desk.give(pool, visit.annotator(body.annotator), body.pair, body.grade, body.note)


def _undo(visit: Visit, path: dict[str, str], asked: AskAnnotator, body: None) -> Label:
    pool = visit.pool(path["pool"])
    return visit.desk.undo(pool, visit.annotator(asked.annotator))


def _labels(visit: Visit, path: dict[str, str], asked: Any, body: None) -> bytes:
    return as_lines(visit.desk.labels(visit.pool(path["pool"])))


def _settled(visit: Visit, path: dict[str, str], asked: AskSettled, body: None) -> bytes:
    return as_lines(settle(visit.desk.labels(visit.pool(path["pool"])), asked.adjudicator or None))


def _agreement(visit: Visit, path: dict[str, str], asked: Any, body: None) -> Agreement:
    return agreement_of(visit.desk, visit.pool(path["pool"]))


def _calibration(visit: Visit, path: dict[str, str], asked: Any, body: None) -> Calibration:
    return calibration_of(visit.desk, visit.pool(path["pool"]))


LABEL_ENDPOINTS = (
    Endpoint("GET", "/pools", "Pools that wait for labels, and how far they are.", list[PoolState], _pools),
    Endpoint("GET", "/pools/{pool}/next", "The next pair of an annotator.", Turn, _next, AskTurn),
    Endpoint("GET", "/pools/{pool}/labels", "Labels, one a line: a labels file.", bytes, _labels, file=JSON_LINES),
    Endpoint("POST", "/pools/{pool}/labels", "Give a pair a grade, or skip it.", Given, _give, takes=NewLabel),
    Endpoint("DELETE", "/pools/{pool}/labels/last", "Take one's last label back.", Label, _undo, AskAnnotator),
    Endpoint(
        "GET",
        "/pools/{pool}/settled",
        "One label a pair, as `karat agree -o` writes it.",
        bytes,
        _settled,
        AskSettled,
        file=JSON_LINES,
    ),
    Endpoint("GET", "/pools/{pool}/agreement", "How far people agree.", Agreement, _agreement),
    Endpoint("GET", "/pools/{pool}/calibration", "Judges held against people.", Calibration, _calibration),
)
