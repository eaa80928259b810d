"""The page of a trend: gates, segments and gold sets."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import msgspec

import karat
from karat.data.gold import Dataset
from karat.history.keep import judgement
from karat.history.store import Store
from karat.results.kept_run import KeptRun

GOLD = {f"q{i}": ["a"] for i in range(20)}


def text(site: Any, address: str) -> str:
    answer = site.ask("GET", address)
    assert answer.status == 200
    return str(answer.content.decode())


def gated(limit: float) -> Any:
    run = {query: ["a"] for query in GOLD}
    return judgement(karat.gate(run, GOLD, [f"recall@5 >= {limit}"]))


def test_gates_stay_when_a_run_without_them_comes(site: Any, store: Store, made_run: Callable[..., KeptRun]) -> None:
    assert "gate recall@5" not in text(site, "/trend?metric=recall@5")
    for number, limit in ((1, 0.3), (2, 0.4)):
        store.save(made_run(number, system=("bm25", "hybrid")[number % 2]), judgements=[gated(limit)])
    older = text(site, "/trend?metric=recall@5")  # n3, the newest, has none
    assert f"3 Jun, {store.find('n2')[:10]}" in older
    assert "0.4000" in older
    store.save(made_run(3, system="hybrid"), judgements=[gated(0.45)])
    newest = text(site, "/trend?metric=recall@5")
    assert "0.4500" in newest
    assert f"3 Jun, {store.find('n2')[:10]}" not in newest


def test_a_segment_that_no_run_has(site: Any) -> None:
    page = text(site, "/trend?metric=recall@5&segment=unknown")
    assert "<polyline" not in page
    assert '<option value="unknown" selected>unknown</option>' in page
    assert '<option value="language=de" selected>' in text(site, "/trend?metric=recall@5&segment=language%3Dde")


def test_runs_on_another_gold_set_are_marked(site: Any, store: Store, made_run: Callable[..., KeptRun]) -> None:
    before = text(site, "/trend?metric=recall@5")
    run = made_run(5, system="hybrid")
    moved = msgspec.structs.replace(run.document.result, dataset=Dataset("v4", None, "sha256:0123456789", "helpdesk"))
    run = KeptRun.of(msgspec.structs.replace(run.document, result=moved), run.rows)
    store.save(run, branch="main", saved_at="2025-06-05T08:00:00.000000Z")
    after = text(site, "/trend?metric=recall@5")
    assert "helpdesk v4 01234567" in after
    assert after.count('<th scope="col">') == before.count('<th scope="col">') + 1
    points = site.get("/trend", metric="recall@5").json
    assert [point["dataset"]["hash"] for point in points] == ["abcd"] * 4 + ["sha256:0123456789"]


def run_rows(page: str) -> list[str]:
    """The short ids of the runs in the table, newest first."""
    return re.findall(r'<tr><th scope="row"><a href="/runs/([0-9a-f]{64})"', page)


def test_a_trend_follows_one_branch_and_shows_all_when_asked(
    site: Any, store: Store, made_run: Callable[..., KeptRun]
) -> None:
    assert "branch=" not in "".join(re.findall(r'href="(/trend[^"]*)"', text(site, "/trend")))  # all are on main
    other = made_run(9, system="hybrid")
    store.save(other, branch="feature/x", saved_at="2025-06-09T08:00:00.000000Z")
    page = text(site, "/trend?metric=recall@5")
    assert len(run_rows(page)) == 4
    assert other.id not in page
    assert '<option value="main" selected>' in page
    (everything,) = re.findall(r'href="(/trend\?[^"]*branch=[^"]*)"', page)
    shown = text(site, html.unescape(everything))
    assert run_rows(shown)[0] == other.id
    assert len(run_rows(shown)) == 5
    assert "branch=" not in "".join(re.findall(r'href="(/trend[^"]*)"', shown))  # nothing is left out any more
    assert run_rows(text(site, "/trend?metric=recall@5&branch=")) == run_rows(shown)  # as the form asks
    assert run_rows(text(site, "/trend?metric=recall@5&branch=feature/x")) == [other.id]


def test_small_lines_follow_one_branch_too(site: Any, store: Store, made_run: Callable[..., KeptRun]) -> None:
    numbers = re.compile(r"</svg><span>([^<]*)</span>")
    before = numbers.findall(text(site, "/runs"))
    store.save(made_run(2, system="hybrid", note="x"), branch="feature/x", saved_at="2025-06-09T08:00:00.000000Z")
    assert sorted(numbers.findall(text(site, "/runs"))) == sorted(before)
    assert sorted(numbers.findall(text(site, "/runs?branch="))) != sorted(before)


def test_runs_to_compare_are_chosen_by_name(site: Any, store: Store) -> None:
    page = text(site, "/compare")
    named = dict(re.findall(r'<option value="([^"]+)">([^<]*)</option>', page))
    assert named["main"].startswith("main: bm25, 2025-06-01 08:00, main")  # the pin
    assert len(named) == 5
    answer = text(site, f"/compare?run=main&run={store.find('n2')[:16]}")
    assert '<option value="main" selected>' in answer
    assert '<option value="n3" selected>' in text(site, "/compare?run=main&run=n3")  # a tag in an address works as ever
