"""Replaces personal data in the texts of traces, by patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from karat.errors import ConfigError

_BUILT_IN = {
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
    "phone": r"(?<![\w.])(?:\+|00|\()?\d(?:[\s./()-]{0,2}\d){6,14}(?!\w)",
    "card": r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)",
    "ip": r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
}
BUILT_IN = tuple(_BUILT_IN)
_NAMED = re.compile(r"([A-Za-z]\w{0,30})=(.+)", re.S)
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]*")  # rather a misspelt name than an expression: what it misses would be written
_KEPT = ("trace_id", "query_id", "chunk_id", "doc_id", "system", "latency_ms", "usage")  # ids must still match


class Redaction:
    """Patterns, each with its replacement. They are applied in the given order. Ids are kept: they must still match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """A pattern is a built-in name (email, phone, card, ip, iban), a regular expression, or NAME=EXPRESSION."""
        self._rules: list[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]] = []
        self.names: list[str] = []  # for display: an expression may itself be personal data
        self._found: set[str] = set()
        for pattern in patterns:
            name, compiled, shown = _rule(pattern)
            self.names += [name] if name not in self.names else []
            self._rules.append((name, compiled, shown))

    @property
    def without_match(self) -> list[str]:
        """Names of the patterns that have replaced nothing so far."""
        return [name for name in self.names if name not in self._found]

    def text(self, text: str) -> str:
        for name, pattern, shown in self._rules:
            hidden = pattern.sub(shown, text)
            if hidden != text:
                self._found.add(name)
            text = hidden
        return text

    def of(self, value: Any, *, keep: tuple[str, ...] = _KEPT) -> Any:
        """A copy of a value in which every text is redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: one if name in keep else self.of(one, keep=keep) for name, one in value.items()}
        return [self.of(one, keep=keep) for one in value] if isinstance(value, list) else value


def _rule(pattern: str) -> tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Its name, the expression, and what is written instead."""
    if pattern in _BUILT_IN:
        shown = f"[{pattern}]"
        return pattern, re.compile(_BUILT_IN[pattern]), _card if pattern == "card" else lambda found: shown
    if _WORD.fullmatch(pattern):
        close = get_close_matches(pattern.lower(), BUILT_IN, n=1) or [one for one in BUILT_IN if one in pattern.lower()]
        meant = f"did you mean {close[0]}? " if close else ""
        raise ConfigError(
            "there is no pattern of this name",
            code="bad-setting",
            field="redact",
            expected=f"one of {', '.join(BUILT_IN)}, a regular expression, or NAME=EXPRESSION",
            got=pattern if close else None,  # the word may itself be personal data
            hint=f"{meant}to replace a word of the texts, write NAME=WORD",
        )
    named = _NAMED.fullmatch(pattern)
    name, expression = (named[1], named[2]) if named else ("redacted", pattern)
    try:
        compiled = re.compile(expression)
    except re.error as error:
        raise ConfigError(
            f"invalid regular expression: {error}",
            code="bad-setting",
            field="redact",
            expected=f"one of {', '.join(BUILT_IN)}, a regular expression, or NAME=EXPRESSION",
            got=pattern,
        ) from error
    if compiled.fullmatch(""):
        what, hint = "the pattern matches the empty text", "write an expression for at least one character"
        raise ConfigError(what, code="bad-setting", field="redact", got=pattern, hint=hint)
    return name, compiled, lambda found: f"[{name}]"


def _card(found: re.Match[str]) -> str:
    """Only numbers with a valid check digit."""
    digits = [int(sign) for sign in found[0] if sign.isdecimal()]
    doubled = [2 * one - 9 * (one > 4) for one in digits[-2::-2]]
    return "[card]" if (sum(doubled) + sum(digits[-1::-2])) % 10 == 0 else found[0]
