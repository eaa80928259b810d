"""Alerts of `karat serve`: a new run failed its gates, or dropped beyond noise against the run before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from karat.errors import ConfigError, KaratError
from karat.history.alert_log import claim, give_back, handled, watched_since
from karat.history.keep import scored
from karat.history.report import gold_set
from karat.history.rows import Filter, Judgement, RunRow, dataset_name, written
from karat.history.store import Store, short
from karat.net.http import Retry, check_url
from karat.results.comparison.compare import compare_results
from karat.results.differences import Difference
from karat.results.numbers import counted, points
from karat.results.numbers import written as number
from karat.scoring.judged import Rules
from karat.scoring.metrics.grammar import parse_metric
from karat.sinks.base import Delivery, Parcel, Sink
from karat.sinks.message import Message, MessageLine, message_of
from karat.sinks.webhook import Hook
from karat.web.page import kept_verdicts
from karat.web.pages.compare import headline, shared_metrics

AlertKind = Literal["gate", "drop"]
KINDS: tuple[AlertKind, ...] = ("gate", "drop")
EVERY = 5.0  # seconds between two looks at the history
_LONGEST_PAUSE = 300.0  # seconds until the next attempt to send
_BACK = timedelta(days=7)  # older runs are not looked at
_LOOKED = 200  # newest runs
_RESAMPLES = 1000
_LEVEL = 0.05
_FAILED = ("fail", "invalid")
_PATIENCE = Delivery(timeout=20.0, retry=Retry(attempts=3, limit=20.0, first=0.5))


class Alerts(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch for, and where to send it. `branches`: if empty, the main branch, or all if there is no other."""

    hooks: Sequence[Hook]
    kinds: Sequence[AlertKind] = KINDS
    branches: Sequence[str] = ()
    site: str | None = None  # the address of the dashboard, for links


class Reason(msgspec.Struct, frozen=True):
    """A reason to look at a run, handled once; `message` returns what to send, or None."""

    name: str
    message: Callable[[], Message | None]


def made_alerts(sinks: Sequence[Sink], kinds: Sequence[AlertKind], branches: Sequence[str], site: str | None) -> Alerts:
    """Checks the options of `karat serve`."""
    hooks = [sink for sink in sinks if isinstance(sink, Hook)]
    for sink in sinks:
        if not isinstance(sink, Hook):
            expected = "slack, teams or webhook"
            raise ConfigError("alerts cannot be sent there", code="bad-place", expected=expected, got=sink.name)
    if site is not None:
        parts = urlsplit(check_url(site, None, field="--public-url"))
        if parts.query or parts.fragment:
            expected = "such as https://karat.example.org"
            raise ConfigError("invalid address of the dashboard", code="bad-address", expected=expected, got=site)
        site = site.rstrip("/")
    return Alerts(hooks=hooks, kinds=kinds or KINDS, branches=branches, site=site)


class Watch:
    """Looks at the history again and again, in a thread, and sends what is new."""

    def __init__(self, store: Store, alerts: Alerts, told: Callable[[str], None], every: float = EVERY) -> None:
        self._store, self._alerts, self._told, self._every = store, alerts, told, every
        self._over, self._pause = threading.Event(), every
        self._thread = threading.Thread(target=self._run, daemon=True, name="alerts")
        self._since = watched_since(store)
        self._seen: str | None = None
        self._complained: str | None = None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            try:
                self.look()
            except KaratError as error:  # an unreachable history; it is tried again
                self._complain(f"alerts: {error}")

    def look(self) -> int:
        """Looks once; returns how many alerts were sent."""
        state = self._store.state()
        if state == self._seen:
            return 0
        sent, failed = 0, False
        for row in self._new_runs():
            known = handled(self._store, row.id)
            for reason in reasons(self._store, row, self._alerts):
                # The claim comes first, so that no other server does the same work.
                if reason.name in known or not claim(self._store, row.id, reason.name):
                    continue
                message = reason.message()
                if message is not None and self._send(row, message):
                    sent += 1
                elif message is not None:
                    failed = True
                    give_back(self._store, row.id, reason.name)
        self._seen = None if failed else state
        self._pause = min(2 * self._pause, _LONGEST_PAUSE) if failed else self._every
        return sent

    def _new_runs(self) -> list[RunRow]:
        since = max(self._since, written(datetime.now(UTC) - _BACK))
        found = self._store.runs(Filter(since=since), limit=_LOOKED).rows
        main = None if self._alerts.branches else self._store.main_branch()
        wanted = self._alerts.branches or ([] if main is None else [main])
        return [row for row in reversed(found) if not wanted or row.head.branch in wanted]

    def _send(self, row: RunRow, message: Message) -> bool:
        """Returns whether at least one place has it."""
        sent = False
        for hook in self._alerts.hooks:
            try:
                hook.post(message, _PATIENCE)
                sent = True
            except KaratError as error:
                self._complain(f"an alert about the run {short(row.id)} was not sent: {error}")
        if sent:
            self._complained = None
        return sent

    def _complain(self, text: str) -> None:
        """Says the same only once in a row."""
        if text != self._complained:
            self._complained = text
            self._told(text)


def reasons(store: Store, row: RunRow, alerts: Alerts) -> Iterator[Reason]:
    link = None if alerts.site is None else f"{alerts.site}/runs/{row.id}"
    if "gate" in alerts.kinds and row.outcome in _FAILED:
        judged = store.judgements(row.id)[0]
        yield Reason(f"gate {judged.digest[:16]}", lambda: _gate_message(row, judged, link))
    if "drop" in alerts.kinds:
        yield Reason("drop", lambda: _drop_message(store, row, alerts.site))


def previous(store: Store, row: RunRow) -> RunRow | None:
    """The run before this one with the same system, branch and gold set."""
    head = row.head
    dataset = dataset_name(head.dataset, head.gold)
    only = Filter(system=head.system, branch=head.branch, dataset=dataset, until=row.saved_at)
    same = (run for run in store.runs(only, limit=20).rows if run.head.branch == head.branch)
    # A gold set that was not read from a file has no hash.
    told = (head.dataset, head.queries)
    return next((run for run in same if (run.head.dataset, run.head.queries) == told), None)


def drops(store: Store, before: RunRow, row: RunRow) -> list[Difference]:
    """Key metrics that are worse beyond chance: by their interval, and by p adjusted for their number."""
    if not set(before.measures) & set(row.measures):
        return []
    runs = [before, row]
    metrics = [name for name in headline(runs) if parse_metric(name).direction == "higher"]
    metrics = [name for name in metrics if before.measures[name].definition == row.measures[name].definition]
    if not metrics:
        return []
    known = [name for name in shared_metrics(runs) if name.startswith("judged@") and name not in metrics]
    sides = [scored(store, run.id, [*metrics, *known]) for run in runs]
    sides = [replace(side, metrics=side.metrics[: len(metrics)]) for side in sides]
    own = sides[0].sampling
    quick = own.replace(resamples=min(own.resamples, _RESAMPLES))
    try:
        found = compare_results(sides, sampling=quick, changes=0).pairs[0]
    except ConfigError:  # not comparable: other data or definitions
        return []
    usable = [one for one in found.differences if one.metric not in found.invalid]
    return [one for one in usable if one.reading == "worse" and (one.p_holm is None or one.p_holm <= _LEVEL)]


def _gate_message(row: RunRow, judged: Judgement, link: str | None) -> Message:
    made = message_of(Parcel(verdicts=kept_verdicts(judged.document), branch=row.head.branch), {})
    return replace(made, kind="alert", link=link)


def _drop_message(store: Store, row: RunRow, site: str | None) -> Message | None:
    before = previous(store, row)
    worse = [] if before is None else drops(store, before, row)
    if before is None or not worse:
        return None
    head = row.head
    name, on = head.system or head.run, f" on {head.branch}" if head.branch else ""
    return Message(
        kind="alert",
        title=f"{name}{on}: {worse[0].metric} dropped",
        outcome="fail",
        exit_code=None,
        run=name,
        baseline=short(before.id),
        dataset=gold_set(head.dataset),
        branch=head.branch,
        queries=head.queries,
        summary=f"{counted(len(worse), 'metric')} worse than in the run before ({short(before.id)}), beyond chance.",
        notes=[],
        lines=[_line(one) for one in worse],
        link=None if site is None else f"{site}/compare?run={before.id[:16]}&run={row.id[:16]}",
    )


def _line(one: Difference) -> MessageLine:
    metric = parse_metric(one.metric)
    values = f"{number(one.baseline, metric.unit)} → {number(one.candidate, metric.unit)}"
    change = points(one.delta, metric.told_in(Rules()), (one.low, one.high))
    return MessageLine(one.metric, f"{values}, {change}", "fail", True, one.delta, one.low, one.high)
