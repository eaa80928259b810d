"""What is said of files that cannot be read, and of settings that cannot be: one example of each."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import karat
from golden import check
from karat.files.safe_parquet import _WORKERS
from karat.formats.convert import convert
from karat.formats.corpus import Chunker, read_corpus
from karat.results.evaluate import evaluate_all
from wording import file, refusals

RUN, GOLD = {"q1": ["a", "b"]}, {"q1": ["a"]}
LINE = '{"query_id":"q1","topk":[{"chunk_id":"a","score":1}]}\n'
ENTRY = '{"query_id":"q1","gold":["a"]}\n'
Case = Callable[[], object]


def run(content: str | bytes, name: str = "run.jsonl", **options: Any) -> Case:
    return lambda: karat.evaluate(karat.read_run(file(name, content), **options), GOLD)


def gold(content: str | bytes, name: str = "gold.jsonl", **options: Any) -> Case:
    return lambda: karat.evaluate(RUN, karat.read_gold(file(name, content), **options))


def line(**fields: Any) -> Case:
    return run(LINE + json.dumps({"query_id": "q2", **fields}) + "\n")


def mapped(fields: str) -> Case:
    return lambda: karat.evaluate(file("run.jsonl", LINE), GOLD, columns=fields)


def entry(**fields: Any) -> Case:
    return gold(ENTRY + json.dumps({"query_id": "q2", **fields}) + "\n")


def dataset(content: str) -> Case:
    return lambda: (file("dataset.yaml", content), gold(ENTRY)())


def columns(content: str) -> Case:
    def call() -> None:
        pl.DataFrame({"query_id": ["q1"], "chunk_id": ["a"], "rank": [1]}).write_parquet("run.parquet")
        karat.evaluate(karat.read_run("run.parquet", columns=file("columns.yaml", content)), GOLD)

    return call


def parquet(frame: dict[str, list[Any]], name: str = "run.parquet", **options: Any) -> Case:
    def call() -> None:
        pl.DataFrame(frame).write_parquet(name)
        karat.evaluate(karat.read_run(name, **options), GOLD)

    return call


def corpus(content: str, chunker: Chunker | None = None) -> Case:
    return lambda: read_corpus(file("corpus.jsonl", content), chunker)


def texts(chunker: Chunker | None = None, **files: bytes) -> Case:
    def call() -> None:
        for name, content in files.items():
            file(f"texts/{name}.txt", content)
        Path("texts").mkdir(exist_ok=True)
        read_corpus("texts", chunker)

    return call


def two_chunkers() -> None:
    file("texts/a.txt", b"one two three four five")
    line = {"query_id": "q1", "system": "bm25", "topk": ["a"], "chunker": Chunker(2, 0).settings()}
    karat.evaluate([line, {**line, "query_id": "q2", "chunker": Chunker(3, 1).settings()}], GOLD, corpus="texts")


def beir(qrels: str | bytes, queries: str | None = None, **options: Any) -> Case:
    def call() -> None:
        file("set/qrels/test.tsv", qrels)
        if queries is not None:
            file("set/queries.jsonl", queries)
        karat.read_gold("set", **options)

    return call


def mixed_columns() -> None:
    for name, frame in (("a", {"query_id": ["q1"], "chunk_id": ["a"], "rank": [1]}), ("b", {"query_id": ["q1"]})):
        Path("runs").mkdir(exist_ok=True)
        pl.DataFrame(frame).write_parquet(f"runs/{name}.parquet")
    karat.evaluate("runs", GOLD)


def damaged_parquet() -> None:
    shutil.copy(Path(__file__).parents[1] / "fuzz" / "parquet" / "run_snappy_allocation.parquet", "run.parquet")
    karat.evaluate("run.parquet", GOLD)


def limited(name: str, value: str, case: Case) -> Case:
    """With a limit set in the environment."""

    def call() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, value)
            case()

    return call


def no_worker() -> None:
    file("run.parquet", "PAR1")
    _WORKERS.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", "no-such-python")
        karat.evaluate(karat.read_run("run.parquet", format="parquet"), GOLD)


def no_ir_datasets() -> None:
    """As if it were not installed; the benchmarks install it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ir_datasets", None)
        karat.read_gold("ir_datasets:beir/scifact/test")


def no_parquet() -> None:
    file("runs/a.parquet", b"PAR1")
    file("runs/b.parquet", "query_id,chunk_id\n")
    karat.evaluate("runs", GOLD)


def near_name() -> None:
    file("baseline.jsonl", LINE)
    karat.read_run("baselin.jsonl")


def saved_result() -> None:
    from karat.report.export import to_json

    karat.read_run(file("result.json", to_json([karat.evaluate(RUN, GOLD)])))


TWO = '{"query_id":"q1","system":"bm25","topk":["a"]}\n{"query_id":"q1","system":"dense","topk":["a"]}\n'
TWO_GRADES = [{"chunk_id": "a", "grade": 1}, {"chunk_id": "a", "grade": 2}]
NESTED = "[" * 100_000 + "]" * 100_000

FILES: dict[str, Case] = {
    "a file that is not there": lambda: karat.read_run("run.jsonl"),
    "a file with a name close to one that is there": near_name,
    "a file in a folder that is not there": lambda: karat.read_run("no/run.jsonl"),
    "an empty file": run(""),
    "a binary file": run(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
    "a folder": lambda: karat.read_run("."),
    "a folder, with a named format": lambda: karat.evaluate(karat.read_run(".", format="run-log"), GOLD),
    "the content of a file in place of its name": lambda: karat.evaluate(LINE * 200, GOLD),
    "a line that is too long": limited("KARAT_MAX_LINE", "1M", run(LINE + '{"query_id":"' + "x" * (3 << 20))),
    "compressed data that unpacks to too much": run(
        gzip.compress(LINE.encode() + b"\n" * (80 << 20), mtime=0), "run.jsonl.gz"
    ),
    "a limit that makes no sense": limited("KARAT_MAX_LINE", "much", run(LINE)),
    "Parquet that is damaged": damaged_parquet,
    "no process to read Parquet with": no_worker,
    "compressed data that is cut off": run(gzip.compress(LINE.encode() * 99, mtime=0)[:-8], "run.jsonl.gz"),
    "other data after compressed data": run(gzip.compress(LINE.encode(), mtime=0) + b"more", "run.jsonl.gz"),
    "white space in an id: TREC": run("q1 Q0 my id 1 2.0 tag\n", "run.trec", format="trec-run"),
    "carriage returns for line ends: TREC": run("q1 Q0 a 1 2.0 tag\rq1 Q0 b 2 1.0 tag\r", "run.trec"),
    "not UTF-8: JSONL": run(LINE.encode().replace(b"a", b"\xa7")),
    "not UTF-8: YAML": gold(b"- query_id: q1\n  gold: [\xa7]\n", "gold.yaml"),
    "not UTF-8: TREC": run(b"q1 Q0 \xa7 1 2.0 tag\n", "run.trec"),
    "not UTF-8: CSV": run(b"query_id,chunk_id\nq1,\xa7\n", "run.csv"),
    "a remote path": lambda: karat.read_run("s3://bucket/run.parquet"),
    "a pattern that matches nothing": lambda: karat.read_run("part-*.parquet"),
    "an object that cannot be a run": lambda: karat.evaluate(5, GOLD),
    "an object that cannot be gold": lambda: karat.evaluate(RUN, 5),
    "no query in the run": lambda: karat.evaluate({}, GOLD),
    "no query in the gold set": lambda: karat.evaluate(RUN, {}),
    "no overlap": lambda: karat.evaluate({"Q-001": ["a"]}, GOLD),
    "no overlap of one of two systems": lambda: evaluate_all(
        [{"query_id": "q1", "system": "A", "topk": ["a"]}, {"query_id": "x", "system": "B", "topk": ["a"]}], GOLD
    ),
    "a system that is not there: run log": lambda: karat.evaluate(file("run.jsonl", TWO), GOLD, system="colbert"),
    "a system that is not there: TREC": lambda: karat.evaluate(
        file("run.trec", "q1 Q0 a 1 1 bm25\n"), GOLD, system="colbert"
    ),
}

RECOGNITION: dict[str, Case] = {
    "not a run": run("hello world\n", "data"),
    "not a gold set": gold("hello world\n", "data"),
    "gold given as a run": run(ENTRY),
    "a run given as gold": gold(LINE),
    "a frame of gold given as a run": lambda: karat.evaluate(
        pl.DataFrame({"query_id": ["q1"], "chunk_id": ["a"], "grade": [1]}), GOLD
    ),
    "a table of a run given as gold": gold("query_id,chunk_id,rank,score\nq1,a,1,2\n", "gold.csv"),
    "a saved result": saved_result,
    "a labels file": gold('{"query_id": "q", "chunk_id": "a", "grade": 0, "annotator": "ann"}\n', "labels.jsonl"),
    "a pool": gold('{"query_id": "q", "chunk_id": "a", "query": "who", "origin": {"ranks": {"x": 1}}}\n', "pool.jsonl"),
    "a corpus given as gold": gold('{"id": "a", "title": "Pumps", "text": "how to clean pumps"}\n', "corpus.jsonl"),
    "a table of other columns, as a run": run("question,passage,value\nq1,a,1\n", "run.csv"),
    "a table of other columns, as gold": gold("question,passage,value\nq1,a,1\n", "gold.csv"),
    "a field of another spelling: topk": run('{"query_id":"q1","top_k":["a"]}\n'),
    "a field of another spelling: topk of the second line": run(LINE + '{"query_id":"q2","topK":["a"]}\n'),
    "a field of another spelling: query_id": run('{"queryId":"q1","topk":["a"]}\n'),
    "a field of another name": run('{"query_id":"q1","results":["a"]}\n'),
    "a field of another spelling: gold": gold('{"query_id":"q1","golds":["a"]}\n'),
    "a field of another spelling: query_id of gold": gold(ENTRY + '{"query-id":"q1","gold":["a"]}\n'),
    "a field of another name in gold": gold('{"qid":"q1","expected":["a"]}\n'),
    "an output without the id of its sample": run('{"retrieved":[{"id":"a","text":"t"}]}\n' * 2),
    "a bare list as an output": run('["a","b"]\n["c"]\n'),
    "a format that does not exist": run(LINE, format="treck-run"),
    "a format of the other kind": run("q1 0 a 1\n", "qrels", format="trec-qrels"),
    "columns of a format that has none": run("q1 Q0 a 1 1 t\n", "run.trec", columns={"query_id": "qid"}),
    "raw lists of a format that has none": run("q1 Q0 a 1 1 t\n", "run.trec", hits="raw"),
    "a target of a format that has none": gold("q 0 a 1\n", "qrels", target="page"),
}

RUN_LOGS: dict[str, Case] = {
    "not JSON": run(LINE + "not json at all\n"),
    "a line that is cut off": run(LINE + LINE[:20]),
    "no object": run(LINE + "[1, 2]\n"),
    "nested too deeply": run(LINE + f'{{"query_id":"q2","topk":["a"],"note":{NESTED}}}\n'),
    "a run under other names": run('{"id":"q1","results":[{"doc":"a","similarity":0.5}],"took_ms":4}\n'),
    "a map with a field that no record has": mapped("query_id=query_id,topk=results"),
    "a map with an unknown field": mapped("quary_id=id"),
    "a map that is none": mapped("query_id"),
    "scores that mean two things": line(topk=["a"], score_order="lower-is-better"),
    "no topk": line(),
    "no query_id": run(LINE + '{"topk":["a"]}\n'),
    "topk is not a list": line(topk=5),
    "query_id is not an id": line(query_id=1.5, topk=["a"]),
    "a hit is not a hit": line(topk=["a", 1.5]),
    "a hit has no id": line(topk=["a", {"score": 1}]),
    "the id of a hit is empty": line(topk=["a", ""]),
    "a score is a word": line(topk=[{"chunk_id": "a", "score": "high"}]),
    "a score is not JSON": run(LINE + '{"query_id":"q2","topk":[{"chunk_id":"a","score":NaN}]}\n'),
    "a score is too large": run(LINE + '{"query_id":"q2","topk":[{"chunk_id":"a","score":1e999}]}\n'),
    "a rank is not a whole number": line(topk=[{"chunk_id": "a", "rank": 1.5}]),
    "a rank is too large": line(topk=[{"chunk_id": "a", "rank": 10**400}]),
    "a latency is neither number nor object": line(topk=["a"], latency_ms="fast"),
    "a latency is not a number": line(topk=["a"], latency_ms={"rerank": "fast"}),
    "a latency is negative": line(topk=["a"], latency_ms={"rerank": -1}),
    "usage is not a list": line(topk=["a"], usage=5),
    "tokens are negative": line(topk=["a"], usage=[{"prompt_tokens": -5}]),
    "an entity has no id": line(topk=["a"], entities=["a", {}]),
    "a query occurs twice": run(LINE + LINE.replace("{", "{ ", 1)),
    "raw lists that are not logged": run(LINE, hits="raw"),
    "half a character": lambda: karat.evaluate([{"query_id": "q1", "system": "\ud800", "topk": ["a"]}], GOLD),
}

GOLD_FILES: dict[str, Case] = {
    "gold is not a list": entry(gold=5),
    "an item is not an item": entry(gold=[1.5]),
    "an item has no id": entry(gold=[{"grade": 1}]),
    "an id is half a character": lambda: karat.evaluate(RUN, {"q1": ["\ud800"]}),
    "an answer is not text": entry(gold=["a"], answer=5),
    "the id of an item is empty": entry(gold=["a", {"chunk_id": ""}]),
    "a grade is a word": entry(gold={"doc 7.html": "high"}),
    "a grade is not finite": gold("- query_id: q2\n  gold: {a: .nan}\n", "gold.yaml"),
    "a cutoff is 0": entry(gold=["a"], k=0),
    "evidence is not a list": entry(gold=["a"], evidence=5),
    "tags are neither an object nor a list": entry(gold=["a"], tags="x"),
    "no_answer is a word": entry(no_answer="yes"),
    "no query_id": gold(ENTRY + '{"gold":["a"]}\n'),
    "nothing to find": entry(),
    "nothing to find, but a field that may be it": entry(recipe="r2"),
    "a target that is missing": gold('{"query_id":"q","best_page":"b"}\n', target="best_pag"),
    "a target that is not an id": gold('{"query_id":"q","best_page":1.5}\n', target="best_page"),
    "no_answer and relevant gold": entry(gold=["a"], no_answer=True),
    "an id that is gold and a negative": entry(gold=["a"], negatives=["n", "a"]),
    "a negative without an id": entry(gold=["a"], negatives=["n", ""]),
    "an id of a hop that is not in gold": entry(gold=["a"], hops=[["a"], ["a", "b"]]),
    "an id of a hop that is not relevant": entry(gold={"a": 1, "b": 0}, hops=[["b"]]),
    "a hop without ids": entry(hops=[["a"], []]),
    "hops that are not lists": entry(hops=["a"]),
    "hops of a query without an answer": entry(hops=[["a"]], no_answer=True),
    "two grades for one item": entry(gold=TWO_GRADES),
    "a query occurs twice": gold(ENTRY + ENTRY),
    "as_of is not a time": entry(gold=["a"], as_of="some day"),
    "a quote is empty": entry(gold=[{"doc_id": "d", "quote": " "}]),
    "a start without an end": entry(gold=[{"doc_id": "d", "start": 3}]),
    "an end before its start": entry(gold=[{"doc_id": "d", "start": 3, "end": 3}]),
    "a JSON document that is cut off": gold('[{"query_id":"q1","gold":["a"]},\n {"query_id"', "gold.json"),
    "a JSON document of other things": gold("[1]", "gold.json", format="gold"),
    "not YAML": gold("- query_id: q1\n  gold: [a\n- query_id: q2\n", "gold.yaml"),
    "YAML with tabs": gold("- query_id: q1\n\tgold: [a]\n", "gold.yaml"),
    "a YAML key occurs twice": gold("- query_id: q1\n  gold: [a]\n  gold: [b]\n", "gold.yaml"),
    "YAML nested too deeply": gold("- query_id: q1\n  gold: " + NESTED[:300] + "\n", "gold.yaml"),
    "an alias inside of an anchor": gold("- query_id: q1\n  gold: &a [x, &b [y], *b]\n", "gold.yaml"),
    "a dataset.yaml that is not YAML": dataset("version: 'v1\n"),
    "a dataset.yaml with another type": dataset("name: [a]\n"),
    "a range that is not one": dataset("as_of_range: 2025\n"),
}

OTHER_FORMATS: dict[str, Case] = {
    "dict: hits are not a list": lambda: karat.evaluate({"q1": 5}, GOLD),
    "dict: a score is not a number": lambda: karat.evaluate({"q1": {"a": "high"}}, GOLD),
    "dict: an id is empty": lambda: karat.evaluate({"q1": {"a": 1.0, "": 0.5}}, GOLD),
    "dict: gold is not a list": lambda: karat.evaluate(RUN, {"q1": 5}),
    "dict: an item is not an id": lambda: karat.evaluate(RUN, {"q1": [1.5]}),
    "dict: a query is not an id": lambda: karat.evaluate({1.5: ["a"]}, GOLD),
    "dict: two keys are one query": lambda: karat.evaluate({1: ["a"], "1": ["b"]}, GOLD),
    "dict: a file that holds a list": run("[1, 2]\n", format="dict"),
    "TREC: too few columns": run("q1 Q0 a 1 2.0 tag\nq1 Q0 b 2", "run.trec"),
    "TREC: a score is not a number": run("q1 Q0 a 1 2.0 tag\nq1 Q0 b 2 high tag\n", "run.trec"),
    "qrels: two grades": gold("q1 0 a 1\nq2 0 b 1\nq1 0 a 2\n", "qrels"),
    "qrels: cut off": gold("q1 0 a 1\nq1 0 b", "qrels"),
    "a value with a line feed": run('{"query_id":"q1","topk":[{"id":"a","score":"1\\nhint: type something"}]}\n'),
    "half a character": run('{"query_id":"q1","topk":["a"],"system":"x\\ud800"}\n'),
    "qrels: too many columns": gold("q1 0 a 1\nq1 0 b 1 x\n", "qrels"),
    "qrels: a grade is not a number": gold("q1 0 a 1\nq1 0 b high\n", "qrels"),
    "CSV: no row": run("query_id,chunk_id,score\n", "run.csv"),
    "CSV: several ids in one cell": gold("query_id,doc_id\nq1,a\nq2,b\nq3,a; b\n", "gold.csv"),
    "CSV: no column for the query": run("question_no,chunk_id\nq1,a\n", "run.csv", format="table"),
    "CSV: a score is not a number": run("query_id,chunk_id,score\nq1,a,1\nq1,b,high\n", "run.csv"),
    "CSV: an id is empty": run("query_id,chunk_id,score\nq1,a,1\nq1,,2\n", "run.csv"),
    "CSV: a row is too long": run("query_id,chunk_id,score\nq1,a,1\nq1,b,1,2,3\n", "run.csv"),
    "CSV: a quote is never closed": run('query_id,chunk_id,score\nq1,a,1\nq1,"b,1\nq2,c,1\n', "run.csv"),
    "pandas: two columns have one name": lambda: karat.read_run(
        pd.DataFrame([["q1", "a", "b"]], columns=["query_id", "chunk_id", "chunk_id"])
    ),
    "CSV: a grade is not a number": gold("query_id,chunk_id,grade\nq1,a,good\n", "gold.csv"),
    "CSV: an offset is negative": gold("query_id,doc_id,start,end\nq1,a,-1,3\n", "gold.csv"),
    "CSV: an end before its start": gold("query_id,doc_id,start,end\nq1,a,4,3\n", "gold.csv"),
    "CSV: a start without an end": gold("query_id,doc_id,start,end\nq1,a,4,\n", "gold.csv"),
    "CSV: no target column": gold("query,recipe\none?,1\n", "gold.csv", target="recipy"),
    "Parquet: broken": run(b"PAR1" + b"x" * 100, "run.parquet"),
    "Parquet: no row": parquet({"query_id": pl.Series([], dtype=pl.String), "topk": pl.Series([], dtype=pl.String)}),
    "Parquet: a column of another type": parquet({"query_id": ["q1"], "chunk_id": ["a"], "rank": [True]}),
    "Parquet: two lists for a query": parquet({"query_id": ["q1", "q1"], "topk": [["b"], ["a"]]}),
    "Parquet: files of other columns": mixed_columns,
    "Parquet: another file among them": no_parquet,
    "columns: none of this name": columns("query_id: requests\n"),
    "columns: a role that does not exist": columns("quer_id: query_id\n"),
    "columns: no name": columns("query_id: 3\n"),
    "columns: no mapping": columns("- query_id\n"),
    "columns: none of this name in the hits": parquet(
        {"query_id": ["q1"], "topk": [[{"chunk_id": "a"}]]}, columns={"chunk_id": "passage"}
    ),
    "samples: no ranked list": run('{"id":"s1","actualOutput":["a"]}\n{"id":"s2","actualOutput":7}\n'),
    "samples: a cutoff is 0": gold(
        '{"samples":[{"id":"s1","expected_output":["a"],"metadata":{"k":0}}]}', "samples.json"
    ),
    "samples: an expected output is not a list": gold("samples:\n- id: s1\n  expected_output: '[1, 2'\n", "s.yaml"),
    "samples: not at the top": gold("set:\n  samples:\n  - id: s1\n    expected_output: [a]\n", "s.yaml"),
    "BEIR: no such split": beir("q1\ta\t1\n", split="train"),
    "BEIR: not a judgement": beir("q1\ta\t1\nq2\tc\thigh\n"),
    "BEIR: a query without id": beir("q1\ta\t1\n", '{"text": "no id"}\n'),
    "BEIR: no_answer and relevant gold": beir(
        "q1\ta\t1\n", '{"_id": "q1", "text": "?", "metadata": {"no_answer": true}}\n'
    ),
    "corpus: no id": corpus('{"text": "t"}\n'),
    "corpus: an empty id": corpus('{"id": "", "text": "t"}\n'),
    "corpus: an id twice": corpus('{"id": "a", "text": "t"}\n{"id": "a", "text": "u"}\n'),
    "corpus: in chunks already": corpus('{"id": "a", "text": "t"}\n', Chunker()),
    "texts: none": texts(),
    "texts: all empty": texts(a=b"  "),
    "texts: not UTF-8": texts(a=b"\xff\xfe\x00"),
    "texts: chunks that cannot be": texts(Chunker(5, 5), a=b"one two"),
    "a system whose records name two chunkers": two_chunkers,
}


def converted(content: str, output: str = "out.jsonl", **options: Any) -> Case:
    return lambda: convert(file("in.jsonl", content), output, **options)


RAGAS = {"user_input": "who?", "retrieved_contexts": ["a b"], "reference_contexts": ["a b"]}
RICH = '{"query_id": "q1", "query": "who?", "gold": {"a": 2}, "tags": {"lang": "en"}, "answer": "Anna"}\n'
OTHER_TOOLS: dict[str, Case] = {
    "ragas: a conversation": gold(json.dumps({**RAGAS, "user_input": [{"content": "a"}]}) + "\n"),
    "ragas: ids and contexts of other lengths": run(json.dumps({**RAGAS, "retrieved_context_ids": ["a", "b"]}) + "\n"),
    "deepeval: nothing retrieved": run(
        '{"input": "a", "retrieval_context": ["x"]}\n{"input": "b", "context": ["x"]}\n'
    ),
    "langsmith: no question": gold('{"inputs": {"a": 1}, "outputs": {"answer": "x"}}\n'),
    "promptfoo: tests elsewhere": gold("prompts: [x]\ntests: file://tests.csv\n", "promptfooconfig.yaml"),
    "promptfoo: an output without documents": run('{"vars": {"query": "a"}, "response": {"output": "text"}}\n'),
    "quepid: not a rating": gold("query,docid,rating\nq,a,good\n", "case.csv"),
    "rank-eval: not a rating": gold('{"requests": [{"id": "q", "ratings": [{"rating": 1}]}]}\n', "body.json"),
    "ir_datasets: not installed": no_ir_datasets,
    "convert: something would be lost": converted(RICH, "out.qrels"),
    "convert: ranks and scores disagree": converted(
        '{"query_id":"q1","topk":[{"chunk_id":"a","rank":1,"score":1},{"chunk_id":"b","rank":2,"score":2}]}\n',
        "out.trec",
    ),
    "convert: a name with a space": converted('{"query_id":"q1","system":"my run","topk":["a"]}\n', "out.trec"),
    "convert: an id with a space": converted('{"query_id":"q1","topk":["a b"]}\n', "out.trec"),
    "convert: which format?": converted(LINE, "out.csv"),
    "convert: an unknown format": converted(LINE, to="trec"),
    "convert: no texts for deepeval": converted(LINE, "out.json", to="deepeval", lossy=True),
    "convert: several systems": converted(TWO, to="ragas", lossy=True),
    "convert: no index": converted(ENTRY, "out.json", to="rank-eval"),
    "convert: a gold set for a gold set": converted(ENTRY, gold="gold.jsonl"),
    "quepid: a judgement of a book is not a number": gold(
        json.dumps({"query_doc_pairs": [{"query_text": "q", "doc_id": "a", "judgements": [{"rating": "good"}]}]}),
        "book.json",
    ),
    "quepid: a book without a document": gold("query,docid,Ann\nq,,3\n", "book.csv"),
    "convert: a folder that is not empty": converted(ENTRY, ".", to="beir"),
    "convert: a folder to standard output": converted(ENTRY, "-", to="beir"),
}


SPAN = {
    "id": "s1",
    "trace_id": "t1",
    "run_type": "retriever",
    "inputs": {"query": "who"},
    "extra": {"metadata": {"app": "x"}},
}
FOUND = {**SPAN, "outputs": {"documents": [{"id": "a"}]}}


def traces(*spans: dict[str, Any], **options: Any) -> Case:
    return run("".join(json.dumps(span) + "\n" for span in spans), "traces.jsonl", **options)


TRACES: dict[str, Case] = {
    "an object that is not a span": traces(FOUND, {"query": "who"}),
    "a span without ids": traces({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "search"}]}]}]}),
    "no retriever": traces({**SPAN, "run_type": "llm"}),
    "documents that were not recorded": traces(SPAN),
    "other questions than those of the gold set": traces(FOUND),
    "an attribute that no trace has": traces(FOUND, columns="query_id=app.id"),
    "a step twice": run('{"query_id":"q1","step":1,"topk":["a"]}\n' * 2),
    "a step without topk": line(steps=[{"query": "who"}]),
}


def test_errors_of_formats(tmp_path: Path) -> None:
    groups = {
        "Files": FILES,
        "Recognition": RECOGNITION,
        "Run logs": RUN_LOGS,
        "Gold files": GOLD_FILES,
        "Other formats": OTHER_FORMATS,
        "Other tools, and conversion": OTHER_TOOLS,
        "Traces and steps": TRACES,
    }
    check("wording/errors_formats.txt", refusals(groups, tmp_path))
