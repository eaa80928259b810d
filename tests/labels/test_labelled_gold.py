"""Labels in a gold set: what is added, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from refusals import refused

import karat
from karat.data.gold import Gold
from karat.errors import InputError, NoOverlap
from karat.labels.files import Label, read_labels
from karat.labels.labelled_gold import read_gold_or_queries, with_labels


def label(query: str, item: str, grade: float | None, annotator: str = "ann", **more: Any) -> Label:
    reason = "skipped" if grade is None else None
    return Label(query_id=query, chunk_id=item, grade=grade, reason=reason, annotator=annotator, **more)


def judged(gold: Gold) -> dict[tuple[str, str], float]:
    queries = (gold.queries[i] for i in gold.query_of_item.tolist())
    return dict(zip(zip(queries, gold.ids, strict=True), gold.grades.tolist(), strict=True))


def test_labels_are_added_and_the_gold_set_is_not_changed() -> None:
    gold = karat.read_gold({"q1": {"a": 2}, "q2": {"b": 1}})
    labels = [
        label("q2", "c", 1),
        label("q1", "d", 0),
        label("q1", "a", 0),
        label("q9", "a", 2),
        label("q1", "e", None),
    ]
    merged = with_labels(gold, labels)
    assert judged(merged) == {("q1", "a"): 2, ("q1", "d"): 0, ("q2", "b"): 1, ("q2", "c"): 1}
    audit = {entry.code: entry.count for entry in merged.audit}
    assert audit == {"labels_added": 2, "labels_overruled": 1, "labels_missing": 1, "labels_unknown": 1}
    assert judged(gold) == {("q1", "a"): 2, ("q2", "b"): 1}


def test_an_evaluation_uses_them() -> None:
    gold = karat.read_gold({"q1": {"a": 2}})
    run = {"q1": ["b", "a", "c"]}
    assert karat.evaluate(run, gold, ["precision@2", "judged@3"]).means == {"precision@2": 0.5, "judged@3": 1 / 3}
    result = karat.evaluate(
        run, with_labels(gold, [label("q1", "b", 1), label("q1", "c", 0)]), ["precision@2", "judged@3"]
    )
    assert result.means == {"precision@2": 1.0, "judged@3": 1.0}
    assert result.audit["labels_added"] == 2


def test_other_labels_are_other_data() -> None:
    gold = karat.read_gold({"q1": {"a": 2}})
    some, others = with_labels(gold, [label("q1", "b", 1)]), with_labels(gold, [label("q1", "b", 0)])
    assert len({gold.dataset.hash, some.dataset.hash, others.dataset.hash}) == 3
    assert with_labels(gold, [label("q1", "a", 2)]).dataset == gold.dataset


def test_a_chunk_of_a_judged_document_is_judged_by_it() -> None:
    gold = karat.read_gold([{"query_id": "q", "gold": [{"doc_id": "d1", "grade": 2}]}])
    merged = with_labels(gold, [label("q", "d1#3", 0), label("q", "d2#1", 1)])
    assert judged(merged) == {("q", "d1"): 2, ("q", "d2#1"): 1}
    assert merged.audit["labels_overruled"] == 1


def test_labels_of_documents() -> None:
    gold = karat.read_gold({"q": {"d1#1": 2}})
    merged = with_labels(gold, [Label(query_id="q", doc_id="d2", grade=1, annotator="ann")])
    assert karat.evaluate({"q": ["d2#7", "d2#8", "d1#1"]}, merged, ["recall@1"]).means == {"recall@1": 0.5}


def test_a_query_without_an_answer_stays_without() -> None:
    gold = karat.read_gold([{"query_id": "q", "no_answer": True}, {"query_id": "p", "gold": ["a"]}])
    merged = with_labels(gold, [label("q", "a", 2), label("q", "b", 0)])
    assert judged(merged) == {("q", "b"): 0, ("p", "a"): 2}
    assert merged.audit["labels_no_answer"] == 1


def test_annotators_who_disagree_are_refused_with_both_places(tmp_path: Path) -> None:
    for name, grade in (("ann", 2), ("ben", 0)):
        entry = {"query_id": "q1", "chunk_id": "x", "grade": grade, "annotator": name}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(entry) + "\n")
    labels = read_labels(tmp_path / "ann.jsonl", tmp_path / "ben.jsonl")
    place = {"file": tmp_path / "ben.jsonl", "line": 1, "field": "grade", "query": "q1"}
    with refused("contradiction", InputError, **place) as caught:
        with_labels(karat.read_gold({"q1": {"a": 2}}), labels)
    assert f"{tmp_path}/ann.jsonl:1" in caught.value.what
    assert "karat labels agree" in caught.value.hint


def test_labels_of_another_set_are_refused() -> None:
    with refused("no-overlap", NoOverlap):
        with_labels(karat.read_gold({"q1": {"a": 2}}), [label("other", "a", 1)])


def test_bare_queries_become_gold_by_their_labels(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"query_id": "q1", "query": "how", "tags": {"language": "en"}}\n')
    gold = read_gold_or_queries(str(tmp_path / "q.jsonl"))
    assert (gold.text(0), gold.tags) == ("how", {"language": ["en"]})
    merged = with_labels(gold, [label("q1", "a", 2)])
    assert karat.evaluate({"q1": ["b", "a"]}, merged, ["mrr"]).means == {"mrr": 0.5}
