"""What a result was given besides the run and the gold set, and what it brings along from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from karat.data.corpus import Corpus
from karat.results.diagnosis.bands import Reading
from karat.results.diagnosis.finding import Finding
from karat.results.summary import SummaryRow
from karat.results.sweep import Sweep
from karat.scoring.extra_labels import Labelling
from karat.scoring.unjudged import OpenPart
from karat.scoring.views import Level

if TYPE_CHECKING:
    from karat.results.analyses.base import Analyses


class Precomputed(msgspec.Struct, frozen=True):
    """What a result brings along from a file, because it was computed from what the file does not hold."""

    analyses: Analyses | None = None
    findings: list[Finding] | None = None
    summary: dict[str, SummaryRow] = {}  # for ceilings and floors
    bm25: dict[str, float | None] = {}
    definitions: dict[str, int] = {}  # versions of the metrics when it was saved
    wrong_hits_judged: bool | None = None
    says_score_width: bool = True  # files of older versions do not say how scores were compared
    bands: list[Reading] | None = None
    sweep: Sweep | None = None
    triage: Any = None


class Context(msgspec.Struct, frozen=True):
    """What an evaluation was given besides the run and the gold set."""

    corpus: Corpus | None = None
    labelling: Labelling = msgspec.field(default_factory=Labelling)
    routes: tuple[str, ...] = ()  # sources of which there is a run that asked them alone
    sourced: bool = False  # hits may say which source they are from
    no_bm25: str | None = None  # why there are no BM25 lists although there is a corpus
    analysed: bool = False  # whether the pass brought what analyses need
    opened: Mapping[str, Mapping[Level, list[OpenPart]]] = {}  # system → its unjudged hits
