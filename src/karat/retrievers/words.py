"""Text → words for lexical search: folded, without stop words, stemmed in the text's own language."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any

from karat.errors import MissingExtra

_WORD = re.compile(r"\w+")
_LANGUAGES = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}


def words(text: str, language: str | None = None) -> list[str]:
    """The words to index; `language` is a code such as pt-BR, English where it is not given."""
    name = _LANGUAGES.get((language or "en").lower().partition("-")[0])
    found = _WORD.findall(fold(text))
    if name is None:
        return found
    dropped = _stop_words(name)
    return [str(w) for w in _stemmer(name).stemWords([w for w in found if w not in dropped])]


def fold(text: str) -> str:
    """Lower case without accents: people leave them out when they type.

    >>> fold("Cupón de PAGO")
    'cupon de pago'
    """
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in parts if not unicodedata.combining(c))


@cache
def _stemmer(name: str) -> Any:
    try:
        import Stemmer
    except ImportError:
        raise MissingExtra("lexical search", "PyStemmer", "baselines") from None
    return Stemmer.Stemmer(name)


@cache
def _stop_words(name: str) -> frozenset[str]:
    try:
        from bm25s import stopwords
    except ImportError:
        raise MissingExtra("lexical search", "bm25s", "baselines") from None
    listed = getattr(stopwords, "STOPWORDS_EN" if name == "english" else f"STOPWORDS_{name.upper()}", ())
    return frozenset(fold(w) for w in listed)
