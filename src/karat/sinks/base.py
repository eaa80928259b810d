"""What is sent, and the base of the services that it is sent to."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from karat.data.gold import Dataset
from karat.data.saved import json_text
from karat.errors import ConfigError, KaratError, shorten
from karat.errors.redaction import redact_all
from karat.gates.verdict_form import Verdicts
from karat.net.http import HttpError, Response, Retry, is_loopback
from karat.net.timeouts import TooSlow
from karat.registry import Registry
from karat.report.export import page, to_html
from karat.report.gate import gate_report
from karat.report.overview import data_name, run_names
from karat.results.result import Result
from karat.results.save import saved_form
from karat.results.saved import SavedResult, saved_text
from karat.results.summary import SummaryRow

T = TypeVar("T")
PATIENCE = Retry(attempts=math.inf, limit=30.0, first=0.5)
_LONGEST = 500  # characters of a setting that is sent
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class SendError(KaratError):
    """A service did not accept what was sent."""

    code = "not-sent"


class Receipt(NamedTuple):
    """What was done, and what could not be sent."""

    done: str  # one line, such as where it is now
    warning: str = ""  # what could not be sent


class Delivery(msgspec.Struct, frozen=True):
    """How long to wait: seconds for one response, and the rule for retries."""

    timeout: float = 60.0
    retry: Retry = PATIENCE

    def during(self, place: str, work: Callable[[], T], address: str = "") -> T:
        """Return the result of `work`, which may run several times. An error names the place, not its address."""
        try:
            return self.retry.during(work)
        except (HttpError, TooSlow) as error:
            waited = f"gave up after {self.retry.limit:g} s; check that the server is running and the address is right"
            hint = error.hint or (waited if self.retry.again(error) else None)
            code = "no-answer" if error.status is None else "not-sent"
            what = error.what.replace(f"{address}/", "/") if address else error.what
            raise SendError(f"{place}: {what}", code=code, hint=hint) from None


class Parcel(msgspec.Struct, frozen=True, dict=True):
    """What is sent: a result, the verdict on a run, or both. `page` makes the HTML page, if it is not the usual one."""

    result: Result | None = None
    verdicts: Verdicts | None = None
    page: Callable[[], bytes] | None = None
    branch: str | None = None

    @cached_property
    def saved(self) -> SavedResult | None:
        return None if self.result is None else saved_form(self.result)

    @property
    def _about(self) -> SavedResult | Verdicts:
        found = self.saved if self.saved is not None else self.verdicts
        assert found is not None
        return found

    @property
    def name(self) -> str:
        """The system, else the run."""
        if self.result is not None and self.result.system:
            return self.result.system
        return run_names([self._about.run])[0]

    @property
    def data(self) -> str:
        """The name of the gold set."""
        if self.verdicts is not None:
            return data_name(self.verdicts.dataset, self.verdicts.gold)
        assert self.result is not None
        return data_name(self.result.gold.dataset, self.result.gold.label)

    @cached_property
    def id(self) -> str:
        """A hash of what was measured: the same scores of the same system by the same code, wherever the files are."""
        if self.saved is None:
            return self.verdict_id
        about = self.saved
        told = [about.system, about.dataset, about.settings, about.statistics, about.provenance, about.scores]
        return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()

    @cached_property
    def verdict_id(self) -> str:
        """A hash of the verdict; empty if there is none."""
        if self.verdicts is None:
            return ""
        told = replace(self.verdicts, karat="", comparison=None, segments=[])
        return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()

    @property
    def rows(self) -> list[SummaryRow]:
        """Every metric with its interval; of a verdict alone, those of its gates on all queries."""
        if self.saved is not None:
            return self.saved.summary
        checks = self.verdicts.verdicts if self.verdicts is not None else []
        found = {c.metric: SummaryRow(c.metric, c.n, 0, c.value, c.low, c.high) for c in checks if c.segment is None}
        return [*found.values()]

    @cached_property
    def measures(self) -> dict[str, float]:
        """Metrics under names that every service accepts: `recall_at_5`, `recall_at_5_low`, `recall_at_5_high`."""
        names = safe_names(row.metric for row in self.rows)
        found: dict[str, float] = {}
        for row in self.rows:
            name = names[row.metric]
            given = {name: row.mean, f"{name}_low": row.low, f"{name}_high": row.high}
            found |= {key: value for key, value in given.items() if value is not None and math.isfinite(value)}
        queries = (
            len(self.saved.scores)
            if self.saved is not None
            else self.verdicts.queries
            if self.verdicts is not None
            else 0
        )
        return {**found, "queries": float(queries)}

    @cached_property
    def parameters(self) -> dict[str, str]:
        """What was measured and how. Only what the id covers, because a service may refuse to change it."""
        about = self._about
        told: dict[str, Any] = {**_dataset(about.dataset), **{f"interval.{n}": v for n, v in about.statistics.items()}}
        if isinstance(about, SavedResult):
            told = {"system": about.system, **told, **about.settings, **about.provenance}
        plain = {name: _text(value) for name, value in redact_all(told).items() if value not in (None, "")}
        safe = safe_names(plain)
        return {safe[name]: value for name, value in plain.items()}

    @cached_property
    def labels(self) -> dict[str, str]:
        """What may change from one sending to the next: names of files, the branch, the verdict."""
        about = self._about
        told = {"karat.run": about.run, "karat.gold": about.gold, "karat.version": about.karat}
        told |= {"karat.branch": self.branch or ""}
        if self.verdicts is not None:
            told |= {"karat.outcome": self.verdicts.outcome, "karat.baseline": self.verdicts.baseline or ""}
        return {name: shorten(value, _LONGEST) for name, value in redact_all(told).items() if value}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The saved forms and the page."""
        found: dict[str, bytes] = {}
        if self.saved is not None:
            found["result.json"] = saved_text(self.saved)
        if self.verdicts is not None:
            found["verdict.json"] = json_text(redact_all(self.verdicts))
        found["report.html" if self.verdicts is None else "verdict.html"] = self._page()
        return found

    def _page(self) -> bytes:
        if self.page is not None:
            return self.page()
        if self.result is not None:
            return to_html([self.result])
        assert self.verdicts is not None
        return page(gate_report(self.verdicts))


class Sink:
    """A service that results and verdicts are sent to. A subclass is one file here, or an entry point `karat.sinks`."""

    name: ClassVar[str]  # the part of a place before the colon
    about: ClassVar[str]  # one line for the list of places
    takes_files: ClassVar[bool] = False  # whether `Parcel.files` is sent

    @classmethod
    def open(cls, where: str, environment: Mapping[str, str]) -> Sink:
        """Return the sink of a place, after checking its settings. `where`: what comes after the colon."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The place as messages name it, without secrets."""
        raise NotImplementedError

    def plan(self, parcel: Parcel) -> str:
        """Describe what `send` would do, without any request."""
        raise NotImplementedError

    def send(self, parcel: Parcel, how: Delivery) -> Receipt:
        """Send the parcel. Raise SendError if it was not accepted."""
        raise NotImplementedError


SINKS: Registry[Sink] = Registry("place", "karat.sinks", Sink)


def open_sink(place: str, environment: Mapping[str, str] | None = None) -> Sink:
    """Open a place such as `mlflow:experiment`. Raise ConfigError if its settings are missing or wrong."""
    kind, _, where = place.partition(":")
    return SINKS.require(kind).open(where, os.environ if environment is None else environment)


def send(what: Result | Verdicts, place: str) -> Receipt:
    """Send a result or the verdict of `karat.gate` to a place: `mlflow`, `wandb`, `slack`, `teams` or `webhook`."""
    parcel = Parcel(result=what) if isinstance(what, Result) else Parcel(verdicts=what)
    return open_sink(place).send(parcel, Delivery())


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Return each name with letters, digits, `_`, `-` and `.` only, all different.

    >>> [*safe_names(["recall@5", "ndcg(gain=linear)@10", "recall@2000tok", "recall at 5"]).values()]
    ['recall_at_5', 'ndcg_gain_linear_at_10', 'recall_at_2000tok', 'recall_at_5_2']
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        plain = _NOT_A_NAME.sub("_", name.replace(")@", "@").replace("@", "_at_")).strip("_.-")[:200] or "unnamed"
        number, made = 1, plain
        while made in taken:
            number += 1
            made = f"{plain}_{number}"
        taken.add(made)
        found[name] = made
    return found


def files_listed(parcel: Parcel) -> str:
    return ", ".join(f"{name} ({len(content):,} bytes)" for name, content in parcel.files.items())


def require_encryption(url: str, what: str) -> None:
    """Raise ConfigError if a secret would be sent unencrypted to another machine."""
    if url.startswith("http://") and not is_loopback(url):
        raise ConfigError(
            f"{what} would be sent unencrypted", code="insecure-address", expected="an address with https://"
        )


def said_in(answer: Response, keys: Sequence[str]) -> str:
    """Return the message of an error response: from one of the keys of its JSON, else its text if it is not a page."""
    try:
        found = answer.json()
    except ValueError:
        text = answer.text.strip()
        return "" if text.startswith("<") else text
    told = (found.get(key) for key in keys) if isinstance(found, dict) else ()
    return next((text for text in told if isinstance(text, str) and text), "")


def _dataset(dataset: Dataset) -> dict[str, Any]:
    named = {"dataset": dataset.name, "dataset.version": dataset.version, "dataset.hash": dataset.hash}
    return {name: value for name, value in named.items() if value}


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()
    return shorten(text, _LONGEST)
