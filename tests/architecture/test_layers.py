"""Imports point downward only, as docs/architecture.md says, and nothing imports in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "karat"


def layers() -> dict[str, int]:
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = page.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0]
    found: dict[str, int] = {}
    for number, line in enumerate(listed.strip().splitlines()):
        names = line.partition(".")[2].partition(":")[0]
        found.update(dict.fromkeys(re.findall(r"`(\w+)`", names), number))
    return found


@cache
def modules() -> dict[str, Path]:
    return {".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts): p for p in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Modules of the package that a file imports, also inside functions; not those for type checkers only."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    skipped = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    known = modules()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("karat."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("karat"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known or f"{inner}.__init__" in known else str(node.module)


def top(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_every_module_has_a_layer() -> None:
    free = {"__init__", "__main__", "schemas"}
    assert {top(m) for m in modules()} - free == set(layers())


def test_imports_point_downward() -> None:
    order = layers()
    wrong = [
        f"{module} imports {target}"
        for module, path in modules().items()
        for target in imports(path)
        if top(module) in order
        and top(target) in order
        and top(module) != top(target)
        and order[top(module)] >= order[top(target)]
    ]
    assert wrong == []


def test_only_the_command_line_uses_the_schemas() -> None:
    users = [m for m, path in modules().items() for t in imports(path) if top(t) == "schemas"]
    assert {top(m) for m in users} <= {"cli", "schemas"}


def test_nothing_imports_in_a_circle() -> None:
    edges = {m: {t for t in imports(p) if t != m} for m, p in modules().items()}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join((*way, module))
        if module in done:
            return
        for target in edges.get(module, ()):
            visit(target, (*way, module))
        done.add(module)

    for module in edges:
        visit(module, ())


def test_the_check_notices_an_upward_import(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from karat.cli.main import main\n")
    assert imports(file) == ("karat.cli.main",)
