"""What was used to answer a query, and what it costs by a price table."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


_NO_CURRENCIES = ("", "pp", "ms", "tokens")


def is_currency(unit: str) -> bool:
    """Whether values of this unit are money; the table may call its currency whatever it likes."""
    return unit not in _NO_CURRENCIES


def money(value: float, digits: int = 3) -> str:
    """An amount with so many digits that count, and two decimals at least: a query costs parts of a cent.

    >>> money(12.345), money(0.00401), money(0.0000123456), money(-0.5, 1), money(0.0)
    ('12.35', '0.00401', '0.0000123', '-0.50', '0.00')
    """
    smallest = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{max(smallest, 2)}f}"


class Usage(msgspec.Struct):
    """Tokens and calls of one model in one stage of one query."""

    stage: str | None = None
    model: str | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    calls: Count = 1


class TokenPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Tokens that go in and tokens that come out have prices of their own."""

    prompt: Amount = 0.0
    completion: Amount = 0.0


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a model costs: for a thousand or a million tokens, for a call, or both."""

    per_1k: Amount | TokenPrice | None = None  # a bare number: tokens in and out cost the same
    per_1m: Amount | TokenPrice | None = None
    per_call: Amount | None = None

    def cost(self, used: Usage) -> float | None:
        """None where tokens cost something and the log says of none."""
        by_call = used.calls * (self.per_call or 0.0)
        price, unit = (self.per_1k, 1_000) if self.per_1k is not None else (self.per_1m, 1_000_000)
        if price is None:
            return by_call
        if used.prompt_tokens is None and used.completion_tokens is None:
            return None
        kinds = price if isinstance(price, TokenPrice) else TokenPrice(price, price)
        tokens = (used.prompt_tokens or 0) * kinds.prompt, (used.completion_tokens or 0) * kinds.completion
        return math.fsum(tokens) / unit + by_call


class OneOff(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cost that no query causes: an amount, or tokens (or calls) of a model."""

    name: str
    amount: Amount | None = None
    model: str | None = None
    tokens: Count | None = None
    calls: Count = 0
    per: str | None = None  # what it is paid for: month, re-index …

    @property
    def used(self) -> Usage:
        return Usage(model=self.model, prompt_tokens=self.tokens, calls=self.calls)


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A price table. Two of them are equal when every price is."""

    currency: Annotated[str, msgspec.Meta(min_length=1, max_length=12)]
    models: dict[str, ModelPrice] = {}
    one_off: list[OneOff] = []

    def cost(self, used: Usage) -> float | None:
        """What one entry of the log costs; None where the table or the log does not say enough."""
        price = self.models.get(used.model or "")
        return None if price is None else price.cost(used)

    def total(self, usage: Sequence[Usage]) -> float | None:
        """All entries together, in whatever order; None where one of them has no known cost."""
        costs = [self.cost(used) for used in usage]
        return None if None in costs else math.fsum(cost for cost in costs if cost is not None)

    def one_off_amount(self, line: OneOff) -> float:
        if line.amount is not None:
            return line.amount
        cost = self.cost(line.used)
        assert cost is not None
        return cost

    @property
    def hash(self) -> str:
        """The same for equal tables, whatever the order of their lines."""
        return "sha256:" + hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


def unpriced(used: Usage, prices: Prices) -> str | None:
    """Why an entry has no known cost."""
    if prices.cost(used) is not None:
        return None
    if used.model is None:
        return f"no model named in stage {used.stage!r}" if used.stage else "no model named"
    if used.model not in prices.models:
        return f"no price for {used.model}"
    return f"no tokens logged for {used.model}"
