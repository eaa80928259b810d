"""Reports of `karat labels judge` and `karat synthesize`, with the cost of the model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from karat.data.prices import Usage, money
from karat.errors import shorten
from karat.labels.judge.canaries import MEANING
from karat.labels.judge.judge import Judgements
from karat.llm.client import CostEstimate, Spending
from karat.report.blocks import Block, Cell, Report, Section, Text, Verdict
from karat.report.cells import count, table, texts
from karat.results.numbers import counted
from karat.systems.synthesize.synthesize import Synthesis

_NO_PRICE = "cost unknown: pass prices for this model with --prices"
_MEANS = {"2": "answers the query", "1": "answers a part", "0": "does not help"}
_SHOWN = 5


def estimate_text(estimate: CostEstimate) -> str:
    """
    >>> estimate_text(CostEstimate(115, 0, 48_000, 12_650, 0.0148, "USD"))
    'about 115 calls, 48,000 tokens in and 12,650 out, 0.015 USD'
    >>> estimate_text(CostEstimate(0, 115, 0, 0))
    'no calls needed: all 115 answers are already there'
    """
    if not estimate.calls:
        return f"no calls needed: all {estimate.there_already:,} answers are already there"
    there = f" ({estimate.there_already:,} answers are already there)" if estimate.there_already else ""
    tokens = f"{estimate.prompt_tokens:,} tokens in and {estimate.completion_tokens:,} out"
    cost = _NO_PRICE if estimate.cost is None else f"{money(estimate.cost, 2)} {estimate.currency}"
    return f"about {counted(estimate.calls, 'call')}{there}, {tokens}, {cost}"


def spending_blocks(spent: Spending) -> list[Block]:
    rows = [_usage_row("this time", spent.now), _usage_row("earlier, reused", spent.earlier)]
    cost = _NO_PRICE if spent.cost is None else f"This time cost {money(spent.cost)} {spent.currency}"
    note = f"Tokens estimated at 4 bytes each, not counted by the server: {counted(spent.estimated_calls, 'call')}."
    again = (
        f"{spent.repeated:,} {'request was' if spent.repeated == 1 else 'requests were'} sent a second time, because "
        "the first answer was lost or the run was killed. A provider that ignores Idempotency-Key may charge twice."
    )
    return [
        table(["", *map(count, ("calls", "tokens in", "tokens out"))], rows),
        Text(f"{cost[0].upper()}{cost[1:]}."),
        *texts("note", (spent.estimated_calls, note), (spent.repeated, again)),
    ]


def _usage_row(name: str, used: Usage) -> list[Cell]:
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
    rows: list[list[Cell]] = [[g, n, f"{n / pairs:.0%}", _MEANS[g]] for g, n in done.grades.items()]
    rows += [["missing", n, f"{n / pairs:.0%}", why] for why, n in done.missing.items()]
    return [
        table(["grade", count("pairs"), "share", "meaning"], rows),
        *(Text(f"missing: {example}", "note") for example in done.missing_examples),
        *(Text(f"{note}.", "warning") for note in done.notes),
        *texts("note", (done.prompt_version, f"prompt {done.prompt_version}")),
    ]


def _canaries(done: Judgements) -> list[Block]:
    if not done.canaries:
        return [Text("No canaries were mixed in, so it is unknown whether the judge can be fooled.", "warning")]
    counts = map(count, ("asked", "fell", "no grade"))
    rows: list[list[Cell]] = []
    for found in done.canaries:
        allowed = "none" if not found.tolerated else f"up to {found.tolerated:.0%}"
        rows.append([found.kind, found.asked, found.fell, found.missing, allowed, MEANING[found.kind]])
    return [table(["kind", *counts, "allowed", "what it is"], rows), _verdict(done)]


def _verdict(done: Judgements) -> Block:
    if done.fit is None:
        return Verdict("inconclusive", "fit to judge", "no canary got a grade")
    failed = [found for found in done.canaries if found.is_passed is False]
    if not failed:
        return Verdict("pass", "fit to judge", "it passed the canaries")
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
    return Report(f"{counted(len(done.queries))} from {done.corpus}, generated by {done.model}", sections)


def _queries(done: Synthesis) -> list[Block]:
    kinds = Counter((_difficulty(query), _type(query)) for query in done.queries)
    types = list(dict.fromkeys(kind for _, kind in kinds))
    rows: list[list[Cell]] = [
        [level, *(kinds[level, kind] for kind in types)] for level in dict.fromkeys(level for level, _ in kinds)
    ]
    second = "variant of" if any("variant_of" in query for query in done.queries) else "difficulty"
    some = [[_type(q), q.get("variant_of") or _difficulty(q), q["query"]] for q in done.queries[:_SHOWN]]
    shown = [table(["", *map(count, types)], rows), table(["type", second, "for example"], some)]
    return [
        *(shown if rows else [Text("No draft was kept.")]),
        *(Text(f"{note}.", "warning") for note in done.notes),
        Text("Generated by a model: good for comparing systems, but not representative of what people ask.", "note"),
    ]


def _type(query: dict[str, Any]) -> str:
    return str(query["tags"].get("type") or query["tags"].get("wording"))


def _difficulty(query: dict[str, Any]) -> str:
    return "paraphrase" if "variant_of" in query else str(query["tags"].get("difficulty", "no answer"))


def _rejected(done: Synthesis) -> list[Block]:
    if not done.rejected:
        return [Text(f"None of {done.drafts:,}.")]
    rows: list[list[Cell]] = [[why, drafts] for why, drafts in done.rejected.items()]
    examples = [Text(example, "note") for example in done.rejected_examples]
    return [table(["why", count("drafts")], rows, f"of {counted(done.drafts, 'draft')}"), *examples]
