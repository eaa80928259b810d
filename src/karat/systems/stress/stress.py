"""Hard negatives put into the lists of a run: what nDCG loses, through a real reranker where one is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.ids import DocRule
from karat.data.saved import SavedOfSystem
from karat.errors import ConfigError
from karat.formats.base import Lists
from karat.formats.corpus import read_corpus
from karat.formats.read import read_gold
from karat.results.analyses.base import PERMUTATIONS
from karat.results.differences import SAME, Difference, Paired
from karat.results.evaluate import evaluate
from karat.results.result import Result
from karat.statistics.sampling import Sampling
from karat.systems.stress.lists import (
    Negatives,
    Selection,
    choose_lists,
    insert,
    listed_queries,
    negatives_of,
    read_hits,
    select,
)
from karat.systems.stress.reranking import Hit, Reranker, find_reranker

_WORST = 5


class Dropped(msgspec.Struct, frozen=True):
    """A query that lost by its negatives, all put in together."""

    query_id: str
    query: str | None
    before: float
    after: float


class StressRow(msgspec.Struct, frozen=True):
    """Negatives put in at one rank, or at all ranks together."""

    at: list[int]
    change: Difference  # with negatives − without; of the reranked lists where there is a reranker
    unranked: Difference | None  # the same before reranking, which is what the reranker has to make good


class Stress(SavedOfSystem, frozen=True, kw_only=True):
    """What `karat stress` saves."""

    schema: Literal["karat/stress/1"] = "karat/stress/1"
    statistics: dict[str, Any]
    metric: str
    lists: str  # which lists of the log negatives were put into
    reranker: str | None
    queries: int
    drawn_from: int  # queries that could have been used
    left_out: dict[str, int]  # why → queries that could not
    moved: int  # negatives that stood in the list already
    relevant_negatives: int  # that the gold calls relevant, and that were not used
    fewer_negatives: int  # queries with fewer negatives than ranks
    short_lists: int  # queries whose list ends before a rank: there the negative was put at the end
    without_text: int  # hits and negatives that a reranker got without text
    rows: list[StressRow]
    worst: list[Dropped]


def stress(
    run: Any,
    gold: Any,
    *,
    negatives: Negatives | None = None,
    at: Iterable[int] = (1, 2, 3),
    queries: int = 100,
    reranker: str | Callable[[str, list[Hit]], Any] | None = None,
    corpus: Any = None,
    k: int = 5,
    hits: Lists | None = None,
    system: str | None = None,
    doc_of: str = "#",
    cluster: str | None = None,
    sampling: Sampling | None = None,
) -> Stress:
    """Put hard negatives into the lists of a run and measure what nDCG@k loses.

    `negatives`: query → ids, or a file (default: those of the gold set); `at`: the ranks, each alone and all together;
    `queries`: how many to use, drawn by the seed of `sampling`; `reranker`: a callable, or its name `module:callable`,
    that takes the text of a query and its hits (dicts with chunk_id, rank, doc_id, score, text) and gives the ids in
    their new order, (id, score) pairs, or a score for each hit. It gets the lists before reranking (`raw`, else the
    final ones), with and without negatives. `corpus`: lends texts to hits and negatives; `hits`: other lists.
    """
    ranks = _checked_ranks(list(at))
    if k < 1 or queries < 1:
        raise ConfigError("k and the number of queries must be 1 or more", got=min(k, queries))
    sampling = sampling or Sampling()
    found = None if reranker is None else find_reranker(reranker)
    gold = read_gold(gold)
    lists, name = choose_lists(run, system, hits, reranked=found is not None)
    if corpus is not None and not isinstance(corpus, Corpus):
        corpus = read_corpus(corpus, logged=lists.opening().get("chunker"))
    lists, system, listed = listed_queries(lists)
    selection = select(
        gold,
        listed,
        negatives_of(negatives, gold),
        DocRule(doc_of),
        queries,
        sampling.seed,
        needs_text=found is not None,
    )
    logged = read_hits(lists, gold, selection.chosen, corpus, doc_of)
    options = {"missing": "skip", "doc_of": doc_of, "cluster": cluster, "sampling": sampling}
    trial = _Trial(gold, logged, selection, corpus, found, ranks, k, options)
    return trial.told(run=lists.label, system=system, lists=name)


def _checked_ranks(at: list[int]) -> list[int]:
    ranks = sorted(set(at))
    if not ranks or ranks[0] < 1:
        raise ConfigError("a rank must be 1 or more", expected="such as 1,2,3", got=ranks[0] if ranks else "no rank")
    if len(ranks) < len(at):
        twice = next(rank for rank in ranks if at.count(rank) > 1)
        hint = "one negative is put in at each rank: name every rank once"
        raise ConfigError(
            f"rank {twice} stands twice",
            code="duplicate-value",
            got=",".join(map(str, at)),
            expected="such as 1,2,3",
            hint=hint,
        )
    return ranks


@dataclass(frozen=True)
class _Trial:
    """Lists with and without negatives, reranked and scored."""

    gold: Gold
    lists: dict[str, list[Hit]]
    selection: Selection
    corpus: Corpus | None
    reranker: Reranker | None
    ranks: list[int]
    k: int
    options: dict[str, Any]

    def told(self, run: str, system: str, lists: str) -> Stress:
        plain = self._scored(self._reranked(self.lists))
        inserted = [[rank] for rank in self.ranks] + ([self.ranks] if len(self.ranks) > 1 else [])
        negatives = [self._with_negatives(at) for at in inserted]
        after = [self._scored(self._reranked(lists)) for lists in negatives]
        bare = [None if self.reranker is None else self._change(self._unranked, self._scored(n)) for n in negatives]
        changes = [self._change(plain, result) for result in after]
        chosen, sampling = self.selection.chosen, self.options["sampling"]
        return Stress(
            karat=__version__,
            system=system,
            run=run,
            gold=self.gold.label,
            dataset=self.gold.dataset,
            statistics=sampling.saved(plain.cluster),
            metric=self._metric,
            lists=lists,
            reranker=None if self.reranker is None else self.reranker.name,
            queries=len(chosen),
            drawn_from=self.selection.drawn_from,
            left_out=self.selection.left_out,
            moved=sum(hit["chunk_id"] in self._used(query) for query, hits in self.lists.items() for hit in hits),
            relevant_negatives=self.selection.relevant,
            fewer_negatives=sum(len(negatives) < len(self.ranks) for negatives in chosen.values()),
            short_lists=sum(len(hits) + 1 < self.ranks[-1] for hits in self.lists.values()),
            without_text=self._without_text() if self.reranker else 0,
            rows=list(map(StressRow, inserted, changes, bare)),
            worst=self._worst(plain, after[-1]),
        )

    @property
    def _metric(self) -> str:
        return f"ndcg@{self.k}"

    def _used(self, query: str) -> list[str]:
        return self.selection.chosen[query][: len(self.ranks)]

    def _negative(self, item: str) -> Hit:
        place = None if self.corpus is None else self.corpus.index.get(item)
        text = {} if self.corpus is None or place is None else {"text": self.corpus.texts[place]}
        return {"chunk_id": item, **text}

    def _without_text(self) -> int:
        negatives = [self._negative(item) for query in self.lists for item in self._used(query)]
        return sum("text" not in hit for hits in (*self.lists.values(), negatives) for hit in hits)

    def _with_negatives(self, at: list[int]) -> dict[str, list[Hit]]:
        return {
            query: insert(hits, [self._negative(item) for item in self._used(query)[: len(at)]], at)
            for query, hits in self.lists.items()
        }

    def _reranked(self, lists: dict[str, list[Hit]]) -> dict[str, list[Hit]]:
        if self.reranker is None:
            return lists
        texts = {query: self.gold.text(self.gold.index[query]) or "" for query in lists}
        return {query: self.reranker.rerank(query, texts[query], hits, self.k) for query, hits in lists.items()}

    def _scored(self, lists: dict[str, list[Hit]]) -> Result:
        named = [
            {"query_id": query, "topk": [{name: hit.get(name) for name in ("chunk_id", "doc_id")} for hit in hits]}
            for query, hits in lists.items()
        ]
        return evaluate(named, self.gold, [self._metric], **self.options)

    @cached_property
    def _unranked(self) -> Result:
        return self._scored(self.lists)

    def _change(self, before: Result, after: Result) -> Difference:
        paired = Paired(before.columns, after.columns)
        return paired.differences(self.options["sampling"], PERMUTATIONS)[0]

    def _worst(self, plain: Result, stressed: Result) -> list[Dropped]:
        before, after = (result.values[self._metric] for result in (plain, stressed))
        return [
            Dropped(plain.queries[i], self.gold.text(int(plain.rows[i])), float(before[i]), float(after[i]))
            for i in np.argsort(after - before, kind="stable")[:_WORST].tolist()
            if after[i] < before[i] - SAME
        ]
