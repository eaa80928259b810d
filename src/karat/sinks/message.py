"""A parcel as a short message: the verdict and its checks, or the metrics of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from karat import __version__
from karat.errors import shorten
from karat.errors.redaction import redact_all
from karat.gates.criteria import Outcome
from karat.gates.verdict_form import GateVerdict
from karat.report.gate import consequence, counts, gate_title, where
from karat.report.renderers.markdown import MARKS
from karat.results.numbers import counted, interval, written
from karat.results.result import Result
from karat.scoring.metrics.grammar import parse_metric
from karat.sinks.base import Parcel

_LINES = 10  # checks or metrics that a chat shows
_TITLE, _TEXT = 140, 300


class MessageLine(msgspec.Struct, frozen=True):
    """One check of a verdict, or one metric of a result."""

    name: str
    text: str
    outcome: Outcome | Literal["not checked"] | None = None
    blocks: bool = False
    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def shown(self) -> str:
        mark = "" if self.outcome is None else f"{MARKS[self.outcome]} "
        return f"{mark}{shorten(self.name, _TITLE)}: {shorten(self.text, _TEXT)}"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What `webhook` sends as JSON. Later versions add keys and never change the meaning of these."""

    schema: Literal["karat/message/1"] = "karat/message/1"
    karat: str = __version__
    kind: Literal["verdict", "result", "alert"]  # an alert is about a run of a history
    title: str
    outcome: Outcome | None  # of all gates; null for a result
    exit_code: int | None
    run: str
    baseline: str | None
    dataset: str
    branch: str | None
    queries: int
    summary: str
    notes: list[str]
    lines: list[MessageLine]
    link: str | None  # of the CI job, or of the run in the dashboard

    @property
    def shown_title(self) -> str:
        mark = "" if self.outcome is None else f"{MARKS[self.outcome]} "
        return shorten(mark + self.title, _TITLE)

    @property
    def shown_lines(self) -> list[str]:
        """The first lines, and how many more there are."""
        shown = [line.shown for line in self.lines[:_LINES]]
        more = len(self.lines) - len(shown)
        return [*shown, f"{more} more"] if more else shown

    @property
    def shown_notes(self) -> list[str]:
        return [shorten(note, _TEXT) for note in self.notes[:3]]

    @property
    def link_text(self) -> str:
        return "Open in the dashboard" if self.kind == "alert" else "Open the job"

    @property
    def footer(self) -> str:
        branch = f" · branch {shorten(self.branch, 60)}" if self.branch else ""
        return f"{shorten(self.dataset, 60)} · {counted(self.queries)}{branch} · Karat {self.karat}"


def message_of(parcel: Parcel, environment: Mapping[str, str]) -> Message:
    """Return the message of a parcel: of its verdict if it has one."""
    found = parcel.verdicts
    told: dict[str, Any] = {"run": parcel.name, "dataset": parcel.data, "branch": parcel.branch}
    told["link"] = job_link(environment)
    if found is not None:
        order = sorted(found.verdicts, key=lambda v: (not v.blocks, v.outcome == "pass"))
        made = Message(
            kind="verdict",
            title=gate_title(found),
            outcome=found.outcome,
            exit_code=found.exit_code,
            baseline=found.baseline,
            queries=found.queries,
            summary=counts(found),
            notes=found.notes,
            lines=[_check(verdict) for verdict in order],
            **told,
        )
        return redact_all(made)
    result = parcel.result
    assert result is not None
    made = Message(
        kind="result",
        title=f"{parcel.name} on {parcel.data}",
        outcome=None,
        exit_code=None,
        baseline=None,
        queries=len(result.rows),
        summary=f"{counted(len(result.metrics), 'metric')} with their intervals.",
        notes=[finding.title for finding in result.findings[:3]],
        lines=_metrics(result),
        **told,
    )
    return redact_all(made)


def job_link(environment: Mapping[str, str]) -> str | None:
    """Return the address of the CI job, on GitHub and GitLab."""
    server, repository, run = (environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    github = f"{server}/{repository}/actions/runs/{run}" if server and repository and run else ""
    link = environment.get("CI_JOB_URL", "") or github
    usable = link.startswith(("https://", "http://")) and link.isprintable() and len(link) <= 1000
    return link if usable and not any(c in link for c in " <>|\"'") else None


def _check(verdict: GateVerdict) -> MessageLine:
    follows = consequence(verdict)
    named = where(verdict) if follows in ("pass", "not checked") else f"{where(verdict)} ({follows})"
    outcome: Outcome | Literal["not checked"] = "not checked" if follows == "not checked" else verdict.outcome
    return MessageLine(named, verdict.reason, outcome, verdict.blocks, verdict.value, verdict.low, verdict.high)


def _metrics(result: Result) -> list[MessageLine]:
    lines = []
    for row in result.summary_rows:
        unit = parse_metric(row.metric).unit_by(result.rules)
        limits = "" if row.low is None else f" {interval(row.low, row.high, unit)}"
        lines.append(
            MessageLine(row.metric, f"{written(row.mean, unit)}{limits}", value=row.mean, low=row.low, high=row.high)
        )
    return lines
