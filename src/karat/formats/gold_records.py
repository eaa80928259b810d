"""An entry of a gold file, as written and as read."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
import re
from typing import Annotated, Any

import msgspec

from karat.data.entities import Entity

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
TARGET_FIELD = re.compile(r"(source|target|expected|relevant|correct|gold)(_\w+)?_id|target|targets|(chunk|doc)_id")


class GoldItem(msgspec.Struct, gc=False):
    """One gold item with its grade: a chunk, a document, or a passage of a document (`doc_id` with `quote`, or with
    `start` and `end`), which is located in the chunks of the run. Next to a `chunk_id`, a passage is only a note."""

    chunk_id: str | int | None = None
    doc_id: str | int | None = None
    id: str | int | None = None  # a chunk or a document, as a bare id
    grade: float | msgspec.UnsetType = msgspec.UNSET  # not given: 1; with labels, their highest grade
    quote: str | None = None
    start: Offset | None = None  # of the passage's first character in the document, counted from 0
    end: Offset | None = None  # of the character after its last


class GoldEntry(msgspec.Struct, kw_only=True, gc=False):
    """One query with what should be found for it. Any other scalar field is a tag."""

    query_id: str | int | None = None
    id: str | int | None = None
    query: str | None = None
    gold: list[str | int | GoldItem] | dict[str, float] | None = None
    evidence: list[str] | str | None = None
    answer: str | None = None
    answer_span: str | None = None
    negatives: list[str | int] | None = None  # judged, with grade 0
    forbidden: list[str | int] | None = None  # ids that the query must not get
    hops: list[list[str | int]] | None = None  # of each list one id is needed
    as_of: str | int | None = None
    no_answer: bool | None = None
    conversation_id: str | int | None = None
    variant_of: str | int | None = None  # the query that this one rephrases; what is not given is taken from it
    tier: str | int | None = None
    source: str | list[str] | None = None
    entities: list[str | int | Entity | None] | None = None
    k: Annotated[int, msgspec.Meta(le=2**53)] | None = None
    tags: dict[str, Any] | list[str | int | float | bool] | None = None
