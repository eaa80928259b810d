"""Gold sets as JSONL, JSON and YAML: forms of gold, fields, tags, cutoffs, and which data it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.entities import Entity
from karat.data.gold import BARE, CHUNK, DOC, Gold
from karat.errors import InputError

pytestmark = pytest.mark.usefixtures("reader")

RUN = {"q1": ["x", "a", "b"], "q2": ["c"]}


@pytest.fixture(autouse=True)
def _no_dataset_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATASET_VERSION", raising=False)
    monkeypatch.delenv("AS_OF_RANGE", raising=False)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(e) + "\n" for e in entries)


def read(tmp_path: Path, text: str, name: str = "gold", **options: Any) -> Gold:
    return karat.read_gold(write(tmp_path / name, text), **options)


def items(gold: Gold, query: str) -> dict[str, float]:
    at = gold.index[query]
    part = slice(int(gold.offsets[at]), int(gold.offsets[at + 1]))
    return dict(zip(gold.ids[part], gold.grades[part].tolist(), strict=True))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a", "b"], {"a": 1.0, "b": 1.0}),
        ([7, "b"], {"7": 1.0, "b": 1.0}),
        ({"a": 2, "b": 0.5}, {"a": 2.0, "b": 0.5}),
        ([{"chunk_id": "a", "grade": 2}, {"chunk_id": "b"}], {"a": 2.0, "b": 1.0}),
        ([{"doc_id": "a", "grade": 3}], {"a": 3.0}),
        ([{"id": "a"}, "b", {"doc_id": 9}], {"a": 1.0, "b": 1.0, "9": 1.0}),
        ([], {}),
    ],
    ids=["ids", "numbers", "grades", "chunks", "documents", "mixed", "none"],
)
def test_every_form_of_gold(tmp_path: Path, given: Any, expected: dict[str, float]) -> None:
    assert items(read(tmp_path, lines({"query_id": "q1", "gold": given})), "q1") == expected


def test_the_name_of_the_field_says_what_an_id_names(tmp_path: Path) -> None:
    gold = read(tmp_path, lines({"query_id": "q1", "gold": [{"chunk_id": "a"}, {"doc_id": "b"}, "c"]}))
    assert gold.kinds.tolist() == [CHUNK, DOC, BARE]


JSONL = lines({"query_id": "q1", "gold": {"a": 2, "b": 1}, "topic": "cards"}, {"query_id": "q2", "gold": ["c"]})
ENTRIES = [json.loads(line) for line in JSONL.splitlines()]
YAML = """\
- query_id: q1
  gold: {a: 2, b: 1}
  topic: cards
- query_id: q2
  gold: [c]
"""


@pytest.mark.parametrize(
    "text",
    [
        JSONL,
        json.dumps(ENTRIES),
        json.dumps(ENTRIES, indent=2),
        json.dumps({"queries": ENTRIES}),
        json.dumps({"queries": ENTRIES}, indent=2),
        YAML,
        "queries:\n" + YAML,
        "# a comment first\n---\n" + YAML,
        "- {query_id: q1, gold: {a: 2, b: 1}, topic: cards}\n- {query_id: q2, gold: [c]}\n",
    ],
    ids=[
        "jsonl",
        "json",
        "json indented",
        "json mapping",
        "json mapping indented",
        "yaml",
        "yaml mapping",
        "comment",
        "yaml flow",
    ],
)
def test_the_same_gold_in_every_syntax(tmp_path: Path, text: str) -> None:
    gold = read(tmp_path, text)
    assert gold.queries == ["q1", "q2"]
    assert (items(gold, "q1"), items(gold, "q2")) == ({"a": 2.0, "b": 1.0}, {"c": 1.0})
    assert gold.tags == {"topic": ["cards", None]}


def test_entries_in_memory(tmp_path: Path) -> None:
    gold = karat.read_gold(ENTRIES)
    assert (gold.queries, items(gold, "q1"), gold.tags) == (
        ["q1", "q2"],
        {"a": 2.0, "b": 1.0},
        {"topic": ["cards", None]},
    )


def test_what_is_said_of_a_query_is_kept(tmp_path: Path) -> None:
    entry = {
        "query_id": "q1",
        "query": "how?",
        "gold": [{"chunk_id": "a", "quote": "so it is", "start": 3, "end": 11}],
        "evidence": ["so it is"],
        "answer": "like this",
        "answer_span": "this",
        "negatives": ["n1"],
        "as_of": "2025-06-01",
        "conversation_id": 4,
        "source": "kb",
        "entities": ["Visa", {"id": 1}],
        "links": ["more"],
    }
    gold = read(tmp_path, lines(entry))
    assert gold.text(0) == "how?"
    for name in ("evidence", "answer", "answer_span", "negatives", "as_of", "conversation_id", "source"):
        assert gold.fields[name] == [entry[name]], name
    assert gold.fields["entities"] == [["Visa", Entity(1)]]
    assert gold.passages == [(None, "so it is", 3, 11), None]  # the other is the negative
    assert gold.fields["links"] == [["more"]]  # a list is no tag
    assert gold.tags == {}


def test_tags_scalar_fields_and_tier_are_tags(tmp_path: Path) -> None:
    gold = read(
        tmp_path,
        lines(
            {"query_id": "q1", "gold": ["a"], "tags": {"topic": "cards", "language": "en"}, "tier": 1},
            {"query_id": "q2", "gold": ["b"], "tags": {"language": "pt"}, "difficulty": "hard", "multi_hop": True},
        ),
    )
    assert gold.tags == {
        "topic": ["cards", None],
        "language": ["en", "pt"],
        "tier": ["1", None],
        "difficulty": [None, "hard"],
        "multi_hop": [None, True],
    }


def test_a_tag_that_first_appears_in_the_middle_of_a_large_file(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [{"query_id": f"q{i}", "gold": ["a"], "query": "x" * 200} for i in range(3000)]
    for entry in entries[2000:]:
        entry["language"] = "es"
    gold = read(tmp_path, lines(*entries))
    assert gold.tags == {"language": [None] * 2000 + ["es"] * 1000}


def test_ids_of_queries_and_what_stands_in_for_them(tmp_path: Path) -> None:
    entries = [
        {"query_id": 1, "gold": ["a"]},
        {"id": "two", "query": "x", "gold": ["a"]},
        {"query": "three?", "gold": []},
    ]
    assert read(tmp_path, lines(*entries)).queries == ["1", "two", "three?"]


def test_a_cutoff_of_the_querys_own(tmp_path: Path) -> None:
    gold = read(tmp_path, lines({"query_id": "q1", "gold": ["b"], "k": 2}, {"query_id": "q2", "gold": ["c"]}))
    run = {"q1": ["x", "y", "b"], "q2": ["x", "y", "c"]}
    assert karat.evaluate(run, gold, ["recall"], k=3).score("recall") == {"q1": 0.0, "q2": 1.0}
    assert karat.evaluate(run, gold, ["recall@3"], k=1).score("recall@3") == {"q1": 1.0, "q2": 1.0}


# Which data is it


@pytest.mark.parametrize(
    "header",
    [
        {"dataset_version": "v3", "as_of_range": ["2025-01-01", "2025-06-30"]},
        {"DATASET_VERSION": "v3", "AS_OF_RANGE": "2025-01-01..2025-06-30"},
        {"dataset": {"version": "v3", "as_of_range": "2025-01-01/2025-06-30"}},
        {"dataset": "v3", "as_of_range": "2025-01-01 to 2025-06-30"},
    ],
    ids=["lower", "upper", "nested", "text"],
)
def test_a_header_entry_names_version_and_range(tmp_path: Path, header: dict[str, Any]) -> None:
    gold = read(tmp_path, lines(header) + JSONL)
    assert gold.queries == ["q1", "q2"]
    assert (gold.dataset.version, gold.dataset.as_of_range) == ("v3", ["2025-01-01", "2025-06-30"])
    assert gold.tags == {"topic": ["cards", None]}


@pytest.mark.parametrize("as_of", ["as_of_range: 2025-01-01..2025-06-30", "as_of_range: [2025-01-01, 2025-06-30]"])
def test_a_yaml_mapping_around_the_queries_is_a_header(tmp_path: Path, as_of: str) -> None:
    gold = read(tmp_path, f"dataset_version: 2025-07\nname: helpdesk\n{as_of}\nqueries:\n{YAML}")
    assert gold.queries == ["q1", "q2"]
    assert gold.dataset.as_of_range == ["2025-01-01", "2025-06-30"]
    assert (gold.dataset.version, gold.dataset.name) == ("2025-07", "helpdesk")


def test_lines_are_right_also_when_another_list_stands_before_the_queries(tmp_path: Path) -> None:
    head = "dataset_version: v1\nas_of_range: [2025-01-01, 2025-06-30]\nqueries:\n"
    with pytest.raises(InputError) as caught:
        read(tmp_path, head + "- query_id: q1\n  gold: [a]\n- gold: [b]\n")
    assert (caught.value.line, caught.value.field) == (6, "query_id")


def test_dataset_yaml_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path / "dataset.yaml", "dataset_version: v9\nas_of_range: [2024-01-01, 2024-12-31]\nname: help\n")
    dataset = read(tmp_path, JSONL).dataset
    assert (dataset.version, dataset.as_of_range, dataset.name) == ("v9", ["2024-01-01", "2024-12-31"], "help")


def test_the_environment_names_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATASET_VERSION", "v5")
    monkeypatch.setenv("AS_OF_RANGE", "2025-01-01..2025-03-31")
    dataset = read(tmp_path, JSONL).dataset
    assert (dataset.version, dataset.as_of_range) == ("v5", ["2025-01-01", "2025-03-31"])


def test_the_nearer_source_of_a_version_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATASET_VERSION", "from the environment")
    assert read(tmp_path, JSONL).dataset.version == "from the environment"
    write(tmp_path / "dataset.yaml", "version: from the file beside\n")
    assert read(tmp_path, JSONL).dataset.version == "from the file beside"
    assert read(tmp_path, lines({"dataset_version": "from the header"}) + JSONL).dataset.version == "from the header"


@pytest.mark.parametrize("value", ["2025", "{from: 2025-01-01, to: 2025-06-30}"])
def test_a_range_that_is_none_is_refused_by_name(tmp_path: Path, value: str) -> None:
    write(tmp_path / "dataset.yaml", f"as_of_range: {value}\n")
    with refused("bad-value", InputError, file=tmp_path / "dataset.yaml", field="as_of_range"):
        read(tmp_path, JSONL)


def test_a_broken_dataset_yaml_is_named(tmp_path: Path) -> None:
    write(tmp_path / "dataset.yaml", "version: 'v1\n")
    with refused("not-yaml", InputError, file=tmp_path / "dataset.yaml"):
        read(tmp_path, JSONL)


def test_a_hash_of_the_content_is_always_kept(tmp_path: Path) -> None:
    plain = read(tmp_path, JSONL).dataset.hash
    assert plain is not None
    assert plain.startswith("sha256:")
    packed = tmp_path / "gold.gz"
    packed.write_bytes(gzip.compress(JSONL.encode()))
    assert karat.read_gold(packed).dataset.hash == plain
    assert read(tmp_path, JSONL + "\n").dataset.hash != plain


# YAML


def test_yaml_dates_and_no_stay_text(tmp_path: Path) -> None:
    said = "as_of: 2025-06-01\n  language: no\n  answer: yes\n  flag: on\n  tags: {day: 2025-01-02}\n"
    gold = read(tmp_path, "- query_id: q1\n  gold: [a]\n  " + said)
    assert gold.fields["as_of"] == ["2025-06-01"]
    assert gold.fields["answer"] == ["yes"]
    assert gold.tags == {"language": ["no"], "flag": ["on"], "day": ["2025-01-02"]}


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_yaml_true_is_true(tmp_path: Path, word: str) -> None:
    assert read(tmp_path, f"- query_id: q1\n  no_answer: {word}\n").no_answer.tolist() == [1]


def test_yaml_false_is_false(tmp_path: Path) -> None:
    assert read(tmp_path, "- query_id: q1\n  gold: [a]\n  no_answer: false\n").no_answer.tolist() == [0]


@pytest.mark.parametrize("item", ["007", "010", "12:30", "1_000", "0x1F", "1e3", "no", "2025-06-01", "~x"])
def test_yaml_ids_are_what_was_written(tmp_path: Path, item: str) -> None:
    """An id that YAML 1.1 reads as a number in base 8, 16 or 60 would match nothing in the run."""
    gold = read(tmp_path, f"- query_id: {item}\n  gold: [{item}]\n")
    assert (gold.queries, gold.ids) == ([item], [item])


def test_yaml_whole_numbers_as_ids_in_a_map(tmp_path: Path) -> None:
    assert items(read(tmp_path, "- query_id: 1\n  gold: {101: 2, 102: 1}\n"), "1") == {"101": 2.0, "102": 1.0}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- query_id: q1\n  gold: [a]\n  gold: [b]\n", 3),
        ("- query_id: q1\n  gold:\n    a: 1\n    b: 1\n    a: 2\n", 5),
        ("name: x\nqueries:\n- query_id: q1\n  gold: [a]\nname: y\n", 5),
    ],
    ids=["entry", "grades", "header"],
)
def test_yaml_keys_that_stand_twice_are_refused_with_the_line(tmp_path: Path, text: str, line: int) -> None:
    with refused("duplicate-key", InputError, line=line):
        read(tmp_path, text)


def test_yaml_anchors_are_followed(tmp_path: Path) -> None:
    gold = read(tmp_path, "- query_id: q1\n  gold: &same [a, b]\n- query_id: q2\n  gold: *same\n")
    assert items(gold, "q1") == items(gold, "q2") == {"a": 1.0, "b": 1.0}


def test_yaml_errors_name_the_line_of_the_entry(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "- query_id: q1\n  gold: [a]\n\n- query_id: q2\n  gold: 5\n")
    assert (caught.value.line, caught.value.field) == (4, "gold")


def test_yaml_syntax_errors_name_the_line(tmp_path: Path) -> None:
    with refused("not-yaml", InputError) as caught:
        read(tmp_path, "- query_id: q1\n  gold: [a\n- query_id: q2\n")
    assert caught.value.line in (2, 3)


def test_gold_is_not_changed_by_a_second_reading(tmp_path: Path) -> None:
    gold = read(tmp_path, JSONL)
    assert karat.evaluate(RUN, gold, ["mrr"]).means == karat.evaluate(RUN, gold, ["mrr"]).means == {"mrr": 0.75}
