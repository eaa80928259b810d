"""Every page from 390 to 1,600 px, light and dark: nothing is cut off, and all of it can be reached with Tab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accessibility import grave_faults
from playwright.sync_api import Browser, Page

from karat.demo.helpdesk import write_demo_pool
from karat.history.store import Store
from karat.labels.desk import open_desk
from karat.systems.live import LiveRetrievers
from karat.web.access import Access

WIDTHS = (390, 800, 1200, 1600)
ADDRESSES = (
    "/runs",
    "/runs?columns=recall@5,ndcg@5,mrr,recall@1,recall@10,latency_p90&choose=1",
    "/runs?branch=nothing-of-it",
    "/runs/main",
    "/runs/main/queries",
    "/runs/main/triage",
    "/trend?metric=recall@5&branch=&lines=branch",
    "/compare",
    "/compare?run=release&run=main&run=mended",
    "/query",
    "/query?query_id=q_000208",
    "/query?query_id=q_000208&run=main",
    "/query?query_id=q_000208&run=release&run=main",
    "/labels",
    "/labels/pool",
    "/labels/pool/name",
    "/labels/pool/agreement",
    "/labels/closed",
    "/desk/new",
    "/desk/new?choice=unjudged&run=main&k=10&limit=50&count=1",
    "/desk/pools/open",
    "/try",
    "/pins",
    "/deleted",
    "/audit",
    "/retention?keep_last=1",
    "/login",
)
# Other tests look at the others with axe.
NEW = ("/labels", "/labels/closed", "/desk/new", "/desk/pools/open", "/runs?branch=nothing-of-it")


def found(query: str, k: int) -> list[Any]:
    return [{"id": f"doc_10{i}#p1", "score": 9.0 - i, "text": f"Refund {i}. " * 40} for i in range(min(k, 4))]


@pytest.fixture(scope="module")
def address(demo: Store, serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("every_width")
    pool, labels = write_demo_pool(folder)
    live = LiveRetrievers({"one": found, "two": lambda query, k: found(query, k)[::-1]})
    with (
        open_desk([pool], labels, folder=folder / "desk") as desk,
        serving(demo, Access(), desk, live=live) as site,
    ):
        for name in ("open", "closed"):
            selection = {"choice": "unjudged", "runs": ["main"], "k": 10, "limit": 5}
            made = site.write("POST", "/desk/pools", {"name": name, "selection": selection, "assigned": ["ann"]})
            assert made.status == 200
        assert site.write("PUT", "/pools/closed", {"closed": True}).status == 200
        yield site.url


@pytest.fixture(scope="module")
def tab(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context()
    context.add_cookies([{"name": "karat_annotator", "value": "ann", "url": address}])
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []


def fits(tab: Page) -> None:
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, (tab.url, width)


def is_accessible(tab: Page) -> None:
    """Narrow and dark, then wide and light."""
    for width, scheme in ((390, "dark"), (1600, "light")):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert grave_faults(tab) == [], (tab.url, width)


# What has the focus: where it is in the page, and whether this shows.
FOCUS = """() => {
    const here = document.activeElement;
    if (here === document.body) return null;
    const style = getComputedStyle(here);
    const places = [...document.querySelectorAll("*")];
    return [places.indexOf(here), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
}"""


def walk(tab: Page) -> None:
    """Tab goes through the page in its order, shows where it is, and leaves it at the end."""
    tab.evaluate("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    places: list[int] = []
    for _ in range(400):
        tab.keyboard.press("Tab")
        at = tab.evaluate(FOCUS)
        if at is None or (places and at[0] == places[0]):
            break
        assert at[1], tab.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        places.append(at[0])
    else:
        raise AssertionError("Tab does not leave the page")
    assert places == sorted(places)
    assert len(places) > 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off(tab: Page, address: str, scheme: Any) -> None:
    tab.emulate_media(color_scheme=scheme)
    for path in ADDRESSES if scheme == "light" else ADDRESSES[::5]:  # colours do not change the layout
        response = tab.goto(address + path)
        assert response is not None
        assert response.status == 200, path
        fits(tab)


def test_the_new_pages_are_accessible(tab: Page, address: str) -> None:
    for path in NEW:
        tab.goto(address + path)
        is_accessible(tab)


def test_a_live_query_from_the_question_to_a_gold_query(tab: Page, address: str) -> None:
    """With keys only."""
    tab.goto(f"{address}/try")
    tab.focus("textarea[name=question]")
    tab.keyboard.type("How long does a refund take?")
    tab.focus("button:has-text('Ask')")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    fits(tab)
    is_accessible(tab)
    tab.wait_for_selector(".with-keys")
    for key in "j2j0":
        tab.keyboard.press(key)
    walk(tab)
    tab.focus("button:has-text('Keep as a gold query')")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    assert "desk-how-long-does-a-refund-take" in tab.inner_text("main")
    fits(tab)
    is_accessible(tab)


@pytest.mark.parametrize("path", ["/runs", "/desk/new", "/query?query_id=q_000208&run=release&run=main", "/retention"])
def test_tab_goes_through_a_page(tab: Page, address: str, path: str) -> None:
    tab.set_viewport_size({"width": 1200, "height": 900})
    tab.goto(address + path)
    walk(tab)
