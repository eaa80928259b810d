"""Labels for an evaluation: merged into gold, or in addition to the gold set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import CHUNK, DOC, Dataset, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.ids import DocRule
from karat.errors import ConfigError, InputError, NoOverlap, shorten
from karat.formats.base import Source, SourcePlace
from karat.formats.questions import bare_questions, is_bare, queries_hint
from karat.formats.read import is_run_as_gold, read_gold
from karat.labels.agreement import settle
from karat.labels.calibration_file import is_calibration, known_judge, read_calibration
from karat.labels.files import (
    HIGHEST,
    Key,
    Kind,
    Label,
    Labels,
    LabelsGiven,
    as_labels,
    contradiction,
    read_labels,
    read_pool,
)
from karat.scoring.extra_labels import Labelling, Named

_SETTLE = (
    "`karat labels agree FILE… -o settled.jsonl` lists conflicts and settles them by majority or by an adjudicator"
)


def read_gold_or_queries(gold: Any, **options: Any) -> Gold:
    """Read a gold set, or a file of plain queries as a gold set without judgements."""
    of_file = {name: value for name, value in options.items() if name not in ("depth", "rules")}
    if not isinstance(gold, (str, PathLike)) or is_run_as_gold(gold):
        return read_gold(gold, **options)
    if not is_bare(gold, **of_file):
        try:
            return read_gold(gold, **options)
        except InputError as error:
            if error.code in ("unrecognised", "missing-column", "missing-field", "nothing-to-find"):
                error.hint = "\n      ".join(filter(None, (error.hint, queries_hint(gold))))
            raise
    source = Source(Path(gold))
    builder = GoldBuilder(source.label)
    for question in bare_questions(source, options.get("columns")):
        builder.add(question.id, [], [])
        builder.say("query", question.text)
        for name, value in question.facts.items():
            builder.say(name, value, tag=True)
    return builder.build(Dataset(hash=source.content_hash()))


def with_labels(
    gold: Gold,
    labels: LabelsGiven,
    *,
    doc_of: str = "#",
    highest: float = HIGHEST,
    gold_scale: float | None = None,
) -> Gold:
    """The gold set with items added from labels. Labels do not change what the gold set says itself.

    Labels without a grade, for unknown queries, and those that contradict the gold set are left out and counted. Raises
    for two grades for one pair: settle them first. `highest`, `gold_scale`: as in `on_scale`.
    """
    if isinstance(labels, (str, PathLike)):
        labels = read_labels(labels, highest=highest)
    elif not isinstance(labels, Labels):
        given: Any = labels
        held, place = list(getattr(given, "labels", given)), SourcePlace("labels", None)
        ready = all(isinstance(label, Label) for label in held)
        labels = Labels(held, [place] * len(held)) if ready else as_labels(held, "labels", highest)
    return _labelled(on_scale(gold, _grades(labels), highest=highest, gold_scale=gold_scale), labels, doc_of)


def _grades(labels: Iterable[Label]) -> list[float]:
    return [label.grade for label in labels if label.grade is not None]


def on_scale(
    gold: Gold, labels: Sequence[float] = (), *, highest: float = HIGHEST, gold_scale: float | None = None
) -> Gold:
    """The gold set on the scale of the labels, which ends at `highest`.

    Ids without a grade get the highest grade. Given grades stay, and are counted if their maximum differs.
    `gold_scale`: the maximum of their own scale, which is then rescaled. `labels`: the grades of the labels.
    """
    free = (np.zeros(len(gold.grades), np.bool_) if gold.ungraded is None else gold.ungraded) & (gold.grades > 0)
    given = ~free & (gold.grades > 0)
    top, audit = float(gold.grades[given].max(initial=0)), Audit.merged(gold.audit)
    if gold_scale is not None and top > gold_scale:
        what = f"the gold set has a grade above --gold-scale {gold_scale:g}"
        raise ConfigError(what, code="bad-value", file=gold.label, expected=f"{top:g} or more", got=gold_scale)
    factor = 1.0 if gold_scale is None else highest / gold_scale
    audit.count("gold_raised", int(free.sum()) if highest != 1 else 0, [f"grade {highest:g}"])
    audit.count("gold_stretched", int(given.sum()) if factor != 1 else 0, [f"by {factor:g}"])
    if gold_scale is None and top != highest:
        audit.count("gold_scale", int(given.sum()), [f"up to {top:g}, labels up to {highest:g}"])
    if free.any() and max(labels, default=highest) < highest:
        audit.count("labels_below_scale", len(labels), [f"up to {max(labels):g} of {highest:g}"])
    return replace(
        gold, grades=np.where(free, highest, np.where(given, gold.grades * factor, gold.grades)), audit=audit
    )


def _labelled(gold: Gold, labels: Labels, doc_of: str, *, by_people: bool = False) -> Gold:
    """The gold set, already on the scale of the labels, with labels for items that it does not judge."""
    grades, rule, audit = _one_grade(labels), DocRule(doc_of), Audit.merged(gold.audit)
    # A chunk may be judged by its own id or its document's.
    documents = gold.names_document(rule).tolist()
    free = [False] * len(documents) if gold.ungraded is None else gold.ungraded.tolist()
    rows = zip(gold.query_of_item.tolist(), gold.ids, documents, gold.grades.tolist(), free, strict=True)
    said = {(query, item, doc): (grade, bare) for query, item, doc, grade, bare in rows}
    known, added = 0, list[tuple[int, Key, float]]()
    for key, grade in grades.items():
        at = gold.index.get(key.query)
        if at is None:
            audit.count("labels_unknown", 1, [key.query])
            continue
        known += 1
        given = said.get((at, key.item, key.is_document))
        if given is None and not key.is_document:
            given = said.get((at, rule.doc(key.item), True))
        if given is not None:
            # An id without a grade only says that it is relevant.
            contradicts = grade == 0 if given[1] else given[0] != grade
            audit.count("labels_overruled", int(contradicts), [f"{key.query} {key.item}"])
        elif grade > 0 and gold.no_answer[at]:
            audit.count("labels_no_answer", 1, [f"{key.query} {key.item}"])
        else:
            added.append((at, key, grade))
    if grades and not known:
        examples = f"{shorten(next(iter(grades)).query, 60)!r}, the gold set has {shorten(gold.queries[0], 60)!r}"
        file, hint = labels.places[0].file, f"do the ids match? The labels have {examples}"
        raise NoOverlap(f"{gold.label} has none of the labels' queries", file=file, hint=hint)
    audit.count("labels_missing", len(labels) - len(labels.graded()))
    audit.count("labels_added", len(added))
    return replace(_with_items(gold, added, by_people), located=None, in_corpus=None, equals=None, audit=audit)


def _one_grade(labels: Labels) -> dict[Key, float]:
    found: dict[Key, tuple[Label, SourcePlace]] = {}
    for label, place in zip(labels.entries, labels.places, strict=True):
        if label.grade is None:
            continue
        before, where = found.setdefault(label.key, (label, place))
        if before.grade != label.grade:
            what = f"{label.annotator} and {before.annotator} ({where}) disagree on {label.key.item}"
            raise contradiction(what, before, label, place, _SETTLE)
    return {key: label.grade for key, (label, _) in found.items() if label.grade is not None}


def _with_items(gold: Gold, added: list[tuple[int, Key, float]], by_people: bool) -> Gold:
    """The gold set with added items and a new hash, since scores with other labels are not comparable."""
    query = np.append(gold.query_of_item, np.array([at for at, *_ in added], np.int64))
    order = np.argsort(query, kind="stable")
    ids = [*gold.ids, *(key.item for _, key, _ in added)]
    kinds = np.append(gold.kinds, np.array([DOC if key.is_document else CHUNK for _, key, _ in added], np.int8))
    passages = [*gold.passages, *([None] * len(added))] if gold.passages else []
    counts = np.bincount(query, minlength=len(gold.queries))
    before = np.zeros(len(gold.grades), np.bool_) if gold.by_people is None else gold.by_people
    dataset = gold.dataset
    if added:
        top = float(gold.grades.max(initial=0))
        content = msgspec.json.encode([dataset.hash, top, sorted((*key, grade) for _, key, grade in added)])
        dataset = msgspec.structs.replace(dataset, hash="sha256:" + hashlib.sha256(content).hexdigest()[:16])
    return replace(
        gold,
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        items=[ids[i] for i in order.tolist()],
        grades=np.append(gold.grades, [grade for *_, grade in added])[order],
        kinds=kinds[order],
        passages=[passages[i] for i in order.tolist()] if passages else [],
        dataset=dataset,
        ungraded=None if gold.ungraded is None else np.append(gold.ungraded, np.zeros(len(added), np.bool_))[order],
        by_people=np.append(before, np.full(len(added), by_people))[order] if by_people or before.any() else None,
    )


def read_labelling(
    judge: Sequence[str | PathLike[str]] = (),
    calibration: str | PathLike[str] | None = None,
    *,
    bounds: bool = False,
    pool: str | PathLike[str] | None = None,
    borrow: bool = False,
    doc_of: str = "#",
    highest: int = HIGHEST,
    gold_scale: float | None = None,
    people: Sequence[str | PathLike[str]] = (),
) -> Labelling:
    """Read labels for an evaluation. `judge`: judge labels; `people`: human labels, which count as gold; `calibration`:
    human labels for some of the judge's pairs, or a file saved by `karat labels calibrate`; `bounds`: also compute how
    far unjudged hits could move each score; `pool`: hits of other runs; `borrow`: use the judge's error rates on other
    pairs if too few of a run's own hits have human labels; `highest`, `gold_scale`: as in `on_scale`."""
    if calibration is not None and not judge:
        what = "a calibration needs judge labels to correct"
        raise ConfigError(what, code="missing-option", hint="pass them with --labels")
    if gold_scale is not None and not (judge or people):
        what = "--gold-scale needs labels: it rescales the gold set to theirs"
        raise ConfigError(what, code="missing-option", hint="pass them with --labels or --gold-labels")
    pooled = [] if pool is None else [(entry.key.query, entry.key.item) for entry in read_pool(pool)]
    if not (judge or people):
        return Labelling(bounds=bounds, pooled=pooled)
    as_gold, labels = _settled_files(people, highest, "human"), _settled_files(judge, highest, "judge")
    given = _grades([*as_gold, *labels])
    scaled = partial(on_scale, labels=given, highest=highest, gold_scale=gold_scale)
    prepare = partial(_prepared, scaled=scaled, people=as_gold, doc_of=doc_of)
    options = [("--gold-labels", str(file)) for file in people] + [("--labels", str(file)) for file in judge]
    options += [("--max-grade", str(highest))] if highest != HIGHEST else []
    options += [("--gold-scale", f"{gold_scale:g}")] if gold_scale is not None else []
    if not judge:
        return Labelling(bounds=bounds, pooled=pooled, prepare=prepare, highest=highest, given=options)
    grades = by_name(labels.entries)
    said = Labelling(
        bounds=bounds,
        judge=grades,
        source="clicks" if labels.entries and labels.entries[0].kind == "clicks" else "judge",
        with_judge=partial(_labelled, labels=labels, doc_of=doc_of),
        prepare=prepare,
        highest=highest,
        pooled=pooled,
        borrow=borrow,
        given=options,
    )
    if calibration is None:
        return said
    if is_calibration(Path(calibration)):
        saved = read_calibration(calibration)
        told = {(label.query_id, label.item): label for label in saved.labels}
        drawn = {pair: x.inclusion_probability for pair, x in told.items() if x.inclusion_probability is not None}
        shared = {pair: label.grade for pair, label in told.items() if pair in grades}  # none: it judged another set
        return replace(said, human=shared, probability=drawn, known=known_judge(saved))
    human = settled_labels(blind_labels(labels_of("human", calibration, highest=highest)), str(calibration))
    refuse_no_overlap(grades, by_name(human), str(calibration))
    return replace(said, human=by_name(human), probability=chances(human))


def labels_of(kind: Kind, *files: str | PathLike[str], highest: float = HIGHEST) -> Labels:
    """The human or judge labels in files that may have both. Human labels, such as those of a second annotator, may be
    used in place of judge labels, and so may labels from clicks; neither is ever used as human labels."""
    every = read_labels(*files, highest=highest)
    found = every.of_kind(kind)
    clicks, named = every.of_kind("clicks"), " and ".join(map(str, files))
    if kind == "human" and len(every) and not len(found):
        what = "only labels from clicks" if len(clicks) == len(every) else "only judge labels"
        what, hint = f"{what}, which cannot replace human labels", "use human labels here"
        raise InputError(what, code="labels-of-a-judge", file=named, hint=hint)
    if kind == "judge" and len(found) and len(clicks):
        hint = "use one kind at a time: what a judge says and what people click are different estimates"
        raise InputError("labels of a judge and from clicks", code="mixed-labels", file=named, hint=hint)
    return found if len(found) else clicks if kind == "judge" and len(clicks) else every


def _settled_files(files: Sequence[str | PathLike[str]], highest: float, kind: Kind) -> Labels:
    """One label per pair. Errors name the files."""
    if not files:
        return Labels()
    named = " and ".join(map(str, files))
    settled = settled_labels(labels_of(kind, *files, highest=highest), named)
    return Labels(settled, [SourcePlace(named, None)] * len(settled))


def _prepared(gold: Gold, scaled: Callable[[Gold], Gold], people: Labels, doc_of: str) -> Gold:
    gold = scaled(gold)
    return _labelled(gold, people, doc_of, by_people=True) if len(people) else gold


def settled_labels(labels: Labels, file: str) -> list[Label]:
    """One label per pair, without those that are missing or in conflict."""
    graded = [label for label in settle(labels) if label.grade is not None]
    if not graded:
        hint = "a label is {query_id, chunk_id, grade, annotator}"
        raise InputError("no label with a grade", code="no-labels", file=file, hint=hint)
    return graded


def blind_labels(people: Labels) -> Labels:
    """The labels that a judge may be compared with: those whose annotators saw nothing but the pair."""
    blind = people.blind()
    if len(people) and not len(blind):
        what = "all labels were given with the ranking in sight, which a judge cannot be compared with"
        hint = "label some of the pairs in a pool, where ranks and gold are not shown"
        raise InputError(what, code="no-blind-labels", file=people.files, hint=hint)
    return blind


def by_name(labels: Sequence[Label]) -> dict[Named, float]:
    return {(label.key.query, label.key.item): label.grade for label in labels if label.grade is not None}


def chances(labels: Sequence[Label]) -> dict[Named, float]:
    """The inclusion probability of each pair, if the labels have it."""
    return {
        (label.key.query, label.key.item): label.inclusion_probability
        for label in labels
        if label.inclusion_probability is not None
    }


def refuse_no_overlap(judge: dict[Named, float], human: dict[Named, float], file: str) -> None:
    if not judge.keys() & human.keys():
        (one, item), (other, another) = next(iter(human)), next(iter(judge))
        hint = f"do the ids match? Humans have {one!r} with {item!r}, the judge has {other!r} with {another!r}"
        what = "no pair has both a human label and a judge label"
        raise InputError(what, code="no-common-pairs", file=file, hint=hint)
