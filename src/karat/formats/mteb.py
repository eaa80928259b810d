"""Folders of Hugging Face datasets for retrieval (MTEB): a corpus, queries and qrels, as Parquet or JSONL."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from karat.data.attributes import is_tag
from karat.data.gold import Gold
from karat.data.gold_builder import GoldBuilder
from karat.errors import InputError
from karat.formats.base import ReadOptions, Source, SourcePlace
from karat.formats.dataset import dataset_of
from karat.formats.hf_folder import tables_in
from karat.formats.mapped import plain_records
from karat.formats.table_file import Scan
from karat.formats.tool_parts import first_of

_ROWS = 1 << 14  # at a time
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_QUERY = ("query-id", "query_id", "_id", "id", "qid")
_DOCUMENT = ("corpus-id", "corpus_id", "doc_id", "docid")
_GRADE = ("score", "relevance", "label", "grade")
_TEXT = ("text", "query", "question")
_ID = ("_id", "id", "corpus-id", "corpus_id", "doc_id", "docid")


def read_mteb(source: Source, options: ReadOptions) -> Gold:
    splits = _splits(source.path, "qrels")
    files = splits.get(options.split)
    if files is None:
        first = next(iter(splits))
        hint = f"available: {', '.join(splits)}; for example --split {first}"
        what = f"no qrels for the split {options.split!r}"
        raise InputError(what, code="unknown-split", file=source.label, hint=hint)
    judged: dict[str, tuple[list[str], list[float]]] = {}
    graded = False
    for row, place in _rows(files):
        query, document = _required(_QUERY, row, place), _required(_DOCUMENT, row, place)
        grade = first_of(_GRADE, row)
        graded = graded or grade is not None
        ids, grades = judged.setdefault(query, ([], []))
        ids.append(document)
        grades.append(_number(grade, place))
    texts = {_required(_QUERY, row, place): row for row, place in _rows(_queries(source.path, options.split))}
    builder = GoldBuilder(source.label)
    for query, (ids, grades) in judged.items():
        builder.add(query, ids, grades, graded=graded)
        said = texts.get(query, {})
        text = first_of(_TEXT, said)
        if text is not None:
            builder.say("query", str(text))
        for name, value in said.items():
            if name not in (*_QUERY, *_TEXT) and value is not None and is_tag(name, value):
                builder.say(name, value, tag=True)
    dataset = dataset_of(source)
    dataset.hash = _hash_of(files)
    return builder.build(dataset)


def _splits(folder: Path, role: str) -> dict[str, list[Path]]:
    """Split → its files. A dataset with several subsets has their names before those of the splits: `de/test`."""
    found: dict[str, list[Path]] = {}
    for path in tables_in(folder, role):
        subset = path.parent.name.removesuffix(role).rstrip("-") if path.parent.name.endswith(f"-{role}") else ""
        split = _SHARD.sub("", path.stem)
        split = "test" if split == role else split.removeprefix(f"{role}-")
        found.setdefault(f"{subset}/{split}" if subset else split, []).append(path)
    return found


def _queries(folder: Path, split: str) -> list[Path]:
    """The queries of a split, or all of them: most datasets have one file for all splits."""
    splits = _splits(folder, "queries")
    subset = f"{split.rpartition('/')[0]}/" if "/" in split else ""
    own = splits.get(split)
    return own or [path for name, files in splits.items() if name.startswith(subset) for path in files]


def _rows(files: list[Path]) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    for file in files:
        source = Source(file)
        if not source.is_parquet:
            source.refuse_nonsense()
            yield from ((row, SourcePlace(str(file), line)) for line, row in plain_records(source))
            continue
        scan = Scan(str(file))
        names = {name: name for name in scan.schema()}
        for at in range(0, scan.height(), _ROWS):
            rows = scan.rows(names, at, _ROWS).iter_rows(named=True)
            yield from ((row, SourcePlace(str(file), None)) for row in rows)


def _required(names: tuple[str, ...], row: Mapping[str, Any], place: SourcePlace) -> str:
    found = first_of(names, row)
    if found is None or isinstance(found, (bool, float, list, dict)):
        expected, got = f"one of the columns {', '.join(names)}", ", ".join(map(str, row))
        raise place.error("a row without an id", code="missing-column", field=names[0], expected=expected, got=got)
    return str(found)


def _number(grade: Any, place: SourcePlace) -> float:
    try:
        return 1.0 if grade is None else float(grade)
    except (TypeError, ValueError):
        raise place.error("not a grade", code="bad-value", field="score", expected="a number", got=grade) from None


def _hash_of(files: list[Path]) -> str:
    each = [Source(file).content_hash() for file in files]
    return each[0] if len(each) == 1 else "sha256:" + hashlib.sha256("".join(each).encode()).hexdigest()[:16]


def corpus_rows(folder: Path) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    """The documents of a folder, under Karat's names."""
    for row, place in _rows(tables_in(folder, "corpus")):
        others = {name: value for name, value in row.items() if name not in _ID and value is not None}
        yield {"id": _required(_ID, row, place), **others}, place
