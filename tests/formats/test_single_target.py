"""Single-target sets: a query and the one id that should be found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import ConfigError, InputError

RUN = [
    {"query": "cake without eggs", "topk": ["r9", "r1"]},
    {"query": "fast soup", "topk": ["r2"]},
    {"query": "old bread", "topk": ["r5"]},
]
QUERIES = ["cake without eggs", "fast soup", "old bread"]


def write(path: Path, entries: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(e) + "\n" for e in entries))
    return path


def entries(field: str, *extra: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"query": q, field: f"r{i}"} for i, q in enumerate(QUERIES, 1)] + list(extra)


@pytest.mark.parametrize(
    "field", ["source_recipe_id", "target_id", "target", "expected_doc_id", "relevant_id", "chunk_id", "doc_id"]
)
def test_a_field_that_looks_like_a_target_is_one(tmp_path: Path, field: str) -> None:
    result = karat.evaluate(RUN, write(tmp_path / "set.jsonl", entries(field)), ["mrr", "hit@1", "target_rank"])
    assert result.score("mrr") == dict(zip(QUERIES, [0.5, 1.0, 0.0], strict=True))
    assert result.score("target_rank") == dict(zip(QUERIES, [2.0, 1.0, None], strict=True))
    assert result.gold.tags == {}  # the target is no tag


@pytest.mark.parametrize("field", ["recipe", "Answer ID", "source", "answer", "id", "tier"])
def test_any_field_can_be_named_as_the_target(tmp_path: Path, field: str) -> None:
    """Also one that has another meaning in a gold set: whoever names it knows better."""
    gold = karat.read_gold(write(tmp_path / "set.jsonl", entries(field)), target=field)
    assert gold.ids == ["r1", "r2", "r3"]
    assert gold.queries == QUERIES
    assert karat.evaluate(RUN, gold, ["mrr"]).means == {"mrr": 0.5}


def test_a_named_target_wins_over_one_that_looks_like_it(tmp_path: Path) -> None:
    set_ = [{"query": "fast soup", "target_id": "wrong", "recipe": "r2", "language": "en"}]
    gold = karat.read_gold(write(tmp_path / "set.jsonl", set_), target="recipe")
    assert gold.ids == ["r2"]
    assert gold.tags["language"] == ["en"]


def test_a_json_list_of_entries_and_entries_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text(json.dumps(entries("source_recipe_id"), indent=1))
    assert karat.read_gold(path).ids == karat.read_gold(entries("source_recipe_id")).ids == ["r1", "r2", "r3"]


@pytest.mark.parametrize(("name", "cut"), [("set.csv", ","), ("set.tsv", "\t")])
def test_a_table_of_targets(tmp_path: Path, name: str, cut: str) -> None:
    path = tmp_path / name
    rows = [["query", "source_recipe_id"], *([e["query"], e["source_recipe_id"]] for e in entries("source_recipe_id"))]
    path.write_text("".join(cut.join(row) + "\n" for row in rows))
    assert karat.evaluate(RUN, path, ["mrr"]).means == {"mrr": 0.5}


def test_several_targets_numbers_and_none(tmp_path: Path) -> None:
    set_ = [
        {"query": "cake without eggs", "target": ["r9", "r1"]},
        {"query": "fast soup", "target": 2},
        {"query": "old bread", "target": None, "no_answer": True},
    ]
    gold = karat.read_gold(write(tmp_path / "set.jsonl", set_))
    assert (gold.ids, gold.offsets.tolist()) == (["r9", "r1", "2"], [0, 2, 3, 3])


def test_an_id_of_the_query_is_used_where_there_is_one(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"query_id": "q1", "query": "soup", "source_recipe_id": "r2"}])
    assert karat.evaluate({"q1": ["r2"]}, path, ["mrr"]).score("mrr") == {"q1": 1.0}


def test_other_fields_are_tags(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"query": "soup", "source_recipe_id": "r2", "cuisine": "thai"}])
    assert karat.read_gold(path).tags == {"cuisine": ["thai"]}


def test_an_entry_without_its_named_target_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [*entries("recipe"), {"query": "more soup"}])
    with pytest.raises(InputError) as caught:
        karat.read_gold(path, target="recipe")
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(path), 4, "recipe")


def test_an_entry_with_nothing_to_find_is_refused_with_a_hint(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"query": "soup", "recipe": "r2"}])
    with refused("nothing-to-find", InputError, file=path, line=1) as caught:
        karat.read_gold(path)
    assert "--target" in caught.value.hint


def test_a_target_that_is_an_object_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"query": "soup", "target": {"recipe": "r2"}}])
    with pytest.raises(InputError) as caught:
        karat.read_gold(path)
    assert (caught.value.line, caught.value.field) == (1, "target")


def test_the_same_query_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", entries("target", {"query": "fast soup", "target": "r7"}))
    with refused("duplicate-query", InputError, line=4, query="fast soup") as caught:
        karat.read_gold(path)
    assert "(line 2)" in caught.value.what


def test_a_target_that_is_named_is_used_or_refused_also_beside_gold() -> None:
    """A name that nobody looks at would leave its author with other gold than asked for."""
    entries = [{"query_id": "q", "gold": ["a"], "best_page": "b"}]
    assert karat.read_gold(entries, target="best_page").ids == ["b"]
    with refused("missing-field", InputError, field="best_pag") as caught:
        karat.read_gold(entries, target="best_pag")
    assert "best_page" in caught.value.hint


def test_a_target_is_used_also_beside_gold_that_could_be_read_as_columns(tmp_path: Path) -> None:
    entries = [{"query_id": str(i), "gold": [{"chunk_id": "a"}], "best_page": f"b{i}"} for i in range(20_000)]
    path = write(tmp_path / "gold.jsonl", entries)  # more than one block
    assert karat.read_gold(path, target="best_page").ids == [f"b{i}" for i in range(20_000)]


def test_a_target_means_nothing_to_other_formats(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_text("q 0 a 1\n")
    with refused("no-such-option", ConfigError, got="page"):
        karat.read_gold(path, target="page")
