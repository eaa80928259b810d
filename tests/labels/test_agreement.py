"""Annotators: how far they agree, and how conflicts are settled."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from karat.errors import ConfigError, KaratError
from karat.labels.agreement import find_agreement, settle
from karat.labels.files import Label, Labels, read_labels

GRADES = {"ann": [2, 1, 0, 0, 2], "ben": [2, 1, 0, 1, 0], "cem": [2, 2, 0, 1, 1]}


def write(path: Path, name: str, grades: list[Any], **more: Any) -> Path:
    lines = [
        {"query_id": f"q{i // 2}", "chunk_id": f"c{i}", "grade": grade, "annotator": name, **more}
        | ({"reason": "skipped"} if grade is None else {})
        for i, grade in enumerate(grades)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [str(write(tmp_path / f"{name}.jsonl", name, grades)) for name, grades in GRADES.items()]


def labels_of(**grades: list[Any]) -> Labels:
    labels = Labels()
    for name, given in grades.items():
        for i, grade in enumerate(given):
            reason = "skipped" if grade is None else None
            labels.entries.append(
                Label(
                    query_id="q",
                    chunk_id=f"c{i}",
                    grade=grade,
                    reason=reason,
                    annotator=name,
                    inclusion_probability=0.5,
                )
            )
    return labels


def test_every_two_and_all_together(files: list[str]) -> None:
    found = find_agreement(read_labels(*files))
    rows = {(row.measure, *row.annotators, row.of): row for row in found.kappas}
    assert len(rows) == 8
    two = rows["cohen", "ann", "ben", "grades"]
    # By hand: 3 of 5 agree; chance (2·2 + 1·2 + 2·1) / 25.
    assert (two.pairs, two.agreed) == (5, 0.6)
    assert two.kappa == pytest.approx((0.6 - 8 / 25) / (1 - 8 / 25), abs=1e-6)
    assert (two.low or 0) < two.kappa < (two.high or 0)
    every = rows["fleiss", "ann", "ben", "cem", "grades"]
    # Pairs of annotators who agree, of three: 1, 1/3, 1, 1/3, 0; each grade was given five times.
    chance = (5 / 15) ** 2 * 3
    assert every.kappa == pytest.approx(((1 + 1 / 3 + 1 + 1 / 3 + 0) / 5 - chance) / (1 - chance), abs=1e-6)


def test_conflicts_are_listed_the_widest_first(files: list[str]) -> None:
    found = find_agreement(read_labels(*files))
    assert [c.item for c in found.conflicts] == ["c4", "c1", "c3"]
    assert found.conflicts[0].grades == {"ann": 2, "ben": 0, "cem": 1}
    assert (found.pairs, found.shared) == (5, 5)


def test_what_is_missing_is_neither_agreement_nor_conflict() -> None:
    found = find_agreement(labels_of(ann=[2, None, 0], ben=[2, 1, None]))
    assert [(row.pairs, row.agreed, row.kappa) for row in found.kappas][:1] == [(1, 1.0, None)]
    assert found.conflicts == []
    assert [(one.labels, one.missing) for one in found.annotators] == [(2, 1), (2, 1)]


def test_one_annotator_has_nobody_to_agree_with() -> None:
    assert find_agreement(labels_of(ann=[2, 1])).kappas == []


def test_the_majority_decides_and_a_tie_stays_open() -> None:
    settled = settle(labels_of(ann=[2, 1, 0, 2], ben=[2, 1, 1, None], cem=[2, 0, 2, None]))
    assert [label.grade for label in settled] == [2, 1, None, 2]
    assert [label.annotator for label in settled] == ["ann+ben+cem", "ann+ben", "ann+ben+cem", "ann"]
    assert settled[2].reason is not None
    assert settled[2].reason.endswith("ann 0, ben 1, cem 2")
    assert settled[1].note == "ann 1, ben 1, cem 0"
    assert {label.inclusion_probability for label in settled} == {0.5}


def test_an_adjudicator_decides_what_she_labelled() -> None:
    settled = settle(labels_of(ann=[2, 1, 0], ben=[2, 0, 1], eve=[0, None, 1]), "eve")
    assert [label.grade for label in settled] == [0, None, 1]
    with refused("unknown-annotator", ConfigError) as caught:
        settle(labels_of(eve=[0]), "evelyn")
    assert "eve" in caught.value.hint


def test_half_is_no_majority() -> None:
    assert settle(labels_of(a=[2], b=[2], c=[1], d=[1]))[0].grade is None
    assert settle(labels_of(a=[2], b=[2], c=[1]))[0].grade == 2


def test_models_have_no_say_where_people_have_labelled(tmp_path: Path) -> None:
    human = write(tmp_path / "h.jsonl", "ann", [2, None])
    judges = [write(tmp_path / f"{n}.jsonl", n, [0, 1], kind="judge") for n in ("m1", "m2")]
    settled = settle(read_labels(human, *judges))
    assert [(label.grade, label.kind) for label in settled] == [(2, "human"), (1, "judge")]


Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]


def test_the_command(karat_command: Command, files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "settled.jsonl"
    code, shown, err = karat_command("labels", "agree", *files, "-o", str(out))
    assert code == 0
    assert "Fleiss" in shown
    assert "ann 2, ben 0, cem 1" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert re.findall(r"\b\d+\b", err.replace(str(tmp_path), "")) == ["5", "1"]  # labels, and those without a grade
    assert [label.grade for label in read_labels(out)] == [2, 1, 0, 1, None]
    code, shown, _ = karat_command("labels", "agree", *files, "--json")
    assert code == 0
    assert len(json.loads(shown)["conflicts"]) == 3


def test_conflicts_become_a_pool_for_an_adjudicator(karat_command: Command, files: list[str], tmp_path: Path) -> None:
    pool, conflicts = tmp_path / "pool.jsonl", tmp_path / "conflicts.jsonl"
    pairs = [{"query_id": f"q{i // 2}", "chunk_id": f"c{i}", "text": f"text {i}"} for i in range(5)]
    pool.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    code, _, err = karat_command("labels", "agree", *files, "--pool", str(pool), "--conflicts", str(conflicts))
    assert code == 0, err
    assert [json.loads(line)["text"] for line in conflicts.read_text().splitlines()] == ["text 4"]
    eve = tmp_path / "eve.jsonl"
    label = {"query_id": "q2", "chunk_id": "c4", "grade": 1, "annotator": "eve"}
    eve.write_text(json.dumps(label) + "\n")
    out = tmp_path / "settled.jsonl"
    code, _, err = karat_command("labels", "agree", *files, str(eve), "--adjudicator", "eve", "-o", str(out))
    assert code == 0, err
    assert [label.grade for label in read_labels(out)] == [2, 1, 0, 1, 1]


def test_open_conflicts_are_said_with_the_commands_that_settle_them(
    karat_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ann.csv").write_text("query_id,chunk_id,grade\nq1,a,2\nq1,b,2\nq1,c,\n")
    Path("ben.csv").write_text("query_id,chunk_id,grade\nq1,a,2\nq1,b,0\nq1,c,\n")
    Path("pool.jsonl").write_text("".join(f'{{"query_id": "q1", "chunk_id": "{item}"}}\n' for item in "abc"))
    _, _, err = karat_command("labels", "agree", "ann.csv", "ben.csv", "-o", "human.jsonl")
    assert all(word in err for word in ("3 labels", "1 open conflict", "1 that no annotator"))
    steps = [line.split()[1:] for line in err.splitlines() if line.startswith("  karat")]
    assert [step[1] for step in steps] == ["agree", "label", "agree"]
    assert karat_command(*(word.replace("POOL", "pool.jsonl") for word in steps[0]))[0] == 0
    Path("eve.jsonl").write_text('{"query_id": "q1", "chunk_id": "b", "grade": 1, "annotator": "eve"}\n')
    code, _, err = karat_command(*steps[2])
    assert (code, "conflict" in err, "next" in err) == (0, False, False)


def test_labels_of_unknown_pairs_are_refused(karat_refuses: Refuses, files: list[str], tmp_path: Path) -> None:
    pool = tmp_path / "pool.jsonl"
    pool.write_text('{"query_id": "q0", "chunk_id": "c0"}\n')
    error = karat_refuses("labels", "agree", *files, "--pool", str(pool))
    assert (error.code, error.file, error.line, error.query) == ("unknown-pair", files[0], 2, "q0")
    assert "c1" in error.what


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--conflicts", "x.jsonl"], "missing-option", "--pool"),
        (["--adjudicator", "ann"], "missing-option", "-o"),
        (["--adjudicator", "ana", "-o", "x.jsonl"], "unknown-annotator", "ann"),
        (["--max-grade", "1"], "bad-value", "0 to 1"),
        (["-o", "{first}"], "would-overwrite", ""),
    ],
)
def test_what_the_command_refuses(
    karat_refuses: Refuses,
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    code: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    error = karat_refuses("labels", "agree", *files, *(o.format(first=files[0]) for o in options))
    assert error.code == code
    assert said in str(error)
    assert not Path("x.jsonl").exists()
