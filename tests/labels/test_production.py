"""From traces of production to a gold set: the path of docs/labels.md, and what is drawn."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import KaratError
from karat.formats.records import decodable
from karat.labels.production import draw_questions

Call = Callable[..., tuple[int, str, str]]
PAGE = Path(__file__).parents[2] / "docs"
SECRET = "ann@example.com"


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return list(decodable(path.read_bytes().splitlines()))


def trace(
    number: int, question: str, *, day: int = 1, language: str = "en", text: str = "A passage."
) -> dict[str, Any]:
    return {
        "id": f"s{number}",
        "trace_id": f"t{number}",
        "run_type": "retriever",
        "start_time": f"2026-01-{day:02}T10:00:00",
        "inputs": {"query": question},
        "outputs": {
            "documents": [{"id": f"d{number % 7}", "page_content": text}, {"id": "x", "page_content": "Other."}]
        },
        "extra": {"metadata": {"language": language, "tenant": f"{SECRET}"}},
    }


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """60 questions on three days, some asked again with another spelling."""
    made = [trace(at, f"Question {at} of {SECRET}?", day=1 + at % 3) for at in range(60)]
    again = [trace(100 + at, f"  question {at} OF {SECRET}?", day=9) for at in range(5)]
    return write(tmp_path / "traces.jsonl", [*made, *again])


def test_the_path_on_the_labels_page(traces: Path, karat_command: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the page, in order. A person's keys are replaced by a file of labels."""
    monkeypatch.chdir(traces.parent)
    section = (PAGE / "labels.md").read_text().partition("## From production")[2].partition("\n## ")[0]
    commands = [shlex.split(line) for line in re.findall(r"^\$ karat (.*)$", section, re.M)]
    assert [command[:2] for command in commands] == [
        ["labels", "pool"],
        ["labels", "label"],
        ["labels", "merge"],
        ["eval", "traces.jsonl"],
    ]
    for command in commands:
        if command[1] == "label":
            pairs = read(Path(command[2]))
            labels = [
                {"query_id": p["query_id"], "chunk_id": p["chunk_id"], "grade": 2 * (p["chunk_id"] != "x")}
                for p in pairs
            ]
            write(Path(command[command.index("-o") + 1]), [{**one, "annotator": "ann"} for one in labels])
            continue
        code, _, err = karat_command(*command)
        assert code == 0, err
    written = "".join(Path(name).read_text() for name in ("to_label.jsonl", "questions.jsonl", "asked.jsonl"))
    assert SECRET not in written
    assert "[email]" in written
    result = karat.evaluate("traces.jsonl", "asked.jsonl", ["recall@1", "mrr"])
    assert result["recall@1"].n == 60
    assert result["mrr"].mean == 1.0  # found by the ids of the traces, although the texts were redacted
    assert {question["tags"]["asked"] for question in read(Path("questions.jsonl"))} == {1, 2}


def test_questions_count_once_and_each_day_is_represented(traces: Path) -> None:
    drawn = draw_questions(traces, size=12, by="day")
    assert (drawn.summary.traces, drawn.summary.distinct, drawn.summary.drawn) == (65, 60, 12)
    assert Counter(question.tags["day"] for question in drawn.questions) == {f"2026-01-0{day}": 4 for day in (1, 2, 3)}
    assert [(one.questions, one.drawn) for one in drawn.summary.strata] == [(20, 4)] * 3


def test_the_sample_depends_on_the_seed_and_not_on_the_order(traces: Path, tmp_path: Path) -> None:
    first = {one.text.casefold().strip() for one in draw_questions(traces, size=10).questions}
    turned = write(tmp_path / "turned.jsonl", read(traces)[::-1])
    assert {one.text.casefold().strip() for one in draw_questions(turned, size=10).questions} == first
    assert {one.text.casefold().strip() for one in draw_questions(traces, size=10, seed=1).questions} != first


def test_small_groups_are_drawn_too(tmp_path: Path) -> None:
    made = [trace(at, f"q{at}", language="fr" if at == 7 else "en") for at in range(40)]
    drawn = draw_questions(write(tmp_path / "t.jsonl", made), size=5, by="language")
    assert Counter(one.tags["language"] for one in drawn.questions) == {"en": 4, "fr": 1}


def test_what_the_gold_set_has_is_left_out(traces: Path, tmp_path: Path) -> None:
    gold = karat.read_gold(
        write(tmp_path / "g.jsonl", [{"query_id": "a", "query": f"QUESTION 3 of {SECRET}?", "gold": ["d3"]}])
    )
    drawn = draw_questions(traces, gold=gold)
    assert (drawn.summary.in_gold, drawn.summary.drawn) == (1, 59)


def test_a_corpus_gives_ids_and_its_texts_are_redacted_too(tmp_path: Path, karat_command: Call) -> None:
    made = trace(1, "How?", text=f"Write to {SECRET}.")
    del made["outputs"]["documents"][0]["id"]
    traces = write(tmp_path / "t.jsonl", [made])
    chunks = [{"chunk_id": "c1", "text": f"write to {SECRET}.", "title": SECRET}, {"chunk_id": "x", "text": SECRET}]
    corpus, pool, questions = write(tmp_path / "c.jsonl", chunks), tmp_path / "p.jsonl", tmp_path / "q.jsonl"
    arguments = ("--corpus", str(corpus), "--redact", "email", "--questions", str(questions), "-o", str(pool), "--json")
    code, out, _ = karat_command("labels", "pool", "--traces", str(traces), *arguments)
    assert code == 0
    assert {pair["chunk_id"] for pair in read(pool)} == {"c1", "x"}
    assert SECRET not in pool.read_text() + questions.read_text() + out
    assert json.loads(out)["sampled"]["redacted"] == ["email"]


def test_a_pattern_is_never_shown(traces: Path, tmp_path: Path, karat_command: Call) -> None:
    arguments = (
        "--redact",
        SECRET,
        "--questions",
        str(tmp_path / "q.jsonl"),
        "-o",
        str(tmp_path / "p.jsonl"),
        "--by",
        "tenant",
    )
    code, out, err = karat_command("labels", "pool", "--traces", str(traces), *arguments)
    assert code == 0
    assert SECRET not in out + err + (tmp_path / "q.jsonl").read_text()


@pytest.mark.parametrize(
    ("typed", "meant"), [("emial", "email"), ("Phone", "phone"), ("credit_card", "card"), ("ssn", None)]
)
def test_a_misspelt_pattern_writes_nothing(
    typed: str, meant: str | None, traces: Path, tmp_path: Path, karat_refuses: Callable[..., KaratError]
) -> None:
    pool, questions = tmp_path / "p.jsonl", tmp_path / "q.jsonl"
    arguments = ("--redact", typed, "--questions", str(questions), "-o", str(pool))
    error = karat_refuses("labels", "pool", "--traces", str(traces), *arguments)
    assert (error.code, error.field) == ("bad-setting", "redact")
    assert (meant in str(error.hint)) if meant else (typed not in str(error))
    assert not pool.exists()
    assert not questions.exists()


def test_a_pattern_that_matches_nothing_is_named(traces: Path, tmp_path: Path, karat_command: Call) -> None:
    written = ("--questions", str(tmp_path / "q.jsonl"), "-o", str(tmp_path / "p.jsonl"))
    redact = ("--redact", "email", "--redact", "iban", "--redact", "ticket=T-[0-9]+")
    code, out, _ = karat_command("labels", "pool", "--traces", str(traces), *redact, *written, "--json")
    assert code == 0
    assert json.loads(out)["sampled"]["redacted_nothing"] == ["iban", "ticket"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--traces", "t.jsonl", "-o", "p.jsonl"),
        ("run.jsonl", "--traces", "t.jsonl", "--questions", "q.jsonl", "-o", "p.jsonl"),
        ("run.jsonl", "--gold", "g.jsonl", "--redact", "email", "-o", "p.jsonl"),
        ("run.jsonl", "-o", "p.jsonl"),
        ("-o", "p.jsonl"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together(arguments: tuple[str, ...], karat_command: Call) -> None:
    assert karat_command("labels", "pool", *arguments)[0] == 2


def test_what_cannot_be_drawn_is_refused(traces: Path) -> None:
    with refused("unmapped-field"):
        draw_questions(traces, by="nothing")
    with refused("bad-setting"):
        draw_questions(traces, redact=["("])
    with refused("nothing-to-label"):
        texts = [{"query_id": str(at), "query": f"question {at} of {SECRET}?", "gold": ["d"]} for at in range(60)]
        draw_questions(traces, gold=karat.read_gold(texts))


def test_too_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.labels.production._STRATA", 3)
    made = [trace(at, f"q{at}", day=1 + at) for at in range(10)]
    with refused("too-many-values"):
        draw_questions(write(tmp_path / "t.jsonl", made), by="day")
