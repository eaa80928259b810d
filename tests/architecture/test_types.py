"""What type checkers know of Karat: pyright's own measure of a typed package, and a program that uses Karat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """\
import karat
from karat import labels, systems

r = karat.evaluate("run.jsonl", "gold.jsonl", ["recall@5"], k=5, seed=7)
reveal_type(r["recall@5"].mean)
reveal_type(karat.compare("old.jsonl", "new.jsonl", "gold.jsonl")["recall@5"].delta)
reveal_type(karat.KaratError("what").hint)
reveal_type(karat.Metric.parse("recall@5").cutoff)
labels.read_labels("labels.jsonl")

karat.evalute("run.jsonl", "gold.jsonl")
karat.evaluate("run.jsonl", "gold.jsonl", seed="seven")
labels.read_label("labels.jsonl")
systems.Spork()
"""


def pyright(folder: Path, *arguments: str) -> Any:
    """Its answer, in a folder without settings. It asks the first `python` of the path for installed packages."""
    first = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(SOURCE)}
    ran = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", *arguments],
        cwd=folder,
        env={**os.environ, **{name: os.pathsep.join([at, os.environ.get(name, "")]) for name, at in first.items()}},
        capture_output=True,
        text=True,
    )
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)


def test_every_public_name_has_a_type(tmp_path: Path) -> None:
    """An attribute whose value may be inferred in two ways is written with its type."""
    found = pyright(tmp_path, "--verifytypes", "karat", "--ignoreexternal")["typeCompleteness"]
    assert found["packageRootDirectory"] == str(SOURCE / "karat")
    partly = [symbol for symbol in found["symbols"] if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    assert [
        f"{symbol['name']}: {problem['message']}"
        for symbol in partly
        for problem in symbol["diagnostics"]
        if "docstring" not in problem["message"]
    ] == []
    assert found["completenessScore"] == 1


def test_a_program_is_checked(tmp_path: Path) -> None:
    """Numbers have types; misspelt names and wrong types of options are found before the program runs."""
    (tmp_path / "program.py").write_text(PROGRAM)
    found = pyright(tmp_path, "program.py")["generalDiagnostics"]
    told = [(each["range"]["start"]["line"] + 1, each["severity"], each["message"].split("\n")[0]) for each in found]
    types = [message.rpartition(" is ")[2].strip('"') for _, severity, message in told if severity == "information"]
    assert types == ["float | None", "float | None", "str | None", "Literal['required', 'optional', 'none']"]
    assert [line for line, severity, _ in told if severity == "error"] == [11, 12, 13, 14], told
