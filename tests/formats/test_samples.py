"""The sample contract: questions with expected output, and outputs as JSON or as JSON in a string."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import InputError

SAMPLES = {
    "samples": [
        {
            "id": "s1",
            "input": {"question": "refunds?"},
            "expected_output": ["a", "b"],
            "metadata": {"k": 2, "lang": "en"},
        },
        {"id": "s2", "input": "cards?", "expected_output": {"c": 3, "d": 1}},
    ]
}
YAML = """\
samples:
- id: s1
  input: {question: "refunds?"}
  expected_output: [a, b]
  metadata: {k: 2, lang: en}
- id: s2
  input: cards?
  expected_output: {c: 3, d: 1}
"""
OUTPUTS = [
    {"id": "s1", "actualOutput": {"retrieved": [{"id": "x", "text": "t"}, {"id": "a", "text": "u"}, {"id": "b"}]}},
    {"id": "s2", "actualOutput": ["c", "y"]},
]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lines(entries: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(e) + "\n" for e in entries)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SAMPLES),
        json.dumps(SAMPLES, indent=2),
        YAML,
        "name: mine\n" + YAML,
        lines(SAMPLES["samples"]),
        json.dumps({"name": "mine", **SAMPLES}, indent=2),
        json.dumps(SAMPLES["samples"]),
        json.dumps(SAMPLES["samples"], indent=2),
    ],
    ids=["json", "json indented", "yaml", "yaml with a name", "jsonl", "json with a name", "a list", "a list indented"],
)
def test_samples_in_every_syntax(tmp_path: Path, text: str) -> None:
    gold = karat.read_gold(write(tmp_path / "samples", text))
    assert gold.queries == ["s1", "s2"]
    assert gold.ids == ["a", "b", "c", "d"]
    assert gold.grades.tolist() == [1.0, 1.0, 3.0, 1.0]
    assert gold.k.tolist() == [2, 0]
    assert gold.fields["query"] == ["refunds?", "cards?"]
    assert gold.tags == {"lang": ["en", None]}


FORMS = {
    "lines": lines(OUTPUTS),
    "json in a string": lines([{**o, "actualOutput": json.dumps(o["actualOutput"])} for o in OUTPUTS]),
    "other spelling": lines([{"id": o["id"], "actual_output": o["actualOutput"]} for o in OUTPUTS]),
    "output": lines([{"id": o["id"], "output": o["actualOutput"]} for o in OUTPUTS]),
    "the list alone": lines(
        [{"id": "s1", "retrieved": ["x", {"id": "a", "text": "u"}, "b"]}, {"id": "s2", "retrieved": ["c", "y"]}]
    ),
    "a list in json": json.dumps(OUTPUTS),
    "a list in json, indented": json.dumps(OUTPUTS, indent=2),
    "a list of output": json.dumps([{"id": o["id"], "output": o["actualOutput"]} for o in OUTPUTS]),
    "a list of retrieved": json.dumps(
        [{"id": "s1", "retrieved": ["x", "a", "b"]}, {"id": "s2", "retrieved": ["c"]}], indent=1
    ),
    "a list under a name": json.dumps({"model": "m1", "outputs": OUTPUTS}, indent=2),
    "by id": json.dumps({str(o["id"]): o["actualOutput"] for o in OUTPUTS}),
}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_in_every_form(tmp_path: Path, form: str) -> None:
    run, gold = write(tmp_path / "out.jsonl", FORMS[form]), write(tmp_path / "samples.yaml", YAML)
    result = karat.evaluate(run, gold, ["retrieval-recall-at-k", "retrieval-mrr", "retrieval-hit-at-k"])
    assert result.score("retrieval-recall-at-k") == {"s1": 0.5, "s2": 0.5}  # s1 is cut at its own k of 2
    assert result.score("retrieval-mrr") == {"s1": 0.5, "s2": 1.0}


@pytest.mark.parametrize("outputs", [OUTPUTS, {str(o["id"]): o["actualOutput"] for o in OUTPUTS}], ids=["list", "dict"])
def test_outputs_in_memory(tmp_path: Path, outputs: Any) -> None:
    gold = write(tmp_path / "samples.yaml", YAML)
    result = karat.evaluate(outputs, gold, ["mrr"])
    assert result.lists is not None
    assert result.score("mrr") == {"s1": 0.5, "s2": 1.0}
    first = result.lists.first({"s1": 2}, texts=True)["s1"]
    assert [(hit.id, hit.text) for hit in first] == [("x", "t"), ("a", "u")]


@pytest.mark.parametrize("samples", [SAMPLES, SAMPLES["samples"]], ids=["dict", "list"])
def test_samples_in_memory(samples: Any) -> None:
    assert karat.evaluate(OUTPUTS, samples, ["recall", "mrr"]).means == {"recall@k": 0.5, "mrr": 0.75}


@pytest.mark.parametrize("form", ["a list in json", "a list of output", "lines"])
def test_samples_in_one_line_are_checked_as_gold(
    tmp_path: Path, form: str, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    run, gold = write(tmp_path / "out.json", FORMS[form]), write(tmp_path / "samples.json", json.dumps(SAMPLES))
    assert karat_command("check", str(run), str(gold))[0] == 0


# Every command that reads a run, with what the seed writes.
COMMANDS = [
    "eval {run} --gold {gold}",
    "eval {run} --gold {gold} -o {folder}/page.html -o {folder}/result.json",
    "eval triage {run} --gold {gold}",
    "eval triage {run} --gold {gold} -o {folder}/page.html",
    "eval sweep {run} --gold {gold}",
    "eval power {run} --gold {gold}",
    "check {run}",
    "check {run} {gold}",
    "compare {run} {run} --gold {gold} -o {folder}/page.html",
    "gate {run} --gold {gold} --criteria {folder}/criteria.yaml -o {folder}/page.html",
    "gate {run} --gold {gold} --criteria {folder}/criteria.yaml --baseline {run} -o {folder}/page.html",
    "gate selftest {run} --gold {gold} --criteria {folder}/criteria.yaml",
    "labels pool {run} --gold {gold} -o {folder}/pool.jsonl",
]


@pytest.mark.parametrize("form", ["lines", "json in a string", "a list in json", "by id"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_outputs(
    tmp_path: Path, command: str, form: str, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    write(tmp_path / "criteria.yaml", "gates:\n  - metric: recall@5\n    threshold: 0.5\n")
    run, gold = write(tmp_path / "out.jsonl", FORMS[form]), write(tmp_path / "samples.yaml", YAML)
    code, *_ = karat_command(*command.format(run=run, gold=gold, folder=tmp_path).split())
    assert code == 0


def test_the_k_of_a_sample_wins_over_the_one_asked_for_and_loses_to_the_name(tmp_path: Path) -> None:
    run, gold = write(tmp_path / "out.jsonl", lines(OUTPUTS)), write(tmp_path / "samples.yaml", YAML)
    result = karat.evaluate(run, gold, ["recall", "recall@3"], k=1)
    assert result.score("recall") == {"s1": 0.5, "s2": 0.5}
    assert result.score("recall@3") == {"s1": 1.0, "s2": 0.5}


def test_gains_are_grades(tmp_path: Path) -> None:
    run, gold = write(tmp_path / "out.jsonl", lines(OUTPUTS)), write(tmp_path / "samples.yaml", YAML)
    assert karat.evaluate(run, gold, ["wrecall@5"]).score("wrecall@5")["s2"] == 0.75


@pytest.mark.parametrize(
    ("expected", "ids"), [('["a", "b"]', ["a", "b"]), ('{"a": 2}', ["a"]), ("plain-id", ["plain-id"]), ([7], ["7"])]
)
def test_expected_output_as_text(tmp_path: Path, expected: Any, ids: list[str]) -> None:
    text = json.dumps({"samples": [{"id": 1, "expected_output": expected}]})
    assert karat.read_gold(write(tmp_path / "s.json", text)).ids == ids


def test_systems_latency_and_other_fields_of_outputs(tmp_path: Path) -> None:
    outputs = [{**o, "system": "mine", "latency_ms": {"all": 5}, "model": "m1"} for o in OUTPUTS]
    result = karat.evaluate(write(tmp_path / "out.jsonl", lines(outputs)), write(tmp_path / "s", YAML), ["latency"])
    assert (result.system, result.means, result.provenance) == ("mine", {"latency": 5.0}, {"model": "m1"})


def test_outputs_can_be_read_twice(tmp_path: Path) -> None:
    run, gold = karat.read_run(write(tmp_path / "out.jsonl", lines(OUTPUTS))), write(tmp_path / "s", YAML)
    assert karat.evaluate(run, gold, ["mrr"]).means == karat.evaluate(run, gold, ["mrr"]).means == {"mrr": 0.75}


def test_texts_of_outputs_are_there_for_metrics_that_need_them(tmp_path: Path) -> None:
    retrieved = [{"id": "a", "text": "one two three four"}, {"id": "b", "text": "one two three four"}]
    run = write(tmp_path / "out.jsonl", lines([{"id": "s1", "actualOutput": {"retrieved": retrieved}}]))
    assert karat.evaluate(run, {"s1": ["a"]}, ["novelty@2"]).means == {"novelty@2": 0.5}


def test_the_version_of_a_sample_file_is_read_from_its_head(tmp_path: Path) -> None:
    gold = karat.read_gold(write(tmp_path / "s.yaml", "dataset_version: v4\nas_of_range: 2025-01..2025-06\n" + YAML))
    assert (gold.dataset.version, gold.dataset.as_of_range) == ("v4", ["2025-01", "2025-06"])


@pytest.mark.parametrize("head", ["", "authors: [me, you]\n"], ids=["plain", "another list before"])
def test_a_bad_sample_is_named_by_its_line(tmp_path: Path, head: str) -> None:
    path = write(tmp_path / "s.yaml", head + YAML + "- id: s3\n  expected_output: 5\n")
    with pytest.raises(InputError) as caught:
        karat.read_gold(path)
    assert (caught.value.file, caught.value.field) == (str(path), "expected_output")
    assert caught.value.line == 9 + (head != "")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"id":"s2","actualOutput":7}', "actualOutput"),
        ('{"id":"s2","actualOutput":{"found":[]}}', "actualOutput"),
        ('{"id":"s2"}', "actualOutput"),
        ('{"id":"s2","actualOutput":[{"text":"no id"}]}', None),
        ('{"id":"s2","actualOutput":[{"id":"a","score":"high"}]}', None),
        ('{"id":"s2","actualOutput":"[1, 2"}', None),
    ],
    ids=["number", "other key", "missing", "hit without id", "bad score", "cut off"],
)
def test_a_bad_output_is_named_by_its_line(tmp_path: Path, line: str, field: str | None) -> None:
    path = write(tmp_path / "out.jsonl", '{"id":"s1","actualOutput":["a"]}\n\n\n' + line + "\n")
    with pytest.raises(InputError) as caught:
        karat.evaluate(path, {"s1": ["a"]})
    assert (caught.value.file, caught.value.line) == (str(path), 4)
    if field is not None:
        assert caught.value.field == field


@pytest.mark.parametrize("gain", ["much", [1], None])
def test_a_gain_that_is_no_number_is_refused(tmp_path: Path, gain: Any) -> None:
    path = write(tmp_path / "s.json", json.dumps({"samples": [{"id": "s1", "expected_output": {"a": gain}}]}))
    with pytest.raises(InputError, match="expected_output"):
        karat.read_gold(path)


@pytest.mark.parametrize("k", [0, -1, 2.5, "5", True])
def test_a_cutoff_that_is_none_is_refused(tmp_path: Path, k: Any) -> None:
    sample = {"id": "s1", "expected_output": ["a"], "metadata": {"k": k}}
    with refused("bad-value", InputError, field="metadata.k", got=k):
        karat.read_gold(write(tmp_path / "s.json", json.dumps({"samples": [sample]})))


@pytest.mark.parametrize(
    "text",
    [
        "set:\n  samples:\n  - id: s1\n    expected_output: [a]\n",
        "samples:\n  s1: [a]\n",
        "samples: 5\n",
        "samples:\n- 5\n",
    ],
    ids=["deeper", "mapping", "number", "number in the list"],
)
def test_samples_in_the_wrong_place_are_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "s.yaml", text)
    with pytest.raises(InputError) as caught:
        karat.read_gold(path)
    assert caught.value.file == str(path)
