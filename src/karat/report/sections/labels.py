"""How far the labels can be trusted, and what more of them could change."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Interval, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.bounds import BoundsFound, BoundsRow, Kind
from karat.results.analyses.label_health import LabelCount, LabelHealth
from karat.results.numbers import listed
from karat.results.result import Result

_ADVICE = (
    "Label passages instead of chunks: {doc_id, quote} or {doc_id, start, end} is looked for in every chunking anew "
    "(docs/rechunking.md)."
)
_ONLY_RETURNED = "without a corpus (--corpus) only what the run returned for some query is known to be there."
_KINDS: dict[Kind, str] = {
    "gold only": "what the gold does not know counts as irrelevant",
    "gold plus judge": "with the judge's labels where the gold has none; hit, recall and mrr stay with the gold",
    "strict bounds": "the lowest and the highest mean that any labels of the unjudged hits could give",
    "judge-calibrated estimate": "with the judge's labels corrected by those of people; only metrics to which "
    "every hit adds for itself",
}


class LabelHealthSection(ReportSection):
    """How many gold items are still there; a warning where this looks like another chunking."""

    name = "label_health"
    title = "Label health"
    order = 78

    def blocks(self, result: Result) -> list[Block]:
        found: LabelHealth | None = result.analyses.found.get("label_health")
        if found is None:
            return []
        documents = "documents" if not found.unclear else "other ids" if found.chunks.count else "ids"
        kinds = {"chunks": found.chunks, documents: found.documents, "passages": found.passages}
        named = {name: labels for name, labels in kinds.items() if labels.count}
        if found.against == "corpus" and not found.changed and all(n.there == n.count for n in named.values()):
            counts = " and ".join(f"{labels.count:,} {name}" for name, labels in named.items())
            return [Text(f"Everything that the gold set names is in the corpus ({counts}).")]
        return [_health_table(found, named), *_health_warnings(found)]


def _health_table(found: LabelHealth, named: dict[str, LabelCount]) -> Table:
    corpus = found.against == "corpus"
    columns = [
        Column("the gold set names"),
        Column("count", "count"),
        Column("in the corpus" if corpus else "returned", "count"),
        Column("share"),
        Column("only its document", "count"),
        Column("not there, for example" if corpus else "never, for example"),
    ]
    return Table(columns, [_row(name, labels) for name, labels in named.items()], None if corpus else _ONLY_RETURNED)


def _row(name: str, labels: LabelCount) -> list[Cell]:
    moved = labels.moved if name == "chunks" else None
    examples = listed([shorten(example, 30) for example in labels.examples[:2]])
    return [name, labels.count, labels.there, f"{labels.there / labels.count:.0%}", moved, examples or None]


def _health_warnings(found: LabelHealth) -> list[Block]:
    blocks: list[Block] = []
    if found.changed:
        such = listed([shorten(example, 40) for example in found.changed_examples])
        blocks.append(Text(f"{found.changed:,} chunks do not hold the quote beside their id ({such}).", "warning"))
    if found.rechunked:
        blocks.append(Text(_looks(found), "warning"))
        blocks.append(Text(_ADVICE + _quoted(found)))
    gone = _gone(found)
    if gone and found.against == "corpus":
        named = "are" if found.unclear else "name documents that are"
        what = f"{gone:,} gold items {named} not in the corpus: were they removed, or renamed?"
        blocks.append(Text(what, "warning"))
    return blocks


def _gone(found: LabelHealth) -> int:
    chunks, documents = found.chunks, found.documents
    return chunks.count - chunks.there - chunks.moved + documents.count - documents.there


def _looks(found: LabelHealth) -> str:
    moved = found.chunks.moved + found.changed
    how = "are gone or have another text" if found.against == "corpus" else "were never returned"
    return (
        f"Looks like re-chunking: {moved:,} of {found.chunks.count:,} chunks that the gold set names {how}, while "
        "their documents are there. Scores by chunk say little of the retriever then; scores by document still do."
    )


def _quoted(found: LabelHealth) -> str:
    if not found.quoted:
        return ""
    return f" {found.quoted:,} of these labels have a quote or offsets already: replace their chunk_id by doc_id."


class BoundsSection(ReportSection):
    """Gold only, gold plus judge, strict bounds, judge-calibrated estimate; whichever were asked for."""

    name = "bounds"
    title = "What unjudged hits leave open"
    order = 15

    def blocks(self, result: Result) -> list[Block]:
        found: BoundsFound | None = result.analyses.found.get("bounds")
        return (
            []
            if found is None
            else [
                Text(_bounds_said(found)),
                _bounds_table(found),
                Text(_bounds_names(found), "note"),
                *_bounds_notes(found),
            ]
        )


def _bounds_said(found: BoundsFound) -> str:
    share = f" ({found.unjudged / found.hits:.1%})" if found.hits else ""
    labelled = f" The judge labelled {found.by_judge:,} of these" if found.judge_labels else ""
    if found.by_people:
        labelled += f", people {found.by_people:,}"
    return (
        f"Of {found.hits:,} hits in the top {found.k} the gold does not know {found.unjudged:,}{share}."
        f"{labelled}{'.' if labelled else ''}"
    )


def _bounds_table(found: BoundsFound) -> Table:
    kinds = [kind for kind in _KINDS if any(row.kind == kind for row in found.rows)]
    by_name = {(row.metric, row.kind): row for row in found.rows}
    metrics = dict.fromkeys(row.metric for row in found.rows)
    rows = [[metric, *(_cell(by_name.get((metric, kind))) for kind in kinds)] for metric in metrics]
    return Table([Column("metric"), *map(Column, kinds)], rows)


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
    return "; ".join(said) + (f" ({methods[0]})." if methods else ".")


def _bounds_notes(found: BoundsFound) -> list[Block]:
    notes = []
    if found.judge_labels and found.unlabelled:
        notes.append(
            f"Hits of the top {found.k} that nobody labelled, which count as irrelevant: {found.unlabelled:,}."
        )
    if found.overruled:
        notes.append(f"Labels of the judge that contradict the gold set, which decides: {found.overruled:,}.")
    if found.unknown:
        notes.append(f"Labels of queries that the gold set does not have, left out: {found.unknown:,}.")
    return [Text(note, "warning") for note in notes]
