"""The first gates of a repository: metrics that fit its gold set, with floors that a run reaches today."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.errors import ConfigError
from karat.formats.questions import tag_with_texts
from karat.gates.criteria import Gate
from karat.results.numbers import counted
from karat.results.result import Result

_CUTOFFS = (10, 20, 50, 100)  # used if the relevant items of a query do not fit into the default
_FITS = 0.9  # recall that a perfect retriever must be able to reach
_FLOOR, _SECOND, _FALSE = 0.8, 0.6, 0.5  # without a run to measure
_LOSS, _SOFT_LOSS = 0.03, 0.05
_VALUES, _PER_VALUE = (2, 12), 10  # number of values of a tag that gets a gate, and queries per value
_FIRST_TAG = ("language", "lang", "locale", "topic", "category", "type")


class GoldFacts(msgspec.Struct, frozen=True):
    """What a gold set contains."""

    queries: int
    items: bool  # some query has a relevant item or passage
    graded: bool  # more than one grade above 0
    evidence: int  # queries with evidence texts
    answers: int  # queries with an answer that a text may contain
    no_answer: int
    own_k: int  # queries with a cutoff of their own
    k: int  # the cutoff of gates
    ceiling: float  # the best recall that a retriever can reach at that cutoff
    texts: bool  # every query has a text
    text_field: str | None  # if none has: the field that is probably the text
    tag: str | None  # the attribute whose values each get a gate

    def described(self) -> str:
        """Describe the gold set in one line."""
        parts = [counted(self.queries), "graded" if self.graded else "not graded" if self.items else ""]
        parts.append(f"{self.evidence:,} with evidence texts" if self.evidence else "")
        parts.append(f"{self.no_answer:,} without an answer" if self.no_answer else "")
        parts.append(f"{self.own_k:,} with a k of their own" if self.own_k else "")
        return ", ".join(filter(None, parts))


class StarterGate(msgspec.Struct, frozen=True):
    """A gate and the comment above it."""

    why: str
    gate: Gate


def gold_facts(gold: Gold, default_k: int = 5) -> GoldFacts:
    relevant = gold.grades > 0
    counts = gold.count_items(relevant)
    own = gold.k > 0
    k = Counter(gold.k[own].tolist()).most_common(1)[0][0] if own.any() else default_k
    cutoffs = [k] if own.any() else [k, *(other for other in _CUTOFFS if other > k)]
    k = next((cutoff for cutoff in cutoffs if _ceiling(counts, cutoff) >= _FITS), cutoffs[-1])
    return GoldFacts(
        queries=len(gold.queries),
        items=bool(relevant.any()),
        graded=len(np.unique(gold.grades[relevant])) > 1,
        evidence=_said(gold.fields.get("evidence")),
        answers=_said(gold.fields.get("answer_span")) or _said(gold.fields.get("answer")),
        no_answer=int(gold.no_answer.sum()),
        own_k=int(own.sum()),
        k=k,
        ceiling=_ceiling(counts, k),
        texts=all((gold.text(i) or "").strip() for i in range(len(gold.queries))),
        text_field=tag_with_texts(gold),
        tag=_tag(gold),
    )


def _ceiling(relevant: Any, k: int) -> float:
    counts = relevant[relevant > 0]
    return float(np.mean(np.minimum(counts, k) / counts)) if len(counts) else 1.0


def _said(values: list[Any] | None) -> int:
    return sum(bool(value) for value in values or ())


def _tag(gold: Gold) -> str | None:
    """An attribute with a few values and many queries per value."""
    fitting = []
    for name, values in gold.tags.items():
        if any(isinstance(value, (list, dict)) for value in values):
            continue
        found = Counter(str(value) for value in values if value is not None)
        if _VALUES[0] <= len(found) <= _VALUES[1] and min(found.values()) >= _PER_VALUE:
            fitting.append(name)
    return min(
        fitting, key=lambda name: _FIRST_TAG.index(name) if name in _FIRST_TAG else len(_FIRST_TAG), default=None
    )


def starter_metrics(facts: GoldFacts) -> list[str]:
    """All metrics that the first gates may use."""
    return list(dict.fromkeys(str(entry.gate.metric) for entry in _gates(facts, texts=True)))


def starter_gates(facts: GoldFacts, measured: Result | None = None) -> list[StarterGate]:
    """Gates that run on this gold set. `measured`: a run's result in `starter_metrics`, which sets the floors."""
    found = list(_gates(facts, texts=measured is not None))
    if measured is not None:
        found = [_set_by(entry, measured) for entry in found if measured.row(entry.gate.parsed).mean is not None]
    if not found:
        hint = "a query needs `gold`, `evidence`, `answer_span` or `no_answer`"
        raise ConfigError("nothing in this gold set can be measured", code="no-gates", hint=hint)
    return found


def _gates(facts: GoldFacts, *, texts: bool) -> Iterator[StarterGate]:
    """`texts`: whether hits are known to have texts, which evidence needs in addition to ids."""
    at = "" if facts.own_k else f"@{facts.k}"
    first = f"among the first {facts.k}" if not facts.own_k else "among the first k, the query's own"
    main = None
    if facts.items:
        main = f"recall{at}"
        floor = min(_FLOOR, math.floor(_FLOOR * facts.ceiling * 100) / 100)
        why = f"How many of the passages that answer a question are {first}."
        if facts.ceiling < 1:
            why += f" No retriever can reach more than {facts.ceiling:.2f} on this gold set."
        yield StarterGate(why, Gate(metric=main, threshold=floor, regression_max=_LOSS))
        if facts.graded:
            why = "Whether the best passages come first: nDCG, which uses the grades."
            yield StarterGate(why, _soft(f"ndcg{at}", threshold=_SECOND))
        else:
            why = "How early the first good passage comes: 1 is first, 0.5 second."
            yield StarterGate(why, _soft("mrr", threshold=_SECOND))
    if facts.evidence:
        name = f"evidence_recall@{facts.k}"
        why = f"How many of the evidence texts are covered by a hit {first}. Needs the texts of the hits."
        if main is None:
            main = name
            yield StarterGate(why, Gate(metric=name, threshold=_FLOOR, regression_max=_LOSS))
        elif texts:
            yield StarterGate(why, _soft(name, threshold=_FLOOR))
    if main is None and facts.answers:
        main = f"answer_containment@{facts.k}"
        why = f"Whether the text of a hit {first} contains the answer. Needs the texts of the hits."
        yield StarterGate(why, Gate(metric=main, threshold=_FLOOR, regression_max=_LOSS))
    if main is not None and facts.tag is not None:
        why = f"An average can hide a group that got worse: each {facts.tag} compared with the baseline."
        yield StarterGate(why, Gate(name=f"by {facts.tag}", metric=main, each=facts.tag, regression_max=_SOFT_LOSS))
    if facts.no_answer:
        why = "Questions without an answer should get no hits. A retriever without a score threshold reaches 1."
        yield StarterGate(why, _soft(f"false_evidence@{facts.k}", max=_FALSE))


def _soft(metric: str, *, threshold: float | None = None, max: float | None = None) -> Gate:
    return Gate(metric=metric, threshold=threshold, max=max, regression_max=_SOFT_LOSS, severity="warning")


def _set_by(entry: StarterGate, measured: Result) -> StarterGate:
    """The same gate with its limit at the near end of the run's interval, so that noise alone does not fail it."""
    gate, row = entry.gate, measured.row(entry.gate.parsed)
    if row.mean is None or (gate.threshold is None and gate.max is None):
        return entry
    why = f"{entry.why}\n{measured.system or 'The run'} reaches {row.mean:.3f}."
    if gate.threshold is not None:
        low = row.mean if row.low is None else row.low
        return StarterGate(why, msgspec.structs.replace(gate, threshold=math.floor(low * 100) / 100))
    high = row.mean if row.high is None else row.high
    most = math.ceil(high * 100) / 100
    return StarterGate(why, msgspec.structs.replace(gate, max=most if most < 1 else None))  # 1 always holds


_HEAD = """\
# yaml-language-server: $schema=ship-criteria.schema.json
# What a change to the retriever must meet to ship. `karat gate` checks it.
# Written by `karat init` for {gold}: {facts}.
# {floors}
# `karat gate selftest` shows how often these gates would fail by chance on your queries, `karat eval power` which drops
# they can detect.
# `severity: error` blocks the merge, `warning` only reports. A drop that could be chance is a warning.
gates:
"""
_GUESSED = "The floors are a guess. Measure first (`karat eval`), then set them a little below what you have today."
_MEASURED = "The floors are a little below what {run} reaches."
_IDEAS = """
  # Ideas. Remove the `#` to use them.
  # - metric: {main}
  #   threshold: {floor}
  #   on: bound # the lower end of the interval, not the average, must reach it: proven, not lucky
  #   min_queries: 100 # with fewer, the verdict is invalid
  # - metric: latency_p90(stage=retrieve) # milliseconds; needs `latency_ms` in the run
  #   max: 200
{more}
# A second baseline, saved at the last release, so that many small drops cannot add up unnoticed:
# anchor: release.json
"""


def criteria_text(gates: list[StarterGate], facts: GoldFacts, gold: str, run: str | None) -> str:
    """The file, with a comment above each gate."""
    floors = _GUESSED if run is None else _MEASURED.format(run=run)
    parts = [_HEAD.format(gold=_one_line(gold), facts=facts.described(), floors=_one_line(floors))]
    parts += ["\n".join(_lines(entry)) + "\n\n" for entry in gates]
    floor = next((entry.gate.threshold for entry in gates if entry.gate.threshold is not None), _FLOOR)
    wanted = {str(entry.gate.metric) for entry in gates}
    more = [name for name in starter_metrics(facts) if name not in wanted]
    ideas = "".join(f"  # - metric: {name} # needs the texts of the hits\n  #   threshold: {_FLOOR}\n" for name in more)
    main = gates[0].gate.metric
    return "".join(parts).rstrip("\n") + "\n" + _IDEAS.format(main=main, floor=floor, more=ideas)


def _lines(entry: StarterGate) -> Iterator[str]:
    gate = entry.gate
    yield from (f"  # {_one_line(line)}" for line in entry.why.split("\n"))
    fields: dict[str, Any] = {name: getattr(gate, name) for name in ("name", "metric", "each")}
    fields |= {name: getattr(gate, name) for name in ("threshold", "max", "regression_max")}
    fields["severity"] = gate.severity
    told = [f"{name}: {_yaml(value)}" for name, value in fields.items() if value is not None]
    yield from (f"  {'- ' if not i else '  '}{line}" for i, line in enumerate(told))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _yaml(value: Any) -> str:
    """A value as YAML: plain words as they are, anything ambiguous in quotes."""
    if not isinstance(value, str):
        return str(value)
    plain = all(c.isalnum() or c in "_@ " for c in value) and value[:1].isalpha()
    mistaken = value.lower() in ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
    return value if plain and value.isascii() and not mistaken else msgspec.json.encode(value).decode()
