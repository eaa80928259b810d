"""`/metrics`: the newest runs for Prometheus, in the text format of OpenMetrics 1.0."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from karat import __version__
from karat.errors import KaratError, printable
from karat.errors.redaction import redact_known
from karat.history.rows import Filter, RunRow, dataset_name
from karat.history.store import Store
from karat.web.api import Only
from karat.web.endpoints import as_json, problem_of, read_parameters

MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
RUNS, METRICS = 200, 50  # of the newest runs, and of each of them
_LONGEST = 200  # characters of a label
_KEPT = 16  # filters whose text is kept
_OUTCOMES = ("pass", "fail", "inconclusive", "invalid")
_STARTED = time.time()
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[str, Mapping[str, str], float]  # what follows the family's name, labels, value


def metrics_route(store: Store) -> Callable[[Request], Response]:
    """Answer a scraper. The part about the history is made again only if the history has changed."""
    kept: dict[tuple[str, Filter], str] = {}
    lock = threading.Lock()

    def answer(request: Request) -> Response:
        try:
            asked: Filter = read_parameters(Only, request).filter()
            key = store.state(), asked
            with lock:
                text = kept.get(key)
            if text is None:
                text = redact_known("".join(_history(store, asked)))
                with lock:
                    if len(kept) >= _KEPT or any(state != key[0] for state, _ in kept):
                        kept.clear()
                    kept[key] = text
        except KaratError as error:
            status, problem = problem_of(error)
            return as_json(problem, status)
        return Response(f"{text}{''.join(_process())}# EOF\n", headers={"Content-Type": MEDIA_TYPE})

    return answer


def _history(store: Store, only: Filter) -> Iterator[str]:
    rows, groups = store.newest(only, RUNS)
    named = [(_labels(row), row) for row in rows]
    scores = [
        ({**labels, "metric": _label(metric)}, measure)
        for labels, row in named
        for metric, measure in list(row.measures.items())[:METRICS]
    ]
    yield _family("karat_build", "info", "The version of Karat.", [("_info", {"version": __version__}, 1)])
    yield _family("karat_runs", "gauge", "Runs in the history.", [("", {}, store.count())])
    yield _family(
        "karat_runs_left_out",
        "gauge",
        f"Newest runs that are not shown: at most {RUNS} are.",
        [("", {}, groups - len(rows))],
    )
    about = "of the newest run of each dataset, system and branch."
    for part, said in (("mean", "Value of a metric"), ("low", "Lower bound"), ("high", "Upper bound")):
        name = "karat_score" if part == "mean" else f"karat_score_{part}"
        values = [(labels, getattr(measure, part)) for labels, measure in scores]
        samples = [("", labels, value) for labels, value in values if value is not None]
        yield _family(name, "gauge", f"{said}{' of its interval,' if part != 'mean' else ''} {about}", samples)
    counted = [("", labels, measure.n) for labels, measure in scores]
    yield _family("karat_score_queries", "gauge", f"Queries that a metric is defined on, {about}", counted)
    saved = [("", labels, _seconds(row.saved_at)) for labels, row in named]
    yield _family("karat_run_saved_timestamp_seconds", "gauge", f"Time of saving, {about}", saved, unit="seconds")
    states: list[Sample] = [
        ("", {**labels, "karat_gate": outcome}, float(row.outcome == outcome))
        for labels, row in named
        if row.outcome is not None
        for outcome in _OUTCOMES
    ]
    yield _family("karat_gate", "stateset", f"Outcome of the latest verdict, {about}", states)


def _labels(row: RunRow) -> dict[str, str]:
    named = {"dataset": dataset_name(row.head.dataset, row.head.gold), "system": row.head.system}
    return {name: _label(value) for name, value in (named | {"branch": row.head.branch or ""}).items()}


def _label(text: str) -> str:
    """A short readable text. Different names stay different: a scraper refuses two samples with the same labels."""
    shown = printable(text)[:_LONGEST]
    if shown == text:
        return text
    from hashlib import sha256

    return f"{shown[: _LONGEST - 9]}…{sha256(text.encode()).hexdigest()[:8]}"


def _process() -> Iterator[str]:
    """Facts of this process, under the usual names; those that the system tells."""
    used = time.process_time()
    yield _family("process_cpu_seconds", "counter", "CPU time.", [("_total", {}, used)], unit="seconds")
    yield _family("process_start_time_seconds", "gauge", "Start of the server.", [("", {}, _STARTED)], unit="seconds")
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/statm", "rb") as stream:
            virtual, resident = (int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in stream.read().split()[:2])
        yield _family("process_virtual_memory_bytes", "gauge", "Address space.", [("", {}, virtual)], unit="bytes")
        yield _family("process_resident_memory_bytes", "gauge", "Memory in use.", [("", {}, resident)], unit="bytes")
    with suppress(OSError):
        yield _family("process_open_fds", "gauge", "Open files.", [("", {}, len(os.listdir("/proc/self/fd")))])
    if sys.platform != "win32":
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY:
            yield _family("process_max_fds", "gauge", "Files that may be open.", [("", {}, most)])


def _family(name: str, kind: str, about: str, samples: Iterable[Sample], *, unit: str = "") -> str:
    lines = [f"# TYPE {name} {kind}", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {_escaped(about)}"]
    lines += [f"{name}{suffix}{_written(labels)} {float(value)!r}" for suffix, labels, value in samples]
    return "\n".join(lines) + "\n"


def _written(labels: Mapping[str, str]) -> str:
    """
    >>> _written({"system": 'a "b"\\\\ c'}), _written({})
    ('{system="a \\\\"b\\\\"\\\\\\\\ c"}', '')
    """
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
