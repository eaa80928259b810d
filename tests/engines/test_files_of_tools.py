"""Files that installed versions of other tools write now, against the kept ones; and what these tools read of ours."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from files_of_tools import KEPT, SAMPLES, WRITERS, write_ragas

import karat
from karat.formats.convert import convert
from karat.formats.corpus import read_corpus
from karat.formats.gold_writer import gold_entry
from karat.formats.run_writer import run_records

GOLD = [
    {
        "query_id": "q1",
        "query": "How do I clean it?",
        "gold": {"a": 1, "b": 1},
        "evidence": ["Rinse it"],
        "answer": "x",
    },
    {"query_id": "q2", "query": "Who?", "gold": {"c": 1}},
]
RUN = [
    {"query_id": "q1", "topk": [{"chunk_id": "b", "text": "Rinse it."}, {"chunk_id": "z", "text": "No"}]},
    {"query_id": "q2", "topk": [{"chunk_id": "c", "text": "Anna"}]},
]


def lines(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize("tool", WRITERS)
def test_what_a_tool_writes_reads_like_the_kept_copy(tool: str, tmp_path: Path) -> None:
    WRITERS[tool](tmp_path)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert made == sorted(path.relative_to(KEPT) for path in KEPT.iterdir() if path.name.startswith(tool))
    for name in made:
        now, kept = karat.read_gold(tmp_path / name), karat.read_gold(KEPT / name)
        assert [gold_entry(now, at, {}) for at in range(3)] == [gold_entry(kept, at, {}) for at in range(3)]
        if tool not in ("langsmith", "mteb"):
            found = [list(run_records(karat.read_run(folder / name))) for folder in (tmp_path, KEPT)]
            assert found[0] == found[1]
        if os.environ.get("KARAT_UPDATE_GOLDEN"):
            copy = shutil.copytree if (tmp_path / name).is_dir() else shutil.copyfile
            copy(tmp_path / name, KEPT / name, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))


def test_ragas_reads_what_is_converted(tmp_path: Path) -> None:
    write_ragas(tmp_path)  # imports it
    from ragas import EvaluationDataset

    run, gold = lines(tmp_path / "run.jsonl", RUN), lines(tmp_path / "gold.jsonl", GOLD)
    convert(run, str(tmp_path / "samples.jsonl"), to="ragas", gold=gold)
    first, second = EvaluationDataset.from_jsonl(tmp_path / "samples.jsonl").samples
    assert (first.user_input, first.retrieved_context_ids) == (GOLD[0]["query"], ["b", "z"])
    assert (first.retrieved_contexts, first.reference_contexts) == (["Rinse it.", "No"], ["Rinse it"])
    assert (first.reference, second.reference_context_ids) == ("x", ["c"])


def test_deepeval_reads_what_is_converted(tmp_path: Path) -> None:
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
    from deepeval.dataset import EvaluationDataset

    run, gold = lines(tmp_path / "run.jsonl", RUN), lines(tmp_path / "gold.jsonl", GOLD)
    convert(run, str(tmp_path / "cases.json"), to="deepeval", gold=gold)
    read = EvaluationDataset()
    read.add_goldens_from_json_file(str(tmp_path / "cases.json"))
    first = read.goldens[0]
    assert (first.input, first.retrieval_context) == (GOLD[0]["query"], ["Rinse it.", "No"])
    assert (first.context, first.expected_output) == (["Rinse it"], "x")
    read.save_as("json", str(tmp_path), file_name="back")
    assert karat.read_gold(tmp_path / "back.json").ids == ["a", "b", "c"]


def test_elasticsearch_takes_the_request(tmp_path: Path) -> None:
    """The official client passes the body on; a transport without a server shows what it sends."""
    from elasticsearch import Elasticsearch

    convert(lines(tmp_path / "gold.jsonl", [GOLD[1]]), str(tmp_path / "body.json"), to="rank-eval", index="docs")
    body = json.loads((tmp_path / "body.json").read_text())
    client = Elasticsearch("http://localhost:1")
    sent: list[object] = []
    client.perform_request = lambda *args, **more: sent.append(more["body"])  # type: ignore[method-assign]
    client.rank_eval(index="docs", **body)
    assert sent == [body]


def test_ir_datasets_by_name(tmp_path: Path) -> None:
    import ir_datasets
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    def local(name: str, text: str) -> LocalDownload:
        (tmp_path / name).write_text(text)
        return LocalDownload(tmp_path / name)

    texts = {name: text for one in SAMPLES for name, text in zip(one["ids"], one["texts"], strict=True)}
    documents = "".join(f"{name}\t{' '.join(text.split())}\n" for name, text in texts.items())
    queries = "".join(f"q{at}\t{one['query']}\n" for at, one in enumerate(SAMPLES))
    qrels = "".join(f"q{at} 0 {name} 1\n" for at, one in enumerate(SAMPLES) for name in one["relevant"])
    parts = (
        TsvDocs(local("docs.tsv", documents)),
        TsvQueries(local("queries.tsv", queries)),
        TrecQrels(local("qrels", qrels), {1: "relevant"}),
    )
    ir_datasets.registry.register("karat-test", Dataset(*parts))
    gold = karat.read_gold("ir_datasets:karat-test")
    assert [gold.text(at) for at in range(3)] == [one["query"] for one in SAMPLES]
    assert gold.ids == [name for one in SAMPLES for name in one["relevant"]]
    assert set(read_corpus("ir_datasets:karat-test").ids) == set(texts)
