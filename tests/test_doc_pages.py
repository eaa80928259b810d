"""Pages of the documentation that are run: every code block, in order, as a reader would type it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from doc_pages import CANNOT_RUN, Session, blocks, typed_in
from usual_files import write_usual

import karat

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md")))]
PAGES = [page for page in PAGES if not page.startswith("docs/decisions/")]
# These bring their own files. All others find small files under the usual names: run.jsonl, gold.jsonl, corpus.jsonl …
COMPLETE = ("docs/start.md", "docs/guides/", "docs/explained/", "docs/contribute/")
WITHOUT = {"docs/retrievers.md": ["bm25.jsonl"]}  # files that a page makes itself

# Why a block may not be run: `<!-- not run: REASON -->`. As few as possible.
REASONS = {
    "asks a model",
    "asks for keys",
    "installs packages",
    "needs a repository on GitHub",
    "needs Spark",  # those of the guide run in tests/scoring/engines/test_spark.py
    "starts a server",
}

# Pages that do not run yet, and why. A page that runs must leave the list, so it only gets shorter.
NOT_YET = {
    "docs/architecture.md": "a drawing, not code",
    "docs/dashboard.md": "calls a running server with curl",
    "docs/deploy.md": "needs Docker, systemd and Slack",
    "docs/formats.md": "needs traces and files of other tools, which tests/formats have",
    "docs/history.md": "names a run by its id, which is made up",
    "docs/judge.md": "asks a model; tests/llm has one that answers",
    "docs/labels.md": "needs labels that follow from one another; tests/labels have them",
    "docs/paraphrases.md": "needs its own gold set; runs in tests/test_docs.py",
    "docs/scale.md": "needs Spark; guides/spark.md has the same code",
    "docs/sending.md": "needs servers elsewhere; tests/sinks have some",
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usual")
    write_usual(folder)
    return folder


@pytest.fixture
def session(request: pytest.FixtureRequest, usual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A folder with the examples of the repository, and a terminal of 100 columns."""
    page: str = request.param
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if not page.startswith(COMPLETE):
        shutil.copytree(usual, tmp_path, dirs_exist_ok=True, ignore=lambda *_: WITHOUT.get(page, []))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in [*os.environ]:
        if re.match(r"(CI|GITHUB|GITLAB|KARAT_(BRANCH|STORE|TOKEN|LLM))(_|$)", name):
            monkeypatch.delenv(name)
    monkeypatch.setattr("click.core._detect_program_name", lambda: "karat")
    found = Session(page)
    if not page.startswith(COMPLETE):
        found.names |= {"karat": karat, "baseline": "baseline.json"}
    return found


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("session", [page for page in PAGES if page not in NOT_YET], indirect=True)
def test_a_page_prints_what_it_shows(session: Session) -> None:
    session.run_page(text_of(session.page))
    assert not session.wrong, "\n\n".join(session.wrong)


@pytest.mark.parametrize("session", NOT_YET, indirect=True)
def test_a_page_that_runs_leaves_the_list(session: Session) -> None:
    session.run_page(text_of(session.page), until_wrong=True)
    assert session.wrong, f"{session.page} runs: remove it from NOT_YET"


def test_what_is_not_run_has_a_reason() -> None:
    given = {block.not_run for page in PAGES for block in blocks(text_of(page)) if block.not_run}
    assert given == REASONS
    assert set(NOT_YET) <= set(PAGES)


@pytest.mark.parametrize("command", ["rm -r x", "cat /etc/hosts", "cp x ../y", "curl x", "echo a > b", "ls; pip list"])
def test_a_page_cannot_change_the_machine(command: str) -> None:
    with pytest.raises(ValueError):
        typed_in(command)


@pytest.mark.parametrize("command", ["karat serve --porte 1", "karat labels label pool.jsonl --annotater ann"])
def test_commands_that_are_not_run_still_exist(command: str) -> None:
    assert any(part in command for part in CANNOT_RUN)
    assert typed_in(command)[0] == 2
    assert typed_in("karat serve --port 1")[0] == 0
