"""What somebody sees first: a title that says it, an overview that leads on, each kind of interval explained once."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import pytest

from karat.report.build import REGISTRY
from karat.report.overview import EXPLAINED_BY
from karat.report.sections.findings import NOTHING
from karat.results.diagnosis import changes, rules

SCORES = {"report": "panel", "verdict": "pair-1", "diff": "pair-1", "saved": "pair-1"}
OVERVIEW = {"report": "glance", "verdict": "gates", "diff": "glance", "saved": "gates"}


@cache
def parsed(page: str) -> Element:
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)  # type: ignore[no-any-return]


def words(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def sections(tree: Element) -> dict[str, Element]:
    """By the id of the heading, in order."""
    found = [section for section in tree.iter("section") if section.get("class") != "part"]
    return {str(section.get("aria-labelledby")): section for section in found}


def links(element: Element) -> dict[str, str]:
    """Text → where it leads, without the mark beside a heading."""
    found = (a for a in element.iter("a") if a.get("class") != "here")
    return {words(a): str(a.get("href")).removeprefix("#") for a in found}


def title_of(page: str) -> str:
    tree = parsed(page)
    (title,), (heading,) = tree.iter("title"), tree.iter("h1")
    assert words(title) == f"{words(heading)} · Karat"
    return words(heading)


@pytest.mark.parametrize("name", SCORES)
def test_overview_what_to_do_scores_details(pages: Any, name: str) -> None:
    names = list(sections(parsed(pages[name].read_text())))
    assert names[0] == OVERVIEW[name]
    after = names[1:]
    if "findings" in after:
        assert after.pop(0) == "findings"
    assert after[0] == SCORES[name]
    assert {"triage", "audit"} & set(after[1:] if name != "saved" else {"audit"})
    assert {"glance", "findings"}.isdisjoint(after)  # told once


def test_findings_of_the_overview_lead_to_what_explains_them(pages: Any) -> None:
    tree = parsed(pages["report"].read_text())
    file = pages.folder / "findings.json"
    code, said = pages.run("eval", *pages._report()[1:], "-o", str(file))
    assert code == 0, said
    findings = json.loads(file.read_text())["findings"]
    assert len({f["code"] for f in findings}) > 2
    there = sections(tree)
    overview, todo = links(there["glance"]), there["findings"]
    assert list(overview) == [f["title"] for f in findings]
    for finding in findings:
        place = overview[finding["title"]]
        assert place.replace("-", "_") == (*EXPLAINED_BY.get(finding["code"], ()), "panel")[0]
        assert place in there
    cards = list(todo.iter("article"))
    assert [links(card) for card in cards] == [
        {words(next(there[place].iter("h2"))).removesuffix(" #"): place} for place in overview.values()
    ]


def test_every_finding_is_explained_by_a_section_that_there_is() -> None:
    known = {rule.code for rule in (*rules.TABLE, *changes.TABLE)}
    assert set(EXPLAINED_BY) <= known
    assert {name for names in EXPLAINED_BY.values() for name in names} <= set(REGISTRY.everything())


def test_checks_lead_to_their_numbers(pages: Any) -> None:
    there = sections(parsed(pages["verdict"].read_text()))
    found = {name.partition(" (")[0]: place for name, place in links(there["gates"]).items()}
    assert found["recall@5"] == "panel"
    assert found["recall@5 in language pt-BR"] == "segments"
    assert found["no step back"] == "pair-1"
    assert found["answer_ms"] == "latency"
    assert set(found.values()) <= set(there)


GOLD = [{"query_id": f"q{i}", "query": f"about {i}?", "gold": [f"d{i}"]} for i in range(30)]


def ranked(first: int) -> list[dict[str, Any]]:
    """Runs in which only the first so many queries find their item."""
    return [{"query_id": f"q{i}", "topk": [f"d{i}" if i < first else "other"]} for i in range(30)]


def lines(file: Path, records: list[dict[str, Any]]) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(file)


TITLES = {
    "eval": (["eval", "{new}"], r"hybrid on faq: recall@5 80\.0%, (\d+ findings?|nothing stands out)"),
    "gate": (
        ["gate", "{new}", "--baseline", "{old}", "--gate", "recall@5 >= 0.9"],
        r"May not ship: hybrid against bm25 on faq, 1 check failed",
    ),
    "passing": (["gate", "{new}", "--gate", "recall@5 >= 0.5"], r"May ship: hybrid on faq, 1 check passed"),
    "compare": (["compare", "{old}", "{new}"], r"hybrid against bm25 on faq: recall@5 from 50\.0% to 80\.0%, better"),
    "many": (["eval", "{old}", "{new}"], r"2 systems on faq: recall@5 from 50\.0% \(bm25\) to 80\.0% \(hybrid\)"),
    "sweep": (["eval", "sweep", "{new}"], r"hybrid on faq over k: .*\b80\.0%.*"),
}


@pytest.mark.parametrize("kind", TITLES)
def test_the_title_is_a_sentence_with_names(pages: Any, tmp_path: Path, kind: str) -> None:
    """From plain files, which say nowhere what they are called."""
    old = lines(tmp_path / "runs/bm25.jsonl", ranked(15))
    new = lines(tmp_path / "runs/hybrid.jsonl", ranked(24))
    gold, page = lines(tmp_path / "faq/gold.jsonl", GOLD), tmp_path / "page.html"
    command, expected = TITLES[kind]
    code, said = pages.run(*(part.format(old=old, new=new) for part in command), "--gold", gold, "-o", str(page))
    assert code < 2, said
    title = title_of(page.read_text())
    assert re.fullmatch(expected, title), title


TROUBLE = {
    "ids": ([{"query_id": f"q{i}", "topk": [f"{i * 7919:x}-{i}", "77-f"]} for i in range(30)], "ids do not match"),
    "near": ([{"query_id": f"q{i}", "topk": [f"kb/d{i}.md"]} for i in range(30)], "ids do not match"),
    "distances": (
        [{"query_id": f"q{i}", "topk": [{"chunk_id": f"d{i + j}", "score": j} for j in range(4)]} for i in range(30)],
        "are the scores distances?",
    ),
    "errors": (
        [{**r, **({"topk": [], "error": "timeout"} if i > 3 else {})} for i, r in enumerate(ranked(30))],
        "26 of 30 queries failed",
    ),
    "missing": (ranked(30)[:12], "18 of 30 queries missing"),
    "both": (
        [{**r, **({"topk": [], "error": "timeout"} if i > 3 else {})} for i, r in enumerate(ranked(30))][:20],
        "16 of 30 queries failed, 10 missing",
    ),
}


@pytest.mark.parametrize("kind", TROUBLE)
def test_a_page_never_begins_with_a_score_that_says_nothing(pages: Any, tmp_path: Path, kind: str) -> None:
    """Neither the title nor the overview may read as if the retriever had been measured."""
    records, expected = TROUBLE[kind]
    run, gold = lines(tmp_path / "run.jsonl", records), lines(tmp_path / "faq/gold.jsonl", GOLD)
    page = tmp_path / "page.html"
    code, said = pages.run("eval", run, "--gold", gold, "-o", str(page))
    assert code == 0, said
    assert title_of(page.read_text()) == f"run on faq: {expected}"
    there = sections(parsed(page.read_text()))
    assert NOTHING not in words(there["glance"])
    assert NOTHING not in said
    if kind in ("ids", "near"):
        assert "recall" not in words(there["glance"])


@pytest.mark.parametrize("kind", TROUBLE)
@pytest.mark.parametrize("command", ["compare", "eval sweep"])
def test_nor_does_a_comparison_or_a_curve(pages: Any, tmp_path: Path, kind: str, command: str) -> None:
    records, expected = TROUBLE[kind]
    run, good = lines(tmp_path / "run.jsonl", records), lines(tmp_path / "good.jsonl", ranked(30))
    gold, page = lines(tmp_path / "faq/gold.jsonl", GOLD), tmp_path / "page.html"
    given = [run, good] if command == "compare" else [run]
    pages.run(*command.split(), *given, "--gold", gold, "-o", str(page))
    title = title_of(page.read_text())
    assert title.endswith(f": run: {expected}" if command == "compare" else f": {expected}")
    assert "%" not in title


@pytest.mark.parametrize("name", ["report", "verdict", "diff", "both", "saved", "hostile"])
def test_no_title_is_a_path(pages: Any, name: str) -> None:
    assert not re.search(r"\.jsonl?\b|\S/\S", title_of(pages[name].read_text()).replace("</", ""))


# Kinds of intervals on each page: of scores, and of differences.
INTERVALS = {
    "report": {"score", "difference"},
    "verdict": {"score", "difference", "reading"},
    "diff": {"score", "difference", "reading"},
    "both": {"score", "difference"},
    "saved": {"score", "difference", "reading"},
}


@pytest.mark.parametrize("name", INTERVALS)
def test_each_kind_of_interval_is_explained_once(pages: Any, name: str) -> None:
    page = pages[name].read_text()
    found = [str(e.get("data-explains")) for e in parsed(page).iter() if e.get("data-explains")]
    assert len(found) == len(set(found))
    assert set(found) - {"sure"} == INTERVALS[name]
    assert page.count("In brackets: ") == 1  # in no other words either
    assert page.count("resampled together") == 0
    first = next(e for e in parsed(page).iter() if e.get("data-explains") in ("score", "difference"))
    overview = next(iter(sections(parsed(page)).values()))
    assert first in list(overview.iter())  # before the first section that needs it is left


def test_bounds_of_several_candidates_are_explained_once(pages: Any, tmp_path: Path) -> None:
    runs = [lines(tmp_path / f"{name}.jsonl", ranked(first)) for name, first in (("a", 10), ("b", 15), ("c", 20))]
    gold, page = lines(tmp_path / "gold.jsonl", GOLD), tmp_path / "page.html"
    code, said = pages.run("compare", *runs, "--gold", gold, "--bounds", "-o", str(page))
    assert code == 0, said
    tree = parsed(page.read_text())
    assert {"bounds-1", "bounds-2"} <= set(sections(tree))
    found = [str(e.get("data-explains")) for e in tree.iter() if e.get("data-explains")]
    assert found.count("bounds of differences") == 1
    assert len(found) == len(set(found))
