"""The queries that failed, one by one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.errors import ConfigError
from karat.results.queries.shown import MarkedText, shared_words
from karat.results.queries.triage import Triage, triage
from karat.schemas import schema_text

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
GOLD: list[dict[str, Any]] = [
    {"query_id": "found", "query": "refund window", "gold": {"d1#1": 1}},
    {"query_id": "low", "query": "card limits", "gold": {"d2#1": 2, "d2#2": 1}, "tags": {"language": "en"}},
    {"query_id": "lost", "query": "wire fees", "gold": {"d3#1": 1, "d3#2": 0}},
    {"query_id": "lacking", "query": "chargeback", "gold": {"d1#1": 1}},
    {"query_id": "none", "query": "weather", "no_answer": True},
    {"query_id": "document", "query": "statements", "gold": [{"doc_id": "d4"}]},
]
RUN: list[dict[str, Any]] = [
    {"query_id": "found", "topk": ["d1#1"]},
    {"query_id": "low", "topk": [{"chunk_id": c, "score": 1 / (i + 1)} for i, c in enumerate(("x#1", "d2#2", "y#1"))]},
    {"query_id": "lost", "topk": ["d3#2", {"chunk_id": "x#1", "text": "The fees of a wire"}]},
    {"query_id": "none", "topk": ["x#1"]},
    {"query_id": "document", "topk": ["x#1", "d4#7"]},
]
TEXTS = {
    "d1#1": "A refund within 90 days",
    "d2#1": "Limits of a card",
    "d2#2": "Raise it",
    "d3#1": "A wire fee",
    "d4#1": "Statement",
}
CORPUS = Corpus("corpus", list(TEXTS), [""] * len(TEXTS), list(TEXTS.values()))


def found(most: int = 20, **options: Any) -> Triage:
    return triage(karat.evaluate(RUN, GOLD, ["mrr"], **options), most)


def case(query: str, **options: Any) -> Any:
    return next(c for c in found(**options).cases if c.query_id == query)


def test_nothing_found_comes_first_then_the_greatest_loss() -> None:
    shown = found()
    assert [(c.query_id, c.kind) for c in shown.cases] == [
        ("lost", "nothing found"),
        ("lacking", "nothing found"),
        ("low", "loss"),
        ("document", "loss"),
    ]
    assert (shown.queries, shown.nothing_found, shown.losing) == (5, 2, 2)
    assert [c.query_id for c in found(most=1).cases] == ["lost"]
    assert found(most=1).losing == 2


def test_hits_are_marked_and_gold_says_where_it_stands() -> None:
    low = case("low")
    assert [(h.rank, h.id, h.mark, h.score) for h in low.hits] == [
        (1, "x#1", "unjudged", 1.0),
        (2, "d2#2", "hit", 0.5),
        (3, "y#1", "unjudged", 1 / 3),
    ]
    assert [(g.id, g.grade, g.rank) for g in low.gold] == [("d2#1", 2.0, None), ("d2#2", 1.0, 2)]
    assert low.tags == {"language": "en"}
    assert [h.mark for h in case("lost").hits] == ["miss", "unjudged"]
    assert case("lacking").hits == []


def test_a_document_is_found_by_its_chunk() -> None:
    assert [(g.id, g.rank) for g in case("document").gold] == [("d4", 2)]
    (gold,) = case("document", corpus=CORPUS).gold
    assert gold.passage == MarkedText("Statement", [(0, 9)])


def test_texts_come_from_the_log_else_from_the_corpus() -> None:
    assert [h.passage for h in case("lost").hits] == [None, MarkedText("The fees of a wire", [(4, 8), (14, 18)])]
    assert case("lost").gold[0].passage is None
    assert case("lost", corpus=CORPUS).gold[0].passage == MarkedText("A wire fee", [(2, 6), (7, 10)])


def test_word_search_stands_beside_the_hits_where_there_is_a_corpus() -> None:
    assert case("lost").bm25 is None
    (best,) = case("lost", corpus=CORPUS).bm25
    assert (best.rank, best.id, best.mark) == (1, "d3#1", "hit")
    assert case("lacking", corpus=CORPUS).bm25 == []


def test_a_saved_result_has_no_hits_to_look_at(tmp_path: Path) -> None:
    from karat.report.export import export
    from karat.results.comparison.sides import as_results

    export([karat.evaluate(RUN, GOLD, ["mrr"])], str(tmp_path / "saved.json"))
    (saved,) = as_results(str(tmp_path / "saved.json"), None, None, {})
    with refused("no-hits-kept", ConfigError):
        triage(saved)
    with refused("bad-setting", ConfigError, got=0):
        found(most=0)


def test_many_gold_items_are_cut_and_counted() -> None:
    gold = {"q": {f"d{i}": 1 for i in range(50)}}
    (shown,) = triage(karat.evaluate({"q": ["x"]}, gold, ["mrr"])).cases
    assert (len(shown.gold), shown.gold_items) == (20, 50)


@pytest.mark.parametrize("text", ["", "x" * 1000, "\u202edetrevni", "<script>", "日本語の文", "a\x00b\x1b[31m"])
def test_any_text_is_a_passage(text: str) -> None:
    shown = shared_words("日本語 script x", text, None, 100)
    assert len(shown.text) <= 100
    assert all(0 <= a < b <= len(shown.text) for a, b in shown.marks)


def test_a_long_text_is_shown_where_the_words_are() -> None:
    text = "nothing here. " * 100 + "the refund of 90 days" + " and so on" * 100
    shown = shared_words("refunds", text, "en", 120)
    assert [shown.text[a:b] for a, b in shown.marks] == ["refund"]
    assert (shown.text[0], shown.text[-1], len(shown.text)) == ("…", "…", 120)


STOP_WORDS = [
    ("How do I get the money for my refund?", "How do you get a refund: do it for the money", "en", "get refund money"),
    (
        "¿Cuándo me llega la plata de la venta?",
        "La plata de una venta llega cuando se acredita",
        "es",
        "plata venta llega",
    ),
    ("Wie bekomme ich mein Geld zurück?", "Ich bekomme das Geld, wie es mein Konto zeigt", "de-AT", "bekomme Geld"),
    ("Is it in or out?", "It is in, it is out, and what is it", None, ""),
]


@pytest.mark.parametrize(("query", "text", "language", "marked"), STOP_WORDS)
def test_stop_words_are_not_marked(query: str, text: str, language: str | None, marked: str) -> None:
    shown = shared_words(query, text, language, 200)
    assert {shown.text[a:b] for a, b in shown.marks} == set(marked.split())


def test_stop_words_are_not_marked_without_the_package_that_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.results.queries import shown as module
    from karat.retrievers import words as lexical

    for kept in (module._stems, module._words_of, lexical._stems):
        kept.cache_clear()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    try:
        shown = shared_words("How do I get my refund?", "How do you get the refund", "en", 200)
    finally:
        for kept in (module._stems, module._words_of, lexical._stems):
            kept.cache_clear()  # type: ignore[attr-defined]
    assert [shown.text[a:b] for a, b in shown.marks] == ["get", "refund"]


def test_the_demo_set(karat_command: Any) -> None:
    args = (
        "eval",
        "triage",
        str(DEMO / "bm25.jsonl"),
        "-g",
        str(DEMO / "gold.jsonl"),
        "--corpus",
        str(DEMO / "corpus.jsonl"),
    )
    code, out, _ = karat_command(*args, "-n", "3", "--json")
    shown = json.loads(out)
    jsonschema.validate(shown, json.loads(schema_text("triage")))
    assert (code, len(shown["cases"])) == (0, 3)
    assert all(c["scores"]["recall@10"] == 0 and c["bm25"] for c in shown["cases"])
    code, out, _ = karat_command(*args, "-n", "2")
    assert code == 0
    assert out.count("(BM25)") == 2
    assert max(map(len, out.splitlines())) <= 100
