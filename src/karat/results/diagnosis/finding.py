"""Findings, and the rules that produce them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, Literal, TypeVar

import msgspec

Sure = Literal["strong", "likely"]


class Number(msgspec.Struct, frozen=True):
    """One measured number behind a finding; a plain count has no limits."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class Finding(msgspec.Struct, frozen=True):
    """Something that stands out, with evidence and what to try."""

    code: str
    title: str
    sure: Sure  # likely: at the level of the intervals; strong: at 99 % too
    evidence: str
    what_to_try: list[str]
    numbers: list[Number]

    def __repr__(self) -> str:
        return f"{self.title} ({self.sure})"


T = TypeVar("T")
_NAMES = {1: "likely", 2: "strong"}


class Proof(msgspec.Struct, frozen=True):
    """What a rule found, in words and numbers. `sure`: 1 likely, 2 strong."""

    sure: int
    evidence: str
    numbers: list[Number]
    about: dict[str, str] = {}  # values for the {names} in the title
    first_try: tuple[str, ...] = ()  # advice for this case, shown before the rule's general advice


class Rule(msgspec.Struct, Generic[T], frozen=True):
    """One entry in the table of rules."""

    code: str
    title: str  # one sentence; {names} come from the proof
    what_to_try: tuple[str, ...]  # may use {names} too
    check: Callable[[T], Iterator[Proof]]
    unless: frozenset[str]  # findings that explain it better

    @property
    def when(self) -> str:
        """When the rule fires, for the documentation."""
        return " ".join((self.check.__doc__ or "").split())

    def finding(self, proof: Proof) -> Finding:
        return Finding(
            code=self.code,
            title=self.title.format(**proof.about),
            sure=_NAMES[proof.sure],  # type: ignore[arg-type]
            evidence=proof.evidence,
            what_to_try=[*proof.first_try, *(text.format(**proof.about) for text in self.what_to_try)],
            numbers=proof.numbers,
        )


class MissingEvidence(Exception):
    """The evidence for a rule was not measured, or on too few queries. The rule then reports nothing."""


class RuleTable(list[Rule[T]]):
    """Rules in the order in which their findings are reported."""

    def rule(
        self, title: str, *what_to_try: str, unless: tuple[str, ...] = ()
    ) -> Callable[[Callable[[T], Iterator[Proof]]], Callable[[T], Iterator[Proof]]]:
        """Add a check to the table: its name is the code of the finding, its docstring says when it fires."""

        def enter(check: Callable[[T], Iterator[Proof]]) -> Callable[[T], Iterator[Proof]]:
            self.append(Rule(check.__name__, title, what_to_try, check, frozenset(unless)))
            return check

        return enter

    def apply(self, evidence: T) -> list[Finding]:
        found: list[Finding] = []
        for rule in self:
            if rule.unless.isdisjoint(f.code for f in found):
                with suppress(MissingEvidence):
                    found += [rule.finding(proof) for proof in rule.check(evidence)]
        return found
