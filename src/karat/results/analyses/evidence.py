"""Evidence texts: how many the top hits cover, which chunk covers which, and by which rule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.matching.cover import Rule, normalise
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import SummaryRow
from karat.scoring.metrics.evidence import LOOKED, CoveredEvidence, Looked
from karat.scoring.views import Need

KS = (3, 5, 10)
ON_EVIDENCE = (
    "evidence_recall",
    "coverage",
    "full_coverage",
    "evidence_hit",
    "evidence_precision",
    "evidence_map",
    "evidence_mrr",
)

if TYPE_CHECKING:
    from karat.results.result import Result
ON_ANSWERS = "answer_containment"
RULES: tuple[Rule, ...] = ("exact", "contains", "contained", "fuzzy")
KEPT = 10_000  # most pairs of evidence and chunk that are kept
_EXAMPLES = 5
_SHOWN = 300  # characters of an example


class RuleCount(msgspec.Struct, frozen=True):
    """How often a rule decided."""

    rule: Rule
    evidences: int  # evidence texts first covered by this rule
    pairs: int  # pairs of evidence and chunk


class Uncovered(msgspec.Struct, frozen=True):
    """An evidence text that no chunk covers."""

    query_id: str
    evidence: int  # index among the query's evidence texts, from 0
    text: str
    longer_than_every_chunk: bool


class EvidenceFound(msgspec.Struct, frozen=True):
    """How the top 10 covers the evidence texts and answers of the gold set."""

    ks: list[int]
    threshold: float
    panel: list[SummaryRow]
    queries: int = 0  # with evidence
    evidences: int = 0
    covered: int = 0
    longer: int = 0  # uncovered evidence texts that are longer than every compared chunk
    hits: int = 0  # that were compared
    without_text: int = 0
    too_long: int = 0  # pairs of texts too long to compare character by character
    rules: list[RuleCount] = []
    uncovered_examples: list[Uncovered] = []
    pairs: int = 0  # of evidence and a chunk that covers it
    covers: list[CoveredEvidence] = []  # the first 10,000 of them, in the order of the gold set


class EvidenceTexts(Analysis):
    """Evidence and answers by text, at k = 3, 5 and 10."""

    name = "evidence"
    title = "Evidence texts"
    finds: ClassVar[type[msgspec.Struct]] = EvidenceFound

    def need(self, setup: Setup) -> Need:
        return Need(metrics=_metrics(setup.gold), facts=frozenset({LOOKED}))

    def find(self, side: Result) -> EvidenceFound:
        names = _metrics(side.gold)
        if np.isnan(side.values[names[-1]][side.depths > 0]).all():
            raise Lacking("`text` of the hits in the run log, or `--corpus`")
        panel = [row for row in side.summary_rows if row.metric in names]
        seen = _seen(side)
        covers = [cover for _, looked in seen for cover in looked.covered if cover.rank <= max(KS)]
        missed = [uncovered for row, looked in seen for uncovered in _uncovered(side, row, looked)]
        evidences = sum(len(side.gold.fields["evidence"][row]) for row, _ in seen)
        return EvidenceFound(
            ks=list(KS),
            threshold=side.rules.fuzzy_threshold,
            panel=panel,
            queries=len(seen),
            evidences=evidences,
            covered=evidences - len(missed),
            longer=sum(one.longer_than_every_chunk for one in missed),
            hits=sum(looked.hits for _, looked in seen),
            without_text=sum(looked.without_text for _, looked in seen),
            too_long=sum(looked.too_long for _, looked in seen),
            rules=_by_rule(covers),
            uncovered_examples=missed[:_EXAMPLES],
            pairs=len(covers),
            covers=covers[:KEPT],
        )


def _metrics(gold: Gold) -> list[str]:
    fields = gold.fields
    names = [*(ON_EVIDENCE if any(fields.get("evidence", ())) else ())]
    if any(fields.get("answer_span", ())) or any(fields.get("answer", ())):
        names.append(ON_ANSWERS)
    if not names:
        raise Lacking("`evidence` or `answer_span` in the gold set")
    return [f"{name}@{k}" for name in names for k in KS]


def _seen(side: Result) -> list[tuple[int, Looked]]:
    """Every query with evidence, and what was compared for it: nothing if it is missing from the run."""
    evidence = side.gold.fields.get("evidence")
    return [
        (row, looked or Looked([]))
        for row, looked in zip(side.rows.tolist(), side.facts(LOOKED), strict=True)
        if evidence is not None and evidence[row] and not side.gold.no_answer[row]
    ]


def _by_rule(covers: list[CoveredEvidence]) -> list[RuleCount]:
    pairs = Counter(cover.rule for cover in covers)
    # The best hit that covers each evidence text; hits of a query come best first.
    firsts = Counter({(cover.query_id, cover.evidence): cover.rule for cover in reversed(covers)}.values())
    return [RuleCount(rule, firsts[rule], pairs[rule]) for rule in RULES]


def _uncovered(side: Result, row: int, looked: Looked) -> list[Uncovered]:
    texts: list[str] = side.gold.fields["evidence"][row]
    covered = {cover.evidence for cover in looked.covered if cover.rank <= max(KS)}
    return [
        Uncovered(side.gold.queries[row], at, text[:_SHOWN], 0 < looked.longest < len(normalise(text)))
        for at, text in enumerate(texts)
        if at not in covered
    ]
