"""Freshness and no-answer queries on the command line, in reports and in gates."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.cli.main import main
from karat.report.build import evaluation_report
from karat.report.renderers.markdown import render_markdown
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, GOLD, CORPUS = (str(DEMO / name) for name in ("bm25.jsonl", "gold.jsonl", "corpus.jsonl"))
QUICK = ("--resamples", "200")
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The program with some arguments: exit code, output, errors. Anything but a clean end is an exception here."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["karat", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def write(path: Path, *entries: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return str(path)


def test_the_demo_has_both_sections(command: Call) -> None:
    code, out, err = command("eval", RUN, "--gold", GOLD, "--corpus", CORPUS, "--explain", *QUICK)
    assert code == 0, err
    for said in ("freshness@5 0.881", "score ≥ 6.605"):
        assert said in out
    assert max(map(len, out.splitlines())) <= 100


def test_the_terminal_shows_two_screens_and_explains_on_request(command: Call) -> None:
    asked = ("eval", RUN, "--gold", GOLD, "--corpus", CORPUS, *QUICK)
    _, short, _ = command(*asked)
    _, everything, _ = command(*asked, "--explain")
    assert len(short.splitlines()) <= 80 < 200 < len(everything.splitlines())
    assert max(map(len, short.splitlines())) <= 100
    titles = ["Routing", "Query rewriting", "Entity linking", "Cost", "Recall by source"]
    assert next(line for line in short.splitlines() if line.startswith("Not measured")).count(",") == len(titles) - 1
    assert all(title in everything for title in titles)
    assert "--explain" in short.splitlines()[-1]


def test_another_target(command: Call) -> None:
    options = ("eval", RUN, "--gold", GOLD, "--json", *QUICK)
    for target in ("0.5", "0"):
        code, out, _ = command(*options, "--target-false-evidence", target)
        found = json.loads(out)
        assert (code, found["settings"]["target_false_evidence"]) == (0, float(target))
        assert found["analyses"]["no_answer"]["chosen"]["false_evidence"]["value"] <= float(target)
    code, out, _ = command(*options, "--target-false-evidence", "2")
    assert (code, out) == (2, "")


def test_without_newer_hits(command: Call) -> None:
    code, out, _ = command("eval", RUN, "--gold", GOLD, "--no-future", "-m", "recall@5", "-m", "freshness@5", *QUICK)
    assert code == 0
    assert "318" in out
    assert "0.3549" in out


def test_a_field_says_what_has_no_answer(command: Call, shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "lihua_world"
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    run = write(tmp_path / "run.jsonl", *({"query_id": q["_id"], "topk": ["20260924_2000"]} for q in lines))
    options = ("eval", run, "--gold", str(folder), "-m", "false_evidence@5", *QUICK)
    code, out, err = command(*options, "--no-answer", "type=Null")
    assert code == 0, err
    assert "false_evidence@5   1.0000   [0.962, 1.000]    0.0000        65         572" in out
    code, _, err = command(*options, "--no-answer", "type=None")
    assert code == 2
    assert "Multi, Null, Single" in err


@pytest.mark.parametrize(
    ("as_of", "version", "code", "place", "got"),
    [
        ("soon", "2025-01-01", "bad-value", ("gold.jsonl", 1, "as_of"), "soon"),
        ("2025-02-30", "2025-01-01", "bad-value", ("gold.jsonl", 1, "as_of"), "2025-02-30"),
        ("2025-02-01", "2025-14-01", "not-comparable", ("run.jsonl", 1, "doc_version"), "2025-14-01"),
        ("2025-02-01", "v3", "not-comparable", ("run.jsonl", 1, "doc_version"), "v3 (a version number)"),
        ("v3", "2025-02-01", "not-comparable", ("run.jsonl", 1, "doc_version"), "2025-02-01 (a date)"),
        (None, "2025-02-01", "no-times", ("gold.jsonl", None, "as_of"), None),
        ("2025-02-01", None, "no-versions", ("run.jsonl", None, "doc_version"), None),
    ],
)
def test_bad_times_are_one_clear_message(
    karat_refuses: Callable[..., karat.KaratError],
    tmp_path: Path,
    as_of: Any,
    version: Any,
    code: str,
    place: Any,
    got: str | None,
) -> None:
    run = write(tmp_path / "run.jsonl", {"query_id": "q", "topk": [{"chunk_id": "a", "doc_version": version}]})
    gold = write(tmp_path / "gold.jsonl", {"query_id": "q", "gold": ["a"], "as_of": as_of})
    error = karat_refuses("eval", run, "--gold", gold, "--no-future", *QUICK)
    assert (error.code, error.got) == (code, got)
    assert (Path(str(error.file)).name, error.line, error.field) == place
    assert error.hint


def test_a_run_without_scores_says_so(command: Call, tmp_path: Path) -> None:
    run = write(tmp_path / "run.jsonl", *({"query_id": q, "topk": ["a"]} for q in "qr"))
    gold = write(tmp_path / "gold.jsonl", {"query_id": "q", "gold": ["a"]}, {"query_id": "r", "no_answer": True})
    code, out, _ = command("eval", run, "--gold", gold, "--json", *QUICK)
    found = json.loads(out)["analyses"]["no_answer"]
    assert code == 0
    assert found["chosen"] is None


def test_markdown_has_the_curves() -> None:
    result = karat.evaluate(RUN, GOLD, ["recall@5"], sampling=Sampling(resamples=200), analyses=True)
    page = render_markdown(evaluation_report(result))
    assert "| 6.6037 | " in page


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("freshness@5 >= 0.95", 1),
        ("freshness@5 >= 0.8 on bound", 0),
        ("false_evidence@5 <= 0.2", 1),
        ("false_evidence(min_score=6.605)@5 <= 0.1", 0),
        ("miss@5 <= 0.25 on bound", 0),
        ("top_score >= 1", 0),
    ],
)
def test_gates(command: Call, gate: str, code: int) -> None:
    ended, out, err = command("gate", RUN, "--gold", GOLD, "--gate", gate, *QUICK)
    assert ended == code, (out, err)
    assert ("✓ pass" if code == 0 else "✗ fail") in out
