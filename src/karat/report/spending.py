"""What a model was asked and what it cost, in words."""

from __future__ import annotations

from karat.data.prices import Usage, money
from karat.llm.client import CostEstimate, Spending
from karat.report.blocks import Block, Column, Table, Text

_NO_PRICE = "cost not known: --prices names a table with this model"


def estimate_text(estimate: CostEstimate) -> str:
    """
    >>> estimate_text(CostEstimate(115, 0, 48_000, 12_650, 0.0148, "USD"))
    'about 115 calls, 48,000 tokens in and 12,650 out, 0.015 USD'
    >>> estimate_text(CostEstimate(0, 115, 0, 0))
    'nothing to ask: all 115 answers are there already'
    """
    if not estimate.calls:
        return f"nothing to ask: all {estimate.there_already:,} answers are there already"
    there = f" ({estimate.there_already:,} answers are there already)" if estimate.there_already else ""
    tokens = f"{estimate.prompt_tokens:,} tokens in and {estimate.completion_tokens:,} out"
    cost = _NO_PRICE if estimate.cost is None else f"{money(estimate.cost, 2)} {estimate.currency}"
    return f"about {estimate.calls:,} calls{there}, {tokens}, {cost}"


def spending_blocks(spent: Spending) -> list[Block]:
    rows = [_row("this time", spent.now), _row("earlier, used again", spent.earlier)]
    cost = _NO_PRICE if spent.cost is None else f"This time cost {money(spent.cost)} {spent.currency}"
    blocks: list[Block] = [
        Table([Column(""), *(Column(c, "count") for c in ("calls", "tokens in", "tokens out"))], rows),
        Text(f"{cost[0].upper()}{cost[1:]}."),
    ]
    if spent.estimated_calls:
        note = f"The server did not count the tokens of {spent.estimated_calls:,} calls: estimated, 4 bytes a token."
        blocks.append(Text(note, "note"))
    return blocks


def _row(name: str, used: Usage) -> list[str | float | int | None]:
    return [name, used.calls, used.prompt_tokens, used.completion_tokens]
