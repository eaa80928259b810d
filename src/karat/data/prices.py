"""Usage of a query, and its cost by a price table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import msgspec

from karat.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from karat.files.yaml import Path as Place

Refuse: TypeAlias = Callable[..., NoReturn]  # place, message, code and other fields of an error

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


_NO_CURRENCIES = ("", "pp", "ms", "tokens")


def is_currency(unit: str) -> bool:
    """Whether values of this unit are money. A price table may use any currency name."""
    return unit not in _NO_CURRENCIES


def money(value: float, digits: int = 3) -> str:
    """An amount with this many significant digits, and at least two decimals: a query may cost parts of a cent.

    >>> money(12.345), money(0.00401), money(0.0000123456), money(-0.5, 1), money(0.0)
    ('12.35', '0.00401', '0.0000123', '-0.50', '0.00')
    """
    smallest = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{max(smallest, 2)}f}"


def estimate_tokens(text: str) -> int:
    """One token for every four bytes of UTF-8, white space collapsed, rounded up.

    Every model counts differently; this is the rule of thumb for English, and bytes extend it to other scripts
    (a Chinese character has three). For exact numbers, log `tokens` with each hit.

    >>> estimate_tokens("refunds take five days"), estimate_tokens("退款需要五天"), estimate_tokens("")
    (6, 5, 0)
    """
    collapsed = " ".join(text.split())
    return -(-len(collapsed.encode("utf-8", "surrogatepass")) // 4)


class Usage(msgspec.Struct):
    """Tokens and calls of one model in one stage of one query."""

    stage: str | None = None
    model: str | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    calls: Count = 1


class TokenPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices of input tokens and output tokens."""

    prompt: Amount = 0.0
    completion: Amount = 0.0


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a model costs: per thousand or million tokens, per call, or both."""

    per_1k: Amount | TokenPrice | None = None  # a bare number: tokens in and out cost the same
    per_1m: Amount | TokenPrice | None = None
    per_call: Amount | None = None

    def cost(self, used: Usage) -> float | None:
        """None where tokens have a price and the log has no tokens."""
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
    """A cost that does not depend on queries: an amount, or tokens (or calls) of a model."""

    name: str
    amount: Amount | None = None
    model: str | None = None
    tokens: Count | None = None
    calls: Count = 0
    per: str | None = None  # the period or event it pays for: month, re-index …

    @property
    def used(self) -> Usage:
        return Usage(model=self.model, prompt_tokens=self.tokens, calls=self.calls)


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A price table. Two tables are equal when all prices are."""

    currency: Annotated[str, msgspec.Meta(min_length=1, max_length=12)]
    models: dict[str, ModelPrice] = {}
    one_off: list[OneOff] = []

    def cost(self, used: Usage) -> float | None:
        """What one entry of the log costs; None where the table or the log lacks data."""
        price = self.models.get(used.model or "")
        return None if price is None else price.cost(used)

    def total(self, usage: Sequence[Usage]) -> float | None:
        """All entries together, in any order; None where the cost of one is unknown."""
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
        import hashlib  # loads OpenSSL, and most runs have no prices

        return "sha256:" + hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]


def unpriced(used: Usage, prices: Prices) -> str | None:
    """Why the cost of an entry is unknown."""
    if prices.cost(used) is not None:
        return None
    if used.model is None:
        return f"no model named in stage {used.stage!r}" if used.stage else "no model named"
    if used.model not in prices.models:
        return f"no price for {used.model}"
    return f"no tokens logged for {used.model}"


def read_prices(given: str | PathLike[str] | dict[str, Any] | Prices) -> Prices:
    """A price table from a YAML file (errors give line and column), from a dict, or as it is."""
    if isinstance(given, Prices):
        return given
    from karat.files.yaml import YamlDocument, read_document  # most evaluations have no prices and need no YAML

    document = YamlDocument(None, given, {}) if isinstance(given, dict) else read_document(Path(given))

    def refuse(place: Place, what: str, code: str, **about: Any) -> NoReturn:
        raise document.placed(ConfigError(what, code=code, **about), place)

    if not isinstance(document.value, dict):
        expected = "a mapping with currency and models"
        refuse((), "no prices", "wrong-type", expected=expected, got=document.value)
    _check_shorthands(document.value, refuse)
    prices = document.convert(Prices)
    _check_prices(prices, refuse)
    return prices


def _check_shorthands(table: dict[str, Any], refuse: Refuse) -> None:
    """Reject common mistakes, with a hint."""
    if table.get("currency") is None:
        hint = "add the currency, such as `currency: USD`; any name of up to 12 letters works"
        refuse((), "the field 'currency' is missing", "missing-field", hint=hint)
    models = table.get("models")
    for name, price in models.items() if isinstance(models, dict) else ():
        if not isinstance(price, dict):
            hint = f"name the unit, such as `{name}: {{per_1m: {price}}}` (per_1k, per_1m, per_call)"
            place = ("models", name)
            refuse(place, "not a price of a model", "wrong-type", expected="a mapping", got=price, hint=hint)


def _check_prices(prices: Prices, refuse: Refuse) -> None:
    """Checks that types cannot express."""
    if not prices.models and not prices.one_off:
        hint = "add the models of the log's `usage`, such as `models: {text-embed-small: {per_1m: 0.02}}`"
        refuse((), "the price table has no prices", "missing-field", expected="models, or one_off", hint=hint)
    for name, price in prices.models.items():
        place = ("models", name)
        if price.per_1k is not None and price.per_1m is not None:
            refuse((*place, "per_1m"), "per_1k and per_1m contradict each other", "contradiction", hint="keep one")
        if price.per_1k is None and price.per_1m is None and price.per_call is None:
            expected, hint = "per_1k, per_1m or per_call", "for a free model, write `per_call: 0`"
            refuse(place, "this model has no price", "missing-field", expected=expected, hint=hint)
    for number, line in enumerate(prices.one_off):
        _check_one_off(line, prices, ("one_off", number), refuse)


def _check_one_off(line: OneOff, prices: Prices, place: Place, refuse: Refuse) -> None:
    if (line.amount is None) == (line.model is None):
        refuse(place, "a one-off cost needs an amount, or a model", "contradiction", hint="give exactly one")
    if line.model is None:
        return
    if line.model not in prices.models:
        hint = did_you_mean(line.model, prices.models)
        refuse((*place, "model"), f"no price for {line.model!r}", "missing-price", hint=hint)
    if line.tokens is None and not line.calls:
        refuse(place, "the usage of the model is missing", "missing-field", expected="tokens or calls")
    if prices.cost(line.used) is None:
        refuse(place, f"{line.model} is priced per token", "missing-field", expected="tokens")
