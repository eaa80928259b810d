"""Pooling: collect unjudged hits of several runs for labelling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.attributes import language_of
from karat.data.corpus import Corpus
from karat.data.gold import Dataset, Gold
from karat.data.hits import ScoreMeaning
from karat.data.ids import DocRule
from karat.data.saved import SavedObject
from karat.errors import ConfigError, InputError
from karat.formats.corpus import is_text_folder, read_corpus
from karat.formats.read import read_run
from karat.labels.files import Origin, PoolEntry, write_pairs
from karat.labels.influence import FoundPair, find_influence
from karat.labels.labelled_gold import read_gold_or_queries
from karat.labels.next_labels import Settling, find_next
from karat.labels.production import QuestionSample
from karat.matching.near_duplicates import near_duplicates
from karat.results.doubts import refuse_doubtful_order
from karat.results.evaluate import evaluate_all
from karat.results.queries.shown import Texts
from karat.results.result import Result
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.views import Need


class Pooling(SavedObject, frozen=True, kw_only=True):
    """What went into a pool, and what did not."""

    schema: Literal["karat/pooling/1"] = "karat/pooling/1"
    runs: list[str]
    gold: str
    dataset: Dataset
    k: int
    found: int  # distinct pairs among the first k hits of the runs
    judged: int  # of them, those that already have a grade
    no_answer_queries: int  # queries without an answer, whose hits need no labels
    metric: str | None = None  # used to measure influence
    without_influence: int = 0  # pairs left out because no grade would change the comparison
    chosen: Literal["all", "budget", "sample"] = "all"
    drawn_from: int  # pairs to choose from
    pairs: int  # pairs in the pool
    queries: int  # queries in the pool
    near_duplicates: int  # pairs whose text nearly repeats another of the same query
    without_text: int
    settling: Settling | None = None  # what labels could make of the comparison, if requested
    influence_share: float | None = None  # the pool's share of the influence of all unlabelled pairs
    seed: int
    sampled: QuestionSample | None = None  # how questions were drawn from traces


class Pool(msgspec.Struct, frozen=True):
    """The pairs in labelling order, and a summary of how they were chosen."""

    entries: list[PoolEntry]
    summary: Pooling

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[PoolEntry]:
        return iter(self.entries)

    def __repr__(self) -> str:
        return f"Pool of {len(self)} pairs for {self.summary.queries} queries, {self.summary.judged} judged before"

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the pairs as JSONL, to be labelled."""
        write_pairs(path, self.entries)
        return Path(path)


def make_pool(
    runs: Sequence[Any],
    gold: Any,
    *,
    k: int = 10,
    corpus: Any = None,
    metric: str | None = None,
    only_differences: bool = False,
    settle: bool = False,
    budget: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    doc_of: str = "#",
    scores: ScoreMeaning | None = None,
) -> Pool:
    """Pool pairs of a query and an unjudged hit among the first k of any run. A run whose scores look like distances is
    refused, unless `scores` says what they mean.

    - `only_differences`: only pairs that can change the comparison of the runs, one label at a time.
    - `budget`: this many pairs, those with the greatest influence on the comparison, by `metric` (default ndcg@k).
    - `settle`: pairs in the order in which their labels settle the comparison of two runs soonest, and how many are
      expected to be needed; with `budget`, the first of them.
    - `sample`: this many pairs at random, all with the same known probability.
    """
    if budget is not None and sample is not None:
        what = "budget and sample cannot be used together"
        raise ConfigError(what, code="contradiction", hint="use one of them")
    if settle and sample is not None:
        what = "settle and sample cannot be used together"
        raise ConfigError(what, code="contradiction", hint="settle needs pairs in an order, sample draws them")
    judged = read_gold_or_queries(gold)
    runs = [read_run(run) for run in runs]
    if corpus is not None and not isinstance(corpus, Corpus) and not is_text_folder(corpus):
        corpus = read_corpus(corpus)  # once for all runs; a folder of texts is chunked per system
    measure = parse_metric(metric or f"ndcg@{k}")
    results = _results(runs, judged, k, max(k, measure.k or k), corpus, doc_of, scores)
    pairs, ranks = _collect(judged, results, k)
    waiting = [pair for pair in pairs if pair.grade is None]
    measured = budget is not None or only_differences or settle
    if measured:
        find_influence(results, waiting, ranks, measure, judged)
    rng = np.random.default_rng(seed)
    settling = None
    if settle:
        telling, settling = find_next(results, pairs, measure, judged, seed=seed)
        picked, probability = telling[:budget], None
    else:
        telling = [pair for pair in waiting if not only_differences or pair.possible]
        picked, probability = choose(telling, budget, sample, rng)
    if not picked:
        raise _nothing(judged, pairs, waiting, k)
    corpora = [result.corpus for result in results.values() if result.corpus is not None]
    entries = [_entry(pair, judged, corpora, probability) for pair in (picked if settle else shuffled(picked, rng))]
    for place, entry in enumerate(entries if settle else (), 1):
        entry.place = place
    total, moved = (sum(pair.expected or 0.0 for pair in of) for of in (waiting, picked))
    summary = Pooling(
        karat=__version__,
        runs=list(results),
        gold=judged.label,
        dataset=judged.dataset,
        k=k,
        found=len(pairs),
        judged=len(pairs) - len(waiting),
        no_answer_queries=int(judged.no_answer.sum()),
        metric=str(measure) if measured else None,
        without_influence=len(waiting) - len(telling),
        chosen="all" if len(picked) == len(telling) else "sample" if budget is None else "budget",
        drawn_from=len(telling),
        pairs=len(entries),
        queries=len({entry.query_id for entry in entries}),
        near_duplicates=sum(entry.near_duplicate_of is not None for entry in entries),
        without_text=sum(entry.text is None for entry in entries),
        settling=settling,
        influence_share=(moved / total if total else 1.0) if measured else None,
        seed=seed,
    )
    return Pool(entries, summary)


def _results(
    runs: Sequence[Any], gold: Gold, k: int, depth: int, corpus: Any, doc_of: str, scores: ScoreMeaning | None
) -> dict[str, Result]:
    """Every system of every run, by a unique name. `depth`: hits to keep per query."""
    found: dict[str, Result] = {}
    for run in runs:
        results = evaluate_all(
            run,
            gold,
            [f"judged@{k}"],
            k=k,
            corpus=corpus,
            doc_of=doc_of,
            scores=scores,
            consumers=[lambda setup: Need(lists=depth, texts=True)],
        )
        for result in results.values():
            refuse_doubtful_order(result.doubts, result.run)
            name = result.system or result.run
            name = name if name not in found else f"{name} ({result.run})"
            found[name if name not in found else f"{name} {len(found) + 1}"] = result
    return found


def _collect(gold: Gold, results: dict[str, Result], k: int) -> tuple[list[FoundPair], list[tuple[int, float]]]:
    """The first hits of all runs, each pair once, and (rank, grade) of all judged hits of all runs.

    The order does not depend on the order of the runs. Judged pairs of a query come first, so that near duplicates
    refer to them.
    """
    wanted = {query: k for at, query in enumerate(gold.queries) if not gold.no_answer[at]}
    by_query: dict[str, dict[str, FoundPair]] = {}
    judged = []
    for name, result in results.items():
        texts = Texts(result.corpus, {}, DocRule(result.rules.doc_of))
        for query, hits in ({} if result.lists is None else result.lists.first(wanted, texts=True)).items():
            for hit in hits:
                pair = by_query.setdefault(query, {}).setdefault(hit.id, FoundPair(query, hit.id))
                pair.ranks[name] = hit.rank
                pair.text = pair.text or hit.text or texts.of(hit.id)
                pair.grade = hit.grade if pair.grade is None else pair.grade
                judged += [] if hit.grade is None else [(hit.rank, hit.grade)]
    found = []
    for query in gold.queries:
        pairs = by_query.get(query, {}).values()
        ordered = sorted(pairs, key=lambda p: (p.grade is None, min(p.ranks.values()), p.item))
        for pair, first in zip(ordered, near_duplicates([p.text for p in ordered]), strict=True):
            pair.near_duplicate_of = None if first is None else ordered[first].item
        found += ordered
    return found, judged


def choose(
    pairs: list[FoundPair], budget: int | None, sample: int | None, rng: np.random.Generator
) -> tuple[list[FoundPair], float | None]:
    """The pairs for the pool, and their inclusion probability; None if they were picked by influence."""
    wanted = budget if budget is not None else sample
    if wanted is not None and wanted < 1:
        raise ConfigError("nothing to label", code="bad-setting", expected="1 or more pairs", got=wanted)
    if wanted is None or wanted >= len(pairs):
        return pairs, 1.0
    if sample is not None:
        drawn = np.sort(rng.choice(len(pairs), sample, replace=False))
        return [pairs[i] for i in drawn.tolist()], sample / len(pairs)
    # Ties are broken at random, not by the order of ids.
    chance = rng.random(len(pairs))
    order = np.lexsort((chance, np.array([-(pair.expected or 0.0) for pair in pairs])))
    return [pairs[i] for i in np.sort(order[:wanted]).tolist()], None


def shuffled(pairs: list[FoundPair], rng: np.random.Generator) -> list[FoundPair]:
    """Shuffle queries, and the passages of each, so that the order does not reveal ranks or runs. Passages of one query
    stay together, so that annotators read it once."""
    by_query: dict[str, list[FoundPair]] = {}
    for pair in pairs:
        by_query.setdefault(pair.query, []).append(pair)
    groups = list(by_query.values())
    mixed = (groups[i] for i in rng.permutation(len(groups)).tolist())
    return [group[i] for group in mixed for i in rng.permutation(len(group)).tolist()]


def _entry(pair: FoundPair, gold: Gold, corpora: Iterable[Corpus], probability: float | None) -> PoolEntry:
    row = gold.index[pair.query]
    titles = (corpus.titles[corpus.index[pair.item]] for corpus in corpora if pair.item in corpus.index)
    title = next(titles, None) or None
    return PoolEntry(
        query_id=pair.query,
        chunk_id=pair.item,
        query=gold.text(row),
        title=title,
        text=pair.text,
        language=language_of(gold, row),
        near_duplicate_of=pair.near_duplicate_of,
        inclusion_probability=probability,
        origin=Origin(pair.ranks, pair.expected),
    )


def _nothing(gold: Gold, pairs: list[FoundPair], waiting: list[FoundPair], k: int) -> InputError:
    what, more = "no unlabelled pair would change the comparison", {}
    if not pairs:
        what = "the runs have no hits for queries with an answer"
    elif not waiting:
        what = f"all {len(pairs):,} pairs among the first {k} hits are already judged"
        more = {"file": gold.label, "hint": "pool more hits with --depth, or add other runs"}
    else:
        more = {"hint": "remove --only-differences or --settle to pool all of them"}
    return InputError(f"nothing to label: {what}", code="nothing-to-label", **more)  # type: ignore[arg-type]
