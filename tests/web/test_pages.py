"""The pages, as HTML and in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import html5lib
import pytest
from accessibility import grave_faults
from browsing import Tabs, follow, wait_until
from playwright.sync_api import Browser, Page

import karat
from karat.history.folder import FolderStore
from karat.history.keep import keep_result
from karat.web.access import SESSION, Access

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
HOSTILE = "<script>window.hacked = 1</script>\" onmouseover='window.hacked = 1' {{ 7 * 7 }} </title>"


@pytest.fixture(scope="module")
def filled(demo: FolderStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderStore]:
    """The demo, and one run in which every text is hostile."""
    folder = tmp_path_factory.mktemp("pages") / ".karat"
    shutil.copytree(demo.label, folder)
    gold = [{"query_id": HOSTILE, "query": HOSTILE, "gold": ["never"], "tags": {"kind": HOSTILE}}]
    gold.append({"query_id": "plain", "query": HOSTILE, "gold": ["a"], "tags": {"kind": "b"}})
    hits = [{"chunk_id": HOSTILE, "text": HOSTILE}]
    run = [{"query_id": entry["query_id"], "system": HOSTILE, "topk": hits} for entry in gold]
    hostile = karat.evaluate(run, gold)
    hostile.provenance.update(code_version=HOSTILE, index_version=HOSTILE)
    with FolderStore(folder) as store:
        store.save(keep_result(hostile), branch=HOSTILE, tags=["hostile"], saved_at="2025-05-01T08:00:00.000000Z")
        yield store


@pytest.fixture(scope="module")
def pages(filled: FolderStore, serving: Any) -> Iterator[str]:
    with serving(filled, Access()) as site:
        yield site.url


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> Iterator[Tabs]:
    tabs = Tabs(browser, "http://127.0.0.1:", errors=True)
    yield tabs
    tabs.close()


@pytest.fixture
def tab(tabs: Tabs) -> Iterator[Page]:
    """A page that may ask no other server, and must not complain."""
    with tabs.open(1280, 900) as page:
        yield page


ADDRESSES = [
    "/runs",
    "/trend?metric=recall@5",
    "/trend?metric=recall@5&segment=language%3Des-AR",
    "/runs/v1.1",
    "/runs/hostile",
    "/runs/v1.0/queries",
    "/runs/hostile/queries",
    "/runs/v1.1/triage",
    "/runs/hostile/triage",
    "/compare",
    "/compare?run=release&run=main&run=mended",
    "/compare?run=release&run=main&all=1",
    "/query",
    "/query?query_id=q_000622",
    "/query?query_id=q_000622&run=release&run=main",
    "/query?query_id=plain",
    "/pins",
    "/login",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_in_a_browser(tab: Page, pages: str, address: str) -> None:
    """Wide and light with everything that axe knows; then narrow and dark with what may differ there."""
    response = tab.goto(pages + address)
    assert response is not None
    assert response.status == 200
    _hold(tab, 1280)
    tab.emulate_media(color_scheme="dark")
    tab.set_viewport_size({"width": 420, "height": 900})
    _hold(tab, 420, NARROW)


NARROW = ["scrollable-region-focusable"]  # what may differ there, besides the contrast


def _hold(tab: Page, width: int, rules: list[str] | None = None) -> None:
    assert tab.evaluate("window.hacked") is None
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    # What can be scrolled is found out after the page was laid out.
    wait_until(
        tab, "[...document.querySelectorAll('.scroll')].every(s => s.scrollWidth <= s.clientWidth || s.tabIndex === 0)"
    )
    assert grave_faults(tab, rules=rules) == []


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Any) -> FolderStore:
    """Two runs, saved as people save them: measured on main, and judged on a branch."""
    for name in ("gold", "bm25", "bm25_rerank"):
        lines = (HELPDESK / f"{name}.jsonl").read_text().splitlines(keepends=True)
        (tmp_path / f"{name}.jsonl").write_text("".join(lines[::6]))
    monkeypatch.chdir(tmp_path)
    for variable, value in (("KARAT_STORE", "history"), ("KARAT_BRANCH", "main")):
        monkeypatch.setenv(variable, value)
    options = ("--gold", "gold.jsonl", "--resamples", "500")
    assert karat_command("eval", "bm25.jsonl", *options, "--save", "--tag", "v1")[0] == 0
    assert karat_command("history", "pin", "v1", "main")[0] == 0
    monkeypatch.setenv("KARAT_BRANCH", "feature/rerank")
    gates = ("--gate", "recall@5 >= 0.2", "--gate", "ndcg@5 drop <= 0.5", "--baseline", "main")
    code, _, err = karat_command("gate", "bm25_rerank.jsonl", *options, *gates, "--save")
    assert (code, err) == (0, err)
    return FolderStore(tmp_path / "history")


def test_from_saving_two_runs_to_one_query(saved: FolderStore, serving: Any, tab: Page) -> None:
    with saved, serving(saved, Access()) as site:
        tab.goto(f"{site.url}/runs")
        rows = tab.locator("section[aria-labelledby=list] tbody tr")
        assert rows.count() == 2
        assert "pass" in rows.first.inner_text()
        tab.select_option("select[name=branch]", "feature/rerank")
        follow(tab, "text=Filter")
        assert (rows.count(), "branch=feature" in tab.url) == (1, True)
        follow(tab, "text=all runs")
        follow(tab, "section[aria-labelledby=systems] tbody tr:first-child td a")
        assert "recall@5" in tab.title()
        tab.select_option("select[name=system]", "")
        tab.select_option("select[name=branch]", "")
        follow(tab, "main >> button >> text=Show")
        lines = tab.locator("figure .legend").inner_text().split("\n")
        assert lines == ["feature/rerank, bm25 + static rerank", "main, bm25", "gate recall@5"]
        follow(tab, "text=Runs >> nth=0")
        for box in tab.locator("input[name=run]").all():
            box.check()
        follow(tab, "text=Compare the selected runs")
        assert "first=oldest" not in tab.url  # it can be sent to somebody
        assert tab.locator("h1").inner_text().startswith("bm25 + static rerank against bm25 on gold: recall@5 from")
        assert "p: probability" not in tab.locator("main").inner_text()
        follow(tab, "text=All metrics and p-values")
        assert "p: probability" in tab.locator("main").inner_text()
        tab.select_option("select[name=order]", "worst")
        follow(tab, "section[aria-labelledby=beside] >> text=Show")
        assert "all=1" in tab.url
        first = tab.locator("section[aria-labelledby=beside] > .scroll tbody tr").first
        assert "−" in first.inner_text()
        follow(tab, first.locator("a"))
        assert tab.locator("h1").inner_text().startswith("Query q_")
        titles = tab.locator(".listings > div > p").all_inner_texts()
        assert [title.partition(":")[0] for title in titles] == ["should be found", "before", "after"]
        moves = tab.locator(".listings li").all_inner_texts()
        assert any("→" in line for line in moves)
        tab.select_option("select[name=run] >> nth=1", "")
        follow(tab, "main >> button >> text=Show")
        titles = tab.locator(".listings > div > p").all_inner_texts()
        assert [title.partition(",")[0] for title in titles] == ["should be found", "was found"]
        assert tab.locator("section[aria-labelledby=runs] tbody tr").count() == 2
        follow(tab, tab.locator("section[aria-labelledby=runs] tbody th a").first)
        assert tab.locator("h1").inner_text() == "bm25 + static rerank"
        assert tab.locator("#gates").inner_text()
        follow(tab, "text=Compare with the baseline")
        assert tab.locator("section[aria-labelledby=pair-1]").count() == 1
        tab.go_back()
        follow(tab, "text=Failed queries")
        assert tab.locator(".example").count() == 10
        follow(tab, tab.get_by_role("link", name="Next", exact=True))
        assert "offset=10" in tab.url
        assert re.search(r"\b11\b.*\b20\b", tab.locator("main").inner_text())


def test_the_trend_shows_gates_and_pins(tab: Page, pages: str) -> None:
    tab.goto(f"{pages}/trend?metric=recall@5&branch=main")
    assert tab.locator("figure text.mark-words").all_text_contents() == ["release, v1.0", "main, v1.1"]
    lines = tab.locator("figure .legend").inner_text().split("\n")
    assert lines == ["keyword search", "keyword search + rerank", "gate recall@5"]
    days = tab.locator("figure .tick").all_text_contents()
    assert {"8 Sep 2025", "13 Oct"} <= set(days)
    tab.goto(f"{pages}/trend?metric=recall@5&segment=language%3Des-AR")
    asked = [text for text in tab.locator("figure title").all_text_contents() if text.startswith("gate recall@5 at")]
    assert [text.rpartition(" ")[2] for text in asked] == ["0.3000", "0.3000"]  # of this segment, and no other


def test_a_list_is_shaped_with_the_keyboard(tab: Page, pages: str) -> None:
    """Columns, order and filter; the address then holds all of it."""
    tab.goto(f"{pages}/runs?limit=200")

    def press(what: str, key: str) -> None:
        place = tab.locator(what).first
        place.focus()
        assert place.evaluate("e => e === document.activeElement")
        if key == "Enter" and what != "summary:has-text('Columns')":
            with tab.expect_navigation():
                tab.keyboard.press(key)
        else:
            tab.keyboard.press(key)

    press("summary:has-text('Columns')", "Enter")
    press("input[name=columns][value='mrr']", "Space")
    press("button:has-text('Show these columns')", "Enter")
    press("summary:has-text('Columns')", "Enter")
    press("a[aria-label='Move mrr to the left']", "Enter")
    press("section[aria-labelledby=list] th a:has-text('mrr')", "Enter")
    tab.locator("select[name=author]").focus()
    tab.keyboard.type("grace")
    press("form.filter button", "Enter")
    assert "sort=mrr" in tab.url
    assert "author=grace" in tab.url
    assert tab.locator("th[aria-sort=descending]").inner_text().startswith("mrr")
    heads = tab.locator("section[aria-labelledby=list] thead th").all_inner_texts()
    at = next(place for place, head in enumerate(heads) if head.startswith("mrr"))
    assert heads[at + 1] == "latency_p50"
    rows = tab.locator("section[aria-labelledby=list] tbody tr")
    values = [float(row.locator("> *").nth(at).inner_text()) for row in rows.all()]
    assert len(values) == 4
    assert values == sorted(values, reverse=True)
    tab.goto(tab.url + "&choose=1")
    _hold(tab, 1280)
    tab.set_viewport_size({"width": 390, "height": 900})
    _hold(tab, 390, NARROW)


def test_a_run_is_managed_with_the_keyboard(tab: Page, site: Any) -> None:
    """Rename, tag, delete, undo; what was done is said where the focus is."""
    run = site.store.find("n2")

    def press(what: str, key: str) -> None:
        tab.locator(what).first.focus()
        tab.keyboard.press(key)

    def typed(what: str, text: str) -> None:
        tab.locator(what).first.focus()
        tab.keyboard.type(text)

    def sent(button: str) -> None:
        with tab.expect_navigation():
            press(f"button:has-text('{button}')", "Enter")
        wait_until(tab, "document.activeElement.getAttribute('role') === 'status'")

    tab.goto(f"{site.url}/runs/{run}")
    press(".manage summary", "Enter")
    typed(".manage [name=title]", "First try")
    typed(".manage [name=note]", "one")
    tab.keyboard.press("Enter")
    tab.keyboard.type("two")
    sent("Save title and note")
    assert tab.locator("h1").inner_text() == "First try"
    assert tab.locator(".written").inner_text() == "one\ntwo"
    typed(".manage [name=tag]", "v2")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    assert site.store.row(run).tags == ["n2", "v2"]
    _hold(tab, 1280)
    tab.set_viewport_size({"width": 390, "height": 900})
    _hold(tab, 390, NARROW)
    press(".manage [name=sure]", "Space")
    sent("Delete")
    assert site.store.count() == 3
    tab.emulate_media(color_scheme="dark")
    for address in ("/deleted", "/audit", "/retention?days=1"):
        tab.goto(site.url + address)
        _hold(tab, 390)
    tab.goto(f"{site.url}/deleted")
    sent("Restore")
    assert (tab.locator("h1").inner_text(), site.store.count()) == ("First try", 4)


def test_how_a_query_moved(tab: Page, pages: str) -> None:
    tab.goto(f"{pages}/query?query_id=q_000622")
    assert tab.locator("figure polyline").count() == 3  # the rerank lost it for one run
    assert "cupon" in tab.locator("section[aria-labelledby=hits]").inner_text()
    tab.goto(f"{pages}/query?query_id=q_000713")
    assert tab.locator("figure polyline").count() == 0  # no run has found it


def test_queries_are_found_by_text(tab: Page, pages: str) -> None:
    tab.goto(f"{pages}/runs/v1.1/queries")
    assert re.search(r"\b1\b.*\b50\b.*\b144\b", tab.locator("main").inner_text())
    tab.fill("input[name=text]", "webhook")
    follow(tab, "main >> text=Show")
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
        ("/compare?run=main&run=nobody", 404),
        ("/runs/main/queries?metric=bpref", 400),
        ("/compare?" + "&".join(["run=main"] * 7), 400),
        ("/compare?run=main&run=hostile", 400),
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
    assert locked.ask("GET", "/runs").headers["location"] == "/login?next=%2Fruns"
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
        tab.goto(f"{locked.url}/runs?system=x&branch=")
        tab.fill("input[name=name]", "ada")
        tab.fill("input[name=password]", "correct horse")
        follow(tab, "main button")
        assert tab.url == f"{locked.url}/runs?system=x&branch=", "what was asked for before the log-in"
        cookies = context.cookies()
        follow(tab, "text=Log out ada")
        assert tab.url == f"{locked.url}/login"
        assert context.cookies() == []
        context.add_cookies(cookies)  # whoever has copied it has nothing
        tab.goto(f"{locked.url}/runs")
        assert tab.url == f"{locked.url}/login?next=%2Fruns"


@pytest.mark.parametrize(
    "wanted", ["https://x.example", "//x.example", r"/\x.example", "/login", "x", "/x\r\na: b", ""]
)
def test_after_the_log_in_only_pages_of_this_server_follow(locked: Any, wanted: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urllib.parse.urlencode({"name": "", "password": "t" * 20, "next": wanted}).encode()
    answer = locked.ask("POST", "/login", body, form)
    assert answer.headers["location"] == "/runs"


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
    assert locked.ask("GET", "/runs", headers=session).headers["location"] == "/login?next=%2Fruns"
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
