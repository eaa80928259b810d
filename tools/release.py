"""Builds what a release consists of: wheels, source archive and checksums. Uploads nothing.

`make release` writes to dist/. `--dry-run` builds and checks the same and keeps nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKSUMS = "SHA256SUMS"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder to write to (default: dist)")
    parser.add_argument("--dry-run", action="store_true", help="build and check, but keep nothing")
    given = parser.parse_args()
    wrong = problems(ROOT)
    for problem in wrong:
        print(f"{'warning' if given.dry_run else 'error'}: {problem}", file=sys.stderr)
    if wrong and not given.dry_run:
        return 2
    with tempfile.TemporaryDirectory() as folder:
        made = build(ROOT, Path(folder))
        for wheel in made[:2]:
            print(f"{wheel.name}: {version_of(wheel, Path(folder) / wheel.stem)}")
        sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in made)
        if not given.dry_run:
            given.output.mkdir(parents=True, exist_ok=True)
            for file in made:
                shutil.copy(file, given.output)
            (given.output / CHECKSUMS).write_text(sums)
        print(sums, end="")
        print("dry run: nothing was kept" if given.dry_run else f"wrote {given.output}; nothing was uploaded")
    return 0


def problems(root: Path) -> list[str]:
    """Why this checkout cannot be released."""
    found = []
    if git(root, "status", "--porcelain").strip():
        found.append("the checkout has changes that are not committed")
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if not re.search(rf"^## {re.escape(version)}(\s|$)", (root / "CHANGELOG.md").read_text(), re.M):
        found.append(f"CHANGELOG.md has no heading `## {version}`, the version in pyproject.toml")
    return found


def build(root: Path, folder: Path) -> list[Path]:
    """A wheel for this platform, one without compiled code, and the source archive.

    They are built from a copy of the files that git knows, and carry the time of the commit. So the same commit gives
    the same bytes, if compiler and hatchling are the same.
    """
    copy, output = folder / "copy", folder / "dist"
    for name in git(root, "ls-files", "-z").split("\0")[:-1]:
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy / name)
    when = git(root, "log", "-1", "--format=%ct").strip()
    made = []
    for kind, pure in (("wheel", "0"), ("wheel", "1"), ("sdist", "1")):
        before = set(output.glob("*"))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": when, "KARAT_PURE": pure}
        command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(output)]
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"hatchling failed:\n{done.stdout}{done.stderr}")
        new = set(output.glob("*")) - before
        if not new:
            raise SystemExit("no wheel for this platform: the native reader could not be compiled")
        made += new
    return made


def version_of(wheel: Path, folder: Path) -> str:
    """What `karat --version` says once pip has installed the wheel; what it depends on is not installed again."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True, stderr=subprocess.DEVNULL)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-P", str(folder / "bin" / "karat"), "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip()


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
