"""Dicts as ranx and pytrec_eval have them, and lists of ids; in memory or as a JSON file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np

from karat.audit import Audit
from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source
from karat.formats.gold_file import dataset_of
from karat.formats.records import read_document
from karat.formats.run_log import RunLog
from karat.gold import BARE, Dataset, Gold, GoldBuilder
from karat.hits import Hits, Run
from karat.ids import Keys

_SLICE_HITS = 500_000


class DictFormat(Format):
    """JSON `{query: {document: score}}` or `{query: [documents]}`, as a run or as gold."""

    name = "dict"
    kinds = frozenset({"run", "gold"})
    order = 40

    def recognises(self, source: Source, kind: Kind) -> bool:
        if not source.first_line.startswith(b"{"):
            return False
        first = source.first_object
        if first is not None and all(v is None for v in first.values()):  # a long first line, known by its keys only
            return not {"query_id", "topk", "gold", "samples"} & set(first)
        return first is None or (bool(first) and all(isinstance(v, (dict, list)) for v in first.values()))

    def read_run(self, source: Source, options: Options) -> Run:
        return run_from_dict(self._load(source), source.label)

    def read_gold(self, source: Source, options: Options) -> Gold:
        return gold_from_dict(self._load(source), source.label, dataset_of(source))

    def _load(self, source: Source) -> dict[str, Any]:
        value, _ = read_document(source)
        if not isinstance(value, dict):
            raise InputError("no object", file=source.label, expected="{query: {document: score}}", got=value)
        return value


def run_from_dict(run: Mapping[Any, Any], label: str = "run") -> Run:
    """{query: {document: score}}, {query: [ids, (id, score) pairs or hit dicts]}."""
    if all(issubclass(kind, Mapping) for kind in set(map(type, run.values()))):
        return DictRun(run, label)
    return RunLog(label, [{"query_id": str(q), "topk": _hit_list(q, hits, label)} for q, hits in run.items()])


def _hit_list(query: Any, hits: Any, label: str) -> list[Any]:
    if isinstance(hits, Mapping):
        return [{"chunk_id": i, "score": s} for i, s in hits.items()]
    if not isinstance(hits, (list, tuple)):
        raise InputError(
            "no hits", file=label, query=str(query), expected="{document: score} or a list of ids", got=hits
        )
    return [{"chunk_id": h[0], "score": h[1]} if isinstance(h, (tuple, list)) and len(h) == 2 else h for h in hits]


class DictRun(Run):
    """Scores by document: the score decides, so the order of a dict does not matter."""

    def __init__(self, run: Mapping[Any, Mapping[Any, Any]], label: str) -> None:
        self.label, self._run = label, run

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        names: list[Any] = []
        size = 0
        for name, hits in self._run.items():
            names.append(name)
            size += len(hits)
            if size >= _SLICE_HITS:
                yield self._slice(names)
                names, size = [], 0
        if names:
            yield self._slice(names)

    def _slice(self, names: list[Any]) -> Hits:
        tables: list[Any] = [self._run[q] for q in names]
        queries = list(map(str, names))
        offsets = np.zeros(len(tables) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, tables), np.int64, len(tables)), out=offsets[1:])
        scores = self._scores(queries, tables, int(offsets[-1]))
        textual = set(map(type, chain.from_iterable(tables))) <= {str}
        # 1 and "1" are two keys of a dict and one id: only keys that are text already can be looked up as they are.
        ids: Any = Keys(tables, offsets, scores) if textual else list(map(str, chain.from_iterable(tables)))
        return Hits(system="", queries=queries, offsets=offsets, ids=ids, score=scores)

    def _scores(self, queries: list[str], lists: list[Mapping[Any, Any]], n: int) -> Any:
        try:
            scores = np.fromiter(chain.from_iterable(map(methodcaller("values"), lists)), np.float64, n)
        except (TypeError, ValueError):
            scores = np.full(n, np.nan)
        if not np.isfinite(scores).all():
            for query, hits in zip(queries, lists, strict=True):
                for item, score in hits.items():
                    if isinstance(score, (str, bool)) or not np.isfinite(_float(score)):
                        raise InputError(
                            "the score is no finite number",
                            file=self.label,
                            query=query,
                            field=str(item),
                            got=score,
                        )
        return scores


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def gold_from_dict(gold: Mapping[Any, Any], label: str = "gold", dataset: Dataset | None = None) -> Gold:
    """{query: {document: grade}} or {query: [documents]}."""
    builder = GoldBuilder(label)
    judged: list[Any] = list(gold.values())
    if not all(issubclass(kind, Mapping) for kind in set(map(type, judged))):
        judged = [i if isinstance(i, Mapping) else _as_grades(query, i, label) for query, i in gold.items()]
    grades: list[Any] = list(chain.from_iterable(map(methodcaller("values"), judged)))
    if set(map(type, grades)) - {int, float}:
        grades = [_grade(g, q, i, label) for q, items in zip(gold, judged, strict=True) for i, g in items.items()]
    builder.queries = list(map(str, gold))
    builder.lines = [None] * len(judged)
    builder.counts = list(map(len, judged))
    builder.ids = list(map(str, chain.from_iterable(judged)))
    builder.grades = grades
    builder.kinds = [BARE] * len(grades)
    builder.k = [0] * len(judged)
    builder.no_answer = [False] * len(judged)
    return builder.build(dataset or Dataset())


def _as_grades(query: Any, items: Any, label: str) -> dict[Any, float]:
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise InputError(
            "no gold", file=label, query=str(query), expected="{document: grade} or a list of ids", got=items
        )
    return dict.fromkeys(sorted(items, key=str) if isinstance(items, (set, frozenset)) else items, 1.0)


def _grade(value: Any, query: Any, item: Any, label: str) -> float:
    grade = float("nan") if isinstance(value, (str, bool)) else _float(value)
    if np.isnan(grade):
        raise InputError("the grade is no number", file=label, query=str(query), field=str(item), got=value)
    return grade
