"""The notebooks run, and show what they are committed with. `KARAT_UPDATE_GOLDEN=1` writes them again."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


def shown(notebook: Any) -> list[list[str]]:
    """What each cell of code shows as plain text."""
    return [
        [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) == 4
    page = (EXAMPLES / "notebooks" / "README.md").read_text()
    assert [f"({path.name})" in page for path in NOTEBOOKS] == [True] * 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helpdesk").symlink_to(EXAMPLES / "helpdesk")
    (tmp_path / "notebooks").mkdir()
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    committed = nbformat.read(path, 4)
    nbformat.validate(committed)
    notebook = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(tmp_path / "notebooks")}}
    # What a cell prints may come in pieces, as many as a busy machine makes of it.
    usual = {"timeout": 300, "startup_timeout": 300, "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, kernel_name="python3", resources=resources, **usual).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # not the version that happened to run it
    if os.environ.get("KARAT_UPDATE_GOLDEN"):
        nbformat.write(notebook, path)
        committed = nbformat.read(path, 4)
    assert shown(notebook) == shown(committed)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.execution_count is None] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_hold_nothing_of_the_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w.])/(?:tmp|home|root|Users|var|work|opt)/", text) == []
    assert re.findall(r"\d\dT\d\d:", text) == []  # a moment
    assert len(text) < 200_000
