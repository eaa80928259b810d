"""Measure false alarms of gates: resample the user's own queries many times with nothing changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from karat import __version__
from karat.data.attributes import attribute, attribute_names
from karat.data.gold import Gold
from karat.data.ids import Floats, Ints
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.gates.criteria import Criteria, Gate
from karat.gates.verdict_form import GateVerdict
from karat.gates.verdicts import Baseline, GateJudge
from karat.results.comparison.compare import paired_sides
from karat.results.result import Result
from karat.results.summary import Scores
from karat.scoring.collect import RunData
from karat.statistics.special import normal_quantile

ROUNDS = 200
_RESAMPLES = 1_000  # per interval in one round: errors average out over the rounds
_CAUGHT = 0.8
_UNIT = "drawn together"
Unmet = Literal["missed", "not proven"]
_ALIKE = 0.5  # share of queries on which two versions score the same, assumed if there is no baseline


class Alarm(msgspec.Struct, frozen=True):
    """Outcomes of one gate, on all queries or a segment, over rounds in which nothing had changed."""

    gate: str
    metric: str
    segment: str | None
    queries: float  # on average
    passed: float  # shares of the rounds
    failed: float
    inconclusive: float
    invalid: float
    blocked: float
    caught: float | None  # the smallest true drop that would fail in four of five rounds
    unit: str
    unmet: Unmet | None = None  # the run itself does not meet the limit, so failing is right and no false alarm


class SelfTest(SavedObject, frozen=True, kw_only=True):
    """What `karat gate selftest` saves."""

    schema: Literal["karat/selftest/1"] = "karat/selftest/1"
    run: str
    baseline: str | None
    gold: str
    rounds: int
    seed: int
    blocked: float  # share of the rounds in which at least one gate blocked that the run meets
    alarms: list[Alarm]


def selftest(
    result: Result, criteria: Criteria, baseline: Result | None = None, rounds: int = ROUNDS, seed: int = 0
) -> SelfTest:
    """Measure how often each gate would block although nothing changed, and what drop it would catch.

    Each round resamples the queries (whole conversations together) and assigns each query's two scores, of run and
    baseline, to the two sides at random, so neither is better. Without a baseline the other version scores half of the
    queries as the run does, and the rest as the run scores some other query.
    """
    if rounds < 20:
        raise ConfigError("too few rounds to count alarms", got=rounds, expected="20 or more")
    sides = _Sides.of(result, baseline)
    # Without anchors: a fixed result cannot be resampled together with the queries.
    gates = [msgspec.structs.replace(gate, anchor=None) for gate in criteria.gates]
    unmet = _unmet(GateJudge(result, max_missing=criteria.max_missing), gates)
    tallies: dict[tuple[int, str | None], _Tally] = {}
    blocked = 0
    for number in range(rounds):
        judge = sides.drawn(np.random.default_rng([seed, number]), criteria.max_missing)
        found = [(i, verdict) for i, gate in enumerate(gates) for verdict in judge.judge(gate)]
        blocked += any(verdict.blocks and (i, verdict.segment) not in unmet for i, verdict in found)
        for i, verdict in found:
            tallies.setdefault((i, verdict.segment), _Tally(criteria.gates[i])).add(verdict)
    many = Counter(i for i, _ in tallies)
    order = sorted(tallies, key=lambda key: (key[0], key[1] or ""))
    return SelfTest(
        karat=__version__,
        run=result.system or result.run,
        baseline=None if baseline is None else baseline.system or baseline.run,
        gold=result.gold.label,
        rounds=rounds,
        seed=seed,
        blocked=blocked / rounds,
        alarms=[
            tallies[key].alarm(key[1], rounds, many[key[0]], result.sampling.level, unmet.get(key)) for key in order
        ],
    )


def _unmet(judge: GateJudge, gates: list[Gate]) -> dict[tuple[int, str | None], Unmet]:
    """The gates whose minimum or maximum the run itself does not meet, by number and segment."""
    words: dict[str, Unmet] = {"fail": "missed", "inconclusive": "not proven"}
    return {
        (i, verdict.segment): words[part.outcome]
        for i, gate in enumerate(gates)
        for verdict in judge.judge(gate)
        for part in verdict.parts
        if part.kind == "floor" and part.outcome in words
    }


class _Sides(msgspec.Struct, frozen=True):
    """Two versions on the same queries, to draw from."""

    result: Result
    after: Scores
    before: Scores | None
    attributes: dict[str, list[Any]]
    units: list[Ints]  # places of the queries that are drawn together

    @classmethod
    def of(cls, result: Result, baseline: Result | None) -> _Sides:
        gold = {name: attribute(result.gold, name) for name in attribute_names(result.gold)}
        attributes = {name: [column[i] for i in result.rows.tolist()] for name, column in gold.items()}
        after, before = result.columns, None
        if baseline is not None:
            paired = paired_sides(baseline, result)
            before, after = paired.baseline, paired.candidate
            places = {query: i for i, query in enumerate(result.queries)}
            keep = [places[query] for query in baseline.queries if query in places]  # in the order of the pairs
            attributes = {name: [column[i] for i in keep] for name, column in attributes.items()}
        size = len(next(iter(after.values.values())))
        clusters = np.arange(size) if after.clusters is None else after.clusters
        units = [np.flatnonzero(clusters == c) for c in np.unique(clusters)]
        return cls(result, after, before, attributes, units)

    def drawn(self, rng: np.random.Generator, max_missing: float) -> GateJudge:
        picked = rng.integers(0, len(self.units), len(self.units))
        at = np.concatenate([self.units[i] for i in picked])
        clusters = np.repeat(np.arange(len(picked)), [len(self.units[i]) for i in picked])
        gold = self._gold(at)
        one, other = (self._result(gold, values, at, clusters) for values in self._versions(at, rng))
        return GateJudge(one, Baseline("itself", other), max_missing=max_missing)

    def _versions(self, at: Ints, rng: np.random.Generator) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Two versions of which neither is better."""
        values = self.after.values
        if self.before is not None:
            swapped = rng.random(len(at)) < 0.5
            both = [name for name in self.before.values if name in values]
            pairs = {name: (values[name][at], self.before.values[name][at]) for name in both}
            one = {name: np.where(swapped, b, a) for name, (a, b) in pairs.items()}
            return one, {name: np.where(swapped, a, b) for name, (a, b) in pairs.items()}
        elsewhere = np.where(rng.random(len(at)) < _ALIKE, at, rng.permutation(at))
        swapped = rng.random(len(at)) < 0.5
        left, right = np.where(swapped, elsewhere, at), np.where(swapped, at, elsewhere)
        one, other = ({n: _borrowed(v[at], v[of]) for n, v in values.items()} for of in (left, right))
        return one, other

    def _gold(self, at: Ints) -> Gold:
        """The drawn queries, each with a unique name even if drawn several times."""
        size = len(at)
        return replace(
            self.result.gold,
            queries=[str(i) for i in range(size)],
            offsets=np.zeros(size + 1, np.int64),
            items=[],
            grades=np.zeros(0),
            kinds=np.zeros(0, np.int64),
            k=np.zeros(size, np.int64),
            no_answer=np.zeros(size, np.int64),
            fields={},
            tags={name: [column[i] for i in at.tolist()] for name, column in self.attributes.items()},
        )

    def _result(self, gold: Gold, values: dict[str, Floats], at: Ints, clusters: Ints) -> Result:
        gold.tags[_UNIT] = clusters.tolist()
        return replace(
            self.result,
            gold=gold,
            rows=np.arange(len(at)),
            values=values,
            votes={name: votes[at] for name, votes in self.after.weights.items()},
            cluster=None if self.after.clusters is None else _UNIT,
            sampling=self.result.sampling.replace(resamples=_RESAMPLES),
            data=RunData(self.result.system, {}, {}, {}),
            rules=self.result.rules.replace(corpus_size=None),
            memo={},
        )


def _borrowed(own: Floats, other: Floats) -> Floats:
    """Scores of other queries. The metric stays defined on the same queries."""
    return np.where(np.isnan(own) | np.isnan(other), own, other)


class _Tally(msgspec.Struct):
    """The outcomes of one gate."""

    gate: Gate
    outcomes: list[str] = []
    blocked: int = 0
    queries: list[int] = []
    unit: str = ""
    values: list[float] = []
    deltas: list[float] = []

    def add(self, verdict: GateVerdict) -> None:
        self.outcomes.append(verdict.outcome)
        self.blocked += verdict.blocks
        self.queries.append(verdict.n)
        self.unit = verdict.unit
        if verdict.value is not None:
            self.values.append(verdict.value)
        self.deltas += [p.difference.delta for p in verdict.parts if p.difference and p.difference.delta is not None]

    def alarm(self, segment: str | None, rounds: int, many: int, level: float, unmet: Unmet | None) -> Alarm:
        metric = self.gate.parsed
        share = {outcome: self.outcomes.count(outcome) / rounds for outcome in set(self.outcomes)}
        return Alarm(
            gate=self.gate.title,
            metric=str(metric),
            segment=segment,
            queries=float(np.mean(self.queries)),
            passed=share.get("pass", 0.0),
            failed=share.get("fail", 0.0),
            inconclusive=share.get("inconclusive", 0.0),
            invalid=share.get("invalid", 0.0),
            blocked=self.blocked / rounds,
            caught=None if unmet else min(self._caught(many if self.gate.each else 1, level), default=None),
            unit=self.unit,
            unmet=unmet,
        )

    def _caught(self, many: int, level: float) -> Iterable[float]:
        """The drop that each part would fail in four of five rounds, given the spread over the rounds."""
        sure, often = normal_quantile(1 - (1 - level) / many / 2), normal_quantile(_CAUGHT)
        gate = self.gate
        line = gate.max if gate.max is not None else gate.threshold
        if line is not None and len(self.values) > 1:
            mean = float(np.mean(self.values))
            room = mean - line if gate.max is None else line - mean
            proof = sure if gate.on == "bound" else 0.0
            yield max(0.0, room + (proof + often) * float(np.std(self.values)))
        if gate.compares and len(self.deltas) > 1:
            yield self._caught_drop(gate.most(float(np.mean(self.values))), sure, often)

    def _caught_drop(self, most: float, sure: float, often: float) -> float:
        shares = self.gate.parsed.range == (0.0, 1.0)
        drop = 0.0
        for _ in range(20):  # converges
            # A drop adds spread: some queries lose everything, most lose nothing.
            own = drop * (1 - drop) / float(np.mean(self.queries)) if shares and drop < 1 else 0.0
            spread = math.sqrt(float(np.var(self.deltas)) + own)
            proof = (sure + often) * spread
            drop = most + proof if self.gate.on == "bound" else max(most + often * spread, proof)
        return drop
