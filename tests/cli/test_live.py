"""`karat compare --live`: two engines asked side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]
ENGINES = """
from pathlib import Path

def _search(name, query):
    with open("asked.txt", "a") as log:
        log.write(f"{name} {query}\\n")

def first(query):
    _search("first", query)
    return [("a", 2.0), ("b", 1.0)]

def second(query):
    _search("second", query)
    if query == "query 2" and not Path("mended").exists():
        raise RuntimeError("out of order")
    return [("b", 2.0), ("a", 1.0)]
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    Path("two_engines.py").write_text(ENGINES)
    Path("old.yaml").write_text("retriever: two_engines:first")
    Path("new.yaml").write_text("retriever: two_engines:second")
    gold = [{"query_id": f"q{i}", "query": f"query {i}", "gold": ["a"]} for i in range(4)]
    Path("gold.jsonl").write_text("\n".join(map(json.dumps, gold)))
    bare = [{"query_id": entry["query_id"], "query": entry["query"]} for entry in gold]
    Path("bare.jsonl").write_text("\n".join(map(json.dumps, bare)))
    yield
    sys.modules.pop("two_engines", None)


LIVE = ("compare", "--live", "old.yaml", "new.yaml", "--warm-up", "0", "--json")


def asked() -> list[str]:
    lines = Path("asked.txt").read_text().splitlines()
    Path("asked.txt").unlink()
    return lines


def lines(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_engines_take_turns_and_are_compared(karat_command: Call) -> None:
    Path("mended").touch()
    code, out, errors = karat_command(*LIVE, "--queries", "gold.jsonl", "-m", "recall@1", "-m", "latency_p50")
    assert code == 0, errors
    turns = [("first", "second"), ("second", "first")] * 2
    assert asked() == [f"{name} query {i}" for i, turn in enumerate(turns) for name in turn]
    found = json.loads(out)
    (pair,) = found["pairs"]
    values = {d["metric"]: d["delta"] for d in pair["differences"]}
    assert (values["recall@1"], set(values)) == (-1.0, {"recall@1", "latency_p50"})
    assert not list(Path().glob("*.jsonl.*"))
    assert sorted(path.name for path in Path().glob("*.jsonl")) == ["bare.jsonl", "gold.jsonl"], "nothing is kept"


def test_logs_are_kept_and_failed_queries_asked_again(karat_command: Call, karat_refuses: Callable[..., Any]) -> None:
    kept = (*LIVE, "--gold", "gold.jsonl", "--keep", "logs", "-m", "recall@1")
    assert karat_refuses(*kept).code == "too-many-errors"
    assert len(asked()) == 8
    records = lines("logs/new.jsonl")
    assert [record["query_id"] for record in records if "error" in record] == ["q2"]
    assert records[0]["measured"]["beside"] == ["old"]
    Path("mended").touch()
    code, _, errors = karat_command(*kept, "--retry-failed")
    assert (code, asked()) == (0, ["second query 2"]), errors
    code, _, errors = karat_command("compare", "logs/old.jsonl", "logs/new.jsonl", "--gold", "gold.jsonl", "--json")
    assert code == 0, errors
    karat_command(*kept, "--overwrite")
    assert len(asked()) == 8


def test_without_gold_lists_are_counted(karat_command: Call) -> None:
    code, out, _ = karat_command(*LIVE, "-q", "bare.jsonl", "--max-errors", "0.5", "-o", "live.json", "-o", "live.html")
    found = json.loads(out)
    (pair,) = found["pairs"]
    assert (code, pair["invalid"]) == (2, ["distinct_docs@5"])  # a query failed, so the others say little
    assert (found["schema"], pair["candidate"], pair["queries"]) == ("karat/comparison/1", "new", 4)
    assert (pair["overlap"]["one_empty"], pair["overlap"]["same"]) == (1, 0)
    assert [one["metric"] for one in pair["differences"] if one["candidate"]] == ["latency_p50", "latency_p90"]
    assert json.loads(Path("live.json").read_text()) == found


def test_an_engine_may_be_compared_with_itself(karat_command: Call) -> None:
    same = ("compare", "--live", "old.yaml", "old.yaml", "--warm-up", "0", "--keep", "logs", "--json")
    code, out, _ = karat_command(*same, "-q", "bare.jsonl", "--workers", "2")
    assert code == 0
    found = json.loads(out)
    assert (found["baseline"], found["pairs"][0]["candidate"]) == ("old", "old #2")
    assert found["pairs"][0]["overlap"]["same"] == 4
    assert sorted(path.name for path in Path("logs").iterdir()) == ["old.jsonl", "old_2.jsonl"]


def test_names_in_karat_yaml_need_trust_in_ci(
    karat_command: Call, karat_refuses: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mended").touch()
    Path("karat.yaml").write_text("retrievers: {mine: 'two_engines:first', theirs: 'two_engines:second'}")
    named = ("compare", "--live", "mine", "theirs", "-q", "bare.jsonl", "--json")
    monkeypatch.setenv("CI", "true")
    assert karat_refuses(*named).code == "untrusted-config"
    assert not Path("asked.txt").exists()
    code, out, _ = karat_command(*named, "--trust-config")
    found = json.loads(out)
    assert (code, found["baseline"], found["pairs"][0]["candidate"]) == (0, "mine", "theirs")
