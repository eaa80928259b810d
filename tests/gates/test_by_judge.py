"""Gates on what a judge's labels say, corrected by labels of people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.gates.by_judge import INVERTED
from karat.gates.criteria import parse_gate
from karat.labels.labelled_gold import read_labelling
from karat.results.analyses.bounds import BELOW_SCALE

Call = Callable[..., tuple[int, str, str]]
QUERIES, HITS = 80, 6


def write(path: Path, records: list[Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The gold knows one item of each query, a judge who is too kind grades the other hits, people half of these."""
    folder, rng = tmp_path_factory.mktemp("judge"), np.random.default_rng(5)
    truth: dict[str, dict[str, int]] = {}
    run, judge, human = [], [], []
    for q in range(QUERIES):
        query, hits = f"q{q}", [f"q{q}#{i}" for i in range(HITS)]
        truth[query] = {hits[0]: 2} | {hit: int(rng.integers(1, 3) * (rng.random() < 0.3)) for hit in hits[1:]}
        run.append({"query_id": query, "topk": hits})
        for hit in hits[1:]:
            said = 2 if truth[query][hit] == 0 and rng.random() < 0.4 else truth[query][hit]
            pair = {"query_id": query, "chunk_id": hit}
            judge.append({**pair, "grade": said, "annotator": "m", "kind": "judge"})
            if rng.random() < 0.5:
                human.append({**pair, "grade": truth[query][hit], "annotator": "ann"})
    gold = [{"query_id": f"q{q}", "gold": [f"q{q}#0"]} for q in range(QUERIES)]
    return {
        "run": write(folder / "run.jsonl", run),
        "gold": write(folder / "gold.jsonl", gold),
        "judge": write(folder / "judge.jsonl", judge),
        "human": write(folder / "human.jsonl", human),
        "truth": truth,
        "lists": {line["query_id"]: line["topk"] for line in run},
        "kind": {(line["query_id"], line["chunk_id"]): line["grade"] for line in judge},
    }


def verdict(files: dict[str, Any], call: Call, gate: str, *more: str) -> tuple[int, dict[str, Any]]:
    labels = ("--labels", files["judge"], "--calibration", files["human"])
    code, out, _ = call("gate", files["run"], "--gold", files["gold"], "--gate", gate, *(more or labels), "--json")
    return code, json.loads(out)["verdicts"][0]


@pytest.mark.parametrize("metric", ["precision@5", "ndcg@5", "ndcg(gain=linear)@4"])
def test_the_interval_is_about_what_people_would_say(files: dict[str, Any], karat_command: Call, metric: str) -> None:
    true = karat.evaluate(files["lists"], files["truth"], [metric]).means[metric]
    said, truth = files["kind"], files["truth"]
    kind = {q: {i: said.get((q, i), g) for i, g in grades.items()} for q, grades in truth.items()}
    flattered = karat.evaluate(files["lists"], kind, [metric]).means[metric]
    code, found = verdict(files, karat_command, f"{metric} >= {true - 0.15:.3f} on bound by judge")
    assert (code, found["outcome"]) == (0, "pass")
    assert found["low"] < true < found["high"]
    assert abs(found["value"] - true) < abs(flattered - true)
    assert found["high"] - found["low"] < 0.25
    assert found["n"] == QUERIES


def test_a_floor_between_the_judge_and_people_is_not_passed(files: dict[str, Any], karat_command: Call) -> None:
    """By the judge's labels alone it would pass."""
    _, found = verdict(files, karat_command, "precision@5 >= 0 by judge")
    floor = found["high"] + 0.01
    asked = ("eval", files["run"], "--gold", files["gold"], "-m", "precision@5", "--labels", files["judge"], "--json")
    rows = json.loads(karat_command(*asked)[1])["analyses"]["bounds"]["rows"]
    assert next(r["value"] for r in rows if r["kind"] == "gold plus judge" and r["metric"] == "precision@5") > floor
    code, found = verdict(files, karat_command, f"precision@5 >= {floor:.4f} by judge")
    assert (code, found["outcome"]) == (1, "fail")


def test_eval_shows_the_estimate_that_the_gate_goes_by(files: dict[str, Any], karat_command: Call) -> None:
    asked = ("eval", files["run"], "--gold", files["gold"], "-m", "ndcg@5", "--labels", files["judge"])
    out = karat_command(*asked, "--calibration", files["human"], "--json")[1]
    rows = json.loads(out)["analyses"]["bounds"]["rows"]
    row = next(r for r in rows if (r["metric"], r["kind"]) == ("ndcg@5", "judge-calibrated estimate"))
    _, found = verdict(files, karat_command, "ndcg@5 >= 0 by judge")
    assert (row["value"], row["low"], row["high"]) == (found["value"], found["low"], found["high"])


@pytest.mark.parametrize("metric", ["precision@5", "ndcg@5"])
def test_an_inverted_judge_is_called_so(
    files: dict[str, Any], tmp_path: Path, karat_command: Call, metric: str
) -> None:
    """The estimate still goes by what people say of each grade, but whoever gates by such a judge has to know."""
    said = [json.loads(line) for line in Path(files["judge"]).read_text().splitlines()]
    turned = [
        {**label, "grade": 2 if files["truth"][label["query_id"]][label["chunk_id"]] == 0 else 0} for label in said
    ]
    judge, asked = write(tmp_path / "turned.jsonl", turned), f"{metric} >= 0.1 on bound by judge"
    _, usual = verdict(files, karat_command, asked)
    code, found = verdict(files, karat_command, asked, "--labels", judge, "--calibration", files["human"])
    assert (code, INVERTED in found["reason"], INVERTED in usual["reason"]) == (0, True, False)
    true = karat.evaluate(files["lists"], files["truth"], [metric]).means[metric]
    assert found["low"] < true < found["high"]


@pytest.mark.parametrize(("metric", "told"), [("precision@5", False), ("ndcg@5", True)])
def test_labels_that_only_say_relevant_or_not(
    files: dict[str, Any], tmp_path: Path, karat_command: Call, metric: str, told: bool
) -> None:
    """On a scale up to 2 they are worth less than gold without grades; on one up to 1 they are worth as much."""
    binary = {}
    for name in ("judge", "human"):
        labels = [json.loads(line) for line in Path(files[name]).read_text().splitlines()]
        labels = [{**label, "grade": int(label["grade"] > 0)} for label in labels]
        binary[name] = write(tmp_path / f"{name}.jsonl", labels)
    asked, labels = f"{metric} >= 0.1 by judge", ("--labels", binary["judge"], "--calibration", binary["human"])
    _, usual = verdict(files, karat_command, asked, *labels)
    code, found = verdict(files, karat_command, asked, *labels, "--max-grade", "1")
    assert (code, BELOW_SCALE in usual["reason"], BELOW_SCALE in found["reason"]) == (0, told, False)
    truth = {query: {hit: int(grade > 0) for hit, grade in grades.items()} for query, grades in files["truth"].items()}
    true = karat.evaluate(files["lists"], truth, [metric]).means[metric]
    assert found["low"] < true < found["high"]


@pytest.mark.parametrize("metric", ["precision@5", "ndcg@5"])
def test_without_labels_of_people_nothing_is_said(files: dict[str, Any], karat_command: Call, metric: str) -> None:
    code, found = verdict(files, karat_command, f"{metric} >= 0.1 by judge", "--labels", files["judge"])
    assert (code, found["outcome"], found["value"]) == (2, "invalid", None)


def test_too_few_labels_of_people_give_no_ndcg(files: dict[str, Any], tmp_path: Path, karat_command: Call) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(Path(files["human"]).read_text().splitlines(keepends=True)[:12]))
    more = ("--labels", files["judge"], "--calibration", str(few))
    code, found = verdict(files, karat_command, "ndcg@5 >= 0.1 by judge", *more)
    assert (code, found["outcome"]) == (2, "invalid")


@pytest.mark.parametrize("metric", ["precision@5", "ndcg@5"])
def test_the_same_labels_of_people_are_gold_and_calibration(
    files: dict[str, Any], karat_command: Call, metric: str
) -> None:
    """As gold they tell no less of the judge: the estimate is that of the gold set without them."""
    gate, judge = f"{metric} >= 0.1 on bound by judge", ("--labels", files["judge"])
    code, once = verdict(files, karat_command, gate)
    both = ("--gold-labels", files["human"], *judge, "--calibration", files["human"])
    other, found = verdict(files, karat_command, gate, *both)
    assert code == other == 0
    assert found["n"] == once["n"]
    assert found["value"] == pytest.approx(once["value"], abs=1e-9 if metric == "precision@5" else 0.01)
    assert (found["low"], found["high"]) == pytest.approx((once["low"], once["high"]), abs=0.01)


def test_labels_that_were_merged_must_be_given_apart(
    files: dict[str, Any], tmp_path: Path, karat_command: Call
) -> None:
    """In the merged gold set nobody knows which items were drawn, so there is no number, and a way to get one."""
    merged = str(tmp_path / "gold_v2.jsonl")
    assert karat_command("merge", files["human"], "--gold", files["gold"], "-o", merged)[0] == 0
    labels = ("--labels", files["judge"], "--calibration", files["human"])
    code, found = verdict({**files, "gold": merged}, karat_command, "precision@5 >= 0.1 by judge", *labels)
    assert (code, found["outcome"], found["value"]) == (2, "invalid", None)
    assert "--gold-labels" in found["reason"]


def test_gold_of_its_own_tells_nothing_of_the_judge(files: dict[str, Any], tmp_path: Path, karat_command: Call) -> None:
    """People also labelled the first hits, which the gold set names: picked, not drawn, so no part of the sample."""
    first = [{"query_id": f"q{q}", "chunk_id": f"q{q}#0", "grade": 2} for q in range(QUERIES)]
    people = [json.loads(line) for line in Path(files["human"]).read_text().splitlines()]
    said = [json.loads(line) for line in Path(files["judge"]).read_text().splitlines()]
    human = write(tmp_path / "human.jsonl", people + [{**pair, "annotator": "ann"} for pair in first])
    judge = write(tmp_path / "judge.jsonl", said + [{**pair, "annotator": "m", "kind": "judge"} for pair in first])
    more = ("--gold-labels", human, "--labels", judge, "--calibration", human)
    gate = "precision@5 >= 0.1 on bound by judge"
    found, usual = (verdict(files, karat_command, gate, *options)[1] for options in (more, ()))
    assert found["value"] == pytest.approx(usual["value"], abs=1e-9)
    assert found["low"] == pytest.approx(usual["low"], abs=0.005)


def test_in_python(files: dict[str, Any]) -> None:
    labelling = read_labelling([files["judge"]], files["human"])
    found = karat.gate(files["run"], files["gold"], ["ndcg@5 >= 0.1 on bound by judge"], labelling=labelling)
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("recall@5 >= 0.5 by judge", "bad-value"),
        ("precision@5 drop <= 0.1 by judge", "contradiction"),
        ("precision@5 drop <= 10% of baseline by judge", "contradiction"),
        ("precision@5 >= 0.1 in language=en by judge", "contradiction"),
        ("precision@5 >= 0.1 in each language by judge", "contradiction"),
    ],
)
def test_what_a_judge_cannot_be_asked(gate: str, code: str) -> None:
    with refused(code):
        parse_gate(gate)
