"""A retriever is asked every query, whatever it does, and can be continued."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.errors import KaratError
from karat.retrievers.words import ANALYZER
from karat.scoring.views import ORIGINAL, View
from karat.systems.run import Finished, run_retriever

GOLD = [
    {"query_id": f"q{i}", "query": f"question {i}", "gold": ["a"], "tags": {"language": "en"}, "as_of": "2025-01-01"}
    for i in range(8)
]
CORPUS = Corpus("test", ["a", "b", "c"], [""] * 3, ["question one", "question two", "other"])


def run(retriever: Any, **options: Any) -> Finished:
    return run_retriever(retriever, GOLD, **{"warm_up": 0, "k": 3, **options})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "answer",
    [
        ["a", "b"],
        ("a", "b"),
        [("a", 2.0), ("b", 1.0)],
        [["a", 2], ["b", 1]],
        [{"chunk_id": "a", "score": 2}, {"id": "b", "score": 1, "other": object()}],
        {"a": 2, "b": 1},
        {"b": 1, "a": 2},
        {"hits": ["a", "b"], "latency_ms": {"embed": 1, "search": 2.5}},
        np.array(["a", "b"]),
        [("a", np.float32(2)), ("b", np.int64(1))],
        iter(["a", "b"]),
    ],
)
def test_hits_in_any_form(answer: Any) -> None:
    done = run_retriever(lambda query: answer, GOLD[:1], warm_up=0)
    (record,) = done.run
    assert [hit["chunk_id"] for hit in record["topk"]] == ["a", "b"]
    assert done.failed == 0
    json.dumps(record)


def test_whole_numbers_are_ids() -> None:
    (record,) = run_retriever(lambda query: [7, (8, 0.5)], GOLD[:1]).run
    assert [hit["chunk_id"] for hit in record["topk"]] == ["7", "8"]


async def slow_search(query: str, k: int) -> list[str]:
    await asyncio.sleep(0.001)
    return ["a", "b", "c", "d"][:k]


class Searcher:
    """As people write them."""

    def retrieve(self, query: str, top_k: int = 10, language: str | None = None, as_of: str = "") -> list[str]:
        return [f"{language}-{as_of}-{n}" for n in range(top_k)]


def test_async_functions_and_classes_are_asked_with_what_they_take() -> None:
    done = run(slow_search, workers=4)
    assert [hit["chunk_id"] for hit in done.run[0]["topk"]] == ["a", "b", "c"]
    found = run(Searcher).run[0]["topk"]
    assert [hit["chunk_id"] for hit in found] == ["en-2025-01-01-0", "en-2025-01-01-1", "en-2025-01-01-2"]
    assert run(Searcher()).run[0]["topk"] == found


def test_a_record_says_what_it_came_from() -> None:
    done = run("bm25", corpus=CORPUS, k=2)
    record = done.run[0]
    assert record["retriever"] == {"name": "bm25", "field": "all", "k1": 1.5, "b": 0.75, "analyzer": ANALYZER}
    assert record["corpus"] == {"name": "test", "size": 3, "hash": CORPUS.hash}
    assert (record["system"], record["k"], record["index_version"]) == ("bm25", 2, CORPUS.hash)
    assert record["latency_ms"]["retrieve"] > 0
    assert record["measured"] == {"workers": 1, "warm_up": 0, "repeat": 1}
    assert karat.evaluate(done.run, GOLD, ["hit@2"]).means["hit@2"] == 1.0


def test_stages_are_logged_and_rerankers_keep_the_list_before() -> None:
    done = run("rerank(bm25, top_n=2)", corpus=CORPUS, k=1)
    record = done.run[0]
    assert set(record["latency_ms"]) == {"retrieve", "rerank"}
    assert (len(record["raw"]), len(record["topk"]), record["k_raw"], record["reranker"]) == (2, 1, 2, "static")
    assert done.notes == [], "what was looked at beyond k is no surplus"
    assert set(run("hybrid", corpus=CORPUS).run[0]["latency_ms"]) == {"embed", "retrieve", "fuse"}
    assert set(run("dense", corpus=CORPUS).run[0]["latency_ms"]) == {"embed", "retrieve"}


def test_warm_up_is_asked_and_not_logged_and_repeats_give_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    passed = [0.0]  # a clock that only searching moves
    monkeypatch.setattr("karat.retrievers.base.time", SimpleNamespace(perf_counter=lambda: passed[0]))

    def search(query: str) -> list[str]:
        asked.append(query)
        passed[0] += 0.5 if len(asked) <= 2 else 0.125
        return ["a"]

    done = run_retriever(search, GOLD, warm_up=2)
    assert len(asked) == 10
    assert {r["latency_ms"]["retrieve"] for r in done.run} == {125.0}, "the slow start is not in the times"
    asked.clear()
    done = run_retriever(search, GOLD[:2], warm_up=0, repeat=5)
    assert len(asked) == 10
    assert {r["latency_ms"]["retrieve"] for r in done.run} == {125.0}, "the median leaves the slow ones out"


def test_answers_that_change_are_told() -> None:
    turns = iter(range(100))
    done = run(lambda query: ["a", "b"][:: 1 if next(turns) % 2 else -1], repeat=2)
    assert any(note.startswith("8 queries ") for note in done.notes)


def test_a_threshold_and_a_rewriter_are_recorded() -> None:
    def search(query: str) -> list[tuple[str, float]]:
        return [(query, 1.0), ("low", 0.2)]

    record = run(search, min_score=0.5, rewrite=str.upper).run[0]
    assert [hit["chunk_id"] for hit in record["topk"]] == ["QUESTION 0"]
    assert record["topk_original"][0]["chunk_id"] == "question 0"
    assert (record["query"], record["rewritten_query"], record["min_score"]) == ("question 0", "QUESTION 0", 0.5)
    assert record["rewriter"] == "builtins:str.upper"
    assert set(record["latency_ms"]) == {"rewrite", "retrieve"}


def test_the_lists_of_a_rewriter_can_be_scored() -> None:
    done = run(lambda query: ["a"] if query.isupper() else ["b"], rewrite=str.upper)
    result = karat.evaluate(done.run, GOLD, ["hit@1"], analyses=True)
    assert result.means["hit@1"] == 1.0
    assert result.measure(["hit@1"], View(lists=ORIGINAL)).means["hit@1"] == 0.0


# Bad retrievers


def fails(query: str) -> list[str]:
    if query.endswith("3"):
        raise RuntimeError("no\nindex")
    return ["a"]


def test_a_query_that_fails_is_recorded_and_counted() -> None:
    done = run(fails)
    assert done.failed == 1
    assert done.run[3]["error"] == "RuntimeError: no index"
    assert done.run[3]["topk"] == []
    assert "latency_ms" not in done.run[3], "how long it took to fail is no time of an answer"
    (note,) = done.notes
    assert note.endswith(f"q3: {done.run[3]['error']}")
    result = karat.evaluate(done.run, GOLD, ["hit@1"])
    assert result.audit["failed_queries"] == 1
    assert result.means["hit@1"] == 7 / 8


def test_leaving_the_program_is_a_failure_of_the_query() -> None:
    assert run(lambda query: exit(3)).failed == 8


@pytest.mark.parametrize("sort", ["function", "coroutine"])
def test_a_query_that_hangs_is_given_up(sort: str) -> None:
    release = threading.Event()

    async def sleeps(query: str) -> list[str]:
        await asyncio.sleep(60 if query.endswith("2") else 0)
        return ["a"]

    def hangs(query: str) -> list[str]:
        if query.endswith("2"):
            release.wait(60)
        return ["a"]

    started = time.monotonic()
    done = run(hangs if sort == "function" else sleeps, timeout=1.5)
    release.set()
    assert time.monotonic() - started < 30
    assert [r["query_id"] for r in done.run if "error" in r] == ["q2"]
    assert "1.5 s" in next(r["error"] for r in done.run if "error" in r)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "a",
        3,
        [None],
        [""],
        [True],
        [{"score": 1.0}],
        [("a", "high")],
        [("a", float("nan"))],
        [("a", float("inf"))],
        [("a", 1, 2)],
        [object()],
        {"hits": None},
        {"hits": ["a"], "latency_ms": "fast"},
        {"hits": ["a"], "route": object()},
        [{"id": "a", "text": object()}],
        ["half \ud800"],
    ],
)
def test_an_answer_of_the_wrong_type_is_an_error_of_its_query(answer: Any) -> None:
    done = run(lambda query: answer)
    assert done.failed == 8
    assert done.run[0]["error"]


def test_nothing_found_too_much_found_twice_found_and_found_elsewhere_are_told() -> None:
    def search(query: str) -> list[str]:
        return {"0": [], "1": ["a", "b", "c", "a"], "2": ["a", "a"], "3": ["zzz"]}.get(query[-1], ["a"])

    done = run_retriever(search, GOLD, corpus=CORPUS, k=3)
    assert [(note[:2], note.rpartition(": ")[2]) for note in done.notes] == [
        ("1 ", "q0"),
        ("1 ", "q1"),
        ("1 ", "q2"),
        ("1 ", "zzz"),
    ]
    assert len(done.run[1]["topk"]) == 3
    assert karat.evaluate(done.run, GOLD, ["hit@1"]).audit["duplicate_hits"] == 1


def test_a_threshold_needs_scores() -> None:
    with refused("no-scores"):
        run(lambda query: ["a"], min_score=0.5)


def test_a_rewriter_that_returns_nothing_fails_the_query() -> None:
    assert run(lambda query: ["a"], rewrite=lambda query: "").failed == 8


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"k": 0}, "bad-setting"),
        ({"workers": 0}, "bad-setting"),
        ({"repeat": 0}, "bad-setting"),
        ({"timeout": 0}, "bad-setting"),
        ({"warm_up": -1}, "bad-setting"),
        ({"corpus": Corpus("nothing", [], [], [])}, "empty-corpus"),
        ({"corpus": Corpus("blank", ["a"], [""], [" "])}, "empty-corpus"),
        ({}, "no-corpus"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], code: str) -> None:
    with refused(code):
        run("bm25", **options)


@pytest.mark.parametrize("name", ["bm25", "bm25:text", "dense", "hybrid", "random", "rerank"])
def test_documents_without_text_disturb_nobody(name: str) -> None:
    corpus = Corpus("test", ["a", "b", "c"], ["", "", ""], ["question one", "", "   "])
    done = run(name, corpus=corpus)
    assert done.failed == 0
    assert name == "random" or [hit["chunk_id"] for hit in done.run[0]["topk"]] == ["a"]


# Files


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    run("bm25", corpus=CORPUS, output=file)
    whole = lines(file)
    content = file.read_bytes()
    third = content.index(b"\n", content.index(b"\n", content.index(b"\n") + 1) + 1) + 1
    file.write_bytes(content[: third + 40])  # killed in the middle of the fourth line
    done = run("bm25", corpus=CORPUS, output=file)
    assert (done.queries, done.asked) == (8, 5)
    again = lines(file)
    assert [r["query_id"] for r in again] == [f"q{i}" for i in range(8)]
    assert [r["topk"] for r in again] == [r["topk"] for r in whole]
    assert again[:3] == whole[:3]
    assert run("bm25", corpus=CORPUS, output=file).asked == 0


def test_a_file_cut_anywhere_can_be_continued(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    run("random", corpus=CORPUS, output=file)
    content = file.read_bytes()
    for size in range(20, len(content), 331):
        file.write_bytes(content[:size])
        run("random", corpus=CORPUS, output=file)
        assert [(r["query_id"], r["topk"]) for r in lines(file)] == [
            (r["query_id"], r["topk"]) for r in map(json.loads, content.splitlines())
        ]


def test_only_the_same_run_is_continued(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    run("bm25", corpus=CORPUS, output=file)
    before = file.read_bytes()
    other = Corpus("test", ["a", "b", "c"], [""] * 3, ["another", "text", "now"])
    for change in ({"k": 2}, {"corpus": other}, {"system": "x"}, {"min_score": 0.5}, {"index_version": "7"}):
        with refused("not-continued", file=file):
            run("bm25", **{"corpus": CORPUS, "output": file, **change})
    changed = [{**GOLD[0], "query": "something else"}, *GOLD[1:]]
    with refused("not-continued", file=file):
        run_retriever("bm25", changed, corpus=CORPUS, output=file, k=3)
    assert file.read_bytes() == before
    assert run("bm25", corpus=CORPUS, output=file, k=2, overwrite=True).asked == 8
    assert {len(r["topk"]) for r in lines(file)} == {2}


@pytest.mark.parametrize("content", ["hello\n", '{"a": 1}\n', "[1]\n", "hello", '{"query_id": "q0", "topk": []}\n'])
def test_another_file_is_never_overwritten(tmp_path: Path, content: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(content)
    with refused("not-continued", file=file):
        run("bm25", corpus=CORPUS, output=file)
    assert file.read_text() == content


def test_a_failed_query_is_asked_again_only_when_wanted(tmp_path: Path) -> None:
    file, broken = tmp_path / "run.jsonl", [True]

    def search(query: str) -> list[str]:
        if broken[0] and query.endswith("3"):
            raise RuntimeError("later")
        return ["a"]

    assert run(search, output=file).failed == 1
    broken[0] = False
    again = run(search, output=file)
    assert again.asked == 0
    assert ["--retry-failed" in note for note in again.notes] == [True]
    done = run(search, output=file, retry_failed=True)
    assert (done.asked, done.failed) == (1, 0)
    assert [r["query_id"] for r in lines(file) if "error" not in r] == [f"q{i}" for i in range(8)]


def test_failed_queries_are_asked_again_after_the_code_was_repaired(
    tmp_path: Path, karat_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = Path("repaired_app.py")
    code.write_text('def search(query):\n    if "3" in query: raise ValueError("bug")\n    return ["a"]\n')
    Path("gold.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in GOLD))
    asked = ("run", "repaired_app:search", "-q", "gold.jsonl", "-o", "run.jsonl", "--max-errors", "1")
    assert karat_command(*asked)[0] == 0
    code.write_text('def search(query):\n    return ["b"]\n')
    sys.modules.pop("repaired_app")
    importlib.invalidate_caches()
    status, _, err = karat_command(*asked)
    assert (status, "--retry-failed" in err) == (2, True)
    status, _, err = karat_command(*asked, "--retry-failed")
    assert (status, "note: 7 queries" in err) == (0, True), err
    written = lines(Path("run.jsonl"))
    assert [hit["chunk_id"] for record in written for hit in record["topk"]] == [
        "b" if i == 3 else "a" for i in range(8)
    ]
    assert len({record["retriever"]["code"] for record in written}) == 2  # each line names its version
    status, _, err = karat_command(*asked, "--retry-failed", "--depth", "2")  # only the code may change
    assert status == 2


def test_answers_that_come_in_any_order_are_sorted(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"

    def search(query: str) -> list[str]:
        time.sleep((8 - int(query[-1])) * 0.003)
        return ["a"]

    run(search, output=file, workers=8)
    assert [r["query_id"] for r in lines(file)] == [f"q{i}" for i in range(8)]
    assert [r["query_id"] for r in run(search, workers=8).run] == [f"q{i}" for i in range(8)]


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"

    def search(query: str) -> list[str]:
        with refused("file-in-use", file=file):
            run(search, output=file)
        return ["a"]

    assert run(search, output=file).failed == 0


def test_an_interrupt_while_lines_are_written_doubles_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes when it comes; here right after the lines are in the file."""

    def interrupted(handle: int) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("karat.systems.run_file._EVERY", 0)
    monkeypatch.setattr("karat.files.append_log.os.fsync", interrupted)
    file = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(lambda query: ["a"], output=file)
    queries = [r["query_id"] for r in lines(file)]
    assert queries
    assert len(set(queries)) == len(queries)


def test_a_start_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KaratError):
        run("bm25", corpus=Corpus("nothing", [], [], []), output=tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


# Queries


def test_bare_queries_can_be_asked(tmp_path: Path) -> None:
    for text in ('{"query_id": "q1", "query": "one"}\n', '{"_id": "q1", "text": "one"}\n'):
        file = tmp_path / "queries.jsonl"
        file.write_text(text)
        (record,) = run_retriever(lambda query: [query], file).run
        assert (record["query_id"], record["topk"][0]["chunk_id"]) == ("q1", "one")


@pytest.mark.parametrize(
    ("text", "code", "line", "field"),
    [
        ('{"query_id": "q1", "gold": ["a"]}\n', "missing-text", None, "query"),
        ('{"query_id": "q1", "query": " "}\n', "missing-text", 1, "query"),
        ('{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}\n', "duplicate-query", 2, None),
    ],
)
def test_queries_that_cannot_be_asked_are_refused(
    tmp_path: Path, text: str, code: str, line: int | None, field: str | None
) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text(text)
    with refused(code, file=file, line=line, field=field, query="q1"):
        run_retriever(lambda query: [], file)


def test_no_retriever_sees_gold() -> None:
    seen: list[dict[str, Any]] = []

    def search(query: str, tags: dict[str, Any]) -> list[str]:
        seen.append(tags)
        return []

    entry = {**GOLD[0], "answer": "secret", "evidence": ["secret"], "answer_span": "secret", "negatives": ["secret"]}
    run_retriever(search, [entry], warm_up=0)
    assert seen == [{"language": "en", "as_of": "2025-01-01"}]


def test_a_retriever_that_never_answers_is_not_asked_ten_thousand_times(tmp_path: Path) -> None:
    many = [{**GOLD[0], "query_id": f"q{i}"} for i in range(60)]
    asked: list[str] = []

    def broken(query: str) -> list[str]:
        asked.append(query)
        time.sleep(0.005)
        raise ConnectionError("nobody there")

    file = tmp_path / "run.jsonl"
    with refused("every-query-failed") as caught:
        run_retriever(broken, many, warm_up=0, output=file)
    assert "q0: ConnectionError: nobody there" in caught.value.what
    assert len(asked) < 60
    assert len(lines(file)) == 25
    answers = iter([["a"], *[None] * 59])
    done = run_retriever(lambda query: next(answers), many, warm_up=0)
    assert done.failed == 59, "one answer, and it goes on"


def test_a_server_that_is_down_is_given_up_soon_and_the_address_may_be_corrected(
    tmp_path: Path, karat_command: Any, monkeypatch: pytest.MonkeyPatch, karat_refuses: Any
) -> None:
    """What a wrong port in a YAML file leads to: few attempts, the reason, and a command that works later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("karat.systems.run._LONG", 0.0)
    Path("gold.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in GOLD))
    Path("search.yaml").write_text("retriever: http\nurl: http://127.0.0.1:9/find\nretries: 0\n")
    asked = ("run", "search.yaml", "-q", "gold.jsonl", "-o", "run.jsonl", "--warm-up", "0")
    error = karat_refuses(*asked)
    assert error.code == "every-query-failed"
    assert "Errno" in error.what  # why the connection failed
    assert len(lines(Path("run.jsonl"))) == 5
    Path("corrected_app.py").write_text('def search(query):\n    return ["a"]\n')
    Path("search.yaml").write_text("retriever: corrected_app:search\n")
    assert karat_refuses(*asked).code == "not-continued"
    status, _, err = karat_command(*asked, "--retry-failed")
    assert status == 0, err
    assert [hit["chunk_id"] for record in lines(Path("run.jsonl")) for hit in record["topk"]] == ["a"] * len(GOLD)
