"""The commit of the code: outputs that name it have it, and a short report does not ask git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from commands import run_here

from karat.files import git

EVAL = ("eval", "run.trec", "--gold", "gold.qrels")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "run.trec").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\n")
    (tmp_path / "gold.qrels").write_text("q1 0 b 1\n")
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*named, "commit", "-q", "-m", "files")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize("option", ["--explain", "--json", "-o page.html", "-o result.json", "-o report.md"])
def test_outputs_name_the_commit(checkout: Path, option: str) -> None:
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=checkout, capture_output=True, text=True)
    commit = done.stdout.strip()
    printed = run_here(*EVAL, *option.split(), cwd=checkout).stdout
    if option.startswith("-o"):
        printed = (checkout / option.split()[1]).read_text(encoding="utf-8")
    assert commit
    assert commit in printed


def test_a_short_report_does_not_ask_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(git, "_git", lambda *words, **_: asked.append(words) or "")
    assert run_here(*EVAL, cwd=checkout).returncode == 0
    assert not asked
    assert run_here(*EVAL, "--explain", cwd=checkout).returncode == 0
    assert asked
