"""The pipeline: needs are declared, the run is read once, and each system becomes a result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from karat.data.attributes import (
    cluster_numbers,
    segment_members,
    segment_titles,
    usual_clusters,
    with_no_answer,
)
from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import STEPS, Run, SaidLate, Ungrouped
from karat.data.ids import DocRule
from karat.errors import ConfigError, InputError, KaratError, NoOverlap, shorten
from karat.files.machine import keep_freed_memory
from karat.formats.read import named_run, read_gold, read_run
from karat.options.option import part_of
from karat.results.analyses.base import Consumer, Lacking, Setup, needs_of_analyses
from karat.results.context import Context
from karat.results.evaluation import KEEP_LISTS, Evaluation
from karat.results.result import Result
from karat.scoring.engines.base import Engine
from karat.scoring.engines.find import find_engine
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules
from karat.scoring.metrics.against_run import AgainstRun
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.context import has_tokens
from karat.scoring.metrics.grammar import parse_metric, parse_metrics
from karat.scoring.options import Options
from karat.scoring.peers import metrics_like
from karat.scoring.sources import may_say_source
from karat.scoring.top_lists import TOP, in_order, lists_hash, reference_lists
from karat.scoring.views import BM25, ORIGINAL, RAW, Need, route_lists
from karat.statistics.resampling import draw_ahead

if TYPE_CHECKING:
    from karat.data.normal_ids import IdNormalizer

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
# Used only by the diagnosis; measured with the panel, never shown in it.
BACKGROUND = ("recall@20", "recall@50", "rprecision", "route_accuracy")
OVERLAP = ("rbo@10", "jaccard@10")  # with a reference run
_OF_LABELS = {"judged", "span_recall", "span_precision", "span_iou"}
BY_DOCUMENT = tuple(f"recall(level=doc)@{k}" for k in (5, 10, 20, 50))
_NO_TIME = "to leave out newer documents, add an as_of to the queries, such as 2025-06-01"


def hashes_need(setup: Setup) -> Need:
    """Hash lists, since a result may be saved later, but not for very many queries, where it costs too much."""
    few = len(setup.gold.queries) <= KEEP_LISTS
    return Need(hashes=few, tops=TOP if few else 0)


def score_systems(
    run: Any, gold: Any, metrics: Iterable[str | Metric] | None, asked: Options, consumers: Sequence[Consumer]
) -> dict[str, Result]:
    """Score every system of a run. `consumers`: what the results will be used for."""
    if gold is None:
        raise ConfigError("the gold set is missing", code="no-gold", hint="add --gold GOLD")
    asked = asked.replace(columns=asked.fields)
    keep_freed_memory()
    was_read = isinstance(gold, Gold) or isinstance(run, Run)
    engine = find_engine(asked.engine, run, asked.spark_master)
    logged = _read_run(engine, run, gold, asked)
    with engine.reading_ahead(logged):
        return _score(engine, logged, _read_gold(gold, logged, asked), metrics, asked, consumers, was_read)


def _score(
    engine: Engine,
    logged: Run,
    gold: Gold,
    metrics: Iterable[str | Metric] | None,
    asked: Options,
    consumers: Sequence[Consumer],
    was_read: bool,
) -> dict[str, Result]:
    logged.match_queries(gold)
    normal = None
    if asked.normalize_ids:
        from karat.data.normal_ids import IdNormalizer

        normal = IdNormalizer.of(gold, logged, DocRule(asked.doc_of))
    routes = asked.routes or {}
    others = {RAW: asked.raw, ORIGINAL: asked.original, BM25: asked.bm25}
    others |= {route_lists(name): other for name, other in routes.items()}
    read = {name: read_run(other, columns=asked.columns) for name, other in others.items() if other is not None}
    read = read if normal is None else {name: normal.adopted(other) for name, other in read.items()}
    corpora = corpus = None
    if asked.corpus is not None:
        from karat.formats.corpora import Corpora

        corpora = Corpora(asked.corpus, logged, normal, asked.columns)
        corpus = corpora.first
        logged.match_texts(corpus)
    gold = gold if normal is None else normal.adopted_gold(gold)  # last: its ids may be in any of the others
    if corpus is not None:
        from karat.scoring.dates import with_versions

        gold = with_versions(gold, corpus, DocRule(asked.doc_of))
    gold = gold if asked.no_answer is None else with_no_answer(gold, asked.no_answer)
    if asked.quality is not None:
        from karat.formats.signals import with_signal

        gold = with_signal(gold, asked.quality)
    if not any(gold.fields.get("query", ())):
        gold = replace(gold, fields=dict(gold.fields))  # its texts come from the run, if it has them
    labelling = asked.labelling or Labelling()
    gold = gold if labelling.prepare is None else labelling.prepare(gold)
    if asked.no_future and not any(gold.as_of):
        raise InputError("no query has a date", code="no-times", file=gold.label, field="as_of", hint=_NO_TIME)
    if asked.forbid:
        from karat.data.forbidden import check_rules, read_rules

        check_rules(read_rules(asked.forbid), lambda _: [], gold, np.zeros(0, np.int64))  # raises now
    segmented_by = segment_titles(gold, asked.segments)
    for name in segmented_by:
        segment_members(gold, name)  # raises for an unknown name now, not after scoring
    size = asked.corpus_size or (None if corpus is None else len(corpus) or None)
    rules = part_of(asked, Rules, prices=_prices(asked.prices), corpus_size=size)
    lent: dict[str, Run] = {}
    if corpus is not None:
        from karat.results.bm25_baseline import WordSearch

        lent[BM25] = WordSearch(corpus, gold)
    lent |= read
    if asked.columns is not None and not was_read:
        asked.columns.refuse_unused()
    analysed = metrics is None if asked.analyses is None else asked.analyses
    may_analyse = analysed or any(declare is not hashes_need for declare in consumers)
    wanted = metrics_like(asked.like, metrics, _panel(rules, gold, referred=asked.reference is not None), rules.k)
    gold, about = _with_reference(gold, asked, wanted, rules, normal)
    evaluation = Evaluation(
        engine=engine,
        gold=gold,
        rules=rules,
        asked=wanted,
        keep_empty=metrics is not None,
        background=_background(gold, rules) if metrics is None and asked.analyses is not False else (),
        context=Context(
            corpus=corpus,
            labelling=labelling,
            routes=tuple(routes),
            sourced=may_analyse and may_say_source(logged, corpus),
            stepped=may_analyse and logged.knows_columns and logged.may_say(STEPS),
            sized=may_analyse and len(gold.queries) <= KEEP_LISTS and has_tokens(logged, corpus),
            analysed=analysed,
        ),
        normal=normal,
        corpora=corpora,
        counts_corpus=not asked.corpus_size,
        lent=lent,
        segmented_by=segmented_by,
        cluster=_cluster(gold, asked.cluster),
        sampling=asked.intervals,
        about=about,
    )
    if asked.analyses and asked.intervals.method == "bayes":  # then intervals of all queries are shown
        draw_ahead(len(gold.queries), asked.intervals.seed, asked.intervals.resamples)
    while True:
        try:
            return evaluation.results(logged, consumers)
        except SaidLate as late:  # hits have a source, or queries have steps, but not the first ones
            logged.watched -= {late.column}
            noticed = {"stepped": True} if late.column == STEPS else {"sourced": True}
            evaluation = replace(evaluation, context=replace(evaluation.context, **noticed))


def _with_reference(
    gold: Gold, asked: Options, metrics: Iterable[Metric], rules: Rules, normal: IdNormalizer | None
) -> tuple[Gold, dict[str, Any]]:
    """The gold set with the lists of a reference run, if a metric compares with them; and what is known about both
    runs."""
    about: dict[str, Any] = {} if gold.depth is None else {"gold_run": gold.label, "gold_depth": gold.depth}
    needing = [metric for metric in metrics if isinstance(metric, AgainstRun)]
    source = gold.run if asked.reference is None else asked.reference
    kept, gold = gold.reference, replace(gold, reference=None, run=None)  # workers get the gold set, not the run
    if not needing:
        return gold, about
    if source is None:
        hint = "add --reference RUN, or use a run as gold"
        raise ConfigError(f"{needing[0]} compares with a reference run", code="no-reference", hint=hint)
    depth = max(metric.k or max(gold.largest_k, rules.k) for metric in needing)
    if asked.reference is not None or kept is None or depth > kept.ids.shape[1]:
        run = named_run(source, columns=asked.columns)
        run = run if normal is None else normal.adopted(run)
        kept = in_order(run, lambda whole: reference_lists(whole, gold, rules, depth))
        if (kept.length < 0).all():
            example = f"the gold set has {shorten(gold.queries[0], 40)!r}"
            raise NoOverlap(f"the reference run {run.label} has none of the gold set's queries", hint=example)
        about["reference"] = run.label
    else:
        about["reference"] = gold.label
    about["reference_hash"] = lists_hash(kept)
    lost = np.flatnonzero(kept.length < 0)
    audit = Audit.merged(gold.audit)
    audit.count("no_reference", len(lost), (gold.queries[i] for i in lost[:3]))
    return replace(gold, reference=kept, audit=audit), about


def _read_run(engine: Engine, run: Any, gold: Any, asked: Options) -> Run:
    """An error also says what is wrong with the gold set."""
    try:
        return engine.read_run(run, **asked.of_run)
    except InputError as error:
        also = _problem(lambda: read_gold(gold, **asked.of_gold))
        error.also = None if also is None or also.code == error.code == "swapped" else also
        maps = [_map_in(each) for each in (error, also)]
        if also is not None and maps[0] and maps[1]:
            from shlex import quote

            from karat.formats.map_guess import map_of_both

            also.hint = None
            error.hint = f"map the fields of both files: --map {quote(map_of_both(maps[0], maps[1]))}"
        raise


def _read_gold(gold: Any, logged: Run, asked: Options) -> Gold:
    """An error also says what is wrong with the run."""
    try:
        return read_gold(gold, **asked.of_gold)
    except InputError as error:
        error.also = _problem(lambda: next(logged.slices(frozenset(), Audit()), None))
        raise


def _map_in(error: KaratError | None) -> str | None:
    """The field map that an error suggests."""
    found = None if error is None else re.search(r"--map ('[^']*'|\S+)$", error.hint or "")
    return None if found is None else found[1].strip("'")


def _problem(read: Callable[[], object]) -> InputError | None:
    try:
        read()
    except InputError as error:
        return error
    except (KaratError, Ungrouped):
        pass
    return None


def _prices(prices: Any) -> Any:
    if prices is None:
        return None
    from karat.data.prices import read_prices  # imports YAML

    return read_prices(prices)


def _cluster(gold: Gold, name: str | None) -> str | None:
    if name is None:
        return usual_clusters(gold)
    if name == "none":
        return None
    cluster_numbers(gold, name)  # raises for an unknown name now, not after scoring
    return name


def _background(gold: Gold, rules: Rules) -> tuple[str, ...]:
    # By document only if the gold has chunks; otherwise everything is by document.
    chunks = gold.passages or not gold.names_document(DocRule(rules.doc_of)).all()
    return (*BACKGROUND, *BY_DOCUMENT) if chunks else BACKGROUND


def panel_need(setup: Setup) -> Need:
    """What `with_panel` and analyses of the panel need."""
    panel = _panel(setup.rules, setup.gold)
    own = Need(metrics=(*panel, *_background(setup.gold, setup.rules)))
    return Need.union([own, *needs_of_analyses(replace(setup, metrics=parse_metrics([*panel, *setup.metrics])))])


def with_panel(result: Result) -> Result:
    """Add the usual panel to the metrics of a result, so that runs in a history can be compared."""
    try:
        panel = result.measure(_panel(result.rules, result.gold))
    except Lacking:
        return result
    shown = [metric for metric in panel.metrics if not np.isnan(panel.values[str(metric)]).all()]
    return replace(
        result,
        metrics=[*shown, *(metric for metric in result.metrics if metric not in shown)],
        values={str(metric): panel.values[str(metric)] for metric in shown} | result.values,
        votes=panel.votes | result.votes,
        background=_background(result.gold, result.rules),
        memo={},
    )


def _panel(rules: Rules, gold: Gold, *, referred: bool = False) -> tuple[str, ...]:
    """The usual metrics. Of a run as gold, nothing is unjudged; without labels, nothing is relevant."""
    usual = [metric for metric in PANEL if gold.made_of == "labels" or parse_metric(metric).name not in _OF_LABELS]
    if gold.made_of == "queries":
        usual = [metric for metric in usual if "ids" not in parse_metric(metric).rests_on]
    overlap = OVERLAP if referred or gold.reference is not None else ()
    return (*usual, *overlap, *(() if rules.prices is None else ("cost",)))
