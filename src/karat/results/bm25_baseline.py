"""BM25 over the corpus, as a baseline for a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.data.attributes import language_of
from karat.data.gold import Gold
from karat.data.hits import Hits, Run
from karat.errors import KaratError, MissingExtra
from karat.scoring.views import View

if TYPE_CHECKING:
    from karat.data.audit import Audit
    from karat.data.corpus import Corpus
    from karat.retrievers.bm25 import BM25
    from karat.scoring.judged import Rules
    from karat.scoring.table import JudgedTable

LISTS = "bm25"  # the name of its lists among those of a run
DEPTH = 50  # as in `karat run`
_MOST = 20_000_000  # characters; indexing this many takes a few seconds


def mark_depth(tables: Mapping[View, JudgedTable], rules: Rules) -> int:
    """Hits per query that BM25 may return: as many as the longest list of the run has.

    With a score threshold, the length of the lists does not show how many hits were requested.
    """
    if rules.min_score is not None:
        return rules.top_k or DEPTH
    return max(int(tables[View.own(rules)].depth.max(initial=0)), 1)


class NoWordSearch(KaratError):
    """Why there are no BM25 lists."""

    code = "no-word-search"


def word_search(corpus: Corpus) -> BM25:
    """BM25 over a corpus, indexed once. Raises MissingExtra if its package is not installed."""
    from karat.retrievers.bm25 import BM25  # rarely needed

    made: list[BM25] = corpus.__dict__.setdefault("_word_search", [])
    if not made:
        search = BM25()
        search.index(corpus)
        made.append(search)
    return made[0]


class WordSearch(Run):
    """What BM25 finds for the queries of a gold set. It searches on first read."""

    label = "BM25 over the corpus"

    def __init__(self, corpus: Corpus, gold: Gold, depth: int = DEPTH) -> None:
        self._corpus = corpus
        self._gold = gold
        self.depth = depth

    def to_depth(self, depth: int) -> WordSearch:
        """The same search with this many hits per query."""
        return WordSearch(self._corpus, self._gold, depth)

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        yield self._found

    @cached_property
    def _found(self) -> Hits:
        search, gold = self._search(), self._gold
        texts = map(gold.text, range(len(gold.queries)))
        lists = [search.search(text or "", self.depth, language=language_of(gold, i)) for i, text in enumerate(texts)]
        hits = [hit for found in lists for hit in found]
        return Hits(
            system="",
            queries=gold.queries,
            offsets=np.cumsum([0, *map(len, lists)]),
            ids=[item for item, _ in hits],
            score=np.array([score for _, score in hits]),
        )

    def _search(self) -> BM25:
        from karat.retrievers.base import Nothing

        if not any(map(self._gold.text, range(len(self._gold.queries)))):
            from karat.formats.questions import text_hint

            raise NoWordSearch("the queries of the gold set have no text", hint=text_hint(self._gold))
        if sum(map(len, self._corpus.texts)) > _MOST:
            raise NoWordSearch(
                "the corpus is too large for BM25 here", hint="run `karat run bm25` once, then pass its log with --bm25"
            )
        try:
            return word_search(self._corpus)
        except (MissingExtra, Nothing) as error:
            raise NoWordSearch(str(error)) from None
