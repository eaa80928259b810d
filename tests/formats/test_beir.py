"""BEIR folders: queries.jsonl, qrels/SPLIT.tsv."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import InputError

QRELS = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t1\nq2\tc\t1\n"


def folder(tmp_path: Path, qrels: str | bytes = QRELS, split: str = "test", queries: str | None = None) -> Path:
    place = tmp_path / "beir"
    (place / "qrels").mkdir(parents=True, exist_ok=True)
    (place / "qrels" / f"{split}.tsv").write_bytes(qrels if isinstance(qrels, bytes) else qrels.encode())
    if queries is not None:
        (place / "queries.jsonl").write_text(queries)
    return place


def queries(*pairs: tuple[str, str]) -> str:
    return "".join(json.dumps({"_id": i, "text": t, "metadata": {"lang": ["en"], "url": []}}) + "\n" for i, t in pairs)


@pytest.mark.parametrize(
    "qrels",
    [QRELS, QRELS.partition("\n")[2], QRELS.replace("\n", "\r\n"), QRELS + "\n\n"],
    ids=["header", "no header", "crlf", "blank lines"],
)
def test_a_folder_is_a_gold_set(tmp_path: Path, qrels: str) -> None:
    gold = karat.read_gold(folder(tmp_path, qrels, queries=queries(("q1", "one?"), ("q2", "two?"))))
    assert (gold.queries, gold.ids, gold.grades.tolist()) == (["q1", "q2"], ["a", "b", "c"], [2.0, 1.0, 1.0])
    assert gold.fields["query"] == ["one?", "two?"]
    assert gold.tags["lang"] == ["en", "en"]
    assert karat.evaluate({"q1": ["x", "a"], "q2": ["c"]}, gold, ["mrr"]).means == {"mrr": 0.75}


def test_queries_say_that_they_have_no_answer_and_what_time_they_ask_from(tmp_path: Path) -> None:
    metadata = {"q1": {"as_of": "2025-06-01"}, "q9": {"no_answer": True}}
    lines = (json.dumps({"_id": i, "text": "?", "metadata": m}) + "\n" for i, m in metadata.items())
    gold = karat.read_gold(folder(tmp_path, queries="".join(lines)))
    assert (gold.queries, gold.no_answer.tolist()) == (["q1", "q2", "q9"], [0, 0, 1])
    assert [None if v is None else v.text for v in gold.as_of] == ["2025-06-01", None, None]


def test_queries_say_their_cutoff(tmp_path: Path) -> None:
    lines = (json.dumps({"_id": i, "text": "?", "metadata": {"k": k}}) + "\n" for i, k in (("q1", 2), ("q2", None)))
    gold = karat.read_gold(folder(tmp_path, queries="".join(lines)))
    assert gold.k.tolist() == [2, 0]
    assert karat.evaluate({"q1": ["x", "a", "b"], "q2": ["x", "y", "c"]}, gold, ["recall"]).means == {"recall@k": 0.75}
    place = folder(tmp_path, queries=json.dumps({"_id": "q1", "text": "?", "metadata": {"k": 0}}))
    with refused("bad-value", file=place / "queries.jsonl", line=1, field="metadata.k"):
        karat.read_gold(place)


def test_no_answer_and_relevant_gold_contradict_each_other(tmp_path: Path) -> None:
    line = json.dumps({"_id": "q1", "text": "?", "metadata": {"no_answer": True}})
    place = folder(tmp_path, queries=line)
    with refused("contradiction", InputError, file=place / "queries.jsonl", query="q1"):
        karat.read_gold(place)


def test_queries_are_not_needed(tmp_path: Path) -> None:
    assert karat.read_gold(folder(tmp_path)).queries == ["q1", "q2"]


def test_float_and_zero_grades_are_kept(tmp_path: Path) -> None:
    assert karat.read_gold(folder(tmp_path, "q1\ta\t0.5\nq1\tb\t0\n")).grades.tolist() == [0.5, 0.0]


def test_another_split(tmp_path: Path) -> None:
    place = folder(tmp_path)
    folder(tmp_path, "q9\tz\t1\n", split="dev")
    assert karat.read_gold(place, split="dev").queries == ["q9"]
    assert karat.read_gold(place).queries == ["q1", "q2"]


def test_a_split_that_is_not_there(tmp_path: Path) -> None:
    place = folder(tmp_path)
    with refused("unknown-split", InputError, file=place / "qrels" / "train.tsv") as caught:
        karat.read_gold(place, split="train")
    assert "test" in caught.value.hint


def test_queries_of_other_splits_are_not_asked_for(tmp_path: Path) -> None:
    """queries.jsonl of a BEIR set holds the queries of all splits; only those of one are evaluated."""
    place = folder(tmp_path, queries=queries(("q1", "one?"), ("q2", "two?"), ("q9", "of dev")))
    folder(tmp_path, "q9\tz\t1\n", split="dev")
    result = karat.evaluate({"q1": ["a"], "q2": ["c"]}, place, ["mrr"])
    assert result.gold.queries == ["q1", "q2"]
    assert result.audit["missing_queries"] == 0


def test_a_query_that_no_split_judges_is_kept_and_counted(tmp_path: Path) -> None:
    place = folder(tmp_path, queries=queries(("q1", "one?"), ("q2", "two?"), ("q3", "unanswerable?")))
    result = karat.evaluate({"q1": ["a"], "q2": ["c"], "q3": ["x"]}, place, ["mrr"])
    assert result.score("mrr") == {"q1": 1.0, "q2": 1.0, "q3": None}
    assert result.audit["no_relevant_gold"] == 1


SPLITS = {"test": ["q1", "q0"], "train": ["q2"], "dev": ["q3"]}  # q0 is judged nowhere


def three_splits(tmp_path: Path) -> Path:
    for split, (query, *_) in SPLITS.items():
        place = folder(tmp_path, f"{query}\td1\t1\n", split=split)
    (place / "queries.jsonl").write_text(queries(*((f"q{i}", "cat") for i in range(4))))
    (place / "corpus.jsonl").write_text('{"_id": "d1", "text": "a cat"}\n')
    return place


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("file", ["", "queries.jsonl"])
def test_one_split_is_asked(karat_command: Any, tmp_path: Path, split: str, file: str) -> None:
    place, run = three_splits(tmp_path), tmp_path / "run.jsonl"
    chosen = [] if split == "test" else ["--split", split]
    given = ["run", "bm25", "-q", str(place / file), "--corpus", str(place), "-o", str(run)]
    assert karat_command(*given, *chosen)[0] == 0
    asked = [json.loads(line)["query_id"] for line in run.read_text().splitlines()]
    assert asked == SPLITS[split] == karat.read_gold(place, split=split).queries
    done = karat.systems.run_retriever("bm25", place / file, corpus=place, split=split)
    assert [record["query_id"] for record in done.run] == asked


@pytest.mark.parametrize("split", SPLITS)
def test_baselines_are_asked_one_split(karat_command: Any, tmp_path: Path, split: str) -> None:
    place, logs = three_splits(tmp_path), tmp_path / "logs"
    given = ["--corpus", str(place), "-q", str(place), "--retriever", "bm25", "--keep", str(logs), "--split", split]
    assert karat_command("baseline", *given)[0] == 0
    assert [json.loads(line)["query_id"] for line in (logs / "bm25.jsonl").open()] == SPLITS[split]


def test_bare_queries_to_label_are_all_queries(tmp_path: Path) -> None:
    from karat.labels.labelled_gold import read_gold_or_queries

    assert len(read_gold_or_queries(three_splits(tmp_path) / "queries.jsonl").queries) == 4


def test_the_hash_is_that_of_the_qrels(tmp_path: Path) -> None:
    first = karat.read_gold(folder(tmp_path)).dataset.hash
    assert first is not None
    assert karat.read_gold(folder(tmp_path, QRELS + "q2\td\t1\n")).dataset.hash != first


def test_dataset_yaml_lies_in_the_folder(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "dataset.yaml").write_text("version: v2\n")
    assert karat.read_gold(place).dataset.version == "v2"


@pytest.mark.parametrize("line", ["q2\tc", "q2\tc\thigh", "q2 c 1", "q2\tc\t1\t1", "q2\tc\tnan", "q2\tc\tinf"])
def test_a_bad_judgement_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    place = folder(tmp_path, f"query-id\tcorpus-id\tscore\nq1\ta\t1\n{line}\n")
    with refused("bad-value", InputError, file=place / "qrels" / "test.tsv", line=3):
        karat.read_gold(place)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with refused("not-utf8", InputError, line=2):
        karat.read_gold(folder(tmp_path, b"q1\ta\t1\nq1\t\xff\t1\n"))


def test_a_bad_query_is_named_by_its_line(tmp_path: Path) -> None:
    place = folder(tmp_path, queries=queries(("q1", "one?")) + '{"text": "no id"}\n')
    with refused("missing-field", InputError, file=place / "queries.jsonl", line=2, field="_id"):
        karat.read_gold(place)


def test_an_empty_qrels_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        karat.read_gold(folder(tmp_path, ""))


def test_a_folder_is_no_run(tmp_path: Path) -> None:
    with refused("swapped", InputError):
        karat.evaluate(folder(tmp_path), {"q1": ["a"]})
