"""The pages, as HTML and in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import html5lib
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import karat
from karat.gates.gate import as_criteria, judge_result
from karat.history.folder import FolderStore
from karat.keeping import judgement, keep_result
from karat.web.access import SESSION, Access

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
GOLD = HELPDESK / "gold.jsonl"
HOSTILE = "<script>window.hacked = 1</script>\" onmouseover='window.hacked = 1' {{ 7 * 7 }} </title>"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> FolderStore:
    """Two real runs, judged, and one in which every text is hostile."""
    store = FolderStore(tmp_path_factory.mktemp("pages") / ".karat")
    baseline = None
    for day, name in enumerate(("bm25", "bm25_rerank"), 1):
        result = karat.evaluate(HELPDESK / f"{name}.jsonl", GOLD)
        verdicts = judge_result(result, as_criteria(["recall@5 >= 0.3", "ndcg@5 drop <= 0.02"]), baseline)
        saved_at = f"2025-06-0{day}T08:00:00.000000Z"
        kept = keep_result(result)
        store.save(kept, branch="main", tags=[name], saved_at=saved_at, judgements=[judgement(verdicts)])
        if baseline is None:
            store.pin(kept.id, "main", "baseline")
            baseline = result
    gold = [{"query_id": HOSTILE, "query": HOSTILE, "gold": ["never"], "tags": {"kind": HOSTILE}}]
    gold.append({"query_id": "plain", "query": HOSTILE, "gold": ["a"], "tags": {"kind": "b"}})
    hits = [{"chunk_id": HOSTILE, "text": HOSTILE}]
    run = [{"query_id": entry["query_id"], "system": HOSTILE, "topk": hits} for entry in gold]
    hostile = karat.evaluate(run, gold)
    hostile.provenance.update(code_version=HOSTILE, index_version=HOSTILE)
    store.save(keep_result(hostile), branch=HOSTILE, tags=["hostile"], saved_at="2025-05-01T08:00:00.000000Z")
    return store


@pytest.fixture(scope="module")
def pages(filled: FolderStore, serving: Any) -> Iterator[str]:
    with serving(filled, Access()) as site:
        yield site.url


@pytest.fixture
def tab(browser: Browser, pages: str) -> Iterator[Page]:
    """A page that may ask no other server, and must not complain."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.route("**/*", lambda r: r.continue_() if r.request.url.startswith(pages) else r.abort())
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert complaints == []


ADDRESSES = [
    "/runs",
    "/trend?metric=recall@5",
    "/trend?metric=recall@5&segment=language%3Dpt-BR",
    "/runs/bm25_rerank",
    "/runs/hostile",
    "/runs/bm25/queries",
    "/runs/hostile/queries",
    "/runs/bm25/triage",
    "/runs/hostile/triage",
    "/compare",
    "/compare?run=bm25&run=bm25_rerank",
    "/query",
    "/query?query_id=q_000118",
    "/query?query_id=plain",
    "/pins",
    "/login",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_every_page_in_a_browser(browser: Browser, pages: str, address: str, scheme: Any, width: int) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    response = page.goto(pages + address)
    assert response is not None
    assert response.status == 200
    assert complaints == []
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []
    context.close()


def test_from_the_list_to_a_query(tab: Page, pages: str) -> None:
    tab.goto(f"{pages}/runs")
    assert tab.locator("section[aria-labelledby=list] tbody tr").count() == 3
    tab.select_option("select[name=branch]", "main")
    tab.click("text=Filter")
    rows = tab.locator("section[aria-labelledby=list] tbody tr")
    assert rows.count() == 2
    assert "branch=main" in tab.url
    tab.click("section[aria-labelledby=systems] tbody tr:first-child td a")
    assert "recall@5 over time" in tab.title()
    tab.go_back()
    for box in tab.locator("input[type=checkbox]").all():
        box.check()
    tab.click("text=Compare the chosen runs")
    assert "first=oldest" not in tab.url  # it can be sent to somebody
    assert tab.locator("h1").inner_text() == "Compared with bm25, 287 queries"
    tab.select_option("select[name=order]", "worst")
    tab.click("section[aria-labelledby=beside] >> text=Show")
    first = tab.locator("section[aria-labelledby=beside] tbody tr").first
    assert "−" in first.inner_text()
    first.locator("a").click()
    assert tab.locator("h1").inner_text().startswith("Query q_")
    assert tab.locator("section[aria-labelledby=runs] tbody tr").count() == 2
    tab.locator("section[aria-labelledby=runs] tbody th a").first.click()
    assert tab.locator("h1").inner_text() == "bm25 + static rerank"
    assert tab.locator("#gates").inner_text().startswith("May it ship?")
    tab.click("text=failed queries")
    assert tab.locator(".example").count() == 10
    tab.get_by_role("link", name="Later", exact=True).click()
    assert "offset=10" in tab.url
    assert "11 to 20 of 100" in tab.locator("main").inner_text()


def test_the_trend_shows_gates_and_pins(tab: Page, pages: str) -> None:
    tab.goto(f"{pages}/trend?metric=recall@5&branch=main")
    words = tab.locator("figure").first.inner_text()
    assert "gate recall@5" in words
    assert "main" in tab.locator("figure text.mark-words").first.text_content()  # type: ignore[operator]


def test_queries_are_found_by_text(tab: Page, pages: str) -> None:
    tab.goto(f"{pages}/runs/bm25/queries")
    assert "287 queries, these are 1 to 50" in tab.locator("main").inner_text()
    tab.fill("input[name=text]", "webhook")
    tab.click("main >> text=Show")
    rows = tab.locator("tbody tr")
    assert 0 < rows.count() < 50
    assert all("webhook" in row.lower() for row in rows.all_inner_texts())


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/runs/nobody", 404),
        ("/runs?limit=many", 400),
        ("/runs?since=soon", 400),
        ("/trend?metric=nonsense", 400),
        ("/compare?run=bm25&run=nobody", 404),
        ("/runs/bm25/queries?metric=bpref", 400),
        ("/nothing", 404),
        ("/static/..%2f..%2fpages.py", 404),
        ("/static/layout.html", 404),
    ],
)
def test_pages_that_cannot_be_shown(pages: str, address: str, status: int) -> None:
    import urllib.error
    import urllib.request

    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(pages + address)
    text = error.value.read().decode()
    assert error.value.code == status
    assert "Traceback" not in text
    assert "<h1>" in text


def test_logging_in(locked: Any) -> None:
    assert locked.ask("GET", "/runs").headers["location"] == "/login"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert locked.ask("POST", "/login", b"name=ada&password=wrong", form).status == 403
    stranger = {**form, "Origin": "http://x"}
    assert locked.ask("POST", "/login", b"name=ada&password=correct+horse", stranger).status == 403
    for body in (b"name=ada&password=correct+horse", b"name=&password=" + b"t" * 20):
        answer = locked.ask("POST", "/login", body, form)
        assert (answer.status, answer.headers["location"]) == (303, "/runs")
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        session = {"Cookie": cookie.partition(";")[0]}
        assert locked.ask("GET", "/runs", headers=session).status == 200
        assert locked.ask("GET", "/api/v1/runs", headers=session).status == 200
        assert locked.ask("DELETE", "/api/v1/runs/n3", headers=session).status == 403  # no X-Karat
    assert locked.ask("GET", "/runs", headers={"Cookie": "karat_session=guess"}).status == 303


def test_logging_in_and_out_in_a_browser(locked: Any, browser: Browser) -> None:
    with browser.new_context() as context:
        tab = context.new_page()
        tab.goto(f"{locked.url}/runs")
        tab.fill("input[name=name]", "ada")
        tab.fill("input[name=password]", "correct horse")
        tab.click("main button")
        assert tab.locator("h1").inner_text() == "Runs"
        cookies = context.cookies()
        tab.click("text=Log out ada")
        assert tab.url == f"{locked.url}/login"
        assert context.cookies() == []
        context.add_cookies(cookies)  # whoever has copied it has nothing
        tab.goto(f"{locked.url}/runs")
        assert tab.url == f"{locked.url}/login"


def test_logging_out_is_nobody_elses_to_ask_for(locked: Any) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    cookie = locked.ask("POST", "/login", b"name=&password=" + b"t" * 20, form).headers["set-cookie"]
    session = {"Cookie": cookie.partition(";")[0]}
    assert locked.ask("POST", "/logout", headers={**session, "Origin": "http://x"}).status == 403
    assert b"Log out</button>" in locked.ask("GET", "/runs", headers=session).content
    assert locked.ask("POST", "/logout", headers=session).headers["location"] == "/login"
    assert locked.ask("GET", "/runs", headers=session).status == 303


def test_a_log_in_ends_by_itself(locked: Any) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    cookie = locked.ask("POST", "/login", b"name=&password=" + b"t" * 20, form).headers["set-cookie"]
    session = {"Cookie": cookie.partition(";")[0]}
    assert f"Max-Age={SESSION:.0f}" in cookie
    begun = locked.access.clock()
    locked.access.clock = lambda: begun + SESSION + 60
    assert locked.ask("GET", "/runs", headers=session).headers["location"] == "/login"
    assert locked.ask("GET", "/api/v1/runs", headers=session).status == 401


def test_hostile_texts_stand_in_the_pages_as_text(pages: str) -> None:
    import urllib.request

    for address in ("/runs", "/runs/hostile", "/runs/hostile/triage", "/query?query_id=plain"):
        text = urllib.request.urlopen(pages + address).read().decode()
        assert "<script>window" not in text
        assert "&lt;script&gt;window" in text
        tree = html5lib.parse(text, namespaceHTMLElements=False)
        names = [name for element in tree.iter() for name in element.attrib]
        assert [name for name in names if name.startswith("on")] == []
    assert json.loads(urllib.request.urlopen(f"{pages}/api/v1/runs/hostile").read())["head"]["system"] == HOSTILE
