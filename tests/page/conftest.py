"""Real pages, made as the command line makes them, for tests with and without a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = "examples/helpdesk"
BM25, RERANK, GOLD = f"{DEMO}/bm25.jsonl", f"{DEMO}/bm25_rerank.jsonl", f"{DEMO}/gold.jsonl"
GATES = ["--gate", "recall@5 >= 0.3", "--gate", "recall@5 drop <= 0.02"]

# What data may hold and a page must survive.
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "</style><img src=x onerror='window.hacked = 1'>",
    "</title></head><body onload='window.hacked = 1'>",
    "]]><svg onload='window.hacked = 1'>--><!--",
    '" onmouseover="window.hacked = 1" x="',
    "' autofocus onfocus='window.hacked = 1",
    "{{ 7 * 7 }} {% include 'style.css' %} &amp; &#x3c;b&#x3e;",
    "\u202eright to left\u202c \u2066and back",
    "control \x01\x08\x1b[31m\x7f\x85 \ufffe\ufdd0 and \u2028 lines",
    "w" * 100_000,
    "`<b>code</b>` javascript:alert(1) https://example.com/x.png",
]


class Pages:
    """Pages by name, each made once."""

    hostile = HOSTILE

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Path:
        file = self.folder / f"{name}.html"
        if not file.exists():
            done = self.run(*getattr(self, f"_{name}")(), "-o", str(file))
            assert done.returncode < 2, done.stderr
            assert f"wrote {file}" in done.stderr
        return file

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "karat.cli.main", *arguments]
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)

    def _report(self) -> list[str]:
        return ["eval", RERANK, "--gold", GOLD, "--corpus", f"{DEMO}/corpus.jsonl"]

    def _diff(self) -> list[str]:
        return ["compare", BM25, RERANK, "--gold", GOLD]

    def _verdict(self) -> list[str]:
        return ["gate", RERANK, "--gold", GOLD, "--baseline", BM25, "--criteria", f"{DEMO}/ship-criteria.yaml"]

    def _both(self) -> list[str]:
        both = self.folder / "both.jsonl"
        both.write_text((ROOT / BM25).read_text() + (ROOT / RERANK).read_text())
        return ["eval", str(both), "--gold", GOLD]

    def _sweep(self) -> list[str]:
        return ["sweep", RERANK, "--gold", GOLD, "--hits", "raw", "--segment", "language"]

    def _selftest(self) -> list[str]:
        return ["selftest", RERANK, "--gold", GOLD, "--rounds", "20", *GATES]

    def _saved(self) -> list[str]:
        """From saved results, which keep no hits."""
        files = [str(self.folder / name) for name in ("before.json", "after.json")]
        for run, file in zip((BM25, RERANK), files, strict=True):
            assert self.run("eval", run, "--gold", GOLD, "-o", file).returncode == 0
        return ["gate", files[1], "--baseline", files[0], *GATES]

    def _hostile(self) -> list[str]:
        """Every text of run and gold set is hostile; two systems, so that their names stand in the page as well."""
        gold, run = self.folder / "gold.jsonl", self.folder / "run.jsonl"
        with gold.open("w") as golds, run.open("w") as runs:
            for i, text in enumerate(HOSTILE):
                query, item = f"{i} {text}", f"{text}#p1"
                tags = {text[:60]: text, "odd": str(i % 2)}
                golds.write(
                    json.dumps({"query_id": query, "query": text, "gold": [item, "never"], "tags": tags}) + "\n"
                )
                for system in HOSTILE[:2]:
                    facts = {"index_version": text[:200], "chunker": {"algo": text[:200]}}
                    hits = ["other#p2", item] if i % 2 else [item]
                    runs.write(json.dumps({"query_id": query, "system": system, "topk": hits, **facts}) + "\n")
        return ["eval", str(run), "--gold", str(gold), "--segment", "odd"]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))
