"""Real pages, made as the command line makes them, for tests with and without a browser."""

from __future__ import annotations

import gc
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from karat.cli.main import main

ROOT = Path(__file__).parents[3]
EVERY = 4  # of the demo set's queries one of so many: pages of a quarter of them show all that a page can show
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
    """Pages by name, each made once, of a part of the demo set."""

    hostile = HOSTILE

    def __init__(self, folder: Path, *, whole: bool = False) -> None:
        self.folder = folder
        demo = folder / DEMO
        shutil.copytree(ROOT / DEMO, demo)
        for file in () if whole else (folder / name for name in (BM25, RERANK, GOLD)):
            file.write_text("".join(file.read_text().splitlines(keepends=True)[2::EVERY]))

    def __getitem__(self, name: str) -> Path:
        file = self.folder / f"{name}.html"
        if not file.exists():
            code, said = self.run(*getattr(self, f"_{name}")(), "-o", str(file))
            assert code < 2, said
            assert f"wrote {file}" in said
        return file

    def run(self, *arguments: str) -> tuple[int, str]:
        """The program, without the second that a new process needs: exit code, errors."""
        with as_program(self.folder, arguments), redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
            with pytest.raises(SystemExit) as ended:
                main()
            gc.unfreeze()
            return int(ended.value.code or 0), said.getvalue()

    def _report(self) -> list[str]:
        return ["eval", RERANK, "--gold", GOLD, "--corpus", f"{DEMO}/corpus.jsonl"]

    def _diff(self) -> list[str]:
        return ["compare", BM25, RERANK, "--gold", GOLD]

    def _verdict(self) -> list[str]:
        return ["gate", RERANK, "--gold", GOLD, "--baseline", BM25, "--criteria", f"{DEMO}/ship-criteria.yaml"]

    def _few(self) -> list[str]:
        """A small page with every section and all that a query can show."""
        return ["eval", RERANK, "--gold", self._first_lines(GOLD, 4), "--corpus", f"{DEMO}/corpus.jsonl"]

    def _few_judged(self) -> list[str]:
        return ["gate", RERANK, "--gold", self._first_lines(GOLD, 4), "--baseline", BM25, *GATES]

    def _first_lines(self, name: str, lines: int) -> str:
        file = self.folder / "few.jsonl"
        file.write_text("".join((self.folder / name).read_text().splitlines(keepends=True)[:lines]))
        return str(file)

    def _both(self) -> list[str]:
        both = self.folder / "both.jsonl"
        both.write_text((self.folder / BM25).read_text() + (self.folder / RERANK).read_text())
        return ["eval", str(both), "--gold", GOLD]

    def _sweep(self) -> list[str]:
        return ["eval", "sweep", RERANK, "--gold", GOLD, "--hits", "raw", "--segment", "language"]

    def _selftest(self) -> list[str]:
        return ["gate", "selftest", RERANK, "--gold", GOLD, "--rounds", "20", *GATES]

    def _saved(self) -> list[str]:
        """From saved results, which keep no hits."""
        files = [str(self.folder / name) for name in ("before.json", "after.json")]
        for run, file in zip((BM25, RERANK), files, strict=True):
            assert self.run("eval", run, "--gold", GOLD, "-o", file)[0] == 0
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


@contextmanager
def as_program(folder: Path, arguments: tuple[str, ...]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("NO_COLOR", "1")
        patch.setattr(sys, "argv", ["karat", *arguments])
        yield


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))
