"""A BEIR folder: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."""

from __future__ import annotations

from typing import Any

import msgspec

from karat.data.gold import Gold, GoldBuilder
from karat.errors import InputError
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.dataset import dataset_of
from karat.formats.records import RecordDecoder, read_batches
from karat.formats.trec import as_number, as_text, is_number


class BeirQuery(msgspec.Struct, kw_only=True):
    """One line of queries.jsonl; single values of its metadata become tags, and `no_answer: true` counts."""

    _id: str | int
    text: str = ""
    metadata: dict[str, Any] | None = None


class BeirFormat(Format):
    """A folder with queries.jsonl and qrels/test.tsv (`--split` names another)."""

    name = "beir"
    kinds = frozenset({"gold"})
    order = 5

    def recognises(self, source: Source, kind: Kind) -> bool:
        return source.is_folder and (source.path / "qrels").is_dir()

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        qrels = source.path / "qrels" / f"{options.split}.tsv"
        splits = sorted((source.path / "qrels").glob("*.tsv"))
        if not qrels.is_file():
            there = ", ".join(p.stem for p in splits) or "none"
            raise InputError(
                f"no qrels for the split {options.split!r}",
                code="unknown-split",
                file=str(qrels),
                hint=f"there are: {there}",
            )
        judged = _read_qrels(Source(qrels))
        queries = source.path / "queries.jsonl"
        known = _read_queries(Source(queries)) if queries.is_file() else {}
        # A query that no split judges is kept: it is not there by accident in sets with no-answer queries.
        unjudged = known.keys() - judged
        for other in splits if unjudged else ():
            unjudged -= _queries_of(Source(other))
        builder = GoldBuilder(source.label)
        for query in [*judged, *(q for q in known if q in unjudged)]:
            ids, grades = judged.get(query, ([], []))
            record = known.get(query)
            metadata = {} if record is None else record.metadata or {}
            builder.add(query, ids, grades, no_answer=_has_no_answer(metadata, grades, query, str(queries)))
            if record is not None:
                builder.say("query", record.text)
                for name, value in metadata.items():
                    value = value[0] if isinstance(value, list) and len(value) == 1 else value
                    builder.say(name, value, tag=not isinstance(value, (list, dict)))
        dataset = dataset_of(source)
        dataset.hash = Source(qrels).content_hash()
        return builder.build(dataset)


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
                raise InputError(
                    "not a judgement",
                    code="bad-value",
                    file=source.label,
                    line=line,
                    expected="query-id, corpus-id and a number, parted by tabs",
                    got=text,
                )
            ids, grades = judged.setdefault(parts[0].decode(), ([], []))
            ids.append(parts[1].decode())
            grades.append(as_number(parts[2], source.label, line, "score"))
    return judged


def _queries_of(source: Source) -> set[str]:
    """The queries that another split judges, whatever else is in it."""
    with source.open() as stream:
        return {raw.partition(b"\t")[0].decode("utf-8", "replace") for raw in stream}


def _read_queries(source: Source) -> dict[str, BeirQuery]:
    decoder = RecordDecoder(BeirQuery)
    found: dict[str, BeirQuery] = {}
    for records, _ in read_batches(source, decoder):
        found.update((str(record._id), record) for record in records)
    return found
