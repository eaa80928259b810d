"""Pages in a real browser, which blocks every request that leaves the machine and whose console must stay silent.

It is Debian's chromium (`make test` installs it where it may); where there is none the tests are skipped, unless
KARAT_REQUIRE_BROWSER=1 asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from accessibility import grave_faults
from browsing import Tabs, wait_for_address, wait_until
from playwright.sync_api import Browser, Locator, Page

import karat
from karat.report.blocks import Chart, Example, Line, Listing, Report, Section, Series
from karat.report.export import page as page_of
from karat.report.renderers.html import render_html
from karat.report.triage import changed_blocks
from karat.results.queries.changed import changed_queries
from karat.scoring.metrics.grammar import parse_metric

LIGHT, DARK, PAPER = "rgb(253, 253, 252)", "rgb(21, 24, 28)", "rgb(255, 255, 255)"
Open = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="session")
def opened(browser: Browser) -> Iterator[Open]:
    """Opens a file; at the end nothing may have been asked for and nothing may stand in the console."""
    tabs = Tabs(browser, "file:", reduced_motion="reduce")

    @contextmanager
    def open_file(file: Path, *, width: int = 1200, dark: bool = False, script: bool = True) -> Iterator[Page]:
        with tabs.open(width, 800, dark=dark, script=script) as page:
            page.goto(file.as_uri())
            yield page

    yield open_file
    tabs.close()


@pytest.fixture(scope="module")
def report(pages: Any, opened: Open) -> Iterator[Page]:
    """The report, loaded once for tests that each look at another part of it and leave no filter behind."""
    with opened(pages["report"]) as page:
        yield page


def violations(page: Page) -> list[str]:
    """What axe-core calls serious or critical, of a page with its first query and its first numbers unfolded."""
    page.evaluate("for (const kind of ['.example', '.numbers']) document.querySelector(kind)?.setAttribute('open', '')")
    return grave_faults(page)


def ground(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def width_of(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


BOXES = "() => [...document.querySelectorAll('svg[role=img]')].map((e) => e.getBoundingClientRect().toJSON())"


@pytest.mark.parametrize("name", ["report", "diff", "verdict"])
def test_it_opens_in_light_and_dark_and_at_any_width(pages: Any, opened: Open, name: str) -> None:
    with opened(pages[name]) as page:
        for width, dark in ((1200, False), (1600, True), (400, False)):
            page.emulate_media(color_scheme="dark" if dark else "light")
            page.set_viewport_size({"width": width, "height": 800})
            assert width_of(page) == width  # tables scroll for themselves, the page never sideways
            assert (ground(page) == DARK) == dark
            boxes = page.evaluate(BOXES)
            assert len(boxes) >= 3
            assert all(box["left"] >= 0 and box["right"] <= width for box in boxes)


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("few", 1200, False), ("few", 400, True), ("few_judged", 1200, True)]
)
def test_axe_finds_nothing_serious(pages: Any, opened: Open, name: str, width: int, dark: bool) -> None:
    with opened(pages[name], width=width, dark=dark) as page:
        assert violations(page) == []


@pytest.mark.parametrize("name", ["report", "verdict"])
def test_everything_is_there_without_a_script(pages: Any, opened: Open, name: str) -> None:
    with opened(pages[name], script=False) as page:
        assert page.locator("svg.chart").first.is_visible()
        assert not page.locator("#theme").is_visible()
        assert page.locator("th button").count() == 0
        worst = table(page, "Worst queries")
        assert len(column(worst, 1)) == worst.locator("tbody tr").count() > 5
        page.get_by_role("navigation").get_by_role("link", name="Worst queries").click()
        wait_for_address(page, "#worst")


def table(page: Page, section: str) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name=section)).locator("table.grid").first


def column(grid: Locator, number: int) -> list[str]:
    return [text.strip() for text in grid.locator(f"tbody tr:visible > :nth-child({number})").all_inner_texts()]


def test_a_table_is_sorted_with_the_keyboard(report: Page) -> None:
    grid = table(report, "Spread over queries")
    before = column(grid, 1)
    median = grid.get_by_role("button", name="median")
    head = grid.get_by_role("columnheader", name="median")
    median.focus()
    report.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    values = [float(text) for text in column(grid, 3)]
    assert values == sorted(values)
    report.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    values = [float(text) for text in column(grid, 3)]
    assert values == sorted(values, reverse=True)
    report.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") is None
    assert column(grid, 1) == before
    outline = report.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # whoever has no mouse sees where they are


def test_intervals_sort_by_their_value_and_unknown_is_last(report: Page) -> None:
    by_topic = report.locator("table.grid", has=report.get_by_role("columnheader", name="topic")).first
    by_topic.get_by_role("button", name="recall@5").click()
    values = [float(text.split()[0]) for text in column(by_topic, 3)]
    assert len(values) == 11
    assert values == sorted(values)
    scores = table(report, "Scores")
    for _ in range(2):  # up, then down: what has no ceiling stands at the end in both
        scores.get_by_role("button", name="ceiling").click()
        assert column(scores, 4)[-4:] == ["–"] * 4


def test_a_long_table_is_folded_and_filtered(report: Page) -> None:
    section = report.locator("section", has=report.get_by_role("heading", name="Worst queries"))
    grid = table(report, "Worst queries")
    assert len(column(grid, 1)) == 12
    section.get_by_role("button", name="Show all 50 rows").click()
    assert len(column(grid, 1)) == 50
    section.get_by_role("searchbox").fill("REFUND")
    texts = column(grid, 5)
    assert 0 < len(texts) < 50
    assert all("refund" in text.lower() for text in texts)
    assert section.get_by_role("status").inner_text() == f"{len(texts)} of 50 rows"


def titles_of(example: Locator) -> list[str]:
    return example.locator(".listings > div > p:first-child").all_inner_texts()


def shown_examples(page: Page) -> list[str]:
    return page.locator(".example:visible > summary b").all_inner_texts()


def unpaged(section: Locator) -> None:
    """All queries at once."""
    section.get_by_label("Queries per page").select_option("0")


def test_failed_queries_are_filtered_and_the_filter_lives_in_the_address(pages: Any, opened: Open) -> None:
    with opened(pages["report"]) as page:
        section = page.locator("section", has=page.get_by_role("heading", name="Where it fails"))
        unpaged(section)
        everything = shown_examples(page)
        section.get_by_label("Filter by language").select_option("es-AR")
        spanish = shown_examples(page)
        assert 0 < len(spanish) < len(everything)
        assert section.get_by_role("status").inner_text() == f"{len(spanish)} of {len(everything)} queries"
        wait_for_address(page, "#triage&language=es-AR")
        section.get_by_role("searchbox").fill("no such words anywhere")
        assert shown_examples(page) == []
        section.get_by_role("searchbox").fill("")
        page.reload()
        assert shown_examples(page) == spanish
        first = section.locator(".example:visible").first
        first.locator("summary").focus()
        page.keyboard.press("Enter")
        assert len(titles_of(first)) == 3  # should be found, was found, and what word search finds
        assert first.locator("mark").count() > 0


def section_of(page: Page, name: str) -> Locator:
    return page.locator("section", has=page.get_by_role("heading", name=name))


def test_failed_queries_are_paged_with_the_keyboard(pages: Any, opened: Open) -> None:
    with opened(pages["report"]) as page:
        section = section_of(page, "Where it fails")
        everything = page.locator(".example > summary b").all_text_contents()
        assert len(everything) > 60
        assert shown_examples(page) == everything[:20]
        box = section.bounding_box()
        assert box is not None
        assert box["height"] < 2_000  # of 16,000 when all of them stood there
        above = section.get_by_role("navigation", name="Pages of queries", exact=True)
        following = above.get_by_role("button", name="Next")
        following.focus()
        page.keyboard.press("Enter")
        assert shown_examples(page) == everything[20:40]
        assert page.evaluate("document.activeElement.textContent") == "Next"
        wait_for_address(page, "#triage&page=2")
        page.reload()
        assert shown_examples(page) == everything[20:40]
        while following.get_attribute("aria-disabled") == "false":
            following.press("Enter")
        assert shown_examples(page) == everything[len(everything) // 20 * 20 :]
        following.press("Enter")  # there is no more
        assert shown_examples(page)[-1] == everything[-1]
        above.get_by_role("button", name="Previous").press("Space")
        last = section.get_by_role("navigation", name="below")
        last.get_by_role("button", name="Previous").press("Enter")  # and one goes on reading at the top of the page
        first = shown_examples(page)[0]
        assert first == everything[(len(everything) // 20 - 2) * 20]
        assert first in str(page.evaluate("document.activeElement.textContent"))
        section.get_by_label("Filter by language").select_option("en")  # a filter begins with its first page
        assert len(shown_examples(page)) == 20
        assert "page=" not in page.evaluate("location.href")
        unpaged(section)
        assert len(shown_examples(page)) > 20


def test_the_address_of_one_query_opens_its_page(pages: Any, opened: Open) -> None:
    with opened(pages["report"]) as page:
        last = page.locator(".example").last
        place = last.get_attribute("id")
        assert not last.is_visible()
        page.get_by_label("Search queries and hits").fill("no such words anywhere")
        page.evaluate("place => { location.hash = place; }", place)
        last.wait_for(state="visible")
        assert last.get_attribute("open") is not None
        assert page.get_by_label("Search queries and hits").input_value() == ""


def test_failed_queries_are_a_plain_list_without_a_script_and_on_paper(pages: Any, opened: Open) -> None:
    with opened(pages["report"], script=False) as page:
        everything = shown_examples(page)
        assert len(everything) == page.locator(".example").count() > 60
        assert page.get_by_role("button").count() == 0
    with opened(pages["report"]) as page:
        page.emulate_media(media="print")
        assert shown_examples(page) == everything
        assert page.locator(".pager:visible").count() == 0
        page.emulate_media(media="screen")
        section_of(page, "Where it fails").get_by_label("Filter by language").select_option("es-AR")
        page.emulate_media(media="print")
        assert 0 < len(shown_examples(page)) < len(everything)  # what was filtered stays filtered


def test_failed_queries_are_filtered_by_what_became_of_their_gold(report: Page) -> None:
    section = report.locator("section", has=report.get_by_role("heading", name="Where it fails"))
    unpaged(section)
    failed = shown_examples(report)  # every one of this part of the demo set
    field = section.get_by_label("Filter by finding")
    words = field.locator("option").all_inner_texts()[1:]
    assert len(words) > 2
    parts = []
    for text in words:
        field.select_option(text)
        parts += shown_examples(report)
    assert sorted(parts) == sorted(failed)
    field.select_option("")
    section.get_by_label("Filter by word search").select_option("finds more")
    first = section.locator(".example:visible").first
    first.locator("summary").click()
    lists = first.locator(".listings > div").all()
    assert lists[2].locator(".hit").count() > lists[1].locator(".hit").count()


PASSAGE = "What all of them found"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Four queries that found the same passage."""
    hits = [Line("1", "doc#1", "hit", {"score": "2.5"}, PASSAGE, [(0, 4)])]
    lists = [Listing("was found", hits)]
    queries = [Example(f"q{i}", "a query", {}, listings=lists, outcome="loss", brief=True) for i in range(4)]
    file = tmp_path / "shared.html"
    file.write_bytes(page_of(Report("Shared", [Section("triage", "Where it fails", queries)])))
    assert file.read_text().count(PASSAGE) == 1
    return file


def test_without_a_script_a_text_that_many_queries_show_is_found_by_its_id(shared: Path, opened: Open) -> None:
    with opened(shared, script=False) as page:
        last = page.locator(".example").last
        last.locator("summary").click()
        assert last.locator(".hit").inner_text() == "✓ 2.5 doc#1"
        assert page.locator(".passages li").inner_text() == f"doc#1\n\n{PASSAGE}"
        assert page.locator(".passages li").is_visible()


def test_a_text_that_many_queries_show_is_put_in_its_places(shared: Path, opened: Open) -> None:
    with opened(shared) as page:
        assert not page.locator(".passages li").is_visible()
        page.get_by_label("Search queries and hits").fill("all of THEM")
        assert len(shown_examples(page)) == 4
        last = page.locator(".example").last
        last.locator("summary").click()
        last.locator(".hit p").wait_for()  # the script fills it in after the click
        assert last.locator(".hit").inner_text() == f"✓ 2.5 doc#1\n\n{PASSAGE}"


def test_a_passage_that_changed_shows_each_side_its_own_text(tmp_path: Path, opened: Open) -> None:
    """The same ids in an index that was made anew: what stands under an id is what that run returned."""
    gold = [{"query_id": f"q{i}", "query": "how long?", "gold": ["doc#1", f"doc#{i + 3}"]} for i in range(40)]
    sides = []
    for version, order in (("OLD", (1, 2)), ("new", (2, 1))):
        hits = [
            [{"chunk_id": f"doc#{n}", "text": f"{version} text of {n}"} for n in (*order, i + 3)] for i in range(40)
        ]
        sides.append([{"query_id": f"q{i}", "topk": topk} for i, topk in enumerate(hits)])
    results = [karat.evaluate(side, gold, ["mrr", "recall@1"]) for side in sides]
    found = changed_queries(*results, parse_metric("mrr"), 100, sample=0, letters=300)
    examples = changed_blocks(found, "old", "new", in_full=3)
    file = tmp_path / "changed.html"
    file.write_bytes(page_of(Report("Changed", [Section("queries-1", "Query by query", examples)])))
    with opened(file) as page:
        unpaged(page.locator("main"))
        for example in page.locator(".example").all():
            example.locator("summary").click()
            example.locator("li p").first.wait_for()
            _, before, after = example.locator(".listings > div").all()
            assert all("OLD text of" in text for text in before.locator("li").all_inner_texts())
            assert all("new text of" in text for text in after.locator("li").all_inner_texts())


def long_ids(length: int) -> list[Example]:
    """A thousand queries that find the same passages, whose ids differ only at their end."""
    names = [f"{i:0>{length}}" for i in range(500)]
    return [
        Example(
            f"q{q}",
            "a query",
            {},
            listings=[
                Listing("was found", [Line("1", n, "miss", {}, f"text {int(n)} " * 40) for n in names[q % 400 :][:20]])
            ],
            brief=True,
        )
        for q in range(1000)
    ]


@pytest.mark.parametrize("length", [90, 300])
def test_texts_of_long_ids_are_their_own(length: int, tmp_path: Path, opened: Open) -> None:
    """Of 90 letters: numbers stand for them until somebody looks. Of 300: not shown whole, and so not looked up."""
    file = tmp_path / "long.html"
    file.write_bytes(page_of(Report("Long", [Section("triage", "Where it fails", long_ids(length))])))
    assert file.stat().st_size < 1_500_000
    with opened(file) as page:
        assert ("§17" in page.content()) == (length == 90)
        page.get_by_label("Search queries and hits").fill("text 7 ")
        example = page.locator(".example:visible").last
        example.locator("summary").click()
        example.locator("li p").first.wait_for()
        lines = example.locator("li").all_inner_texts()
        assert len(lines) == 20
        for line in lines:
            name, text = line.removeprefix("✗").strip().split("\n\n")
            assert f"text {int(name[-10:])} ".startswith(text[: len(f"text {int(name[-10:])} ")])
            assert len(name) == min(length, 120)


def test_queries_that_lost_or_gained_stand_beside_each_other(pages: Any, opened: Open) -> None:
    with opened(pages["diff"]) as page:
        section = page.locator("section", has=page.get_by_role("heading", name="Query by query"))
        for kind in ("lost", "gained", "changed"):
            section.get_by_label("Filter by outcome").select_option(kind)
            assert len(shown_examples(page)) > 0
        first = section.locator(".example:visible").first
        first.locator("summary").click()
        assert first.locator("summary small").inner_text() == "changed"
        titles = ["should be found", "before: bm25, by score", "after: bm25 + static rerank, by score"]
        assert titles_of(first) == titles


def test_links_lead_to_their_place(pages: Any, opened: Open) -> None:
    with opened(pages["report"]) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the first stop leads past the contents
        wait_until(page, "document.activeElement.id === 'content'")
        page.get_by_role("navigation").get_by_role("link", name="Audit").click()
        wait_for_address(page, "#audit")
        heading = page.get_by_role("heading", name="Audit")
        wait_until(
            page, "e => { const y = e.getBoundingClientRect().y; return 0 <= y && y < 800; }", heading.element_handle()
        )


def test_the_contents_are_there_when_a_narrow_window_becomes_wide(pages: Any, opened: Open) -> None:
    with opened(pages["report"], width=400) as page:
        audit = page.get_by_role("navigation").get_by_role("link", name="Audit")
        assert not audit.is_visible()
        page.set_viewport_size({"width": 1200, "height": 800})
        audit.wait_for(state="visible")


CROWDED = """() => [...document.querySelectorAll('svg[role=img]')].flatMap((chart) => {
  const boxes = [...chart.querySelectorAll('.tick.middle')].map((e) => e.getBoundingClientRect());
  boxes.sort((a, b) => a.left - b.left);
  return boxes.slice(1).filter((box, i) => box.left < boxes[i].right).map(() => chart.textContent.slice(0, 60));
})"""


@pytest.mark.parametrize("width", [400, 1200])
def test_numbers_of_an_axis_do_not_run_into_each_other(opened: Open, tmp_path: Path, width: int) -> None:
    """Score thresholds of a fused list: most of them close to each other."""
    at = [0.025, 0.03031, 0.03125, 0.03152, 0.032, 0.03226, 0.0323, 0.0326]
    chart = Chart("Over score thresholds", "score ≥", "share of queries", [Series("miss", at, [0.5] * len(at))])
    file = tmp_path / "chart.html"
    file.write_bytes(render_html(Report("Thresholds", [Section("no_answer", "No answer", [chart])])))
    with opened(file, width=width) as page:
        assert page.locator(".tick.middle").count() >= 2
        assert page.evaluate(CROWDED) == []


def test_the_theme_is_chosen_with_the_keyboard_and_kept(pages: Any, opened: Open) -> None:
    with opened(pages["report"]) as page:
        button = page.get_by_role("button", name="Theme")
        assert ground(page) == LIGHT
        button.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert button.inner_text() == "Theme: dark"
        assert ground(page) == DARK
        page.reload()
        assert ground(page) == DARK
        page.emulate_media(media="print")
        assert ground(page) == PAPER


def test_on_paper_nothing_is_folded(pages: Any, opened: Open) -> None:
    with opened(pages["report"]) as page:
        page.emulate_media(media="print")
        assert len(column(table(page, "Worst queries"), 1)) == 50
        assert not page.get_by_role("navigation").is_visible()
        assert not page.get_by_role("button", name="Theme").is_visible()
        assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("script", [True, False])
def test_hostile_data_does_no_harm(pages: Any, opened: Open, script: bool) -> None:
    with opened(pages["hostile"], width=400, script=script) as page:
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() == 1
        assert page.locator("img, iframe, form, [onload], [onerror]").count() == 0
        assert width_of(page) == 400
        assert page.get_by_role("heading", name=pages.hostile[0]).first.is_visible()
        if script:
            assert violations(page) == []


ATTEMPTS = """async (server) => {
  const refused = [];
  document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
  const add = (name, properties) =>
    document.body.append(Object.assign(document.createElement(name), properties));
  const picture = new Promise((done) => add("img", { src: server + "/picture.png", onerror: done }));
  add("script", { textContent: "window.hacked = 1" });
  add("style", { textContent: "body { color: red }" });
  await Promise.all([picture, fetch(server + "/data").catch(() => {})]);
  // What was refused is told a little later.
  const pause = () => new Promise((done) => setTimeout(done, 50));
  for (let i = 0; i < 100 && !window.hacked && refused.length < 4; i++) await pause();
  return refused.sort();
}"""


class Server(ThreadingHTTPServer):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        asked = self.asked = set[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.add(self.path)
                self.send_error(404)

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_policy_lets_nothing_out(pages: Any, browser: Browser, server: Server, tmp_path: Path) -> None:
    """Even if data became markup, the browser would neither load nor run it. Without the policy it does both."""
    page_text = pages["report"].read_text()
    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page_text))
    address = f"http://127.0.0.1:{server.server_port}"
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(pages["report"].as_uri())
        refused = page.evaluate(ATTEMPTS, address)
        assert refused == ["connect-src", "img-src", "script-src-elem", "style-src-elem"]
        assert page.evaluate("window.hacked") is None
        assert server.asked == set()
        page.goto(bare.as_uri())
        assert page.evaluate(ATTEMPTS, address) == []
        assert page.evaluate("window.hacked") == 1
        assert server.asked == {"/picture.png", "/data"}
