"""Gold with labels in it, so that everything that takes gold can use them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.gold import CHUNK, DOC, Dataset, Gold, GoldBuilder
from karat.data.ids import DocRule
from karat.errors import InputError, NoOverlap, shorten
from karat.formats.base import Source
from karat.formats.questions import is_bare, read_questions
from karat.formats.read import read_gold
from karat.labels.base import Key, SourcePlace
from karat.labels.labels_file import Label, Labels, read_labels


def read_gold_or_queries(gold: Any, **options: Any) -> Gold:
    """A gold set, or a file of bare queries: a gold set in which nothing is judged yet."""
    if not isinstance(gold, (str, PathLike)) or not is_bare(gold, **options):
        return read_gold(gold, **options)
    source = Source(str(gold))
    builder = GoldBuilder(source.label)
    for question in read_questions(gold):
        builder.add(question.id, [], [])
        builder.say("query", question.text)
        for name, value in question.facts.items():
            builder.say(name, value, tag=True)
    return builder.build(Dataset(hash=source.content_hash()))


def with_labels(gold: Gold, labels: Labels | str | PathLike[str] | Sequence[Label], *, doc_of: str = "#") -> Gold:
    """The gold set with the items that labels judge. What the gold set says itself is not changed by a label.

    Labels without a grade, of queries that the gold set lacks, and those that contradict it are left out and counted.
    Two grades for one pair are refused: somebody has to settle them first.
    """
    if isinstance(labels, (str, PathLike)):
        labels = read_labels(labels)
    elif not isinstance(labels, Labels):
        labels = Labels(list(labels), [SourcePlace("labels", None)] * len(labels))
    grades = _one_grade(labels)
    merging = _Merging(gold, DocRule(doc_of))
    for key, grade in grades.items():
        merging.add(key, grade)
    if grades and not merging.known:
        examples = f"{shorten(next(iter(grades)).query, 60)!r}, the gold set {shorten(gold.queries[0], 60)!r}"
        file, hint = labels.places[0].file, f"do the ids match? The labels have {examples}"
        raise NoOverlap(f"no query of the labels stands in {gold.label}", file=file, hint=hint)
    merging.audit.count("labels_missing", len(labels) - len(labels.graded()))
    return merging.build()


def _one_grade(labels: Labels) -> dict[Key, float]:
    found: dict[Key, tuple[Label, SourcePlace]] = {}
    for label, place in zip(labels.entries, labels.places, strict=True):
        if label.grade is None:
            continue
        before, where = found.setdefault(label.key, (label, place))
        if before.grade != label.grade:
            raise _conflict(before, where, label, place)
    return {key: label.grade for key, (label, _) in found.items() if label.grade is not None}


def _conflict(before: Label, where: SourcePlace, label: Label, place: SourcePlace) -> InputError:
    return place.error(
        f"{label.annotator} and {before.annotator} ({where}) disagree on {label.key.item}",
        code="contradiction",
        query=label.key.query,
        field="grade",
        expected=f"{before.grade:g}, as there",
        got=label.grade,
        hint="`karat agree FILE… -o settled.jsonl` lists conflicts and settles them by majority or by an adjudicator",
    )


@dataclass
class _Merging:
    gold: Gold
    rule: DocRule
    known: int = 0
    added: list[tuple[int, Key, float]] = field(default_factory=list)
    audit: Audit = field(default_factory=Audit)

    def __post_init__(self) -> None:
        # What a chunk may be judged by: its own id, or its document's.
        ids, documents = self.gold.ids, self.gold.names_document(self.rule).tolist()
        rows = zip(self.gold.query_of_item.tolist(), ids, documents, self.gold.grades.tolist(), strict=True)
        self.said: dict[tuple[int, str, bool], float] = {(q, item, doc): grade for q, item, doc, grade in rows}

    def add(self, key: Key, grade: float) -> None:
        at = self.gold.index.get(key.query)
        example = f"{key.query} {key.item}"
        if at is None:
            self.audit.count("labels_unknown", 1, [key.query])
            return
        self.known += 1
        said = self._said(at, key)
        if said is not None:
            self.audit.count("labels_overruled", int(said != grade), [example])
        elif grade > 0 and self.gold.no_answer[at]:
            self.audit.count("labels_no_answer", 1, [example])
        else:
            self.added.append((at, key, grade))

    def _said(self, at: int, key: Key) -> float | None:
        own = self.said.get((at, key.item, key.is_document))
        return own if own is not None or key.is_document else self.said.get((at, self.rule.doc(key.item), True))

    def build(self) -> Gold:
        gold, added = self.gold, self.added
        self.audit.count("labels_added", len(added))
        audit = Audit()
        audit.merge(gold.audit)
        audit.merge(self.audit)
        query = np.append(gold.query_of_item, np.array([at for at, *_ in added], np.int64))
        order = np.argsort(query, kind="stable")
        ids = [*gold.ids, *(key.item for _, key, _ in added)]
        kinds = np.append(gold.kinds, np.array([DOC if key.is_document else CHUNK for _, key, _ in added], np.int8))
        passages = [*gold.passages, *([None] * len(added))] if gold.passages else []
        counts = np.bincount(query, minlength=len(gold.queries))
        return replace(
            gold,
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            items=[ids[i] for i in order.tolist()],
            grades=np.append(gold.grades, [grade for *_, grade in added])[order],
            kinds=kinds[order],
            passages=[passages[i] for i in order.tolist()] if passages else [],
            located=None,
            dataset=self._dataset(),
            audit=audit,
        )

    def _dataset(self) -> Dataset:
        """Scores with other labels are scores on other data."""
        if not self.added:
            return self.gold.dataset
        content = msgspec.json.encode([self.gold.dataset.hash, sorted((*key, grade) for _, key, grade in self.added)])
        return msgspec.structs.replace(self.gold.dataset, hash="sha256:" + hashlib.sha256(content).hexdigest()[:16])
