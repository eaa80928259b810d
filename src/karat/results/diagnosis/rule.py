"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from karat.results.diagnosis.finding import Finding, Number

T = TypeVar("T")
_NAMES = {1: "likely", 2: "strong"}


@dataclass(frozen=True)
class Proof:
    """What a rule found: how sure (1 likely, 2 strong), in words, and in numbers."""

    sure: int
    evidence: str
    numbers: list[Number]
    about: dict[str, str] = field(default_factory=dict)  # what the title names
    first_try: tuple[str, ...] = ()  # what fits this case best, before what the rule always says


@dataclass(frozen=True)
class Rule(Generic[T]):
    """One entry of the table."""

    code: str
    title: str  # one sentence; {names} come from the proof
    what_to_try: tuple[str, ...]  # likewise
    check: Callable[[T], Iterator[Proof]]
    unless: frozenset[str]  # findings that say it better

    @property
    def when(self) -> str:
        """In words, for the documentation."""
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


class RuleTable(Generic[T]):
    """Rules in the order in which their findings are told."""

    def __init__(self) -> None:
        self.rules: list[Rule[T]] = []

    @classmethod
    def of(cls, *tables: RuleTable[T]) -> RuleTable[T]:
        """All of them in one, in this order."""
        whole = cls()
        whole.rules = [rule for table in tables for rule in table.rules]
        return whole

    def rule(
        self, code: str, title: str, *what_to_try: str, unless: tuple[str, ...] = ()
    ) -> Callable[[Callable[[T], Iterator[Proof]]], Callable[[T], Iterator[Proof]]]:
        """Enters a check into the table; its docstring says when it fires."""

        def enter(check: Callable[[T], Iterator[Proof]]) -> Callable[[T], Iterator[Proof]]:
            self.rules.append(Rule(code, title, what_to_try, check, frozenset(unless)))
            return check

        return enter

    def apply(self, evidence: T, silent: type[Exception]) -> list[Finding]:
        """All findings. A rule that raises `silent` lacks the data to speak."""
        found: list[Finding] = []
        for rule in self.rules:
            if rule.unless.isdisjoint(f.code for f in found):
                found += [rule.finding(proof) for proof in _proofs(rule, evidence, silent)]
        return found


def _proofs(rule: Rule[T], evidence: T, silent: type[Exception]) -> list[Proof]:
    try:
        return list(rule.check(evidence))
    except silent:
        return []
