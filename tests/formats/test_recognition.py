"""One small content in every format gives the same scores; a format is known by its content or by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from refusals import refused

import karat
from karat.errors import InputError, UnknownName
from karat.formats.base import Source
from karat.formats.read import REGISTRY, find_format

# q4 is missing in the run, q9 is unknown to the gold set, d7#1 is judged and not relevant.
HITS: dict[str, list[tuple[str, float]]] = {
    "q1": [("d1#1", 3.0), ("d2#1", 2.5), ("d3#1", 1.0)],
    "q2": [("d4#1", 9.0), ("d1#2", 4.0)],
    "q3": [("d9#1", 0.25)],
    "q9": [("d1#1", 1.0)],
}
GRADES: dict[str, dict[str, float]] = {
    "q1": {"d2#1": 2, "d3#1": 1, "d7#1": 0},
    "q2": {"d1#2": 1},
    "q3": {"d5#1": 3},
    "q4": {"d6#1": 1},
}
METRICS = ["recall@2", "precision@2", "mrr", "map", "wrecall@2", "judged@3", "distinct_docs@3"]
EXPECTED: dict[str, dict[str, float | None]] = {
    "recall@2": {"q1": 0.5, "q2": 1.0, "q3": 0.0, "q4": 0.0},
    "precision@2": {"q1": 0.5, "q2": 0.5, "q3": 0.0, "q4": 0.0},
    "mrr": {"q1": 0.5, "q2": 0.5, "q3": 0.0, "q4": 0.0},
    "map": {"q1": (1 / 2 + 2 / 3) / 2, "q2": 0.5, "q3": 0.0, "q4": 0.0},
    "wrecall@2": {"q1": 2 / 3, "q2": 1.0, "q3": 0.0, "q4": 0.0},
    "judged@3": {"q1": 2 / 3, "q2": 0.5, "q3": 0.0, "q4": None},
    "distinct_docs@3": {"q1": 3.0, "q2": 2.0, "q3": 1.0, "q4": None},
}
AUDIT = {"missing_queries": 1, "unknown_queries": 1}

HIT_ROWS = [(q, i, s, rank) for q, hits in HITS.items() for rank, (i, s) in enumerate(hits, 1)]
GRADE_ROWS = [(q, i, g) for q, items in GRADES.items() for i, g in items.items()]
RECORDS = [
    {"query_id": q, "topk": [{"rank": r, "chunk_id": i, "score": s} for r, (i, s) in enumerate(hits, 1)]}
    for q, hits in HITS.items()
]
ENTRIES = [{"query_id": q, "gold": items} for q, items in GRADES.items()]
HIT_TABLE = {
    "query_id": [r[0] for r in HIT_ROWS],
    "chunk_id": [r[1] for r in HIT_ROWS],
    "score": [r[2] for r in HIT_ROWS],
}
GRADE_TABLE = {
    "query_id": [r[0] for r in GRADE_ROWS],
    "chunk_id": [r[1] for r in GRADE_ROWS],
    "grade": [r[2] for r in GRADE_ROWS],
}


def text_file(make: Callable[[], str]) -> Callable[[Path], Path]:
    """The name of the file says nothing: only the content does."""

    def write(folder: Path) -> Path:
        path = folder / "data"
        path.write_text(make())
        return path

    return write


def jsonl(entries: list[Any]) -> str:
    return "".join(json.dumps(e) + "\n" for e in entries)


def table(columns: dict[str, list[Any]], separator: str) -> str:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def parquet(columns: dict[str, list[Any]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pl.DataFrame(columns).write_parquet(folder / "data")
        return folder / "data"

    return write


def parquet_folder(columns: dict[str, list[Any]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        for number, part in enumerate(pl.DataFrame(columns).iter_slices(4)):
            part.write_parquet(folder / f"part-{number}.parquet")
        return folder

    return write


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir()
    (folder / "queries.jsonl").write_text(jsonl([{"_id": q, "text": q} for q in GRADES]))
    rows = table(
        {"query-id": GRADE_TABLE["query_id"], "corpus-id": GRADE_TABLE["chunk_id"], "score": GRADE_TABLE["grade"]}, "\t"
    )
    (folder / "qrels" / "test.tsv").write_text(rows)
    return folder


def yaml_gold(head: str = "") -> str:
    return head + "".join(f"- query_id: {q}\n  gold: {json.dumps(items)}\n" for q, items in GRADES.items())


OUTPUTS = [{"id": q, "actualOutput": {"retrieved": [{"id": i} for i, _ in hits]}} for q, hits in HITS.items()]
SAMPLES = {"samples": [{"id": q, "input": {"question": q}, "expected_output": items} for q, items in GRADES.items()]}
SCORE_DICT = {q: dict(hits) for q, hits in HITS.items()}
ID_DICT = {q: [i for i, _ in hits] for q, hits in HITS.items()}

RETRIEVED = [{"query_id": q, "ids": [i for i, _ in hits]} for q, hits in HITS.items()]
RESPONSE = {
    "metric_score": 0.5,
    "details": {q: {"hits": [{"hit": {"_id": i, "_score": s}} for i, s in hits]} for q, hits in HITS.items()},
    "failures": {},
}
REQUESTS = [
    {"id": q, "request": {}, "ratings": [{"_index": "x", "_id": i, "rating": g} for i, g in items.items()]}
    for q, items in GRADES.items()
]
TESTS = [{"vars": {"query": q}, "metadata": {"gold": items}} for q, items in GRADES.items()]
RESULTS = [
    {"vars": {"query": q}, "response": {"output": json.dumps([{"id": i, "score": s} for i, s in hits])}}
    for q, hits in HITS.items()
]


def mteb(folder: Path) -> Path:
    """As `push_to_hub` of datasets writes it."""
    for name in ("queries", "qrels"):
        (folder / name).mkdir()
    queries = pl.DataFrame({"_id": list(GRADES), "text": list(GRADES)})
    queries.write_parquet(folder / "queries" / "queries-00000-of-00001.parquet")
    rows = {"query-id": GRADE_TABLE["query_id"], "corpus-id": GRADE_TABLE["chunk_id"], "score": GRADE_TABLE["grade"]}
    for at, part in enumerate(pl.DataFrame(rows).iter_slices(3)):
        part.write_parquet(folder / "qrels" / f"test-{at:05}-of-00002.parquet")
    return folder


def ragas(**fields: Any) -> str:
    return json.dumps({"user_input": fields.pop("query_id"), **fields}) + "\n"


def span(query: str, hits: list[tuple[str, float]]) -> dict[str, Any]:
    """A run of LangSmith."""
    documents = [{"id": item, "page_content": "", "metadata": {"score": score}} for item, score in hits]
    return {
        "id": query,
        "trace_id": query,
        "run_type": "retriever",
        "inputs": query,
        "outputs": {"documents": documents},
    }


# name → (format that recognises it, how to make it)
RUN_FILES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "run log": ("run-log", text_file(lambda: jsonl(RECORDS))),
    "run log of ids": ("run-log", text_file(lambda: jsonl([{"query_id": q, "topk": i} for q, i in ID_DICT.items()]))),
    "sample outputs": ("samples", text_file(lambda: jsonl(OUTPUTS))),
    "sample outputs in strings": (
        "samples",
        text_file(lambda: jsonl([{**o, "actualOutput": json.dumps(o["actualOutput"])} for o in OUTPUTS])),
    ),
    "json dict": ("dict", text_file(lambda: json.dumps(SCORE_DICT))),
    "json dict, indented": ("dict", text_file(lambda: json.dumps(SCORE_DICT, indent=2))),
    "json dict of lists": ("dict", text_file(lambda: json.dumps(ID_DICT))),
    "trec": ("trec-run", text_file(lambda: "".join(f"{q} Q0 {i} {r} {s} tag\n" for q, i, s, r in HIT_ROWS))),
    "trec with tabs": (
        "trec-run",
        text_file(lambda: "".join(f"{q}\tQ0\t{i}\t{r}\t{s}\ttag\n" for q, i, s, r in HIT_ROWS)),
    ),
    "csv": ("table", text_file(lambda: table(HIT_TABLE, ","))),
    "tsv": ("table", text_file(lambda: table(HIT_TABLE, "\t"))),
    "parquet": ("parquet", parquet(HIT_TABLE)),
    "ragas": (
        "ragas",
        text_file(lambda: "".join(ragas(query_id=r["query_id"], retrieved_context_ids=r["ids"]) for r in RETRIEVED)),
    ),
    "deepeval": (
        "deepeval",
        text_file(
            lambda: json.dumps(
                [{"input": r["query_id"], "retrieval_context": [{"id": i} for i in r["ids"]]} for r in RETRIEVED]
            )
        ),
    ),
    "mlflow": (
        "mlflow",
        text_file(
            lambda: jsonl(
                [
                    {"inputs": {"question": r["query_id"]}, "expectations": {}, "outputs": {"retrieved_ids": r["ids"]}}
                    for r in RETRIEVED
                ]
            )
        ),
    ),
    "langsmith experiment": (
        "langsmith",
        text_file(
            lambda: jsonl(
                [
                    {"inputs": {"q": r["query_id"]}, "reference": {}, "outputs": {"documents": r["ids"]}}
                    for r in RETRIEVED
                ]
            )
        ),
    ),
    "promptfoo results": ("promptfoo", text_file(lambda: json.dumps({"results": {"results": RESULTS}}, indent=2))),
    "promptfoo results, jsonl": ("promptfoo", text_file(lambda: jsonl(RESULTS))),
    "rank-eval response": ("rank-eval", text_file(lambda: json.dumps(RESPONSE, indent=2))),
    "quepid snapshot": (
        "quepid",
        text_file(
            lambda: (
                "Snapshot Name,Snapshot Time,Case ID,Query Text,Doc ID,Doc Position\n"
                + "".join(f"new,2026,7,{q},{i},{r}\n" for q, i, _, r in HIT_ROWS)
            )
        ),
    ),
    "folder of parquet": ("table-folder", parquet_folder(HIT_TABLE)),
    "traces": ("traces", text_file(lambda: jsonl([span(*one) for one in HITS.items()]))),
    "traces, indented": ("traces", text_file(lambda: json.dumps([span(*one) for one in HITS.items()], indent=2))),
}
GOLD_FILES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "jsonl": ("gold", text_file(lambda: jsonl(ENTRIES))),
    "jsonl of objects": (
        "gold",
        text_file(
            lambda: jsonl(
                [
                    {"query_id": q, "gold": [{"chunk_id": i, "grade": g} for i, g in items.items()]}
                    for q, items in GRADES.items()
                ]
            )
        ),
    ),
    "jsonl with a header": ("gold", text_file(lambda: jsonl([{"dataset_version": "v1"}, *ENTRIES]))),
    "json list": ("gold", text_file(lambda: json.dumps(ENTRIES))),
    "json list, indented": ("gold", text_file(lambda: json.dumps(ENTRIES, indent=2))),
    "json mapping": ("gold", text_file(lambda: json.dumps({"queries": ENTRIES}))),
    "json mapping, indented": ("gold", text_file(lambda: json.dumps({"queries": ENTRIES}, indent=2))),
    "yaml": ("gold", text_file(yaml_gold)),
    "yaml mapping": ("gold", text_file(lambda: yaml_gold("dataset_version: v1\nqueries:\n"))),
    "samples, json": ("samples", text_file(lambda: json.dumps(SAMPLES))),
    "samples, json, indented": ("samples", text_file(lambda: json.dumps(SAMPLES, indent=2))),
    "samples, jsonl": ("samples", text_file(lambda: jsonl(SAMPLES["samples"]))),
    "samples, yaml": (
        "samples",
        text_file(
            lambda: (
                "samples:\n" + "".join(f"- id: {q}\n  expected_output: {json.dumps(i)}\n" for q, i in GRADES.items())
            )
        ),
    ),
    "json dict": ("dict", text_file(lambda: json.dumps(GRADES))),
    "json dict, indented": ("dict", text_file(lambda: json.dumps(GRADES, indent=2))),
    "qrels": ("trec-qrels", text_file(lambda: "".join(f"{q} 0 {i} {g}\n" for q, i, g in GRADE_ROWS))),
    "beir": ("beir", beir),
    "mteb": ("mteb", mteb),
    "mlflow": (
        "mlflow",
        text_file(
            lambda: json.dumps([{"inputs": {"q": q}, "expectations": {"gold": items}} for q, items in GRADES.items()])
        ),
    ),
    "langsmith": (
        "langsmith",
        text_file(
            lambda: jsonl([{"id": q, "inputs": {"q": "?"}, "outputs": {"gold": items}} for q, items in GRADES.items()])
        ),
    ),
    "promptfoo, json": ("promptfoo", text_file(lambda: json.dumps(TESTS))),
    "promptfoo, yaml": (
        "promptfoo",
        text_file(
            lambda: (
                "tests:\n"
                + "".join(f"- vars: {json.dumps(t['vars'])}\n  metadata: {json.dumps(t['metadata'])}\n" for t in TESTS)
            )
        ),
    ),
    "rank-eval request": ("rank-eval", text_file(lambda: json.dumps({"requests": REQUESTS}))),
    "quepid": (
        "quepid",
        text_file(lambda: "query,docid,rating\n" + "".join(f"{q},{i},{g}\n" for q, i, g in GRADE_ROWS)),
    ),
    "quepid, json": (
        "quepid",
        text_file(
            lambda: json.dumps(
                {
                    "case_name": "c",
                    "queries": [
                        {"query_text": q, "ratings": [{"doc_id": i, "rating": g} for i, g in items.items()]}
                        for q, items in GRADES.items()
                    ],
                },
                indent=1,
            )
        ),
    ),
    "quepid book": (
        "quepid",
        text_file(lambda: "query,docid,Ann Lee,Anonymous\n" + "".join(f"{q},{i},{g}.0,\n" for q, i, g in GRADE_ROWS)),
    ),
    "quepid book, json": (
        "quepid",
        text_file(
            lambda: json.dumps(
                {
                    "name": "b",
                    "scale": [0, 1, 2],
                    "query_doc_pairs": [
                        {"query_text": q, "doc_id": i, "position": 1, "judgements": [{"rating": float(g)}]}
                        for q, i, g in GRADE_ROWS
                    ],
                }
            )
        ),
    ),
    "quepid for RRE": (
        "quepid",
        text_file(
            lambda: json.dumps(
                {
                    "index": "x",
                    "queries": [
                        {
                            "placeholders": {"$query": q},
                            "relevant_documents": {i: {"gain": g} for i, g in items.items()},
                        }
                        for q, items in GRADES.items()
                    ],
                }
            )
        ),
    ),
    "csv": ("table", text_file(lambda: table(GRADE_TABLE, ","))),
    "tsv": ("table", text_file(lambda: table(GRADE_TABLE, "\t"))),
    "parquet": ("table", parquet(GRADE_TABLE)),
}
RUNS_IN_MEMORY: dict[str, Any] = {
    "records": RECORDS,
    "dict": SCORE_DICT,
    "dict of lists": ID_DICT,
    "dict of pairs": HITS,
    "polars": pl.DataFrame(HIT_TABLE),
    "lazy": pl.LazyFrame(HIT_TABLE),
    "pandas": pd.DataFrame(HIT_TABLE),
    "arrow": pa.table(HIT_TABLE),
}
GOLDS_IN_MEMORY: dict[str, Any] = {
    "entries": ENTRIES,
    "dict": GRADES,
    "polars": pl.DataFrame(GRADE_TABLE),
    "lazy": pl.LazyFrame(GRADE_TABLE),
    "pandas": pd.DataFrame(GRADE_TABLE),
    "arrow": pa.table(GRADE_TABLE),
}


def check(run: Any, gold: Any) -> None:
    result = karat.evaluate(run, gold, METRICS)
    for metric, values in EXPECTED.items():
        assert result.score(metric) == pytest.approx(values), metric
    assert {e.code: e.count for e in result.audit} == AUDIT


@pytest.mark.parametrize(("name", "make"), RUN_FILES.values(), ids=RUN_FILES.keys())
def test_every_run_file_is_recognised_and_scores_the_same(
    tmp_path: Path, name: str, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    assert find_format(Source(path), "run").name == name
    check(path, GRADES)
    check(karat.read_run(path, format=name), GRADES)
    check(karat.read_run(str(path)), GRADES)


@pytest.mark.parametrize(("name", "make"), GOLD_FILES.values(), ids=GOLD_FILES.keys())
def test_every_gold_file_is_recognised_and_scores_the_same(
    tmp_path: Path, name: str, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    assert find_format(Source(path), "gold").name == name
    check(SCORE_DICT, path)
    check(SCORE_DICT, karat.read_gold(path, format=name))
    check(SCORE_DICT, karat.read_gold(str(path)))


@pytest.mark.parametrize("run", RUNS_IN_MEMORY.values(), ids=RUNS_IN_MEMORY.keys())
def test_every_run_in_memory_scores_the_same(run: Any) -> None:
    check(run, GRADES)
    check(karat.read_run(run), karat.read_gold(GRADES))


@pytest.mark.parametrize("gold", GOLDS_IN_MEMORY.values(), ids=GOLDS_IN_MEMORY.keys())
def test_every_gold_in_memory_scores_the_same(gold: Any) -> None:
    check(SCORE_DICT, gold)


@pytest.mark.parametrize("run_name", ["run log", "trec", "csv", "parquet", "sample outputs"])
@pytest.mark.parametrize("gold_name", ["yaml", "qrels", "tsv", "beir", "samples, json"])
def test_any_run_goes_with_any_gold(tmp_path: Path, run_name: str, gold_name: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "gold").mkdir()
    check(RUN_FILES[run_name][1](tmp_path / "run"), GOLD_FILES[gold_name][1](tmp_path / "gold"))


def test_every_built_in_format_is_tested_here() -> None:
    tested = {name for name, _ in (*RUN_FILES.values(), *GOLD_FILES.values())}
    assert tested == set(REGISTRY.builtin())


@pytest.mark.parametrize("head", ["\n\n", "  \n\n"])
def test_blank_lines_at_the_top_do_not_hide_the_format(tmp_path: Path, head: str) -> None:
    path = tmp_path / "data"
    path.write_text(head + jsonl(RECORDS))
    check(path, GRADES)


def test_a_word_of_one_format_in_the_text_of_another_does_not_mislead(tmp_path: Path) -> None:
    run, gold = tmp_path / "run", tmp_path / "gold"
    run.write_text(jsonl([{**RECORDS[0], "query": '"samples": [] "gold": query_id, actualOutput'}, *RECORDS[1:]]))
    gold.write_text(jsonl([{**ENTRIES[0], "query": '"samples": "topk":\nsamples:'}, *ENTRIES[1:]]))
    assert find_format(Source(run), "run").name == "run-log"
    assert find_format(Source(gold), "gold").name == "gold"
    check(run, gold)


def test_yaml_gold_with_a_text_that_speaks_of_samples(tmp_path: Path) -> None:
    path = tmp_path / "gold.yaml"
    path.write_text(yaml_gold() + "- query_id: q0\n  no_answer: true\n  answer: |\n    samples:\n    - none\n")
    assert find_format(Source(path), "gold").name == "gold"


@pytest.mark.parametrize("name", ["trec", "treck-run", "csv", "jsonl"])
def test_a_name_that_no_format_has_is_refused_with_those_that_exist(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data"
    path.write_text("q1 Q0 a 1 1 t\n")
    with refused("unknown-format", UnknownName, name=name) as caught:
        karat.read_run(path, format=name)
    assert caught.value.exit_code == 2
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "name"),
    [("run", "gold"), ("run", "trec-qrels"), ("run", "beir"), ("gold", "run-log"), ("gold", "trec-run")],
)
def test_a_format_of_the_other_kind_is_refused_with_those_that_fit(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "data"
    path.write_text("q1 0 a 1\n")
    read = karat.read_run if kind == "run" else karat.read_gold
    with refused("wrong-format", InputError, file=path) as caught:
        read(path, format=name)
    assert name in caught.value.what
    assert all(known in caught.value.hint for known in ("dict", "samples", "table"))


@pytest.mark.parametrize(
    "text", ["hello world\n", "1 2 3\n", "a,b,c\n1,2,3\n", "[1, 2]\n", '{"a": 1}\n', "<html></html>\n"]
)
def test_what_nothing_recognises_is_refused_with_what_was_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data"
    path.write_text(text)
    for read in (karat.read_run, karat.read_gold):
        with refused("unrecognised", InputError, file=path) as caught:
            read(path)
        assert caught.value.hint
        assert text.strip().splitlines()[0] in str(caught.value)


def test_a_first_line_unlike_the_others_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"a": ["x"]}\n{"query_id": "q1", "topk": ["d1"]}\n{"query_id": "q2", "topk": ["d2"]}\n')
    with refused("unrecognised", InputError, file=path, line=1):
        karat.read_run(path)


@pytest.mark.parametrize("run_name", ["run log", "trec", "csv"])
def test_a_run_given_as_gold_is_not_taken_for_gold(tmp_path: Path, run_name: str) -> None:
    """Hits with a score look like judgements with a grade, and every hit would count as relevant."""
    path = RUN_FILES[run_name][1](tmp_path)
    if run_name == "csv":
        path.write_text(table({**HIT_TABLE, "rank": [r[3] for r in HIT_ROWS]}, ","))
    with pytest.raises(InputError):
        karat.read_gold(path)


@pytest.mark.parametrize("gold_name", ["jsonl", "yaml", "qrels", "json list", "samples, json"])
def test_gold_given_as_a_run_is_not_taken_for_a_run(tmp_path: Path, gold_name: str) -> None:
    with pytest.raises(InputError):
        karat.evaluate(GOLD_FILES[gold_name][1](tmp_path), GRADES)


@pytest.mark.parametrize("gold_name", ["jsonl", "yaml", "qrels", "tsv", "parquet", "beir", "samples, json"])
def test_gold_given_as_a_run_is_called_so(tmp_path: Path, gold_name: str) -> None:
    with refused("swapped", InputError):
        karat.read_run(GOLD_FILES[gold_name][1](tmp_path))


def test_a_frame_of_gold_given_as_a_run_is_called_so() -> None:
    with refused("swapped", InputError):
        karat.evaluate(pl.DataFrame(GRADE_TABLE), GRADES)


@pytest.mark.parametrize("run_name", ["run log", "trec", "csv", "parquet", "sample outputs"])
def test_a_run_given_as_gold_is_called_so(tmp_path: Path, run_name: str) -> None:
    path = RUN_FILES[run_name][1](tmp_path)
    ranked = {**HIT_TABLE, "rank": [r[3] for r in HIT_ROWS]}
    if run_name == "csv":
        path.write_text(table(ranked, ","))
    if run_name == "parquet":
        parquet(ranked)(tmp_path)
    with refused("swapped", InputError):
        karat.read_gold(path)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_saved_result_is_called_so(tmp_path: Path, copies: int) -> None:
    from karat.report.export import to_json

    path = tmp_path / "result.json"
    path.write_bytes(to_json([karat.evaluate(SCORE_DICT, GRADES)] * copies))
    for read in (karat.read_run, karat.read_gold):
        with refused("saved-result", InputError):
            read(path)


def test_a_table_without_the_columns_says_which_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("name,mail,phone\na,b,c\n")
    with refused("unrecognised", InputError) as caught:
        karat.read_run(path)
    assert all(name in caught.value.hint for name in ("query_id", "chunk_id", "doc_id", "rank", "score"))
    path.write_text("question,passage,value\nq1,a,1\n")
    with refused("unrecognised", InputError) as caught:
        karat.read_gold(path)
    assert all(name in caught.value.hint for name in ("--map", "query_id=question", "chunk_id=passage"))


@pytest.mark.parametrize(
    ("lines", "kind", "code", "hinted"),
    [
        ([{"query_id": "q1", "top_k": ["a"]}], "run", "unrecognised", "--map topk=top_k"),
        ([RECORDS[0], {"query_id": "q2", "topK": ["a"]}], "run", "missing-field", "topk 'topK'"),
        ([{"queryId": "q1", "topk": ["a"]}], "run", "missing-field", "query_id 'queryId'"),
        ([{"query_id": "q1", "results": ["a"]}], "run", "unrecognised", "topk results"),
        ([{"query_id": "q1", "hits": ["a"], "answer": "b"}], "run", "unrecognised", "--map topk=hits"),
        ([{"query_id": "q1", "topk": ["a"], "answer": "b"}], "gold", "swapped", ""),
        ([{"query_id": "q1", "golds": ["a"]}], "gold", "nothing-to-find", "gold 'golds'"),
        ([ENTRIES[0], {"query-id": "q1", "gold": ["a"]}], "gold", "missing-field", "query_id 'query-id'"),
        ([{"qid": "q1", "expected": ["a"]}], "gold", "unrecognised", "gold qid expected"),
    ],
)
def test_a_needed_field_with_another_spelling_is_hinted_at(
    tmp_path: Path, lines: list[Any], kind: str, code: str, hinted: str
) -> None:
    path = tmp_path / "data"
    path.write_text(jsonl(lines))
    with refused(code, InputError) as caught:
        karat.evaluate(path, GRADES) if kind == "run" else karat.read_gold(path)
    assert all(name in caught.value.hint for name in hinted.split())


def test_a_missing_field_that_nothing_resembles_gets_no_hint(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text(jsonl([RECORDS[0], {"query_id": "q2", "latency_ms": {}}]))
    with refused("missing-field", InputError, field="topk", hint=None):
        karat.evaluate(path, GRADES)


def test_a_labels_file_is_no_gold_set(tmp_path: Path) -> None:
    """Its lines would pass for a single-target set, and what was called irrelevant for a target."""
    path = tmp_path / "labels.jsonl"
    path.write_text('{"query_id": "q", "chunk_id": "a", "grade": 0, "annotator": "ann"}\n')
    with refused("labels-file", InputError):
        karat.read_gold(path)
