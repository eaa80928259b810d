"""The rows of the catalogue, for lists, trends and filters."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from karat.data.gold import Dataset
from karat.errors import ConfigError
from karat.results.kept_run import KeptRun
from karat.results.saved import SavedResult
from karat.results.summary import SummaryRow

ALL = ""  # segment and value for all queries
PinKind = Literal["baseline", "anchor"]
Outcome = Literal["pass", "fail", "inconclusive", "invalid"]
_ORIGIN = ("code_version", "code_date", "index_version", "chunker")  # provenance that a run may log
# Settings that, like its version, change the meaning of a metric; runs that differ in them are not compared.
_SETTINGS = ("missing", "doc_of", "k", "fuzzy_threshold", "min_score", "top_k", "no_future")
# Later settings: included only if not the default, so that old runs keep their fingerprints.
_LATER = {"score_width": 32, "ties": "id", "no_relevant": "undefined", "normalize_ids": False, "forbid": ()}


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run comes from."""

    system: str
    run: str
    gold: str
    karat: str
    queries: int
    dataset: Dataset
    branch: str | None = None
    author: str | None = None
    code_version: str | None = None
    code_date: str | None = None
    index_version: Any = None
    chunker: Any = None
    seed: int | None = None
    cases: int = 0  # failed queries kept with their hits


class Measure(msgspec.Struct, frozen=True):
    """One metric of a run, over all queries or over a segment."""

    n: int
    mean: float | None
    low: float | None
    high: float | None
    few: bool
    definition: str  # a fingerprint: only values with the same one are comparable


Measures: TypeAlias = dict[tuple[str, str], tuple[int, dict[str, Measure]]]  # (segment, value) → queries, metrics


class Pin(msgspec.Struct, frozen=True):
    """A name that points to a run until it is moved: a baseline, or an anchor such as the last release."""

    name: str
    kind: PinKind
    run_id: str
    pinned_at: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A gate verdict on a run."""

    outcome: Outcome
    document: str  # as `karat gate --json` prints it
    judged_at: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.document.encode()).hexdigest()


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list."""

    id: str
    saved_at: str  # UTC
    head: RunHead
    tags: list[str] = []
    pins: list[Pin] = []
    measures: dict[str, Measure] = {}
    outcome: Outcome | None = None  # of its latest gate verdict
    title: str | None = None
    note: str | None = None  # may have several lines


class Page(msgspec.Struct, frozen=True):
    """Some rows, and the cursor of the next page; null if there are no more."""

    rows: list[RunRow]
    after: str | None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects runs; null fields are ignored. Times are UTC, and `until` is exclusive."""

    system: str | None = None
    branch: str | None = None
    tag: str | None = None
    dataset: str | None = None
    author: str | None = None
    since: str | None = None
    until: str | None = None


class TrendPoint(msgspec.Struct, frozen=True):
    """A metric in one run."""

    run_id: str
    saved_at: str
    system: str
    branch: str | None
    code_version: str | None
    queries: int
    measure: Measure
    pins: list[Pin]
    dataset: Dataset
    tags: list[str] = []


class Choices(msgspec.Struct, frozen=True):
    """Values to filter by."""

    systems: list[str]
    branches: list[str]
    tags: list[str]
    datasets: list[str]
    authors: list[str]
    metrics: list[str]  # of all runs, by name


def head_of(run: KeptRun, branch: str | None, author: str | None = None) -> RunHead:
    result = run.document.result
    return RunHead(
        system=result.system,
        run=result.run,
        gold=result.gold,
        karat=result.karat,
        queries=run.rows.height,
        dataset=result.dataset,
        branch=branch,
        author=author,
        seed=result.statistics.get("seed"),
        cases=len(run.document.cases),
        **{name: result.provenance.get(name) for name in _ORIGIN},
    )


def measures_of(result: SavedResult) -> Measures:
    """(segment, value) → number of queries, and every metric; all queries first."""
    everything = max((row.n + row.undefined for row in result.summary), default=0)
    prints = {row.metric: _fingerprint(row.metric, result) for row in result.summary}
    found = {(ALL, ALL): (everything, _measures(result.summary, prints))}
    for row in result.segments:
        found[row.segment, row.value] = (row.queries, _measures(row.summary, prints))
    return found


def dataset_name(dataset: Dataset, label: str) -> str:
    """The name of a dataset for filters: its own name, or its file name."""
    return dataset.name or label.rstrip("/").rsplit("/", 1)[-1]


def utc(time: str | None, field: str) -> str | None:
    """Converts a date or time to the format of the catalogue; without a zone it is taken as UTC.

    >>> utc("2025-06-01", "since"), utc("2025-06-01T10:00+02:00", "since")
    ('2025-06-01T00:00:00.000000Z', '2025-06-01T08:00:00.000000Z')
    """
    if time is None:
        return None
    try:
        read = datetime.fromisoformat(time)
        return written(read if read.tzinfo else read.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            "invalid time", code="bad-value", field=field, expected="such as 2025-06-01 or 2025-06-01T12:00Z", got=time
        ) from error


def now() -> str:
    return written(datetime.now(UTC))


def written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _measures(rows: list[SummaryRow], prints: dict[str, str]) -> dict[str, Measure]:
    return {r.metric: Measure(r.n, r.mean, r.low, r.high, r.few, prints.get(r.metric, "")) for r in rows}


def _fingerprint(metric: str, result: SavedResult) -> str:
    settings = {name: result.settings.get(name) for name in _SETTINGS}
    settings |= {name: said for name, usual in _LATER.items() if (said := result.settings.get(name, usual)) != usual}
    if (lists := result.provenance.get("hits")) in ("raw", "topk_original"):
        settings["hits"] = lists
    told = msgspec.json.encode([metric, result.definitions.get(metric), settings], order="deterministic")
    return hashlib.sha256(told).hexdigest()[:8]
