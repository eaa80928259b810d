"""Keeping order, as API: titles, notes, deleted runs, the audit log and retention."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from karat.history.audit import AuditFilter, AuditPage
from karat.history.changes import LONGEST_NOTE, LONGEST_TITLE, DeletedRun
from karat.history.retention import Preview, RetentionRule, checked_rule, preview, read_rule, save_rule
from karat.history.rows import RunRow
from karat.history.store import Store
from karat.web.endpoints import Endpoint, Offset

_Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]
_Text = Annotated[str, msgspec.Meta(max_length=500)]


class NewTitle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The title of a run, one line; null removes it."""

    title: Annotated[str, msgspec.Meta(max_length=LONGEST_TITLE)] | None


class NewNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The note on a run, which may have several lines; null removes it."""

    note: Annotated[str, msgspec.Meta(max_length=LONGEST_NOTE)] | None


class AskDeleted(msgspec.Struct, frozen=True, kw_only=True):
    offset: Offset = 0
    limit: _Limit = 50


class DeletedRuns(msgspec.Struct, frozen=True):
    """Some deleted runs, the last one first; `total`: how many there are."""

    total: int
    runs: list[DeletedRun]


class AskAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Some changes; `run`: an id or the beginning of one."""

    who: _Text | None = None
    action: _Text | None = None
    run: _Text | None = None
    limit: _Limit = 50
    after: _Text | None = None

    def which(self) -> AuditFilter:
        return AuditFilter(who=self.who, action=self.action, run=self.run)


class AskRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule to try: how many runs of each dataset, system and branch, and how many days."""

    keep_last: int | None = None
    days: int | None = None


def _title(store: Store, path: dict[str, str], asked: Any, body: NewTitle) -> RunRow:
    run_id = store.find(path["run"])
    store.set_title(run_id, body.title)
    return store.row(run_id)


def _note(store: Store, path: dict[str, str], asked: Any, body: NewNote) -> RunRow:
    run_id = store.find(path["run"])
    store.set_note(run_id, body.note)
    return store.row(run_id)


def _deleted(store: Store, path: dict[str, str], asked: AskDeleted, body: None) -> DeletedRuns:
    runs, total = store.deleted(limit=asked.limit, offset=asked.offset)
    return DeletedRuns(total, runs)


def _restore(store: Store, path: dict[str, str], asked: Any, body: None) -> RunRow:
    run_id = store.find_deleted(path["run"])
    store.restore(run_id)
    return store.row(run_id)


def _audit(store: Store, path: dict[str, str], asked: AskAudit, body: None) -> AuditPage:
    return store.audit(asked.which(), limit=asked.limit, after=asked.after)


def _rule(store: Store, path: dict[str, str], asked: Any, body: None) -> RetentionRule:
    return read_rule(store)


def _set_rule(store: Store, path: dict[str, str], asked: Any, body: RetentionRule) -> RetentionRule:
    save_rule(store, body)
    return body


def _preview(store: Store, path: dict[str, str], asked: AskRule, body: None) -> Preview:
    return preview(store, checked_rule(asked.keep_last, asked.days))


_RULE = "How long runs are kept."
_TRY = "What a retention rule would delete now."
ORDER_ENDPOINTS = (
    Endpoint("PUT", "/runs/{run}/title", "Give a run a title.", RunRow, _title, takes=NewTitle, role="editor"),
    Endpoint("PUT", "/runs/{run}/note", "Write a note on a run.", RunRow, _note, takes=NewNote, role="editor"),
    Endpoint("GET", "/deleted", "Deleted runs that can be restored.", DeletedRuns, _deleted, AskDeleted, role="editor"),
    Endpoint("POST", "/deleted/{run}/restore", "Restore a deleted run.", RunRow, _restore, role="editor"),
    Endpoint("GET", "/audit", "Who changed what, newest first.", AuditPage, _audit, AskAudit, role="admin"),
    Endpoint("GET", "/retention", _RULE, RetentionRule, _rule, role="admin"),
    Endpoint(
        "PUT", "/retention", "Set how long runs are kept.", RetentionRule, _set_rule, takes=RetentionRule, role="admin"
    ),
    Endpoint("GET", "/retention/preview", _TRY, Preview, _preview, AskRule, role="admin"),
)
