"""A table as a CSV file, sent while it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from karat.errors.redaction import redact_known
from karat.report.tables import csv_lines
from karat.web.page import link

MOST_QUERIES = 100_000  # in a file
_AT_ONCE = 500  # rows


def csv_file(name: str, titles: Sequence[str], rows: Iterable[Sequence[object]], total: int, most: int) -> Response:
    """At most `most` of the rows. The name of a file that leaves some out says how many it has."""
    if total > most:
        name = f"{name}-first-{most}-of-{total}"
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return StreamingResponse(_parts(titles, islice(rows, most)), headers=headers, media_type="text/csv; charset=utf-8")


def csv_link(path: str, request: Request, total: int) -> tuple[str, str | None]:
    """The address of a table of queries as a file, and how many it has if it leaves some out."""
    return link(path, request, offset=None, all=None), f"{MOST_QUERIES:,}" if total > MOST_QUERIES else None


def _parts(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    left = chain([titles], rows)
    while some := list(islice(left, _AT_ONCE)):
        yield redact_known(csv_lines(some))
