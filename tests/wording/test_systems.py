"""What is said of retrievers, their runs, baselines and stress tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import karat
from golden import check
from karat.data.corpus import Corpus
from karat.registry import Registry
from karat.retrievers.specs import make_retriever
from karat.scoring.metrics.base import Metric
from karat.systems.run import run_retriever
from wording import Transcript, file, refusals

Case = Callable[[], object]
GOLD = [{"query_id": f"q{i}", "query": f"question {i}", "gold": ["a"]} for i in range(4)]
CORPUS = Corpus("corpus", ["a", "b"], ["", ""], ["question one", "another text"])
ENTRY = {"query_id": "q", "query": "why?", "gold": ["r"], "negatives": ["n1", "n2"]}
LINE = {"query_id": "q", "topk": ["r", "a", "b", "c"]}

SPECS: dict[str, Case] = {
    str(spec) or "(nothing)": lambda spec=spec: make_retriever(spec)  # type: ignore[misc]
    for spec in (
        *("bm52", "my_search", "", "hybrid(bm25", "hybrid(bm25))", "bm25(k2=1)", "bm25(k1=high)", "bm25:titel"),
        *("bm25:title(field=text)", "random(1, 2)", "bm25(b=2)", "hybrid(prefetch=0)", "rerank(top_n=0)", "http"),
        *("http://user:secret@host/x", "elasticsearch:http://localhost:9200", "qdrant:http://localhost:6333"),
        *("no_such_module_at_all:search", "os.path:basenam", "os.path:", "os:sep", "nowhere.yaml"),
        *({"k1": 2}, 7, "zipfile:ZipFile"),
    )
}


TUNED = [[{"query_id": f"q{i}", "system": s, "topk": ["a", "b"]} for i in range(4)] for s in ("bm25", "dense")]
TUNING: dict[str, Case] = {
    "a metric of latency": lambda: karat.systems.tune(TUNED, GOLD, "latency_p50"),
    "too few queries": lambda: karat.systems.tune(TUNED, GOLD),
    "one list to fuse": lambda: karat.systems.tune(TUNED[0], GOLD, what="fusion"),
    "two lists to cut": lambda: karat.systems.tune(TUNED, GOLD, what="cut"),
    "too many lists": lambda: karat.systems.tune([TUNED[0]] * 7, GOLD),
    "no tokens for a budget": lambda: karat.systems.tune(TUNED, GOLD, budget=500),
    "no hits to use": lambda: karat.systems.tune(TUNED, GOLD, prefetch=0),
    "too many hits to use": lambda: karat.systems.tune(TUNED, GOLD, prefetch=10_000_000),
    "too many queries": lambda: karat.systems.tune(TUNED, {f"q{i}": ["a"] for i in range(20_001)}),
    "the same run twice": lambda: karat.systems.tune(["bm25.jsonl", "bm25.jsonl"], GOLD),
}


def http(**options: Any) -> Case:
    return lambda: make_retriever({"retriever": "http", "url": "http://localhost:8000/query", **options})


def postgres(sql: str, url: str = "postgresql://localhost/docs", **options: Any) -> Case:
    return lambda: make_retriever({"retriever": "postgres", "url": url, "sql": sql, **options})


ENGINES: dict[str, Case] = {
    "a model without a vector": http(model="static"),
    "columns and paths in a hit": http(columns={"id": "ids[0]"}, text="text"),
    "an unknown column": http(columns={"id": "ids[0]", "distnace": "distances[0]"}),
    "columns without an id": http(columns={"score": "scores"}),
    "a score and a distance": http(id="id", score="score", distance="distance"),
    "a value in quotes": postgres("SELECT id FROM docs WHERE text LIKE '%{query}%'"),
    "an empty statement": postgres(" ; "),
    "a model without a vector in the statement": postgres("SELECT id FROM docs", model="static"),
    "no address of a database": postgres("SELECT 1", url="localhost/docs"),
    "a password in the address": postgres("SELECT 1", url="postgresql://me:secret@localhost/docs"),
    "an address that is not set": postgres("SELECT 1", url="${KARAT_NO_SUCH_URL}"),
    "one retriever side by side": lambda: karat.systems.run_side_by_side(["bm25"], GOLD, corpus=CORPUS),
}


def run(answer: Any = ("a",), **options: Any) -> Case:
    return lambda: run_retriever(lambda query: answer, GOLD, warm_up=0, **options)


def bm25(**options: Any) -> Case:
    return lambda: run_retriever("bm25", GOLD, **{"corpus": CORPUS, "warm_up": 0, **options})


def continued(**changes: Any) -> Case:
    return lambda: (bm25(output="run.jsonl")(), bm25(**{"output": "run.jsonl", **changes})())


def asked(content: str) -> Case:
    return lambda: run_retriever(lambda query: [], file("queries.jsonl", content))


def secret() -> None:
    run_retriever({"retriever": "http", "url": "http://127.0.0.1:9/x?key=${SEARCH_KEY}"}, GOLD)


RUNS: dict[str, Case] = {
    "no hit": bm25(k=0),
    "no time": bm25(timeout=0),
    "an empty corpus": bm25(corpus=Corpus("nothing", [], [], [])),
    "a corpus without texts": bm25(corpus=Corpus("blank", ["a"], [""], [" "])),
    "no corpus": bm25(corpus=None),
    "a threshold without scores": run(min_score=0.5),
    "a run with other settings": continued(k=2),
    "a run of another corpus": continued(corpus=Corpus("corpus", ["a"], [""], ["other"])),
    "a run of other questions": lambda: (
        bm25(output="run.jsonl")(),
        run_retriever("bm25", [{**GOLD[0], "query": "other"}, *GOLD[1:]], corpus=CORPUS, output="run.jsonl", warm_up=0),
    ),
    "a file that is not a run": lambda: bm25(output=file("run.jsonl", "hello\n"))(),
    "a query without text": asked('{"query_id": "q1", "query": " "}\n'),
    "a query that occurs twice": asked('{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}\n'),
    "a key that is not set": secret,
    "an empty corpus for baselines": lambda: karat.systems.baseline_ladder(Corpus("c", [], [], []), GOLD),
    "no baseline can run": lambda: karat.systems.baseline_ladder(CORPUS, GOLD, baselines=["bm25:title"]),
    "a ladder without a metric": lambda: karat.systems.baseline_ladder(CORPUS, GOLD, metrics=[]),
}


def stress(**options: Any) -> Case:
    return lambda: karat.systems.stress_test([LINE], [ENTRY], **options)


def reranked(answer: Any) -> Case:
    def mine(query: str, hits: list[Any]) -> Any:
        return answer

    return stress(reranker=mine)


def negatives(content: str) -> Case:
    return lambda: karat.systems.stress_test([LINE], [ENTRY], negatives=file("negatives.jsonl", content))


def broken(query: str, hits: list[dict[str, Any]]) -> list[str]:
    raise ValueError("no model")


STRESS: dict[str, Case] = {
    "a rank of 0": stress(at=[0]),
    "a rank twice": stress(at=[2, 1, 2]),
    "no query": stress(queries=0),
    "negatives that are not a list": stress(negatives={"q": "n"}),
    "negatives of other queries": stress(negatives={"other": ["n"]}),
    "a reranker without a colon": stress(reranker="no_colon"),
    "a reranker that cannot be loaded": stress(reranker="no_such_module:f"),
    "a reranker that is not there": stress(reranker="math:sqroot"),
    "a reranker that cannot be called": stress(reranker="math:pi"),
    "a reranker that fails": stress(reranker=broken),
    "an id that was not given": reranked(["r", "made up"]),
    "too few hits": reranked(["r"]),
    "an id twice": reranked(["r", "r", "a", "b"]),
    "too few scores": reranked([0.5]),
    "a score that is not a number": reranked([0.5, 1.0, math.nan, 2.0]),
    "numbers that may be places": reranked([3, 1, 2, 0]),
    "nothing": reranked(None),
    "gold without negatives": lambda: karat.systems.stress_test([LINE], {"q": ["r"]}),
    "lists that are not there": stress(hits="raw"),
    "two systems": lambda: karat.systems.stress_test([{**LINE, "system": "a"}, {**LINE, "system": "b"}], [ENTRY]),
    "a file without negatives": negatives('{"query_id": "q"}'),
    "a file without query_id": negatives('{"negatives": ["n"]}'),
    "a file with a query twice": negatives('{"query_id": "q", "negatives": ["n"]}\n{"query_id": "q"}'),
    "a file with other values": negatives('{"q": "n"}'),
}


def registry(name: str, **files: str) -> Case:
    def call() -> None:
        import sys

        for module, content in {"__init__": "", **files}.items():
            file(f"{name}/{module}.py", content)
        sys.path.insert(0, str(Path.cwd()))
        try:
            Registry("thing", name, Metric).require("mine")
        finally:
            sys.path.pop(0)

    return call


THING = """
from karat.scoring.metrics.base import Metric
class Mine(Metric, frozen=True, kw_only=True):
    name = "mine"
    def compute(self, judged): ...
"""


def plugin(name: str, value: str) -> Case:
    point = EntryPoint(name=name, value=value, group="karat.metrics")
    return lambda: Registry("metric", "karat.scoring.metrics", Metric)._load(point)


PLUG_INS: dict[str, Case] = {
    "a plug-in that cannot be loaded": plugin("mine", "no_such_module:Mine"),
    "a plug-in that is something else": plugin("mine", "os:sep"),
    "a plug-in of two names": plugin("mine", "karat.scoring.metrics.recall:Recall"),
    "a file that cannot be loaded": registry("wording_things_one", broken="import not_there"),
    "two of one name": registry("wording_things_two", one=THING, two=THING),
}


def test_errors_of_systems(tmp_path: Path) -> None:
    groups = {"Retrievers by name": SPECS, "Engines": ENGINES, "Runs": RUNS, "Stress": STRESS, "Tuning": TUNING}
    groups |= {"Plug-ins": PLUG_INS}
    check("wording/errors_systems.txt", refusals(groups, tmp_path))


ANSWERS: dict[str, Any] = {
    "nothing": None,
    "a text": "a",
    "a hit without id": [{"score": 1.0}],
    "a score that is a word": [("a", "high")],
    "an infinite score": [("a", float("inf"))],
    "times that are a word": {"hits": ["a"], "latency_ms": "fast"},
    "half a character": ["half \ud800"],
}


def test_errors_of_queries() -> None:
    """What a run log says of a query that failed, and what is said of the run."""
    said = []
    for name, answer in ANSWERS.items():
        done = run_retriever(lambda query, answer=answer: answer, GOLD, warm_up=0)
        said.append(f"# {name}\n{done.run[0]['error']}\n")
    done = run_retriever(lambda query: ["a"], GOLD, warm_up=0, rewrite=lambda query: 5)
    said.append(f"# a rewriter that returns a number\n{done.run[0]['error']}\n")

    def search(query: str) -> list[str]:
        return {"0": [], "1": ["a", "b", "b", "a"], "2": ["a", "a"], "3": ["zzz"]}[query[-1]]

    turns = iter(range(100))
    for name, notes in {
        "odd answers": run_retriever(search, GOLD, corpus=CORPUS, k=3, warm_up=0).notes,
        "other answers": run_retriever(
            lambda query: ["a", "b"][:: 1 if next(turns) % 2 else -1], GOLD, repeat=2, warm_up=0
        ).notes,
        "a query that failed": run_retriever(lambda query: ["a"] if query[-1] != "3" else 1 / 0, GOLD, warm_up=0).notes,
    }.items():
        said.append(f"# {name}\n" + "\n".join(f"note: {note}" for note in notes) + "\n")
    check("wording/run_notes.txt", "\n".join(said))


def test_baseline_and_stress(terminal: Transcript) -> None:
    files = ("--corpus", "helpdesk/corpus.jsonl", "--queries", "helpdesk/gold.jsonl")
    rungs = ("--retriever", "random", "--retriever", "bm25", "--retriever", "bm25:title")
    terminal("baseline", *files, *rungs, "--run", "helpdesk/bm25_rerank.jsonl", "-m", "recall@5")
    terminal("stress", "helpdesk/bm25.jsonl", "-g", "helpdesk/gold.jsonl", "--at", "1,3", "--sample", "30")
    file(
        "gold.jsonl",
        '{"query_id": "q", "query": "why?", "gold": ["r"]}\n{"query_id": "none", "query": "why?", "gold": ["r"]}\n',
    )
    file("negatives.jsonl", '{"query_id": "q", "negatives": ["n1", "r"]}\n')
    file("run.jsonl", '{"query_id": "q", "topk": ["a", "n1", "r"]}\n')
    terminal("stress", "run.jsonl", "-g", "gold.jsonl", "--negatives", "negatives.jsonl", "--at", "1,9")
    terminal("stress", "run.jsonl", "-g", "gold.jsonl", "--at", "one")
    terminal("eval", "triage", "helpdesk/bm25.jsonl", "--gold", "helpdesk/gold.jsonl", "-n", "2")
    terminal("compare", "--live", "bm25", "random", "--gold", "gold.jsonl", "--keep", "logs", "--max-errors", "0")
    terminal("compare", "--live", "bm25", "random", "--corpus", "helpdesk/corpus.jsonl")
    terminal("compare", "run.jsonl", "run.jsonl", "--gold", "gold.jsonl", "--workers", "2")
    check("wording/systems.txt", terminal.text)
