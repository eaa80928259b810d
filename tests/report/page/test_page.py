"""What a page is made of: valid HTML that keeps data apart from markup, and asks no server for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import html5lib
import numpy as np
import pytest

import karat
from karat.gates.gate import as_criteria, judge_result
from karat.report import build
from karat.report.blocks import Bars, Chart, Column, Dot, Dots, Interval, Report, Scatter, Section, Series, Table
from karat.report.build import evaluation_report, full_report
from karat.report.charts import draw
from karat.report.comparison import comparison_report
from karat.report.export import page as page_of
from karat.report.export import to_html
from karat.report.gate import gate_page
from karat.report.renderers.html import render_html
from karat.report.renderers.markdown import render_markdown
from karat.results.comparison.compare import compare_results

Element = ElementTree.Element
DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
NAMES = ("report", "diff", "verdict", "both", "sweep", "selftest", "saved", "hostile")


@pytest.fixture(params=NAMES)
def page(request: pytest.FixtureRequest, pages: Any) -> str:
    """Every kind of page there is."""
    return pages[request.param].read_text()


@cache
def parsed(page: str) -> Element:
    """The page as a strict HTML5 parser reads it: any mistake in it is an error."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    assert isinstance(tree, Element)
    return tree


def words(element: Element) -> str:
    return "".join(element.itertext())


def test_it_is_valid_and_its_references_lead_somewhere(page: str) -> None:
    tree = parsed(page)
    ids = [e.get("id") for e in tree.iter() if e.get("id") is not None]
    assert len(ids) == len(set(ids))
    for element in tree.iter():
        for name in ("aria-labelledby", "aria-describedby"):
            assert set((element.get(name) or "").split()) <= set(ids)
        assert (element.get("href") or "#content")[1:] in ids


def test_headings_are_in_order(page: str) -> None:
    levels = [int(e.tag[1]) for e in parsed(page).iter() if re.fullmatch(r"h[1-6]", str(e.tag))]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_nothing_is_loaded_and_nothing_runs_but_its_own_script(page: str) -> None:
    tree = parsed(page)
    (policy,) = [e.get("content") for e in tree.iter("meta") if e.get("http-equiv") == "Content-Security-Policy"]
    (style,), (script,) = list(tree.iter("style")), list(tree.iter("script"))
    for element, rule in ((style, "style-src"), (script, "script-src")):
        digest = base64.b64encode(hashlib.sha256(words(element).encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    for element in tree.iter():
        assert element.tag not in ("img", "link", "iframe", "object", "embed", "base", "form", "image", "use")
        assert not [name for name in element.attrib if str(name).startswith("on") or name in ("src", "style", "action")]


def test_every_picture_has_a_name_and_its_numbers(page: str) -> None:
    for figure in parsed(page).iter("figure"):
        (picture,) = [e for e in figure.iter() if e.get("role") == "img"]
        named = {str(e.tag).rpartition("}")[2]: words(e) for e in picture}
        assert named["title"] == words(next(figure.iter("figcaption")))
        assert named["desc"]


def test_data_is_shown_as_it_is_and_cut_where_it_has_no_end(pages: Any) -> None:
    page = pages["hostile"].read_text()
    shown = words(parsed(page))
    for text in pages.hostile[:8]:
        assert text in shown
    assert "w" * 1_000 not in shown.replace("w" * 300 + "…", "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufdd0\ufffe]", page)
    assert len(page) < 400_000


def test_a_long_table_is_cut_and_says_so() -> None:
    table = Table([Column("query"), Column("n", "count")], [[f"q{i}", i] for i in range(1_000)])
    page = render_html(Report("Long", [Section("long", "Long", [table])])).decode()
    assert page.count("<tr><th") == 200
    assert "800" in page


def test_the_same_report_gives_the_same_bytes() -> None:
    result = karat.evaluate({"q": ["a"], "r": ["b"]}, {"q": ["a"], "r": ["a"]})
    assert render_html(full_report([result])) == render_html(full_report([result]))


def test_a_page_holds_what_the_terminal_leaves_out(pages: Any) -> None:
    tree = parsed(pages["report"].read_text())
    names = {e.get("id") for e in tree.iter() if e.get("class") == "section"}
    assert {"glance", "panel", "over-k", "segments", "worst", "findings", "audit", "artifacts"} <= names
    shown = words(tree)
    for fact in ("recall@5 v1", "helpdesk-1", "a paragraph each", "wordllama", "seed 0", "sha256:"):
        assert fact in shown
    assert "karat eval examples/helpdesk/bm25_rerank.jsonl" in shown  # what made it


def test_a_new_section_needs_no_renderer_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of the documentation, as the registry would find it."""
    (code,) = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[3] / "docs" / "report.md").read_text(), re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    monkeypatch.setattr(build, "_makers", lambda: [names["Recall"]()])
    result = karat.evaluate({"q": ["a"], "r": ["b"]}, {"q": ["a"], "r": ["a"]})
    assert "most people ask" in render_markdown(evaluation_report(result))
    page = parsed(render_html(full_report([result])).decode())
    (picture,) = [e for e in page.iter() if e.get("role") == "img"]
    assert "recall@10 0.500" in words(picture)


def test_a_page_is_no_single_table(pages: Any) -> None:
    run, gold = "examples/helpdesk/bm25.jsonl", "examples/helpdesk/gold.jsonl"
    code, said = pages.run("eval", run, "--gold", gold, "-o", f"summary={pages.folder}/x.html")
    assert code == 2
    assert "'summary'" in said


@pytest.mark.parametrize("value", [None, 0.0, 1.0, 0.5])
def test_charts_bear_what_there_is(value: float | None) -> None:
    """No rows, no values, one point, ends that are equal: a chart is drawn in any case."""
    cell = Interval("x", value, value, value)
    figures = [
        Dots("t", "x", [Dot("a", cell, [value])], (0.0, 0.0), ["other"]),
        Dots("t", "x", [], (0.0, 1.0)),
        Chart("t", "x", "y", [Series("s", [1], [value], [value], [value])], x_scale="log"),
        Chart("t", "x", "y", []),
        Bars("t", "x", [], [], (0.0, 1.0)),
        Scatter("t", "x", "y", [], (1.0, 1.0)),
    ]
    for figure in figures:
        drawn = str(draw(figure, "i"))
        ElementTree.fromstring(f"<x>{drawn}</x>")
        assert "nan" not in drawn


THOUSAND = 1000
FEW = {"resamples": 200}  # how large a page is does not depend on how exact its intervals are
_LINE = re.compile(r"<li(?: class=hit)?>(.*)")


def demo_fourfold(system: str = "bm25_rerank") -> tuple[list[Any], list[Any], Path]:
    """Each line of the demo set four times: passages that many queries find."""
    run, gold = (
        [json.loads(line) for line in (DEMO / f"{n}.jsonl").read_text().splitlines()] for n in (system, "gold")
    )
    hits, queries = (
        [{**x, "query_id": f"{x['query_id']}-{i}"} for i in range(4) for x in side] for side in (run, gold)
    )
    return hits[:THOUSAND], queries[:THOUSAND], DEMO / "corpus.jsonl"


def long_texts(letters: int = 800) -> tuple[list[Any], list[Any], None]:
    """8,000 passages of 800 letters in the hits, of which hardly two queries find the same."""
    random = np.random.default_rng(6)
    words = np.array(["".join(random.choice([*"aeiounrst"], 6)) for _ in range(3000)])
    texts = {f"doc_{i}#p{i % 9}": " ".join(random.choice(words, letters // 7)) for i in range(8000)}
    ids, queries, run = list(texts), [], []
    for i in range(THOUSAND):
        found = [ids[(8 * i + j) % 8000] for j in range(10)]
        asked = f"{texts[found[2]][200:230]} {random.choice(words)} & <who> isn't?"
        tags = {"language": str(random.choice(["en", "de"])), "topic": f"topic {i % 9}"}
        queries.append({"query_id": f"q{i}", "query": asked, "gold": [found[4], ids[4000 - i]], "tags": tags})
        hits = [{"chunk_id": h, "score": 1 / (j + 2), "text": texts[h]} for j, h in enumerate(found)]
        run.append({"query_id": f"q{i}", "topk": hits})
    return run, queries, None


@pytest.mark.parametrize("kind", ["demo", "long"])
def test_a_thousand_queries_have_gold_and_hits_with_texts_on_a_page_that_is_not_large(kind: str) -> None:
    run, gold, corpus = demo_fourfold() if kind == "demo" else long_texts()
    result = karat.evaluate(run, gold, corpus=corpus, **FEW)
    content = to_html([result])
    assert len(content) < 1_500_000
    page = content.decode()
    queries = {q["query_id"]: q["gold"] for q in gold if not q.get("no_answer")}
    shown = dict(re.findall(r"<details class=example id=triage-\d+><summary><b>(.*?)</b>(.*?)</details>", page, re.S))
    assert shown.keys() == queries.keys()
    for name, body in shown.items():
        should, was, *_ = body.split("</ol>")
        assert len(_LINE.findall(should)) >= min(len(queries[name]), 1)
        assert all(re.match(r"[✓✗?] [\d.]+\t", line) for line in _LINE.findall(was))
        assert len(_LINE.findall(was)) == 10
    assert min(map(len, texts_of_lines(page, shown))) >= 38
    assert page.count("BM25)") == (20 if kind == "demo" else 0)
    if kind == "long":  # the passages of the demo set, each once, have room
        (said,) = re.findall(r"cut to (\d+)", page)
        assert 40 <= int(said) < 100


def texts_of_lines(page: str, shown: dict[str, str]) -> Iterator[str]:
    """The text of every line: its own, that of the same passage above in the same query, or the one at the end."""
    passages = re.findall(
        r"<li>([^\t<]*)\t([^\t<]+)<p>(.*)", page.partition("<ul>")[2].rpartition('class="passages"')[2]
    )
    at_the_end = {number or name: text for number, name, text in passages}
    for body in shown.values():
        lines = [line.partition("<p>") for line in _LINE.findall(body)]
        own = {before.split("\t")[1]: text for before, _, text in lines if text}
        for before, _, text in lines:
            name = before.split("\t")[1]
            yield text or own.get(name) or at_the_end[name]


def test_long_ids_leave_room_for_fewer_queries_and_it_says_so() -> None:
    run, gold, _ = long_texts(100)
    for query in run:
        for hit in query["topk"]:
            hit["chunk_id"] = f"{hit['chunk_id']:-<90}"
    content = to_html([karat.evaluate(run, gold, **FEW)])
    assert 1_300_000 < len(content) < 1_500_000
    (left_out,) = re.findall(r"small, ([\d,]+) queries are left out before the last 30", content.decode())
    assert content.count(b"<details class=example") == THOUSAND - int(left_out)
    assert b"<summary><b>q999</b>" in content


@pytest.mark.parametrize("kind", ["demo", "long"])
def test_both_lists_of_a_thousand_changed_queries_fit_a_page(kind: str, tmp_path: Path) -> None:
    """Compared, and judged by gates, where everything about the run stands on the same page."""
    run, gold, corpus = demo_fourfold() if kind == "demo" else long_texts(200)
    turned = [{**q, "topk": [{**hit, "score": -hit["score"]} for hit in q["topk"]]} for q in run]
    other = demo_fourfold("bm25")[0] if kind == "demo" else turned
    said: Any = {"corpus": corpus, "scores": "higher-is-better", **FEW}  # turned, they rise along the lists
    before, after = (karat.evaluate(side, gold, **said) for side in (run, other))
    found = judge_result(after, as_criteria(["recall@5 drop <= 0.02"]), before)
    changed = {q["query_id"] for q in gold if not q.get("no_answer")}
    for report in (
        comparison_report(compare_results([before, after]), [before, after]),
        gate_page(found, after, before),
    ):
        content = page_of(report)
        assert 1_300_000 < len(content) < 1_500_000
        shown = dict(re.findall(r"id=queries-1-\d+><summary><b>(.*?)</b>(.*?)</details>", content.decode(), re.S))
        assert shown.keys() == changed
        assert min(map(len, texts_of_lines(content.decode(), shown))) >= 18
        assert all(len(_LINE.findall(body)) >= 20 for body in shown.values())


def test_words_marked_close_together_do_not_make_a_page_large() -> None:
    """Texts are cut where most words are marked: a share of all marks would be too low a guess."""
    text = "refund " * 60 + "other words of no use " * 40
    gold = [{"query_id": f"q{i}", "query": "refund", "gold": [f"d{i}-9"]} for i in range(100)]
    hits = [[{"chunk_id": f"d{i}-{j}", "text": f"{j} {i} {text}"} for j in range(10)] for i in range(100)]
    run = [{"query_id": f"q{i}", "topk": topk} for i, topk in enumerate(hits)]
    other = [{**q, "topk": q["topk"][::-1]} for q in run]
    before, after = (karat.evaluate(side, gold, **FEW) for side in (run, other))
    content = page_of(gate_page(judge_result(after, as_criteria(["mrr >= 0.5"]), before), after, before))
    assert 1_200_000 < len(content) < 1_500_000


def test_a_page_of_gates_has_no_query_twice_in_brief() -> None:
    gold = {f"q{i}": {f"d{i}": 1} for i in range(200)}
    run = {f"q{i}": [f"x{i}", f"d{i}"] for i in range(200)}
    other = {query: hits[::-1] if int(query[1:]) % 2 else hits for query, hits in run.items()}
    before, after = (karat.evaluate(side, gold) for side in (other, run))
    page = page_of(gate_page(judge_result(after, as_criteria(["mrr drop <= 0.02"]), before), after, before)).decode()
    changed, failed = (
        set(re.findall(rf"id={place}-\d+><summary><b>(.*?)</b>", page)) for place in ("queries-1", "triage")
    )
    assert changed == {f"q{i}" for i in range(1, 200, 2)}
    assert failed >= gold.keys() - changed
    in_full = len(failed & changed)
    assert 0 < in_full < 100
    assert f"{100 - in_full} of these " in page


def test_long_queries_are_read_whole_and_do_not_make_a_page_large() -> None:
    """A thousand queries of a paragraph each, none of which finds anything."""
    said = "please tell me how long a refund to a card takes when the sale was paid in two parts"
    query = f"{said}, {said}, {said}"
    gold = [{"query_id": f"q{i}", "query": f"{i} {query}", "gold": [f"document-{i}"]} for i in range(THOUSAND)]
    run = {f"q{i}": {f"document-{i + j}": 1.0 / j for j in range(1, 11)} for i in range(THOUSAND)}
    content = to_html([karat.evaluate(run, gold, **FEW)])
    assert f"999 {query} <small>" in content.decode()
    assert len(content) < 1_500_000


def test_of_more_queries_the_worst_and_a_sample_are_shown() -> None:
    gold = {f"q{i}": {f"d{i}": 1} for i in range(1500)}
    run = {f"q{i}": [f"d{i + 1}", f"d{i}"] if i % 3 else [f"d{i}"] for i in range(1500)}
    page = to_html([karat.evaluate(run, gold, **FEW)]).decode()
    assert page.count("<details class=example") == 1030
    assert re.search(r"\b1,000\b.*\b30\b", page)
