"""A document and its chunks: where a passage is, and which chunks hold it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from karat.data.ids import Ints
from karat.data.passages.passage import CHUNK, PIECE, Passage, Stretch
from karat.matching import cover

_WORD = re.compile(r"\S+")
_SPARSE = 10  # a document is not rebuilt from its chunks if less than a tenth of it is known


def holds(shared: Any, passage: int, chunk: Any) -> Any:
    """Whether a chunk with this many characters of a passage holds it: all of them, half of the passage (8 or more),
    or half of the chunk (20 or more). For numbers and for arrays.

    >>> holds(60, 100, 500), holds(40, 100, 500), holds(100, 800, 150), holds(15, 800, 15)
    (True, False, True, False)
    """
    half_of_it = (shared >= PIECE) & (2 * shared >= passage)
    half_of_chunk = (shared >= CHUNK) & (2 * shared >= chunk)
    return (shared >= passage) | half_of_it | half_of_chunk


def fold(text: str) -> str:
    """Lower case, character by character, so that offsets stay valid. Only the Turkish İ would become two."""
    return _one_by_one(text).lower()


def normalise(text: str) -> str:
    """Normalises as for evidence, but character by character.

    >>> normalise(" Refunds  take\\n5 days in \u0130zmir ")
    'refunds take 5 days in izmir'
    """
    return cover.normalise(_one_by_one(text))


def _one_by_one(text: str) -> str:
    return text.replace("\u0130", "i")


class WholeText:
    """The text of a document, in which quotes are found regardless of case and white space."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _words(self) -> tuple[str, Ints, Ints]:
        """The normalised text, and where each word starts in it and in the original text."""
        words = list(_WORD.finditer(fold(self.text)))
        sizes = np.fromiter((len(word[0]) + 1 for word in words), np.int64, len(words))
        starts = np.fromiter((word.start() for word in words), np.int64, len(words))
        return " ".join(word[0] for word in words), np.cumsum(sizes) - sizes, starts

    def find(self, quote: str) -> list[Stretch]:
        """Every place of a normalised quote."""
        normal = self._words[0]
        found, at = [], normal.find(quote)
        while at >= 0 and quote:
            found.append(self._stretch(at, quote))
            at = normal.find(quote, at + len(quote))
        return found

    def find_each(self, texts: Sequence[str], in_order: bool) -> list[Stretch | None]:
        """The first place of each text; with `in_order`, the first that is not before the previous text."""
        normal, found, at = self._words[0], list[Stretch | None](), 0
        for text in map(normalise, texts):
            here = normal.find(text, at)
            here = here if here >= 0 or not at else normal.find(text)
            found.append(self._stretch(here, text) if here >= 0 and text else None)
            at = here if in_order and here >= 0 else at
        return found

    def _stretch(self, at: int, quote: str) -> Stretch:
        return self._origin(at), self._origin(at + len(quote) - 1) + 1

    def _origin(self, at: int) -> int:
        _, normal, own = self._words
        word = int(np.searchsorted(normal, at, "right")) - 1
        return int(own[word]) + at - int(normal[word])


class ChunkTexts:
    """Texts of a document's chunks, and which of them hold a quote: whole, or cut at a chunk's edge."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._chunks: dict[str, list[int]] = {}  # text → its chunks, so that repeated texts are checked once
        for at, text in enumerate(texts):
            self._chunks.setdefault(normalise(text), []).append(at)
        self._texts = list(self._chunks)
        self._joined = "\n".join(self._texts)  # no normalised text has a line break
        sizes = np.fromiter(map(len, self._texts), np.int64, len(self._texts)) + 1
        self._firsts: list[int] = [0, *np.cumsum(sizes).tolist()]
        self._heads: dict[str, list[int]] = {}
        self._tails: dict[str, list[int]] = {}
        for at, text in enumerate(self._texts):
            if len(text) >= PIECE:
                self._heads.setdefault(text[:PIECE], []).append(at)
                self._tails.setdefault(text[-PIECE:], []).append(at)

    def holders(self, quote: str) -> list[int]:
        """The chunks that hold a normalised quote, by position."""
        found = set(self._whole(quote)) if quote else set()
        for text, shared in self._cut(quote, found):
            if holds(shared, len(quote), len(self._texts[text])):
                found.add(text)
        return sorted(chunk for text in found for chunk in self._chunks[self._texts[text]])

    def _whole(self, quote: str) -> Iterator[int]:
        at = self._joined.find(quote)
        while at >= 0:
            text = bisect_right(self._firsts, at) - 1
            yield text
            at = self._joined.find(quote, self._firsts[text + 1])

    def _cut(self, quote: str, found: set[int]) -> Iterator[tuple[int, int]]:
        """Other texts that end with the beginning of the quote, start with its end, or are inside it, and how many
        characters they share with it."""
        for at in range(len(quote) - PIECE + 1):
            piece = quote[at : at + PIECE]
            for text in self._tails.get(piece, ()):
                if text not in found and _ends_with(self._texts[text], quote, at + PIECE):
                    yield text, at + PIECE
            for text in self._heads.get(piece, ()):
                if text not in found and (common := _stands_at(quote, at, self._texts[text])):
                    yield text, common


# Long texts are compared whole only where their far ends agree: with repeated letters, most would agree up to there.


def _ends_with(text: str, quote: str, common: int) -> bool:
    """Whether a text ends with the first characters of a quote."""
    return len(text) >= common and text[-common] == quote[0] and text.endswith(quote[:common])


def _stands_at(quote: str, at: int, text: str) -> int:
    """How many characters of a text match a quote at a place, up to the end of either; 0 where they differ."""
    common = min(len(quote) - at, len(text))
    return common if quote[at + common - 1] == text[common - 1] and quote.startswith(text[:common], at) else 0


class ChunkPlaces:
    """Where the chunks of a document are, and which of them hold a stretch of it."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self._order = sorted(range(len(stretches)), key=stretches.__getitem__)
        ordered = np.array([stretches[i] for i in self._order], np.int64).reshape(-1, 2)
        self._starts, self._ends = ordered[:, 0], ordered[:, 1]
        self._reached = np.maximum.accumulate(self._ends) if len(ordered) else self._ends

    def holders(self, start: int, end: int) -> list[int]:
        first, last = np.searchsorted(self._reached, start, "right"), np.searchsorted(self._starts, end)
        starts, ends = self._starts[first:last], self._ends[first:last]
        common = np.minimum(ends, end) - np.maximum(starts, start)
        held = np.flatnonzero((common > 0) & holds(common, end - start, ends - starts))
        return sorted(self._order[first + i] for i in held.tolist())


class Document(msgspec.Struct, dict=True):
    """What is known about one document."""

    text: str | None = None
    ids: list[str] = []  # of its chunks
    texts: list[str] = []  # "" where unknown
    stretches: list[Stretch | None] = []  # as they were given
    in_order: bool = True  # chunks are in the order of the document

    def add(self, chunk: str, text: str, stretch: Stretch | None = None) -> None:
        self.ids.append(chunk)
        self.texts.append(text)
        self.stretches.append(stretch)

    @cached_property
    def whole(self) -> WholeText | None:
        """Its text, as given or rebuilt from its chunks."""
        text = self.text or _put_together(self.texts, self.stretches)
        return WholeText(text) if text else None

    @cached_property
    def length(self) -> int | None:
        """Its length in characters, where its text or the places of all chunks give it."""
        if self.text:
            return len(self.text)
        ends = [stretch[1] for stretch in self.placed if stretch is not None]
        return max(ends) if ends and len(ends) == len(self.placed) else None

    @cached_property
    def placed(self) -> list[Stretch | None]:
        """Where each chunk is: as given, else where its text is found in the document."""
        if not self.text or self.whole is None or None not in self.stretches:
            return self.stretches
        found = self.whole.find_each(self.texts, self.in_order)
        return [given or read for given, read in zip(self.stretches, found, strict=True)]

    @cached_property
    def _by_place(self) -> tuple[list[int], ChunkPlaces]:
        at = [i for i, stretch in enumerate(self.placed) if stretch is not None]
        return at, ChunkPlaces([stretch for stretch in self.placed if stretch is not None])

    @cached_property
    def _by_text(self) -> ChunkTexts:
        return ChunkTexts(self.texts)

    @property
    def tells(self) -> bool:
        """Whether passages can be located in its chunks."""
        return any(self.texts) or any(stretch is not None for stretch in self.placed)

    def places(self, passage: Passage) -> list[Stretch]:
        """Where a passage is. A quote that is not at its given place is taken from the nearest place."""
        quoted = [] if passage.quote is None or self.whole is None else self.whole.find(normalise(passage.quote))
        if passage.start is None or passage.end is None:
            return quoted
        start, end = passage.start, passage.end
        if not quoted or any(place[0] < end and start < place[1] for place in quoted):
            last = self.length if self.length is not None and start < self.length else end
            return [(start, min(end, last))]
        return [min(quoted, key=lambda place: abs(place[0] - start))]

    def holders(self, passage: Passage, places: Sequence[Stretch]) -> list[str] | None:
        """The chunks that hold a passage; None where unknown."""
        at, by_place = self._by_place
        if places and at and (len(at) == len(self.ids) or not any(self.texts)):
            found = {at[chunk] for place in places for chunk in by_place.holders(*place)}
        else:
            quote = passage.quote or self._read(places)
            if quote is None or not any(self.texts):
                return None
            found = set(self._by_text.holders(normalise(quote)))
        return [self.ids[i] for i in sorted(found)]

    def _read(self, places: Sequence[Stretch]) -> str | None:
        return self.whole.text[slice(*places[0])] if places and self.whole is not None else None


def _put_together(texts: Sequence[str], stretches: Sequence[Stretch | None]) -> str | None:
    """The text rebuilt from chunks, with blanks in the gaps; None where too little of it is known."""
    pairs = zip(stretches, texts, strict=True)
    known = sorted((s, text) for s, text in pairs if s is not None and text and len(text) <= s[1] - s[0])
    if not known or max(s[1] for s, _ in known) > _SPARSE * sum(len(text) for _, text in known):
        return None
    parts, at = [], 0
    for (start, end), text in known:
        parts.append(" " * (start - at))
        parts.append(text.ljust(end - start)[max(at - start, 0) :])
        at = max(at, end)
    return "".join(parts)
