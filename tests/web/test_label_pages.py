"""Labelling in a real browser: by keys, by plain forms, and how it looks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from accessibility import grave_faults
from browsing import follow, wait_until
from logins import access_of
from playwright.sync_api import Browser, Page

from karat.history.queries import scores_of
from karat.history.store import Store
from karat.labels.desk import Desk, open_desk
from karat.labels.files import read_labels
from karat.web.access import Access

HOSTILE = "<script>window.hacked = 1</script>\" onmouseover='window.hacked = 1' {{ 7 * 7 }} </textarea>\u202e"


@contextmanager
def quiet(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page that must not complain."""
    context = browser.new_context(**options)
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert complaints == []


# Tests ask for the server before they ask for a tab, so that it outlives what the tab may still be loading.
@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    with quiet(browser, viewport={"width": 1280, "height": 900}) as page:
        yield page


def press(page: Page, key: str) -> None:
    """And wait for what comes next."""
    page.wait_for_selector(".with-keys")  # a page that was just loaded may not listen yet
    before = page.inner_text("#count")
    page.keyboard.press(key)
    wait_until(page, "before => document.getElementById('count').innerText !== before", before)


def counts(page: Page) -> list[int]:
    """Graded, skipped, left, of how many."""
    return [int(number) for number in re.findall(r"\d+", page.inner_text("#count"))]


def test_ten_pairs_by_the_keyboard(labelling: Any, tab: Page, tmp_path: Path) -> None:
    tab.goto(f"{labelling.url}/runs")
    follow(tab, "nav >> text=Labels")
    follow(tab, ".begin")
    tab.fill("input[name=name]", "ann")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    assert counts(tab) == [0, 0, 10, 10]
    assert "m-1" not in tab.inner_text("main")  # the judge waits
    assert tab.locator("mark").count() > 0 or "Nothing" in tab.inner_text(".passage")
    tab.keyboard.press("x")  # means nothing
    tab.keyboard.press("Control+2")
    seen = []
    for key in "210s21":
        seen.append(tab.inner_text(".passage code"))
        press(tab, key)
    assert tab.inner_text("#yours") == "1 partial"
    assert tab.locator(".judge").count() == 1
    assert tab.locator(".last").bounding_box()["height"] < 120  # type: ignore[index]  # beside each other
    press(tab, "u")
    assert tab.inner_text(".passage code") == seen[-1]
    assert counts(tab) == [4, 1, 5, 10]
    tab.keyboard.press("n")
    tab.keyboard.type("20 s u 1")  # a note, no grades
    tab.keyboard.press("Escape")
    press(tab, "0")
    assert "20 s u 1" in tab.inner_text(".last")
    waiting = tab.inner_text(".passage code")
    tab.reload()
    assert tab.inner_text(".passage code") == waiting  # on where it was
    for key in "2102":
        press(tab, key)
    assert counts(tab) == [9, 1, 0, 10]
    follow(tab, "a[href*='skipped=1']")
    assert tab.inner_text(".passage code") == seen[3]
    press(tab, "1")
    assert counts(tab) == [10, 0, 0, 10]
    with tab.expect_download() as downloaded:
        tab.click("text=Download all labels")
    assert downloaded.value.suggested_filename == "pool-labels.jsonl"
    assert read_labels(downloaded.value.path()).annotators == ["ann"]
    lines = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [line["grade"] for line in lines] == [2, 1, 0, None, 2, 0, 2, 1, 0, 2, 1]
    assert lines[5]["note"] == "20 s u 1"
    follow(tab, "nav >> text=Labels")
    assert tab.locator("tbody tr").inner_text().split() == ["ann", "10", "0", "0"]


def test_what_cannot_be_stored_is_said_and_tried_again(browser: Browser, labelling: Any) -> None:
    context = browser.new_context()
    context.add_cookies([{"name": "karat_annotator", "value": "ann", "url": labelling.url}])
    page = context.new_page()
    page.goto(f"{labelling.url}/labels/pool")
    page.wait_for_selector(".with-keys")
    page.route("**/labels/pool", lambda route: route.abort())
    page.bring_to_front()
    for _ in range(100):  # a busy browser may not have the focus yet
        page.keyboard.press("2")
        page.wait_for_timeout(300)
        if page.is_visible("#trouble"):
            break
    assert page.inner_text("#trouble")
    page.unroute("**/labels/pool")
    mark = page.input_value("input[name=pair]")
    pair = labelling.get("/pools/pool/next", annotator="ann").json["pair"]
    body = {"query_id": pair["query_id"], "chunk_id": pair["chunk_id"], "grade": 1, "annotator": "ann"}
    labelling.write("POST", "/pools/pool/labels", body)  # in another window
    page.keyboard.press("2")
    page.wait_for_selector("#trouble:has-text(': 1')")
    page.reload()
    assert page.input_value("input[name=pair]") != mark
    press(page, "2")
    assert not page.is_visible("#trouble")
    context.close()


def test_plain_forms_and_a_log_in(browser: Browser, store: Store, desk: Desk, serving: Any, tmp_path: Path) -> None:
    """Without any script, as a browser sends them."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    with serving(store, access_of("ada"), desk) as site:
        page.goto(f"{site.url}/labels/pool")
        page.fill("input[name=name]", "ada")
        page.fill("input[name=password]", "correct horse")
        follow(page, "button:has-text('Log in')")
        follow(page, "nav >> text=Labels")
        follow(page, "text=Label as ada")
        for button in ("strong", "partial", "skip", "undo", "irrelevant"):
            follow(page, f"button:has-text('{button}')")
        assert page.inner_text("#count").startswith("ada: ")
        assert counts(page) == [3, 0, 7, 10]
    context.close()
    assert [(x.annotator, x.grade) for x in read_labels(tmp_path / "labels.jsonl")] == [("ada", g) for g in (2, 1, 0)]


@pytest.fixture
def hostile(store: Store, serving: Any, tmp_path: Path) -> Iterator[str]:
    """Every text tries to be more than text; some labels are there."""
    pairs = [{"query_id": f"{HOSTILE}{i}", "chunk_id": HOSTILE} for i in range(4)]
    text = {"query": HOSTILE, "title": HOSTILE, "text": HOSTILE * 40, "near_duplicate_of": HOSTILE}
    judge = {"annotator": HOSTILE, "kind": "judge"}
    files = {
        "pool": [{**pair, **text} for pair in pairs],
        "judge": [{**pair, **judge, "grade": i % 2} for i, pair in enumerate(pairs)],
        "labels": [
            {**pair, "annotator": name, "grade": (i + at) % 3, "note": HOSTILE}
            for at, name in enumerate(("ann", HOSTILE[:60]))
            for i, pair in enumerate(pairs[: 3 + at])
        ],
    }
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pool, judged, labels = (str(tmp_path / f"{name}.jsonl") for name in files)
    with open_desk([pool], labels, [judged]) as desk, serving(store, Access(), desk) as site:
        yield site.url


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_every_page_looks_right_whatever_the_texts(browser: Browser, hostile: str, scheme: Any, width: int) -> None:
    with quiet(browser, color_scheme=scheme, viewport={"width": width, "height": 800}) as page:
        page.context.add_cookies([{"name": "karat_annotator", "value": "ann", "url": hostile}])
        for address in ("", "/pool", "/pool/name", "/pool/agreement", "/pool/calibration"):
            response = page.goto(f"{hostile}/labels{address}")
            assert response is not None
            assert response.status == 200
            if address == "/pool":
                assert HOSTILE[:-1] in page.inner_text(".passage")  # as text, and nothing turned around
                assert page.locator(".grades").bounding_box()["y"] < 800  # type: ignore[index]
            assert page.evaluate("window.hacked") is None
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert grave_faults(page) == []


def test_a_pool_and_grades_by_the_keyboard(tab: Page, demo: Any, serving: Any, tmp_path: Path) -> None:
    """From counting pairs to a pool, then grades on the page of a query: with keys only, wide and narrow."""
    run = demo.find("main")
    query = scores_of(demo, run, limit=1).rows[0].query_id
    with open_desk([], None, folder=tmp_path / "desk") as desk, serving(demo, Access(), desk) as site:
        tab.context.add_cookies([{"name": "karat_annotator", "value": "ann", "url": site.url}])
        tab.goto(f"{site.url}/desk/new?run={run}&choice=queries&query={query}")
        tab.focus("button[name=count]")
        with tab.expect_navigation():
            tab.keyboard.press("Enter")
        _is_accessible(tab, 1280)
        tab.focus("input[name=name]")
        tab.keyboard.type("first")
        with tab.expect_navigation():
            tab.keyboard.press("Enter")
        assert list(desk.pools) == ["first"]
        tab.goto(f"{site.url}/query?query_id={query}&run={run}")
        tab.wait_for_selector(".with-keys")
        for key, labels in (("j", 0), ("2", 1), ("0", 2), ("k", 2), ("u", 1), ("n", 1)):
            tab.keyboard.press(key)
            wait_until(tab, "n => document.querySelectorAll('.yours').length === n", labels)
        tab.keyboard.type("2 s")  # a note, no grades
        tab.keyboard.press("Escape")
        tab.keyboard.press("1")
        wait_until(tab, "document.querySelectorAll('.yours').length === 2")
        assert tab.locator("table.effect tbody tr").count() > 0
        assert [(x.grade, x.saw, x.note) for x in desk.people()] == [(2, "ranking", None), (1, "ranking", "2 s")]
        _is_accessible(tab, 1280)
        tab.emulate_media(color_scheme="dark")
        tab.set_viewport_size({"width": 390, "height": 900})
        _is_accessible(tab, 390)


def _is_accessible(tab: Page, width: int) -> None:
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert grave_faults(tab) == []
