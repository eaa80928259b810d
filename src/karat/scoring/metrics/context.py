"""Metrics of a context: what the first hits of a query cost in tokens, where the relevant ones are, what repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np

from karat.data.hits import Run
from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Basis, CutoffUse, Direction, Metric, Relevance, share
from karat.scoring.metrics.lists import Novelty

if TYPE_CHECKING:
    from karat.data.corpus import Corpus

Order: TypeAlias = Literal["rank", "reversed", "sides"]
Third: TypeAlias = Literal["first", "middle", "last"]
THIRDS: tuple[Third, ...] = ("first", "middle", "last")
ORDERS: tuple[Order, ...] = ("rank", "reversed", "sides")
_NO_SIZE = "the hits have neither tokens nor text"


class TopTokens(msgspec.Struct, frozen=True):
    """The top hits of each query in ranking order."""

    query: Ints
    rows: Ints
    tokens: Floats  # NaN: unknown
    first: Ints  # where the hits of each query begin
    total: Floats  # tokens of each query, NaN if unknown for one of its hits


def _top_tokens(judged: Judged, limit: Ints) -> TopTokens:
    query, rows = judged.top(limit)
    tokens = judged.tokens_of(rows)
    return TopTokens(query, rows, tokens, np.searchsorted(query, np.arange(judged.n)), judged.per_query(query, tokens))


def has_tokens(run: Run, corpus: Corpus | None) -> bool:
    """Whether hits have logged tokens, before they are read."""
    if corpus is not None and corpus.column("tokens") is not None:
        return True
    return run.knows_columns and run.may_say("tokens")


def _says_size(judged: Judged) -> bool:
    columns = {} if judged.hits is None else judged.hits.columns
    return any(value is not None for name in ("tokens", "text") for value in columns.get(name, []))


class _Sized(Metric, frozen=True, kw_only=True):
    """Base of metrics that need the tokens of hits."""

    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    needs: ClassVar[frozenset[str]] = frozenset({"tokens", "text"})

    @property
    def reads_texts(self) -> bool:
        return False

    def lacks(self, judged: Judged) -> str | None:
        return None if judged.hits is None or _says_size(judged) else _NO_SIZE


class Tokens(_Sized, frozen=True, kw_only=True):
    """Number of tokens of the top k hits together.

    The tokens of a hit are its `tokens` in the log. Without them they are estimated from its text: one token for every
    four bytes. Undefined for a query that is missing from the run, and if a hit has neither tokens nor text.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "tokens": 900}, {"chunk_id": "b", "tokens": 800}, {"chunk_id": "c", "tokens": 400}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["a"]}, ["tokens@2", "tokens@2000tok"]).means
    {'tokens@2': 1700.0, 'tokens@2000tok': 1700.0}
    """

    name = "tokens"
    rests_on: ClassVar[frozenset[Basis]] = frozenset()
    direction: ClassVar[Direction] = "lower"
    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    aliases: ClassVar[dict[str, str]] = {"context_tokens": "tokens"}
    unit = "tokens"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None:
            return np.full(judged.n, np.nan)
        return _top_tokens(judged, self.limit(judged)).total


class InThird(Relevance, _Sized, frozen=True, kw_only=True):
    """Share of the relevant hits in the top k that are in one third of the context's tokens, by default the middle.

    `order` is the order of the hits in the context: `rank` (best first), `reversed` (best last) or `sides` (best at
    both ends: 1, 3, 5, …, 6, 4, 2). A hit that lies in two thirds counts in each with its share of tokens, so the
    three thirds add up to 1. Undefined without a relevant hit, and if tokens are unknown.

    >>> import karat
    >>> hits = [{"chunk_id": chunk, "tokens": 100} for chunk in "abcdef"]
    >>> asked = ["in_third@6", "in_third(third=last)@6", "in_third(third=last,order=sides)@6"]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["b", "c"]}, asked).means
    {'in_third@6': 0.5, 'in_third(third=last)@6': 0.0, 'in_third(third=last,order=sides)@6': 0.5}
    """

    name = "in_third"
    is_quality = False

    third: Third = "middle"
    order: Order = "rank"

    def score(self, judged: Judged) -> Floats:
        nothing = np.full(judged.n, np.nan)
        if judged.hits is None:
            return nothing
        limit = self.limit(judged)
        top = _top_tokens(judged, limit)
        found = self.found(judged, limit, every_chunk=True)
        at = top.first[judged.hit_query[found]] + judged.hit_rank[found] - 1
        start = _starts(top, self.order)[at]
        # In units of a third of the context: a context has the length 3.
        total = top.total[top.query[at]]
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = 3 * start / total, 3 * (start + top.tokens[at]) / total
            third = THIRDS.index(self.third)
            inside = np.clip(high, third, third + 1) - np.clip(low, third, third + 1)
            part = inside / (high - low)
        pointlike = (low == high) & (np.clip(np.floor(low), 0, 2) == third)
        part = np.where(low == high, pointlike.astype(np.float64), part)
        part[np.isnan(low)] = np.nan  # unknown, or nothing but empty texts
        return share(judged.per_query(top.query[at], part), judged.per_query(top.query[at]))

    def ceiling(self, judged: Judged) -> Floats:
        return np.full(judged.n, np.nan)


def _starts(top: TopTokens, order: Order) -> Floats:
    """Tokens before each hit, if the hits of each query are put in this order."""
    if not len(top.query):
        return np.zeros(0)
    size = np.bincount(top.query, minlength=len(top.first))[top.query]
    rank = np.arange(len(top.query)) - top.first[top.query]  # from 0
    place = rank
    if order == "reversed":
        place = size - 1 - rank
    elif order == "sides":
        place = np.where(rank % 2 == 0, rank // 2, size - 1 - rank // 2)
    at = top.first[top.query] + place
    tokens = np.empty(len(at))
    tokens[at] = np.nan_to_num(top.tokens)  # queries with unknown tokens have no total
    before = np.cumsum(tokens) - tokens
    return np.asarray((before - before[np.minimum(top.first, max(len(at) - 1, 0))][top.query])[at])


class RedundantTokens(Novelty, _Sized, frozen=True, kw_only=True):
    """Share of the tokens of the top k hits that are in hits whose text repeats hits above.

    A hit repeats if at least `threshold` of its word shingles occur in hits above, as in `novelty`. Undefined if a hit
    has no text.

    >>> import karat
    >>> texts = {"a": "refunds take five days", "b": "Refunds take five days!", "c": "cards ship in two weeks"}
    >>> hits = [{"chunk_id": chunk, "text": text, "tokens": 50} for chunk, text in texts.items()]
    >>> found = karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["a"]}, ["redundant_tokens@3"])
    >>> round(found.means["redundant_tokens@3"], 4)
    0.3333
    """

    name = "redundant_tokens"
    direction: ClassVar[Direction] = "lower"
    needs: ClassVar[frozenset[str]] = frozenset({"tokens", "text"})

    @property
    def reads_texts(self) -> bool:
        return True

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None:
            return np.full(judged.n, np.nan)
        top = _top_tokens(judged, self.limit(judged))
        new = self.new_hits(judged, top.query, top.rows)
        return share(judged.per_query(top.query, (1 - new) * top.tokens), top.total)
