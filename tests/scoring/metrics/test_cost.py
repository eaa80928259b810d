"""Tokens and money out of `usage`."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.report.build import evaluation_report
from karat.report.comparison import comparison_report
from karat.report.export import export
from karat.report.renderers.markdown import render_markdown

PRICES = {
    "currency": "USD",
    "models": {
        "embed": {"per_1m": 2},
        "cross": {"per_call": 0.001},
        "chat": {"per_1k": {"prompt": 1, "completion": 2}},
    },
}
EMBED = {"stage": "embed", "model": "embed", "prompt_tokens": 50}
RERANK = {"stage": "rerank", "model": "cross", "calls": 3}
CHAT = {"stage": "rewrite", "model": "chat", "prompt_tokens": 10, "completion_tokens": 5}


def run(*usages: Any) -> list[dict[str, Any]]:
    return [{"query_id": f"q{i}", "topk": ["a"], "usage": usage} for i, usage in enumerate(usages)]


def gold(size: int) -> dict[str, list[str]]:
    return {f"q{i}": ["a"] for i in range(size)}


def score(metric: str, *usages: Any, prices: Any = PRICES) -> list[float | None]:
    return list(karat.evaluate(run(*usages), gold(len(usages)), [metric], prices=prices).score(metric).values())


def test_all_stages_or_one() -> None:
    assert score("cost", [EMBED, RERANK, CHAT]) == [pytest.approx(0.0001 + 0.003 + 0.02)]
    assert score("cost(stage=rerank)", [EMBED, RERANK, CHAT, RERANK]) == [pytest.approx(0.006)]
    assert score("prompt_tokens", [EMBED, RERANK, CHAT]) == [60.0]
    assert score("completion_tokens", [EMBED, RERANK, CHAT]) == [5.0]
    assert score("prompt_tokens(stage=embed)", [EMBED, CHAT]) == [50.0]


def test_what_is_not_said_is_undefined_and_what_was_not_used_is_nothing() -> None:
    assert score("cost", None, [], [RERANK]) == [None, 0.0, 0.003]
    assert score("prompt_tokens", None, [], [RERANK]) == [None, 0.0, None]
    assert score("cost(stage=rerank)", [EMBED], [RERANK]) == [None, 0.003]


def test_a_price_that_is_missing_makes_the_whole_query_undefined_and_names_the_model() -> None:
    other = {"stage": "answer", "model": "gpt-x", "prompt_tokens": 9}
    result = karat.evaluate(run([RERANK], [RERANK, other], [other]), gold(3), ["cost"], prices=PRICES)
    assert list(result.score("cost").values()) == [0.003, None, None]
    (entry,) = [entry for entry in result.audit if entry.code == "unpriced_queries"]
    assert (entry.count, ["gpt-x" in example for example in entry.examples]) == (2, [True])


def test_a_metric_without_any_number_says_what_is_lacking() -> None:
    def reason(usage: Any, prices: Any, metric: str = "cost") -> str:
        result = karat.evaluate(run(usage), gold(1), [metric], prices=prices)
        return next(entry.examples[0] for entry in result.audit if entry.code == "no_data")

    assert "usage" in reason(None, PRICES)
    assert "--prices" in reason([RERANK], None)
    assert "chat" in reason([CHAT], {"currency": "USD", "models": {"other": {"per_1m": 1}}})
    assert "rerank?" in reason([RERANK], PRICES, "cost(stage=rernk)")


def test_the_order_of_entries_changes_no_bit() -> None:
    entries = [{"model": "chat", "prompt_tokens": n, "completion_tokens": 7 * n} for n in range(1, 40)]
    shuffled = random.Random(1).sample(entries, len(entries))
    assert score("cost", entries) == score("cost", shuffled)


def test_gates_limit_the_cost() -> None:
    many = run(*[[RERANK]] * 30)
    assert karat.gate(many, gold(30), ["cost <= 0.01"], prices=PRICES).outcome == "pass"
    found = karat.gate(many, gold(30), ["cost(stage=rerank) <= 0.002"], prices=PRICES)
    assert found.outcome == "fail"
    assert re.search(r"0\.00300 USD.*0\.00200 USD", found.verdicts[0].reason)


def test_a_gate_does_not_pass_on_a_cost_that_is_half_known() -> None:
    half = run(*[[RERANK]] * 30, [{"model": "gpt-x", "prompt_tokens": 9}])
    found = karat.gate(half, gold(31), ["cost <= 0.01"], prices=PRICES)
    assert found.outcome == "invalid"
    assert "gpt-x" in found.verdicts[0].reason


def test_two_price_tables_are_not_compared_silently(tmp_path: Path) -> None:
    dearer = {"currency": "USD", "models": {"cross": {"per_call": 0.002}}}
    before, after = (karat.evaluate(run([RERANK]), gold(1), ["cost", "mrr"], prices=p) for p in (PRICES, dearer))
    with refused("not-comparable", ConfigError):
        karat.compare(before, after)
    export([before], str(tmp_path / "before.json"))
    saved = str(tmp_path / "before.json")
    with refused("not-comparable", ConfigError):
        karat.compare(saved, after)
    karat.compare(saved, before)
    forced = karat.compare(saved, after, force=True)
    assert any("cost" in note for note in forced.pairs[0].notes)
    only_rank = karat.evaluate(run([RERANK]), gold(1), ["mrr"], prices=dearer)
    karat.compare(saved, only_rank)  # the prices decide nothing there


def test_tiny_amounts_can_be_read() -> None:
    before = run(*[[{"model": "embed", "prompt_tokens": n}] for n in range(5, 45)])
    after = run(*[[{"model": "embed", "prompt_tokens": n + 3}] for n in range(5, 45)])
    first, second = (karat.evaluate(r, gold(40), ["cost"], prices=PRICES) for r in (before, after))
    shown = render_markdown(evaluation_report(first))
    assert "0.0000490 USD" in shown
    assert "0.000000" not in shown
    comparison = karat.compare(first, second)
    assert comparison.units == {"cost": "USD"}
    assert "+0.00000600" in render_markdown(comparison_report(comparison))
