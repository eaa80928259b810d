"""Ratings of search results: Quepid and Elasticsearch's `_rank_eval`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.kinds.table import table_header
from karat.formats.kinds.tools import first_rows, opening
from karat.formats.layout import has_role

_BASIC = ({"query", "docid", "rating"}, {"query", "doc_id", "rating"})
_DETAILED = {"query text", "doc id"}
_NOT_PEOPLE = {"k", "start", "end"}  # columns of a gold set that hold numbers
_NUMBER = r"\d+(\.\d+)?"


def _first(value: Any) -> dict[str, Any]:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def is_quepid_book(source: Source) -> bool:
    """Ratings by several people: in CSV, one column of numbers for each, after the query and the document."""
    if source.is_folder or source.is_parquet:
        return False
    if source.looks_like_json:
        found = b"query_doc_pairs" in source.head
        return found and {"query_text", "doc_id"} <= _first(opening(source).get("query_doc_pairs")).keys()
    header = table_header(source) or []
    other = any(has_role(role, header) for role in ("grade", "score", "rank")) or not _NOT_PEOPLE.isdisjoint(header)
    if header[:2] != ["query", "docid"] or other:
        return False
    cells = [str(value).strip() for row in first_rows(source) for value in list(row.values())[2:] if value is not None]
    return any(cells) and all(re.fullmatch(_NUMBER, cell) for cell in cells if cell)


class QuepidFormat(Format):
    """Exports of Quepid: ratings (CSV, JSON, RRE), cases (JSON, detailed CSV), books (CSV, JSON), snapshots (CSV)."""

    name = "quepid"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run", "gold"})
    order = 17

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder or source.is_parquet:
            return False
        if source.looks_like_json:
            if kind == "gold" and is_quepid_book(source):
                return True
            first = _first(opening(source).get("queries")) if kind == "gold" and b"queries" in source.head else {}
            return bool({"ratings", "relevant_documents"} & first.keys()) and "gold" not in first
        header = set(table_header(source) or ())
        if kind == "run":
            return _DETAILED | {"doc position"} <= header
        return header in _BASIC or _DETAILED | {"rating"} <= header or is_quepid_book(source)

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.ratings import quepid_gold

        return quepid_gold(source, options, book=is_quepid_book(source))

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
