"""Ratings of search results: Quepid and Elasticsearch's `_rank_eval`."""

from __future__ import annotations

from typing import Any, ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.kinds.table import table_header
from karat.formats.kinds.tools import opening

_BASIC = ({"query", "docid", "rating"}, {"query", "doc_id", "rating"})
_DETAILED = {"query text", "doc id"}


def _first(value: Any) -> dict[str, Any]:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


class QuepidFormat(Format):
    """Exports of Quepid: ratings (CSV, JSON, RRE), cases (JSON, detailed CSV), and snapshots (CSV)."""

    name = "quepid"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run", "gold"})
    order = 17

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder or source.is_parquet:
            return False
        if source.looks_like_json:
            first = _first(opening(source).get("queries")) if kind == "gold" and b"queries" in source.head else {}
            return bool({"ratings", "relevant_documents"} & first.keys()) and "gold" not in first
        header = set(table_header(source) or ())
        if kind == "run":
            return _DETAILED | {"doc position"} <= header
        return header in _BASIC or _DETAILED | {"rating"} <= header

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.ratings import quepid_gold

        return quepid_gold(source, options)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.ratings import quepid_run

        return quepid_run(source, options)


class RankEvalFormat(Format):
    """Elasticsearch's ranking evaluation: the request has ratings, the response has hits."""

    name = "rank-eval"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run", "gold"})
    order = 18

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder or not source.looks_like_json:
            return False
        if kind == "gold":
            return b"ratings" in source.head and "ratings" in _first(opening(source).get("requests"))
        return b"metric_score" in source.head and {"metric_score", "details"} <= opening(source).keys()

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.ratings import rank_eval_gold

        return rank_eval_gold(source, options)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.ratings import rank_eval_run

        return rank_eval_run(source, options)
