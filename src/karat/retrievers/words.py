"""Splits text into words for lexical search: folded, without stop words, stemmed in the text's language.

For scripts without spaces, words are pairs of neighbouring characters."""

from __future__ import annotations

import re
import unicodedata
import warnings
from functools import cache
from typing import Any

from karat.errors import MissingExtra

_NAMES = """
ar:arabic ca:catalan cs:czech da:danish de:german el:greek en:english es:spanish et:estonian eu:basque
fa:persian fi:finnish fr:french ga:irish hi:hindi hu:hungarian hy:armenian id:indonesian it:italian
lt:lithuanian nb:norwegian ne:nepali nl:dutch nn:norwegian no:norwegian pl:polish pt:portuguese ro:romanian
ru:russian sr:serbian sv:swedish ta:tamil tr:turkish
"""
# Settings for the run log: runs with different words are different runs.
ANALYZER: dict[str, int | str] = {
    "least_letters": 2,
    "stop_words": "bm25s, en: Lucene, en queries: NLTK",
    "stemmer": "snowball, en: porter",
}
_LANGUAGES: dict[str, str] = dict(entry.split(":") for entry in _NAMES.split())
# Thai, Lao, Myanmar, Khmer; Hangul, whose particles stick to the word; kana and Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\uac00-\ud7af\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
# й is a letter of its own, not и with an accent: without it, no Russian endings would be recognised.
_ACCENTS = re.compile("(?<!и)[\u0300-\u036f]+|(?<=и)[\u0300-\u0305\u0307-\u036f]+")


def words(text: str, language: str | None = None, *, asked: bool = False) -> list[str]:
    """Return the words of a text to index, or of a query (`asked`). `language`: code such as pt-BR (default: English).

    A single letter is not a word: it is left over from an apostrophe (what's, l'eau), or a pronoun. English queries
    have more stop words than texts, because "what do you" in a question says nothing about its topic.

    >>> words("The refunds of 2024"), words("What's my refund?", asked=True), words("日本語の本")
    (['refund', '2024'], ['refund'], ['日本', '本語', '語の', 'の本'])
    """
    stems = _stems((language or "en").lower().replace("_", "-").partition("-")[0], asked)
    if text.isascii():
        found = re.findall(r"\w+", text.lower())
    else:
        found = _word().findall(fold(text))
        if _UNSPACED.search(text):
            found = [part for word in found for part in _parts(word)]
    return [stem for word in found if (stem := stems[word])]


def fold(text: str) -> str:
    """Return lower case without accents, which people often leave out.

    >>> fold("Cupón de PAGO"), fold("Маленький ёж"), fold("ガイド 한국")
    ('cupon de pago', 'маленький еж', 'ガイド 한국')
    """
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())))


def _parts(word: str) -> list[str]:
    """Return the word, or its pairs of characters in a script without spaces."""
    found, end = [], 0
    for run in _UNSPACED.finditer(word):
        found += [word[end : run.start()]] if run.start() > end else []
        text, end = run[0], run.end()
        found += [text[i : i + 2] for i in range(max(len(text) - 1, 1))]
    return [*found, word[end:]] if end < len(word) else found


@cache
def _word() -> re.Pattern[str]:
    """Letters, digits and combining marks: Python's \\w does not include the vowel signs of Hindi and Thai."""
    marks = "".join(c for c in map(chr, range(0x300, 0xFFFF)) if unicodedata.category(c)[0] == "M")
    return re.compile(rf"[\w{marks}]+")


class _Stems(dict[str, str]):
    """Word → its stem, empty for a stop word or a single letter; every word is stemmed once."""

    def __init__(self, language: str, asked: bool) -> None:
        super().__init__()
        name = _LANGUAGES.get(language)
        self._stemmer = None if name is None else _stemmer(name)
        self._dropped = frozenset() if name is None else _stop_words(name, asked)

    def __missing__(self, word: str) -> str:
        letter = len(word) == 1 and word.isalpha() and not _UNSPACED.match(word)
        stem = word if self._stemmer is None else str(self._stemmer.stemWord(word))
        self[word] = stem = "" if letter or word in self._dropped else stem
        return stem


_stems = cache(_Stems)


def _stemmer(name: str) -> Any:
    try:
        import Stemmer
    except ImportError:
        raise MissingExtra("lexical search", "PyStemmer", "baselines") from None
    name = "porter" if name == "english" else name  # as in Lucene's English analyzer
    return Stemmer.Stemmer(name) if name in Stemmer.algorithms() else None  # older versions have fewer languages


def _stop_words(name: str, asked: bool) -> frozenset[str]:
    """Return the stop words of bm25s for the language. Its short English list is Lucene's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # in a notebook it asks for progress bars, and shows none here
            from bm25s import stopwords
    except ImportError:
        raise MissingExtra("lexical search", "bm25s", "baselines") from None
    english = "EN_PLUS" if asked else "EN"
    listed = getattr(stopwords, f"STOPWORDS_{english if name == 'english' else name.upper()}", ())
    return frozenset(fold(w) for w in listed)
