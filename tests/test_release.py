"""`make release` without leaving anything behind: what it builds, and when it refuses."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from karat.files.native.build import compiler

ROOT = Path(__file__).parents[1]
READER = "karat/files/native/_reader.so"


@pytest.fixture(scope="module")
def release() -> Any:
    spec = importlib.util.spec_from_file_location("karat_release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(release: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Platform wheel, pure wheel and source archive of this checkout; built once."""
    if not (ROOT / ".git").exists() or compiler() is None:
        pytest.skip("a release needs a git checkout and a C compiler")
    built: list[Path] = release.build(ROOT, tmp_path_factory.mktemp("release"))
    return built


def test_a_release_has_two_wheels_and_the_source(made: list[Path]) -> None:
    native, pure, source = made
    assert re.fullmatch(r"karat-[\d.]+-py3-none-(?!any)\w+\.whl", native.name)
    assert re.fullmatch(r"karat-[\d.]+-py3-none-any\.whl", pure.name)
    inside, without = set(zipfile.ZipFile(native).namelist()), set(zipfile.ZipFile(pure).namelist())
    assert READER in inside - without
    for names in (inside, without):
        assert {"karat/py.typed", "karat/demo/files/gold.jsonl"} <= names
        assert any(name.endswith("/licenses/LICENSE") for name in names)
    with tarfile.open(source) as archive:
        files = {member.name.partition("/")[2] for member in archive}
    assert {"pyproject.toml", "hatch_build.py", "Makefile", "constraints.txt", "CONTRIBUTING.md"} <= files
    assert {"src/karat/files/native/json.c", "tests/test_docs.py", "examples/helpdesk/gold.jsonl"} <= files
    assert not any(name.endswith((".so", ".pyc")) for name in files)


def test_files_carry_the_time_of_the_commit(release: Any, made: list[Path]) -> None:
    """So the same commit gives the same bytes."""
    when = int(release.git(ROOT, "log", "-1", "--format=%ct"))
    even = datetime.fromtimestamp(when - when % 2, UTC)  # zip has every second second
    assert {datetime(*info.date_time, tzinfo=UTC) for info in zipfile.ZipFile(made[0]).infolist()} == {even}
    with tarfile.open(made[2]) as archive:
        assert {member.mtime for member in archive} == {when}


def test_a_dry_run_installs_both_wheels_and_keeps_nothing(
    release: Any, made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "build", lambda root, folder: made)
    output = tmp_path / "dist"
    monkeypatch.setattr(sys, "argv", ["release.py", "--output", str(output), "--dry-run"])
    assert release.main() == 0
    assert not output.exists()
    printed = capsys.readouterr().out
    assert re.search(rf"^{re.escape(made[0].name)}: .*native reader$", printed, re.M)
    assert re.search(rf"^{re.escape(made[1].name)}: .*plain reader$", printed, re.M)

    monkeypatch.setattr(release, "problems", lambda root: [])
    monkeypatch.setattr(release, "version_of", lambda wheel, folder: "")
    monkeypatch.setattr(sys, "argv", ["release.py", "--output", str(output)])
    assert release.main() == 0
    assert {file.name for file in output.iterdir()} == {*(file.name for file in made), "SHA256SUMS"}
    for line in (output / "SHA256SUMS").read_text().splitlines():
        told, name = line.split("  ")
        assert hashlib.sha256((output / name).read_bytes()).hexdigest() == told


def test_a_release_needs_a_clean_checkout_and_a_version_of_the_changelog(
    release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0\n")
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert release.problems(tmp_path) == []

    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0.1\n\n## 1.1\n")
    assert len(release.problems(tmp_path)) == 2  # a change, and no such version
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "build", None)  # is not called
    monkeypatch.setattr(sys, "argv", ["release.py"])
    assert release.main() == 2
