"""Samples chunks from a corpus, drafts a query for each, and checks the model's replies."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from karat.data.corpus import Corpus
from karat.data.ids import DocRule
from karat.errors import ConfigError, printable, shorten
from karat.llm.chat import Request
from karat.llm.client import Client, NoModelAnswer, UnusableReply, converse
from karat.llm.texts import answers_in, bound, is_quote
from karat.matching.cover import normalise
from karat.retrievers.bm25 import BM25
from karat.systems.synthesize import prompts
from karat.systems.synthesize.prompts import KINDS, Kind

LOOKED_AT = 5  # chunks to search for the answer to a query without one
AGAIN = "Answer with one JSON object only."
_LEAST = 60  # letters and digits of a usable chunk
LONGEST = 400  # characters of a query
_POINTS_AT_IT = re.compile(
    r"\b(this|the|that|above|given|provided) (passage|excerpt|paragraph|snippet|text above|context)\b", re.I
)
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # each letter counts as a word
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_COPIED = 12  # words in a row


class Made(NamedTuple):
    """A draft that passed the checks, or the reason why there is none."""

    wish: Wish
    draft: Draft | None
    rejected: str = ""  # one of a few reasons, for counting
    about: str = ""


class Maker:
    """Makes queries with one model. `searched`: search the corpus for answers to queries that should have none."""

    def __init__(self, client: Client, corpus: Corpus, *, searched: bool) -> None:
        self._client, self._corpus = client, corpus
        self._search = BM25()
        if searched:
            self._search.index(corpus)

    def make(self, wish: Wish) -> Made:
        try:
            passage = self._passage(wish.chunk)
            request = self.request(wish)
            name = bound("query", request.code)
            draft, _ = converse(
                self._client, request, lambda said: read_draft(said, name, passage, wish.has_answer), AGAIN
            )
            if draft is None:
                asked = wish.kind.type if wish.has_answer else "without an answer"
                return Made(wish, None, "no such query", f"{asked}, {self._corpus.ids[wish.chunk]}")
            fault = self._fault(wish, draft)
        except NoModelAnswer as error:
            return Made(wish, None, error.kind, error.about)
        return Made(wish, None, fault, draft.query) if fault else Made(wish, draft)

    def request(self, wish: Wish) -> Request:
        return (prompts.write if wish.has_answer else prompts.ask_beyond)(self._passage(wish.chunk), wish.kind)

    def _fault(self, wish: Wish, draft: Draft) -> str:
        """Return why a draft is rejected. The model must find the answer again from the chunk alone. If there should be
        none, it looks in the chunk and in those nearest to the query."""
        near = [] if wish.has_answer else self._search.search(draft.query, LOOKED_AT)
        chunks = dict.fromkeys([wish.chunk, *(self._corpus.index[item] for item, _ in near)])
        passages = list(map(self._passage, chunks))
        request = prompts.try_to_answer(draft.query, passages)
        name = bound("answerable", request.code)
        tried, _ = converse(self._client, request, lambda said: read_tried(said, name, passages), AGAIN)
        if not wish.has_answer:
            return "has an answer after all" if tried.answerable else ""
        if not tried.answerable:
            return "not answerable from its chunk"
        return "" if agree(draft, tried) else "answered otherwise the second time"

    def _passage(self, chunk: int) -> str:
        title, text = self._corpus.titles[chunk], self._corpus.texts[chunk]
        return f"{title}\n\n{text}" if title else text


class Wish(NamedTuple):
    """One query to generate."""

    number: int
    chunk: int  # its place in the corpus
    kind: Kind
    has_answer: bool


def wishes(corpus: Corpus, seed: int, has_answer: bool) -> Iterator[Wish]:
    """Yield a wish per chunk, documents in turn, then all chunks again for other kinds of queries."""
    rng = random.Random(seed)
    order = _drawn(corpus, rng)
    shift = rng.randrange(len(KINDS))
    for number in range(len(order) * len(KINDS)):
        turn, at = divmod(number, len(order))
        yield Wish(number, order[at], KINDS[(at + turn + shift) % len(KINDS)], has_answer)


def _drawn(corpus: Corpus, rng: random.Random) -> list[int]:
    documents: dict[str, list[int]] = {}
    for at, (name, text) in enumerate(zip(corpus.documents(DocRule()), corpus.texts, strict=True)):
        if sum(map(str.isalnum, text)) >= _LEAST:
            documents.setdefault(name, []).append(at)
    if not documents:
        what = f"all chunks of the corpus have fewer than {_LEAST} letters and digits"
        raise ConfigError(what, code="no-usable-text", file=corpus.label)
    shuffled = list(documents.values())
    rng.shuffle(shuffled)
    for chunks in shuffled:
        rng.shuffle(chunks)
    return [at for at in chain.from_iterable(zip_longest(*shuffled)) if at is not None]


class Draft(NamedTuple):
    """A query with its answer and a quote that supports it; without both if there is no answer."""

    query: str
    answer: str | None = None
    quote: str | None = None


class Tried(NamedTuple):
    """The result of answering a query from passages."""

    answerable: bool
    answer: str
    quote: str


def read_draft(answer: str, name: str, passage: str, has_answer: bool) -> Draft | None:
    """Read a draft; None if the model found no such query. `name`: the field of the query in this reply."""
    said = answer_with(answer, name)
    if said[name] is None:
        return None
    query = line_in(said, name)
    if not 3 <= len(query) <= LONGEST:
        raise UnusableReply(f"a query has 3 to {LONGEST} characters")
    if _POINTS_AT_IT.search(query):
        raise UnusableReply("the query speaks of the passage, which nobody has who asks it")
    if len(query.split()) >= _COPIED and normalise(query).rstrip("?!. ") in normalise(passage):
        raise UnusableReply("the query is copied from the passage")
    if not has_answer:
        return Draft(query)
    reply, quote = line_in(said, "answer"), line_in(said, "quote")
    if not reply:
        raise UnusableReply("the answer is missing")
    if not is_quote(quote, passage):
        raise UnusableReply("the quote does not stand in the passage word for word")
    return Draft(query, shorten(reply, 2_000), shorten(quote, 2_000))


def read_tried(answer: str, name: str, passages: Sequence[str]) -> Tried:
    said = answer_with(answer, name)
    if not isinstance(said[name], bool):
        raise UnusableReply(f"{name} is neither true nor false")
    tried = Tried(said[name], line_in(said, "answer"), line_in(said, "quote"))
    if tried.answerable and not any(is_quote(tried.quote, passage) for passage in passages):
        raise UnusableReply("the quote does not stand in a passage word for word")
    return tried


def agree(draft: Draft, tried: Tried) -> bool:
    """Return whether both have the same quote or the same answer."""
    pairs = ((draft.quote, tried.quote), (draft.answer, tried.answer))
    return any(_shared(one or "", other) >= 0.5 for one, other in pairs)


def _shared(one: str, other: str) -> float:
    """Return the share of the shorter text's words that the longer one contains."""
    first, second = sorted((_words(one), _words(other)), key=len)
    return len(first & second) / len(first) if first else 0.0


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalise(text)))


def answer_with(answer: str, name: str) -> dict[str, Any]:
    found = answers_in(answer, name)
    if not found:
        raise UnusableReply(f"there is no JSON object with {name}")
    if any(thing != found[0] for thing in found):
        raise UnusableReply("there are several JSON objects, and they contradict each other")
    return found[0]


def line_in(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return printable(" ".join(value.split())) if isinstance(value, str) else ""
