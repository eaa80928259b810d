"""How many items of a corpus each gold item is: one, none, or all chunks of a document."""

from __future__ import annotations

from collections import Counter

import numpy as np

from karat.data.corpus import Corpus
from karat.data.gold import DOC, Gold
from karat.data.ids import DocRule, Ints


def count_in_corpus(gold: Gold, corpus: Corpus, rule: DocRule) -> Ints:
    """One number per gold item. A hit counts for the item that names it exactly, and only then for its document."""
    exact = np.fromiter(map(corpus.index.__contains__, gold.ids), np.bool_, len(gold.ids)) & (gold.kinds != DOC)
    counts: Ints = exact.astype(np.int64)
    if gold.located is not None:
        held = np.array([len(chunks) for chunks in gold.located.holders], np.int64)
        counts = np.where(gold.located.settled, held, counts)
    of_document = np.flatnonzero(gold.names_document(rule))
    if len(of_document):
        documents = corpus.documents(rule)
        chunks, taken = Counter(documents), _named_exactly(gold, corpus, documents)
        named = zip(gold.query_of_item[of_document].tolist(), of_document.tolist(), strict=True)
        counts[of_document] += [chunks[gold.ids[item]] - taken[query, gold.ids[item]] for query, item in named]
    return counts


def _named_exactly(gold: Gold, corpus: Corpus, documents: list[str]) -> Counter[tuple[int, str]]:
    """(query, document) → how many of its chunks the query's items name one by one, or that hold a passage."""
    owners = zip(gold.query_of_item.tolist(), gold.ids, (gold.kinds != DOC).tolist(), strict=True)
    named = {(query, item) for query, item, one in owners if one}
    if gold.located is not None:
        bounds = gold.located.bounds
        holding = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)).tolist()
        named |= set(zip(holding, gold.located.chunks, strict=True))
    places = ((query, corpus.index.get(item)) for query, item in named)
    return Counter((query, documents[at]) for query, at in places if at is not None)
