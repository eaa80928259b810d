"""Reads a corpus: chunks in JSONL, or a folder of text or Markdown files, cut into chunks by number of words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.errors import ConfigError, InputError
from karat.formats.base import IR_DATASETS, Source, SourcePlace, no_gc
from karat.formats.field_map import FieldMap
from karat.formats.hf_folder import tables_in
from karat.formats.layout import NAMES
from karat.formats.map_guess import suggested_map
from karat.formats.mapped import container, mapped_records, sample, suggestion
from karat.formats.records import RecordDecoder, decode_record, read_records

SUFFIXES = (".md", ".markdown", ".txt", ".text", ".rst")
# A word, or one character of a script without spaces.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff"
_TOKEN = rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+"
_BEIR = "corpus.jsonl"
_NOT_IN_CORPUS = {name for role in ("query_id", "grade", "score", "rank") for name in NAMES[role]} - {"topic"} | {
    "question"
}
_HEADING = r"(?m)^#{1,6}[ \t]+(.+?)[ \t]*#*$"


class Chunker(msgspec.Struct, frozen=True):
    """How texts are cut: `tokens` words per chunk, of which `overlap` repeat the end of the previous chunk."""

    tokens: int = 200
    overlap: int = 40

    def check(self) -> None:
        if self.tokens < 1 or not 0 <= self.overlap < self.tokens:
            expected = "at least 1 token, and an overlap of at least 0 and less than that"
            got = f"{self.tokens} tokens, overlap {self.overlap}"
            raise ConfigError("invalid chunk size or overlap", code="bad-value", expected=expected, got=got)

    def settings(self) -> dict[str, Any]:
        return {"algo": "words", "tokens": self.tokens, "overlap": self.overlap}

    @classmethod
    def logged(cls, settings: Any) -> Chunker | None:
        """The chunker that a run log names by its settings; None where the log names another chunker, or none."""
        if not isinstance(settings, dict):
            return None
        tokens, overlap = settings.get("tokens"), settings.get("overlap")
        if type(tokens) is not int or type(overlap) is not int:
            return None
        found = cls(tokens, overlap)
        return found if found.settings() == settings else None

    def cut(self, text: str) -> Iterator[tuple[int, int]]:
        """Where chunks start and end in the text.

        >>> text = "one two three four five"
        >>> [text[a:b] for a, b in Chunker(tokens=3, overlap=1).cut(text)]
        ['one two three', 'three four five']
        """
        places = [found.span() for found in re.finditer(_TOKEN, text)]
        for start in range(0, max(len(places) - self.overlap, min(len(places), 1)), self.tokens - self.overlap):
            last = places[min(start + self.tokens, len(places)) - 1]
            yield places[start][0], last[1]


class CorpusEntry(msgspec.Struct, kw_only=True, gc=False):
    """One chunk or document; other fields (doc_id, version, language …) are kept."""

    id: str | int | None = None
    chunk_id: str | int | None = None
    _id: str | int | None = None
    title: str | None = None
    text: str = ""


def is_text_folder(path: str | PathLike[str]) -> bool:
    """Whether a corpus is a folder of texts that must be cut."""
    folder = Path(path)
    return folder.is_dir() and not (folder / _BEIR).is_file() and not tables_in(folder, "corpus")


def is_corpus(source: Source, columns: Any = None) -> bool:
    """Whether a file that is not recognised as a run or gold set has ids with texts, and nothing that queries, hits or
    labels have. Queries of BEIR, `_id` and `text`, are no corpus."""
    records = sample(source)
    fields = FieldMap.of(columns)
    found = None if fields is None else fields.fitting("corpus", records, reads=False)
    first = next(iter(records), {})
    first = first if found is None else found.record(first)
    text = first.get("text")
    if not isinstance(text, str) or " " not in text.strip() or text.rstrip().endswith("?"):
        return False
    named = {"chunk_id", "id", "doc_id"} & first.keys() or {"_id", "title"} <= first.keys()
    others = {name: value for name, value in first.items() if name not in ("tags", "metadata")}
    maps = [suggested_map(kind, others) or "" for kind in ("run", "gold")]
    of_others = any(re.search(r"(^|,)(topk|gold|evidence|answer)=", found) for found in maps)
    return bool(named) and not of_others and first.keys().isdisjoint(_NOT_IN_CORPUS)


def read_corpus(path: str | PathLike[str], chunker: Chunker | None = None, *, columns: Any = None) -> Corpus:
    """Read JSONL, JSON, YAML, CSV, TSV or Parquet (`id` or `chunk_id` or `_id`, `title`, `text`, …), a BEIR folder with
    corpus.jsonl, a Hugging Face folder with a corpus, a dataset by name (`ir_datasets:NAME`), or a folder of text or
    Markdown files, which `chunker` cuts into chunks. `Corpora` cuts a folder as a run log says. `columns`: a field map,
    as in `read_run`."""
    if str(path).startswith(IR_DATASETS):
        from karat.formats.ir_datasets import fetched

        path = fetched(str(path), "corpus")
    source = Source(Path(path))
    if is_text_folder(path):
        return _read_text_folder(source.path, source.label, chunker or Chunker())
    if source.is_folder and (source.path / _BEIR).is_file():
        source = Source(source.path / _BEIR)
    if chunker is not None:
        what, hint = "this corpus is already in chunks", "only a folder of text files can be cut"
        raise ConfigError(what, code="chunked-already", file=source.label, hint=hint)
    source.refuse_nonsense()
    decoder = RecordDecoder(CorpusEntry)
    corpus = Corpus(source.label, [], [], [])
    first: dict[str, int | None] = {}
    with no_gc():
        for entry, place in _entries(source, decoder, FieldMap.of(columns, strict=True)):
            _add(corpus, entry, decoder.extras(entry), place, first)
    for column in corpus.fields.values():
        column += [None] * (len(corpus) - len(column))
    return corpus


def _entries(
    source: Source, decoder: RecordDecoder[CorpusEntry], fields: FieldMap | None
) -> Iterator[tuple[CorpusEntry, SourcePlace]]:
    if source.is_folder:
        from karat.formats.mteb import corpus_rows

        for record, place in corpus_rows(source.path):
            yield decode_record(decoder, record, place.file, place.line), place
        return
    if fields is None and container(source) != "table":
        yield from read_records(source, decoder)
        return
    for line, record in mapped_records(source, fields, "corpus"):
        given = {name: value for name, value in record.items() if value is not None}
        yield decode_record(decoder, given, source.label, line), SourcePlace(source.label, line)


def _add(
    corpus: Corpus, entry: CorpusEntry, extras: dict[str, Any], place: SourcePlace, first: dict[str, int | None]
) -> None:
    found = next((i for i in (entry.chunk_id, entry.id, entry._id, extras.get("doc_id")) if i is not None), None)
    if found is None or found == "":
        what, code = ("the field is missing", "missing-field") if found is None else ("the id is empty", "empty-id")
        hint = suggestion(Source(place.file), "corpus")
        if hint is None or "chunk_id=" not in hint:
            hint = "every line of a corpus needs a unique id, as used by hits and labels: chunk_id, id or _id"
        raise place.error(what, code=code, field="id", hint=hint)
    if str(found) in first:
        what = f"duplicate id (first on line {first[str(found)]})"
        raise place.error(what, code="duplicate-id", field="id", got=found)
    first[str(found)] = place.line
    language = extras.get("language")
    if language is not None and not isinstance(language, str):
        expected = "a code such as en or pt-BR"
        raise place.error("wrong type", code="wrong-type", field="language", expected=expected, got=language)
    for name, value in extras.items():
        column = corpus.fields.setdefault(name, [])
        column += [None] * (len(corpus.ids) - len(column))
        column.append(value)
    corpus.ids.append(str(found))
    corpus.titles.append(entry.title or "")
    corpus.texts.append(entry.text)


def _read_text_folder(folder: Path, label: str, chunker: Chunker) -> Corpus:
    """A chunk is `path#start-end`, its document is the file, and its place is that in the file's text. Other chunkings
    have other ids, so they are never mixed up."""
    chunker.check()
    files = sorted(path for path in folder.rglob("*") if _is_text(path, folder))
    if not files:
        expected = f"corpus.jsonl, or files such as {', '.join(SUFFIXES)}"
        raise InputError("no corpus in the folder", code="no-corpus", file=label, expected=expected)
    corpus = Corpus(label, [], [], [], {name: [] for name in ("doc_id", "source", "start", "end", "chunker")})
    for file in files:
        document = file.relative_to(folder).as_posix().replace("#", "%23")  # the # separates a chunk from its document
        text = _text(file)
        heading = re.search(_HEADING, text)
        for start, end in chunker.cut(text):
            values = (document, file.name, start, end, chunker.settings())
            for column, value in zip(corpus.fields.values(), values, strict=True):
                column.append(value)
            corpus.ids.append(f"{document}#{start}-{end}")
            corpus.titles.append(heading[1] if heading else file.stem)
            corpus.texts.append(text[start:end])
    if not len(corpus):
        raise InputError("all files of the folder are empty", code="no-corpus", file=label)
    return corpus


def _is_text(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and path.is_file() and not hidden


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "the file is not UTF-8 text", code="not-utf8", file=str(file), hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", code="unreadable", file=str(file)) from error
