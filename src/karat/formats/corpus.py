"""Reads a corpus."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.errors import ConfigError, InputError
from karat.formats.base import Source
from karat.formats.records import RecordDecoder, no_gc, read_batches
from karat.formats.text_folder import Chunker, read_text_folder


class CorpusEntry(msgspec.Struct, kw_only=True, gc=False):
    """One chunk or document; other fields (doc_id, version, language …) are kept."""

    id: str | int | None = None
    chunk_id: str | int | None = None
    _id: str | int | None = None
    title: str | None = None
    text: str = ""


def read_corpus(path: str | PathLike[str], chunker: Chunker | None = None, *, logged: Any = None) -> Corpus:
    """JSONL (`id` or `chunk_id` or `_id`, `title`, `text`, …), a BEIR folder with corpus.jsonl, or a folder of text or
    Markdown files, which `chunker` cuts into chunks; `logged`: what a run log says of its chunker, so that the chunks
    are those of its hits."""
    source = Source(Path(path))
    if source.is_folder:
        inside = source.path / "corpus.jsonl"
        if not inside.is_file():
            return read_text_folder(source.path, source.label, chunker or Chunker.logged(logged) or Chunker())
        source = Source(inside)
    if chunker is not None:
        raise ConfigError(
            "this corpus is in chunks already",
            code="chunked-already",
            file=source.label,
            hint="only a folder of text files can be cut",
        )
    source.refuse_nonsense()
    decoder = RecordDecoder(CorpusEntry)
    corpus = Corpus(source.label, [], [], [])
    first: dict[str, int | None] = {}
    with no_gc():
        for entries, lines in read_batches(source, decoder):
            for entry, line in zip(entries, lines, strict=True):
                _add(corpus, entry, decoder.extras(entry), line, first)
    for column in corpus.fields.values():
        column += [None] * (len(corpus) - len(column))
    return corpus


def _add(corpus: Corpus, entry: CorpusEntry, extras: dict[str, Any], line: int | None, first: dict[str, Any]) -> None:
    found = next((i for i in (entry.chunk_id, entry.id, entry._id, extras.get("doc_id")) if i is not None), None)
    if found is None or found == "":
        what = "the field is missing" if found is None else "the id is empty"
        hint = "every line of a corpus needs an id of its own, which hits and labels name: chunk_id, id or _id"
        code = "missing-field" if found is None else "empty-id"
        raise InputError(what, code=code, file=corpus.label, line=line, field="id", hint=hint)
    if str(found) in first:
        raise InputError(
            f"this id stands twice (line {first[str(found)]})",
            code="duplicate-id",
            file=corpus.label,
            line=line,
            field="id",
            got=found,
        )
    first[str(found)] = line
    for name, value in extras.items():
        column = corpus.fields.setdefault(name, [])
        column += [None] * (len(corpus.ids) - len(column))
        column.append(value)
    corpus.ids.append(str(found))
    corpus.titles.append(entry.title or "")
    corpus.texts.append(entry.text)
