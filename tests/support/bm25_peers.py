"""BM25 as others have it: the package bm25s, and Lucene's EnglishAnalyzer and BM25Similarity in plain Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from math import log

import bm25s
import Stemmer
from bm25s.stopwords import STOPWORDS_EN, STOPWORDS_EN_PLUS

Run = dict[str, dict[str, float]]
DEPTH = 50

# UAX #29 as far as it matters here: an apostrophe, a full stop or a colon joins letters, a comma or a full stop digits.
_LUCENE_WORD = re.compile(
    r"\w+(?:(?:(?<=[^\W\d_])['\u2019.:](?=[^\W\d_])|(?<=\d)[.,;'\u2019](?=\d))\w+)*",
)


def peers() -> dict[str, Callable[[dict[str, str], dict[str, str]], Run]]:
    """Name → function of documents and queries."""
    return {
        "bm25s": lambda texts, queries: run_bm25s(texts, queries, stem=False),
        "bm25s, stemmed": lambda texts, queries: run_bm25s(texts, queries, stem=True),
        "Lucene": lambda texts, queries: run_lucene(texts, queries, 1.2, 0.75),
        "Lucene, k1 0.9, b 0.4": lambda texts, queries: run_lucene(texts, queries, 0.9, 0.4),
    }


def others() -> dict[str, Callable[[dict[str, str], dict[str, str]], Run]]:
    """Settings that neither has by default."""
    return {
        "bm25s, long stop list": lambda texts, queries: run_bm25s(texts, queries, stem=False, stop=STOPWORDS_EN_PLUS),
        "bm25s, stemmed, long stop list": lambda texts, queries: run_bm25s(
            texts, queries, stem=True, stop=STOPWORDS_EN_PLUS
        ),
    }


def run_bm25s(
    texts: dict[str, str], queries: dict[str, str], *, stem: bool, stop: tuple[str, ...] = STOPWORDS_EN
) -> Run:
    """With the defaults of the package: words of two letters or more, k1 = 1.5, b = 0.75."""
    stemmer = Stemmer.Stemmer("english") if stem else None

    def cut(found: list[str]) -> list[list[str]]:
        return bm25s.tokenize(found, stopwords=list(stop), stemmer=stemmer, return_ids=False, show_progress=False)

    index = bm25s.BM25()
    index.index(cut(list(texts.values())), show_progress=False)
    known, run = set(index.vocab_dict), Run()
    for query, words in zip(queries, cut(list(queries.values())), strict=True):
        words = [word for word in words if word in known]
        scores = index.get_scores(words).tolist() if words else []
        run[query] = _best(dict(zip(texts, scores, strict=False)))
    return run


def run_lucene(texts: dict[str, str], queries: dict[str, str], k1: float, b: float) -> Run:
    cut = _lucene_analyzer()
    counts = {item: Counter(cut(text)) for item, text in texts.items()}
    lengths = {item: sum(found.values()) for item, found in counts.items()}
    filled = sum(length > 0 for length in lengths.values())
    mean = sum(lengths.values()) / filled
    postings: dict[str, list[str]] = {}
    for item, found in counts.items():
        for word in found:
            postings.setdefault(word, []).append(item)
    norm = {item: k1 * (1 - b + b * _one_byte(length) / mean) for item, length in lengths.items()}
    run = Run()
    for query, text in queries.items():
        scores: Counter[str] = Counter()
        for word in cut(text):
            having = postings.get(word, [])
            idf = log(1 + (filled - len(having) + 0.5) / (len(having) + 0.5))
            for item in having:
                scores[item] += idf * counts[item][word] / (counts[item][word] + norm[item])  # type: ignore[assignment]
        run[query] = _best(dict(scores))
    return run


def _lucene_analyzer() -> Callable[[str], list[str]]:
    """StandardTokenizer, EnglishPossessiveFilter, LowerCaseFilter, StopFilter, PorterStemFilter."""
    stem, stop = Stemmer.Stemmer("porter").stemWord, frozenset(STOPWORDS_EN)

    def cut(text: str) -> list[str]:
        found = (re.sub("['\u2019]s$", "", word) for word in _LUCENE_WORD.findall(text.lower()))
        return [stem(word) for word in found if word not in stop]

    return cut


def _one_byte(length: int) -> int:
    """A document's length as Lucene keeps it: exact up to 24 and four significant bits of the rest (SmallFloat)."""
    if length < 24:
        return length
    shift = max((length - 24).bit_length() - 4, 0)
    return 24 + ((length - 24) >> shift << shift)


def _best(scores: dict[str, float]) -> dict[str, float]:
    found = sorted(((score, item) for item, score in scores.items() if score > 0), reverse=True)
    return {item: score for score, item in found[:DEPTH]}
