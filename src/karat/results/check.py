"""What is in these files, without scoring them."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from karat.data.audit import Audit, Entry
from karat.data.gold import Gold
from karat.data.hits import OPTIONAL_COLUMNS, Run, Ungrouped
from karat.data.ids import may_repeat
from karat.errors import KaratError
from karat.formats.base import Source
from karat.formats.read import find_kind, read_gold, read_run
from karat.scoring.judged import Judged, Rules, count_states, judge
from karat.scoring.overlap import SharedItems, count_missing, count_no_shared_items
from karat.scoring.ranking import drop_repeats, inspect_order


class Checked(msgspec.Struct):
    """One file: what it is, what it holds, what was found."""

    file: str
    kind: Literal["run", "gold", "unusable"]
    format: str | None = None
    holds: dict[str, int | str | None] = {}
    audit: list[Entry] = []
    error: str | None = None


def check_files(files: list[str], target: str | None = None) -> list[Checked]:
    golds: dict[str, Gold] = {}
    runs: dict[str, Run] = {}
    checked = [_check(file, target, golds, runs) for file in files]
    if len(golds) == 1:
        (gold,) = golds.values()
        for found in checked:
            if found.file in runs:
                _match(found, runs[found.file], gold)
    return checked


def _check(file: str, target: str | None, golds: dict[str, Gold], runs: dict[str, Run]) -> Checked:
    try:
        source = Source(file)
        kind, found = find_kind(source)
        name = found.name
        if kind == "gold":
            golds[file] = gold = read_gold(file, target=target)
            return Checked(file, "gold", name, _holds_gold(gold), list(gold.audit))
        run = read_run(file)
        holds, audit = _read_through(run)
        runs[file] = run
        return Checked(file, "run", name, holds, list(audit))
    except KaratError as error:
        return Checked(file, "unusable", error=str(error))


def _holds_gold(gold: Gold) -> dict[str, int | str | None]:
    return {
        "queries": len(gold.queries),
        "items": len(gold.ids),
        "passages": sum(passage is not None for passage in gold.passages) or None,
        "no answer": int(gold.no_answer.sum()),
        "tags": ", ".join(gold.tags) or None,
        "dataset": gold.dataset.version,
        "hash": gold.dataset.hash,
    }


def _read_through(run: Run) -> tuple[dict[str, int | str | None], Audit]:
    audit = Audit()
    queries = hits = 0
    systems: dict[str, None] = {}
    try:
        for part in run.slices(OPTIONAL_COLUMNS | {"latency"}, audit):
            systems[part.system or "(unnamed)"] = None
            queries += len(part.queries)
            hits += int(part.offsets[-1])
            count_states(part, audit)
            inspect_order(part, audit)
            if may_repeat(part.ids, part.offsets):
                drop_repeats(part, audit)
    except Ungrouped:
        return _read_through(run.grouped())
    return {"systems": ", ".join(systems), "queries": queries, "hits": hits}, audit


def _match(found: Checked, run: Run, gold: Gold) -> None:
    audit = Audit()
    systems: dict[str, _Covered] = {}
    try:
        for part in run.slices(frozenset(), audit):
            systems.setdefault(part.system, _Covered(gold)).add(judge(part, gold, Rules(), audit))
    except Ungrouped:
        return _match(found, run.grouped(), gold)
    for covered in systems.values():
        covered.report(audit)
    known = np.any([covered.seen for covered in systems.values()], axis=0).sum() if systems else 0
    found.holds[f"queries of {gold.label}"] = int(known)
    found.audit = list(audit)
    if not known:
        found.error = f"no query of {found.file} stands in {gold.label}"
    return None


class _Covered:
    """What one system has of the gold set."""

    def __init__(self, gold: Gold) -> None:
        self.gold, self.shared = gold, SharedItems(gold)
        self.seen = np.zeros(len(gold.queries), np.bool_)

    def add(self, judged: Judged) -> None:
        self.seen[judged.queries] = True
        self.shared.look(judged)

    def report(self, audit: Audit) -> None:
        count_no_shared_items(self.gold, self.shared.found, self.shared.seen, audit)
        count_missing(self.gold, np.flatnonzero(~self.seen), audit)
