"""Reports of `karat judge` and `karat synthesize`, with what the model costs."""

from __future__ import annotations

from collections import Counter

from karat.data.prices import Usage, money
from karat.errors import shorten
from karat.labels.judge.canaries import MEANING, CanaryCount
from karat.labels.judge.judge import Judgements
from karat.llm.client import CostEstimate, Spending
from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text, Verdict
from karat.systems.synthesize.synthesize import Synthesis

_NO_PRICE = "cost not known: --prices names a table with this model"
_MEANS = {"2": "answers the query", "1": "answers a part", "0": "does not help"}
_SHOWN = 5


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
    rows = [_usage_row("this time", spent.now), _usage_row("earlier, used again", spent.earlier)]
    cost = _NO_PRICE if spent.cost is None else f"This time cost {money(spent.cost)} {spent.currency}"
    blocks: list[Block] = [
        Table([Column(""), *(Column(c, "count") for c in ("calls", "tokens in", "tokens out"))], rows),
        Text(f"{cost[0].upper()}{cost[1:]}."),
    ]
    if spent.estimated_calls:
        note = f"The server did not count the tokens of {spent.estimated_calls:,} calls: estimated, 4 bytes a token."
        blocks.append(Text(note, "note"))
    return blocks


def _usage_row(name: str, used: Usage) -> list[str | float | int | None]:
    return [name, used.calls, used.prompt_tokens, used.completion_tokens]


def judging_report(done: Judgements) -> Report:
    sections = [
        Section("labels", "Labels", _labels(done)),
        Section("canaries", "Canaries", _canaries(done)),
        Section("spending", "Spent", spending_blocks(done.spending)),
    ]
    return Report(f"{done.annotator} on {done.pool}", sections)


def _labels(done: Judgements) -> list[Block]:
    pairs = len(done.labels)
    rows: list[list[Cell]] = [[g, n, _share(n, pairs), _MEANS[g]] for g, n in done.grades.items()]
    rows += [["missing", n, _share(n, pairs), why] for why, n in done.missing.items()]
    columns = [Column("grade"), Column("pairs", "count"), Column("share"), Column("meaning")]
    blocks: list[Block] = [Table(columns, rows)]
    blocks += [Text(f"missing: {example}", "note") for example in done.missing_examples]
    blocks += [Text(f"{note}.", "warning") for note in done.notes]
    if done.prompt_version:
        blocks.append(Text(f"prompt {done.prompt_version}", "note"))
    return blocks


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}"


def _canaries(done: Judgements) -> list[Block]:
    if not done.canaries:
        return [Text("None were mixed in: nothing tells whether the judge can be deceived.", "warning")]
    rows = [_canary_row(count) for count in done.canaries]
    titles = [Column("kind"), Column("asked", "count"), Column("fell", "count"), Column("no grade", "count")]
    table = Table([*titles, Column("allowed"), Column("what it is")], rows)
    return [table, _verdict(done)]


def _canary_row(count: CanaryCount) -> list[Cell]:
    allowed = "none" if not count.tolerated else f"up to {count.tolerated:.0%}"
    return [count.kind, count.asked, count.fell, count.missing, allowed, MEANING[count.kind]]


def _verdict(done: Judgements) -> Block:
    if done.fit is None:
        return Verdict("inconclusive", "fit to judge", "no canary got a grade")
    failed = [count for count in done.canaries if count.is_passed is False]
    if not failed:
        return Verdict("pass", "fit to judge", "it withstood the canaries")
    said = "; ".join(
        f"{c.kind}: {c.fell} of {c.asked - c.missing}, such as {shorten(c.examples[0], 60)!r}" for c in failed
    )
    reason = f"it fell for canaries ({said}). Use another model or prompt, and do not rely on these labels"
    return Verdict("fail", "unfit to judge", reason)


def synthesis_report(done: Synthesis) -> Report:
    sections = [
        Section("queries", "Queries", _queries(done)),
        Section("rejected", "Rejected drafts", _rejected(done)),
        Section("spending", "Spent", spending_blocks(done.spending)),
    ]
    return Report(f"{len(done.queries):,} queries from {done.corpus}, made up by {done.model}", sections)


def _queries(done: Synthesis) -> list[Block]:
    kinds = Counter((_difficulty(query), query["tags"]["type"]) for query in done.queries)
    types = list(dict.fromkeys(kind for _, kind in kinds))
    rows: list[list[Cell]] = [
        [level, *(kinds[level, kind] for kind in types)] for level in dict.fromkeys(level for level, _ in kinds)
    ]
    table = Table([Column(""), *(Column(kind, "count") for kind in types)], rows)
    some: list[list[Cell]] = [
        [query["tags"]["type"], _difficulty(query), query["query"]] for query in done.queries[:_SHOWN]
    ]
    shown = Table([Column("type"), Column("difficulty"), Column("for example")], some)
    notes = [Text(f"{note}.", "warning") for note in done.notes]
    said = Text("Made up by a model: good for comparing systems, no measure of what people ask.", "note")
    return [table, shown, *notes, said]


def _difficulty(query: dict[str, object]) -> str:
    tags = query["tags"]
    return str(tags.get("difficulty", "no answer")) if isinstance(tags, dict) else ""


def _rejected(done: Synthesis) -> list[Block]:
    if not done.rejected:
        return [Text(f"None of {done.drafts:,}.")]
    rows: list[list[Cell]] = [[why, count] for why, count in done.rejected.items()]
    note = f"of {done.drafts:,} drafts"
    examples = [Text(example, "note") for example in done.rejected_examples]
    return [Table([Column("why"), Column("drafts", "count")], rows, note), *examples]
