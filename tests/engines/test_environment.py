"""The environment itself: Karat runs in it, with its extras."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"


def test_karat_runs_here(karat_command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    log = tmp_path / "dense.jsonl"
    asked = ("--queries", str(HELPDESK / "gold.jsonl"), "--corpus", str(HELPDESK / "corpus.jsonl"))
    code, _, errors = karat_command("run", "dense", *asked, "-o", str(log))
    assert code == 0, errors
    assert all("error" not in json.loads(line) for line in log.read_text().splitlines())
