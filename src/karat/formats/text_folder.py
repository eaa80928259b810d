"""A folder of text or Markdown files as a corpus: cut into chunks of so many words, each overlapping the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from karat.data.corpus import Corpus
from karat.errors import ConfigError, InputError

SUFFIXES = (".md", ".markdown", ".txt", ".text", ".rst")
# A word, or one character of a script that is written without spaces.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff"
_TOKEN = rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+"
_HEADING = r"(?m)^#{1,6}[ \t]+(.+?)[ \t]*#*$"


class Chunker(msgspec.Struct, frozen=True):
    """How texts are cut: `tokens` words a chunk, of which `overlap` stood at the end of the chunk before."""

    tokens: int = 200
    overlap: int = 40

    def check(self) -> None:
        if self.tokens < 1 or not 0 <= self.overlap < self.tokens:
            raise ConfigError(
                "chunks cannot be cut like this",
                code="bad-value",
                expected="1 token or more, and an overlap from 0 to below that",
                got=f"{self.tokens} tokens, overlap {self.overlap}",
            )

    def settings(self) -> dict[str, Any]:
        return {"algo": "words", "tokens": self.tokens, "overlap": self.overlap}

    @classmethod
    def logged(cls, settings: Any) -> Chunker | None:
        """The one that a run log names by its settings; None where the log speaks of another chunker, or of none."""
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


def read_text_folder(folder: Path, label: str, chunker: Chunker) -> Corpus:
    """A chunk is `path#start-end`, its document the file, its place that in the file's text: chunks that were cut in
    another way have other ids, so that nothing takes one for the other."""
    chunker.check()
    files = sorted(path for path in folder.rglob("*") if _is_text(path, folder))
    if not files:
        expected = f"corpus.jsonl, or files such as {', '.join(SUFFIXES)}"
        raise InputError("no corpus in the folder", code="no-corpus", file=label, expected=expected)
    corpus = Corpus(label, [], [], [], {name: [] for name in ("doc_id", "source", "start", "end", "chunker")})
    for file in files:
        document = file.relative_to(folder).as_posix().replace("#", "%23")  # the # parts a chunk from its document
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
        raise InputError("every file of the folder is empty", code="no-corpus", file=label)
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
        raise InputError(f"cannot be read: {error.strerror}", code="unreadable", file=str(file)) from error
