"""What labels change: the scores of a run with its gold set only, and with labels of people in addition.

Only labelled queries are scored again, from their kept hits and gold, by the ordinary scoring code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

import msgspec

from karat.data.gold import Gold
from karat.errors import KaratError, UnknownName
from karat.files.safe_parquet import ParquetSource
from karat.formats.read import read_gold
from karat.history.hits import QueryRecord
from karat.history.records import record_of
from karat.history.report import leading
from karat.history.store import Store
from karat.labels.agreement import settle
from karat.labels.files import Label, gathered
from karat.labels.labelled_gold import with_labels
from karat.options.option import options_in
from karat.results.evaluate import evaluate
from karat.results.kept_run import PREFIX
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.options import CountingOptions

METRICS = 3  # by default
_MOST_QUERIES = 1_000  # labelled queries whose effect on a run is shown
_KEPT = 20_000  # queries whose scores are remembered
_RUNS = 100  # whose scale is remembered
_CLOSE = 1e-9
_NOT_PASSED = ("forbid", "no_future", "corpus_size")  # they need more than hits and gold


class MetricEffect(msgspec.Struct, frozen=True):
    """A metric of one query and of the whole run. Null: undefined, or it cannot be measured from what is kept."""

    metric: str
    unit: str
    query_gold: float | None
    query_labels: float | None
    run_gold: float | None
    run_labels: float | None


class LabelEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of labels on a query and on its run."""

    run_id: str
    query_id: str
    labels: int  # grades of this query's hits
    queries: int  # queries of the run with grades
    metrics: list[MetricEffect]
    unmeasured: list[str]  # metrics that need more than the kept hits


_Scores = dict[str, tuple[float | None, float | None]]  # metric → with gold, with labels
_KNOWN: OrderedDict[Any, _Scores] = OrderedDict()
_LOCK = Lock()


def effect_of(
    store: Store,
    run_id: str,
    query_id: str,
    labels: Iterable[Label],
    *,
    metrics: Sequence[str] = (),
    highest: int = 2,
) -> LabelEffect:
    """`labels`: of people, for any queries. Where they disagree without a majority, there is no grade."""
    row = store.row(run_id)
    usual = [str(metric) for metric in leading([row]) if not metric.needs_hits][:METRICS]
    names = [str(parse_metric(metric)) for metric in metrics] or usual
    if unknown := next((name for name in names if name not in row.measures), None):
        raise UnknownName("metric of this run", unknown, row.measures)
    by_query: dict[str, list[Label]] = {}
    for label in settle(gathered(list(labels), "labels")):
        if label.grade is not None:
            by_query.setdefault(label.key.query, []).append(label)
    too_many = len(by_query) > _MOST_QUERIES
    asked = {query_id: by_query.get(query_id, [])} if too_many else {query_id: [], **by_query}
    scored = _scored(store, run_id, asked, names, highest)
    here = scored.get(query_id, {})
    unmeasured = [name for name in names if query_id in scored and name not in here]
    return LabelEffect(
        run_id=run_id,
        query_id=query_id,
        labels=len(by_query.get(query_id, [])),
        queries=sum(query in scored for query in by_query),
        metrics=[
            MetricEffect(
                name,
                parse_metric(name).unit,
                *here.get(name, (None, None)),
                None if (kept := row.measures.get(name)) is None else kept.mean,
                None if kept is None or too_many else _mean(kept.mean, kept.n, name, scored),
            )
            for name in names
            if name not in unmeasured
        ],
        unmeasured=unmeasured,
    )


def _mean(mean: float | None, n: int, name: str, scored: Mapping[str, _Scores]) -> float | None:
    """The mean of a run after some of its queries were scored again; None if one of them cannot be."""
    if any(name not in scores for scores in scored.values()):
        return None
    pairs = [scores[name] for scores in scored.values()]
    change = sum((after or 0.0) - (before or 0.0) for before, after in pairs)
    more = sum((after is not None) - (before is not None) for before, after in pairs)
    return None if n + more < 1 else ((mean or 0.0) * n + change) / (n + more)


def _scored(
    store: Store, run_id: str, labels: Mapping[str, list[Label]], names: Sequence[str], highest: int
) -> dict[str, _Scores]:
    """Query → its scores; without queries that the run does not have."""
    keys = {query: _key(store, run_id, query, own, names, highest) for query, own in labels.items()}
    with _LOCK:
        found = {query: _KNOWN[key] for query, key in keys.items() if key in _KNOWN}
    new = [query for query in labels if query not in found]
    records = {query: record for query in new if (record := record_of(store, run_id, query, texts=False).record)}
    if not records:
        return found
    made = _measured(store, run_id, records, {query: labels[query] for query in records}, names, highest)
    with _LOCK:
        _KNOWN.update({keys[query]: scores for query, scores in made.items()})
        while len(_KNOWN) > _KEPT:
            _KNOWN.popitem(last=False)
    return found | made


def _key(store: Store, run_id: str, query: str, labels: list[Label], names: Sequence[str], highest: int) -> Any:
    return (store.address, run_id, query, tuple(names), highest, tuple(sorted((*x.key, x.grade) for x in labels)))


def _measured(
    store: Store,
    run_id: str,
    records: Mapping[str, QueryRecord],
    labels: Mapping[str, list[Label]],
    names: Sequence[str],
    highest: int,
) -> dict[str, _Scores]:
    """Scores each query with its gold only and with labels. A metric that does not come out as it was saved needs more
    than the kept hits (deeper lists, times, evidence), so it is left out."""
    settings = store.document(run_id).result.settings
    options = {
        name: settings[name] for name in options_in(CountingOptions) if name in settings and name not in _NOT_PASSED
    }
    run = [{"query_id": q, "topk": [{"chunk_id": hit.id} for hit in record.hits]} for q, record in records.items()]
    ungraded = _is_ungraded(store, run_id)
    gold = read_gold([_gold(record, ungraded) for record in records.values()])
    said = [label for own in labels.values() for label in own]
    labelled = with_labels(gold, gathered(said, "labels"), doc_of=options.get("doc_of", "#"), highest=highest)
    found: dict[str, _Scores] = {query: {} for query in records}
    for name in names:
        try:
            before, after = (_values(run, judged, name, options) for judged in (gold, labelled))
        except KaratError:
            continue
        for query, record in records.items():
            kept, one = record.scores.get(name), before.get(query)
            if (kept is None) == (one is None) and abs((kept or 0.0) - (one or 0.0)) < _CLOSE:
                found[query][name] = (kept, after.get(query) if labels[query] else kept)
    return found


def _values(run: list[dict[str, Any]], gold: Gold, name: str, options: Mapping[str, Any]) -> dict[str, float | None]:
    result = evaluate(run, gold, [name], consumers=(), **options)
    column = result.values[name].tolist()
    return {query: None if value != value else value for query, value in zip(result.queries, column, strict=True)}


def _gold(record: QueryRecord, ungraded: bool) -> dict[str, Any]:
    """A query of a gold set. An id that is both a hit and judged irrelevant is a negative."""
    items = [{"id": item.id} if ungraded else {"id": item.id, "grade": item.grade} for item in record.gold]
    return {"query_id": record.query_id, "gold": items, "negatives": [h.id for h in record.hits if h.grade == 0]}


@lru_cache(_RUNS)
def _is_ungraded(store: Store, run_id: str) -> bool:
    """Whether the gold set has no grade but 1: then it is taken for lists of ids, which labels put on their scale."""
    import polars as pl

    column = f"{PREFIX}gold/0/grades"
    source = ParquetSource(store.source(run_id))
    if column not in source.schema():
        return False
    highest = source.collect(lambda frame: frame.select(pl.col(column).list.max().max())).item()
    return highest is None or highest == 1
