"""Which chunks queries are made from: all documents alike, chunks that say something, the same with the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import NamedTuple

from karat.data.corpus import Corpus
from karat.data.ids import DocRule
from karat.errors import ConfigError
from karat.systems.synthesize.prompts import KINDS, Kind

_LEAST = 60  # letters and digits: less holds nothing worth asking for


class Wish(NamedTuple):
    """One query to be made up."""

    number: int
    chunk: int  # its place in the corpus
    kind: Kind


def passage_of(corpus: Corpus, chunk: int) -> str:
    title, text = corpus.titles[chunk], corpus.texts[chunk]
    return f"{title}\n\n{text}" if title else text


def usable_chunks(corpus: Corpus) -> list[int]:
    found = [at for at, text in enumerate(corpus.texts) if sum(map(str.isalnum, text)) >= _LEAST]
    if not found:
        what = f"no chunk of the corpus has {_LEAST} letters: there is nothing to ask about"
        raise ConfigError(what, code="no-usable-text", file=corpus.label)
    return found


def wishes(corpus: Corpus, seed: int, rule: DocRule) -> Iterator[Wish]:
    """Chunk after chunk, one of each document in turn; then all of them again for queries of another kind."""
    rng = random.Random(seed)
    order = _drawn(corpus, rng, rule)
    shift = rng.randrange(len(KINDS))
    for number in range(len(order) * len(KINDS)):
        turn, at = divmod(number, len(order))
        yield Wish(number, order[at], KINDS[(at + turn + shift) % len(KINDS)])


def _drawn(corpus: Corpus, rng: random.Random, rule: DocRule) -> list[int]:
    documents: dict[str, list[int]] = {}
    names = corpus.documents(rule)
    for at in usable_chunks(corpus):
        documents.setdefault(names[at], []).append(at)
    shuffled = list(documents.values())
    rng.shuffle(shuffled)
    for chunks in shuffled:
        rng.shuffle(chunks)
    return [at for at in chain.from_iterable(zip_longest(*shuffled)) if at is not None]
