"""Commands without the packages of their extras: each says which extra brings it, before it does anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "helpdesk"
GOLD, CORPUS, RUN = (str(DEMO / name) for name in ("gold.jsonl", "corpus.jsonl", "bm25.jsonl"))
SEARCHED = ("-q", GOLD, "--corpus", CORPUS)
# What the extras bring, by the names that are imported.
PACKAGES = [
    *("bm25s", "Stemmer", "wordllama", "safetensors", "tokenizers", "rapidfuzz", "httpx2", "psycopg", "starlette"),
    *("uvicorn", "pyspark", "pyarrow", "pandas", "deltalake", "sentence_transformers", "zstandard", "mcp"),
    *("compression", "compression.zstd"),
]
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({packages!r}))  # None: cannot be imported
from karat.cli.main import main
main()
"""


def karat(folder: Path, *arguments: str, store: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"} | ({} if store is None else {"KARAT_STORE": store})
    command = [sys.executable, "-c", WITHOUT.format(packages=PACKAGES), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    (tmp_path / "run.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd....")
    entry = {"query_id": "q1", "query": "refund?", "chunk_id": "a", "text": "Refunds take a week.", "systems": ["x"]}
    (tmp_path / "pool.jsonl").write_text(json.dumps(entry) + "\n")
    for name in ("gold.jsonl", "bm25.jsonl"):
        (tmp_path / name).write_text("".join((DEMO / name).read_text().splitlines(keepends=True)[::8]))
    return tmp_path


SERVER = "http://127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "bm25", *SEARCHED), "baselines"),
        (("run", "dense", *SEARCHED), "dense"),
        (("run", "dense(model=some/model)", *SEARCHED), "models"),
        (("run", f"dense(model=m, url={SERVER})", *SEARCHED), "http"),
        (("run", "rerank(random, static)", *SEARCHED), "dense"),
        (("run", f"rerank(random, {SERVER})", *SEARCHED), "http"),
        (("run", SERVER, "-q", GOLD), "http"),
        (("run", f"elasticsearch:{SERVER}", "-q", GOLD), "http"),
        (("run", f"opensearch:{SERVER}", "-q", GOLD), "http"),
        (("run", f"qdrant:{SERVER}", "-q", GOLD), "http"),
        (("stress", RUN, "-g", GOLD, "--corpus", CORPUS, "--reranker", "static"), "dense"),
        (("synthesize", CORPUS, "-n", "5", "--model", "m", "--base-url", SERVER), "llm"),
        (("labels", "judge", "pool.jsonl", "--model", "m", "--base-url", SERVER, "-o", "judge.jsonl"), "llm"),
        (("serve",), "web"),
        (("mcp",), "mcp"),
        (("send", "wandb", "result.json"), "wandb"),
        (("eval", RUN, "-g", GOLD, "--engine", "spark"), "spark"),
        (("eval", "delta", "-g", GOLD), "delta"),
        (("eval", "run.jsonl.zst", "-g", GOLD), "zstd"),
    ],
)
def test_the_extra_is_named_and_nothing_was_done(folder: Path, arguments: tuple[str, ...], extra: str) -> None:
    before = sorted(folder.rglob("*"))
    done = karat(folder, *arguments)
    assert done.returncode == 2
    assert f"pip install 'karat[{extra}]'" in done.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("arguments", [("history", "list"), ("eval", RUN, "-g", GOLD, "--save")])
def test_a_history_in_postgres(folder: Path, arguments: tuple[str, ...]) -> None:
    done = karat(folder, *arguments, store="postgresql://127.0.0.1:1/x")
    assert done.returncode == 2
    assert "pip install 'karat[postgres]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        (("baseline", *SEARCHED), {"baselines", "dense"}),
        (("eval", RUN, "-g", GOLD, "--corpus", CORPUS), {"baselines"}),
        (("eval", "triage", RUN, "-g", GOLD, "--corpus", CORPUS), {"baselines"}),
    ],
)
def test_what_goes_on_without_says_what_it_left_out(folder: Path, arguments: tuple[str, ...], extras: set[str]) -> None:
    done = karat(folder, *arguments)
    assert done.returncode == 0, done.stderr
    assert {extra for extra in ("baselines", "dense") if f"karat[{extra}]" in done.stdout + done.stderr} == extras


def test_what_the_page_calls_the_core_starts_without_any_extra(folder: Path) -> None:
    table = (ROOT / "docs" / "install.md").read_text().partition("| to use | install |")[2]
    (row,) = [line for line in table.splitlines() if line.endswith("| `pip install .` |")]
    core = [name.strip("` ") for name in row.split("|")[1].split(",")]
    assert "eval" in core
    few, gold = "bm25.jsonl", "gold.jsonl"
    runs = {
        "eval": (few, "-g", gold, "-o", "page.html", "-o", "scores.parquet", "-o", "saved.json"),
        "gate": (few, "-g", gold, "--gate", "recall@5 >= 0.1"),
        "compare": (few, few, "-g", gold),
        "eval sweep": (few, "-g", gold),
        "eval power": (few, "-g", gold),
        "eval triage": (few, "-g", gold),
        "eval tune": (few, "-g", gold),
        "gate selftest": (few, "-g", gold, "--gate", "recall@5 >= 0.1"),
        "labels pool": (few, "-g", gold, "-o", "pooled.jsonl"),
        "labels merge": ("human.csv", "-g", gold, "-o", "gold_v2.jsonl"),
        "history": ("list",),
        "send": ("mlflow:http://127.0.0.1:9", "saved.json", "--dry-run"),
        "check": (few, gold),
        "init": (),
    }
    # These read labels alone, or wait for keys.
    assert set(core) - set(runs) == {"labels label", "labels agree", "labels calibrate", "labels clicks"}
    first = json.loads((folder / gold).read_text().splitlines()[0])
    (folder / "human.csv").write_text(f"query_id,chunk_id,grade\n{first['query_id']},another#p1,1\n")
    for name in core:
        done = karat(folder, *name.split(), *runs.get(name, ("--help",)), store=str(folder / "history"))
        assert "karat[" not in done.stderr, (name, done.stderr)
        assert done.returncode == 0 or name == "history", (name, done.stderr)
