"""Finds what has a given text: queries of a gold set, chunks of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from unicodedata import normalize

_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))


def normal_text(text: str) -> str:
    """A text without differences in case, white space, Unicode form and invisible characters.

    >>> normal_text("  How do\\u00a0I\\n get a REFUND? ")
    'how do i get a refund?'
    """
    if not text.isascii():
        text = normalize("NFKC", normalize("NFKC", text).casefold()).translate(_UNSEEN)
    return " ".join(text.lower().split())


class TextIndex:
    """Text → id. It is built when it is first used."""

    def __init__(
        self, pairs: Callable[[], Iterable[tuple[str | None, str]]], ids: Callable[[], Collection[str]] = tuple
    ) -> None:
        """`pairs`: texts with their ids. `ids`: a text that is one of them is its own id."""
        self._pairs, self._get_ids = pairs, ids

    @cached_property
    def _ids(self) -> Collection[str]:
        return self._get_ids()

    @cached_property
    def _found(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for text, item in self._pairs():
            if text and (normal := normal_text(text)):
                found.setdefault(normal, []).append(item)
        return found

    def has_id(self, item: str) -> bool:
        return item in self._ids

    def ids(self, text: str) -> list[str]:
        """Everything that has this text."""
        return [text] if text in self._ids else self._found.get(normal_text(text), [])

    def only(self, text: str) -> str | None:
        """The id, if exactly one has this text."""
        found = self.ids(text)
        return found[0] if len(found) == 1 else None
