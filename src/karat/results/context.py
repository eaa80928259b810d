"""Inputs of a result other than run and gold set, and values that it loads from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from karat.data.gold import Gold
from karat.results.analyses.base import Analyses, Setup
from karat.results.diagnosis.bands import Reading
from karat.results.summary import SummaryRow
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.views import Level

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.results.diagnosis.finding import Finding
    from karat.results.sweep import Sweep
    from karat.scoring.unjudged import OpenPart


class Precomputed(msgspec.Struct, frozen=True):
    """Values loaded from a file because they were computed from data that the file does not have."""

    analyses: Analyses | None = None
    findings: list[Finding] | None = None
    summary: dict[str, SummaryRow] = {}  # for ceilings and floors
    bm25: dict[str, float | None] = {}
    definitions: dict[str, int] = {}  # versions of the metrics when the result was saved
    wrong_hits_judged: bool | None = None
    says_score_width: bool = True  # files of older versions do not record how scores were compared
    bands: list[Reading] | None = None
    sweep: Sweep | None = None
    triage: Any = None


class Context(msgspec.Struct, frozen=True):
    """Inputs of an evaluation other than run and gold set."""

    corpus: Corpus | None = None
    labelling: Labelling = msgspec.field(default_factory=Labelling)
    routes: tuple[str, ...] = ()  # sources with a run that searched only them
    sourced: bool = False  # hits may have a source
    stepped: bool = False  # queries may have several searches
    sized: bool = False  # hits have tokens
    no_bm25: str | None = None  # why there are no BM25 lists although there is a corpus
    analysed: bool = False  # whether the pass collected what analyses need
    opened: Mapping[str, Mapping[Level, list[OpenPart]]] = {}  # system → its unjudged hits

    def setup(self, gold: Gold, rules: Rules, metrics: list[Metric]) -> Setup:
        """What is known before the run is read."""
        said = {"sourced": self.sourced, "stepped": self.stepped, "sized": self.sized}
        return Setup(gold, rules, metrics, self.corpus, self.labelling, self.routes, **said)
