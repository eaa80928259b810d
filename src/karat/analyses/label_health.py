"""Whether what the gold set names is still there, so that a new chunking is not taken for a worse retriever."""

from __future__ import annotations

from karat.analyses.base import Analysis, Lacking, Side
from karat.coverage import LabelHealth, label_health, returned_of
from karat.ids import DocRule


class LabelHealthAnalysis(Analysis):
    """Gold ids against the corpus, or against what the run returned."""

    name = "label_health"
    title = "Label health"
    finds = LabelHealth

    def find(self, side: Side) -> LabelHealth:
        gold, rule, source = side.gold, DocRule(side.rules.doc_of), side.source
        if not (gold.grades > 0).any():
            raise Lacking("relevant items in the gold set")
        if side.corpus is not None:
            return label_health(gold, rule, side.corpus)
        if source is None:
            raise Lacking("a corpus (--corpus), or the run itself")
        return label_health(gold, rule, None, lambda: returned_of(gold, rule, source, side.system))
