"""What is asked: the queries of a gold set, without their gold."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from karat.data.gold import Gold
from karat.data.question import Question
from karat.errors import InputError
from karat.formats.base import Source
from karat.formats.read import read_gold
from karat.formats.records import RecordDecoder, read_batches

_TOLD = ("as_of", "conversation_id")  # a system knows these in production; answers and evidence it does not


class BareQuery(msgspec.Struct, kw_only=True):
    """A query that nobody has judged yet: `query_id` and `query`, or `_id` and `text` as BEIR has them."""

    query_id: str | int | None = None
    _id: str | int | None = None
    query: str | None = None
    text: str | None = None
    tags: dict[str, Any] = {}


def read_questions(
    queries: Any, *, format: str | None = None, target: str | None = None, split: str = "test"
) -> list[Question]:
    """The questions of a gold set in any form, or of a file with bare queries."""
    if isinstance(queries, (str, PathLike)) and is_bare(queries, format=format, target=target, split=split):
        return _bare(Source(Path(queries)))
    gold = read_gold(queries, format=format, target=target, split=split)
    return [_question(gold, at) for at in range(len(gold.queries))]


_BARE = {"query_id", "query", "_id", "text", "tags", "metadata"}


def is_bare(
    path: str | PathLike[str], *, format: str | None = None, target: str | None = None, split: str = "test"
) -> bool:
    """Whether a file holds queries and nothing that says what should be found."""
    source = Source(Path(path))
    first = None if source.is_folder else source.first_object
    return first is not None and format is None and target is None and set(first) <= _BARE


def _question(gold: Gold, at: int) -> Question:
    text = gold.text(at)
    if text is None or not text.strip():
        raise _without_text(gold.label, gold.queries[at])
    columns = {**gold.tags, **{name: gold.fields[name] for name in _TOLD if name in gold.fields}}
    facts = {name: column[at] for name, column in columns.items() if column[at] is not None}
    return Question(gold.queries[at], text, facts)


def _bare(source: Source) -> list[Question]:
    source.refuse_nonsense()
    found: dict[str, Question] = {}
    for records, lines in read_batches(source, RecordDecoder(BareQuery)):
        for record, line in zip(records, lines, strict=True):
            text = record.query or record.text
            named = record.query_id if record.query_id is not None else record._id
            query = str(text if named is None else named)
            if text is None or not text.strip():
                raise _without_text(source.label, query, line)
            if query in found:
                raise InputError(
                    "this query stands twice", code="duplicate-query", file=source.label, line=line, query=query
                )
            found[query] = Question(query, text, record.tags)
    return list(found.values())


def _without_text(label: str, query: str, line: int | None = None) -> InputError:
    return InputError(
        "a query without text cannot be asked", code="missing-text", file=label, line=line, query=query, field="query"
    )
