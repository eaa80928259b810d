"""Pooling: what several runs found and nobody has judged, ready to be labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from karat import __version__
from karat.data.attributes import language_of
from karat.data.corpus import Corpus
from karat.data.gold import Dataset, Gold
from karat.data.ids import DocRule
from karat.data.saved import SavedObject
from karat.errors import ConfigError, InputError
from karat.formats.corpus import read_corpus
from karat.formats.read import read_run
from karat.labels.choosing import FoundPair, Influence, find_influence
from karat.labels.labelled_gold import read_gold_or_queries
from karat.labels.pool_file import Origin, PoolEntry
from karat.matching.near_duplicates import near_duplicates
from karat.results.evaluate import evaluate_all
from karat.results.queries.lists import ListedHit
from karat.results.queries.shown import Texts
from karat.results.result import Result
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.views import Need

Chosen: TypeAlias = Literal["all", "budget", "sample"]


class Pooling(SavedObject, frozen=True, kw_only=True):
    """What went into a pool, and what did not."""

    schema: Literal["karat/pooling/1"] = "karat/pooling/1"
    runs: list[str]
    gold: str
    dataset: Dataset
    k: int
    found: int  # different pairs among the first k hits of the runs
    judged: int  # of them, those that have a grade already
    no_answer_queries: int  # queries that have no answer, whose hits nobody needs to judge
    metric: str | None = None  # what influence is measured by
    without_influence: int = 0  # pairs left out, because no grade of theirs would change the comparison
    chosen: Chosen = "all"
    drawn_from: int  # pairs that were there to choose from
    pairs: int  # pairs in the pool
    queries: int  # queries in the pool
    near_duplicates: int  # pairs whose text nearly repeats another of the same query
    without_text: int
    influence_share: float | None = None  # of the influence of all pairs that wait for a label, that of the pool's
    seed: int


class Pool(msgspec.Struct, frozen=True):
    """The pairs, in the order in which they are to be labelled, and how they came together."""

    entries: list[PoolEntry]
    summary: Pooling


def make_pool(
    runs: Sequence[Any],
    gold: Any,
    *,
    k: int = 10,
    corpus: Any = None,
    metric: str | None = None,
    only_differences: bool = False,
    budget: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    doc_of: str = "#",
) -> Pool:
    """Pairs of a query and one of the first k hits of any run that the gold set does not judge.

    - `only_differences`: only pairs that can change the comparison of the runs, one label at a time.
    - `budget`: the so many pairs with the greatest influence on the comparison, by `metric` (default ndcg@k).
    - `sample`: so many pairs at random, each with the same known probability.
    """
    if budget is not None and sample is not None:
        raise ConfigError(
            "a budget picks and a sample draws: not both", code="contradiction", hint="give one of the two"
        )
    judged = read_gold_or_queries(gold)
    runs = [read_run(run) for run in runs]
    texts = corpus
    if corpus is not None and not isinstance(corpus, Corpus):
        cut = next((logged for run in runs if (logged := run.opening().get("chunker"))), None)
        texts = read_corpus(corpus, logged=cut)
    measure = parse_metric(metric or f"ndcg@{k}")
    results = _results(runs, judged, k, max(k, measure.k or k), texts, doc_of)
    collected = _Collected(judged, results, k, Texts(texts, {}, DocRule(doc_of)))
    influence = None
    if budget is not None or only_differences:
        influence = find_influence(results, collected.waiting, collected.ranks(), measure, judged)
    telling = collected.waiting
    if influence is not None and only_differences:
        telling = [pair for pair in telling if influence.possible[pair.key] > 0]
    rng = np.random.default_rng(seed)
    picked, probability = _choose(telling, influence, budget, sample, rng)
    if not picked:
        raise _nothing(collected, k)
    entries = [_entry(pair, judged, texts, influence, probability) for pair in _shuffled(picked, rng)]
    chosen: Chosen = "all" if len(picked) == len(telling) else "sample" if budget is None else "budget"
    counts = {"found": len(collected.pairs), "judged": len(collected.pairs) - len(collected.waiting)}
    counts |= {"without_influence": len(collected.waiting) - len(telling), "drawn_from": len(telling)}
    facts = _facts(entries) | counts | ({} if influence is None else _moved(influence, collected.waiting, picked))
    summary = _summary(judged, runs=list(results), k=k, chosen=chosen, seed=seed, **facts)
    return Pool(entries, summary)


def _summary(gold: Gold, **facts: Any) -> Pooling:
    without_answer = int(gold.no_answer.sum())
    return Pooling(karat=__version__, gold=gold.label, dataset=gold.dataset, no_answer_queries=without_answer, **facts)


def _facts(entries: list[PoolEntry]) -> dict[str, int]:
    return {
        "pairs": len(entries),
        "queries": len({entry.query_id for entry in entries}),
        "near_duplicates": sum(entry.near_duplicate_of is not None for entry in entries),
        "without_text": sum(entry.text is None for entry in entries),
    }


def _moved(influence: Influence, waiting: list[FoundPair], picked: list[FoundPair]) -> dict[str, Any]:
    total = influence.total(waiting)
    return {"metric": influence.metric, "influence_share": influence.total(picked) / total if total else 1.0}


def _results(
    runs: Sequence[Any], gold: Gold, k: int, depth: int, corpus: Corpus | None, doc_of: str
) -> dict[str, Result]:
    """Every system of every run, by a name that no other has. `depth`: hits of each query that are looked at."""
    found: dict[str, Result] = {}
    for run in runs:
        results = evaluate_all(
            run,
            gold,
            [f"judged@{k}"],
            k=k,
            corpus=corpus,
            doc_of=doc_of,
            consumers=[lambda setup: Need(lists=depth, texts=True)],
        )
        for result in results.values():
            name = result.system or result.run
            name = name if name not in found else f"{name} ({result.run})"
            found[name if name not in found else f"{name} {len(found) + 1}"] = result
    return found


class _Collected:
    """The first hits of all runs together, each pair once."""

    def __init__(self, gold: Gold, results: dict[str, Result], k: int, texts: Texts) -> None:
        self.gold, self.texts = gold, texts
        wanted = {query: k for at, query in enumerate(gold.queries) if not gold.no_answer[at]}
        self.lists = {n: r.lists.first(wanted, texts=True) for n, r in results.items() if r.lists is not None}
        by_query: dict[str, dict[str, FoundPair]] = {}
        for name, lists in self.lists.items():
            for query, hits in lists.items():
                for hit in hits:
                    self._add(by_query.setdefault(query, {}), query, name, hit)
        self.pairs = [pair for query in gold.queries for pair in self._sorted(by_query.get(query, {}))]
        self.waiting = [pair for pair in self.pairs if pair.grade is None]

    def _add(self, pairs: dict[str, FoundPair], query: str, name: str, hit: ListedHit) -> None:
        pair = pairs.setdefault(hit.id, FoundPair(query, hit.id))
        pair.ranks[name] = hit.rank
        pair.text = pair.text or hit.text or self.texts.of(hit.id)
        pair.grade = hit.grade if pair.grade is None else pair.grade

    def _sorted(self, pairs: dict[str, FoundPair]) -> list[FoundPair]:
        """Of one query, in an order that does not depend on that of the runs: what is judged first, for a text that
        repeats a judged one should name it."""
        ordered = sorted(pairs.values(), key=lambda p: (p.grade is None, min(p.ranks.values()), p.item))
        for pair, first in zip(ordered, near_duplicates([p.text for p in ordered]), strict=True):
            pair.near_duplicate_of = None if first is None else ordered[first].item
        return ordered

    def ranks(self) -> list[tuple[int, float]]:
        """(rank, grade) of all judged hits of all runs."""
        hits = (hit for lists in self.lists.values() for listed in lists.values() for hit in listed)
        return [(hit.rank, hit.grade) for hit in hits if hit.grade is not None]


def _choose(
    pairs: list[FoundPair],
    influence: Influence | None,
    budget: int | None,
    sample: int | None,
    rng: np.random.Generator,
) -> tuple[list[FoundPair], float | None]:
    """The pairs for the pool, and with which probability each came in; a picked one has none."""
    wanted = budget if budget is not None else sample
    if wanted is not None and wanted < 1:
        raise ConfigError("nothing to label", code="bad-setting", expected="1 or more pairs", got=wanted)
    if wanted is None or wanted >= len(pairs):
        return pairs, 1.0
    if sample is not None:
        drawn = np.sort(rng.choice(len(pairs), sample, replace=False))
        return [pairs[i] for i in drawn.tolist()], sample / len(pairs)
    assert influence is not None
    # Those that come to the same are picked at random, not by the order of their ids.
    chance = rng.random(len(pairs))
    order = np.lexsort((chance, np.array([-influence.expected[pair.key] for pair in pairs])))
    return [pairs[i] for i in np.sort(order[:wanted]).tolist()], None


def _shuffled(pairs: list[FoundPair], rng: np.random.Generator) -> list[FoundPair]:
    """Queries in any order, and the passages of each: neither ranks nor runs can be told from it. Those of one query
    stay together, so that whoever labels reads it once."""
    by_query: dict[str, list[FoundPair]] = {}
    for pair in pairs:
        by_query.setdefault(pair.query, []).append(pair)
    groups = list(by_query.values())
    mixed = (groups[i] for i in rng.permutation(len(groups)).tolist())
    return [group[i] for group in mixed for i in rng.permutation(len(group)).tolist()]


def _entry(
    pair: FoundPair, gold: Gold, corpus: Corpus | None, influence: Influence | None, probability: float | None
) -> PoolEntry:
    row = gold.index[pair.query]
    at = None if corpus is None else corpus.index.get(pair.item)
    title = None if corpus is None or at is None else corpus.titles[at] or None
    expected = None if influence is None else influence.expected[pair.key]
    return PoolEntry(
        query_id=pair.query,
        chunk_id=pair.item,
        query=gold.text(row),
        title=title,
        text=pair.text,
        language=language_of(gold, row),
        near_duplicate_of=pair.near_duplicate_of,
        inclusion_probability=probability,
        origin=Origin(pair.ranks, expected),
    )


def _nothing(collected: _Collected, k: int) -> InputError:
    if not collected.pairs:
        return InputError("nothing to label: the runs have no hits for queries with an answer", code="nothing-to-label")
    if not collected.waiting:
        return InputError(
            f"nothing to label: all {len(collected.pairs):,} pairs of the first {k} hits are judged already",
            code="nothing-to-label",
            file=collected.gold.label,
            hint="pool deeper with --k, or other runs",
        )
    return InputError(
        "nothing to label: no pair that waits for a label would change the comparison",
        code="nothing-to-label",
        hint="without --only-differences all of them are pooled",
    )
