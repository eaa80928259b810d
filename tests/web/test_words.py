"""What pages say to somebody who sees them for the first time."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import karat
from karat.history.folder import FolderStore
from karat.history.keep import keep_result
from karat.history.store import Store
from karat.report.fit import SIGNS
from karat.results.kept_run import KeptRun
from karat.web.access import Access


def text(site: Any, address: str) -> str:
    answer = site.ask("GET", address)
    assert answer.status == 200
    return unescape(answer.content.decode())


def main(page: str) -> str:
    return page.partition("<main")[2]


def test_the_query_page_says_that_it_wants_an_id(site: Any) -> None:
    empty, unknown, found = (text(site, f"/query{asked}") for asked in ("", "?query_id=How+long%3F", "?query_id=q1"))
    assert 'name="query_id"' in empty
    assert "How long?" in unknown
    assert len({main(page) for page in (empty, unknown, found)}) == 3


def test_signs_are_explained_where_hits_are(tmp_path: Path, serving: Any) -> None:
    gold = {f"q{i}": ["a"] for i in range(10)}
    with FolderStore(tmp_path / ".karat") as store:
        store.save(keep_result(karat.evaluate({query: ["x"] for query in gold}, gold)))
        with serving(store, Access()) as site:
            assert SIGNS in text(site, "/query?query_id=q1")
            assert SIGNS not in text(site, "/query")


def test_a_page_of_queries_leads_to_the_next(site: Any, store: Store, made_run: Callable[..., KeptRun]) -> None:
    store.save(made_run(9, 120), tags=["large"])
    first, second = (text(site, f"/runs/large/queries?offset={offset}") for offset in (0, 50))
    assert (">Next</a>" in first, ">Previous</a>" in first) == (True, False)
    assert (">Next</a>" in second, ">Previous</a>" in second) == (True, True)


def test_segments_are_promised_only_where_they_are_not_shown_yet(
    site: Any, store: Store, made_run: Callable[..., KeptRun]
) -> None:
    small = text(site, "/compare?run=n0&run=n2")
    assert "Segments: " in small
    assert "all=1" in small
    for number in (20, 21):
        store.save(made_run(number, 10_001), tags=[f"large{number}"])
    large = text(site, "/compare?run=large20&run=large21")
    assert "Segments: " not in large
    assert "all=1" in large


def test_the_table_of_all_comparisons_has_readings(site: Any) -> None:
    page = text(site, "/compare?run=n0&run=n1&run=n2")
    table = page[page.index('id="all"') : page.index('id="pair-1"')]
    assert "reading" in table
    assert "unclear" in table
