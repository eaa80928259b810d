"""The pipeline on one screen: hits and gold, judged slice by slice, become one row of scores a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from karat.data.attributes import (
    CONVERSATION,
    cluster_numbers,
    segment_labels,
    segment_titles,
    with_no_answer,
)
from karat.data.audit import Audit
from karat.data.corpus import Corpus, DescribedRun
from karat.data.gold import Gold
from karat.data.hits import NoLists, Run, StagedRun, Ungrouped
from karat.data.ids import DocRule, Floats, Ints
from karat.data.passages.resolve import resolve
from karat.errors import ConfigError, InputError, NoOverlap, shorten
from karat.formats.read import read_gold, read_run
from karat.matching.cover import THRESHOLD
from karat.results.analyses.base import route_lists
from karat.results.bm25_baseline import LISTS, WordSearch
from karat.results.result import Result
from karat.scoring.ceilings import Extremes, GoldLevel, LazyColumns, level_of
from karat.scoring.dates import NoVersions, OddVersion, with_versions
from karat.scoring.engines.base import Engine, Scored, Task, collect
from karat.scoring.engines.find import find_engine
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules, judge_missing
from karat.scoring.metrics.base import INFINITE, Metric
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.metrics.latency import Latency
from karat.scoring.overlap import SharedItems, count_missing
from karat.statistics.intervals import Sampling

PANEL = (
    "recall@1",
    "recall@3",
    "recall@5",
    "recall@10",
    "ndcg@5",
    "precision@5",
    "mrr",
    "distinct_docs@5",
    "judged@5",
    "span_recall@5",
    "span_precision@5",
    "span_iou@5",
    "latency_p50",
    "latency_p90",
)
# What the diagnosis looks at besides; measured with the panel, never shown in it.
BACKGROUND = ("recall@20", "recall@50", "rprecision", "route_accuracy")
BY_DOCUMENT = tuple(f"recall(level=doc)@{k}" for k in (5, 10, 20, 50))
_NO_TIME = "to leave out newer documents, give queries an as_of, such as 2025-06-01"
_NO_VERSION = "log the doc_version of each hit, or give a corpus that has it (--corpus)"


def evaluate(
    run: Any,
    gold: Any,
    metrics: Iterable[str | Metric] | None = None,
    *,
    system: str | None = None,
    **options: Any,
) -> Result:
    """Score one system's run against gold.

    `run` and `gold` are paths (any format), dicts, lists of records or frames; `metrics` are names such as
    `recall@5` (default: the panel). Options are those of `evaluate_all`.
    """
    engine = find_engine(options.pop("engine", None), run)
    results = evaluate_all(engine.read_run(run, system=system), gold, metrics, engine=engine, **options)
    if len(results) > 1:
        raise ConfigError(
            f"the run holds {len(results)} systems: {', '.join(sorted(results))}",
            code="several-systems",
            hint="pick one with system=…, or use evaluate_all",
        )
    return next(iter(results.values()))


def evaluate_all(
    run: Any,
    gold: Any,
    metrics: Iterable[str | Metric] | None = None,
    *,
    k: int = 5,
    missing: Literal["worst", "skip"] = "worst",
    min_score: float | None = None,
    no_future: bool = False,
    no_answer: str | None = None,
    target_false_evidence: float = 0.1,
    top_k: int | None = None,
    prices: Any = None,
    doc_of: str = "#",
    fuzzy_threshold: float = THRESHOLD,
    corpus: Any = None,
    corpus_size: int | None = None,
    segments: Iterable[str] = (),
    cluster: str | None = None,
    sampling: Sampling | None = None,
    facts: Iterable[str] = (),
    labelling: Labelling | None = None,
    raw: Any = None,
    original: Any = None,
    routes: Mapping[str, Any] | None = None,
    bm25: Any = None,
    engine: Any = None,
) -> dict[str, Result]:
    """Score every system of a run.

    - `k`: cutoff for metrics that name none, where a query has none of its own.
    - `missing`: queries that the run lacks score worst, or are skipped.
    - `min_score`: hits under it are cut; `top_k`: lists are cut after so many hits; `no_future`: hits newer than their
      query's `as_of` are removed.
    - `doc_of`: what parts a chunk id from its document.
    - `corpus`: a file, a BEIR folder or a `Corpus`, which lends hits what the run does not say of them; `corpus_size`:
      for the random floor (default: the corpus's).
    - `segments`: attributes such as `language` or `language×topic`; `cluster`: the attribute by which queries belong
      together (default: conversations, where the gold set has them; `none`: every query for itself); `sampling`: how
      intervals are made.
    - `fuzzy_threshold`: from which likeness on a text covers an evidence.
    - `no_answer`: which queries have no answer besides those that say so, such as `type=Null`; `target_false_evidence`:
      what share of them may get hits, for the score threshold that the no-answer analysis looks for.
    - `prices`: a price table (a YAML file, a dict or `Prices`), for `cost`.
    - `raw`: a run that has the lists before reranking, `original`: those of the queries before rewriting, `routes`:
      source → a run that asked this source only, where the run itself does not log them.
    - `labelling`: labels of a judge and of people beside the gold set, and whether bounds over unjudged hits are asked
      for (`read_labelling`).
    - `bm25`: a run of BM25 to hold the scores against (default: BM25 searches the corpus, where one is given).
    - `facts`: what the run says of a query (`route` …) and the result should keep.
    - `engine`: where it is worked out: `local` (the default), `processes`, `spark`, or a SparkSession of yours.
    """
    if k < 1:
        raise ConfigError("the cutoff k must be 1 or more", got=k, expected="1 or more")
    if top_k is not None and top_k < 1:
        raise ConfigError("top_k must be 1 or more", got=top_k, expected="1 or more")
    if corpus_size is not None and corpus_size < 1:
        raise ConfigError("the corpus size must be 1 or more", got=corpus_size, expected="1 or more")
    if min_score is not None and not np.isfinite(min_score):
        raise ConfigError("the score threshold is no number", expected="a finite number", got=min_score)
    if not 0 < fuzzy_threshold <= 1:
        raise ConfigError("bad fuzzy threshold", expected="above 0, at most 1", got=fuzzy_threshold)
    if not 0 <= target_false_evidence < 1:
        expected, got = "from 0 to under 1, such as 0.1", target_false_evidence
        raise ConfigError("the target for false evidence is no share", expected=expected, got=got)
    if missing not in ("worst", "skip"):
        raise ConfigError("unknown choice for missing queries", expected="missing='worst' or 'skip'", got=missing)
    if prices is not None:
        from karat.data.prices import read_prices  # with all of YAML

        prices = read_prices(prices)
    engine = find_engine(engine, run)
    run, gold = engine.read_run(run), read_gold(gold)
    logged, stages = run, {"raw": raw, "original": original, "routes": dict(routes or {}), LISTS: bm25}
    lent = _lent(**stages)
    run = staged = StagedRun(run, lent) if lent or corpus is not None else run
    if corpus is not None:
        from karat.formats.corpus import read_corpus

        cut = logged.opening().get("chunker")
        corpus = corpus if isinstance(corpus, Corpus) else read_corpus(corpus, logged=cut)
        run = DescribedRun(run, corpus, DocRule(doc_of))
        gold, corpus_size = with_versions(gold, corpus, DocRule(doc_of)), corpus_size or len(corpus)
        lent.setdefault(LISTS, WordSearch(corpus, gold))
    gold = gold if no_answer is None else with_no_answer(gold, no_answer)
    if no_future and not any(gold.as_of):
        raise InputError(
            "no query says what time it asks from", code="no-times", file=gold.label, field="as_of", hint=_NO_TIME
        )
    panel = PANEL if prices is None else (*PANEL, "cost")
    asked = parse_metrics(panel if metrics is None else metrics)
    segmented_by = segment_titles(gold, segments)
    cluster = _cluster(gold, cluster)
    for name in segmented_by:
        segment_labels(gold, name)  # an unknown name is an error now, not after the scoring
    rules = Rules(
        missing=missing,
        min_score=min_score,
        doc_of=doc_of,
        k=k,
        fuzzy_threshold=fuzzy_threshold,
        no_future=no_future,
        target_false_evidence=target_false_evidence,
        top_k=top_k,
        prices=prices,
    )
    background = _background(gold, rules) if metrics is None else []
    try:
        scorers = _score(engine, run, gold, asked, background, rules, corpus, corpus_size, frozenset(facts))
    except Ungrouped:
        grouped = run.grouped()
        scorers = _score(engine, grouped, gold, asked, background, rules, corpus, corpus_size, frozenset(facts))
    provenance = run.provenance()
    options: dict[str, Any] = {
        "k": k,
        "missing": missing,
        "min_score": min_score,
        "no_future": no_future,
        "target_false_evidence": target_false_evidence,
        "top_k": top_k,
        "prices": prices,
        "doc_of": doc_of,
        "fuzzy_threshold": fuzzy_threshold,
        "corpus": corpus,
        "corpus_size": corpus_size,
        "segments": segmented_by,
        "cluster": cluster or "none",
        "sampling": sampling,
        "engine": engine,
    }

    def again(
        others: Iterable[str], hits: str | None = None, *, with_judge: bool = False, **changes: Any
    ) -> dict[str, Result]:
        if with_judge and labelling is not None and labelling.with_judge is not None:
            return evaluate_all(logged, labelling.with_judge(gold), others, **(options | stages | changes))
        if hits is None:
            return evaluate_all(logged, gold, others, **(options | stages | {"labelling": labelling} | changes))
        try:  # top_k cuts the final lists
            return evaluate_all(staged.lists(hits), gold, others, **(options | {"top_k": None} | changes))
        except NoOverlap:
            if hits in lent:
                raise
            raise NoLists(hits) from None

    statistics = {
        "sampling": sampling or Sampling(),
        "cluster": cluster,
        "segmented_by": segmented_by,
        "again": again,
        "corpus": corpus,
        "routes": tuple(stages["routes"]),
        "labelling": labelling or Labelling(),
        "has_bm25": LISTS in lent,
    }
    return {
        system: scorer.finish(
            system, run, provenance.get(system, {}), keep_empty=metrics is not None, statistics=statistics
        )
        for system, scorer in scorers.items()
    }


def _lent(raw: Any, original: Any, routes: Mapping[str, Any], bm25: Any) -> dict[str, Run]:
    """Lists that other runs have for this one."""
    others = {
        "raw": raw,
        "topk_original": original,
        LISTS: bm25,
        **{route_lists(name): lists for name, lists in routes.items()},
    }
    return {name: read_run(other) for name, other in others.items() if other is not None}


def _cluster(gold: Gold, name: str | None) -> str | None:
    if name is None:
        return CONVERSATION if CONVERSATION in (*gold.fields, *gold.tags) else None
    if name == "none":
        return None
    cluster_numbers(gold, name)  # an unknown name is an error now, not after the scoring
    return name


def _background(gold: Gold, rules: Rules) -> list[Metric]:
    # Else documents are all that is asked for.
    chunks = gold.passages or not gold.names_document(DocRule(rules.doc_of)).all()
    return parse_metrics((*BACKGROUND, *BY_DOCUMENT) if chunks else BACKGROUND)


def _score(
    engine: Engine,
    run: Run,
    gold: Gold,
    asked: list[Metric],
    background: list[Metric],
    rules: Rules,
    corpus: Corpus | None,
    corpus_size: int | None,
    facts: frozenset[str],
) -> dict[str, _Scorer]:
    metrics = [*asked, *background]
    columns = facts.union(rules.needs, *(m.reads for m in metrics))
    depth = max((_depth(m, gold, rules) for m in metrics if m.uses_hits or m.budget), default=0)
    rule = DocRule(rules.doc_of)
    known = {} if corpus is None else corpus.strangers(rule)
    documents = gold.documents(rule, known) if any(level_of(m) == "doc" for m in metrics) else None
    gold_of = resolve(gold, run, corpus, rule)
    task = Task(gold_of, documents, metrics, rules, depth, columns, facts)
    scorers: dict[str, _Scorer] = {}
    for scored in engine.scores(run, task):
        scorer = scorers.get(scored.system)
        if scorer is None:
            scorer = scorers[scored.system] = _Scorer(gold_of(scored.system), task, asked, corpus_size)
        scorer.add(scored)
    if not scorers:
        raise InputError("no query in the run", code="no-queries", file=run.label, hint="it needs at least one line")
    for system, scorer in scorers.items():
        scorer.refuse_no_overlap(run, gold, system)
        scorer.refuse_no_versions(run)
        scorer.shared.report(scorer.audit)
        scorer.add_missing()
    return scorers


def _depth(metric: Metric, gold: Gold, rules: Rules) -> int:
    """How many hits of a query a metric looks at, at most; how many fit into a budget, nobody knows beforehand."""
    deepest = INFINITE if metric.budget or metric.cutoff == "optional" else max(gold.k.max(), rules.k)
    return metric.k or int(deepest)


class _Scorer:
    """Scores of one system, put together from slices in the order of the gold set."""

    def __init__(self, gold: Gold, task: Task, asked: list[Metric], corpus_size: int | None) -> None:
        self.gold, self.task, self.asked, self.corpus_size = gold, task, asked, corpus_size
        self.metrics, self.rules = task.metrics, task.rules
        self.stages: dict[str, Floats] = {}  # stage → ms a query, where somebody asked for times
        self.audit = Audit()
        self.audit.merge(gold.audit)
        self.shared = SharedItems(gold)
        self.lacking: dict[str, str] = {}  # metric → what it needs and (a part of) the run does not have
        size = len(gold.queries)
        self.seen = np.zeros(size, np.bool_)
        self.values: dict[str, Floats] = {str(m): np.full(size, np.nan) for m in self.metrics}
        self.sides = {"chunk": GoldLevel(gold), "doc": GoldLevel(task.documents or gold)}
        self.votes: dict[str, Floats] = {}
        self.depths = np.zeros(size, np.int64)
        self.places: Any = np.zeros(len(gold.items), np.int32)
        self.missing: frozenset[str] = frozenset()
        self.odd_version: OddVersion | None = None  # the first
        self.facts: dict[str, list[Any]] = {name: [None] * size for name in sorted(task.facts)}

    def add(self, scored: Scored) -> None:
        at = scored.queries
        if self.seen[at].any():
            raise Ungrouped
        self.seen[at] = True
        self.depths[at] = scored.depth
        self.places[scored.items] = scored.ranks
        self.audit.merge(scored.audit)
        self.shared.merge(scored.shared, scored.seen)
        self.lacking |= scored.lacking
        for level, by_document in scored.by_document.items():
            self.sides[level].note(at, by_document)
        for name, values in scored.values.items():
            self.values[name][at] = values
        for name, votes in scored.votes.items():
            self.votes.setdefault(name, np.zeros(len(self.seen)))[at] = votes
        for name, said in scored.facts.items():
            for row, value in zip(at.tolist(), said, strict=False):
                self.facts[name][row] = value
        self.odd_version = self.odd_version or scored.odd_version
        for stage, times in scored.stages.items():
            self.stages.setdefault(stage, np.full(len(self.seen), np.nan))[at] = times

    def refuse_no_overlap(self, run: Run, gold: Gold, system: str) -> None:
        if self.seen.any():
            return
        of = f" (system {shorten(system, 40)!r})" if system else ""
        examples = [e.examples[0] for e in self.audit if e.code == "unknown_queries" and e.examples]
        run_has = "".join(f", the run {example!r}" for example in examples)
        raise NoOverlap(
            f"no query of {run.label}{of} stands in {gold.label}",
            hint=f"do the ids match? The gold set has {shorten(gold.queries[0], 60)!r}{run_has}",
        )

    def refuse_no_versions(self, run: Run) -> None:
        """Where no hit says how old it is, nothing can be removed, and nobody should believe that it was."""
        if not self.rules.no_future:
            return
        undated = self.audit["undated_hits"] + self.audit["odd_versions"]
        asked = np.array([as_of is not None for as_of in self.gold.as_of], np.bool_)
        if undated and undated == self.depths[asked].sum() + self.audit["future_hits"]:
            if self.odd_version is not None:
                raise self.odd_version.error(run.label)
            raise NoVersions("no hit has a version", file=run.label, field="doc_version", hint=_NO_VERSION)

    def add_missing(self) -> None:
        missing: Ints = np.flatnonzero(~self.seen)
        if not len(missing):
            return
        if self.rules.missing == "skip":
            count_missing(self.gold, missing, self.audit, "missing_skipped")
        else:
            count_missing(self.gold, missing, self.audit)
            self.missing = frozenset(map(self.gold.queries.__getitem__, missing.tolist()))
            chunks, documents = (judge_missing(side.gold, missing, self.rules) for side in self.sides.values())
            self.add(collect(self.task, "", chunks, documents, Audit()))

    def finish(
        self, system: str, run: Run, provenance: dict[str, Any], *, keep_empty: bool, statistics: dict[str, Any]
    ) -> Result:
        rows = np.flatnonzero(self.seen)
        relevant = self.gold.count_items(self.gold.grades > 0)
        bare = rows[(relevant[rows] == 0) & (self.gold.no_answer[rows] == 0)]
        self.audit.count("no_relevant_gold", len(bare), (self.gold.queries[i] for i in bare[:3]))
        # Of the panel only what can be said is shown; what was asked for by name is shown in any case.
        silent = {name for name, values in self.values.items() if np.isnan(values[rows]).all()}
        shown = [m for m in self.asked if keep_empty or str(m) not in silent]
        names = [str(m) for m in shown]
        reasons = [f"{n}: {self.lacking[n]}" for n in names if n in silent and n in self.lacking]
        self.audit.count("no_data", len(reasons), reasons)
        background = {str(m): self.values[str(m)][rows] for m in self.metrics if m not in self.asked}
        stages = {stage: times[rows] for stage, times in self.stages.items()}
        extremes = Extremes(self.metrics, self.sides, rows, self.rules, self.corpus_size)
        if background:
            background |= {str(Latency(stage=stage)): times for stage, times in stages.items()}
        return Result(
            system=system,
            run=run.label,
            gold=self.gold,
            rows=rows,
            metrics=shown,
            values={n: _taken(self.values[n], rows) for n in names},
            ceilings=LazyColumns([n for n in (*names, *background) if n in self.values], extremes.ceiling),
            floors=LazyColumns(names if self.corpus_size else (), extremes.floor),
            audit=self.audit,
            provenance=provenance,
            rules=self.rules,
            corpus_size=self.corpus_size,
            votes={n: self.votes[n][rows] for n in names if n in self.votes},
            depths=self.depths[rows],
            places=self.places,
            missing=self.missing,
            facts={name: [column[row] for row in rows.tolist()] for name, column in self.facts.items()},
            stages=stages,
            background=background,
            source=run if run.here else None,
            **statistics,
        )


def _taken(values: Floats, rows: Ints) -> Floats:
    """Mostly it is all of them: then no second copy is made."""
    return values if len(rows) == len(values) else values[rows]
