"""What all tests share: where real data lies, and how hypothesis searches."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from readers import choose_reader

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from karat.errors import KaratError
    from karat.history.store import Store
    from wording import Transcript

# Examples are small, but the first of them pays for imports: a deadline would only make tests flaky. The same examples
# every time, so that a red build is about the change and not about luck; KARAT_EXPLORE=1 looks for new ones.
EXPLORE = os.environ.get("KARAT_EXPLORE") == "1"
settings.register_profile(
    "karat", max_examples=500 if EXPLORE else 50, deadline=None, derandomize=not EXPLORE, print_blob=True
)
settings.load_profile("karat")

# Hundreds of tests start Karat as a process of its own: it must not be compiled anew for each of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Several processes run tests: threads of linear algebra would only wait for each other. Before NumPy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Started in the background, pytest ignores SIGINT, and so would whatever tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# All tests and what they import stay to the end. Looking for garbage among them every 700 objects would take long.
_GARBAGE = (50_000, 10, 20)
gc.set_threshold(*_GARBAGE)
_ROOT = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    from memory_files import keep_files_in_memory

    keep_files_in_memory()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores (`-n auto`): some always wait for a server, a browser or another process."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In the process that hands out tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from scheduling import LongestFirst

    config.option.loadscopereorder = False
    return LongestFirst(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In each process that runs tests; alone, a process runs them as they lie."""
    if hasattr(config, "workerinput"):
        from scheduling import longest_first

        longest_first(items)


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is hidden for as long as a process lives, and all tests are one process."""
    monkeypatch.setattr("karat.errors.redaction._told", set())


def pytest_runtest_teardown() -> None:
    """A command freezes all that it leaves behind, for it ends; called in this process, that would stay for good."""
    gc.unfreeze()
    gc.set_threshold(*_GARBAGE)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data that lies beside the checkout and is no part of it."""
    folder = _ROOT.parent / "shared" / "data"
    if folder.is_dir():
        return folder
    reason = "no real data: ../shared/data does not lie beside the checkout"
    if os.environ.get("KARAT_REQUIRE_SHARED") == "1":
        pytest.fail(f"{reason}, and KARAT_REQUIRE_SHARED=1 asks for it")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The history of `karat serve --demo`; tests only read it."""
    from karat.demo.history import fill
    from karat.history.folder import FolderStore

    with FolderStore(tmp_path_factory.mktemp("demo") / ".karat") as opened:
        fill(opened)
        yield opened


@pytest.fixture(scope="module", params=["native", "plain"])
def reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which reader reads: a module that uses this is tested with both."""
    from karat.files.native import native

    with pytest.MonkeyPatch.context() as patch:
        choose_reader(patch, "0" if request.param == "native" else "1")
        if request.param == "native" and native() is None:
            pytest.skip("no native reader: it is made by `make native`, with a C compiler")
        yield request.param


@pytest.fixture
def karat_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """The program with some arguments: exit code, output, errors. Anything but a clean end is an exception here."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return _ended(arguments, capsys, monkeypatch)[:3]

    return call


@pytest.fixture
def karat_refuses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., KaratError]:
    """The error that ends the program with some arguments. What it prints is in `tests/golden/wording/`."""

    def call(*arguments: str) -> KaratError:
        code, _, printed, error = _ended(arguments, capsys, monkeypatch)
        assert error is not None, printed
        assert code == error.exit_code
        first, *rest = str(error).split("\n")
        assert printed.endswith("\n".join([f"{first} [{error.code}]", *rest, ""])), printed
        return error

    return call


def _ended(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str, KaratError | None]:
    """How the program ends: exit code, output, errors, and the error that ended it."""
    from karat.cli.main import main
    from karat.errors import KaratError

    monkeypatch.setattr(sys, "argv", ["karat", *arguments])
    monkeypatch.setenv("KARAT_TRACEBACK", "1")  # a bug is an exception here
    with pytest.raises(SystemExit) as ended:
        main()
    gc.unfreeze()  # while all that there is stays frozen, each command looks through it
    out, err = capsys.readouterr()
    cause = ended.value.__context__
    return int(ended.value.code or 0), out, err, cause if isinstance(cause, KaratError) else None


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """A terminal of 100 columns in an empty folder, in which the demo set lies."""
    from wording import Transcript

    (tmp_path / "helpdesk").symlink_to(_ROOT / "examples" / "helpdesk")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("click.core._detect_program_name", lambda: "karat")  # not pytest, or whatever started it
    return Transcript(lambda *arguments: _ended(arguments, capsys, monkeypatch))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests of a process: a second one beside it would not start."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "no browser: install Debian's chromium"
        if os.environ.get("KARAT_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}; KARAT_REQUIRE_BROWSER=1 asks for it")
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    # The sandbox needs rights that a container does not give; nothing foreign is opened here.
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=arguments)
        yield launched
        launched.close()
