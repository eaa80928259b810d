"""`ship-criteria.yaml`: what must hold before a change may ship."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from karat.errors import ConfigError
from karat.files.yaml import read_document
from karat.results.saved import is_reference
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric

DEFAULT_FILES = ("ship-criteria.yaml", "config/ship-criteria.yaml")
Outcome = Literal["pass", "fail", "inconclusive", "invalid"]
Policy = Literal["pass", "warn", "block"]


class Gate(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One condition. It needs a metric (or a name that is one) and at least one of threshold, max, regression_max."""

    name: str | None = None
    metric: str | None = None
    threshold: float | None = None  # the value must reach it
    max: float | None = None  # the value must not exceed it (latency, redundancy)
    regression_max: float | None = None  # it may not get worse than the baseline by more than this
    on: Literal["mean", "bound"] = "mean"  # what decides: the value itself, or the near end of its interval
    severity: Literal["error", "warning"] = "error"  # error blocks, warning tells
    segment: dict[str, str | int | float | bool] | None = None  # only these queries
    each: str | None = None  # one gate for every value of this attribute
    inconclusive: Policy | None = None  # default: warn for `on: mean`, block for `on: bound`
    min_queries: int | None = None  # fewer cannot be judged
    anchor: str | None = None  # a saved result that regression_max also holds against, such as the last release

    @property
    def parsed(self) -> Metric:
        return parse_metric(self.metric or self.name or "")

    @property
    def title(self) -> str:
        return self.name or str(self.parsed)

    @property
    def policy(self) -> Policy:
        return self.inconclusive or ("warn" if self.on == "mean" else "block")


class CriteriaFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    gates: list[Gate]
    anchor: str | None = None  # for every gate with regression_max that names no anchor of its own
    max_missing: float = 0.1  # share of the gold set's queries that a run may lack


@dataclass(frozen=True)
class Criteria:
    """Gates, and where they stand."""

    gates: list[Gate]
    max_missing: float = 0.1
    file: str | None = None
    lines: tuple[int, ...] = ()  # of each gate in the file

    def line(self, gate: Gate) -> int | None:
        return next((line for g, line in zip(self.gates, self.lines, strict=False) if g is gate), None)


def find_criteria(folder: Path | None = None) -> Path:
    for name in DEFAULT_FILES:
        file = (folder or Path()) / name
        if file.is_file():
            return file
    raise ConfigError(
        "no criteria",
        code="no-criteria",
        expected=" or ".join(DEFAULT_FILES),
        hint="name a file with --criteria, or a gate with --gate 'recall@5 >= 0.85'; `karat init` writes a file",
    )


def read_criteria(file: Path) -> Criteria:
    """The criteria of a file; a mistake is told with its line and column."""
    document = read_document(file)
    if not isinstance(document.value, dict):
        raise document.placed(
            ConfigError("no gates", code="no-gates", expected="a list under `gates:`", got=document.value), ()
        )
    found = document.convert(CriteriaFile)
    for problem, path in _problems(found):
        raise document.placed(problem, path)
    lines = tuple(document.line(("gates", i)) for i in range(len(found.gates)))
    return Criteria(_anchored(found, file.parent), found.max_missing, str(file), lines)


def check_gates(gates: list[Gate]) -> list[Gate]:
    """The same checks for gates that come from the command line or from Python."""
    for problem, _ in _problems(CriteriaFile(gates=gates)):
        raise problem
    return gates


def _anchored(criteria: CriteriaFile, folder: Path) -> list[Gate]:
    """With the anchors' paths as seen from here."""
    for gate in criteria.gates:
        anchor = gate.anchor or (criteria.anchor if gate.regression_max is not None else None)
        gate.anchor = anchor if anchor is None or is_reference(anchor) else str(folder / anchor)
    return criteria.gates


def _problems(criteria: CriteriaFile) -> Iterator[tuple[ConfigError, tuple[str | int, ...]]]:
    """What types cannot say."""
    if not criteria.gates:
        yield ConfigError("no gate", code="no-gates", hint="add one under `gates:`"), ("gates",)
    if not 0 <= criteria.max_missing <= 1:
        yield (
            ConfigError("not a share", code="bad-value", expected="between 0 and 1", got=criteria.max_missing),
            ("max_missing",),
        )
    for i, gate in enumerate(criteria.gates):
        for error, rest in _gate_problems(gate):
            path: tuple[str | int, ...] = ("gates", i, *rest)
            yield error, path


def _gate_problems(gate: Gate) -> Iterator[tuple[ConfigError, tuple[str, ...]]]:
    if gate.metric is None and gate.name is None:
        yield ConfigError("a gate without a metric", code="missing-field", expected="metric: recall@5"), ()
        return
    try:
        metric = gate.parsed
    except ConfigError as error:
        where = "metric" if gate.metric is not None else "name"
        hints = [error.hint, "a gate of another name says `metric: recall@5`" if gate.metric is None else None]
        yield ConfigError(error.what, code=error.code, hint="; ".join(filter(None, hints)) or None), (where,)
        return
    if gate.threshold is None and gate.max is None and gate.regression_max is None:
        yield (
            ConfigError(
                "a gate without a condition", code="missing-field", expected="threshold, max or regression_max"
            ),
            (),
        )
    if gate.threshold is not None and gate.max is not None:
        yield ConfigError("threshold and max contradict each other", code="contradiction", hint="keep one"), ("max",)
    if gate.threshold is not None and metric.direction == "lower":
        yield (
            ConfigError(
                f"{metric} is better when lower", code="wrong-direction", hint="write max: instead of threshold:"
            ),
            ("threshold",),
        )
    if gate.max is not None and metric.direction == "higher":
        yield (
            ConfigError(
                f"{metric} is better when higher", code="wrong-direction", hint="write threshold: instead of max:"
            ),
            ("max",),
        )
    for name in ("threshold", "max"):
        value = getattr(gate, name)
        low, high = metric.range
        if value is not None and not (low <= value <= high and math.isfinite(value)):
            expected = f"between {low:g} and {high:g}" if math.isfinite(high) else f"{low:g} or more"
            yield (
                ConfigError(f"{metric} cannot take this value", code="bad-value", expected=expected, got=value),
                (name,),
            )
    if gate.regression_max is not None and not 0 <= gate.regression_max < float("inf"):
        yield (
            ConfigError("not a size", code="bad-value", expected="0 or more", got=gate.regression_max),
            ("regression_max",),
        )
    span = metric.range[1] - metric.range[0]
    if gate.regression_max is not None and gate.regression_max >= span:
        what, hint = f"{metric} cannot drop by so much", "3 percentage points are 0.03 (as text: 3pp)"
        yield (
            ConfigError(what, code="bad-value", expected=f"less than {span:g}", got=gate.regression_max, hint=hint),
            ("regression_max",),
        )
    if gate.min_queries is not None and gate.min_queries < 1:
        yield (
            ConfigError("not a number of queries", code="bad-value", expected="1 or more", got=gate.min_queries),
            ("min_queries",),
        )
    if gate.anchor is not None and gate.regression_max is None:
        yield (
            ConfigError(
                "an anchor without regression_max", code="missing-field", hint="say how much may be lost against it"
            ),
            ("anchor",),
        )
    if gate.segment is not None and gate.each is not None:
        yield ConfigError("segment and each contradict each other", code="contradiction", hint="keep one"), ("each",)
    if gate.segment is not None and not gate.segment:
        yield ConfigError("an empty segment", code="missing-value", expected="such as {language: pt-BR}"), ("segment",)
