"""Pages of the documentation that are run: every code block, in order, as a reader would type it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import ChatServer
from doc_pages import Block, Session, blocks, cannot_run, not_there, typed_in
from doc_servers import model
from example_files import SERVICE, search_service, write_example_files
from loopback import Loopback
from usual_files import write_usual

import karat

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md")))]
COMMANDS = "docs/reference/commands.md"  # every block is an example of its own, so each finds the same files
# These bring their own files. All others find small files under the usual names: run.jsonl, gold.jsonl, corpus.jsonl …
COMPLETE = ("docs/start.md", "docs/guides/", "docs/explained/", "docs/contribute/")
WITHOUT = {"docs/retrievers.md": ["bm25.jsonl"]}  # files that a page makes itself

# Why a block may not be run: `<!-- not run: REASON -->`. As few as possible.
REASONS = {
    "asks for keys",  # tests/labels press them
    "installs packages",
    "needs a repository on GitHub",
    "needs a server elsewhere",  # tests/sinks have some
    "needs root",
    "needs Spark",  # run in tests/scoring/engines/test_spark.py, where a session is
    "starts a server",  # which does not end; tests/web start many
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usual")
    write_usual(folder)
    return folder


@pytest.fixture(scope="module")
def asked() -> Iterator[ChatServer]:
    server = model()
    yield server
    server.close()


@pytest.fixture(scope="module")
def searched() -> Iterator[Loopback]:
    server = search_service()
    yield server
    server.close()


@pytest.fixture
def session(
    request: pytest.FixtureRequest, asked: ChatServer, usual: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Session:
    """A folder with the examples of the repository, and a terminal of 100 columns."""
    page: str = request.param
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if not page.startswith((*COMPLETE, COMMANDS)):
        shutil.copytree(usual, tmp_path, dirs_exist_ok=True, ignore=lambda *_: WITHOUT.get(page, []))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in [*os.environ]:
        if re.match(r"(CI|GITHUB|GITLAB|KARAT_(BRANCH|STORE|TOKEN|LLM))(_|$)", name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", asked.url)
    monkeypatch.setenv("KARAT_LLM_KEY", "key-of-these-tests")
    monkeypatch.setattr("click.core._detect_program_name", lambda: "karat")
    found = Session(page)
    if not page.startswith(COMPLETE):
        found.names |= {"karat": karat, "baseline": "baseline.json"}
    if page == COMMANDS:
        start_each_block_afresh(found, tmp_path / "files")
        found.instead[SERVICE] = request.getfixturevalue("searched").url
    return found


def start_each_block_afresh(session: Session, files: Path) -> None:
    """Each block is run in a folder of its own, without the files that it makes itself."""
    files.mkdir()
    os.chdir(files)
    session.instead |= write_example_files()

    def begin(block: Block) -> None:
        folder = files.parent / f"block_{block.line}"
        shutil.copytree(files, folder)
        os.chdir(folder)
        made = (re.findall(r" -o (\S+)", line) for line in block.text.splitlines() if not cannot_run(line))
        for name in (name for names in made for name in names):
            if Path(name).is_file() and f" {name}" not in block.text.partition(f" -o {name}")[0]:
                Path(name).unlink()
        if "karat.yaml" in block.text:
            Path("karat.yaml").write_text("retrievers: {bm25: bm25, mine: my_app:search}\n", encoding="utf-8")

    session.before = begin


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("session", [page for page in PAGES if blocks(text_of(page))], indirect=True)
def test_a_page_prints_what_it_shows(session: Session) -> None:
    session.run_page(text_of(session.page))
    assert not session.wrong, "\n\n".join(session.wrong)


def test_what_is_not_run_has_a_reason() -> None:
    given = {block.not_run for page in PAGES for block in blocks(text_of(page)) if block.not_run}
    assert given == REASONS


@pytest.mark.parametrize("page", PAGES)
def test_no_code_is_only_indented(page: str) -> None:
    """It would not be run."""
    outside = re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.M | re.S)
    assert not re.findall(r"^    (?:\$ |karat |pip |make |import )", outside, re.M)


@pytest.mark.parametrize("command", ["rm -r x", "cat /etc/hosts", "cp x ../y", "curl x", "echo a > b", "ls; pip list"])
def test_a_page_cannot_change_the_machine(command: str) -> None:
    with pytest.raises(ValueError):
        typed_in(command)


@pytest.mark.parametrize("command", ["karat serve --porte 1", "karat labels label pool.jsonl --annotater ann"])
def test_commands_that_are_not_run_still_exist(command: str) -> None:
    assert cannot_run(command)
    assert typed_in(command)[0] == 2
    assert typed_in("karat serve --port 1")[0] == 0


OTHERS = [
    *("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "SKILL.md", "llms.txt", "benchmarks/README.md"),
    *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "examples").rglob("*.md"))),
]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS])
def test_commands_in_sentences_and_on_other_pages_exist(page: str) -> None:
    """Commands of Karat with their options, targets of make, and scripts of the repository with theirs."""
    text = text_of(page) if page != "docs/renamed.md" else ""  # it has the names of old
    typed = [line for block in blocks(text) for line in block.text.replace("\\\n", " ").splitlines()]
    typed += re.findall(r"`((?:karat|make|python) [^`]+)`", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S))
    assert [f"{line}: {wrong}" for line in typed for wrong in not_there(" ".join(line.split()))] == []
