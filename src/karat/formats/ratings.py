"""Reads ratings of search results: Quepid's exports, and requests and responses of Elasticsearch's `_rank_eval`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import ReadOptions, Source, SourcePlace
from karat.formats.dataset import dataset_of
from karat.formats.field_map import RecordMap
from karat.formats.mapped import gold_of_records
from karat.formats.quepid_book import entries_of_book
from karat.formats.records import list_entries, read_document
from karat.formats.run_log import RunLog
from karat.formats.table_file import rows_of

Numbered: TypeAlias = Iterator[tuple["int | None", dict[str, Any]]]
_DEEP = 20  # objects inside objects of a query body


def _gold(entries: Numbered, source: Source, options: ReadOptions) -> Gold:
    return gold_of_records(entries, RecordMap("gold", {}), options, source.label, dataset_of(source))


def quepid_gold(source: Source, options: ReadOptions, *, book: bool) -> Gold:
    if book:
        return _gold(entries_of_book(source), source, options)
    return _gold(_quepid_queries(source) if source.looks_like_json else _quepid_rated(source), source, options)


def _quepid_queries(source: Source) -> Numbered:
    """Queries with ratings in JSON: of a case, as a mapping, or as RRE has them."""
    value, lines = read_document(source)
    queries = value.get("queries") if isinstance(value, dict) else None
    for line, query in list_entries(queries, lines, source.label):
        place = SourcePlace(source.label, line)
        text = query.get("query_text", query.get("query"))
        if "placeholders" in query:
            text = next(iter(query["placeholders"].values()), None) if isinstance(query["placeholders"], dict) else None
        if not isinstance(text, str) or not text:
            raise place.error("the query has no text", code="missing-text", field="query_text")
        entry: dict[str, Any] = {"query_id": text, "query": text, "gold": _ratings(query, place)}
        if query.get("information_need"):
            entry["tags"] = {"information_need": str(query["information_need"])}
        yield line, entry


def _ratings(query: Mapping[str, Any], place: SourcePlace) -> dict[str, Any]:
    """Document → rating; documents without a rating are left out."""
    rated = query.get("ratings", query.get("relevant_documents"))
    if isinstance(rated, list):
        rated = {one.get("doc_id"): one.get("rating") for one in rated if isinstance(one, dict)}
    if not isinstance(rated, dict):
        expected = "ratings by document"
        raise place.error("wrong type", code="wrong-type", field="ratings", expected=expected, got=rated)
    gains = {doc: one.get("gain") if isinstance(one, dict) else one for doc, one in rated.items()}
    return {str(doc): grade for doc, grade in gains.items() if grade is not None and doc is not None}


def _rows(source: Source) -> Iterator[tuple[int, dict[str, str]]]:
    for line, row in rows_of(source):
        yield line, {name.strip().lower(): value.strip() for name, value in row.items()}


def _query_text(row: Mapping[str, str], place: SourcePlace) -> str:
    text = row.get("query text") or row.get("query")
    if not text:
        raise place.error("the query has no text", code="missing-text", field="query")
    return text


def _quepid_rated(source: Source) -> Numbered:
    """Rows of ratings; a row without a document names a query without ratings."""
    found: dict[str, dict[str, float]] = {}
    lines: dict[str, int] = {}
    for line, row in _rows(source):
        place = SourcePlace(source.label, line)
        query = _query_text(row, place)
        rated = found.setdefault(query, {})
        lines.setdefault(query, line)
        document = row.get("docid") or row.get("doc_id") or row.get("doc id")
        if not document or not row.get("rating"):
            continue
        try:
            grade = float(row["rating"])
        except ValueError:
            raise place.error(
                "not a rating", code="bad-value", field="rating", expected="a number", got=row["rating"]
            ) from None
        if rated.setdefault(document, grade) != grade:
            raise place.error(
                f"{document} already has another rating for this query ({rated[document]:g})",
                code="contradiction",
                query=query,
                field="rating",
                got=grade,
            )
    yield from ((lines[query], {"query_id": query, "query": query, "gold": rated}) for query, rated in found.items())


def quepid_run(source: Source, options: ReadOptions) -> Run:
    """Documents by position, of a snapshot or of the last search of a case."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line, row in _rows(source):
        place = SourcePlace(source.label, line)
        system = row.get("snapshot name") or row.get("case name") or ""
        hits = found.setdefault((system, _query_text(row, place)), [])
        position = row.get("doc position", "")
        if not row.get("doc id"):
            continue
        if not position.isdecimal():
            expected = "a whole number"
            raise place.error(
                "not a position", code="bad-value", field="Doc Position", expected=expected, got=position or None
            )
        hits.append({"chunk_id": row["doc id"], "rank": int(position)})
    records = ({"query_id": q, "query": q, "system": s, "topk": hits} for (s, q), hits in found.items())
    return _run(records, source, options)


def _run(records: Iterable[dict[str, Any]], source: Source, options: ReadOptions) -> Run:
    return RunLog(source.label, list(records), options.system, options.hits)


def rank_eval_gold(source: Source, options: ReadOptions) -> Gold:
    return _gold(_requests(source), source, options)


def _requests(source: Source) -> Numbered:
    value, lines = read_document(source)
    requests = value.get("requests") if isinstance(value, dict) else None
    for line, request in list_entries(requests, lines, source.label):
        place = SourcePlace(source.label, line)
        query, ratings = request.get("id"), request.get("ratings")
        if not isinstance(query, (str, int)) or isinstance(query, bool):
            raise place.error("the field is missing", code="missing-field", field="id", hint="every request has an id")
        if not isinstance(ratings, list):
            raise place.error("wrong type", code="wrong-type", field="ratings", expected="a list", got=ratings)
        gold = []
        for at, one in enumerate(ratings):
            if not isinstance(one, dict) or one.get("_id") is None or one.get("rating") is None:
                raise place.error(
                    "not a rating",
                    code="wrong-type",
                    field=f"ratings[{at}]",
                    query=str(query),
                    expected="an object with _id and rating",
                    got=one,
                )
            gold.append({"id": one["_id"], "grade": one["rating"]})
        text = _asked(request.get("params"), _DEEP) or _asked(request.get("request"), _DEEP)
        yield line, {"query_id": query, **({} if text is None else {"query": text}), "gold": gold}


def _asked(body: Any, deep: int) -> str | None:
    """The text that a search looks for: the first value of `query`, or of a field of `match`."""
    if isinstance(body, list):
        return next((text for one in body[:100] if deep and (text := _asked(one, deep - 1)) is not None), None)
    if not isinstance(body, dict) or not deep:
        return None
    said = [body.get(name) for name in ("query", "query_string", "query_text", "model_text")]
    for name in ("match", "match_phrase", "match_bool_prefix"):
        if isinstance(body.get(name), dict):
            said += body[name].values()
    text = next((one for one in said if isinstance(one, str) and one.strip()), None)
    if text is not None:
        return text
    inner = (one for one in body.values() if isinstance(one, (dict, list)))
    return next((text for one in inner if (text := _asked(one, deep - 1)) is not None), None)


def rank_eval_run(source: Source, options: ReadOptions) -> Run:
    """The hits of a response, in their order. Queries that failed have an error."""
    value, _ = read_document(source)
    place = SourcePlace(source.label, None)
    details = value.get("details") if isinstance(value, dict) else None
    if not isinstance(details, dict):
        raise place.error("wrong type", code="wrong-type", field="details", expected="an object", got=details)
    failures = value.get("failures")
    records = [{"query_id": query, "topk": _found(one, query, place)} for query, one in details.items()]
    for query, failed in (failures if isinstance(failures, dict) else {}).items():
        if query not in details:
            records.append({"query_id": query, "topk": [], "error": failed})
    return _run(records, source, options)


def _found(detail: Any, query: str, place: SourcePlace) -> list[dict[str, Any]]:
    hits = detail.get("hits") if isinstance(detail, dict) else None
    found: list[dict[str, Any]] = []
    for one in hits if isinstance(hits, list) else [None]:
        hit = one.get("hit") if isinstance(one, dict) else None
        if not isinstance(hit, dict) or hit.get("_id") is None:
            expected = 'a list of {"hit": {"_id": …}, "rating": …}'
            raise place.error("not hits", code="wrong-type", field="hits", query=query, expected=expected, got=one)
        score = hit.get("_score")
        found.append({"chunk_id": hit["_id"], "rank": len(found) + 1, **({} if score is None else {"score": score})})
    return found
