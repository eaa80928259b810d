"""The saved form of a calibration: a judge compared with human labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Literal

import msgspec

from karat.data.saved import SavedObject
from karat.errors import InputError
from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.base import Source
from karat.results.no_estimate import NoEstimate
from karat.scoring.extra_labels import JudgedStratum, KnownJudge, Named

SCHEMA: Literal["karat/calibration/1"] = "karat/calibration/1"
_SAYS_SO = re.compile(rb'\s*\{\s*"schema"\s*:\s*"karat/calibration/')


class Rate(msgspec.Struct, frozen=True):
    """A share, or kappa, with its interval; null if unknown."""

    value: float | None
    low: float | None = None
    high: float | None = None


class JudgeRates(msgspec.Struct, frozen=True):
    """How the judge compares with human labels on some pairs."""

    of: str  # all pairs, a segment such as language, or a system
    value: str  # of the segment, or the system's name
    pairs: int  # labelled by the judge
    labelled: int  # of them by humans too
    relevant: int  # of these, by human label
    sensitivity: Rate
    specificity: Rate
    kappa: Rate
    said: float  # share of the pairs that the judge calls relevant
    corrected: Rate  # share that is relevant, from corrected judge labels
    by_people: Rate | None  # the same from human labels alone
    few: bool = False  # too few labels to rely on
    inverted: bool = False  # beyond noise: it calls relevant what humans call irrelevant


class CorrectedMetric(msgspec.Struct, frozen=True):
    """A metric of a run, as if humans had labelled all of its hits."""

    system: str
    metric: str
    gold_only: float | None
    gold_plus_judge: float | None
    corrected: Rate
    method: str
    refused: NoEstimate | None = None  # why there is none


class NextPair(msgspec.Struct, frozen=True):
    """A pair that humans should label next."""

    query_id: str
    item: str
    judge: float  # its grade
    is_document: bool = False


class PersonsLabel(msgspec.Struct, frozen=True):
    """The human label of a pair that the judge labelled too."""

    query_id: str
    item: str
    grade: float
    inclusion_probability: float | None = None


class Calibration(SavedObject, frozen=True, kw_only=True):
    """What `karat labels calibrate` saves."""

    schema: Literal["karat/calibration/1"] = SCHEMA
    judge: str
    human: str
    judge_hash: str  # of the judge's labels, to recognise them
    level: float
    seed: int
    rel: float | None
    method: str
    judge_labels: int
    human_labels: int
    shared: int
    queries: int | None = None  # of the judge's pairs
    strata: list[JudgedStratum]
    overall: JudgeRates
    segments: list[JudgeRates] = []
    systems: list[JudgeRates] = []
    metrics: list[CorrectedMetric] = []
    width: float  # target width of the interval of the corrected share
    needed: int | None = None  # human labels in total to reach it; null: no number does
    next: list[NextPair] = []
    notes: list[str] = []
    labels: list[PersonsLabel] = []  # used to correct the judge in other runs


def labels_hash(grades: Mapping[Named, float]) -> str:
    content = msgspec.json.encode(sorted((*pair, grade) for pair, grade in grades.items()))
    return "sha256:" + hashlib.sha256(content).hexdigest()[:16]


def is_calibration(path: Path) -> bool:
    """Whether a file's schema says that it is a saved calibration."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return _SAYS_SO.match(stream.read(200)) is not None


def read_calibration(path: str | PathLike[str]) -> Calibration:
    source = Source(str(path))
    with source.open() as stream:
        text = stream.read()
    try:
        return msgspec.json.decode(text, type=Calibration)
    except DECODE_ERRORS as error:
        hint = f"expected a file saved by `karat labels calibrate … -o` ({SCHEMA})"
        what = f"not a saved calibration: {error}"
        raise InputError(what, code="not-a-calibration", file=source.label, hint=hint) from error


def known_judge(found: Calibration) -> KnownJudge:
    """The judge's error rates from a saved calibration."""
    rates = found.overall
    if rates.sensitivity.value is None or rates.specificity.value is None:
        what = "the human labels in this calibration are all relevant or all irrelevant: the judge's errors are unknown"
        raise InputError(what, code="one-sided-labels", hint="label more pairs and calibrate again")
    return KnownJudge(rates.sensitivity.value, rates.specificity.value, found.rel)
