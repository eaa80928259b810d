"""Merge human labels into a new version of the gold set, which records where each label comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from karat import __version__
from karat.data.audit import Entry
from karat.data.bulk import Bulk
from karat.data.gold import DOC, Dataset, Gold
from karat.data.saved import SavedObject
from karat.errors import InputError
from karat.formats.base import Source
from karat.formats.gold_writer import gold_lines
from karat.labels.files import HIGHEST, Key, Label, Labels, read_labels
from karat.labels.labelled_gold import with_labels

# Audit entries of a gold set that are about labels.
_OF_LABELS = ("labels_", "gold_raised", "gold_stretched", "gold_scale")


class LabelSource(msgspec.Struct, frozen=True):
    """A file of labels merged into a gold set."""

    file: str
    hash: str
    labels: int  # labels with a grade that may be merged


class Merging(SavedObject, frozen=True, kw_only=True):
    """What `karat labels merge` did. Also the provenance in the first line of the new gold set."""

    schema: Literal["karat/merging/1"] = "karat/merging/1"
    gold: str
    dataset: Dataset  # the old gold set
    version: str  # of the new one
    labels: list[LabelSource]
    annotators: dict[str, int]  # annotator → labels added
    added: int
    relevant: int  # of these
    queries: int  # with an added label
    by_judges: int  # judge labels, left out: they are not gold
    by_clicks: int = 0  # labels from clicks, left out unless requested
    from_clicks: int = 0  # added labels that come from clicks
    last: str | None  # time of the latest added label
    highest: float  # grade of the labels' scale
    audit: list[Entry]  # what was left out or changed, and why


class GoldVersion(Bulk, frozen=True):
    """A gold set with merged labels, and how it was made."""

    gold: Gold
    merging: Merging
    notes: dict[int, dict[str, Any]]  # added row → its annotator

    def text(self) -> bytes:
        """The file contents."""
        return b"".join(gold_lines(self.gold, {"provenance": self.merging}, self.notes))


def merge_labels(
    gold: Gold,
    files: Sequence[str | PathLike[str]],
    *,
    version: str | None = None,
    doc_of: str = "#",
    highest: float = HIGHEST,
    gold_scale: float | None = None,
    clicks: bool = False,
) -> GoldVersion:
    """Make a new version of the gold set with human labels for pairs that it does not judge.

    Judge labels are left out and counted. Raises if annotators disagree, as in `with_labels`. `version`: its name
    (default: that of the gold set and a hash of the labels). `clicks`: also labels from clicks, where people gave no
    grade; each added item says so.
    """
    every = read_labels(*files, highest=highest)
    people = every.of_kind("human")
    by_clicks = every.of_kind("clicks")
    if clicks:
        graded = {label.key for label in people.graded()}
        told = by_clicks.of({label.key for label in by_clicks} - graded)
        people = Labels([*people.entries, *told.entries], [*people.places, *told.places])
    if not people.graded():
        what = "no human label with a grade"
        hint = "judge labels are not merged: use karat eval --labels"
        if by_clicks.graded():
            hint = "labels from clicks are not merged unless requested with --clicks: use karat eval --labels"
        raise InputError(what, code="no-labels", file=" and ".join(map(str, files)), hint=hint)
    merged = with_labels(gold, people, doc_of=doc_of, highest=highest, gold_scale=gold_scale)
    added = _added(gold, merged, people)
    given = list(added.values())
    annotators = [label.annotator for label in given]
    name = version or f"{gold.dataset.version or 'gold'}+{_hash(given)}"
    merging = Merging(
        karat=__version__,
        gold=gold.label,
        dataset=gold.dataset,
        version=name,
        labels=[_source(str(file), people) for file in files],
        annotators={who: annotators.count(who) for who in sorted(set(annotators))},
        added=len(given),
        relevant=sum((label.grade or 0) > 0 for label in given),
        queries=len({label.key.query for label in given}),
        by_judges=sum(label.kind == "judge" for label in every),
        by_clicks=0 if clicks else len(by_clicks),
        from_clicks=sum(label.kind == "clicks" for label in given),
        last=max((label.time for label in given if label.time), default=None),
        highest=highest,
        audit=[entry for entry in merged.audit if entry.code.startswith(_OF_LABELS)],
    )
    dataset = msgspec.structs.replace(merged.dataset, version=name)
    notes = {row: _note(label) for row, label in added.items()}
    return GoldVersion(replace(merged, dataset=dataset), merging, notes)


def _added(before: Gold, after: Gold, labels: Labels) -> dict[int, Label]:
    """Row of the new gold set → its label."""
    said = {label.key: label for label in labels.graded()}
    known = set(zip(before.query_of_item.tolist(), before.ids, before.kinds.tolist(), strict=True))
    rows = zip(after.query_of_item.tolist(), after.ids, after.kinds.tolist(), strict=True)
    return {
        row: said[Key(after.queries[query], item, kind == DOC)]
        for row, (query, item, kind) in enumerate(rows)
        if (query, item, kind) not in known
    }


def _note(label: Label) -> dict[str, Any]:
    """Where an added item comes from."""
    return {"annotator": label.annotator} | ({"kind": label.kind} if label.kind != "human" else {})


def _source(file: str, labels: Labels) -> LabelSource:
    graded = zip(labels.entries, labels.places, strict=True)
    count = sum(label.grade is not None and place.file == file for label, place in graded)
    return LabelSource(file, Source(file).content_hash(), count)


def _hash(labels: Sequence[Label]) -> str:
    content = sorted((*label.key, label.grade or 0.0) for label in labels)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:8]
