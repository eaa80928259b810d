"""Deleted runs and the audit log as reports."""

from __future__ import annotations

from collections.abc import Sequence

from karat.history.audit import AuditPage
from karat.history.changes import DeletedRun
from karat.history.problems import short
from karat.history.report import minute
from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text


def deleted_report(runs: Sequence[DeletedRun]) -> Report:
    columns = [
        Column(title) for title in ("run", "system", "title", "saved (UTC)", "deleted (UTC)", "by", "removed after")
    ]
    rows: list[list[Cell]] = [
        [
            *(short(one.run.id), one.run.head.system or one.run.head.run, one.run.title, minute(one.run.saved_at)),
            *(minute(one.deleted_at), one.deleted_by, one.removed_after[:10]),
        ]
        for one in runs
    ]
    blocks: list[Block] = [Table(columns, rows)] if rows else [Text("No run was deleted within the last 30 days.")]
    return Report("History", [Section("deleted", "Deleted runs", blocks)])


def audit_report(page: AuditPage) -> Report:
    columns = [Column(title) for title in ("time (UTC)", "who", "action", "run", "details")]
    rows: list[list[Cell]] = [
        [one.at[:19].replace("T", " "), one.who, one.action, short(one.target or ""), one.detail]
        for one in page.entries
    ]
    blocks: list[Block] = [Table(columns, rows)] if rows else [Text("There is no such change.")]
    if page.after is not None:
        blocks.append(Text(f"There are more: --after {page.after}"))
    return Report("History", [Section("audit", "Audit log", blocks)])
