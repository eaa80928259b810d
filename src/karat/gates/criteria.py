"""Criteria that a change must meet to ship: `ship-criteria.yaml`, and gates as text.

recall@5 >= 0.85
ndcg@5 drop <= 0.02
recall@5 >= 85% in language=pt-BR on bound
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from karat.errors import ConfigError
from karat.errors.spelling import is_typed
from karat.files.yaml import read_document
from karat.results.references import is_reference
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric

DEFAULT_FILES = ("ship-criteria.yaml", "config/ship-criteria.yaml")
Outcome = Literal["pass", "fail", "inconclusive", "invalid"]
Policy = Literal["pass", "warn", "block"]
_FORM = re.compile(
    r"\s*(?P<metric>\S.*?)(?:\s+(?P<change>drop|rise))?\s*(?P<sign>>=|<=|≥|≤)"
    r"\s*(?P<number>[-+.\d]+(?:e[-+]?\d+)?)\s*(?P<unit>%\s+of\s+(?:the\s+)?baseline|%|pp|ms)?"
    r"(?:\s+in\s+(?:each\s+(?P<each>\S+)|(?P<attribute>[^\s=]+)=(?P<value>\S.*?)))?(?:\s+on\s+(?P<on>mean|bound))?"
    r"(?:\s+by\s+(?P<labels>judge))?\s*",
    re.I,
)
_TYPED = "a file with --criteria or a gate with --gate 'recall@5 >= 0.85'"
_CALLED = "a file or gates as criteria, such as criteria=['recall@5 >= 0.85']"
_LIMITS = ("threshold", "max", "regression_max", "regression_max_share")
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(?:%|pp)\s*")
_AT_LEAST, _AT_MOST = (
    (">", ">=", "=>", "≥", "at least", "above", "over"),
    ("<", "<=", "=<", "≤", "at most", "below", "under"),
)
_SIGN = re.compile(r">=|<=|=>|=<|==?|≥|≤|[<>]|\b(?:at least|at most|above|over|below|under)\b", re.I)
_HINT = "write it like 'recall@5 >= 0.85', 'ndcg@5 drop <= 0.02' or 'recall@5 >= 0.8 in language=pt-BR on bound'"


class Gate(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One gate. It needs a metric (or a name that is a metric) and at least one of threshold, max, regression_max and
    regression_max_share."""

    name: str | None = None  # shown in verdicts; default: the metric
    metric: str | None = None  # such as recall@5; default: the name
    threshold: float | None = None  # the value must reach it
    max: float | None = None  # the value must not exceed it (latency, redundancy)
    regression_max: float | None = None  # it may not get worse than the baseline by more than this
    regression_max_share: float | None = None  # the same as a share of the baseline's value: 0.1 is 10 %
    on: Literal["mean", "bound"] = "mean"  # what decides: the value itself, or the near end of its interval
    severity: Literal["error", "warning"] = "error"  # error blocks, warning only reports
    labels: Literal["gold", "judge"] = "gold"  # judge: the estimate from judge labels, corrected with human labels
    segment: dict[str, str | int | float | bool] | None = None  # only these queries
    each: str | None = None  # one gate per value of this attribute
    inconclusive: Policy | None = None  # default: warn for `on: mean`, block for `on: bound`
    min_queries: int | None = None  # with fewer, the verdict is invalid
    anchor: str | None = None  # a saved result that regression_max also applies to, such as the last release

    @property
    def parsed(self) -> Metric:
        return parse_metric(self.metric or self.name or "")

    @property
    def title(self) -> str:
        return self.name or str(self.parsed)

    @property
    def compares(self) -> bool:
        """Whether the gate compares with a baseline."""
        return self.regression_max is not None or self.regression_max_share is not None

    def most(self, baseline: float) -> float:
        """How much worse than the baseline's value it may get."""
        if self.regression_max is not None:
            return self.regression_max
        return (self.regression_max_share or 0.0) * abs(baseline)

    @property
    def policy(self) -> Policy:
        return self.inconclusive or ("warn" if self.on == "mean" else "block")


class CriteriaFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    gates: list[Gate]  # each is judged on its own; the worst outcome decides
    anchor: str | None = None  # for every gate with regression_max and no anchor of its own
    max_missing: float = 0.1  # share of the gold set's queries that may be missing from a run


class Criteria(msgspec.Struct, frozen=True):
    """Gates and where they are defined."""

    gates: list[Gate]  # each is judged on its own; the worst outcome decides
    max_missing: float = 0.1
    file: str | None = None
    lines: tuple[int, ...] = ()  # of each gate in the file
    each_lines: tuple[int, ...] = ()  # of each gate's `each`

    def line(self, gate: Gate, *, each: bool = False) -> int | None:
        """The line of a gate, or that of its `each`."""
        lines = self.each_lines if each else self.lines
        return next((line for g, line in zip(self.gates, lines, strict=False) if g is gate), None)


def find_criteria(folder: Path | None = None) -> Path:
    for name in DEFAULT_FILES:
        file = (folder or Path()) / name
        if file.is_file():
            return file
    raise ConfigError(
        "no criteria file",
        code="no-criteria",
        expected=" or ".join(DEFAULT_FILES),
        hint=f"pass {_TYPED if is_typed() else _CALLED}; `karat init` writes a file",
    )


def read_criteria(file: Path) -> Criteria:
    """Read criteria from a file. Errors have line and column."""
    document = read_document(file)
    if not isinstance(document.value, dict):
        raise document.placed(
            ConfigError("no gates", code="no-gates", expected="a list under `gates:`", got=document.value), ()
        )
    shares = list(_read_percent(document.value))
    found = document.convert(CriteriaFile)
    for i, name, text in shares:
        if name != "regression_max_share" and _is_measured(found.gates[i]):
            error = ConfigError(f"{found.gates[i].parsed} is not measured in percent", code="wrong-unit", got=text)
            raise document.placed(error, ("gates", i, name))
    for problem, path in _problems(found):
        raise document.placed(problem, path)
    lines = tuple(document.line(("gates", i)) for i in range(len(found.gates)))
    each = tuple(document.line(("gates", i, "each")) for i in range(len(found.gates)))
    return Criteria(_anchored(found, file.parent), found.max_missing, str(file), lines, each)


def _read_percent(value: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Turn limits such as 60% or 3pp into numbers, in place. Yields their gate, field and text."""
    gates = value.get("gates")
    for i, gate in enumerate(gates if isinstance(gates, list) else []):
        for name in _LIMITS if isinstance(gate, dict) else ():
            text = gate.get(name)
            if isinstance(text, str) and (found := _PERCENT.fullmatch(text)):
                gate[name] = float(found[1]) / 100
                yield i, name, text


def _is_measured(gate: Gate) -> bool:
    """Whether the values of a gate are no shares. A metric that cannot be read is reported elsewhere."""
    try:
        return gate.parsed.range != (0.0, 1.0)
    except ConfigError:
        return False


def check_gates(gates: list[Gate]) -> list[Gate]:
    """Check gates from the command line or from Python in the same way."""
    for problem, _ in _problems(CriteriaFile(gates=gates)):
        raise problem
    return gates


def _anchored(criteria: CriteriaFile, folder: Path) -> list[Gate]:
    """Gates with anchor paths resolved relative to `folder`."""
    for gate in criteria.gates:
        anchor = gate.anchor or (criteria.anchor if gate.compares else None)
        gate.anchor = anchor if anchor is None or is_reference(anchor) else str(folder / anchor)
    return criteria.gates


def _problems(criteria: CriteriaFile) -> Iterator[tuple[ConfigError, tuple[str | int, ...]]]:
    """Problems that types cannot express, with their paths."""
    if not criteria.gates:
        yield _problem("gates", "no gates", "no-gates", hint="add one under `gates:`")
    if not 0 <= criteria.max_missing <= 1:
        share = criteria.max_missing
        yield _problem("max_missing", "not a share", "bad-value", expected="between 0 and 1", got=share)
    for i, gate in enumerate(criteria.gates):
        for error, rest in _gate_problems(gate):
            yield error, ("gates", i, *rest)


def _problem(field: str | None, what: str, code: str, **more: Any) -> tuple[ConfigError, tuple[str, ...]]:
    return ConfigError(what, code=code, **more), () if field is None else (field,)


def _gate_problems(gate: Gate) -> Iterator[tuple[ConfigError, tuple[str, ...]]]:
    if gate.metric is None and gate.name is None:
        yield _problem(None, "a gate without a metric", "missing-field", expected="metric: recall@5")
        return
    try:
        metric = gate.parsed
    except ConfigError as error:
        where = "metric" if gate.metric is not None else "name"
        hints = [error.hint, "a gate with a free name needs `metric: recall@5`" if gate.metric is None else None]
        yield _problem(where, error.what, error.code, hint="; ".join(filter(None, hints)) or None)
        return
    least, most, loss, (low, high) = gate.threshold, gate.max, gate.regression_max, metric.range
    part = gate.regression_max_share
    if least is None and most is None and not gate.compares:
        expected = "threshold, max, regression_max or regression_max_share"
        yield _problem(None, "a gate without a condition", "missing-field", expected=expected)
    if least is not None and most is not None:
        yield _problem("max", "threshold and max contradict each other", "contradiction", hint="keep one")
    if least is not None and metric.direction == "lower":
        hint = "write max: instead of threshold:"
        yield _problem("threshold", f"{metric} is better when lower", "wrong-direction", hint=hint)
    if most is not None and metric.direction == "higher":
        hint = "write threshold: instead of max:"
        yield _problem("max", f"{metric} is better when higher", "wrong-direction", hint=hint)
    for name, value in (("threshold", least), ("max", most)):
        if value is not None and not (low <= value <= high and math.isfinite(value)):
            expected = f"between {low:g} and {high:g}" if math.isfinite(high) else f"{low:g} or more"
            percent = f"{value:g} percent is {value / 100:g} or {value:g}%" if high == 1 < value <= 100 else None
            what = f"{metric} cannot take this value"
            yield _problem(name, what, "bad-value", expected=expected, got=value, hint=percent)
    if loss is not None and not 0 <= loss < math.inf:
        yield _problem("regression_max", "invalid limit", "bad-value", expected="0 or more", got=loss)
    if part is not None and not 0 <= part < math.inf:
        yield _problem("regression_max_share", "not a share", "bad-value", expected="0 or more; 0.1 is 10 %", got=part)
    if part is not None and loss is not None:
        what = "regression_max and regression_max_share contradict each other"
        yield _problem("regression_max_share", what, "contradiction", hint="keep one")
    if part is not None and part >= 1 and metric.direction == "higher":
        what, expected = f"{metric} cannot drop by more than 100 %", "less than 1; 0.1 is 10 %"
        yield _problem("regression_max_share", what, "bad-value", expected=expected, got=part)
    if loss is not None and loss >= high - low:
        what, hint = f"{metric} cannot drop by that much", "3 percentage points are 0.03 or 3pp"
        expected = f"less than {high - low:g}"
        yield _problem("regression_max", what, "bad-value", expected=expected, got=loss, hint=hint)
    if gate.min_queries is not None and gate.min_queries < 1:
        wrong = gate.min_queries
        yield _problem("min_queries", "not a number of queries", "bad-value", expected="1 or more", got=wrong)
    if gate.anchor is not None and not gate.compares:
        hint = "add regression_max: the largest drop allowed compared with the anchor"
        yield _problem("anchor", "an anchor without regression_max", "missing-field", hint=hint)
    if gate.labels == "judge":
        yield from _judge_problems(gate, metric)
    if gate.segment is not None and gate.each is not None:
        yield _problem("each", "segment and each contradict each other", "contradiction", hint="keep one")
    if gate.segment is not None and not gate.segment:
        yield _problem("segment", "an empty segment", "missing-value", expected="such as {language: pt-BR}")


def _judge_problems(gate: Gate, metric: Metric) -> Iterator[tuple[ConfigError, tuple[str, ...]]]:
    """Conditions that a corrected estimate does not support: it covers all queries of one run."""
    if metric.name not in ("precision", "ndcg", "rbp"):
        hint = "judge labels work for precision, ndcg and rbp; other metrics need all relevant items"
        yield _problem("labels", f"{metric} cannot be estimated from judge labels", "bad-value", hint=hint)
    for field in ("regression_max", "regression_max_share", "segment", "each"):
        if getattr(gate, field) is not None:
            hint = "use a threshold over all queries, or human labels as gold (--gold-labels)"
            yield _problem(field, f"a gate on judge labels cannot have {field}", "contradiction", hint=hint)


def parse_gate(text: str) -> Gate:
    """Parse a gate written as text.

    >>> gate = parse_gate("recall@5 >= 85% in language=pt-BR on bound")
    >>> gate.metric, gate.threshold, gate.segment, gate.on
    ('recall@5', 0.85, {'language': 'pt-BR'}, 'bound')
    >>> parse_gate("ndcg@5 drop <= 2pp").regression_max, parse_gate("latency_p90 <= 60 ms").max
    (0.02, 60.0)
    >>> parse_gate("latency_p90 rise <= 10% of baseline").regression_max_share
    0.1
    >>> parse_gate("precision@5 >= 0.6 on bound by judge").labels
    'judge'
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"cannot read the gate {text!r}", code="bad-gate", hint=_what_to_type(text))
    at_most = found["sign"] in ("<=", "≤")
    if found["change"] and not at_most:
        what = f"a drop or rise needs an upper limit: <= (in {text!r})"
        raise ConfigError(what, code="wrong-direction", hint=_HINT)
    unit = " ".join((found["unit"] or "").lower().replace("the ", "").split())
    relative = "of" in unit
    if relative and not found["change"]:
        what = f"only a drop or rise can be a share of the baseline (in {text!r})"
        raise ConfigError(what, code="wrong-unit", hint="write it like 'latency_p90 rise <= 10% of baseline'")
    loss = "regression_max_share" if relative else "regression_max"
    field = loss if found["change"] else "max" if at_most else "threshold"
    segment = {found["attribute"]: found["value"].strip()} if found["attribute"] else None
    gate = Gate(metric=found["metric"], on=(found["on"] or "mean").lower(), segment=segment, each=found["each"])  # type: ignore[arg-type]
    gate.labels = "judge" if found["labels"] else "gold"
    setattr(gate, field, _number(found["number"], text) / (100 if unit.startswith("%") or unit == "pp" else 1))
    try:
        _refuse_misreading(gate, found["change"], unit)
        return check_gates([gate])[0]
    except ConfigError as error:
        error.what += f" (in {text!r})"
        raise


def _what_to_type(text: str) -> str:
    """The same gate in a form that can be read, if there is one."""
    found = _SIGN.search(text)
    if found is None:
        return _HINT
    sign = found[0].lower()
    why = f"{sign} leaves open whether the limit itself passes; " if sign in (">", "<") else ""
    value = re.sub(r"(\d),(\d)", r"\1.\2", text[found.end() :].strip())
    value = re.sub(r"^(\d+(?:\.\d+)?)\s*s\b", lambda time: f"{float(time[1]) * 1000:g} ms", value)
    hint = _HINT
    for meant in ("<=",) if sign in _AT_MOST else (">=",) if sign in _AT_LEAST else (">=", "<="):
        typed = f"{text[: found.start()].strip()} {meant} {value}"
        try:
            if _FORM.fullmatch(typed) is not None and parse_gate(typed):
                return f"{why}write '{typed}'"
        except ConfigError as error:
            hint = error.hint or _HINT
    return hint


def _refuse_misreading(gate: Gate, change: str | None, unit: str) -> None:
    """Raise if direction or unit does not fit the metric."""
    metric = gate.parsed
    worse = "drop" if metric.direction == "higher" else "rise"
    if gate.threshold is not None and metric.direction == "lower":
        what, hint = f"{metric} is better when lower", f"set a maximum: '{metric} <= …'"
    elif gate.max is not None and metric.direction == "higher":
        what, hint = f"{metric} is better when higher", f"set a minimum: '{metric} >= …'"
    elif change is not None and change.lower() != worse:
        what, hint = f"{metric} gets worse when it {worse}s", f"limit its {worse}: '{metric} {worse} <= …'"
    elif unit and "of" not in unit and not (metric.unit == "ms" if unit == "ms" else metric.range == (0.0, 1.0)):
        hint = f"'{metric} {change} <= 10% of baseline'" if unit == "%" and change else "leave the unit out"
        raise ConfigError(f"{metric} is not measured in {unit}", code="wrong-unit", hint=hint)
    else:
        return
    raise ConfigError(what, code="wrong-direction", hint=hint)


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"invalid number in the gate {whole!r}", code="bad-gate", got=text, hint=_HINT) from None
