"""The plug-ins of the page of worked examples, found by their entry points as in an installed package."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from doc_pages import blocks, typed_in

from karat.formats.read import REGISTRY as FORMATS
from karat.registry import Registry
from karat.report.build import REGISTRY as SECTIONS
from karat.retrievers.base import REGISTRY as RETRIEVERS
from karat.scoring.metrics.grammar import REGISTRY as METRICS

PAGE = Path(__file__).parents[2] / "docs" / "contribute" / "examples.md"
ALL: tuple[Registry[Any], ...] = (METRICS, FORMATS, RETRIEVERS, SECTIONS)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The files of the page in the current folder, and its plug-ins known to Karat for one test."""
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    groups: dict[str, dict[str, str]] = tomllib.loads(Path("pyproject.toml").read_text())["project"]["entry-points"]
    for registry in ALL:
        found = {}
        for name, value in groups[registry.group].items():
            module, _, kind = value.partition(":")
            found[name] = getattr(importlib.import_module(module), kind)
        monkeypatch.setattr(registry, "_plugins", found)
    return groups


def test_the_page_names_plug_ins_of_four_kinds(installed: dict[str, dict[str, str]]) -> None:
    assert set(installed) == {registry.group for registry in ALL}
    for registry in ALL:
        for name, kind in registry.plugins().items():
            assert (kind.name, issubclass(kind, registry.base)) == (name, True)
            assert name not in registry.builtin()


def test_the_commands_of_the_page_use_them(installed: dict[str, dict[str, str]]) -> None:
    Path("gold.jsonl").write_text(
        '{"query_id": "tents", "gold": ["t1", "t2"]}\n{"query_id": "boots", "gold": ["b1", "b2"]}\n'
    )
    (block,) = [one for one in blocks(PAGE.read_text(encoding="utf-8")) if one.not_run]
    commands = [typed for typed, _ in block.commands if typed.startswith("karat ")]
    printed = ""
    for command in commands:
        code, said = typed_in(command)
        assert code == 0, said
        printed += said
    assert Path("words.jsonl").is_file()
    assert "confirmed@3" in printed
    assert "Perfect queries" in printed
