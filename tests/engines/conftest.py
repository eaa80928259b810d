"""Tests against real engines and other tools' own packages. Only `make test-engines` runs them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# They need packages of gigabytes and start servers, so `make test` does not even collect them.
collect_ignore_glob = [] if os.environ.get("KARAT_ENGINES") == "1" else ["test_*.py"]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def recall_of(
    karat_command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., float]:
    """Run a retriever in the folder of the examples, over the demo set; no query may fail."""
    import karat

    def call(retriever: str, *options: str) -> float:
        monkeypatch.chdir(EXAMPLES / "engines")
        log, gold = tmp_path / "run.jsonl", "../helpdesk/gold.jsonl"
        code, _, errors = karat_command("run", retriever, "-q", gold, "-o", str(log), "--max-errors", "0", *options)
        assert code == 0, errors
        return float(karat.evaluate(str(log), gold, ["recall@10"]).means["recall@10"])

    return call
