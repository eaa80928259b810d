"""Files of other tools, as those tools write them: kept copies, other forms of the same, and invalid ones."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from files_of_tools import KEPT, SAMPLES
from refusals import refused

import karat
from karat.errors import KaratError
from karat.formats.base import Source
from karat.formats.corpus import read_corpus
from karat.formats.read import find_format, find_kind
from karat.labels.files import read_labels

QUERIES = [one["query"] for one in SAMPLES]
BOTH = ["ragas.jsonl", "ragas.csv", "ragas.parquet", "deepeval.json", "deepeval.jsonl", "deepeval.csv", "mlflow.json"]


def lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def document(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, indent=1))
    return path


@pytest.mark.parametrize("name", [*BOTH, "deepeval_cases.json"])
def test_a_file_of_samples_is_both_run_and_gold(name: str) -> None:
    path = KEPT / name
    tool = name.partition(".")[0].partition("_")[0]
    assert [find_format(Source(path), kind).name for kind in ("run", "gold")] == [tool, tool]
    assert find_kind(Source(path))[:2] == ("run", tool)
    result = karat.evaluate(path, path, ["recall@1", "recall@2", "mrr"])
    assert list(result.score("recall@2").values()) == [1, 1, 0]
    assert list(result.score("recall@1").values()) == [1, 0, 0]
    evidence = karat.evaluate(path, path, ["evidence_recall@2"])
    assert list(evidence.score("evidence_recall@2").values()) == [1, 1, 0]


@pytest.mark.parametrize("name", [*BOTH, "deepeval_cases.json", "langsmith.jsonl"])
def test_questions_evidence_and_answers_are_read(name: str) -> None:
    gold = karat.read_gold(KEPT / name)
    assert [gold.text(at) for at in range(3)] == QUERIES
    assert gold.fields["evidence"] == [one["evidence"] for one in SAMPLES]
    assert gold.fields["answer"] == [one["answer"] for one in SAMPLES]
    assert gold.ids == [name for one in SAMPLES for name in one["relevant"]]


def test_ids_of_examples_and_records_are_the_ids_of_queries() -> None:
    assert karat.read_gold(KEPT / "langsmith.jsonl").queries[0] == "00000000-0000-0000-0000-000000000001"
    assert karat.read_gold(KEPT / "langsmith.jsonl").tags["source"] == ["manual"] * 3
    assert karat.read_gold(KEPT / "mlflow.json").queries == ["dr-0", "dr-1", "dr-2"]
    assert karat.read_gold(KEPT / "ragas.csv").queries == QUERIES


@pytest.mark.parametrize("uri", ["returns#p2", "returns", "s3://kb/returns.md"])
def test_expected_documents_of_mlflow_may_be_chunks(tmp_path: Path, uri: str, karat_command: Any) -> None:
    expected = {"expected_retrieved_context": [{"doc_uri": uri}]}
    gold = lines(tmp_path / "dataset.jsonl", [{"inputs": {"question": "who?"}, "expectations": expected}])
    of_document = {"chunk_id": "c7", "doc_id": uri}
    for at, hit in enumerate([{"chunk_id": uri}] if "#" in uri else [{"chunk_id": uri}, of_document]):
        run = lines(tmp_path / f"run{at}.jsonl", [{"query": "who?", "topk": [hit]}])
        _, printed, _ = karat_command("eval", str(run), "--gold", str(gold), "-m", "recall@5", "--json")
        assert json.loads(printed)["summary"][0]["mean"] == 1.0


def test_a_hugging_face_folder_has_gold_and_a_corpus(karat_command: Any) -> None:
    folder = KEPT / "mteb"
    gold, corpus = karat.read_gold(folder), read_corpus(folder)
    assert [gold.text(at) for at in range(3)] == QUERIES
    assert set(corpus.ids) == {name for one in SAMPLES for name in one["ids"]}
    _, printed, _ = karat_command("check", str(folder))
    assert "mteb" in printed
    assert find_kind(Source(folder))[:2] == ("gold", "mteb")


@pytest.mark.parametrize("layout", ["qrels/train-00000-of-00001.parquet", "qrels.parquet", "de-qrels/train.parquet"])
def test_other_layouts_of_hugging_face_folders(tmp_path: Path, layout: str) -> None:
    (tmp_path / layout).parent.mkdir(exist_ok=True)
    pl.DataFrame({"query-id": [1, 1, 2], "corpus-id": ["a", "b", "c"]}).write_parquet(tmp_path / layout)
    subset = "de-" if layout.startswith("de-") else ""
    (tmp_path / f"{subset}queries").mkdir()
    (tmp_path / f"{subset}queries" / "train.jsonl").write_text(
        '{"id": 1, "query": "who?"}\n{"id": 2, "query": "how"}\n'
    )
    if layout != "qrels.parquet":
        with refused("unknown-split"):
            karat.read_gold(tmp_path)
    split = "test" if layout == "qrels.parquet" else "de/train" if subset else "train"
    gold = karat.read_gold(tmp_path, split=split)
    assert (gold.queries, gold.ids, gold.fields["query"]) == (["1", "2"], ["a", "b", "c"], ["who?", "how"])


@pytest.mark.parametrize("name", ["goldens.csv", "goldens.json"])
def test_goldens_without_retrieved_texts_are_gold(tmp_path: Path, name: str) -> None:
    golden = {"input": "who?", "retrieval_context": None, "context": ["Anna"], "source_file": None}
    path = document(tmp_path / name, [golden])
    if name.endswith(".csv"):
        path.write_text("input,retrieval_context,context,source_file\nwho?,,Anna|Bert,\n")
    assert find_kind(Source(path))[:2] == ("gold", "deepeval")
    assert karat.read_gold(path).fields["evidence"][0][0] == "Anna"


def test_other_names_and_shapes_of_the_same(tmp_path: Path) -> None:
    """Old names of ragas, test runs of deepeval, chat messages, tables of experiments, documents of LangChain."""
    old = lines(tmp_path / "old", [{"question": "who?", "contexts": ["x y"], "answer": "n", "ground_truths": ["Anna"]}])
    assert karat.read_gold(old).fields["answer"] == ["Anna"]
    case = {
        "input": "who?",
        "actualOutput": "x",
        "retrievalContext": ["Anna"],
        "context": ["Anna"],
        "completionTime": 2,
    }
    cases = document(tmp_path / "cases", {"testCases": [case]})
    assert karat.evaluate(cases, cases, ["latency_p50"]).means["latency_p50"] == 2000
    chat = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "who?"}]}
    asked = lines(tmp_path / "chat", [{"inputs": chat, "expectations": {"expected_response": "Anna"}}])
    assert karat.read_gold(asked).queries == ["who?"]
    table = tmp_path / "table"
    table.write_text(
        'inputs.question,outputs.documents,reference.doc_ids,execution_time\nwho?,"[""a"", ""b""]",b,0.5\n'
    )
    assert karat.evaluate(table, table, ["mrr"]).means["mrr"] == 0.5
    found = {"page_content": "Anna does", "metadata": {"source": "a.md", "score": 0.5}, "type": "Document"}
    run = lines(tmp_path / "run", [{"example_id": "e", "inputs": {"q": "?"}, "outputs": {"documents": [found]}}])
    assert karat.evaluate(run, {"e": ["a.md"]}, ["mrr"]).means["mrr"] == 1


def test_results_of_promptfoo_have_systems_errors_and_times(tmp_path: Path) -> None:
    def row(query: str, provider: str, prompt: str, **more: Any) -> dict[str, Any]:
        test = {"vars": {"query": query}, "assert": [{"type": "contains", "value": "six weeks"}]}
        named = {"provider": {"id": "x", "label": provider}, "prompt": {"raw": "r", "label": prompt}}
        return {"vars": {"query": query}, "testCase": test, "latencyMs": 7, **named, **more}

    context = {"response": {"output": {"answer": "…", "context": ["It is six weeks long."]}}}
    rows = [row("q", "a", "p1", **context), row("q", "a", "p2", error="timeout"), row("q", "b", "p1", **context)]
    path = document(tmp_path / "out.json", {"evalId": "e", "results": {"version": 3, "results": rows}})
    found = karat.evaluate(path, path, ["evidence_recall@1", "latency_p50"])
    means = {name: result.means for name, result in found.items()}
    assert means["b"] == {"evidence_recall@1": 1, "latency_p50": 7}
    assert (means["a · p1"]["evidence_recall@1"], means["a · p2"]["evidence_recall@1"]) == (1, 0)


def test_assertions_of_a_table_of_promptfoo(tmp_path: Path) -> None:
    path = tmp_path / "tests.csv"
    path.write_text(
        "question,__expected1,__expected2,__metadata:area\n"
        'How long?,"contains-all:six weeks, ""paid, leave""",context-recall(0.9): Six weeks,hr\n'
        "Who?,Anna,,it\n"
    )
    gold = karat.read_gold(path)
    assert gold.fields["evidence"] == [["six weeks", "paid, leave"], None]
    assert gold.fields["answer"] == ["Six weeks", "Anna"]
    assert gold.tags["area"] == ["hr", "it"]


def promptfoo_result(query: str, output: Any, reason: int = 0, error: str | None = None) -> dict[str, Any]:
    """An entry of `results.results` as promptfoo writes it (version 3 of its files)."""
    test = {"vars": {"question": query}, "assert": [], "options": {}, "metadata": {"gold": ["d1"]}}
    return {
        "cost": 0,
        "error": error,
        "gradingResult": {"pass": not reason, "score": 1, "reason": error or "All assertions passed"},
        "id": query,
        "latencyMs": 12,
        "namedScores": {},
        "prompt": {"raw": query, "label": "{{question}}"},
        "promptId": "p",
        "promptIdx": 0,
        "provider": {"id": "file://rag.py", "label": ""},
        "response": {"output": output, "tokenUsage": {}, "cached": False},
        "score": 1,
        "success": not reason,
        "testCase": test,
        "testIdx": 0,
        "vars": {"question": query},
        "metadata": {},
        "failureReason": reason,
    }


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "indented"])
def test_results_of_promptfoo_in_one_line_and_indented(tmp_path: Path, indent: int | None, karat_command: Any) -> None:
    found = {"answer": "x", "documents": [{"id": "d9"}, {"id": "d1"}]}
    results = [
        promptfoo_result("a", json.dumps(found)),
        promptfoo_result("b", found, 1, "Expected output to contain"),  # an assertion failed, and not the search
    ]
    prompts = [{"raw": "{{question}}", "provider": "file://rag.py"}]
    listed = {"version": 3, "timestamp": "2026", "prompts": prompts, "results": results, "stats": {}}
    whole = {"evalId": "e", "results": listed, "config": {"tests": [{"vars": {}}]}, "shareableUrl": None}
    path = tmp_path / "results.json"
    path.write_text(json.dumps(whole, indent=indent))
    code, printed, _ = karat_command("eval", str(path), "--gold", str(path), "-m", "mrr", "--json")
    assert code == 0
    assert json.loads(printed)["scores"] == {"a": {"mrr": 0.5}, "b": {"mrr": 0.5}}
    path.write_text(json.dumps([promptfoo_result("a", "only an answer", 1, "Expected output to contain")]))
    with refused("missing-field"):
        karat.evaluate(path, path)


def test_tests_of_promptfoo_with_variables_sets_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(
        "prompts: ['{{question}}']\n"
        "defaultTest:\n"
        "  vars: {unit: days}\n"
        "  metadata: {area: refunds}\n"
        "  assert: [{type: contains, value: '{{expected}} {{ unit }}'}]\n"
        "tests:\n"
        "- vars: {question: a, expected: 90}\n"
        "  assert: [{type: assert-set, assert: [{type: icontains, value: card}]}, {type: contains, value: 'file://x.js'}]\n"
        "- vars: {question: b}\n"
        "  assert: [{type: context-recall, value: 'It is {{question}}'}]\n"
    )
    gold = karat.read_gold(path)
    assert gold.fields["evidence"] == [["card", "90 days"], None]  # without `expected`, there is nothing to look for
    assert gold.fields["answer"] == [None, "It is b"]
    assert gold.tags["area"] == ["refunds"] * 2


def test_quepid_escapes_and_empty_ratings(tmp_path: Path) -> None:
    path = tmp_path / "case.csv"
    path.write_text("query,docid,rating\n =sum,d1,3\n =sum,d2,\nnothing,,\n")
    gold = karat.read_gold(path)
    assert (gold.queries, gold.ids) == (["=sum", "nothing"], ["d1"])


BOOK = {  # as Quepid's `api/v1/export/books` writes it
    "name": "Book",
    "show_rank": False,
    "support_implicit_judgements": False,
    "scale": [0, 1, 2, 3],
    "scale_with_labels": {"0": "Poor", "3": "Perfect"},
    "query_doc_pairs": [
        {
            "query_text": "star wars",
            "doc_id": doc,
            "position": None,
            "document_fields": {"title": "A film"},
            "information_need": "Films of the series",
            "notes": None,
            "options": {},
            "judgements": [
                {"rating": rating, "unrateable": rating is None, "judge_later": False, "explanation": None}
                | ({"user_email": person} if person else {})
                for person, rating in given
            ],
        }
        for doc, given in (
            ("11", [("ann", 3.0), ("ben", 2.0)]),
            ("12", [("ann", 0.0), (None, None)]),
            ("13", [("ann", 3.0), ("ben", 3.0), ("eve", 1.0), ("dan", 2.0)]),
            ("14", [("ann", None)]),
        )
    ],
}
BOOK_CSV = """query,docid,Ann Lee,Ben,Eve,Dan,Anonymous
star wars,11,3.0,2.0,,,
star wars,12,0.0,,,,
star wars,13,3.0,3.0,1.0,2.0,
"""


@pytest.mark.parametrize("name", ["book.json", "book.csv"])
def test_a_book_of_quepid_has_one_rating_per_document(tmp_path: Path, name: str, karat_command: Any) -> None:
    """Two people: the mean, rounded. More: the lowest of the three highest. Rated 0 is not relevant."""
    path = tmp_path / name
    path.write_text(json.dumps(BOOK) if name.endswith(".json") else BOOK_CSV)
    gold = karat.read_gold(path)
    assert dict(zip(gold.ids, gold.grades.tolist(), strict=True)) == {"11": 3.0, "12": 0.0, "13": 2.0}
    run = lines(tmp_path / "run.jsonl", [{"query_id": "star wars", "topk": ["12", "13", "11"]}])
    _, printed, _ = karat_command("eval", str(run), "--gold", str(path), "-m", "mrr", "--json")
    assert json.loads(printed)["summary"][0]["mean"] == 0.5


@pytest.mark.parametrize("name", ["book.json", "book.csv"])
def test_people_of_a_book_are_annotators(tmp_path: Path, name: str, karat_command: Any) -> None:
    path, settled = tmp_path / name, tmp_path / "settled.jsonl"
    path.write_text(json.dumps(BOOK) if name.endswith(".json") else BOOK_CSV)
    arguments = ("--max-grade", "3", "-o", str(settled), "--json")
    code, printed, _ = karat_command("labels", "agree", str(path), *arguments)
    assert code == 0
    assert len(json.loads(printed)["annotators"]) == (5 if name == "book.json" else 4)
    labels = {one["chunk_id"]: one["grade"] for one in map(json.loads, settled.read_text().splitlines())}
    assert (labels["11"], labels["12"]) == (None, 0)  # a conflict, and one grade


@pytest.mark.parametrize(
    "table", ["query,docid,title\nq,a,7 films\n", "query,docid,rank\nq,a,1\n", "query,docid,k\nq,a,5\n"]
)
def test_other_tables_of_queries_and_documents_are_no_books(tmp_path: Path, table: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(table)
    assert find_kind(Source(path))[1] == "table"


def test_the_text_of_a_ranking_evaluation_is_found(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = [
        {"request": {"query": {"bool": {"must": [{"match": {"title": {"query": "how to"}}}]}}}},
        {"request": {"query": {"match": {"title": "how to"}}}},
        {"template_id": "t", "params": {"query_string": "how to"}},
    ]
    requests = [{"id": f"q{at}", "ratings": [{"_id": "a", "rating": 1}], **body} for at, body in enumerate(bodies)]
    gold = karat.read_gold(document(tmp_path / "body.json", {"requests": requests, "metric": {}}))
    assert gold.fields["query"] == ["how to"] * 3
    failed = {"metric_score": 0, "details": {"q0": {"hits": []}}, "failures": {"q1": {"error": {"type": "x"}}}}
    run = karat.read_run(document(tmp_path / "response.json", failed))
    assert {e.code: e.count for e in karat.evaluate(run, gold, ["mrr"]).audit}["missing_queries"] == 1


def test_qrels_are_labels(tmp_path: Path, karat_command: Any) -> None:
    path, gold = tmp_path / "anna.qrels", tmp_path / "gold.jsonl"
    path.write_text("q1 0 a 2\nq1 0 b -1\nq2 0 c 0\n")
    labels = read_labels(path)
    found = [(label.key.query, label.key.item, label.grade, label.annotator) for label in labels]
    assert found == [("q1", "a", 2, "anna"), ("q1", "b", None, "anna"), ("q2", "c", 0, "anna")]
    lines(gold, [{"query_id": "q1", "gold": {"z": 1}}, {"query_id": "q2", "gold": {"y": 1}}])
    merged = tmp_path / "new.jsonl"
    code, _, err = karat_command("labels", "merge", str(path), "--gold", str(gold), "-o", str(merged))
    assert code == 0, err
    assert set(karat.read_gold(merged).ids) == {"z", "a", "y", "c"}
    path.write_text("q1 0 a 3\n")
    with refused("bad-value") as error:
        read_labels(path)
    assert "--max-grade 3" in str(error.value.hint)
    path.write_text("q1 0 a 1\nq1 0 a\n")
    with refused("bad-row", line=2):
        read_labels(path)


def test_a_dataset_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the package; `make test-engines` uses the real one."""
    package = ModuleType("ir_datasets")
    exec(
        "from collections import namedtuple as n\n"
        "class D:\n"
        "    def has_queries(s): return True\n"
        "    has_qrels = has_docs = has_scoreddocs = has_queries\n"
        "    def queries_iter(s): return [n('Q', 'query_id text')('1', 'who')]\n"
        "    def qrels_iter(s): return [n('R', 'query_id doc_id relevance')('1', 'b', 2)]\n"
        "    def docs_iter(s): return [n('X', 'doc_id text')('b', 'Anna')]\n"
        "    def scoreddocs_iter(s): return [n('S', 'query_id doc_id score')('1', *x) for x in (('a', 2), ('b', 1))]\n"
        "def load(name):\n"
        "    if name == 'broken': raise OSError('no connection')\n"
        "    return {'set': D()}[name]\n",
        vars(package),
    )
    monkeypatch.setitem(sys.modules, "ir_datasets", package)
    gold = karat.read_gold("ir_datasets:set")
    assert (gold.queries, gold.ids, gold.fields["query"]) == (["1"], ["b"], ["who"])
    assert karat.evaluate("ir_datasets:set", "ir_datasets:set", ["mrr"]).means["mrr"] == 0.5
    assert read_corpus("ir_datasets:set").texts == ["Anna"]
    with refused("unknown-dataset"):
        karat.read_gold("ir_datasets:other")
    with refused("unavailable-dataset"):
        karat.read_gold("ir_datasets:broken")


RAGAS = {"user_input": "who?", "retrieved_contexts": ["a b"], "reference_contexts": ["a b"], "reference": "x"}
CASE = {"input": "who?", "retrieval_context": ["a"], "context": ["a"], "expected_output": "x"}
RESULT = {"vars": {"query": "who?"}, "response": {"output": ["a"]}}
RATED = {"requests": [{"id": "q", "request": {}, "ratings": [{"_id": "a", "rating": 1}]}]}
BAD: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "a conversation": (lambda p: lines(p, [RAGAS, {**RAGAS, "user_input": [{"content": "a"}]}]), "run", "multi-turn"),
    "ids and contexts of other lengths": (
        lambda p: lines(p, [RAGAS, {**RAGAS, "retrieved_context_ids": ["a", "b"]}]),
        "run",
        "contradiction",
    ),
    "no question": (lambda p: lines(p, [RAGAS, {**RAGAS, "user_input": 5}]), "gold", "missing-field"),
    "nothing retrieved": (lambda p: lines(p, [RAGAS, {**RAGAS, "retrieved_contexts": None}]), "run", "missing-field"),
    "a context of another type": (lambda p: document(p, [{**CASE, "retrieval_context": [["a"]]}]), "run", "wrong-type"),
    "the same question twice": (lambda p: document(p, [CASE, CASE]), "gold", "duplicate-query"),
    "a case that is no object": (lambda p: document(p, [CASE, 7]), "gold", "wrong-type"),
    "an output without documents": (
        lambda p: document(p, {"results": {"results": [RESULT, {**RESULT, "response": {"output": "text"}}]}}),
        "run",
        "missing-field",
    ),
    "tests elsewhere": (
        lambda p: p.write_text("prompts: [x]\ntests: file://x.csv\n") and p,
        "gold",
        "tests-elsewhere",
    ),
    "a rating without an id": (
        lambda p: document(p, {"requests": [{**RATED["requests"][0], "ratings": [{"rating": 1}]}]}),
        "gold",
        "wrong-type",
    ),
    "a request without an id": (lambda p: document(p, {"requests": [{"ratings": []}]}), "gold", "missing-field"),
    "hits that are none": (
        lambda p: document(p, {"metric_score": 0, "details": {"q": {"hits": [1]}}}),
        "run",
        "wrong-type",
    ),
    "a rating that is no number": (lambda p: p.write_text("query,docid,rating\nq,a,good\n") and p, "gold", "bad-value"),
    "two ratings": (lambda p: p.write_text("query,docid,rating\nq,a,1\nq,a,2\n") and p, "gold", "contradiction"),
    "a position that is none": (
        lambda p: p.write_text("Query Text,Doc ID,Doc Position\nq,a,x\n") and p,
        "run",
        "bad-value",
    ),
    "a query of Quepid without text": (
        lambda p: document(p, {"queries": [{"query": None, "ratings": {}}]}),
        "gold",
        "missing-text",
    ),
    "ratings of another type": (
        lambda p: document(p, {"queries": [{"query": "q", "ratings": 5}]}),
        "gold",
        "wrong-type",
    ),
    "cut off": (lambda p: p.write_bytes((KEPT / "deepeval.json").read_bytes()[:-40]) and p, "gold", "not-json"),
}


@pytest.mark.parametrize(("make", "kind", "code"), BAD.values(), ids=BAD.keys())
def test_invalid_files_are_refused_by_name(tmp_path: Path, make: Callable[[Path], Path], kind: str, code: str) -> None:
    path = make(tmp_path / "data")
    read: Any = karat.read_gold if kind == "gold" else lambda path: karat.evaluate(path, {"who?": ["a"]})
    with refused(code, file=path):
        read(path)


def test_a_damaged_table_of_a_hugging_face_folder(tmp_path: Path) -> None:
    folder = shutil.copytree(KEPT / "mteb", tmp_path / "mteb")
    qrels = folder / "data" / "test-00000-of-00001.parquet"
    pl.DataFrame({"query-id": ["q0"], "document": ["a"]}).write_parquet(qrels)
    with refused("missing-column"):
        karat.read_gold(folder)
    pl.DataFrame({"query-id": ["q0"], "corpus-id": ["a"], "score": ["high"]}).write_parquet(qrels)
    with refused("bad-value"):
        karat.read_gold(folder)
    qrels.write_bytes(b"PAR1" + b"x" * 100)
    with refused("unreadable-table"):
        karat.read_gold(folder)


@pytest.mark.parametrize("opening", ["[" * 60_000, '{"vars":' * 9_000, '[{"input": "x", "context": [' * 3_000])
def test_deeply_nested_json_is_refused(tmp_path: Path, opening: str) -> None:
    path = tmp_path / "deep"
    path.write_text(opening)
    for read in (karat.read_run, karat.read_gold):
        with pytest.raises(KaratError) as error:
            karat.evaluate(read(path), {"q": ["a"]})
        assert error.value.file == str(path)
