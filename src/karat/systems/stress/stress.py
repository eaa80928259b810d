"""Inserts hard negatives into the lists of a run and measures the loss of nDCG, also after reranking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import ScoreMeaning
from karat.data.ids import DocRule
from karat.data.question import Question
from karat.data.saved import SavedOfSystem
from karat.errors import ConfigError, KaratError
from karat.formats.base import Lists
from karat.formats.corpora import Corpora
from karat.formats.read import read_gold
from karat.results.analyses.base import PERMUTATIONS
from karat.results.differences import SAME, Difference, Paired
from karat.results.evaluate import evaluate
from karat.results.result import Result
from karat.retrievers.rerankers import Reranker, make_reranker
from karat.retrievers.templates import Used
from karat.scoring.judged import Rules
from karat.statistics.sampling import Sampling
from karat.systems.stress.lists import (
    Hit,
    Negatives,
    Selection,
    choose_lists,
    insert,
    listed_queries,
    negatives_of,
    read_hits,
    select,
)

_WORST = 5


class Dropped(msgspec.Struct, frozen=True):
    """A query that lost nDCG with all negatives inserted."""

    query_id: str
    query: str | None
    before: float
    after: float


class StressRow(msgspec.Struct, frozen=True):
    """Negatives inserted at one rank, or at all ranks."""

    at: list[int]
    change: Difference  # with negatives − without; after reranking, if there is a reranker
    unranked: Difference | None  # the same before reranking


class Stress(SavedOfSystem, frozen=True, kw_only=True):
    """What `karat stress` saves."""

    schema: Literal["karat/stress/1"] = "karat/stress/1"
    statistics: dict[str, Any]
    metric: str
    lists: str  # which lists of the log got negatives
    reranker: str | None
    queries: int
    drawn_from: int  # usable queries
    left_out: dict[str, int]  # reason → unusable queries
    moved: int  # negatives that were already in the list
    relevant_negatives: int  # relevant in the gold set, not used
    fewer_negatives: int  # queries with fewer negatives than ranks
    short_lists: int  # queries whose list ends before a rank, so that the negative is at the end
    without_text: int  # hits and negatives without text for the reranker
    rows: list[StressRow]
    worst: list[Dropped]


def stress_test(
    run: Any,
    gold: Any,
    *,
    negatives: Negatives | None = None,
    at: Iterable[int] = (1, 2, 3),
    queries: int = 100,
    reranker: str | Callable[[str, Any], Any] | None = None,
    corpus: Any = None,
    k: int = 5,
    hits: Lists | None = None,
    system: str | None = None,
    doc_of: str = "#",
    scores: ScoreMeaning | None = None,
    cluster: str | None = None,
    sampling: Sampling | None = None,
) -> Stress:
    """Insert hard negatives into the lists of a run and measure the loss of nDCG@k.

    `negatives`: query → ids, or a file (default: those of the gold set). `at`: the ranks, used one by one and together.
    `queries`: sample size, drawn with the seed of `sampling`. `reranker`: as in `rerank` of `run_retriever`, a
    callable or its name `module:callable`, the address of a service, or `static`. It gets the lists before reranking
    (`raw`, else the final ones), with and without negatives. `corpus`: texts of hits and negatives. `hits`: other
    lists. A run whose scores look like distances is refused, unless `scores` says what they mean.
    """
    ranks = _checked_ranks(list(at))
    if k < 1 or queries < 1:
        raise ConfigError("k and the number of queries must be 1 or more", got=min(k, queries))
    sampling = sampling or Sampling()
    found = None if reranker is None else make_reranker(reranker)
    gold = read_gold(gold)
    lists, name = choose_lists(run, system, hits, reranked=found is not None)
    lists.match_queries(gold)
    corpora = None if corpus is None else Corpora(corpus, lists)
    lists, system, listed = listed_queries(lists)
    if corpora is not None:
        corpora.refuse_mixed([system])
        corpus = corpora.of(system)
    selection = select(
        gold,
        listed,
        negatives_of(negatives, gold),
        DocRule(doc_of),
        queries,
        sampling.seed,
        needs_text=found is not None,
    )
    logged = read_hits(lists, gold, selection.chosen, corpus, Rules(doc_of=doc_of, scores=scores))
    options = {"missing": "skip", "doc_of": doc_of, "cluster": cluster, "sampling": sampling}
    trial = _Trial(gold, logged, selection, corpus, found, ranks, k, options)
    return trial.told(run=lists.label, system=system, lists=name)


def _checked_ranks(at: list[int]) -> list[int]:
    ranks = sorted(set(at))
    if not ranks or ranks[0] < 1:
        raise ConfigError("a rank must be 1 or more", expected="such as 1,2,3", got=ranks[0] if ranks else "no rank")
    if len(ranks) < len(at):
        twice = next(rank for rank in ranks if at.count(rank) > 1)
        hint = "give every rank once"
        what = f"duplicate rank {twice}"
        raise ConfigError(what, code="duplicate-value", got=",".join(map(str, at)), expected="such as 1,2,3", hint=hint)
    return ranks


class _Trial(msgspec.Struct, frozen=True):
    """Scores lists with and without negatives, reranked if there is a reranker."""

    gold: Gold
    lists: dict[str, list[Hit]]
    selection: Selection
    corpus: Corpus | None
    reranker: Reranker | None
    ranks: list[int]
    k: int
    options: dict[str, Any]

    def told(self, run: str, system: str, lists: str) -> Stress:
        chosen, sampling = self.selection.chosen, self.options["sampling"]
        negatives = {query: list(map(self._negative, chosen[query][: len(self.ranks)])) for query in self.lists}
        inserted = [[rank] for rank in self.ranks] + ([self.ranks] if len(self.ranks) > 1 else [])
        stressed = [
            {query: insert(hits, negatives[query][: len(at)], at) for query, hits in self.lists.items()}
            for at in inserted
        ]
        plain = self._scored(self._reranked(self.lists))
        after = [self._scored(self._reranked(lists)) for lists in stressed]
        changes = [self._change(plain, result) for result in after]
        bare: list[Difference | None] = [None] * len(stressed)
        without_text = 0
        if self.reranker is not None:
            unranked = self._scored(self.lists)
            bare = [self._change(unranked, self._scored(lists)) for lists in stressed]
            without_text = sum("text" not in hit for hit in chain(*self.lists.values(), *negatives.values()))
        return Stress(
            karat=__version__,
            system=system,
            run=run,
            gold=self.gold.label,
            dataset=self.gold.dataset,
            statistics=sampling.saved(plain.cluster),
            metric=f"ndcg@{self.k}",
            lists=lists,
            reranker=None if self.reranker is None else self.reranker.name,
            queries=len(chosen),
            drawn_from=self.selection.drawn_from,
            left_out=self.selection.left_out,
            moved=sum(
                hit["chunk_id"] in chosen[q][: len(self.ranks)] for q, hits in self.lists.items() for hit in hits
            ),
            relevant_negatives=self.selection.relevant,
            fewer_negatives=sum(len(items) < len(self.ranks) for items in chosen.values()),
            short_lists=sum(len(hits) + 1 < self.ranks[-1] for hits in self.lists.values()),
            without_text=without_text,
            rows=list(map(StressRow, inserted, changes, bare)),
            worst=self._worst(plain, after[-1]),
        )

    def _negative(self, item: str) -> Hit:
        place = None if self.corpus is None else self.corpus.index.get(item)
        text = {} if self.corpus is None or place is None else {"text": self.corpus.texts[place]}
        return {"chunk_id": item, **text}

    def _reranked(self, lists: dict[str, list[Hit]]) -> dict[str, list[Hit]]:
        if self.reranker is None:
            return lists
        texts = {query: self.gold.text(self.gold.index[query]) or "" for query in lists}
        return {query: self._order(Question(query, texts[query]), hits) for query, hits in lists.items()}

    def _order(self, question: Question, hits: list[Hit]) -> list[Hit]:
        """Rerank hits. The reranker must return enough of them for nDCG@k, and may cut off the rest."""
        assert self.reranker is not None
        name, least = self.reranker.name, min(self.k, len(hits))
        try:
            order = self.reranker.order(question, hits, Used())
        except KaratError as error:
            error.query = question.id
            raise
        except Exception as error:
            what = f"the reranker {name} failed: {type(error).__name__}: {error}"
            raise ConfigError(what, code="bad-answer", query=question.id) from error
        if len(order) < least:
            what, expected = f"the reranker {name} returned too few hits", f"{least} or more of {len(hits)} hits"
            raise ConfigError(what, code="bad-answer", query=question.id, expected=expected, got=len(order))
        return [hits[at] for at, _ in order]

    def _scored(self, lists: dict[str, list[Hit]]) -> Result:
        named = [
            {"query_id": query, "topk": [{name: hit.get(name) for name in ("chunk_id", "doc_id")} for hit in hits]}
            for query, hits in lists.items()
        ]
        return evaluate(named, self.gold, [f"ndcg@{self.k}"], **self.options)

    def _change(self, before: Result, after: Result) -> Difference:
        paired = Paired(before.columns, after.columns)
        return paired.differences(self.options["sampling"], PERMUTATIONS)[0]

    def _worst(self, plain: Result, stressed: Result) -> list[Dropped]:
        before, after = (result.values[f"ndcg@{self.k}"] for result in (plain, stressed))
        return [
            Dropped(plain.queries[i], self.gold.text(int(plain.rows[i])), float(before[i]), float(after[i]))
            for i in np.argsort(after - before, kind="stable")[:_WORST].tolist()
            if after[i] < before[i] - SAME
        ]
