"""Which process runs which tests, and in which order (`pytest -n auto --dist loadfile`).

Tests of one file run in one process, so that a fixture of that file is made once. Files that share something expensive
(a Spark session, a history, a browser) run in one process as well. What takes longest begins first: otherwise one
process would be left alone with it at the end.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

# Beginnings of paths, those that take longest first. Files that begin alike are one unit; `SHARING` join another one.
LONGEST: tuple[str, ...] = (
    "tests/web/",
    "tests/scoring/engines/test_spark",
    "tests/history/",
    "tests/report/page/",
    "tests/test_doc_pages",
    "tests/ci/",
    "tests/test_bad_input",
    "tests/cli/test_every_option",
    "tests/test_pytest_plugin",
    "tests/scoring/metrics/test_every_metric",
    "tests/cli/test_missing_packages",
    "tests/cli/test_bytes_parsed",
    "tests/formats/test_compression",
    "tests/test_fuzz",
    "tests/formats/test_trec",
    "tests/architecture/test_types",
    "tests/test_notebooks",
    "tests/retrievers/test_real_corpora",
    "tests/wording/",
    "tests/test_release",
    "tests/formats/test_native_sanitized",
    "tests/cli/test_doubts",
    "tests/test_site",
    "tests/cli/test_first_hour",
)
SHARING = {"tests/demo/test_demo.py": "tests/web/"}  # the history of `karat serve --demo`


class LongestFirst(LoadScopeScheduling):
    """One unit of tests after the other, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """
    >>> unit_of("tests/web/test_api.py::test_one"), unit_of("tests/data/test_ids.py::TestIds::test_two[3]")
    ('tests/web/', 'tests/data/test_ids.py')
    """
    file = nodeid.partition("::")[0]
    return SHARING.get(file) or next((start for start in LONGEST if file.startswith(start)), file)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort what was collected; all others keep their order."""
    places = {start: place for place, start in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(unit_of(item.nodeid), len(places)))
