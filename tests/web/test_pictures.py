"""The pictures of the dashboard in the docs: `make pictures` takes them from the demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pictures import DASHBOARD, FOLDER, REPORTS, THEMES, Picture, check, opened
from playwright.sync_api import Browser

from karat.demo.helpdesk import write_demo_pool
from karat.history.store import Store
from karat.labels.desk import open_desk
from karat.web.access import Access


@pytest.fixture(scope="module")
def address(demo: Store, serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo, and its pool, of which somebody has graded a part."""
    pool, labels = write_demo_pool(tmp_path_factory.mktemp("pool"))
    with open_desk([pool], labels) as desk, serving(demo, Access(), desk) as site:
        given = desk.pools["pool"]
        for place, pair in enumerate(list(given.order("ann"))[:12]):
            desk.give(given, "ann", pair, (2, 0, 1)[place % 3])
        yield site.url


@pytest.mark.parametrize("picture", DASHBOARD, ids=lambda picture: picture.name)
def test_a_page_still_is_what_its_picture_shows(picture: Picture, browser: Browser, address: str) -> None:
    with opened(picture, browser, address + picture.address, karat_annotator="ann") as page:
        if picture.name == "triage":
            page.locator(".example > summary").first.click()
        check(picture, page)


def test_there_are_no_other_pictures() -> None:
    wanted = {picture.file(theme).name for picture in (*DASHBOARD, *REPORTS) for theme in THEMES}
    assert {path.name for path in FOLDER.iterdir()} == wanted
