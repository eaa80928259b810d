"""Whether the labels are still valid, and how much missing labels matter."""

from __future__ import annotations

from typing import Any

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Interval, Table, Text
from karat.report.cells import count, table, texts
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.bounds import BELOW_SCALE, BoundsFound, BoundsRow, Kind
from karat.results.analyses.label_health import LabelCount, LabelHealth
from karat.results.no_estimate import BORROWED, why_no_estimate
from karat.results.numbers import counted, listed

_ADVICE = (
    "Label passages instead of chunks: {doc_id, quote} or {doc_id, start, end} is matched against any chunking "
    "(docs/rechunking.md)."
)
_ONLY_RETURNED = "without a corpus (--corpus), only items that the run returned for some query are known to exist."
_KINDS: dict[Kind, str] = {
    "gold only": "unjudged hits count as irrelevant",
    "gold plus judge": "with the judge's labels where the gold has none; hit, recall and mrr use the gold only",
    "strict bounds": "the lowest and the highest mean that any labels for the unjudged hits could give",
    "judge-calibrated estimate": "with the judge's labels, corrected by people's labels; for precision, rbp and ndcg",
}
_BY_CLICKS = (
    "Labels from clicks: they show what attracts people, which is not always what is relevant. Pairs on which the log "
    "leaves doubt have no label."
)


class LabelHealthSection(AnalysisSection):
    """How many gold items still exist; a warning if the corpus looks re-chunked."""

    name = "label_health"
    title = "Label health"
    order = 78

    def show(self, found: LabelHealth) -> list[Block]:
        documents = "documents" if not found.unclear else "other ids" if found.chunks.count else "ids"
        kinds = {"chunks": found.chunks, documents: found.documents, "passages": found.passages}
        named = {name: labels for name, labels in kinds.items() if labels.count}
        if found.against == "corpus" and not found.changed and all(n.there == n.count for n in named.values()):
            counts = " and ".join(f"{labels.count:,} {name}" for name, labels in named.items())
            return [Text(f"Everything that the gold set names is in the corpus ({counts}).")]
        return [_health_table(found, named), *_health_warnings(found)]


def _health_table(found: LabelHealth, named: dict[str, LabelCount]) -> Table:
    corpus = found.against == "corpus"
    there, gone = ("in the corpus", "missing") if corpus else ("returned", "never returned")
    counts = (count("count"), count(there), "share", count("only its document"))
    rows = [_row(name, labels) for name, labels in named.items()]
    return table(["the gold set names", *counts, f"{gone}, for example"], rows, None if corpus else _ONLY_RETURNED)


def _row(name: str, labels: LabelCount) -> list[Cell]:
    moved = labels.moved if name == "chunks" else None
    examples = listed([shorten(example, 30) for example in labels.examples[:2]])
    return [name, labels.count, labels.there, f"{labels.there / labels.count:.0%}", moved, examples or None]


def _health_warnings(found: LabelHealth) -> list[Block]:
    blocks: list[Block] = []
    if found.changed:
        such = listed([shorten(example, 40) for example in found.changed_examples])
        blocks.append(Text(f"Chunks without the quote given with their id: {found.changed:,} ({such}).", "warning"))
    if found.rechunked:
        quoted = (
            f" {found.quoted:,} of these labels already have a quote or offsets: replace their chunk_id with doc_id."
        )
        blocks += [Text(_looks(found), "warning"), Text(_ADVICE + (quoted if found.quoted else ""))]
    chunks, documents = found.chunks, found.documents
    gone = chunks.count - chunks.there - chunks.moved + documents.count - documents.there
    if gone and found.against == "corpus":
        named = "are" if found.unclear else "name documents that are"
        what = f"{gone:,} gold items {named} not in the corpus: were they removed or renamed?"
        blocks.append(Text(what, "warning"))
    return blocks


def _looks(found: LabelHealth) -> str:
    moved = found.chunks.moved + found.changed
    how = "are gone or have a different text" if found.against == "corpus" else "were never returned"
    return (
        f"Looks like re-chunking: {moved:,} of {found.chunks.count:,} chunks that the gold set names {how}, while "
        "their documents exist. Scores by chunk then say little about the retriever; scores by document stay valid."
    )


class BoundsSection(AnalysisSection):
    """Gold only, gold plus judge, strict bounds and judge-calibrated estimate, as requested."""

    name = "bounds"
    title = "Effect of unjudged hits"
    order = 15

    def in_short(self, found: Any) -> None:
        """It was requested, so a terminal shows all of it."""

    def show(self, found: BoundsFound) -> list[Block]:
        names = Text(_named(_bounds_names(found), found), "note")
        return [Text(_bounds_said(found)), _bounds_table(found), names, *_bounds_notes(found)]


def _bounds_said(found: BoundsFound) -> str:
    share = f" ({found.unjudged / found.hits:.1%})" if found.hits else ""
    labelled = f" People labelled {found.by_people:,} of these." if found.by_people else ""
    if found.judge_labels:
        who = "Clicks" if found.source == "clicks" else "The judge"
        labelled += f" {who} labelled {found.by_judge:,} of {'the others' if found.by_people else 'these'}."
    unjudged = f"{found.unjudged:,} of {found.hits:,} hits in the top {found.k}{share}"
    return f"The gold set has no label for {unjudged}.{labelled}"


def _bounds_table(found: BoundsFound) -> Table:
    kinds = [kind for kind in _KINDS if any(row.kind == kind for row in found.rows)]
    by_name = {(row.metric, row.kind): row for row in found.rows}
    metrics = dict.fromkeys(row.metric for row in found.rows)
    rows = [[metric, *(_cell(by_name.get((metric, kind))) for kind in kinds)] for metric in metrics]
    return table(["metric", *(_named(kind, found) for kind in kinds)], rows)


def _named(text: str, found: BoundsFound) -> str:
    """A text about a judge, for labels from clicks."""
    if found.source == "judge":
        return text
    for one, other in (("the judge's labels", "labels from clicks"), ("plus judge", "plus clicks")):
        text = text.replace(one, other)
    return text.replace("judge-calibrated", "calibrated")


def _cell(row: BoundsRow | None) -> Cell:
    if row is None or (row.value is None and row.lower is None):
        return None
    if row.value is None:
        return Interval(f"{row.lower:.3f} to {row.upper:.3f}", None, row.lower, row.upper)
    if row.low is None or row.high is None:
        return f"{row.value:.3f}"
    return Interval(f"{row.value:.3f} [{row.low:.2f}, {row.high:.2f}]", row.value, row.low, row.high)


def _bounds_names(found: BoundsFound) -> str:
    kinds = {row.kind for row in found.rows}
    methods = sorted({row.method for row in found.rows if row.method and row.kind == "judge-calibrated estimate"})
    said = [f"{kind}: {what}" for kind, what in _KINDS.items() if kind in kinds]
    return "; ".join(said) + (f" ({'; '.join(methods)})." if methods else ".")


def _bounds_notes(found: BoundsFound) -> list[Block]:
    unlabelled = f"Hits of the top {found.k} without a label: {found.unlabelled:,}. They count as irrelevant; "
    unlabelled += "the interval of the estimate covers any label."
    by = "from clicks" if found.source == "clicks" else "of the judge"
    overruled = f"Labels {by} that contradict the gold set, which takes precedence: {found.overruled:,}."
    unknown = f"Labels for queries that are not in the gold set, left out: {found.unknown:,}."
    scale = (
        f"The gold set and the labels have different highest grades ({counted(found.other_scale, 'item')}), so the "
        "same grade is worth more in one of them. Set the highest grade of the gold set with --gold-scale N."
    )
    lacking = found.judge_labels and found.unlabelled
    depths = {row.metric: row.depth for row in found.rows if row.depth is not None}
    deep = "; ".join(f"{metric}: below rank {depth}" for metric, depth in depths.items())
    deep = f"Hits that people could not label ({deep}). The interval covers any label for them."
    assumed = "The estimate assumes that people labelled a random sample of the run's hits of each grade."
    estimated = any(row.kind == "judge-calibrated estimate" and row.method != BORROWED for row in found.rows)
    inverted = (
        "These clicks are inverted: people click what people call irrelevant. Ignore gold plus clicks here."
        if found.source == "clicks"
        else "This judge is inverted: it calls relevant what people call irrelevant. Is its scale "
        "or the prompt reversed? Ignore gold plus judge here."
    )
    borrowed = f"{BORROWED[0].upper()}{BORROWED[1:]}: no interval can say how far off that is."
    return [
        *texts("note", (estimated, assumed), (found.source == "clicks", _BY_CLICKS)),
        *texts(
            "warning",
            (found.inverted, inverted),
            (lacking, unlabelled),
            (depths, deep),
            (any(row.method == BORROWED for row in found.rows), borrowed),
            *((True, text) for text in why_no_estimate(found.refused, found.k)),
            (found.overruled, overruled),
            (found.unknown, unknown),
            (found.other_scale, scale),
            (found.below_scale, BELOW_SCALE),
        ),
    ]
