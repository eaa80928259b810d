"""The pictures of reports in the docs: `make pictures` takes them of the whole demo set."""

from __future__ import annotations

from typing import Any

import pytest
from pictures import REPORTS, TAKING, Picture, check, opened
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def shown(pages: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return type(pages)(tmp_path_factory.mktemp("whole"), whole=True) if TAKING else pages


@pytest.mark.parametrize("picture", REPORTS, ids=lambda picture: picture.name)
def test_a_report_still_is_what_its_picture_shows(picture: Picture, browser: Browser, shown: Any) -> None:
    with opened(picture, browser, shown[picture.address].as_uri()) as page:
        check(picture, page)
