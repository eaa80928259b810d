"""Gold and labels on one scale: what a list of ids is worth beside grades, and that bounds hold on mixed scales."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.labels.files import Label
from karat.labels.labelled_gold import read_labelling, with_labels
from karat.scoring.extra_labels import Labelling
from karat.statistics.sampling import Sampling

Call = Callable[..., tuple[int, str, str]]
METRICS = ["ndcg@3", "ndcg@5", "ndcg(gain=linear)@4", "precision@3", "rbp@4"]
OPEN = ["u", "v", "w"]


def label(query: str, item: str, grade: float) -> Label:
    return Label(query_id=query, chunk_id=item, grade=grade, annotator="m", kind="judge")


def write(path: Path, records: list[Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def labels_file(path: Path, grades: dict[tuple[str, str], float]) -> str:
    return write(path, [{"query_id": q, "chunk_id": i, "grade": g, "annotator": "m"} for (q, i), g in grades.items()])


def naive_ndcg(hits: list[str], grades: dict[str, float], k: int) -> float:
    def dcg(found: list[float]) -> float:
        return sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(found[:k]))

    return dcg([grades.get(hit, 0.0) for hit in hits]) / dcg(sorted(grades.values(), reverse=True))


def test_relevant_labels_cost_a_perfect_list_nothing(tmp_path: Path, karat_command: Call) -> None:
    """What a user has: a list of ids, and a judge who calls every other hit relevant in the highest grade."""
    gold = write(tmp_path / "gold.jsonl", [{"query_id": "q", "gold": ["a", "b"]}])
    run = write(tmp_path / "run.jsonl", [{"query_id": "q", "topk": ["a", "b", "c", "d", "e"]}])
    judge = labels_file(tmp_path / "judge.jsonl", {("q", item): 2 for item in "cde"})
    code, out, _ = karat_command("eval", run, "--gold", gold, "--labels", judge, "--bounds", "--json")
    rows = {(row["metric"], row["kind"]): row for row in json.loads(out)["analyses"]["bounds"]["rows"]}
    assert code == 0
    assert rows["ndcg@5", "gold only"]["value"] == 1
    assert rows["ndcg@5", "gold plus judge"]["value"] == 1
    audit = {entry["code"]: entry["count"] for entry in json.loads(out)["audit"]}
    assert audit["gold_raised"] == 2
    assert "gold_scale" not in audit


def test_other_scales_are_told_beside_the_numbers(tmp_path: Path, karat_command: Call) -> None:
    gold = write(tmp_path / "gold.jsonl", [{"query_id": "q", "gold": {"a": 1}}])
    run = write(tmp_path / "run.jsonl", [{"query_id": "q", "topk": ["a", "c"]}])
    judge = labels_file(tmp_path / "judge.jsonl", {("q", "c"): 2})
    asked = ("eval", run, "--gold", gold, "--labels", judge, "--json")
    values = []
    for more in ((), ("--gold-scale", "1")):
        found = json.loads(karat_command(*asked, *more)[1])["analyses"]["bounds"]
        rows = {(row["metric"], row["kind"]): row["value"] for row in found["rows"]}
        values.append((found["other_scale"], rows["ndcg@5", "gold plus judge"]))
    assert values == [(1, pytest.approx(naive_ndcg(["a", "c"], {"a": 1, "c": 2}, 5))), (0, 1)]


def test_a_list_of_ids_is_as_if_it_had_the_highest_grade() -> None:
    labels = [label("q", "c", 1), label("q", "d", 2)]
    merged = with_labels(karat.read_gold({"q": ["a", "b"]}), labels)
    value = karat.evaluate({"q": ["c", "a", "d"]}, merged, ["ndcg@5"]).means["ndcg@5"]
    assert value == pytest.approx(naive_ndcg(["c", "a", "d"], {"a": 2, "b": 2, "c": 1, "d": 2}, 5))
    longer = with_labels(karat.read_gold({"q": ["a", "b"]}), labels, highest=3)
    value = karat.evaluate({"q": ["c", "a", "d"]}, longer, ["ndcg@5"]).means["ndcg@5"]
    assert value == pytest.approx(naive_ndcg(["c", "a", "d"], {"a": 3, "b": 3, "c": 1, "d": 2}, 5))


def _csv(folder: Path, text: str) -> Any:
    (folder / "gold.csv").write_text(text)
    return folder / "gold.csv"


UNGRADED: dict[str, Callable[[Path], Any]] = {
    "ids": lambda folder: [{"query_id": "q", "gold": ["a"], "negatives": ["n"]}],
    "items": lambda folder: write(folder / "gold.jsonl", [{"query_id": "q", "gold": [{"chunk_id": "a"}]}]),
    "dict": lambda folder: {"q": ["a"]},
    "target": lambda folder: [{"query_id": "q", "target_id": "a"}],
    "samples": lambda folder: _samples(folder, ["a"]),
    "table": lambda folder: _csv(folder, "query_id,chunk_id\nq,a\n"),
}
GRADED: dict[str, Callable[[Path], Any]] = {
    "map": lambda folder: [{"query_id": "q", "gold": {"a": 1}}],
    "items": lambda folder: write(folder / "gold.jsonl", [{"query_id": "q", "gold": [{"chunk_id": "a", "grade": 1}]}]),
    "one of two": lambda folder: [{"query_id": "q", "gold": ["a", {"id": "z", "grade": 0}]}],
    "dict": lambda folder: {"q": {"a": 1}},
    "samples": lambda folder: _samples(folder, {"a": 1}),
    "table": lambda folder: _csv(folder, "query_id,chunk_id,grade\nq,a,1\n"),
    "qrels": lambda folder: _csv(folder, "q 0 a 1\n"),
}


def _samples(folder: Path, expected: Any) -> Any:
    (folder / "gold.json").write_text(json.dumps({"samples": [{"id": "q", "expected_output": expected}]}))
    return folder / "gold.json"


@pytest.mark.parametrize("source", UNGRADED.values(), ids=list(UNGRADED))
def test_every_form_of_a_list_without_grades_is_raised(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    gold = karat.read_gold(source(tmp_path))
    assert gold.grades[0] == 1  # and that it stays without labels
    merged = with_labels(gold, [label("q", "x", 2)])
    assert dict(zip(merged.ids, merged.grades.tolist(), strict=True)) | {"n": 0} == {"a": 2, "x": 2, "n": 0}
    assert (merged.audit["gold_raised"], merged.audit["gold_scale"]) == (1, 0)
    assert with_labels(gold, [label("q", "x", 1)], highest=1).audit["gold_raised"] == 0


@pytest.mark.parametrize("source", GRADED.values(), ids=list(GRADED))
def test_given_grades_are_never_rescaled_but_warned_of(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    gold = karat.read_gold(source(tmp_path))
    merged = with_labels(gold, [label("q", "x", 2)])
    assert dict(zip(merged.ids, merged.grades.tolist(), strict=True)) | {"z": 0} == {"a": 1, "x": 2, "z": 0}
    assert (merged.audit["gold_raised"], merged.audit["gold_scale"]) == (0, 1)
    stretched = with_labels(gold, [label("q", "x", 2)], gold_scale=1)
    assert dict(zip(stretched.ids, stretched.grades.tolist(), strict=True)) | {"z": 0} == {"a": 2, "x": 2, "z": 0}
    assert (stretched.audit["gold_stretched"], stretched.audit["gold_scale"]) == (1, 0)


def test_a_second_round_of_labels_leaves_the_first_as_it_is() -> None:
    once = with_labels(karat.read_gold({"q": ["a"]}), [label("q", "x", 1)])
    twice = with_labels(once, [label("q", "y", 3)], highest=3)
    assert dict(zip(twice.ids, twice.grades.tolist(), strict=True)) == {"a": 3, "x": 1, "y": 3}


def test_an_id_without_a_grade_is_contradicted_by_irrelevant_only() -> None:
    gold = karat.read_gold({"q": ["a", "b", "c"]})
    labels = [label("q", "a", 1), label("q", "b", 2), label("q", "c", 0)]
    assert with_labels(gold, labels).audit["labels_overruled"] == 1


def test_labels_that_never_use_the_top_of_their_scale_are_told() -> None:
    gold = karat.read_gold({"q": ["a"]})
    assert with_labels(gold, [label("q", "x", 1)]).audit["labels_below_scale"] == 1
    assert with_labels(gold, [label("q", "x", 1)], highest=1).audit["labels_below_scale"] == 0


def test_a_scale_that_the_gold_exceeds_is_refused() -> None:
    with refused("bad-value", got=1):
        with_labels(karat.read_gold({"q": {"a": 3}}), [label("q", "x", 2)], gold_scale=1)
    with refused("missing-option"):
        read_labelling(gold_scale=2)


def strict(gold: Any, hits: list[str], labelling: Labelling) -> dict[str, tuple[float, float]]:
    result = karat.evaluate(
        {"q": hits}, gold, METRICS, labelling=labelling, analyses=True, sampling=Sampling(resamples=100)
    )
    rows = {row.metric: row for row in result.analyses.found["bounds"].rows if row.kind == "strict bounds"}
    return {metric: (rows[metric].lower, rows[metric].upper) for metric in METRICS}


@given(
    hits=st.permutations(["a", "b", *OPEN]).map(tuple),
    depth=st.integers(1, 5),
    form=st.sampled_from(["ids", "grade 1", "mixed"]),
    highest=st.integers(1, 3),
    told=st.booleans(),
)
@settings(max_examples=30)
def test_bounds_hold_for_every_assignment_of_labels(
    tmp_path_factory: pytest.TempPathFactory, hits: tuple[str, ...], depth: int, form: str, highest: int, told: bool
) -> None:
    """Every grade of the scale for every open hit, merged as labels are. Without labels nothing is known of their
    scale: then the bounds of a list of ids hold on every scale."""
    found = list(hits[:depth])
    gold: Any = {"ids": {"q": ["a", "b"]}, "grade 1": {"q": {"a": 1, "b": 1}}, "mixed": {"q": {"a": 1, "b": 2}}}[form]
    open_ = [item for item in found if item in OPEN]
    if (not told and form != "ids") or not open_:
        return
    labelling = Labelling(bounds=True)
    if told:
        file = labels_file(tmp_path_factory.mktemp("labels") / "judge.jsonl", {("q", open_[0]): 0})
        labelling = read_labelling([file], bounds=True, highest=highest)
    bounds = strict(gold, found, labelling)
    read = karat.read_gold(gold)
    seen: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for grades in itertools.product(range(highest + 1), repeat=len(open_)):
        labels = [label("q", item, grade) for item, grade in zip(open_, grades, strict=True)]
        means = karat.evaluate({"q": found}, with_labels(read, labels, highest=highest), METRICS).means
        for metric, value in means.items():
            seen[metric].append(value)
    whole = form != "mixed" or highest > 1  # else grades of the gold set are possible that no label has
    for metric, (low, high) in bounds.items():
        assert low <= min(seen[metric]) + 1e-9
        assert high >= max(seen[metric]) - 1e-9
        if whole and metric != "rbp@4":  # of which nobody knows what would come after the end of a list
            assert (low, high) == pytest.approx((min(seen[metric]), max(seen[metric])))


def test_bounds_of_a_difference_know_the_scale_of_the_labels(tmp_path: Path, karat_command: Call) -> None:
    gold = write(tmp_path / "gold.jsonl", [{"query_id": "q", "gold": {"a": 1, "b": 1}}])
    runs = {"old": ["a", "u", "b"], "new": ["u", "v", "a"]}
    files = [write(tmp_path / f"{name}.jsonl", [{"query_id": "q", "topk": hits}]) for name, hits in runs.items()]
    judge = labels_file(tmp_path / "judge.jsonl", {("q", "u"): 1})
    asked = ("compare", *files, "--gold", gold, "-m", "ndcg@3", "--labels", judge, "--bounds", "--json")
    (bounded,) = json.loads(karat_command(*asked)[1])["pairs"][0]["bounds"]
    differences = [
        naive_ndcg(runs["new"], grades, 3) - naive_ndcg(runs["old"], grades, 3)
        for u, v in itertools.product(range(3), repeat=2)
        for grades in [{"a": 1.0, "b": 1.0, "u": u, "v": v}]
    ]
    assert (bounded["low"], bounded["high"]) == pytest.approx((np.min(differences), np.max(differences)))
