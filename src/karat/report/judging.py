"""What a judge said, and whether it can be trusted, as a report."""

from __future__ import annotations

from karat.errors import shorten
from karat.labels.judge.canaries import MEANING, CanaryCount
from karat.labels.judge.judge import Judgements
from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text, Verdict
from karat.report.spending import spending_blocks

_MEANS = {"2": "answers the query", "1": "answers a part", "0": "does not help"}


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
    rows = [_row(count) for count in done.canaries]
    titles = [Column("kind"), Column("asked", "count"), Column("fell", "count"), Column("no grade", "count")]
    table = Table([*titles, Column("allowed"), Column("what it is")], rows)
    return [table, _verdict(done)]


def _row(count: CanaryCount) -> list[Cell]:
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
