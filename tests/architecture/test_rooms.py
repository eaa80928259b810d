"""The package stays easy to find one's way in: few files at the top, few layers, one name for one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "karat"
FILES, LAYERS, LINES = 8, 12, 450


def public_classes(folder: Path) -> dict[str, list[str]]:
    """Name → files that define a class of that name at their top level."""
    found = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(folder)))
    return found


def test_no_two_public_classes_have_the_same_name() -> None:
    assert {name: files for name, files in public_classes(PACKAGE).items() if len(files) > 1} == {}


def test_few_files_are_at_the_top_level() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= FILES


def test_a_file_holds_what_is_read_together() -> None:
    sizes = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: size for name, size in sizes.items() if size > LINES} == {}


def test_there_are_few_layers_each_with_a_sentence() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    lines = page.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0].strip().splitlines()
    assert 1 < len(lines) <= LAYERS
    assert [line for line in lines if not re.fullmatch(r"\d+\. `\w+`(, `\w+`)*: .+\.", line)] == []


def test_the_check_notices_a_second_class_of_a_name(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Thing: ...\nclass _Own: ...\n")
    assert public_classes(tmp_path) == {"Thing": ["a.py", "b.py"]}
