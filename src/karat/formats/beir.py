"""A BEIR folder: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from karat.data.attributes import is_tag
from karat.data.gold import Gold
from karat.data.gold_builder import GoldBuilder
from karat.errors import InputError
from karat.formats.base import ReadOptions, Source, SourcePlace
from karat.formats.dataset import dataset_of
from karat.formats.records import RecordDecoder, read_records
from karat.formats.samples import cutoff_of
from karat.formats.trec_rows import as_number, as_text, is_number

_USUAL = "test"


class BeirQuery(msgspec.Struct, kw_only=True):
    """One line of queries.jsonl; single values of its metadata become tags, and `no_answer: true` counts."""

    _id: str | int
    text: str = ""
    metadata: dict[str, Any] | None = None


def read_beir(source: Source, options: ReadOptions) -> Gold:
    qrels = source.path / "qrels" / f"{options.split}.tsv"
    splits = sorted((source.path / "qrels").glob("*.tsv"))
    if not qrels.is_file():
        hint = "available: " + (", ".join(p.stem for p in splits) or "none")
        what = f"no qrels for the split {options.split!r}"
        raise InputError(what, code="unknown-split", file=str(qrels), hint=hint)
    judged = _read_qrels(Source(qrels))
    queries = source.path / "queries.jsonl"
    lines = read_records(Source(queries), RecordDecoder(BeirQuery)) if queries.is_file() else ()
    known = {str(record._id): (record, place) for record, place in lines}
    # Queries that no split judges are kept: sets with no-answer queries have them on purpose. They belong
    # to `test`, or to the only split.
    unjudged = known.keys() - judged if options.split == _USUAL or len(splits) == 1 else set()
    for other in splits if unjudged else ():
        unjudged -= _queries_of(Source(other))
    builder = GoldBuilder(source.label)
    for query in [*judged, *(q for q in known if q in unjudged)]:
        ids, grades = judged.get(query, ([], []))
        if query not in known:
            builder.add(query, ids, grades)
            continue
        record, place = known[query]
        metadata = record.metadata or {}
        no_answer = _has_no_answer(metadata, grades, query, str(queries))
        builder.add(query, ids, grades, k=cutoff_of(metadata, place), no_answer=no_answer)
        builder.say("query", record.text)
        for name, value in metadata.items():
            if name != "k":
                tag = is_tag(name, value)
                single = tag and isinstance(value, list) and len(value) == 1
                builder.say(name, value[0] if single else value, tag=tag)
    dataset = dataset_of(source)
    dataset.hash = Source(qrels).content_hash()
    return builder.build(dataset)


def folder_of(queries: Path) -> Path | None:
    """The BEIR folder that this queries.jsonl belongs to."""
    return queries.parent if queries.name == "queries.jsonl" and (queries.parent / "qrels").is_dir() else None


def _has_no_answer(metadata: dict[str, Any], grades: list[float], query: str, label: str) -> bool:
    if metadata.get("no_answer") is not True:
        return False
    if any(grade > 0 for grade in grades):
        raise InputError(
            "no_answer and relevant gold contradict each other", code="contradiction", file=label, query=query
        )
    return True


def _read_qrels(source: Source) -> dict[str, tuple[list[str], list[float]]]:
    source.refuse_nonsense()
    judged: dict[str, tuple[list[str], list[float]]] = {}
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            parts = raw.rstrip(b"\r\n").split(b"\t")
            if not raw.strip() or (line == 1 and not is_number(parts[-1])):
                continue
            text = as_text(raw, source.label, line)
            if len(parts) != 3:
                expected = "query-id, corpus-id and a number, separated by tabs"
                raise SourcePlace(source.label, line).error(
                    "not a judgement", code="bad-value", expected=expected, got=text
                )
            ids, grades = judged.setdefault(parts[0].decode(), ([], []))
            ids.append(parts[1].decode())
            grades.append(as_number(parts[2], source.label, line, "score"))
    return judged


def _queries_of(source: Source) -> set[str]:
    """The queries that another split judges, whatever else it contains."""
    with source.open() as stream:
        return {raw.partition(b"\t")[0].decode("utf-8", "replace") for raw in stream}
