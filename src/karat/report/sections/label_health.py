"""Whether the gold set still speaks of what is searched."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.label_health import LabelCount, LabelHealth
from karat.results.numbers import listed
from karat.results.result import Result

_ADVICE = (
    "Label passages instead of chunks: {doc_id, quote} or {doc_id, start, end} is looked for in every chunking anew "
    "(docs/rechunking.md)."
)
_ONLY_RETURNED = "without a corpus (--corpus) only what the run returned for some query is known to be there."


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
        return [_table(found, named), *_warnings(found)]


def _table(found: LabelHealth, named: dict[str, LabelCount]) -> Table:
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


def _warnings(found: LabelHealth) -> list[Block]:
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
