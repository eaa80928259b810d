"""Chunks drawn from a corpus, and a query made of each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import NamedTuple

from karat.data.corpus import Corpus
from karat.data.ids import DocRule
from karat.errors import ConfigError
from karat.llm.chat import Request
from karat.llm.client import Client, NoModelAnswer, converse
from karat.retrievers.bm25 import BM25
from karat.systems.synthesize import prompts
from karat.systems.synthesize.drafts import Draft, Tried, agree, read_draft, read_tried
from karat.systems.synthesize.prompts import KINDS, Kind

LOOKED_AT = 5  # chunks in which an answer is looked for that should be nowhere
_AGAIN = "Answer with one JSON object only."
_LEAST = 60  # letters and digits: less holds nothing worth asking for


class Made(NamedTuple):
    """A draft that withstood; or none, and why."""

    wish: Wish
    draft: Draft | None
    rejected: str = ""  # one of a few reasons, so that they can be counted
    about: str = ""


class Maker:
    """Makes queries with one model. `searched`: for those without an answer, the corpus is searched for one."""

    def __init__(self, client: Client, corpus: Corpus, *, searched: bool) -> None:
        self._client, self._corpus = client, corpus
        self._search = BM25()
        if searched:
            self._search.index(corpus)

    def make(self, wish: Wish, has_answer: bool) -> Made:
        try:
            return self._answered(wish) if has_answer else self._unanswered(wish)
        except NoModelAnswer as error:
            return Made(wish, None, error.kind, error.about)

    def request(self, wish: Wish, has_answer: bool) -> Request:
        passage = passage_of(self._corpus, wish.chunk)
        return (prompts.write if has_answer else prompts.ask_beyond)(passage, wish.kind)

    def _answered(self, wish: Wish) -> Made:
        """The round trip: a query whose answer is found again by somebody who has nothing but the chunk."""
        draft = self._draft(wish, has_answer=True)
        if draft is None:
            return Made(wish, None, "no such query", f"{wish.kind.type}, {self._corpus.ids[wish.chunk]}")
        tried = self._try(draft.query, [passage_of(self._corpus, wish.chunk)])
        if not tried.answerable:
            return Made(wish, None, "not answerable from its chunk", draft.query)
        if not agree(draft, tried):
            return Made(wish, None, "answered otherwise the second time", draft.query)
        return Made(wish, draft)

    def _unanswered(self, wish: Wish) -> Made:
        """A query whose answer is neither in its chunk nor in those that come nearest to it."""
        draft = self._draft(wish, has_answer=False)
        if draft is None:
            return Made(wish, None, "no such query", f"without an answer, {self._corpus.ids[wish.chunk]}")
        near = [self._corpus.index[item] for item, _ in self._search.search(draft.query, LOOKED_AT)]
        chunks = dict.fromkeys([wish.chunk, *near])
        if self._try(draft.query, [passage_of(self._corpus, at) for at in chunks]).answerable:
            return Made(wish, None, "has an answer after all", draft.query)
        return Made(wish, draft)

    def _draft(self, wish: Wish, has_answer: bool) -> Draft | None:
        def read(answer: str) -> Draft | None:
            return read_draft(answer, passage_of(self._corpus, wish.chunk), has_answer=has_answer)

        return converse(self._client, self.request(wish, has_answer), read, _AGAIN)[0]

    def _try(self, query: str, passages: list[str]) -> Tried:
        def read(answer: str) -> Tried:
            return read_tried(answer, passages)

        return converse(self._client, prompts.try_to_answer(query, passages), read, _AGAIN)[0]


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
