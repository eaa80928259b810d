"""What the commands print: one session each."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from golden import check
from wording import Transcript, file

RUN, RERANKED, GOLD = (f"helpdesk/{name}.jsonl" for name in ("bm25", "bm25_rerank", "gold"))
QUICK = ("--resamples", "200")


def lines(name: str, *records: Any) -> None:
    file(name, "".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def small(terminal: Transcript) -> None:
    """A few queries, as in most tests of commands."""
    lines("gold.jsonl", *({"query_id": f"q{i}", "query": "what?", "gold": ["a", "b"]} for i in range(6)))
    lines("old.jsonl", *({"query_id": f"q{i}", "system": "old", "topk": ["a", "x"]} for i in range(6)))
    lines("new.jsonl", *({"query_id": f"q{i}", "system": "new", "topk": ["a", "b"]} for i in range(6)))


def test_eval(terminal: Transcript) -> None:
    terminal("eval", RUN, "--gold", GOLD, "--corpus", "helpdesk/corpus.jsonl", *QUICK)
    segments = ("--segment", "language", "--explain")
    terminal("eval", RUN, "--gold", GOLD, "--corpus", "helpdesk/corpus.jsonl", *segments, *QUICK)
    terminal("eval", RUN, "--gold", GOLD, "--no-future", "-m", "recall@5", "-m", "freshness@5", *QUICK)
    terminal("eval", RERANKED, "--gold", GOLD, "--brief", *QUICK)
    lines("one.jsonl", {"query_id": "q", "topk": ["a"]}, {"query_id": "r", "topk": ["a"]})
    lines("gold.jsonl", {"query_id": "q", "gold": ["a"]}, {"query_id": "r", "no_answer": True})
    terminal("eval", "one.jsonl", "--gold", "gold.jsonl", *QUICK)
    usage = [{"model": "cross", "calls": 2}]
    lines("paid.jsonl", {"query_id": "q", "topk": ["a"], "usage": usage, "RAG_TOP_K": 10})
    file("prices.yaml", "currency: USD\nmodels: {cross: {per_call: 0.25}}\n")
    terminal("eval", "paid.jsonl", "--gold", "gold.jsonl", "--prices", "prices.yaml", "--missing", "skip", *QUICK)
    check("wording/eval.txt", terminal.text)


def test_doubts(terminal: Transcript) -> None:
    """What is said before any number: ids that do not match, or nearly do, and distances."""
    queries = [f"q{n}" for n in range(25)]

    def run(name: str, hits: Any) -> None:
        lines(name, *({"query_id": q, "topk": hits(n), "latency_ms": {"all": 4}} for n, q in enumerate(queries)))

    lines("gold.jsonl", *({"query_id": q, "gold": [f"Guide-{n}.md#p2"]} for n, q in enumerate(queries)))
    run("named.jsonl", lambda n: [f"Guide-{n}.md#p2", "x#p1"])
    run("other.jsonl", lambda n: [f"{n}f-{n + j}" for j in range(3)])
    run("chunks.jsonl", lambda n: [f"Guide-{n}.md#c{n + j}" for j in range(3)])
    run("written.jsonl", lambda n: [f"guide-{n}#P2", "x#p1"])
    run("some.jsonl", lambda n: [f"{'G' if n % 2 else 'g'}uide-{n}.md#p2", "x#p1"])
    run("prefix.jsonl", lambda n: [f"kb/Guide-{n}.md#p2", "x#p1"])
    run("bad.jsonl", lambda n: ["x#p1", "y#p1"])
    run("far.jsonl", lambda n: [{"chunk_id": f"Guide-{n}.md#p{j}", "score": j / 10} for j in (2, 3, 4)])
    gold = ("--gold", "gold.jsonl")
    for name in ("other", "chunks", "written", "prefix", "some", "bad", "far"):
        terminal("eval", f"{name}.jsonl", *gold, "--brief", "-m", "recall@5", *QUICK)
    for name in ("other", "some", "bad", "far"):
        gates = ("--gate", "recall@5 >= 0.9", "--gate", "latency_p50 <= 9")
        terminal("gate", f"{name}.jsonl", *gold, *gates, *QUICK)
    called = [{"query_id": q, "gold": [{"doc_id": f"Guide-{n}.md#p2"}]} for n, q in enumerate(queries)]
    lines("called.jsonl", *called)
    terminal("eval", "named.jsonl", "--gold", "called.jsonl", "--brief", "-m", "recall@5", *QUICK)
    terminal("gate", "named.jsonl", "--gold", "called.jsonl", "--gate", "recall@5 >= 0.9", *QUICK)
    terminal("compare", "named.jsonl", "chunks.jsonl", *gold, "-m", "recall@5", *QUICK)
    terminal("eval", "named.jsonl", "other.jsonl", *gold, "-m", "recall@5", *QUICK)
    terminal("eval", "written.jsonl", *gold, "-m", "recall@5", "--normalize-ids", *QUICK)
    run("both.jsonl", lambda n: [f"guide-{n}.md#p2", f"Guide-{n - 1}.md#p2", f"guide-{n - 1}.md#p2"])
    terminal("eval", "both.jsonl", *gold, "-m", "recall@5", "--normalize-ids", *QUICK)
    terminal("gate", "both.jsonl", *gold, "--gate", "recall@5 >= 0.9", "--normalize-ids", *QUICK)
    run("joined.jsonl", lambda n: [f"{'G' if n % 2 else 'g'}uide-{m}.md#p2" for m in (n, n + 1)])
    terminal("eval", "joined.jsonl", *gold, "-m", "recall@5", "--normalize-ids", *QUICK)
    many = [f"q{n}" for n in range(900)]
    lines("many.jsonl", *({"query_id": q, "gold": [f"Guide-{n}"]} for n, q in enumerate(many)))
    lines("mixed.jsonl", *({"query_id": q, "topk": [f"{'G' if n % 4 else 'g'}uide-{n}"]} for n, q in enumerate(many)))
    terminal("eval", "mixed.jsonl", "--gold", "many.jsonl", "-m", "recall@5", *QUICK)
    terminal("eval", "far.jsonl", *gold, "-m", "recall@5", "--scores", "lower-is-better", *QUICK)
    run("near.jsonl", lambda n: [{"chunk_id": f"Guide-{n}.md#p{j}", "score": 9 - j} for j in (2, 3, 4)])
    terminal("eval", "near.jsonl", *gold, "-m", "recall@5", "--scores", "lower-is-better", *QUICK)
    terminal("gate", "near.jsonl", *gold, "--gate", "recall@5 >= 0.9", "--scores", "lower-is-better", *QUICK)
    rows = [(q, f"Guide-{m}.md#p2") for n, q in enumerate(queries) for m in (n + 9, n, n + 3)]
    file("rows.csv", "query_id,chunk_id\n" + "".join(f"{q},{item}\n" for q, item in rows))
    file("sorted.csv", "query_id,chunk_id\n" + "".join(f"{q},{item}\n" for q, item in sorted(rows)))
    file("scattered.csv", "query_id,chunk_id\n" + "".join(f"{q},{item}\n" for q, item in rows[::2] + rows[1::2]))
    file("near.csv", "query_id,chunk_id,distance\n" + "".join(f"{q},{i},{len(i) % 7}\n" for q, i in rows))
    down = [{"query_id": q, "topk": [], "error": "timeout after 30 s"} for q in queries[2:]]
    lines("down.jsonl", *({"query_id": q, "topk": [f"Guide-{n}.md#p2"]} for n, q in enumerate(queries[:2])), *down)
    lines("upper.jsonl", *({"query_id": q.upper() if n > 12 else q, "topk": ["x"]} for n, q in enumerate(queries)))
    for name in ("rows.csv", "sorted.csv", "scattered.csv", "near.csv", "down.jsonl", "upper.jsonl"):
        terminal("eval", name, *gold, "--brief", "-m", "recall@5", *QUICK)
        terminal("gate", name, *gold, "--gate", "recall@5 >= 0.9", *QUICK)
    terminal("eval", "rows.csv", *gold, "-m", "recall@5", "--scores", "lower-is-better", *QUICK)
    terminal("eval", "named.jsonl", "down.jsonl", "sorted.csv", *gold, "-m", "recall@5", *QUICK)
    check("wording/doubts.txt", terminal.text)


def test_context(terminal: Transcript) -> None:
    sized = [
        {"query_id": f"q{n}", "topk": [{"chunk_id": f"d{j}", "tokens": 100 + 37 * ((n + j) % 9)} for j in range(8)]}
        for n in range(30)
    ]
    lines("sized.jsonl", *sized)
    lines("sized-gold.jsonl", *({"query_id": f"q{n}", "gold": [f"d{n % 5}", f"d{n % 7 + 1}"]} for n in range(30)))
    terminal("eval", "sized.jsonl", "--gold", "sized-gold.jsonl", "--explain", *QUICK)
    terminal("eval", RUN, "--gold", GOLD, "--corpus", "helpdesk/corpus.jsonl", "--context", "200tok", *QUICK)
    shown = terminal.text.partition("\nContext\n")[2].partition("\nWhere relevant")[0]
    check("wording/context.txt", shown + "\n" + "\n".join(re.findall(r"^Context   .*(?:\n  .*)*", terminal.text, re.M)))


def test_tune(terminal: Transcript) -> None:
    terminal("eval", "tune", RUN, RERANKED, "--gold", GOLD, *QUICK)
    terminal("eval", "tune", RUN, "--gold", GOLD, "--corpus", "helpdesk/corpus.jsonl", "--budget", "150", *QUICK)
    terminal("eval", "tune", RUN, "--gold", GOLD, "-o", "tuned.txt")
    check("wording/tune.txt", terminal.text)


def test_eval_as_markdown(terminal: Transcript) -> None:
    terminal("eval", RUN, "--gold", GOLD, "--corpus", "helpdesk/corpus.jsonl", "-o", "report.md", *QUICK)
    check("wording/eval.md", Path("report.md").read_text())


def test_compare(terminal: Transcript, small: None) -> None:
    terminal("compare", RUN, RERANKED, "--gold", GOLD, "--segment", "language", *QUICK)
    terminal("compare", "old.jsonl", "new.jsonl", "old.jsonl", "--gold", "gold.jsonl", *QUICK)
    Path("some.jsonl").write_text("".join(Path("new.jsonl").read_text().splitlines(keepends=True)[2:]))
    terminal("compare", "old.jsonl", "some.jsonl", "--gold", "gold.jsonl", "--missing", "skip", *QUICK)
    for version in ("1", "2"):
        file("dataset.yaml", f"version: {version}\n")
        terminal("eval", "old.jsonl", "--gold", "gold.jsonl", "--brief", "-o", f"v{version}.json", *QUICK)
    terminal("compare", "v1.json", "v2.json", *QUICK)
    terminal("compare", "v1.json", "v2.json", "--force", *QUICK)
    check("wording/compare.txt", terminal.text)


def test_sweep_and_power(terminal: Transcript, small: None) -> None:
    terminal("eval", "sweep", RUN, "--gold", GOLD, *QUICK)
    terminal("eval", "sweep", "old.jsonl", "--gold", "gold.jsonl", "--ks", "1,2,7", *QUICK)
    terminal("eval", "power", RUN, "--gold", GOLD, "-m", "recall@5", "--detect", "0.2")
    terminal("eval", "power", RUN, "--gold", GOLD, "-m", "recall@5", "--against", RERANKED)
    terminal("eval", "power", "old.jsonl", "--gold", "gold.jsonl")
    check("wording/sweep_and_power.txt", terminal.text)


def test_check(terminal: Transcript, small: None) -> None:
    terminal("check", RUN, GOLD)
    lines(
        "odd.jsonl",
        {"query_id": "q0", "topk": [{"chunk_id": i, "score": 1} for i in "3993"]},
        {"query_id": "q1", "topk": [{"chunk_id": "7", "rank": 4}]},
        {"query_id": "q2", "topk": []},
    )
    terminal("check", "odd.jsonl", "gold.jsonl")
    terminal("check", file("bad.jsonl", "{"), "missing.jsonl", file("odd.csv", "question,passage\na,b\n"))
    other = '{"id": "q1", "found": [{"doc": "a", "similarity": 0.5}]}\n'
    terminal("check", file("other.jsonl", other), file("pairs.csv", "query_id,doc_id\nq1,a\n"))
    terminal("check", "other.jsonl", "--map", "query_id=id,topk=found,chunk_id=doc,score=similarity")
    check("wording/check.txt", terminal.text)


def test_run(terminal: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    lines("gold.jsonl", *({"query_id": f"q{i}", "query": f"question {i}", "gold": ["a"]} for i in range(30)))
    code = "def search(query):\n    return ['a']\n\ndef broken(query):\n    raise RuntimeError('no index')\n"
    code += "\ndef flaky(query):\n    return ['a'] if '9' not in query else 1 / 0\n"
    file("wording_app.py", code)
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.delitem(sys.modules, "wording_app", raising=False)
    monkeypatch.delenv("CI", raising=False)  # where code that karat.yaml names needs --trust-config
    search = ("run", "wording_app:search", "-q", "gold.jsonl")
    terminal(*search)
    terminal(*search)
    terminal(*search, "--depth", "3")
    terminal("run", "wording_app:broken", "-q", "gold.jsonl", "-o", "broken.jsonl")
    for _ in range(2):
        terminal("run", "wording_app:flaky", "-q", "gold.jsonl", "-o", "flaky.jsonl", "--max-errors", "0.05")
    terminal("gate", "flaky.jsonl", "--gold", "gold.jsonl", "--gate", "recall@5 >= 0.5")
    terminal("run", "wording_app:serch", "-q", "gold.jsonl")
    terminal("run", "bm25", "-q", "gold.jsonl")

    terminal("run", "-q", "gold.jsonl")
    file("karat.yaml", "retrievers: {good: wording_app:search, down: wording_app:broken}\n")
    terminal("run", "-q", "gold.jsonl")
    terminal("run", "-q", "gold.jsonl", "-o", "all.jsonl")
    terminal("run", "-q", "gold.jsonl", "--system", "x")

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("karat.systems.run.run_retriever", interrupted)
    terminal(*search)
    terminal(*search, "--overwrite")
    check("wording/run.txt", terminal.text)


def test_init(terminal: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    file("site/karat-9.dist-info/METADATA", "Metadata-Version: 2.1\nName: karat\nVersion: 9\n")
    monkeypatch.syspath_prepend(str(Path("site").resolve()))  # installed from nowhere that others can reach
    Path(".git").mkdir()
    terminal("init", "--dry-run")
    terminal("init")
    terminal("init")
    terminal("init", "inner")
    file("file", "")
    terminal("init", "file")
    queries = [{"query_id": f"q{i}", "query": "how?", "gold": {"a": 2, "b": 1}, "evidence": ["x"]} for i in range(12)]
    lines("own/gold.jsonl", *queries, {"query_id": "n", "query": "why?", "no_answer": True})
    lines("own/data/gold.jsonl", *queries)
    lines("own/run.jsonl", *({"query_id": f"q{i}", "topk": ["a"]} for i in range(12)))
    terminal("init", "own", "--retriever", "bm25", "--install", f"git+https://example.com/o/karat@{'a' * 40}")
    terminal.text += Path("own/ship-criteria.yaml").read_text() + "\n"
    terminal("init", "qrels", "--gitlab")
    terminal("init", "other", "--install", "karat")
    terminal("init", "other", "--install", f"git+https://me:pw@example.com/o/karat@{'a' * 40}")
    terminal("init", "inner", "--gold", "own/gold.jsonl")
    terminal("init", "inner", "--gold", "none.jsonl")
    check("wording/init.txt", terminal.text)


def test_mistyped_commands(terminal: Transcript, small: None) -> None:
    terminal("evl")
    terminal("eval", "old.jsonl", "gold.jsonl")
    terminal("eval", "old.jsonl")
    terminal("eval", "old.jsonl", "--gold", "gold.jsonl", "-m", "recal@5")
    terminal("eval", "old.jsonl", "--gold", "gold.jsonl", "--metrc", "mrr")
    terminal("eval", "old.jsonl", "--gold", "gold.jsonl", "-o", "old.jsonl")
    terminal("eval", "old.jsonl", "--gold", "gold.jsonl", "-o", "nothing=out.csv")
    terminal("eval", "sweep", "old.jsonl", "--gold", "gold.jsonl", "-o", "nothing=out.csv")
    terminal("eval", "sweep", "old.jsonl", "--gold", "gold.jsonl", "-o", "out.csv")
    terminal("eval", "old.jsonl", "--gold", "gold.jsonl", "-o", "summary=out.html")
    terminal("compare", "old.jsonl", "new.jsonl", "--interval", "magic")
    terminal("eval", "sweep", "old.jsonl", "--gold", "gold.jsonl", "--ks", "five")
    check("wording/mistyped.txt", terminal.text)


def test_metrics(terminal: Transcript) -> None:
    terminal("metrics")
    terminal("metrics", "P@5")
    check("wording/metrics.txt", terminal.text)


def test_help(terminal: Transcript) -> None:
    from karat.cli.main import every_command

    terminal("--help")
    terminal("labels", "--help")
    terminal("history", "--help")
    for name, command in every_command().items():
        long = any("--help-all" in each.opts for each in command.params)
        terminal(*name.split(), "--help")
        if long:
            terminal(*name.split(), "--help-all")
    check("wording/help.txt", terminal.text)
