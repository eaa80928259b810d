"""Whether what the gold set names is still there."""

from __future__ import annotations

import re
from typing import Any

import pytest

import karat
from karat.data.corpus import Corpus
from karat.report.build import evaluation_report
from karat.results.analyses.label_health import LabelHealth
from karat.results.evaluate import evaluate_all
from karat.results.save import saved_form


def corpus(*ids: str, text: str = "", **fields: list[Any]) -> Corpus:
    return Corpus("corpus", list(ids), [""] * len(ids), [text or f"text of {i}" for i in ids], fields)


def gold(*items: Any) -> list[dict[str, Any]]:
    return [{"query_id": f"q{at}", "gold": [item]} for at, item in enumerate(items)]


def evaluate(items: list[dict[str, Any]], hits: list[str], **options: Any) -> karat.Result:
    run = [{"query_id": entry["query_id"], "topk": hits} for entry in items]
    return karat.evaluate(run, items, ["recall@5"], **options, analyses=True)


def health(items: list[dict[str, Any]], hits: list[str], **options: Any) -> LabelHealth:
    found: LabelHealth = evaluate(items, hits, **options).analyses.found["label_health"]
    return found


def shown(result: karat.Result) -> str:
    (section,) = [s for s in evaluation_report(result).sections if s.name == "label_health"]
    return "\n".join(str(block) for block in section.blocks)


CHUNKS = [f"d{i}#1" for i in range(10)]


def test_all_is_well() -> None:
    result = evaluate(gold(*CHUNKS), CHUNKS, corpus=corpus(*CHUNKS, "other#1"))
    found = result.analyses.found["label_health"]
    assert (found.chunks.count, found.chunks.there, found.rechunked) == (10, 10, False)
    assert "(10 chunks)" in shown(result)


def test_other_chunks_of_the_same_documents_look_like_rechunking() -> None:
    new = [f"d{i}#a" for i in range(10)]
    result = evaluate(gold(*CHUNKS), new, corpus=corpus(*new))
    found = result.analyses.found["label_health"]
    assert (found.chunks.count, found.chunks.there, found.chunks.moved, found.rechunked) == (10, 0, 10, True)
    assert found.chunks.examples == ["d0#1", "d1#1", "d2#1"]
    assert "10 of 10 chunks" in shown(result)
    assert "docs/rechunking.md" in shown(result)
    assert [f.code for f in result.findings] == ["unmatched_ids", "labels_gone"]


def test_documents_that_are_gone_are_no_rechunking() -> None:
    result = evaluate(gold(*CHUNKS), ["x#1"], corpus=corpus("x#1", *CHUNKS[:4]))
    found = result.analyses.found["label_health"]
    assert (found.chunks.there, found.chunks.moved, found.rechunked) == (4, 0, False)
    assert "6 gold items " in shown(result)


def test_documents_and_ids_that_have_no_mark() -> None:
    """A bare id is a document, or a chunk where the corpus has one of that name."""
    items = gold("d0", "d1", {"doc_id": "d2"}, {"doc_id": "gone"}, "plain", {"chunk_id": "plain"})
    chunks = corpus("d0#1", "d1#1", "c7", "plain", doc_id=[None, None, "d2", "p"])
    found = health(items, ["d0#1"], corpus=chunks)
    assert (found.documents.count, found.documents.there, found.documents.examples) == (4, 3, ["gone"])
    assert (found.chunks.count, found.chunks.there) == (2, 2)


def test_only_relevant_items_are_labels() -> None:
    found = health([{"query_id": "q", "gold": {"d0#1": 1, "gone#1": 0}}], ["d0#1"], corpus=corpus("d0#1"))
    assert (found.chunks.count, found.chunks.there) == (1, 1)


def test_a_chunk_that_no_longer_holds_its_quote_has_changed() -> None:
    """Ids that every chunking uses: they are there, and mean something else."""
    items = gold(*({"chunk_id": i, "doc_id": i.partition("#")[0], "quote": f"text OF {i}"} for i in CHUNKS))
    assert health(items, CHUNKS, corpus=corpus(*CHUNKS)).changed == 0
    result = evaluate(items, CHUNKS, corpus=corpus(*CHUNKS, text="cut in another way"))
    found = result.analyses.found["label_health"]
    assert (found.chunks.there, found.changed, found.quoted, found.rechunked) == (10, 10, 10, True)
    assert "(d0#1, d1#1, d2#1)" in shown(result)


def test_passages_are_there_where_a_chunk_holds_them() -> None:
    items = gold({"doc_id": "d", "quote": "text of d#1"}, {"doc_id": "d", "quote": "never written"})
    found = health(items, ["d#1"], corpus=corpus("d#1"))
    assert (found.passages.count, found.passages.there) == (2, 1)
    assert found.passages.examples == ["d: “never written”"]


def test_without_a_corpus_what_was_returned_is_there() -> None:
    """For whatever query; that most chunks were returned says that ids fit, that hardly any was, that they do not."""
    well = evaluate(gold(*CHUNKS), [*CHUNKS[:6], *(f"d{i}#2" for i in range(6, 10))])
    found = well.analyses.found["label_health"]
    assert (found.against, found.chunks.there, found.chunks.moved, found.rechunked) == ("hits", 6, 4, False)
    assert "without a corpus" in shown(well)
    cut = health(gold(*CHUNKS), [f"d{i}#a" for i in range(10)])
    assert (cut.chunks.there, cut.chunks.moved, cut.rechunked) == (0, 10, True)
    elsewhere = health(gold(*CHUNKS), ["x#1"])
    assert (elsewhere.chunks.there, elsewhere.chunks.moved, elsewhere.rechunked) == (0, 0, False)


def test_documents_of_hits_are_those_that_the_log_names() -> None:
    run = [{"query_id": "q0", "topk": [{"chunk_id": "c7", "doc_id": "d0"}]}]
    found = karat.evaluate(run, gold({"doc_id": "d0"}), ["recall@5"], analyses=True).analyses.found["label_health"]
    assert (found.documents.count, found.documents.there) == (1, 1)


def test_each_system_has_what_it_returned() -> None:
    run = [{"query_id": "q0", "system": name, "topk": [hit]} for name, hit in (("a", "d0#1"), ("b", "d0#2"))]
    results = evaluate_all(run, gold("d0#1"), ["recall@5"], analyses=True)
    assert {name: r.analyses.found["label_health"].chunks.there for name, r in results.items()} == {"a": 1, "b": 0}


def test_a_run_whose_queries_are_not_together(tmp_path: Any) -> None:
    path = tmp_path / "run.trec"
    path.write_text("q0 Q0 d0#1 1 3 s\nq1 Q0 d1#1 1 3 s\nq0 Q0 d2#1 2 2 s\n")
    items = gold("d0#1", "d2#1")
    found = karat.evaluate(path, items, ["recall@5"], analyses=True).analyses.found["label_health"]
    assert (found.chunks.count, found.chunks.there) == (2, 2)


def test_it_survives_being_saved(tmp_path: Any) -> None:
    from karat.results.save import restore

    result = evaluate(gold(*CHUNKS), ["d0#a"], corpus=corpus("d0#a"))
    again = restore(saved_form(result)).analyses.found["label_health"]
    assert again == result.analyses.found["label_health"]


def test_a_gold_set_without_items_has_no_labels() -> None:
    result = karat.evaluate({"q": ["a"]}, [{"query_id": "q", "no_answer": True}], ["recall@5"], analyses=True)
    assert result.analyses.lacking["label_health"]


@pytest.mark.parametrize("moved", [4, 5])
def test_a_handful_is_no_rechunking(moved: int) -> None:
    items = gold(*CHUNKS)
    new = [*(f"d{i}#a" for i in range(moved)), *CHUNKS[moved:]]
    assert health(items, new, corpus=corpus(*new)).rechunked == (moved == 5)


def test_bare_ids_are_called_documents_only_where_they_are() -> None:
    bare = [f"c{i}" for i in range(10)]
    chunks = evaluate(gold(*bare), bare, corpus=corpus(*bare))
    assert "(10 ids)" in shown(chunks)
    documents = evaluate(gold(*bare), [f"{i}#1" for i in bare], corpus=corpus(*(f"{i}#1" for i in bare)))
    assert "(10 documents)." in shown(documents)
    said = evaluate(gold(*({"doc_id": i} for i in bare)), bare, corpus=corpus(*bare))
    assert "(10 documents)." in shown(said)
    gone = shown(evaluate(gold(*bare), bare, corpus=corpus(*bare[:4])))
    assert "6 gold items " in gone
    mixed = shown(evaluate(gold(*bare, "d#1"), bare, corpus=corpus(*bare, "d#1")))
    assert re.search(r"\(1 chunks .*\b10 ", mixed)
