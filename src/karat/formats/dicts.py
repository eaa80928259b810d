"""Dicts as in ranx and pytrec_eval, and lists of ids; in memory or as a JSON file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from math import isfinite
from numbers import Integral
from operator import contains, methodcaller
from struct import error as NoNumber
from struct import pack
from typing import Any

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import BARE, Dataset, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.hits import Hits, Run
from karat.data.ids import Floats, Ints, Keys
from karat.errors import InputError
from karat.formats.layout import refuse_other_system
from karat.formats.run_log import RunLog
from karat.formats.run_parts import NO_ID

_SLICE_HITS = 128_000
_PIECE = 1000  # dicts processed at once, so that they stay in the processor's cache
_TRUTH = {bool, np.bool_}
_ID = "text or a whole number"


def run_from_dict(run: Mapping[Any, Any], label: str = "run", system: str | None = None) -> Run:
    """{query: {document: score}}, {query: [ids, (id, score) pairs or hit dicts]}, {query: {"retrieved": […]}}."""
    if _is_output(next(iter(run.values()), None)):
        run = {query: hits["retrieved"] if _is_output(hits) else hits for query, hits in run.items()}
    if all(issubclass(kind, Mapping) for kind in set(map(type, run.values()))):
        return DictRun(run, label, system)
    queries = _query_ids(run, label)
    hits = zip(queries, run.values(), strict=True)
    return RunLog(label, [{"query_id": q, "topk": _hit_list(q, h, label)} for q, h in hits], system)


def _is_output(hits: Any) -> bool:
    """Whether it is an output of the sample contract."""
    return isinstance(hits, Mapping) and isinstance(hits.get("retrieved"), list)


def _hit_list(query: str, hits: Any, label: str) -> list[Any]:
    if isinstance(hits, Mapping):
        return [{"chunk_id": i, "score": s} for i, s in hits.items()]
    if not isinstance(hits, (list, tuple)):
        expected = "{document: score} or a list of ids"
        raise InputError("no hits", code="wrong-type", file=label, query=query, expected=expected, got=hits)
    return [{"chunk_id": h[0], "score": h[1]} if isinstance(h, (tuple, list)) and len(h) == 2 else h for h in hits]


class DictRun(Run):
    """Scores by document: the score decides, so the order of a dict does not matter."""

    can_look = True

    def __init__(self, run: Mapping[Any, Mapping[Any, Any]], label: str, system: str | None = None) -> None:
        self.label = label
        self._run = run
        self._system = system

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        refuse_other_system(self._system, [""], self.label)
        queries, tables = _query_ids(self._run, self.label), list(self._run.values())
        ends = np.cumsum(np.fromiter(map(len, tables), np.int64, len(tables)))
        start = 0
        while start < len(tables):
            before = ends[start - 1] if start else 0
            end = min(int(np.searchsorted(ends, before + _SLICE_HITS)) + 1, len(tables))
            offsets = np.concatenate([[0], ends[start:end] - before])
            yield self._slice(queries[start:end], tables[start:end], offsets, np.arange(start, end))
            start = end

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        if places is None:
            yield from super().look(system, queries, places, columns)
        elif system == "" and queries:
            order = np.argsort(places)
            tables = list(self._run.values())
            picked = [tables[at] for at in places[order].tolist()]
            offsets = np.append(0, np.cumsum(list(map(len, picked))))
            yield self._slice([queries[i] for i in order.tolist()], picked, offsets, places[order])

    def _slice(self, queries: list[str], tables: list[Any], offsets: Ints, places: Ints) -> Hits:
        scores, names = _columns("score", queries, tables, self.label)
        if any(map(contains, tables, repeat(""))):
            query = next(query for query, table in zip(queries, tables, strict=True) if "" in table)
            expected = "a chunk id"
            raise InputError(
                "the id is empty", code="empty-id", file=self.label, query=query, expected=expected, hint=NO_ID
            )
        # 1 and "1" are two keys of a dict and one id: only keys that are text already can be looked up as they are.
        if names is not None and set(map(type, tables)) == {dict}:
            ids: Any = Keys(tables, names, offsets, scores)
        else:
            ids = _ids(queries, tables, self.label) if names is None else names
        return Hits(system="", queries=queries, offsets=offsets, ids=ids, score=scores, places=places)


def gold_from_dict(gold: Mapping[Any, Any], label: str = "gold", dataset: Dataset | None = None) -> Gold:
    """{query: {document: grade}} or {query: [documents]}."""
    builder = GoldBuilder(label)
    queries, judged = _query_ids(gold, label), list(gold.values())
    if all(issubclass(kind, Mapping) for kind in set(map(type, judged))):
        builder.queries = queries
        builder.lines = [None] * len(judged)
        builder.counts = np.fromiter(map(len, judged), np.int64, len(judged))
        builder.grades, names = _columns("grade", queries, judged, label)
        builder.distinct = names is not None  # the keys of a dict are
        builder.ids = _ids(queries, judged, label) if names is None else names
        builder.kinds = np.full(len(builder.ids), BARE)
    else:
        for query, items in zip(queries, judged, strict=True):
            builder.add(query, *_items(query, items, label), graded=isinstance(items, Mapping))
    return builder.build(dataset or Dataset())


def _items(query: str, items: Any, label: str) -> tuple[list[str], list[float]]:
    """Ids and grades of one query."""
    if isinstance(items, Mapping):
        grades, names = _columns("grade", [query], [items], label)
        return _ids([query], [items], label) if names is None else names, grades.tolist()
    if not isinstance(items, (list, tuple, set, frozenset)):
        expected = "{document: grade} or a list of ids"
        raise InputError("no gold", code="wrong-type", file=label, query=query, expected=expected, got=items)
    ids = _ids([query], [items], label)
    return sorted(ids) if isinstance(items, (set, frozenset)) else ids, [1.0] * len(ids)


def _query_ids(queries: Mapping[Any, Any], label: str) -> list[str]:
    if (names := _texts([queries])) is not None:
        return names
    seen: set[str] = set()
    for query in queries:
        if not _names_something(type(query)):
            raise InputError("not a query id", code="wrong-type", file=label, expected=_ID, got=query)
        if str(query) in seen:
            what, hint = "two keys are the same query", "1 and '1' are the same id"
            raise InputError(what, code="duplicate-query", file=label, query=str(query), hint=hint)
        seen.add(str(query))
    return list(map(str, queries))


def _ids(queries: list[str], tables: list[Any], label: str) -> list[str]:
    """The ids of all queries in one list."""
    ids = list(chain.from_iterable(tables))
    kinds = set(map(type, ids))
    if kinds <= {str}:
        return ids
    if not all(map(_names_something, kinds)):
        at = ((q, i) for q, items in zip(queries, tables, strict=True) for i in items)
        query, item = next((q, i) for q, i in at if not _names_something(type(i)))
        raise InputError("not a document id", code="wrong-type", file=label, query=query, expected=_ID, got=item)
    return list(map(str, ids))


def _names_something(kind: type) -> bool:
    return issubclass(kind, (str, Integral)) and not issubclass(kind, bool)


def _columns(what: str, queries: list[str], tables: list[Any], label: str) -> tuple[Floats, list[str] | None]:
    """The values of all queries in one array, and their keys where all are text. Text and booleans are rejected, even
    where Python converts them."""
    parts, names, textual = [np.zeros(0)], list[str](), True
    for at in range(0, len(tables), _PIECE):
        piece = tables[at : at + _PIECE]
        values = list(chain.from_iterable(map(methodcaller("values"), piece)))
        try:
            numbers = np.frombuffer(pack(f"{len(values)}d", *values))  # rejects text, unlike numpy
        except NoNumber:
            raise _no_number(what, queries, tables, label) from None
        if not (np.isfinite(numbers).all() and _TRUTH.isdisjoint(map(type, _maybe_truth(values, numbers)))):
            raise _no_number(what, queries, tables, label)
        parts.append(numbers)
        more = _texts(piece) if textual else None
        textual = more is not None
        names += more or ()
    return np.concatenate(parts), names if textual else None


def _maybe_truth(values: list[Any], numbers: Floats) -> Iterable[Any]:
    """Values that may be booleans. Checking every value costs as much as reading it, and only 0 and 1 can be one;
    but where most are 0 or 1, as among grades, selecting them costs more than it saves."""
    doubtful = np.flatnonzero((numbers == 0) | (numbers == 1))
    return values if len(doubtful) * 3 > len(values) else map(values.__getitem__, doubtful.tolist())


def _texts(tables: list[Mapping[Any, Any]]) -> list[str] | None:
    """All keys, if all are text: joining them is the fastest way to check."""
    names = list(chain.from_iterable(tables))
    try:
        "".join(names)
    except TypeError:
        return None
    return names


def _no_number(what: str, queries: list[str], tables: list[Mapping[Any, Any]], label: str) -> InputError:
    at = ((q, i, v) for q, items in zip(queries, tables, strict=True) for i, v in items.items())
    query, item, value = next((q, i, v) for q, i, v in at if not _is_number(v))
    what, field = f"the {what} is not a finite number", str(item)
    return InputError(what, code="bad-value", file=label, query=query, field=field, expected="a number", got=value)


def _is_number(value: Any) -> bool:
    try:
        pack("d", value)
        return type(value) not in _TRUTH and isfinite(value)
    except (NoNumber, OverflowError):
        return False
