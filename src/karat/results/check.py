"""Check the contents of files without scoring them."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from karat.data.audit import Audit, Entry
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import OPTIONAL_COLUMNS, Hits, Run, Ungrouped
from karat.data.ids import DocRule, may_repeat
from karat.data.normal_ids import NORMALIZED, IdNormalizer, NormalizedRun, near_queries
from karat.errors import InputError, KaratError
from karat.formats.base import Source
from karat.formats.corpus import is_corpus, read_corpus
from karat.formats.field_map import FieldMap
from karat.formats.mapped import first_fields
from karat.formats.read import find_kind, read_gold, read_run
from karat.scoring.doubts import SeenScores, judge_doubts, seen_order
from karat.scoring.judge import count_states, judge
from karat.scoring.judged import Judged, Rules
from karat.scoring.name_watch import NameWatch, SeenNames
from karat.scoring.overlap import count_missing
from karat.scoring.ranking import drop_repeats, inspect_order

_NO_FIELDS = ("trec-run", "trec-qrels", "beir", "dict")


class Checked(msgspec.Struct):
    """One file: its kind, its contents, and what was found."""

    file: str
    kind: Literal["run", "gold", "corpus", "unusable"]
    format: str | None = None
    holds: dict[str, int | str | None] = {}
    audit: list[Entry] = []
    error: str | None = None
    fields: dict[str, str] = {}  # of the first record, each with its value


def check_files(
    files: list[str],
    target: str | None = None,
    fields: FieldMap | None = None,
    gold: str | None = None,
    rules: Rules | None = None,
) -> list[Checked]:
    """Check files. `fields`: a field map for all files; `gold`: the gold set, so the others are runs; `rules`: what
    scores mean, and whether ids are normalized."""
    rules = rules or Rules()
    golds: dict[str, Gold] = {}
    runs: dict[str, Run] = {}
    said: dict[str, Literal["run", "gold"]] = {}
    if gold is not None:
        said = {**dict.fromkeys(files, "run"), gold: "gold"}
    files = list(dict.fromkeys([*files, *([] if gold is None else [gold])]))
    kinds = {file: _kind(file, fields) for file in files}
    # If one file is certainly gold, a file that may be either is a run.
    if any(kind is not None and kind[0] == "gold" and kind[2] for kind in kinds.values()):
        said |= {file: "run" for file, kind in kinds.items() if kind is not None and not kind[2] and file not in said}
    elif any(kind is not None and kind[0] == "run" for kind in kinds.values()):  # it is the gold set of these runs
        said |= {file: "gold" for file, kind in kinds.items() if kind is not None and not kind[2] and file not in said}
    checked = [_check(file, target, fields, golds, runs, said.get(file), rules) for file in files]
    for found in checked:
        if found.format not in _NO_FIELDS:
            found.fields = _fields(found.file)
    if len(golds) == 1:
        (only,) = golds.values()
        for found in checked:
            if found.file in runs:
                _match(found, runs[found.file], only, rules)
    return checked


def _fields(file: str) -> dict[str, str]:
    try:
        source = Source(file)
        source.refuse_nonsense()
        return first_fields(source)
    except (KaratError, OSError):
        return {}


def _kind(file: str, fields: FieldMap | None) -> tuple[str, str, bool] | None:
    """The kind of a file; None if it is unknown, for `_check` to say why."""
    try:
        return find_kind(Source(file), fields)
    except KaratError:
        return None


def _check(
    file: str,
    target: str | None,
    fields: FieldMap | None,
    golds: dict[str, Gold],
    runs: dict[str, Run],
    said: Literal["run", "gold"] | None,
    rules: Rules,
) -> Checked:
    """Check one file. `said`: its kind, if already known."""
    try:
        try:
            kind, name, sure = find_kind(Source(file), fields)
        except InputError as error:
            if said == "gold" or error.code != "unrecognised" or not is_corpus(Source(file), fields):
                raise
            return Checked(file, "corpus", "corpus", _holds_corpus(read_corpus(file, columns=fields)))
        if (said or kind) == "gold":
            golds[file] = gold = read_gold(file, target=target, columns=fields)
            audit = Audit.merged(gold.audit)
            audit.count("either_kind", 0 if sure or said else len(gold.ids))
            return Checked(file, "gold", name, _holds_gold(gold), list(audit))
        run = read_run(file, columns=fields)
        holds, audit = _read_through(run, rules)
        runs[file] = run
        return Checked(file, "run", name, holds, list(audit))
    except KaratError as error:
        return Checked(file, "unusable", error=str(error))


def _holds_corpus(corpus: Corpus) -> dict[str, int | str | None]:
    documents = set(corpus.fields.get("doc_id", ())) - {None}
    empty = sum(not text.strip() for text in corpus.texts)
    return {"chunks": len(corpus), "documents": len(documents) or None, "without text": empty or None}


def _holds_gold(gold: Gold) -> dict[str, int | str | None]:
    return {
        "queries": len(gold.queries),
        "items": len(gold.ids),
        "passages": sum(passage is not None for passage in gold.passages) or None,
        "evidence texts": sum(len(texts) for texts in gold.fields.get("evidence", ()) if texts) or None,
        "no answer": int(gold.no_answer.sum()),
        "tags": ", ".join(gold.tags) or None,
        "dataset": gold.dataset.version,
        "hash": gold.dataset.hash,
    }


def _read_through(run: Run, rules: Rules) -> tuple[dict[str, int | str | None], Audit]:
    audit = Audit()
    queries = hits = 0
    systems: dict[str, None] = {}
    try:
        for part in run.slices(OPTIONAL_COLUMNS | {"latency"}, audit):
            systems[part.system or "(unnamed)"] = None
            audit.merge(Audit.of(part.counted))
            queries += len(part.queries)
            hits += int(part.offsets[-1])
            count_states(part, audit)
            part = part if rules.scores is None else part.with_scores(rules.scores)
            inspect_order(part, audit, rules)
            if may_repeat(part.ids, part.offsets):
                drop_repeats(part, audit, rules)
    except Ungrouped:
        return _read_through(run.grouped(), rules)
    return {"systems": ", ".join(systems), "queries": queries, "hits": hits}, audit


def _match(found: Checked, run: Run, gold: Gold, rules: Rules) -> None:
    run.match_queries(gold)
    if rules.normalize_ids:
        normal = IdNormalizer.of(gold, run, DocRule())
        run, gold = NormalizedRun(run, normal), normal.adopted_gold(gold)
    audit = Audit.of(entry for entry in gold.audit if entry.code in NORMALIZED)
    systems: dict[str, _Covered] = {}
    try:
        for part in run.slices(frozenset(), audit):
            audit.merge(Audit.of(part.counted))
            systems.setdefault(part.system, _Covered(gold, rules)).add(judge(part, gold, rules, audit), part)
    except Ungrouped:
        return _match(found, run.grouped(), gold, rules)
    for covered in systems.values():
        covered.report(audit)
    known = np.any([covered.seen for covered in systems.values()], axis=0).sum() if systems else 0
    found.holds[f"queries of {gold.label}"] = int(known)
    found.audit = list(audit)
    if not known:
        near = next((entry.examples[0] for entry in audit if entry.code == "near_queries"), None)
        hint = "" if near is None else f" ({near}; --normalize-ids treats them as the same)"
        found.error = f"{gold.label} has none of the queries of {found.file}{hint}"
    return None


class _Covered:
    """What one system covers of the gold set."""

    def __init__(self, gold: Gold, rules: Rules) -> None:
        self.gold, self._rules, self._watch = gold, rules, NameWatch(gold, DocRule())
        self._names, self._slopes = SeenNames(), SeenScores()
        self.seen = np.zeros(len(gold.queries), np.bool_)
        self._unknown: list[str] = []

    def add(self, judged: Judged, hits: Hits) -> None:
        self.seen[judged.queries] = True
        self._unknown += [query for query in hits.queries if query not in self.gold.index]
        self._names.add(self._watch.look(judged, hits))
        if (seen := seen_order(hits, self._rules)) is not None:
            self._slopes.add(seen)

    def report(self, audit: Audit) -> None:
        judge_doubts(self._names, self._slopes, self.gold, self._rules, None, audit)
        count_missing(self.gold, np.flatnonzero(~self.seen), audit)
        near = near_queries(self._unknown, self.gold, np.flatnonzero(~self.seen))
        audit.count("near_queries", len(near), (f"run {name}, gold {other}" for name, other in near.items()))
