"""`karat labels calibrate` and labels in `karat eval`: what they say, on the demo set, and what they refuse."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.labels.agreement import find_agreement
from karat.labels.calibration import pool_of
from karat.labels.calibration_file import Rate
from karat.labels.files import PoolEntry, read_pool, write_pairs
from karat.labels.labelled_gold import read_labelling
from karat.report.labels import calibration_report
from karat.report.renderers.markdown import render_markdown
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
BM25, RERANKED = str(DEMO / "bm25.jsonl"), str(DEMO / "bm25_rerank.jsonl")
Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., karat.KaratError]
QUICK = Sampling(resamples=500)


class Made:
    """The demo set with half of its grades taken out of the gold: a judge labelled them, people some of them."""

    def __init__(self, folder: Path) -> None:
        rng = random.Random(7)
        entries = [json.loads(line) for line in (DEMO / "gold.jsonl").open(encoding="utf-8")]
        judge, human = [], []
        for entry in entries:
            grades, entry["gold"] = entry.get("gold") or {}, {}
            for item, grade in grades.items():
                pair = {"query_id": entry["query_id"], "chunk_id": item}
                if rng.random() < 0.5:
                    entry["gold"][item] = grade
                    continue
                said = rng.random() < (0.9 if grade else 0.2)
                judge.append(pair | {"grade": rng.choice([1, 2]) if said else 0, "annotator": "m", "kind": "judge"})
                if rng.random() < 0.12:
                    human.append(pair | {"grade": grade, "annotator": "ann"})
        self.folder, self.labels = folder, judge
        self.gold, self.judge = self.write("gold", entries), self.write("judge", judge)
        self.human = self.write("human", human)

    def write(self, name: str, rows: list[dict[str, Any]]) -> str:
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("labels"))


def test_the_judge_that_was_made_is_found(made: Made) -> None:
    """Sensitivity .9 and specificity .8; what is relevant was never shown to the calibration."""
    found = karat.labels.calibrate(made.judge, made.human, gold=made.gold, runs=[BM25, RERANKED], sampling=QUICK)
    for rate, truth in ((found.overall.sensitivity, 0.9), (found.overall.specificity, 0.8)):
        assert rate.low is not None
        assert rate.high is not None
        assert rate.low < truth < rate.high
    whole = [karat.evaluate(run, DEMO / "gold.jsonl", ["precision@5", "rbp"]) for run in (BM25, RERANKED)]
    part = [karat.evaluate(run, made.gold, ["precision@5", "rbp"]) for run in (BM25, RERANKED)]
    assert [(m.system, m.metric) for m in found.metrics] == [
        (result.system, name) for result in whole for name in ("precision@5", "rbp")
    ]
    for row in found.metrics:
        at = [result.system for result in whole].index(row.system)
        kept = [query for query, value in part[at].score(row.metric).items() if value is not None]
        truth = sum(whole[at].score(row.metric)[query] or 0.0 for query in kept) / len(kept)
        assert row.corrected.low is not None
        assert row.corrected.high is not None
        assert row.corrected.low < truth < row.corrected.high
        assert row.gold_only is not None
        assert row.gold_plus_judge is not None
        assert row.gold_only < truth < row.gold_plus_judge


def test_labels_given_with_the_ranking_in_sight_do_not_count(made: Made) -> None:
    lines = [json.loads(line) for line in Path(made.human).read_text().splitlines()]
    seen = made.write("seen", [{**line, "saw": "ranking"} if at % 2 else line for at, line in enumerate(lines)])
    blind = made.write("blind", lines[::2])
    found, alone = (karat.labels.calibrate(made.judge, human, sampling=QUICK) for human in (seen, blind))
    assert (found.overall, len(found.notes)) == (alone.overall, len(alone.notes) + 1)
    assert read_labelling([made.judge], seen).human == read_labelling([made.judge], blind).human


def test_by_segment_and_by_system(made: Made) -> None:
    found = karat.labels.calibrate(
        made.judge, made.human, gold=made.gold, runs=[BM25], segments=["language"], sampling=QUICK
    )
    assert [(row.of, row.value) for row in found.segments] == [("language", v) for v in ("en", "es-AR", "pt-BR")]
    assert sum(row.labelled for row in found.segments) == found.overall.labelled == found.shared
    (system,) = found.systems
    assert (system.of, system.value) == ("system", "bm25")
    assert 0 < system.labelled < found.shared


def test_a_pool_knows_the_systems(made: Made, tmp_path: Path) -> None:
    pairs = [(one["query_id"], one["chunk_id"]) for one in made.labels]
    pool = tmp_path / "pool.jsonl"
    entries = [
        {"query_id": q, "chunk_id": c, "origin": {"ranks": {"odd" if i % 2 else "even": 1}}}
        for i, (q, c) in enumerate(pairs)
    ]
    pool.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    found = karat.labels.calibrate(made.judge, made.human, pool=pool, sampling=QUICK)
    assert sorted(row.value for row in found.systems) == ["even", "odd"]
    assert sum(row.pairs for row in found.systems) == found.judge_labels


def test_a_group_that_people_did_not_look_at_is_left_blank(made: Made) -> None:
    """Five labels, of pairs that the judge calls irrelevant: nothing follows for those that it calls relevant."""
    rejected = [one(p["query_id"], p["chunk_id"]) for p in made.labels if not p["grade"]][:5]
    found = karat.labels.calibrate(made.judge, made.write("rejected", rejected), sampling=QUICK)
    blank = Rate(None, None, None)
    assert (
        found.overall.sensitivity
        == found.overall.specificity
        == found.overall.kappa
        == found.overall.corrected
        == blank
    )
    assert len(found.notes) == 1
    report = render_markdown(calibration_report(found))
    assert "nan" not in report
    assert found.needed is not None


def test_a_judge_of_documents_is_asked_about_documents(made: Made) -> None:
    rows = [{"query_id": f"q{i}", "doc_id": "d", "grade": i % 2, "annotator": "m"} for i in range(200)]
    people = [row | {"annotator": "ann"} for row in rows[:12]]
    found = karat.labels.calibrate(
        made.write("documents", rows), made.write("people", people), width=0.2, sampling=QUICK
    )
    assert found.next
    assert all(entry.key.is_document for entry in pool_of(found, None))


def test_the_command_says_all_of_it(made: Made, karat_command: Command, tmp_path: Path) -> None:
    saved, pool = tmp_path / "calibration.json", tmp_path / "next.jsonl"
    code, out, err = karat_command(
        *(
            "labels",
            "calibrate",
            "--labels",
            made.judge,
            "--human",
            made.human,
            "-g",
            made.gold,
            "--run",
            BM25,
            "-s",
            "language",
        ),
        *("--width", "0.05", "--next", str(pool), "-o", str(saved)),
    )
    assert code == 0, err
    for words in ("sensitivity", "specificity", "kappa", "precision@5", "es-AR"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 100
    text = json.loads(saved.read_text())
    assert text["schema"] == "karat/calibration/1"
    code, out, _ = karat_command("labels", "calibrate", "--labels", made.judge, "--human", made.human, "--json")
    assert code == 0
    assert json.loads(out)["overall"]["sensitivity"] == text["overall"]["sensitivity"]


@pytest.mark.parametrize("share", [0.9, 0.99, 1.01])
def test_the_measured_interval_decides_whether_labels_are_enough(made: Made, share: float) -> None:
    rate = karat.labels.calibrate(made.judge, made.human, sampling=QUICK).overall.corrected
    assert rate.low is not None
    assert rate.high is not None
    found = karat.labels.calibrate(made.judge, made.human, width=(rate.high - rate.low) * share, sampling=QUICK)
    if share > 1:
        assert (found.needed, found.next) == (found.shared, [])
    else:
        assert found.needed is None or found.needed > found.shared


def test_what_to_label_next(made: Made, karat_command: Command, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(Path(made.human).read_text().splitlines(keepends=True)[:40]))
    pool = tmp_path / "next.jsonl"
    code, out, err = karat_command(
        "labels", "calibrate", "--labels", made.judge, "--human", str(few), "--next", str(pool)
    )
    assert code == 0, err
    found = karat.labels.calibrate(made.judge, few)
    assert found.needed is not None
    assert len(found.next) == found.needed - found.shared > 0
    assert f" {found.needed:,} " in out
    labelled = {(one["query_id"], one["chunk_id"]) for one in map(json.loads, few.read_text().splitlines())}
    asked = {(entry.key.query, entry.key.item) for entry in read_pool(pool)}
    assert asked == {(pair.query_id, pair.item) for pair in found.next}
    assert asked.isdisjoint(labelled)
    assert len(asked) == len(found.next)


def test_an_evaluation_with_all_readings(made: Made, karat_command: Command, tmp_path: Path) -> None:
    page, saved = tmp_path / "report.html", tmp_path / "result.json"
    code, out, err = karat_command(
        *("eval", BM25, "--gold", made.gold, "--bounds", "--labels", made.judge, "--calibration", made.human),
        *("-o", str(page), "-o", str(saved)),
    )
    assert code == 0, err
    for name in ("gold only", "gold plus judge", "strict bounds", "judge-calibrated estimate"):
        assert name in out
        assert name in page.read_text()
    assert max(map(len, out.splitlines())) <= 100
    rows = json.loads(saved.read_text())["analyses"]["bounds"]["rows"]
    assert {row["kind"] for row in rows} == {
        "gold only",
        "gold plus judge",
        "strict bounds",
        "judge-calibrated estimate",
    }


def test_a_comparison_with_bounds(made: Made, karat_command: Command) -> None:
    code, out, err = karat_command("compare", BM25, RERANKED, "--gold", made.gold, "--bounds", "-m", "ndcg@5")
    assert code == 0, err
    assert "judged@5" in out
    assert max(map(len, out.splitlines())) <= 100


def test_the_commands_and_the_code_of_the_page_run(
    made: Made, karat_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DEMO.parents[1] / "docs" / "calibration.md").read_text()
    copies = {"gold": made.gold, "judge": made.judge, "human": made.human}
    copies |= {"run": BM25, "old": BM25, "new": RERANKED}
    for name, path in copies.items():
        (tmp_path / f"{name}.jsonl").write_bytes(Path(path).read_bytes())
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^karat (.+)$", page, re.M)
    assert len(commands) == 4
    for command in commands:
        code, _, err = karat_command(*command.split())
        assert code == 0, err
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["result"].analyses.found["bounds"].rows


class Alike:
    """Sixty queries of ten pairs with labels of both; on some queries the judge is wrong throughout."""

    def __init__(self, made: Made, errors: float, share: float = 1.0) -> None:
        rng = random.Random(3)
        judge, human = [], []
        for query in range(60):
            wrong = rng.random() < errors
            for item in range(10):
                relevant = rng.random() < 0.4
                pair = {"query_id": f"q{query}", "chunk_id": f"c{item}"}
                judge.append(pair | {"grade": int(relevant != wrong), "annotator": "m", "kind": "judge"})
                if rng.random() < share:
                    human.append(pair | {"grade": int(relevant), "annotator": "ann"})
        self.judge, self.human = made.write("alike_judge", judge), made.write("alike_human", human)


def test_kappa_is_as_sure_as_karat_agree_says(made: Made, karat_command: Command) -> None:
    """Both by query. By pairs the interval was a third as wide."""
    files = Alike(made, 0.2)
    code, out, err = karat_command("labels", "calibrate", "--labels", files.judge, "--human", files.human, "--json")
    assert code == 0, err
    kappa = json.loads(out)["overall"]["kappa"]
    code, out, err = karat_command("labels", "agree", files.judge, files.human, "--json")
    assert code == 0, err
    (agreed,) = json.loads(out)["kappas"]
    assert kappa["value"] == pytest.approx(agreed["kappa"])
    assert (kappa["low"], kappa["high"]) == pytest.approx((agreed["low"], agreed["high"]), abs=0.03)


@pytest.mark.parametrize(("errors", "inverted"), [(0.1, False), (0.5, False), (0.9, True)])
def test_an_inverted_judge_is_called_so(made: Made, errors: float, inverted: bool) -> None:
    files = Alike(made, errors)
    found = karat.labels.calibrate(files.judge, files.human, sampling=QUICK)
    assert found.overall.inverted == inverted
    assert found.overall.kappa.value is not None
    assert (found.overall.kappa.value < -0.3) == inverted
    (row,) = find_agreement(karat.labels.read_labels(files.judge, files.human), QUICK).kappas
    assert row.inverted == inverted


def test_two_labels_do_not_make_a_judge_inverted(made: Made) -> None:
    judge = [one(f"q{i}", "c", grade=i % 2, annotator="m") for i in range(40)]
    human = [one(f"q{i}", "c", grade=1 - i % 2) for i in range(2)]
    found = karat.labels.calibrate(made.write("judge_of_two", judge), made.write("human_two", human), sampling=QUICK)
    assert not found.overall.inverted


def test_labels_of_one_query_have_no_interval(made: Made, karat_command: Command) -> None:
    """Three pairs of one query: `agree` and `calibrate` say the same, and why."""
    grades = {"judge": (0, 1, 2), "human": (0, 2, 0)}
    judge, human = (
        made.write(f"one_query_{who}", [one("q1", f"c{i}", grade=g, annotator=who) for i, g in enumerate(given)])
        for who, given in grades.items()
    )
    _, out, _ = karat_command("labels", "agree", judge, human, "--json")
    agreed = next(row for row in json.loads(out)["kappas"] if row["of"] == "relevant or not")
    _, out, _ = karat_command("labels", "calibrate", "--labels", judge, "--human", human, "--json")
    kappa = json.loads(out)["overall"]["kappa"]
    assert [agreed[name] for name in ("kappa", "low", "high")] == [kappa[name] for name in ("value", "low", "high")]
    for command in (("agree", judge, human), ("calibrate", "--labels", judge, "--human", human)):
        _, out, _ = karat_command("labels", *command)
        assert "intervals need several queries" in " ".join(out.split())
        assert "differ too much" not in out


# --- what is refused


def one(query: str = "q_000101", item: str = "doc_101#p1", **more: Any) -> dict[str, Any]:
    return {"query_id": query, "chunk_id": item, "grade": 1, "annotator": "ann", **more}


def test_people_and_judge_without_a_pair_in_common(made: Made, karat_refuses: Refuses) -> None:
    stranger = made.write("stranger", [one("other", "x")])
    for arguments in (
        ("labels", "calibrate", "--labels", made.judge, "--human", stranger),
        ("eval", BM25, "--gold", made.gold, "--labels", made.judge, "--calibration", stranger),
    ):
        error = karat_refuses(*arguments)
        assert error.code == "no-common-pairs"
        assert all(name in str(error.hint) for name in ("'other'", "'x'"))


def test_labels_of_another_set(made: Made, karat_refuses: Refuses) -> None:
    stranger = made.write("stranger", [one("other", "x")])
    assert karat_refuses("eval", BM25, "--gold", made.gold, "--labels", stranger).code == "no-overlap"


def test_labels_of_pairs_outside_the_pool(made: Made, karat_refuses: Refuses, tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    write_pairs(pool, [PoolEntry(query_id="q_000101", chunk_id="doc_999#p1")])
    error = karat_refuses("labels", "calibrate", "--labels", made.judge, "--human", made.human, "--pool", str(pool))
    assert (error.code, error.file, error.line) == ("unknown-pair", made.judge, 1)


def test_one_annotator_with_two_grades(made: Made, karat_refuses: Refuses) -> None:
    conflict = made.write("conflict", [one(grade=1), one(grade=0)])
    error = karat_refuses("labels", "calibrate", "--labels", made.judge, "--human", conflict)
    assert (error.code, error.file, error.line) == ("contradiction", conflict, 2)


def test_two_people_who_disagree_are_left_out_and_counted(made: Made) -> None:
    pair = made.labels[0]
    people = [
        one(pair["query_id"], pair["chunk_id"], grade=grade, annotator=name) for grade, name in ((0, "a"), (1, "b"))
    ]
    people += [one(p["query_id"], p["chunk_id"], grade=i % 2) for i, p in enumerate(made.labels[1:40])]
    found = karat.labels.calibrate(made.judge, made.write("disagreeing", people), sampling=QUICK)
    assert found.shared == 39
    assert any(re.findall(r"\d+", note) == ["1"] for note in found.notes)


@pytest.mark.parametrize(("grade", "hint"), [(7, "--max-grade 7"), (-1, "null")])
def test_grades_out_of_the_scale(made: Made, karat_refuses: Refuses, grade: float, hint: str) -> None:
    bad = made.write("bad", [one(grade=grade)])
    for arguments in (
        ("labels", "calibrate", "--labels", bad, "--human", made.human),
        ("eval", BM25, "--gold", made.gold, "--labels", bad),
    ):
        error = karat_refuses(*arguments)
        assert (error.code, error.field, error.got) == ("bad-value", "grade", grade)
        assert hint in str(error.hint)


@pytest.mark.parametrize(("grade", "word"), [(2, "relevant"), (0, "irrelevant")])
def test_a_judge_that_always_says_the_same(made: Made, karat_refuses: Refuses, grade: int, word: str) -> None:
    same = made.write("same", [one(p["query_id"], p["chunk_id"], grade=grade, annotator="m") for p in made.labels])
    error = karat_refuses("labels", "calibrate", "--labels", same, "--human", made.human)
    assert error.code == "one-sided-judge"
    assert f" {word}" in error.what


def test_labels_none_of_which_has_a_grade(made: Made, karat_refuses: Refuses) -> None:
    failed = made.write("failed", [one(grade=None, reason="timeout")])
    assert karat_refuses("labels", "calibrate", "--labels", failed, "--human", made.human).code == "no-labels"


def test_a_judge_that_failed_on_some_pairs(made: Made) -> None:
    rows = [*made.labels, one("q_000101", "doc_999#p9", grade=None, annotator="m", kind="judge", reason="refusal")]
    found = karat.labels.calibrate(made.write("some_failed", rows), made.human, sampling=QUICK)
    assert found.judge_labels == len(made.labels)
    assert any(re.findall(r"\d+", note) == ["1"] for note in found.notes)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--run", BM25), "no-gold"),
        (("--segment", "language"), "no-gold"),
        (("--width", "2"), "bad-setting"),
        (("-o", "out.txt"), "unknown-output"),
    ],
)
def test_options_that_make_no_sense(made: Made, karat_refuses: Refuses, arguments: tuple[str, ...], code: str) -> None:
    error = karat_refuses("labels", "calibrate", "--labels", made.judge, "--human", made.human, *arguments)
    assert error.code == code


def test_a_calibration_without_a_judge(made: Made, karat_refuses: Refuses) -> None:
    error = karat_refuses("eval", BM25, "--gold", made.gold, "--calibration", made.human)
    assert error.code == "missing-option"


def test_a_torn_calibration(made: Made, karat_refuses: Refuses, tmp_path: Path) -> None:
    torn = tmp_path / "torn.json"
    torn.write_text('{"schema": "karat/calibration/1", "karat": "0"')
    error = karat_refuses("eval", BM25, "--gold", made.gold, "--labels", made.judge, "--calibration", str(torn))
    assert (error.code, error.file) == ("not-a-calibration", str(torn))


def test_a_file_with_labels_of_both_is_taken_apart(tmp_path: Path) -> None:
    """A judge that were held against its own labels would always be right."""

    def row(i: int, grade: int, annotator: str, kind: str) -> str:
        pair = {"query_id": f"q{i}", "chunk_id": "a", "grade": grade, "annotator": annotator, "kind": kind}
        return json.dumps(pair) + "\n"

    judge = [row(i, i % 2, "m", "judge") for i in range(60)]
    human = [row(i, (i // 2) % 2, "ann", "human") for i in range(40)]  # agrees on every second pair
    paths = {"judge": judge, "human": human, "both": [*judge, *human]}
    for name, lines in paths.items():
        (tmp_path / name).write_text("".join(lines))
    apart = karat.labels.calibrate(tmp_path / "judge", tmp_path / "human").overall
    both = karat.labels.calibrate(tmp_path / "both", tmp_path / "both").overall
    assert (both.labelled, both.sensitivity) == (apart.labelled, apart.sensitivity) == (40, both.sensitivity)
    assert both.sensitivity.value == 0.5
    with refused("labels-of-a-judge", file=tmp_path / "judge"):
        karat.labels.calibrate(tmp_path / "judge", tmp_path / "judge")
    with refused("labels-of-a-judge", file=tmp_path / "judge"):
        read_labelling([tmp_path / "judge"], tmp_path / "judge")
    assert len(read_labelling([tmp_path / "both"], tmp_path / "both").human) == 40
