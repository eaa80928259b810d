"""What a pool and a labels file share: a query and one thing that was found for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from karat.errors import InputError
from karat.files.atomic_write import write_whole
from karat.formats.base import Source
from karat.formats.records import RecordDecoder, read_batches

Probability = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Key(NamedTuple):
    """Names a pair; equal for all who speak of the same one."""

    query: str
    item: str
    is_document: bool = False


class Pair(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A query and a chunk, or a document where only `doc_id` is given."""

    query_id: str | int
    chunk_id: str | int | None = None
    doc_id: str | int | None = None

    @property
    def key(self) -> Key:
        if self.chunk_id is None:
            return Key(str(self.query_id), str(self.doc_id), True)
        return Key(str(self.query_id), str(self.chunk_id))


class SourcePlace(NamedTuple):
    """Where something was read."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def error(self, what: str, **about: str | float | None) -> InputError:
        return InputError(what, file=self.file, line=self.line, **about)  # type: ignore[arg-type]


P = TypeVar("P", bound=Pair)


def read_pairs(path: str, kind: type[P]) -> list[tuple[P, SourcePlace]]:
    """Every line of a JSONL file (or entry of a JSON list), with its place. Unknown fields are passed over."""
    source = Source(path)
    source.refuse_nonsense()
    found = []
    for entries, lines in read_batches(source, RecordDecoder(kind)):
        for entry, line in zip(entries, lines, strict=True):
            place = SourcePlace(source.label, line)
            if entry.chunk_id is None and entry.doc_id is None:
                raise place.error(
                    "the field is missing",
                    code="missing-field",
                    field="chunk_id",
                    hint="or doc_id, for a whole document",
                )
            found.append((entry, place))
    return found


def write_pairs(path: str, pairs: list[P]) -> None:
    write_whole(path, as_lines(pairs))


def as_lines(pairs: Iterable[Pair]) -> bytes:
    return b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs)
