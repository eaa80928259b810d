"""Tables that people shape: columns, order and filters of the list of runs, and all tables as CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from karat.history.store import Store
from karat.results.kept_run import KeptRun, keep
from karat.results.summary import SummaryRow

Maker = Callable[..., KeptRun]


def cells(page: str, column: str) -> list[str]:
    """The column of the list of runs with this heading."""
    listed = page[page.index('id="list"') :]
    heads, *rows = re.findall(r"<tr>(.*?)</tr>", listed[listed.index("<table>") :], re.DOTALL)
    titles = [_words(one) for one in re.findall(r"<th\b.*?</th>", heads, re.DOTALL)]
    at = [title.rstrip(" ▲▼") for title in titles].index(column)
    return [_words(re.findall(r"<t[hd]\b.*?</t[hd]>", row, re.DOTALL)[at]) for row in rows]


def _words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def shown(site: Any, address: str) -> str:
    answer = site.ask("GET", address)
    assert answer.status == 200, answer.content.decode()
    return str(answer.content.decode())


def table(site: Any, address: str) -> list[list[str]]:
    answer = site.ask("GET", address)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["content-disposition"].startswith("attachment; ")
    return list(csv.reader(io.StringIO(answer.content.decode())))


def linked(page: str, name: str) -> str:
    """The address of a link with this text or label."""
    for tag, words in re.findall(r"(<a\b[^>]*>)(.*?)</a>", page, re.DOTALL):
        if name in (_words(words), *re.findall(r'aria-label="([^"]*)"', tag)):
            return unescape(re.findall(r'href="([^"]*)"', tag)[0])
    raise AssertionError(f"no link {name!r}")


@pytest.fixture
def more(store: Store, made_run: Maker) -> Store:
    """Two more runs: one with two other metrics, and one of somebody on a branch."""
    run = made_run(5, system="dense", metric="ndcg@10")
    saved = run.saved()
    rows = [*saved.summary, SummaryRow("latency_p50", 20, 0, 12.5, 12.0, 13.0)]
    scores = {query: {**own, "latency_p50": 12.5} for query, own in saved.scores.items()}
    both = type(saved)(**{n: getattr(saved, n) for n in saved.__struct_fields__} | {"summary": rows, "scores": scores})
    store.save(keep(both), branch="main", saved_at="2025-06-05T08:00:00.000000Z")
    store.save(made_run(6), branch="fix", author="Grace <b>", saved_at="2025-06-06T08:00:00.000000Z")
    return store


def test_columns_are_chosen_and_moved(site: Any, more: Store) -> None:
    page = shown(site, "/runs?columns=ndcg@10&columns=recall%405,latency_p50")
    assert cells(page, "ndcg@10")[1] != "–"
    assert cells(page, "latency_p50")[:2] == ["–", "12.5 ms"]
    boxes = re.findall(r'name="columns" value="([^"]*)"( checked)?>', page[page.index('id="columns"') :])
    assert [name for name, checked in boxes if checked] == ["ndcg@10", "recall@5", "latency_p50"]
    moved = shown(site, linked(page, "Move latency_p50 to the left").partition("#")[0])
    headings = re.findall(r"Move (\S+) to the right", moved)
    assert headings == ["ndcg@10", "latency_p50"]
    assert '<details class="columns" id="columns" open>' in moved
    assert "Move ndcg@10 to the left" not in page


def test_without_a_choice_the_key_metrics_are_columns(site: Any, store: Store) -> None:
    assert cells(shown(site, "/runs"), "recall@5") == cells(shown(site, "/runs?columns="), "recall@5")


def test_a_name_with_a_comma_is_one_column(site: Any, store: Store) -> None:
    page = shown(site, "/runs?columns=ndcg(gain=linear,base=2)@5,recall@5")
    assert cells(page, "ndcg(gain=linear,base=2)@5") == ["–"] * 4


def test_a_list_is_sorted_over_all_its_pages(site: Any, more: Store) -> None:
    page, seen = shown(site, "/runs?sort=recall@5&limit=2"), list[str]()
    while True:
        seen += cells(page, "recall@5")
        if "Next page" not in page:
            break
        page = shown(site, linked(page, "Next page"))
    assert seen == [*sorted(seen[:-1], reverse=True), "–"]
    assert len(seen) == 6
    up = shown(site, linked(shown(site, "/runs?sort=recall@5"), "recall@5").partition("#")[0])
    assert cells(up, "recall@5") == [*sorted(seen[:-1]), "–"]
    assert '<th scope="col" class="n" aria-sort="ascending">' in up


def test_what_is_better_when_lower_is_sorted_so(site: Any, more: Store) -> None:
    to = linked(shown(site, "/runs?columns=latency_p50"), "latency_p50")
    assert "order=asc" in to
    assert cells(shown(site, to.partition("#")[0]), "latency_p50")[0] == "12.5 ms"


def test_a_view_survives_the_filter(site: Any, more: Store) -> None:
    page = shown(site, "/runs?columns=ndcg@10&sort=system&order=desc&author=Grace+%3Cb%3E")
    assert cells(page, "author") == ["Grace <b>"]
    form = page[page.index("<form") : page.index("</form>")]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
    assert hidden == {"columns": "ndcg@10", "sort": "system", "order": "desc"}
    assert '<option value="Grace &lt;b&gt;" selected>' in form
    assert "author" not in shown(site, "/runs?branch=main").partition('id="list"')[2].partition("<tbody>")[0]


@pytest.mark.parametrize(
    "address", ["/runs?order=up", "/runs?after=x", "/runs?sort=mrr&after=2025~" + "a" * 64, "/runs.csv?order=up"]
)
def test_views_that_cannot_be_shown(site: Any, address: str) -> None:
    answer = site.ask("GET", address)
    assert (answer.status, b"Traceback" in answer.content) == (400, False)


def test_too_many_columns_are_refused(site: Any) -> None:
    names = ",".join(f"recall@{k}" for k in range(1, 60))
    assert b"at most 40" in site.ask("GET", f"/runs?columns={names}").content


def test_the_list_as_csv_has_every_run_of_the_view(site: Any, more: Store) -> None:
    page = shown(site, "/runs?sort=recall@5&limit=2&columns=recall@5,ndcg@10&branch=main")
    heads, *rows = table(site, linked(page, "CSV"))
    assert heads[-3:] == ["gates", "recall@5", "ndcg@10"]
    assert len(rows) == 5
    assert [row[-2] for row in rows] == [*sorted((row[-2] for row in rows[:-1]), reverse=True), ""]
    assert rows[-1][heads.index("system")] == "dense"
    assert float(rows[0][-2]) == more.row(rows[0][0]).measures["recall@5"].mean


def test_formulas_are_defused(site: Any, store: Store, made_run: Maker) -> None:
    store.save(made_run(9, system='=HYPERLINK("x")'), branch="main", author="@sum(a)")
    heads, row, *_ = table(site, "/runs.csv")
    assert row[heads.index("system")] == '\'=HYPERLINK("x")'
    assert row[heads.index("author")] == "'@sum(a)"


def test_a_long_list_is_cut_and_its_name_says_so(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.web.pages.run_list._MOST_ROWS", 3)
    assert "(the first 3 runs)" in shown(site, "/runs")
    answer = site.ask("GET", "/runs.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="runs-first-3-of-4.csv"'
    assert answer.content.count(b"\n") == 4


def test_queries_as_csv(site: Any, store: Store) -> None:
    page = shown(site, "/runs/n0/queries?order=best&text=q1")
    heads, *rows = table(site, linked(page, "CSV"))
    assert heads == ["query_id", "query", "first_rank", "missing", "recall@5"]
    assert len(rows) == 11
    scores = [float(row[-1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert site.ask("GET", "/runs/nobody/queries.csv").status == 404
    assert site.ask("GET", "/runs/n0/queries.csv?metric=mrr").status == 400


def test_a_comparison_as_csv(site: Any, store: Store) -> None:
    page = shown(site, "/compare?run=n0&run=n1&order=worst")
    heads, *rows = table(site, linked(page, "CSV"))
    assert heads[:3] == ["query_id", "query", f"recall@5 {store.find('n0')[:10]}"]
    assert len(rows) == 20
    changes = [float(row[-1]) for row in rows]
    assert changes == sorted(changes)
    assert changes[0] == float(rows[0][4]) - float(rows[0][2])
    assert site.ask("GET", "/compare.csv").status == 400


def test_scripts_sort_and_filter_too(site: Any, more: Store) -> None:
    rows = site.get("/runs", sort="recall@5", order="asc", limit=2).json
    rest = site.get("/runs", sort="recall@5", order="asc", after=rows["after"]).json
    means = [
        row["measures"]["recall@5"]["mean"]
        for row in (*rows["rows"], *rest["rows"])
        if row["head"]["system"] != "dense"
    ]
    assert means == sorted(means)
    assert len(rows["rows"]) + len(rest["rows"]) == 6
    assert [row["head"]["author"] for row in site.get("/runs", author="Grace <b>").json["rows"]] == ["Grace <b>"]
    choices = site.get("/choices").json
    assert (choices["authors"], choices["metrics"]) == (["Grace <b>"], ["latency_p50", "ndcg@10", "recall@5"])


def test_the_page_of_a_run_shows_how_its_queries_are_distributed(site: Any, more: Store) -> None:
    page = shown(site, f"/runs/{more.runs(limit=2).rows[1].id}")
    told = _words(page[page.index('id="distribution"') : page.index("</section>", page.index('id="distribution"'))])
    assert "ndcg@10 of 20 queries: mean " in told
    assert "latency of 20 queries: mean 12.5 ms, median 12.5 ms" in told
    assert "Numbers of this chart" in told


def test_a_comparison_is_drawn_and_its_losses_are_links(site: Any, store: Store, made_run: Maker) -> None:
    page = shown(site, "/compare?run=n0&run=n1")
    assert "5 queries gained, 13 lost, 2 the same." in page
    figure = page[page.index("chart scatter") : page.index("</figure>", page.index("chart scatter"))]
    assert 'role="group"' in figure
    assert "/compare?run=n0&amp;run=n1&amp;order=worst" in figure  # several queries at one place: the list of losses
    run = made_run(1, queries=21)
    alone = keep(run.saved())  # q20 is only there
    store.save(alone, tags=["one-more"])
    assert "; 1 without" in shown(site, "/compare?run=n1&run=one-more")


def test_a_query_that_lost_alone_is_linked(site: Any, store: Store, made_run: Maker) -> None:
    saved = made_run(0, metric="ndcg@5").saved()
    scores = {query: {"ndcg@5": 0.9 - place / 40} for place, query in enumerate(saved.scores)}
    for tag, change in (("before", 0.0), ("after", -0.1)):
        values = {query: {"ndcg@5": own["ndcg@5"] + change * (query in ("q1", "q2"))} for query, own in scores.items()}
        fields = {name: getattr(saved, name) for name in saved.__struct_fields__}
        store.save(keep(type(saved)(**{**fields, "scores": values, "provenance": {"change": change}})), tags=[tag])
    page = shown(site, "/compare?run=before&run=after")
    assert page.count('<a href="/query?query_id=q1&amp;run=before&amp;run=after" aria-label="0.875 → 0.775: q1">') == 1
    assert "0 queries gained, 2 lost, 18 the same." in page


def test_a_trend_has_a_line_per_branch_or_system(site: Any, more: Store) -> None:
    by_branch = shown(site, "/trend?metric=recall@5&branch=")
    assert "<span>fix, hybrid</span>" in by_branch
    assert "<span>main, bm25</span>" in by_branch
    by_system = shown(site, "/trend?metric=recall@5&branch=&lines=system")
    assert "<span>hybrid</span>" in by_system
    assert '<option value="system" selected>' in by_system
    assert "fix, hybrid" not in by_system


def test_a_deleted_run_is_in_no_table(site: Any, store: Store) -> None:
    gone = store.find("n1")
    store.set_title(store.find("n2"), "=better")
    assert len(table(site, "/runs.csv?sort=recall@5")) == 5
    store.delete(gone)
    heads, *rows = table(site, "/runs.csv?sort=recall@5")
    assert len(rows) == 3
    assert gone not in [row[0] for row in rows]
    assert sorted(row[heads.index("title")] for row in rows) == ["", "", "'=better"]
    assert len(cells(shown(site, "/runs?sort=system"), "recall@5")) == 3
    assert site.ask("GET", f"/runs/{gone}/queries.csv").status == 404
