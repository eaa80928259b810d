"""Several labels of a pair → one, or none where nobody can tell."""

from __future__ import annotations

from collections import Counter

from karat.errors import ConfigError, did_you_mean
from karat.labels.base import Key
from karat.labels.labels_file import CONFLICT, Label, Labels


def settle(labels: Labels, adjudicator: str | None = None) -> list[Label]:
    """One label a pair: the adjudicator's; else the grade of more than half of those who gave one; else none, with the
    conflict as its reason. Where people have labelled a pair, models have no say in it."""
    if adjudicator is not None and adjudicator not in labels.annotators:
        what, hint = f"nobody called {adjudicator!r} has labelled", did_you_mean(adjudicator, labels.annotators)
        raise ConfigError(what, code="unknown-annotator", hint=hint)
    by_pair: dict[Key, list[Label]] = {}
    for label in labels:
        by_pair.setdefault(label.key, []).append(label)
    return [_one(_voters(of), adjudicator) for of in by_pair.values()]


def _voters(labels: list[Label]) -> list[Label]:
    """Those whose labels count: the graded ones of people, else those of models, else those that say why not."""
    graded = [label for label in labels if label.grade is not None]
    return [label for label in graded if label.kind == "human"] or graded or labels[:1]


def _one(labels: list[Label], adjudicator: str | None) -> Label:
    if len(labels) == 1:
        return labels[0]
    by_adjudicator = [label for label in labels if label.annotator == adjudicator]
    if by_adjudicator:
        return by_adjudicator[0]
    votes = ", ".join(f"{label.annotator} {label.grade:g}" for label in labels)
    grade, count = Counter(label.grade for label in labels).most_common(1)[0]
    agreed = 2 * count > len(labels)
    winners = [label for label in labels if label.grade == grade or not agreed]
    return Label(
        query_id=labels[0].query_id,
        chunk_id=labels[0].chunk_id,
        doc_id=labels[0].doc_id,
        grade=grade if agreed else None,
        reason=None if agreed else f"{CONFLICT}: {votes}",
        note=votes if agreed and count < len(labels) else None,
        annotator="+".join(label.annotator for label in winners),
        kind=labels[0].kind,
        time=max((label.time for label in labels if label.time), default=None),
        inclusion_probability=labels[0].inclusion_probability,
    )
