"""A real little package that brings a metric through the entry point, installed for the test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refused

from karat.errors import ConfigError
from karat.registry import Registry
from karat.scoring.metrics.base import Metric

THING = "from karat.scoring.metrics.base import Metric\nclass Mine(Metric, frozen=True):\n    name = 'mine'\n"
PACKAGE = Path(__file__).parent / "karat_first_hit"


def python(code: str, path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by pip from its pyproject.toml, into a folder of its own."""
    target = tmp_path_factory.mktemp("installed") / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--target", str(target), str(PACKAGE)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return target


@pytest.fixture
def site(installed: Path, tmp_path: Path) -> Path:
    """A copy, which a test may spoil."""
    return shutil.copytree(installed, tmp_path / "site")


def test_a_metric_of_another_package(site: Path) -> None:
    code = (
        "import karat, json\n"
        "metrics = ['first_hit', 'first_hit(rel=2)', 'recall@1']\n"
        "result = karat.evaluate({'q': ['a', 'b'], 'r': ['x']}, {'q': ['a'], 'r': ['y']}, metrics)\n"
        "print(json.dumps([result.means, 'first_hit' in karat.Metric.all()]))"
    )
    means, listed = json.loads(python(code, site))
    assert means == {"first_hit": 0.5, "first_hit(rel=2)": None, "recall@1": 0.5}
    assert listed
    assert "first_hit" in python(
        "import sys; sys.argv = ['karat', 'metrics']; from karat.cli.main import main; main()", site
    )


def entry_points(site: Path, text: str) -> None:
    """What pyproject.toml would have become, had the author written it so."""
    (file,) = site.glob("karat_first_hit-*.dist-info/entry_points.txt")
    file.write_text(f"[karat.metrics]\n{text}\n")


def command(path: Path, *arguments: str) -> tuple[int, str]:
    line = [sys.executable, "-m", "karat.cli.main", *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=path)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("code", "points", "words"),
    [
        (
            "import not_there",
            "first_hit = karat_first_hit:FirstHit",
            ("karat_first_hit", "No module named 'not_there'"),
        ),
        ("x = = 1", "first_hit = karat_first_hit:FirstHit", ("karat_first_hit", "SyntaxError")),
        ("", "first_hit = karat_first_hit:FirstHit", ("karat_first_hit", "AttributeError")),
        (
            "FirstHit = 3",
            "first_hit = karat_first_hit:FirstHit",
            ("karat_first_hit", "karat.scoring.metrics.base.Metric"),
        ),
        (
            None,
            "recall = karat_first_hit:FirstHit",
            ("'recall'", "karat.scoring.metrics.recall", "karat_first_hit:FirstHit"),
        ),
        (None, "other = karat_first_hit:FirstHit", ("'other'", "'first_hit'")),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_one_error(
    site: Path, code: str | None, points: str, words: tuple[str, ...]
) -> None:
    entry_points(site, points)
    if code is not None:
        (site / "karat_first_hit.py").write_text(code)
    returned, said = command(site, "metrics")
    assert returned == 2
    assert said.startswith("error: ")
    for word in words:
        assert word in said


def test_a_plug_in_with_a_built_in_name_is_refused_before_anything_is_scored(site: Path) -> None:
    entry_points(site, "recall = karat_first_hit:FirstHit")
    (site / "data.json").write_text('{"q": ["a"]}')
    returned, said = command(site, "eval", "data.json", "--gold", "data.json", "-m", "recall@5")
    assert (returned, "'recall'" in said) == (2, True)


@pytest.mark.parametrize(
    ("files", "code", "words"),
    [
        ({"broken.py": "import not_there"}, "not-importable", ("things.broken", "broken.py", "'not_there'")),
        ({"broken.py": "def f(:"}, "not-importable", ("things.broken", "SyntaxError")),
        ({"one.py": THING, "two.py": THING}, "duplicate-name", ("'mine'", "things.one", "things.two")),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], code: str, words: tuple[str, ...]
) -> None:
    """As in src/karat/scoring/metrics, into which people drop their files."""
    folder = tmp_path / "things"
    folder.mkdir()
    for name, text in {"__init__.py": "", **files}.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # the second time no better than the first
        with refused(code, ConfigError) as caught:
            Registry("thing", "things", Metric).require("mine")
        for word in words:
            assert word in str(caught.value)
    for module in [name for name in sys.modules if name.partition(".")[0] == "things"]:
        del sys.modules[module]


def test_a_broken_plug_in_is_named(site: Path) -> None:
    (site / "karat_first_hit.py").write_text("raise RuntimeError('broken')")
    code = (
        "import karat\n"
        "try:\n    karat.Metric.parse('first_hit')\n"
        "except karat.KaratError as error:\n    print(error.code, error)\n"
        "print(karat.Metric.parse('recall@5'))"
    )
    shown = python(code, site)
    assert shown.startswith("bad-plugin ")
    assert "karat_first_hit" in shown
    assert shown.endswith("recall@5\n")
