"""Pages of the documentation that are run: every code block, in order, as a reader would type it."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from doc_pages import Session, blocks

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]

# Why a block may not be run. As few as possible.
REASONS = {
    "installs packages",
    "starts a server",
    "asks for keys",
    "asks a model",
    "needs a repository on GitHub",
    "needs Spark",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the examples of the repository, in a terminal of 100 columns."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in [*os.environ]:
        if re.match(r"(CI|GITHUB|GITLAB|KARAT_(BRANCH|STORE|TOKEN|LLM))(_|$)", name):
            monkeypatch.delenv(name)
    monkeypatch.setattr("click.core._detect_program_name", lambda: "karat")
    return tmp_path


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
@pytest.mark.usefixtures("folder")
def test_the_blocks_of_a_page_print_what_it_shows(page: Path) -> None:
    session = Session(name_of(page))
    for block in blocks(page.read_text(encoding="utf-8")):
        session.run(block)
    assert not session.wrong, "\n\n".join(session.wrong)


def test_what_is_not_run_has_a_reason() -> None:
    found = Counter(block.not_run for page in PAGES for block in blocks(page.read_text(encoding="utf-8")))
    assert set(found) - {None} == REASONS
