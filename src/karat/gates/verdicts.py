"""Judge gates against a result and its baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.attributes import label_text
from karat.data.ids import Ints
from karat.errors import ConfigError, UnknownName, did_you_mean
from karat.errors.spelling import spell
from karat.gates import rules
from karat.gates.criteria import Criteria, Gate, Outcome
from karat.gates.rules import ConfidenceLevels, GatedValue, Limit, Limits, Ruling
from karat.gates.verdict_form import Condition, GateVerdict
from karat.results.comparison.rankings import same_rankings
from karat.results.differences import Difference, Paired
from karat.results.doubts import invalid_reason
from karat.results.numbers import counted
from karat.results.result import Result
from karat.results.summary import FEW, Scores, intervals
from karat.scoring.metrics.base import Metric
from karat.statistics.intervals import OPEN
from karat.statistics.sampling import Sampling

_KINDS = ("floor", "regression")
_WORST: tuple[Outcome, ...] = ("invalid", "fail", "inconclusive", "pass")


class Baseline(msgspec.Struct, frozen=True):
    """A result to compare with: the usual baseline, or an anchor that stays fixed while the baseline moves."""

    name: str
    result: Result


class GateJudge(msgspec.Struct):
    """Judges gates on one result and its baselines."""

    result: Result
    baseline: Baseline | None = None
    anchors: dict[str, Baseline] = {}
    max_missing: float = 0.1
    _known: dict[tuple[Any, ...], Any] = {}  # resampling results by their inputs

    def verdicts(self, criteria: Criteria) -> list[GateVerdict]:
        found: list[GateVerdict] = []
        for gate in criteria.gates:
            line = criteria.line(gate)
            file = criteria.file if line else None
            try:
                verdicts = self.judge(gate)
            except ConfigError as error:  # found only with the gold set, such as a missing attribute
                if error.file is None:
                    error.file, error.line = file, criteria.line(gate, each=isinstance(error, UnknownName))
                raise
            found += [msgspec.structs.replace(verdict, file=file, line=line) for verdict in verdicts]
        if any(part.outcome != "not checked" for verdict in found for part in verdict.parts):
            return found
        nothing = spell(_NOTHING_CHECKED)
        return [replace(verdict, outcome="invalid", blocks=True, reason=nothing) for verdict in found]

    def judge(self, gate: Gate) -> list[GateVerdict]:
        """Return one verdict, or one per value of the gate's `each` attribute."""
        if gate.labels == "judge":
            return [self._by_judge(gate)]
        if gate.each is None:
            places = self._places(gate)
            if isinstance(places, str):
                return [self._said(gate, _label(gate), "invalid", places, 0)]
            levels = dict.fromkeys(_KINDS, ConfidenceLevels(self.level, self.level))
            return [self._verdict(gate, _label(gate), places, levels)]
        groups, levels = self.result.groups(gate.each), {}
        # Passing needs no correction, because all must pass. Failing does: one of many fails by chance more often. A
        # floor on the mean uses each value's mean, as for a single segment.
        usable = [at for _, at in groups if self._unusable(gate, at) is None]
        for kind in _KINDS:  # corrected separately: a missed floor says nothing about regressions
            by_chance = kind == "regression" or gate.on == "bound"
            tests = [partial(self._fails, gate, at, kind) for at in usable] if by_chance else []
            levels[kind] = ConfidenceLevels(self.level, rules.failing_level(tests, self.level))
        return [self._verdict(gate, f"{gate.each} {value}", at, levels) for value, at in groups]

    def _by_judge(self, gate: Gate) -> GateVerdict:
        """Judge by the estimate from judge labels, with the interval that human labels give it."""
        from karat.gates.by_judge import judge_estimate

        metric, line = gate.parsed, gate.threshold
        if (unusable := self._unusable(gate, np.arange(len(self.result.rows)))) is not None:
            return self._said(gate, None, "invalid", unusable, 0)
        found = judge_estimate(self.result, metric)
        if isinstance(found, str):
            return self._said(gate, None, "invalid", found, 0)
        assert line is not None
        levels = ConfidenceLevels(self.level, self.level)
        rule = rules.floor_on_bound if gate.on == "bound" else rules.floor_on_mean
        limits = (found.low, found.high)
        ruling = replace(rule(GatedValue(found.value, lambda _: limits, found.n), line, levels), needed=None)
        reason = rules.floor_reason(metric, self._unit(metric), found.value, limits, line, False, gate.on, ruling)
        reason = f"Estimated from judge labels, corrected with human labels: {reason}"
        reason = " ".join([reason, *found.warnings])
        parts = [Condition("floor", ruling.outcome, reason, ruling.certain)]
        verdict = self._said(gate, None, ruling.outcome, reason, found.n, parts)
        return msgspec.structs.replace(verdict, value=found.value, low=found.low, high=found.high, limit=line)

    @property
    def level(self) -> float:
        return self.result.sampling.level

    def _unit(self, metric: Metric) -> str:
        return metric.told_in(self.result.rules)

    def _fails(self, gate: Gate, at: Ints, kind: str, level: float) -> bool:
        parts = self._parts(gate, at, dict.fromkeys(_KINDS, ConfidenceLevels(self.level, level)))
        return any(p.outcome == "fail" for p in parts if p.kind == kind)

    def _verdict(self, gate: Gate, segment: str | None, at: Ints, levels: dict[str, ConfidenceLevels]) -> GateVerdict:
        metric = gate.parsed
        scores = self._scores(metric).select(at)
        n = _count(scores, metric)
        unusable = self._unusable(gate, at)
        if unusable is not None:
            return self._said(gate, segment, "invalid", unusable, n)
        parts = self._parts(gate, at, levels)
        outcome = _worst(parts)
        few = f" Only {counted(n)}: too few to rely on." if n < FEW else ""
        low, high = self._limits(metric, at, self.level)
        if not few and low is not None and scores.is_narrow(metric):
            few = f" The interval may be too narrow: no upper limit, and fewer than {OPEN} queries or conversations."
        reason = " ".join(p.reason for p in sorted(parts, key=_gravity)) + few
        limit = gate.threshold if gate.max is None else gate.max
        found = self._said(gate, segment, outcome, reason, n, parts)
        return msgspec.structs.replace(found, value=scores.mean(metric), low=low, high=high, limit=limit)

    def _parts(self, gate: Gate, at: Ints, levels: dict[str, ConfidenceLevels]) -> list[Condition]:
        parts = []
        if gate.threshold is not None or gate.max is not None:
            parts.append(self._floor(gate, at, levels["floor"]))
        if gate.compares:
            parts += [self._regression(gate, at, levels["regression"], side) for side in self._sides(gate)]
            if self.baseline is None:
                parts.append(_NOT_CHECKED)
        return parts

    def _floor(self, gate: Gate, at: Ints, levels: ConfidenceLevels) -> Condition:
        metric = gate.parsed
        scores = self._scores(metric).select(at)
        value = scores.mean(metric)
        line, sign = (gate.threshold, 1.0) if gate.max is None else (gate.max, -1.0)
        assert value is not None
        assert line is not None

        def turned(level: float) -> Limits:
            return _turned(self._limits(metric, at, level), sign)

        estimate = GatedValue(sign * value, turned, _count(scores, metric))
        rule = rules.floor_on_bound if gate.on == "bound" else rules.floor_on_mean
        ruling = rule(estimate, sign * line, levels)
        limits, is_max = self._limits(metric, at, self.level), gate.max is not None
        queries = estimate.n if self._compares_fewer(gate, at, estimate.n) else None
        reason = rules.floor_reason(metric, self._unit(metric), value, limits, line, is_max, gate.on, ruling, queries)
        return Condition("floor", ruling.outcome, reason, ruling.certain, ruling.needed)

    def _compares_fewer(self, gate: Gate, at: Ints, queries: int) -> bool:
        """Whether a baseline lacks some of these queries."""
        sides = [side for side in self._sides(gate) if self._shared(side, at)]
        return any(self._difference(side, gate.parsed, at, self.level).n != queries for side in sides)

    def _sides(self, gate: Gate) -> list[Baseline]:
        """What a gate compares with."""
        sides = [self.baseline, self.anchors.get(gate.anchor or "")] if gate.compares else []
        return [side for side in sides if side is not None]

    def _regression(self, gate: Gate, at: Ints, levels: ConfidenceLevels, side: Baseline) -> Condition:
        metric = gate.parsed
        if not self._shared(side, at):
            reason = "The baseline has none of these queries."
            return Condition("regression", "invalid", reason, baseline=side.name)
        shown = self._difference(side, metric, at, self.level)
        if shown.delta is None or shown.baseline is None:
            reason = f"{metric} is undefined for every query that both runs have."
            return Condition("regression", "invalid", reason, baseline=side.name)
        sign, most = 1.0 if metric.direction == "higher" else -1.0, gate.most(shown.baseline)

        def limits(level: float) -> Limits:
            found = self._difference(side, metric, at, level)
            seen = found.low, found.high
            return _turned(seen if gate.on == "mean" else self._proof(side, metric, at, level, seen), sign)

        def certain(level: float) -> bool:
            return self._difference(side, metric, at, level).certain

        alike = shown.wins == shown.losses == 0
        if alike and self._same_rankings(side, metric, at):
            ruling = Ruling("pass")  # nothing changed
        else:
            rule = rules.regression_on_mean if gate.on == "mean" else rules.regression_on_bound
            ruling = rule(GatedValue(sign * shown.delta, limits, shown.n, alike, certain), most, levels)
        other = None if side is self.baseline else side.name
        limit = Limit(most, gate.regression_max_share)
        shared = shown.n != _count(self._scores(metric).select(at), metric)
        reason = rules.regression_reason(
            metric, self._unit(metric), shown, limit, gate.on, ruling, other, shared=shared
        )
        return Condition("regression", ruling.outcome, reason, ruling.certain, ruling.needed, side.name, shown)

    def _limits(self, metric: Metric, at: Ints, level: float) -> Limits:
        key = (str(metric), at.tobytes(), level)
        if key not in self._known:
            scores = _only(self.result.columns, metric).select(at)
            self._known[key] = intervals(scores, self._sampling(level))[str(metric)]
        return cast(Limits, self._known[key])

    def _difference(self, side: Baseline, metric: Metric, at: Ints, level: float) -> Difference:
        key = (side.name, str(metric), at.tobytes(), level)
        if key not in self._known:
            sampling = self._sampling(level)
            (self._known[key],) = self._paired(side, metric, at).differences(sampling, sampling.resamples)
        return cast(Difference, self._known[key])

    def _proof(self, side: Baseline, metric: Metric, at: Ints, level: float, seen: Limits) -> Limits:
        """Limits used for a proof: those that are shown, or wider ones where few queries differ.

        Each end is also a one-sided bound that is wrong in at most 1 − level of all cases. The default interval is not
        enough: for 50 queries without any loss it ends at −4.4 points, but a true drop of 4.5 shows no loss in 10 %.
        """
        key = ("proof", side.name, str(metric), at.tobytes(), level)
        if key not in self._known:
            sampling = self._sampling(max(2 * level - 1, 0.01)).replace(method="strict")
            (found,) = self._paired(side, metric, at).differences(sampling, 0)
            self._known[key] = _wider(seen, (found.low, found.high))
        return cast(Limits, self._known[key])

    def _same_rankings(self, side: Baseline, metric: Metric, at: Ints) -> bool:
        theirs, mine = np.array(self._shared(side, at)).T
        return same_rankings(side.result, self.result, theirs, mine, metric)

    def _sampling(self, level: float) -> Sampling:
        return self.result.sampling.replace(level=level)

    def _shared(self, side: Baseline, at: Ints) -> list[tuple[int, int]]:
        """Places of the shared queries in the baseline and in the result, in the baseline's order."""
        place = {self.result.queries[i]: i for i in at.tolist()}
        had = (i for i, query in enumerate(side.result.queries) if query not in side.result.missing)
        return [(i, place[side.result.queries[i]]) for i in had if side.result.queries[i] in place]

    def _paired(self, side: Baseline, metric: Metric, at: Ints) -> Paired:
        _require(metric, side.result, f"the baseline {side.name}")
        theirs, mine = np.array(self._shared(side, at)).T
        before = _only(side.result.columns, metric).select(theirs)
        after = _only(self.result.columns, metric).select(mine)
        return Paired(replace(before, weights=after.weights | before.weights, clusters=after.clusters), after)

    def _places(self, gate: Gate) -> Ints | str:
        """The gate's queries, or what is wrong with its segment."""
        keep = np.ones(len(self.result.rows), np.bool_)
        for name, value in (gate.segment or {}).items():
            groups = dict(self.result.groups(name))
            wanted = label_text(value)
            if wanted not in groups:  # a boolean given as text
                wanted = {"true": "yes", "false": "no"}.get(wanted.lower(), wanted)
            inside = np.zeros(len(keep), np.bool_)
            inside[groups.get(wanted, np.zeros(0, np.int64))] = True
            keep &= inside
            if wanted not in groups:
                known = did_you_mean(wanted, groups)
                return f"No query has {name} {wanted}{f' ({known})' if known else ''}."
            if not keep.any():
                return f"No query has {_label(gate)}."
        return np.flatnonzero(keep)

    def _scores(self, metric: Metric) -> Scores:
        _require(metric, self.result, "the result")
        return self.result.columns

    def _unusable(self, gate: Gate, at: Ints) -> str | None:
        """Why these queries cannot be judged, or None if they can."""
        n = _count(self._scores(gate.parsed).select(at), gate.parsed)
        if n == 0:
            instead = self.result.counterpart(gate.parsed)
            text = f" The gold set has evidence texts: use {instead}." if instead else ""
            return f"{gate.parsed} is undefined for every query{self._reason(gate.parsed)}.{text}"
        if gate.min_queries is not None and n < gate.min_queries:
            return f"Only {counted(n)}; the gate requires {gate.min_queries}."
        if "prices" in gate.parsed.needs and (unknown := self._unpriced()):
            return unknown
        for name, result in self._lists(gate):
            if (reason := invalid_reason(result.doubts, gate.parsed, name, self.max_missing)) is not None:
                return reason
            if result.missing_share > self.max_missing:
                return _lacking(name, result, self.max_missing)
        return None

    def _reason(self, metric: Metric) -> str:
        """Which data the metric is missing, if the audit recorded it."""
        noted = (text for entry in self.result.audit if entry.code == "no_data" for text in entry.examples)
        return next((text.removeprefix(str(metric)) for text in noted if text.startswith(f"{metric}: ")), "")

    def _unpriced(self) -> str | None:
        """Why a cost gate cannot pass: the cost of some queries is unknown."""
        entry = next((entry for entry in self.result.audit if entry.code == "unpriced_queries"), None)
        if entry is None:
            return None
        return f"The cost of {counted(entry.count)} is unknown: {', '.join(entry.examples)}."

    def _lists(self, gate: Gate) -> Iterator[tuple[str, Result]]:
        """The results that a gate depends on. Queries missing from a baseline would look like a gain."""
        yield "The run", self.result
        if gate.compares and self.baseline is not None:
            yield "The baseline", self.baseline.result
        if gate.compares and gate.anchor in self.anchors:
            yield "The anchor", self.anchors[gate.anchor].result

    def _said(
        self,
        gate: Gate,
        segment: str | None,
        outcome: Outcome,
        reason: str,
        n: int,
        parts: list[Condition] | None = None,
    ) -> GateVerdict:
        """A verdict without numbers. Without parts, the data do not allow a verdict."""
        return GateVerdict(
            gate=gate.title,
            metric=str(gate.parsed),
            segment=segment,
            severity=gate.severity,
            outcome=outcome,
            blocks=_blocks(gate, outcome),
            reason=reason,
            value=None,
            low=None,
            high=None,
            n=n,
            unit=self._unit(gate.parsed),
            parts=[Condition("data", "invalid", reason)] if parts is None else parts,
        )


_NOT_CHECKED = Condition(
    "regression",
    "not checked",
    "Regression was not checked: there is no baseline. Save one with `karat eval … -o baseline.json` and pass it with "
    "`--baseline`.",
)
_NOTHING_CHECKED = (
    "No check ran: there is no baseline to compare with, so pass one with --baseline. "
    "`karat eval … -o baseline.json` saves one."
)


def overall(verdicts: Sequence[GateVerdict]) -> tuple[Outcome, int]:
    """The overall outcome and the exit code: 0 may ship, 1 may not ship, 2 could not be judged."""
    if any(v.outcome == "invalid" for v in verdicts):
        return "invalid", 2
    if any(v.blocks for v in verdicts):
        return ("fail" if any(v.blocks and v.outcome == "fail" for v in verdicts) else "inconclusive"), 1
    return "pass", 0


def _require(metric: Metric, result: Result, name: str) -> None:
    if str(metric) not in result.values:
        hint = f"it has {', '.join(result.values)}; save it again with -m {metric}"
        raise ConfigError(f"{name} has no {metric}", code="missing-metric", hint=hint)


def _lacking(name: str, result: Result, allowed: float) -> str:
    """Say what failed, with the first error, or how many queries are missing."""
    failed = next((entry for entry in result.audit if entry.code == "failed_queries"), None)
    if failed is None:
        share = f"{result.missing_share:.1%}"
        return f"{name} is missing {share} of the gold set's queries; at most {allowed:.1%} is allowed."
    error = failed.examples[0].partition(": ")[2] if failed.examples else "no error was logged"
    said = f"{failed.count:,} of {counted(len(result.rows))} failed: {error}"
    missing = result.audit["missing_queries"] + result.audit["missing_skipped"]
    more = f" {missing:,} more {'is' if missing == 1 else 'are'} missing." if missing else ""
    start = "" if name == "The run" else f"{name}: "
    return f"{start}{said.rstrip('.')}.{more} At most {allowed:.1%} is allowed."


def _gravity(part: Condition) -> int:
    return len(_WORST) if part.outcome == "not checked" else _WORST.index(part.outcome)


def _worst(parts: list[Condition]) -> Outcome:
    outcomes = {part.outcome for part in parts}
    return next((outcome for outcome in _WORST if outcome in outcomes), "pass")


def _blocks(gate: Gate, outcome: Outcome) -> bool:
    if outcome == "invalid":
        return True
    return gate.severity == "error" and (outcome == "fail" or (outcome == "inconclusive" and gate.policy == "block"))


def _label(gate: Gate) -> str | None:
    return ", ".join(f"{name} {label_text(v)}" for name, v in gate.segment.items()) if gate.segment else None


def _only(scores: Scores, metric: Metric) -> Scores:
    return replace(scores, metrics=[metric])


def _count(scores: Scores, metric: Metric) -> int:
    return int((~np.isnan(scores.values[str(metric)])).sum())


def _wider(one: Limits, other: Limits) -> Limits:
    """The outer ends of both; none if any end is unknown."""
    ends = [*one, *other]
    known = [end for end in ends if end is not None]
    return (min(known), max(known)) if len(known) == len(ends) else (None, None)


def _turned(limits: Limits, sign: float) -> Limits:
    low, high = limits
    if sign > 0 or low is None or high is None:
        return limits
    return -high, -low
