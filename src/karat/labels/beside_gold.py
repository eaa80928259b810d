"""Files of labels → what an evaluation needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path

from karat.errors import ConfigError, InputError
from karat.labels.agreement import settle
from karat.labels.base import SourcePlace
from karat.labels.calibration_file import is_calibration, known_judge, labels_hash, read_calibration
from karat.labels.labelled_gold import with_labels
from karat.labels.labels_file import HIGHEST, Label, Labels, read_labels
from karat.labels.pool_file import read_pool
from karat.scoring.extra_labels import Labelling, Named

Paths = Sequence[str | PathLike[str]]


def read_labelling(
    judge: Paths = (),
    calibration: str | PathLike[str] | None = None,
    *,
    bounds: bool = False,
    pool: str | PathLike[str] | None = None,
    doc_of: str = "#",
    highest: float = HIGHEST,
) -> Labelling:
    """`judge`: labels of a judge; `calibration`: labels of people for some of the same pairs, or what `karat calibrate`
    saved; `bounds`: also ask how far unjudged hits could move each score; `pool`: what other runs found."""
    if calibration is not None and not judge:
        raise ConfigError(
            "a calibration corrects the labels of a judge", code="missing-option", hint="give them with --labels"
        )
    pooled = [] if pool is None else [(entry.key.query, entry.key.item) for entry in read_pool(pool)]
    if not judge:
        return Labelling(bounds=bounds, pooled=pooled)
    files = " and ".join(map(str, judge))
    settled = settled_labels(read_labels(*judge, highest=highest), files)
    grades = by_name(settled)
    labels = Labels(settled, [SourcePlace(files, None)] * len(settled))  # what is wrong with them is said of the files
    said = Labelling(
        bounds=bounds, judge=grades, with_judge=partial(with_labels, labels=labels, doc_of=doc_of), pooled=pooled
    )
    if calibration is None:
        return said
    if is_calibration(Path(calibration)):
        return _with(said, known=known_judge(read_calibration(calibration), labels_hash(grades)))
    human = settled_labels(read_labels(calibration, highest=highest), str(calibration))
    refuse_no_overlap(grades, by_name(human), str(calibration))
    return _with(said, human=by_name(human), probability=chances(human))


def _with(said: Labelling, **more: object) -> Labelling:
    from dataclasses import replace

    return replace(said, **more)  # type: ignore[arg-type]


def settled_labels(labels: Labels, file: str) -> list[Label]:
    """One label a pair; those that nobody could give, or that are in conflict, are left out."""
    graded = [label for label in settle(labels) if label.grade is not None]
    if not graded:
        raise InputError(
            "no label with a grade",
            code="no-labels",
            file=file,
            hint="a label is {query_id, chunk_id, grade, annotator}",
        )
    return graded


def by_name(labels: Sequence[Label]) -> dict[Named, float]:
    return {(label.key.query, label.key.item): label.grade for label in labels if label.grade is not None}


def chances(labels: Sequence[Label]) -> dict[Named, float]:
    """With which each pair came to be labelled, where the labels say so."""
    return {
        (label.key.query, label.key.item): label.inclusion_probability
        for label in labels
        if label.inclusion_probability is not None
    }


def refuse_no_overlap(judge: dict[Named, float], human: dict[Named, float], file: str) -> None:
    if not judge.keys() & human.keys():
        (one, item), (other, another) = next(iter(human)), next(iter(judge))
        raise InputError(
            "no pair was labelled by people and by the judge",
            code="no-common-pairs",
            file=file,
            hint=f"do the ids match? People have {one!r} with {item!r}, the judge {other!r} with {another!r}",
        )
