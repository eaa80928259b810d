"""The price table: what it says, and what is wrong with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from refusals import refused

import karat
from karat.data.prices import Prices, Usage, read_prices, unpriced
from karat.errors import ConfigError

TABLE = """currency: EUR
models:
  chat: {per_1m: {prompt: 0.15, completion: 0.60}}
  embed: {per_1k: 0.5}
  cross: {per_call: 0.002}
  both: {per_1k: {prompt: 1}, per_call: 3}
  free: {per_call: 0}
one_off:
  - {name: re-embed, model: embed, tokens: 12000, per: re-index}
  - {name: storage, amount: 25, per: month}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prices.yaml"


def table(file: Path, text: str = TABLE) -> Prices:
    file.write_text(text)
    return read_prices(file)


@pytest.mark.parametrize(
    ("used", "cost"),
    [
        (Usage(model="chat", prompt_tokens=1_000_000, completion_tokens=500_000), 0.45),
        (Usage(model="chat", prompt_tokens=1_000_000), 0.15),
        (Usage(model="embed", prompt_tokens=100, completion_tokens=100), 0.1),  # a bare number is for both
        (Usage(model="cross"), 0.002),
        (Usage(model="cross", calls=5, prompt_tokens=900), 0.01),
        (Usage(model="both", prompt_tokens=2_000, calls=2), 8.0),
        (Usage(model="free", prompt_tokens=10), 0.0),
        (Usage(model="cross", calls=0), 0.0),
    ],
)
def test_what_an_entry_costs(file: Path, used: Usage, cost: float) -> None:
    assert table(file).cost(used) == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        (Usage(model="chatt", prompt_tokens=5), "chatt"),
        (Usage(stage="rerank"), "'rerank'"),
        (Usage(), "model"),
        (Usage(model="chat"), "tokens"),  # tokens that nobody counted are not free
    ],
)
def test_a_cost_that_is_not_known(file: Path, used: Usage, reason: str) -> None:
    prices = table(file)
    assert prices.cost(used) is None
    assert prices.total([Usage(model="cross"), used]) is None
    assert reason in str(unpriced(used, prices))
    assert unpriced(Usage(model="cross"), prices) is None


def test_one_off_costs_are_amounts_or_tokens_of_a_model(file: Path) -> None:
    prices = table(file)
    assert [(line.name, prices.one_off_amount(line), line.per) for line in prices.one_off] == [
        ("re-embed", 6.0, "re-index"),
        ("storage", 25.0, "month"),
    ]


def test_equal_tables_have_one_hash_whatever_the_order_of_their_lines(file: Path) -> None:
    one = table(file, "currency: USD\nmodels: {a: {per_call: 1}, b: {per_1k: 0.5}}\n")
    other = table(file, "models:\n  b: {per_1k: 0.50}\n  a: {per_call: 1.0}\ncurrency: USD\n")
    assert (one, one.hash) == (other, other.hash)
    dearer = table(file, "currency: USD\nmodels: {a: {per_call: 1}, b: {per_1k: 0.6}}\n")
    assert one != dearer
    assert one.hash != dearer.hash


def test_a_table_from_memory(file: Path) -> None:
    given = {"currency": "EUR", "models": {"cross": {"per_call": 0.002}}}
    prices = read_prices(given)
    assert prices == table(file, "currency: EUR\nmodels: {cross: {per_call: 0.002}}\n")
    assert read_prices(prices) is prices
    with refused("bad-value", ConfigError, file=None, field="models.cross.per_call", got=-1):
        read_prices({"currency": "EUR", "models": {"cross": {"per_call": -1}}})


# text, line, column, field, and the code
MISTAKES = {
    "negative": ("currency: USD\nmodels:\n  a: {per_call: -1}\n", 3, 17, "models.a.per_call", "bad-value"),
    "negative for tokens": (
        "currency: USD\nmodels:\n  b: {per_call: 1}\n  a:\n    per_1m: {prompt: 1.5, completion: -0.5}\n",
        *(5, 39, "models.a.per_1m.completion", "bad-value"),
    ),
    "infinite": ("currency: USD\nmodels: {a: {per_1k: .inf}}\n", 2, 22, "models.a.per_1k", "bad-value"),
    "not a number": ("currency: USD\nmodels: {a: {per_1k: .nan}}\n", 2, 22, "models.a.per_1k", "bad-value"),
    "text for a number": (
        "currency: USD\nmodels: {a: {per_call: $0.1}}\n",
        *(2, 24, "models.a.per_call", "wrong-type"),
    ),
    "unknown field of a model": (
        "currency: USD\nmodels:\n  a: {per_1M: 2}\n",
        *(3, 7, "models.a.per_1M", "unknown-field"),
    ),
    "unknown field": ("currency: USD\nmodel: {}\n", 2, 1, "model", "unknown-field"),
    "unknown kind of token": (
        "currency: USD\nmodels: {a: {per_1k: {prompts: 1}}}\n",
        *(2, 23, "models.a.per_1k.prompts", "unknown-field"),
    ),
    "no currency": ("models: {a: {per_call: 1}}\n", 1, 1, None, "missing-field"),
    "a bare number": ("currency: USD\nmodels: {emb: 0.5}\n", 2, 15, "models.emb", "wrong-type"),
    "no models": ("currency: USD\n", 1, 1, None, "missing-field"),
    "empty models": ("currency: USD\nmodels: {}\n", 1, 1, None, "missing-field"),
    "empty currency": ("currency: ''\n", 1, 11, "currency", "bad-setting"),
    "two prices": (
        "currency: USD\nmodels:\n  a: {per_1k: 1, per_1m: 2}\n",
        *(3, 26, "models.a.per_1m", "contradiction"),
    ),
    "no price": ("currency: USD\nmodels:\n  a: {}\n", 3, 6, "models.a", "missing-field"),
    "model twice": ("currency: USD\nmodels:\n  a: {per_call: 1}\n  a: {per_call: 2}\n", 4, 3, None, "duplicate-key"),
    "one-off without an amount": (
        "currency: USD\none_off:\n  - name: storage\n",
        *(3, 5, "one_off.0", "contradiction"),
    ),
    "one-off with both": (
        "currency: USD\nmodels: {a: {per_call: 1}}\none_off:\n  - {name: x, amount: 1, model: a}\n",
        *(4, 5, "one_off.0", "contradiction"),
    ),
    "one-off of an unknown model": (
        "currency: USD\nmodels: {embed: {per_1k: 1}}\none_off:\n  - {name: x, model: embd, tokens: 5}\n",
        *(4, 22, "one_off.0.model", "missing-price"),
    ),
    "one-off without a size": (
        "currency: USD\nmodels: {embed: {per_1k: 1}}\none_off:\n  - {name: x, model: embed}\n",
        *(4, 5, "one_off.0", "missing-field"),
    ),
    "one-off calls of what is paid by the token": (
        "currency: USD\nmodels: {embed: {per_1k: 1}}\none_off:\n  - {name: x, model: embed, calls: 3}\n",
        *(4, 5, "one_off.0", "missing-field"),
    ),
    "negative one-off": (
        "currency: USD\none_off:\n  - {name: x, amount: -3}\n",
        *(3, 23, "one_off.0.amount", "bad-value"),
    ),
    "a list": ("- a\n", 1, 1, None, "wrong-type"),
    "nothing": ("", 1, 1, None, "wrong-type"),
    "no YAML": ("currency: [\n", 2, 1, None, "not-yaml"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place(file: Path, mistake: str) -> None:
    text, line, column, field, code = MISTAKES[mistake]
    with refused(code, ConfigError, file=file, line=line, column=column, field=field):
        table(file, text)


def test_the_page_shows_a_table_and_a_log_that_are_read(file: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
    (text,), (line,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("yaml", "json"))
    prices = table(file, text)
    assert [prices.one_off_amount(one) for one in prices.one_off] == [0.24, 25.0]
    result = karat.evaluate([json.loads(line)], {"q1": ["a"]}, ["cost"], prices=file)
    assert result.means["cost"] == pytest.approx(21 * 0.02e-6 + 0.001 + 180 * 0.15e-6 + 24 * 0.6e-6)
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", page)
    assert [target for target in targets if not (Path(__file__).parents[2] / "docs" / target).exists()] == []


def test_a_file_that_is_not_there(file: Path) -> None:
    with refused("unreadable", ConfigError, file=file):
        read_prices(file)
