"""JSON schemas: those that are shipped are those of the code, and the demo files follow them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from karat.schemas import NAMES, generate, schema_text

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"


@pytest.mark.parametrize("name", NAMES)
def test_shipped_schemas_are_those_of_the_code(name: str, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    assert karat_command("schema", name) == (0, schema_text(name), "")
    assert schema_text(name) == generate(name)


def test_demo_files_follow_their_schemas() -> None:
    for file, name in (("bm25.jsonl", "run-log"), ("gold.jsonl", "gold"), ("corpus.jsonl", "corpus")):
        check = jsonschema.Draft202012Validator(json.loads(schema_text(name)))
        for line in (DEMO / file).read_text().splitlines():
            check.validate(json.loads(line))
