"""Span recall, precision and IoU against sets of characters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat.data.corpus import Corpus

METRICS = ["span_recall@3", "span_precision@3", "span_iou@3"]
Chunk = tuple[str, int, int]
CHUNKS = st.lists(
    st.tuples(st.sampled_from("de"), st.integers(0, 50), st.integers(1, 40)).map(lambda c: (c[0], c[1], c[1] + c[2])),
    min_size=1,
    max_size=6,
)


def corpus(chunks: list[Chunk]) -> Corpus:
    ids = [f"{doc}#{at}" for at, (doc, _, _) in enumerate(chunks)]
    fields: dict[str, list[Any]] = {"start": [c[1] for c in chunks], "end": [c[2] for c in chunks]}
    return Corpus("corpus", ids, [""] * len(ids), [""] * len(ids), fields)


def evaluate(chunks: list[Chunk], passages: list[Chunk], **options: Any) -> karat.Result:
    items = [{"doc_id": doc, "start": start, "end": end} for doc, start, end in passages]
    known = corpus(chunks)
    return karat.evaluate({"q": known.ids}, [{"query_id": "q", "gold": items}], METRICS, corpus=known, **options)


def characters(stretches: list[Chunk]) -> set[tuple[str, int]]:
    return {(doc, at) for doc, start, end in stretches for at in range(start, end)}


@settings(max_examples=60)
@given(chunks=CHUNKS, passages=CHUNKS)
def test_as_sets_of_characters(chunks: list[Chunk], passages: list[Chunk]) -> None:
    last = {doc: max((end for d, _, end in chunks if d == doc), default=0) for doc in "de"}
    inside = [(doc, start, min(end, last[doc])) for doc, start, end in passages if start < last[doc]]
    if not inside:
        return
    top, gold = characters(chunks[:3]), characters(inside)
    found, returned = len(top & gold), sum(end - start for _, start, end in chunks[:3])
    expected = [found / len(gold), found / returned, found / len(top | gold)]
    assert list(evaluate(chunks, inside).means.values()) == pytest.approx(expected)


def test_repeated_characters_count_once_above_the_line() -> None:
    """Two chunks that overlap by half, over a passage in what they share."""
    means = evaluate([("d", 0, 100), ("d", 50, 150)], [("d", 50, 100)]).means
    assert means == {"span_recall@3": 1.0, "span_precision@3": 0.25, "span_iou@3": pytest.approx(1 / 3)}


def test_a_missing_and_an_empty_query_have_failed() -> None:
    known = corpus([("d", 0, 100)])
    entry = {"gold": [{"doc_id": "d", "start": 0, "end": 50}]}
    gold = [{"query_id": query, **entry} for query in ("there", "empty", "missing")]
    result = karat.evaluate({"there": ["d#0"], "empty": []}, gold, METRICS, corpus=known)
    assert result.score("span_recall@3") == {"there": 1.0, "empty": 0.0, "missing": 0.0}
    assert result.score("span_precision@3") == {"there": 0.5, "empty": 0.0, "missing": 0.0}
    assert result.score("span_iou@3") == {"there": 0.5, "empty": 0.0, "missing": 0.0}


def test_undefined_where_not_all_is_known() -> None:
    """Items that are no passage, or hits that stand nowhere; grade 0 is no gold."""
    known = corpus([("d", 0, 100)])
    passage = {"doc_id": "d", "start": 0, "end": 50}
    gold = [
        {"query_id": "ids too", "gold": [passage, {"chunk_id": "d#0"}]},
        {"query_id": "unknown hit", "gold": [passage]},
        {"query_id": "bad", "gold": [{**passage, "grade": 0}]},
        {"query_id": "fine", "gold": [passage, {"chunk_id": "d#9", "grade": 0}, {**passage, "end": 99, "grade": 0}]},
    ]
    run = {"ids too": ["d#0"], "unknown hit": ["d#0", "d#77"], "bad": ["d#0"], "fine": ["d#0"]}
    result = karat.evaluate(run, gold, METRICS, corpus=known)
    assert result.score("span_recall@3") == {"ids too": None, "unknown hit": None, "bad": None, "fine": 1.0}


def test_a_quote_that_stands_nowhere_is_not_found() -> None:
    text = "Refunds take five days. Cards ship in two weeks."
    known = Corpus("corpus", ["d#0"], [""], [text], {"start": [0], "end": [len(text)]})
    quotes = ["refunds take five days.", "nobody wrote this of it", "nobody wrote this either"]
    items = [{"doc_id": "d", "quote": quote} for quote in quotes]
    beyond = {"doc_id": "d", "start": 1000, "end": 1030}
    result = karat.evaluate({"q": ["d#0"]}, [{"query_id": "q", "gold": [*items, beyond]}], METRICS, corpus=known)
    assert result.means["span_recall@3"] == pytest.approx(23 / (23 + 23 + 24 + 30))
    assert result.means["span_precision@3"] == pytest.approx(23 / len(text))


@pytest.mark.parametrize(
    ("gold", "fields", "reason"),
    [
        (["d#0"], {}, "passage"),
        ([{"doc_id": "d", "quote": "refunds"}], {}, "quotes"),
        ([{"doc_id": "d", "start": 0, "end": 5}], {}, "start and end"),
    ],
)
def test_says_what_is_lacking(gold: Any, fields: dict[str, Any], reason: str) -> None:
    known = Corpus("corpus", ["d#0"], [""], ["Refunds take five days."], fields)
    result = karat.evaluate({"q": ["d#0"]}, [{"query_id": "q", "gold": gold}], ["span_recall@1"], corpus=known)
    ((example,),) = [e.examples for e in result.audit if e.code == "no_data"]
    assert example.startswith("span_recall@1: ")
    assert reason in example


def test_the_panel_has_them_only_where_there_is_something_to_say() -> None:
    with_passages = evaluate([("d", 0, 100)], [("d", 0, 50)])
    shown = karat.evaluate({"q": ["d#0"]}, with_passages.gold, corpus=corpus([("d", 0, 100)])).means
    assert {"span_recall@5", "span_precision@5", "span_iou@5"} <= set(shown)
    assert "span_recall@5" not in karat.evaluate({"q": ["d#0"]}, {"q": ["d#0"]}).means
