"""A real little package that brings a metric through the entry point, installed for the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "karat_first_hit"


def python(code: str, path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(tmp_path: Path) -> Path:
    """Built by pip from its pyproject.toml, into a folder of its own."""
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(PACKAGE)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return target


def test_a_metric_of_another_package(tmp_path: Path) -> None:
    site = install(tmp_path)
    code = (
        "import karat, json\n"
        "metrics = ['first_hit', 'first_hit(rel=2)', 'recall@1']\n"
        "result = karat.evaluate({'q': ['a', 'b'], 'r': ['x']}, {'q': ['a'], 'r': ['y']}, metrics)\n"
        "print(json.dumps([result.means, 'first_hit' in karat.all_metrics()]))"
    )
    means, listed = json.loads(python(code, site))
    assert means == {"first_hit": 0.5, "first_hit(rel=2)": None, "recall@1": 0.5}
    assert listed
    assert "first_hit" in python(
        "import sys; sys.argv = ['karat', 'metrics']; from karat.cli.main import main; main()", site
    )


def test_a_broken_plug_in_is_named(tmp_path: Path) -> None:
    site = install(tmp_path)
    (site / "karat_first_hit.py").write_text("raise RuntimeError('broken')")
    code = (
        "import karat\n"
        "try:\n    karat.parse_metric('first_hit')\n"
        "except karat.KaratError as error:\n    print(error)\n"
        "print(karat.parse_metric('recall@5'))"
    )
    shown = python(code, site)
    assert "karat_first_hit" in shown
    assert "uninstall" in shown
    assert shown.endswith("recall@5\n")
