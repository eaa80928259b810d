"""Reads books of Quepid: ratings of documents by several people, as CSV (one column per person) or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import floor
from typing import Any, NamedTuple

from karat.formats.base import Source, SourcePlace
from karat.formats.records import list_entries, read_document
from karat.formats.table_file import rows_of

ANONYMOUS = "Anonymous"  # as Quepid calls a person without an account


class BookRating(NamedTuple):
    """What one person says about one document. Without a rating, the person could not rate it, or has not yet."""

    place: SourcePlace
    query: str
    document: str
    person: str
    rating: float | None
    need: str | None = None  # what the query is meant to find


def judgements(source: Source) -> Iterator[BookRating]:
    return _of_json(source) if source.looks_like_json else _of_table(source)


def _of_table(source: Source) -> Iterator[BookRating]:
    for line, row in rows_of(source):
        place = SourcePlace(source.label, line)
        cells = {name.strip(): value.strip() for name, value in row.items()}
        pair = {name.lower(): value for name, value in cells.items() if name.lower() in ("query", "docid")}
        query, document = _named(pair.get("query"), "query", place), _named(pair.get("docid"), "docid", place)
        for name, value in cells.items():
            if name.lower() not in pair and value:
                yield BookRating(place, query, document, name, _rating(value, name, place))


def _of_json(source: Source) -> Iterator[BookRating]:
    value, lines = read_document(source)
    for line, pair in list_entries(value.get("query_doc_pairs"), lines, source.label):
        place = SourcePlace(source.label, line)
        query = _named(pair.get("query_text"), "query_text", place)
        document = _named(pair.get("doc_id"), "doc_id", place)
        need, given = pair.get("information_need"), pair.get("judgements")
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            expected = "a list of judgements"
            raise place.error("wrong type", code="wrong-type", field="judgements", expected=expected, got=given)
        for one in given:
            rating = None if one.get("unrateable") or one.get("judge_later") else one.get("rating")
            person = str(one.get("user_email") or ANONYMOUS)
            rated = None if rating is None else _rating(rating, "rating", place)
            yield BookRating(place, query, document, person, rated, need if isinstance(need, str) and need else None)


def _named(value: Any, field: str, place: SourcePlace) -> str:
    if not isinstance(value, (str, int)) or isinstance(value, bool) or value == "":
        raise place.error("the field is missing", code="missing-field", field=field)
    return str(value)


def _rating(value: Any, field: str, place: SourcePlace) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise place.error("not a rating", code="bad-value", field=field, expected="a number", got=value) from None


def entries_of_book(source: Source) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The queries of a book with one rating per document, as Quepid gives them to a case."""
    rated: dict[str, dict[str, list[float]]] = {}
    lines: dict[str, int | None] = {}
    needs: dict[str, str] = {}
    for one in judgements(source):
        lines.setdefault(one.query, one.place.line)
        documents = rated.setdefault(one.query, {})
        if one.rating is not None:
            documents.setdefault(one.document, []).append(one.rating)
        if one.need is not None:
            needs.setdefault(one.query, one.need)
    whole = all(rating.is_integer() for of in rated.values() for ratings in of.values() for rating in ratings)
    for query, documents in rated.items():
        gold = {document: settled(ratings, whole=whole) for document, ratings in documents.items()}
        tags = {"tags": {"information_need": needs[query]}} if query in needs else {}
        yield lines[query], {"query_id": query, "query": query, "gold": gold, **tags}


def settled(ratings: Iterable[float], *, whole: bool) -> float:
    """One rating of several, by Quepid's rule: the mean of one or two, else the lowest of the three highest.

    `whole`: people rate in whole numbers, so the mean is rounded, a half upwards.

    >>> settled([3, 2], whole=True), settled([3, 2], whole=False), settled([0, 3, 3, 2], whole=True)
    (3, 2.5, 2)
    """
    highest = sorted(ratings, reverse=True)[:3]
    if len(highest) == 3:
        return highest[-1]
    mean = sum(highest) / len(highest)
    return floor(mean + 0.5) if whole else mean
