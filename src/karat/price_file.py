"""Reads price tables; apart from `prices`, for most who score have none and need no YAML."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from karat.errors import ConfigError, did_you_mean
from karat.prices import OneOff, Prices
from karat.strict_yaml import Document, read_document
from karat.yaml_io import Path as Place


def read_prices(given: str | PathLike[str] | dict[str, Any] | Prices) -> Prices:
    """A price table from a YAML file (a mistake is told with its line and column), from a dict, or as it is."""
    if isinstance(given, Prices):
        return given
    document = Document(None, given, {}) if isinstance(given, dict) else read_document(Path(given))
    if not isinstance(document.value, dict):
        expected = "a mapping with currency and models"
        raise document.placed(ConfigError("no prices", expected=expected, got=document.value), ())
    for problem, path in _shorthands(document.value):
        raise document.placed(problem, path)
    prices = document.convert(Prices)
    for problem, path in _problems(prices):
        raise document.placed(problem, path)
    return prices


def _shorthands(table: dict[str, Any]) -> Iterator[tuple[ConfigError, Place]]:
    """What people write who have not seen a table, with what it should be."""
    if table.get("currency") is None:
        hint = "say what the prices are in, such as `currency: USD`; any name of up to 12 letters will do"
        yield ConfigError("the field 'currency' is missing", hint=hint), ()
    models = table.get("models")
    for name, price in models.items() if isinstance(models, dict) else ():
        if not isinstance(price, dict):
            hint = f"say what is paid for, such as `{name}: {{per_1m: {price}}}` (per_1k, per_1m, per_call)"
            yield ConfigError("no price of a model", expected="a mapping", got=price, hint=hint), ("models", name)


def _problems(prices: Prices) -> Iterator[tuple[ConfigError, Place]]:
    """What types cannot say."""
    if not prices.models and not prices.one_off:
        hint = "name the models of the log's `usage`, such as `models: {text-embed-small: {per_1m: 0.02}}`"
        yield ConfigError("a price table without prices", expected="models, or one_off", hint=hint), ()
    for name, price in prices.models.items():
        where = ("models", name)
        if price.per_1k is not None and price.per_1m is not None:
            yield ConfigError("per_1k and per_1m contradict each other", hint="keep one"), (*where, "per_1m")
        if price.per_1k is None and price.per_1m is None and price.per_call is None:
            hint = "a model that costs nothing has `per_call: 0`"
            yield ConfigError("a model without a price", expected="per_1k, per_1m or per_call", hint=hint), where
    for i, line in enumerate(prices.one_off):
        if (line.amount is None) == (line.model is None):
            yield ConfigError("a one-off cost is an amount, or tokens of a model", hint="keep one"), ("one_off", i)
        elif line.model is not None:
            yield from _one_off_problems(line, prices, ("one_off", i))


def _one_off_problems(line: OneOff, prices: Prices, where: Place) -> Iterator[tuple[ConfigError, Place]]:
    if line.model not in prices.models:
        hint = did_you_mean(line.model or "", prices.models)
        yield ConfigError(f"no price for {line.model!r}", hint=hint), (*where, "model")
    elif line.tokens is None and not line.calls:
        yield ConfigError("how much of the model was used is missing", expected="tokens or calls"), where
    elif prices.cost(line.used) is None:
        yield ConfigError(f"{line.model} is paid by the token", expected="tokens"), where
