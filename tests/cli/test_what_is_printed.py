"""Names come from files of others: printed, they move no cursor, give a CI server no command, and add no line."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]
NAMES = [
    "\x1b[2J\x1b]0;owned\x07x",
    "::error title=x::y",
    "a\n::error::b",
    "a\r\n##[error]b",
    "\x9b2Jx",
    "a\u202eb\u2028c",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_system_that_is_saved(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("KARAT_STORE", "KARAT_BRANCH"):
        monkeypatch.delenv(variable, raising=False)
    Path("run.jsonl").write_text(json.dumps({"query_id": "q", "system": name, "topk": ["a"]}) + "\n")
    Path("gold.jsonl").write_text('{"query_id": "q", "gold": ["a"]}\n')
    gate = ("gate", "run.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.1")
    calls = [
        ("eval", "run.jsonl", "--gold", "gold.jsonl", "--save", "--brief"),
        (*gate, "--save"),
        ("history", "list"),
        ("history", "show", "latest"),
    ]
    for call in calls:
        code, out, err = karat_command(*call)
        assert code == 0, err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", out + err), call
        assert not re.search(r"^\s*::|##\[", out + err, re.M), call
        assert len(err.splitlines()) <= 1 + ("gate" in call), call


def test_the_command_line_prints_in_one_way() -> None:
    folder = ROOT / "src" / "karat" / "cli"
    printing = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print")
    }
    assert printing == {"say.py"}
