"""`karat run` end to end: a real process, its files, its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import run_here

from karat.errors import KaratError

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
CODE = """
import time

def search(query, k):
    return [f"{query}-{n}" for n in range(k)]

def slow(query):
    time.sleep(0.05)
    return ["a"]

def broken(query):
    raise RuntimeError("no index")

def flaky(query):
    if int(query.split()[1]) % 5 == 4:
        raise TimeoutError("too slow")
    return ["a"]

def same(query):
    return query

def scored(query):
    return [("b", 0.9), ("a", 0.4), ("c", 0.1)]

def shorter(query):
    return query.split()[0]

def scores(query, texts):
    return [len(text) for text in texts]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_app.py").write_text(CODE)
    lines = [json.dumps({"query_id": f"q{i}", "query": f"question {i}", "gold": ["a"]}) for i in range(100)]
    (tmp_path / "gold.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "karat.cli.main", *arguments]


def karat(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, cwd=folder, COLUMNS="100")


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def await_first_line(process: subprocess.Popen[str], file: Path) -> None:
    while not (file.exists() and file.stat().st_size) and process.poll() is None:
        time.sleep(0.02)


def test_a_function_in_the_working_directory(folder: Path) -> None:
    done = karat(folder, "run", "my_app:search", "-q", "gold.jsonl", "--depth", "2", "--rewrite", "my_app:shorter")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.search(r"\brun\.jsonl\b.*\b100\b", done.stderr)
    first = records(folder / "run.jsonl")[0]
    assert [hit["chunk_id"] for hit in first["topk"]] == ["question-0", "question-1"]
    assert [hit["chunk_id"] for hit in first["topk_original"]] == ["question 0-0", "question 0-1"]
    assert first["retriever"]["code"].startswith("sha256:")
    done = karat(folder, "run", "my_app:search", "-q", "gold.jsonl", "--depth", "2", "--rewrite", "my_app:shorter")
    assert re.search(r"\brun\.jsonl\b.*\b0\b.*\b100\b", done.stderr)  # asked, and there already


def test_changed_code_is_another_retriever(folder: Path) -> None:
    assert karat(folder, "run", "my_app:search", "-q", "gold.jsonl").returncode == 0
    (folder / "my_app.py").write_text(CODE + "\n# changed\n")
    done = karat(folder, "run", "my_app:search", "-q", "gold.jsonl")
    assert done.returncode == 2
    assert done.stderr.startswith("error: run.jsonl: ")
    assert "`retriever`" in done.stderr
    assert "--overwrite" in done.stderr.partition("hint: ")[2]
    assert karat(folder, "run", "my_app:search", "-q", "gold.jsonl", "--overwrite").returncode == 0


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_run_that_is_stopped_leaves_whole_lines_and_goes_on(folder: Path, sent: int, code: int) -> None:
    line = command("run", "my_app:slow", "-q", "gold.jsonl", "--warm-up", "0")
    process = subprocess.Popen(line, cwd=folder, stderr=subprocess.PIPE, text=True)
    file = folder / "run.jsonl"
    await_first_line(process, file)
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    there = len(records(file))
    assert 0 < there < 100
    if sent == signal.SIGINT:
        assert "run.jsonl" in said
        assert "Traceback" not in said
    done = karat(folder, "run", "my_app:slow", "-q", "gold.jsonl", "--warm-up", "0", "--workers", "8")
    assert re.search(rf"\brun\.jsonl\b.*\b{100 - there}\b", done.stderr)
    assert [r["query_id"] for r in records(file)] == [f"q{i}" for i in range(100)]


def test_what_came_of_a_run_as_json(folder: Path) -> None:
    done = karat(folder, "run", "my_app:search", "-q", "gold.jsonl", "--json")
    said = json.loads(done.stdout)
    assert (said["run"], said["queries"], said["asked"], said["failed"]) == ("run.jsonl", 100, 100, 0)


def test_who_starts_anew_is_told_to_go_on_without(folder: Path) -> None:
    line = command("run", "my_app:slow", "-q", "gold.jsonl", "--warm-up", "0", "--overwrite")
    process = subprocess.Popen(line, cwd=folder, stderr=subprocess.PIPE, text=True)
    await_first_line(process, folder / "run.jsonl")
    process.send_signal(signal.SIGINT)
    assert "--overwrite" in process.communicate(timeout=60)[1]


def test_every_query_failed(folder: Path) -> None:
    done = karat(folder, "run", "my_app:broken", "-q", "gold.jsonl")
    assert done.returncode == 2
    assert re.match(r"error: .*\b25\b.*\bq0\b.*RuntimeError: no index", done.stderr)
    logged = records(folder / "run.jsonl")
    assert 25 <= len(logged) < 100
    assert all("no index" in record["error"] for record in logged)


def test_an_outage_ends_with_code_2_and_is_not_judged(folder: Path) -> None:
    """20 of 100 queries fail. So it is when the log is resumed, until they are asked again or accepted."""
    asked = ("run", "my_app:flaky", "-q", "gold.jsonl")
    for _ in range(2):
        done = karat(folder, *asked)
        assert done.returncode == 2
        assert re.search(r"^error: run\.jsonl: 20 of 100 .*q4: TimeoutError: too slow", done.stderr, re.M)
    assert karat(folder, *asked, "--max-errors", "0.2").returncode == 0
    assert len(records(folder / "run.jsonl")) == 100
    judged = karat(folder, "gate", "run.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.1", "--json")
    assert judged.returncode == 2
    [verdict] = json.loads(judged.stdout)["verdicts"]
    assert verdict["outcome"] == "invalid"
    assert re.search(r"20 of 100 .*TimeoutError: too slow", verdict["reason"])


def test_settings_of_the_command_line_reach_the_retriever(folder: Path) -> None:
    files = ("-q", str(DEMO / "gold.jsonl"), "--corpus", str(DEMO / "corpus.jsonl"))
    done = karat(
        folder, "run", "rerank(bm25, my_app:scores)", *files, "--depth", "5", "--rerank-top-n", "20", "-o", "r.jsonl"
    )
    assert done.returncode == 0, done.stderr
    first = records(folder / "r.jsonl")[0]
    assert (first["retriever"]["top_n"], len(first["raw"]), len(first["topk"])) == (20, 20, 5)
    done = karat(
        folder, "run", "hybrid(bm25, random)", *files, "--prefetch-limit", "7", "--depth", "3", "-o", "h.jsonl"
    )
    assert records(folder / "h.jsonl")[0]["retriever"]["prefetch"] == 7
    done = karat(folder, "run", "bm25", *files, "--prefetch-limit", "7", "-o", "b.jsonl")
    assert done.returncode == 2
    assert "'bm25'" in done.stderr
    assert "'prefetch'" in done.stderr
    (folder / "bm25.yaml").write_text("k1: 0.9\nb: 0.4\n")
    done = karat(folder, "run", "bm25", *files, "--config", "bm25.yaml", "-o", "b.jsonl", "--system", "tuned")
    assert done.returncode == 0, done.stderr
    found = records(folder / "b.jsonl")[0]
    assert (found["retriever"]["k1"], found["system"], found["index_version"][:7]) == (0.9, "tuned", "sha256:")


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.95])
def test_a_rewriter_that_changes_nothing_harms_nothing(folder: Path, threshold: float) -> None:
    run = ("run", "my_app:scored", "-q", "gold.jsonl", "--rewrite", "my_app:same", "--min-score", str(threshold))
    assert karat(folder, *run).returncode == 0
    for record in records(folder / "run.jsonl"):
        assert record["topk"] == record["topk_original"]
        assert all(hit["score"] >= threshold for hit in record["topk_original"])
    done = karat(folder, "eval", "run.jsonl", "--gold", "gold.jsonl", "--json")
    seen = json.loads(done.stdout)["analyses"]["rewriter"]
    assert (seen["harmed"]["mean"], seen["helped"]["mean"]) == (0.0, 0.0)


def test_documents_of_a_folder_are_cut_and_searched(folder: Path) -> None:
    texts = folder / "texts" / "deep"
    texts.mkdir(parents=True)
    (texts / "refunds.md").write_text("# Refunds\n\n" + "You can refund a card for ninety days. " * 20)
    (folder / "texts" / "hours.txt").write_text("We open at nine.")
    (folder / "gold.jsonl").write_text('{"query_id": "q", "query": "refund a card", "gold": ["deep/refunds.md"]}\n')
    run = ("run", "bm25", "-q", "gold.jsonl", "--corpus", "texts", "--chunk-words", "50", "--chunk-overlap", "10")
    done = karat(folder, *run)
    assert done.returncode == 0, done.stderr
    (record,) = records(folder / "run.jsonl")
    assert record["chunker"] == {"algo": "words", "tokens": 50, "overlap": 10}
    assert all(hit["chunk_id"].startswith("deep/refunds.md#") for hit in record["topk"])
    done = karat(folder, "eval", "run.jsonl", "--gold", "gold.jsonl", "-m", "recall@5", "--json")
    assert json.loads(done.stdout)["summary"][0]["mean"] == 1.0, "the gold names the document"
    (folder / "wanted.jsonl").write_text('{"query_id": "q", "query": "refund a card", "gold": ["hours.txt"]}\n')
    done = karat(folder, "eval", "triage", "run.jsonl", "--gold", "wanted.jsonl", "--corpus", "texts", "--json")
    (case,) = json.loads(done.stdout)["cases"]
    assert all("refund a card" in hit["passage"]["text"] for hit in case["hits"]), "cut as the log says, not as usual"
    assert [hit["id"] for hit in case["bm25"]] == [hit["chunk_id"] for hit in record["topk"]]
    karat(folder, "labels", "pool", "run.jsonl", "--gold", "wanted.jsonl", "--corpus", "texts", "-o", "pool.jsonl")
    pooled = records(folder / "pool.jsonl")
    assert len(pooled) == len(record["topk"])
    assert all("refund a card" in pair["text"] for pair in pooled), "a pool is cut as the log says, too"


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("bm25",), "no-corpus", "--corpus"),
        (("bm52",), "unknown-retriever", "'bm52'"),
        (("my_app:serch",), "unknown-callable", "search"),
        (("my_app:search", "-o", "gold.jsonl"), "would-overwrite", "gold.jsonl"),
        (("my_app:search", "-o", "no/such/run.jsonl"), "not-writable", "no/such"),
        (("my_app:search", "--config", "none.yaml"), "unreadable", "none.yaml"),
        (("my_app:search", "--rewrite", "my_app:nothing"), "unknown-callable", "'nothing'"),
        (("bm25", "--corpus", "empty"), "no-corpus", "empty"),
        (("bm25", "--corpus", "gold.jsonl", "--chunk-words", "9"), "chunked-already", "gold.jsonl"),
        (("bm25", "--corpus", "texts", "--chunk-words", "5", "--chunk-overlap", "5"), "bad-value", "5"),
        (("bm25", "--corpus", "nowhere"), "no-such-file", "nowhere"),
    ],
)
def test_what_cannot_run_is_one_error(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    karat_refuses: Callable[..., KaratError],
    arguments: tuple[str, ...],
    code: str,
    named: str,
) -> None:
    (folder / "empty").mkdir()
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("a b c")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_app", raising=False)
    error = karat_refuses("run", arguments[0], "-q", "gold.jsonl", *arguments[1:])
    assert error.code == code
    assert named in str(error)


LISTED = """
retrievers:
  first: my_app:search
  scored: {retriever: my_app:scored}
  chance: random(seed=7)
"""


@pytest.fixture
def listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three retrievers in karat.yaml, and a corpus for one of them."""
    monkeypatch.delenv("CI", raising=False)
    (folder / "karat.yaml").write_text(LISTED)
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"chunk_id": c, "text": c}) + "\n" for c in "abcdef"))
    return folder


ALL = ("run", "-q", "gold.jsonl", "--corpus", "corpus.jsonl")


def test_all_retrievers_of_a_project_in_one_command_and_one_table(listed: Path) -> None:
    done = karat(listed, *ALL)
    assert done.returncode == 0, done.stderr
    runs = sorted((listed / "runs").iterdir())
    assert [run.name for run in runs] == ["chance.jsonl", "first.jsonl", "scored.jsonl"]
    assert {records(run)[0]["system"] for run in runs} == {"first", "scored", "chance"}
    assert records(runs[0])[0]["retriever"]["seed"] == 7
    shown = karat(
        listed, "eval", *(f"runs/{run.name}" for run in runs), "--gold", "gold.jsonl", "-m", "recall@2", "--json"
    )
    assert shown.returncode == 0, shown.stderr
    again = karat(listed, *ALL, "--json")
    assert [run["asked"] for run in json.loads(again.stdout)] == [0, 0, 0]


def test_one_of_them_by_its_name(listed: Path) -> None:
    assert karat(listed, "run", "scored", "-q", "gold.jsonl").returncode == 0
    assert records(listed / "run.jsonl")[0]["system"] == "scored"


def test_one_that_fails_does_not_stop_the_others(listed: Path) -> None:
    (listed / "karat.yaml").write_text(LISTED.replace("first: my_app:search", "down: my_app:broken"))
    done = karat(listed, *ALL, "-o", "logs")
    assert done.returncode == 2
    assert "RuntimeError" in done.stderr
    assert "down" in done.stderr
    assert len(records(listed / "logs" / "scored.jsonl")) == len(records(listed / "logs" / "chance.jsonl")) == 100


@pytest.mark.parametrize(
    ("config", "arguments", "said"),
    [
        ("save: false\n", (), "karat.yaml"),
        (LISTED, ("-o", "all.jsonl"), "all.jsonl"),
        (LISTED, ("--system", "x"), "--system"),
        (LISTED, ("--prefetch-limit", "5"), "karat.yaml"),
        ("retrievers: {../up: bm25}\n", (), "../up"),
        ("retrievers: {a: {k1: 2}}\n", (), "retriever"),
        ("retrievers: [bm25]\n", (), "retrievers"),
    ],
)
def test_what_cannot_be_run_at_once(listed: Path, config: str, arguments: tuple[str, ...], said: str) -> None:
    (listed / "karat.yaml").write_text(config)
    done = karat(listed, *ALL, *arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert said in done.stderr
    assert not (listed / "runs").exists()


def test_retrievers_of_another_users_file_are_not_run(listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may stand in a folder above that anybody can write to."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    monkeypatch.delenv("CI", raising=False)
    os.chown(listed / "karat.yaml", 12345, -1)
    refused = karat(listed, *ALL)
    assert (refused.returncode, "karat.yaml" in refused.stderr) == (2, True)
    assert not (listed / "runs").exists()
    assert karat(listed, "--trust-config", *ALL).returncode == 0
