"""The four readings of a run, and what unjudged hits leave open in a comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from refusals import refused

import karat
from karat.labels.files import Label
from karat.labels.labelled_gold import read_labelling, with_labels
from karat.report.build import brief_report, evaluation_report
from karat.report.comparison import comparison_report
from karat.report.renderers.markdown import render_markdown
from karat.results.analyses.bounds import BoundsFound, BoundsRow
from karat.results.comparison.compare import CandidateComparison
from karat.results.evaluate import evaluate_all
from karat.results.save import restore, saved_form
from karat.scoring.extra_labels import Labelling
from karat.statistics.sampling import Sampling

QUICK = Sampling(resamples=300)
GOLD = {f"q{i}": {"a": 1, "b": 2, "n": 0} for i in range(30)}
RUN = {f"q{i}": ["u", "a", "n", "v", "w"] for i in range(30)}


def label(query: str, item: str, grade: float | None, annotator: str = "m", **more: Any) -> dict[str, Any]:
    return {"query_id": query, "chunk_id": item, "grade": grade, "annotator": annotator, **more}


def write(path: Path, labels: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in labels))
    return str(path)


@pytest.fixture
def judge(tmp_path: Path) -> str:
    """Calls u relevant everywhere and v irrelevant; w it has not seen."""
    labels = [label(q, item, grade, kind="judge") for q in RUN for item, grade in (("u", 1), ("v", 0))]
    return write(tmp_path / "judge.jsonl", labels)


@pytest.fixture
def human(tmp_path: Path) -> str:
    """Of the first 20 queries: u is right in three of four, v wrong but once in ten."""
    right = [label(f"q{i}", "u", int(i % 4 > 0), "ann") for i in range(20)]
    return write(tmp_path / "human.jsonl", right + [label(f"q{i}", "v", int(i % 10 == 0), "ann") for i in range(20)])


def readings(labelling: Labelling, metrics: list[str], **options: Any) -> BoundsFound:
    result = karat.evaluate(RUN, GOLD, metrics, labelling=labelling, sampling=QUICK, **options, analyses=True)
    found: BoundsFound = result.analyses.found["bounds"]
    return found


def of(found: BoundsFound, metric: str, kind: str) -> BoundsRow:
    (row,) = [row for row in found.rows if (row.metric, row.kind) == (metric, kind)]
    return row


def test_each_reading_by_hand(judge: str, human: str) -> None:
    found = readings(read_labelling([judge], human, bounds=True), ["precision@5", "recall@5"])
    assert of(found, "precision@5", "gold only").value == pytest.approx(1 / 5)
    assert of(found, "precision@5", "gold plus judge").value == pytest.approx(2 / 5)
    strict = of(found, "precision@5", "strict bounds")
    assert (strict.value, strict.lower, strict.upper) == (None, pytest.approx(1 / 5), pytest.approx(4 / 5))
    estimate = of(found, "precision@5", "judge-calibrated estimate")
    # 15 + 2 hits are known to be relevant; of ten u each counts for 15/20, of ten v each for 2/20.
    assert estimate.value == pytest.approx((30 + 15 + 2 + 10 * 15 / 20 + 10 * 2 / 20) / 150)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 1 / 5 < estimate.low < estimate.value < estimate.high < 1
    assert (found.hits, found.unjudged, found.by_judge, found.by_people, found.unlabelled) == (150, 90, 20, 40, 30)


def test_hit_recall_and_mrr_stay_with_the_gold(judge: str) -> None:
    found = readings(read_labelling([judge]), ["hit@1", "recall@5", "mrr", "ndcg@5", "rbp@5"])
    for metric in ("hit@1", "recall@5", "mrr"):
        assert of(found, metric, "gold plus judge").value == of(found, metric, "gold only").value
    labelled = {q: {**grades, "u": 1, "v": 0} for q, grades in GOLD.items()}
    means = karat.evaluate(RUN, labelled, ["ndcg@5", "rbp@5"]).means
    for metric in ("ndcg@5", "rbp@5"):
        assert of(found, metric, "gold plus judge").value == pytest.approx(means[metric])
    assert not [row for row in found.rows if row.kind in ("strict bounds", "judge-calibrated estimate")]


def test_every_reading_lies_within_the_strict_bounds(judge: str, human: str) -> None:
    found = readings(read_labelling([judge], human, bounds=True), ["precision@3", "ndcg@3", "rbp@3"])
    for metric in ("precision@3", "ndcg@3", "rbp@3"):
        strict = of(found, metric, "strict bounds")
        assert strict.lower is not None
        assert strict.upper is not None
        others = [row.value for row in found.rows if row.metric == metric and row.value is not None]
        assert all(strict.lower - 1e-9 <= value <= strict.upper + 1e-9 for value in others)


def test_bounds_alone_need_no_labels() -> None:
    found = readings(Labelling(bounds=True), ["map"])
    assert {row.kind for row in found.rows} == {"gold only", "strict bounds"}
    assert [row.metric for row in found.rows][::2] == ["hit@5", "precision@5", "recall@5", "mrr", "ndcg@5", "rbp"]


def test_nothing_is_said_where_nobody_asked() -> None:
    analyses = karat.evaluate(RUN, GOLD, ["recall@5"], analyses=True).analyses
    assert "bounds" not in analyses.found
    assert "bounds" not in analyses.lacking


def test_what_other_systems_and_the_pool_found_counts(tmp_path: Path) -> None:
    """Each unjudged thing that may be relevant and is not in the top makes recall's lower end lower."""
    gold, run = {"q": ["a", "b"]}, [{"query_id": "q", "system": "one", "topk": ["a"]}]
    two = [*run, {"query_id": "q", "system": "two", "topk": ["x"]}]
    pool = write(tmp_path / "pool.jsonl", [{"query_id": "q", "chunk_id": item} for item in ("x", "y", "a")])
    ends = []
    for records, labelling in (
        (run, Labelling(bounds=True)),
        (two, Labelling(bounds=True)),
        (two, read_labelling(bounds=True, pool=pool)),
    ):
        result = evaluate_all(records, gold, ["recall@5"], labelling=labelling, analyses=True)["one"]
        ends.append(of(result.analyses.found["bounds"], "recall@5", "strict bounds").lower)
    assert ends == pytest.approx([1 / 2, 1 / 3, 1 / 4])


def test_a_saved_calibration_corrects_like_the_labels_in_it(judge: str, human: str, tmp_path: Path) -> None:
    path = saved_calibration(tmp_path, judge, human)
    rows = [
        of(readings(read_labelling([judge], by), ["precision@5"]), "precision@5", "judge-calibrated estimate")
        for by in (path, human)
    ]
    assert rows[0] == rows[1]


def saved_calibration(folder: Path, judge: str, human: str, **changes: Any) -> str:
    path = folder / "calibration.json"
    path.write_text(json.dumps(to_builtins(karat.labels.calibrate(judge, human)) | changes))
    return str(path)


def test_a_calibration_of_another_set_is_an_assumption(judge: str, human: str, tmp_path: Path) -> None:
    """None of its labels is of these pairs: no number, or on request one by sensitivity and specificity."""
    saved = karat.labels.calibrate(judge, human)
    path = saved_calibration(tmp_path, judge, human, labels=[])
    other = write(tmp_path / "other.jsonl", [label(q, item, int(item != "v")) for q in RUN for item in ("u", "v", "w")])
    found = readings(read_labelling([other], path), ["precision@5"])
    assert {(row.metric, row.code, row.hits) for row in found.refused} >= {("precision@5", "other-pairs", 90)}
    assert not [row for row in found.rows if row.kind == "judge-calibrated estimate"]
    row = of(
        readings(read_labelling([other], path, borrow=True), ["precision@5"]),
        "precision@5",
        "judge-calibrated estimate",
    )
    sensitivity, specificity = saved.overall.sensitivity.value, saved.overall.specificity.value
    assert sensitivity is not None
    assert specificity is not None
    share = (2 / 3 + specificity - 1) / (sensitivity + specificity - 1)
    assert row.value == pytest.approx(1 / 5 + 3 / 5 * share, abs=1e-4)
    assert (row.low, row.high) == (None, None)


@pytest.mark.parametrize(
    ("says", "code"), [(lambda i, item: i % 2, "not-correctable"), (lambda i, item: int(item == "v"), "inverted-judge")]
)
def test_a_judge_worse_than_useful_is_refused_on_another_set(
    judge: str, tmp_path: Path, says: Callable[[int, str], int], code: str
) -> None:
    people = [label(f"q{i}", item, says(i, item), "ann") for i in range(20) for item in ("u", "v")]
    noise = write(tmp_path / "noise.jsonl", people)
    saved = karat.labels.calibrate(judge, noise)
    assert (len(saved.notes), saved.overall.inverted) == (1, code == "inverted-judge")
    path = saved_calibration(tmp_path, judge, noise, labels=[])
    other = write(tmp_path / "other.jsonl", [label(q, "u", 1) for q in RUN])
    with refused(code):
        readings(read_labelling([other], path, borrow=True), ["precision@5"])


def test_labels_that_carry_weights_count_by_their_chance(judge: str, tmp_path: Path) -> None:
    """Of u people were shown more of what is relevant; without the chances 16 of 20 are, with them 8 of 12."""
    chances = [label(f"q{i}", "u", int(i < 16), "ann", inclusion_probability=1 if i < 16 else 0.5) for i in range(20)]
    chances += [label(f"q{i}", "v", 0, "ann", inclusion_probability=0.5) for i in range(20)]
    human = write(tmp_path / "human.jsonl", chances)
    row = of(readings(read_labelling([judge], human), ["precision@5"]), "precision@5", "judge-calibrated estimate")
    assert row.value == pytest.approx(1 / 5 + 1 / 5 * 16 / (16 + 4 / 0.5))
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.value < row.high


def test_it_is_saved_restored_and_shown(judge: str, human: str, shown: Callable[[karat.Result, str], str]) -> None:
    labelling = read_labelling([judge], human, bounds=True)
    result = karat.evaluate(RUN, GOLD, ["precision@5", "map"], labelling=labelling, sampling=QUICK, analyses=True)
    text = shown(result, "bounds")
    kinds = {row.kind for row in result.analyses.found["bounds"].rows}
    assert kinds == {"gold only", "gold plus judge", "strict bounds", "judge-calibrated estimate"}
    assert "precision@5 | 0.200" in text
    assert "0.200 to 0.800" in text
    assert ": 30." in text  # hits that nobody labelled
    again = restore(saved_form(result))
    assert to_builtins(again.analyses.found["bounds"]) == to_builtins(result.analyses.found["bounds"])
    assert "0.200 to 0.800" in render_markdown(evaluation_report(again))
    assert "strict bounds" in render_markdown(brief_report(result))
    assert "strict bounds" not in render_markdown(
        brief_report(karat.evaluate(RUN, GOLD, ["map"], sampling=QUICK, analyses=True))
    )


def to_builtins(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


# --- two runs


def pair(first: Any, second: Any, gold: Any, metrics: str, **options: Any) -> CandidateComparison:
    return karat.compare(first, second, gold, [metrics], sampling=QUICK, **options).pairs[0]


def test_a_gold_that_knows_one_run_better_is_said_aloud() -> None:
    gold = {f"q{i}": {"a": 1, "n": 0} for i in range(30)}
    known, unknown = ({q: [item, "a"] for q in gold} for item in ("n", "u"))
    found = pair(known, unknown, gold, "recall@2")
    assert found.judged is not None
    assert (found.judged.k, found.judged.baseline, found.judged.candidate) == (2, 1.0, 0.5)
    assert found.judged.warning is not None
    slightly = {q: (["u", "a"] if q == "q0" else ["n", "a"]) for q in gold}
    close = pair(known, slightly, gold, "recall@2")
    assert close.judged is not None
    assert (close.judged.candidate, close.judged.warning) == (pytest.approx(59 / 60), None)


def test_a_gold_of_relevant_items_only_says_so_beside_the_warning() -> None:
    gold = {f"q{i}": ["a"] for i in range(30)}
    found = karat.compare({q: ["x"] for q in gold}, {q: ["a"] for q in gold}, gold, ["hit@1"], sampling=QUICK)
    judged = found.pairs[0].judged
    assert judged is not None
    assert judged.warning is not None
    assert f"candidate 100.0%. {judged.warning}"[:60] in render_markdown(comparison_report(found))


@pytest.mark.parametrize(("wrong", "said"), [(True, False), (False, True)])
def test_saved_results_keep_whether_the_gold_names_irrelevant_items(wrong: bool, said: bool) -> None:
    gold = {f"q{i}": {"a": 1, "n": 0} if wrong else {"a": 1} for i in range(30)}
    lists = (dict.fromkeys(gold, items) for items in (["x", "y"], ["a", "y"]))
    sides = [saved_form(karat.evaluate(run, gold, ["hit@2", "judged@2"], sampling=QUICK)) for run in lists]
    judged = karat.compare(sides[0], sides[1]).pairs[0].judged
    assert judged is not None
    assert judged.warning is not None
    now = judged.warning
    # Saved before it was kept.
    old = [msgspec.structs.replace(side, wrong_hits_judged=None, tables=None) for side in sides]
    judged = karat.compare(old[0], old[1]).pairs[0].judged
    assert judged is not None
    assert judged.warning is not None
    assert (now != judged.warning) == said  # that a real gain would look the same


def test_the_difference_under_one_assignment_is_narrower_than_that_of_two() -> None:
    """Both runs have u at the same rank: whatever it is, it is the same for both."""
    gold = {f"q{i}": ["a"] for i in range(10)}
    first, second = ({q: ["u", item] for q in gold} for item in ("x", "a"))
    (bound,) = pair(first, second, gold, "precision@2", bounds=True).bounds
    assert (bound.delta, bound.low, bound.high) == pytest.approx((0.5, 0.0, 0.5))
    assert not bound.settled
    assert bound.flip is not None
    assert (bound.flip.labels, bound.flip.exact) == (10, True)
    assert {p.item for p in bound.flip.pairs} == {"x"}


def test_the_fewest_labels_take_the_lead_of_the_baseline_too() -> None:
    gold = {f"q{i}": ["a"] for i in range(10)}
    first, second = {q: ["a", "y"] for q in gold}, {q: ["a", "y"] for q in gold} | {"q0": ["u", "a"], "q1": ["v", "a"]}
    (bound,) = pair(first, second, gold, "mrr", bounds=True).bounds
    assert bound.delta == pytest.approx(-0.1)
    assert bound.flip is not None
    assert bound.flip.labels == 2
    assert sorted(p.item for p in bound.flip.pairs) == ["u", "v"]


def test_a_lead_that_no_label_can_take() -> None:
    gold = {f"q{i}": {"a": 1, "n": 0} for i in range(10)}
    first, second = {q: ["n"] for q in gold}, {q: ["a"] for q in gold}
    (bound,) = pair(first, second, gold, "hit@1", bounds=True).bounds
    assert bound.settled
    assert bound.flip is None


def test_bounds_of_saved_results_are_not_invented() -> None:
    saved = [saved_form(karat.evaluate(run, GOLD, ["recall@5"])) for run in (RUN, RUN)]
    found = karat.compare(*saved, bounds=True).pairs[0]
    assert found.bounds == []
    assert found.judged is not None
    assert (found.judged.baseline, found.judged.candidate) == (0.4, 0.4)
    assert len(found.notes) == 1
    old = [msgspec.structs.replace(side, tables=None) for side in saved]  # as Karat 0.1 saved it
    found = karat.compare(*old, bounds=True).pairs[0]
    assert (found.bounds, found.judged) == ([], None)
    assert len(found.notes) == 1


def test_a_comparison_with_the_judges_labels_by_hand(judge: str) -> None:
    other = {query: ["a", "b", "n", "v", "w"] for query in RUN}
    labelling = read_labelling([judge])
    options: dict[str, Any] = {"labelling": labelling, "sampling": QUICK}
    metrics = ["recall@5", "precision@5", "ndcg@5", "judged@5"]
    (pair,) = karat.compare(RUN, other, GOLD, metrics, **options).pairs
    by_judge = {found.metric: found for found in pair.by_judge}
    assert list(by_judge) == ["precision@5", "ndcg@5", "judged@5"]  # recall stays with the gold
    # By the gold a against a and b; with the judge's labels u and a against a and b.
    gold_only = next(found for found in pair.differences if found.metric == "precision@5")
    assert gold_only.delta == pytest.approx(1 / 5)
    precision = by_judge["precision@5"]
    assert (precision.baseline, precision.candidate, precision.ties) == (pytest.approx(2 / 5), pytest.approx(2 / 5), 30)
    assert (by_judge["judged@5"].baseline, by_judge["judged@5"].candidate) == (pytest.approx(0.8), pytest.approx(0.8))
    readings_of = of(readings(labelling, ["ndcg@5"]), "ndcg@5", "gold plus judge")
    assert by_judge["ndcg@5"].baseline == pytest.approx(readings_of.value)


def test_a_judge_gives_no_query_an_answer_in_a_comparison(judge: str) -> None:
    gold = {**GOLD, "q0": {"n": 0}}
    options: dict[str, Any] = {"labelling": read_labelling([judge]), "sampling": QUICK}
    (pair,) = karat.compare(RUN, RUN, gold, ["ndcg@5"], **options).pairs
    assert [found.n for found in pair.by_judge] == [29]


def test_where_the_judges_labels_cannot_count_it_is_said(judge: str) -> None:
    options: dict[str, Any] = {"labelling": read_labelling([judge]), "sampling": QUICK}
    (pair,) = karat.compare(RUN, RUN, GOLD, ["recall@5"], **options).pairs
    assert (pair.by_judge, len(pair.notes)) == ([], 1)
    saved = saved_form(karat.evaluate(RUN, GOLD, ["ndcg@5"], sampling=QUICK))
    (pair,) = karat.compare(saved, RUN, GOLD, ["ndcg@5"], **options).pairs
    assert (pair.by_judge, len(pair.notes)) == ([], 1)


def test_labels_on_the_command_line_of_a_comparison(
    judge: str, tmp_path: Path, karat_command: Callable[..., Any], karat_refuses: Callable[..., karat.KaratError]
) -> None:
    run, gold = tmp_path / "run.json", tmp_path / "gold.json"
    run.write_text(json.dumps(RUN))
    gold.write_text(json.dumps(GOLD))
    asked = ["compare", str(run), str(run), "--gold", str(gold), "--resamples", "300", "--labels"]
    code, out, _ = karat_command(*asked, judge)
    assert (code, out != karat_command(*asked[:-1])[1]) == (0, True)
    strange = write(tmp_path / "strange.jsonl", [label("nobody", "u", 1)])
    error = karat_refuses(*asked, strange)
    assert (error.code, error.file) == ("no-overlap", strange)
    saved = str(tmp_path / "saved.json")
    assert karat_command("eval", str(run), "--gold", str(gold), "--resamples", "300", "-o", saved)[0] == 0
    assert karat_refuses("compare", saved, saved, "--labels", judge).code == "no-hits-kept"


def test_intervals_with_labels_end_at_the_ceilings_with_labels() -> None:
    """One relevant item, or two where the judge found one: no set of such queries has a precision@10 above 0.2."""
    gold = {f"q{i}": [f"g{i}"] for i in range(12)}
    run = {f"q{i}": [f"g{i}", f"h{i}"] for i in range(12)}
    judge = {(f"q{i}", f"h{i}"): float(i % 2) for i in range(12)}
    labels = [Label(query_id=q, chunk_id=c, grade=g, annotator="m", kind="judge") for (q, c), g in judge.items()]
    labelling = Labelling(judge=judge, with_judge=partial(with_labels, labels=labels, doc_of="#"))
    for method in ("bayes", "strict"):
        sampling = Sampling(method=method, resamples=500)
        result = karat.evaluate(run, gold, ["precision@10"], labelling=labelling, sampling=sampling, analyses=True)
        rows = result.analyses.found["bounds"].rows
        (row,) = [r for r in rows if (r.metric, r.kind) == ("precision@10", "gold plus judge")]
        assert row.value == pytest.approx(0.15)
        assert row.high <= 0.2
