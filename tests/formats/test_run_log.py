"""Karat's own run log: every form of a hit, provenance, several systems, and large files."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.data.ids import as_list
from karat.data.prices import Usage
from karat.errors import InputError
from karat.formats import records as record_reader
from karat.formats import run_log
from karat.results.evaluate import evaluate_all
from karat.results.save import saved_form

pytestmark = pytest.mark.usefixtures("reader")

GOLD = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def columns_of(run: Any, *wanted: str) -> Any:
    """The hits of the first slice, with the columns that were asked for."""
    return next(karat.read_run(run).slices(frozenset(wanted), Audit()))


@pytest.mark.parametrize(
    "topk",
    [
        ["x", "a", "b"],
        [{"chunk_id": "x"}, {"chunk_id": "a"}, {"chunk_id": "b"}],
        [{"id": "x"}, {"id": "a"}, {"id": "b"}],
        [{"doc_id": "x"}, {"doc_id": "a"}, {"doc_id": "b"}],
        ["x", {"chunk_id": "a"}, {"id": "b"}],
        [{"chunk_id": "b", "rank": 3}, {"chunk_id": "x", "rank": 1}, {"chunk_id": "a", "rank": 2}],
        [{"chunk_id": "b", "score": 0.1}, {"chunk_id": "x", "score": 7}, {"chunk_id": "a", "score": 0.5}],
        [{"chunk_id": "x", "score": None, "rank": None}, {"chunk_id": "a"}, {"chunk_id": "b"}],
    ],
    ids=["ids", "objects", "id", "doc_id", "mixed", "rank", "score", "null"],
)
def test_every_form_of_a_hit_gives_the_same_ranking(tmp_path: Path, topk: list[Any]) -> None:
    path = write(tmp_path / "run.jsonl", [{"query_id": "q1", "topk": topk}])
    result = karat.evaluate(path, {"q1": GOLD["q1"]}, ["mrr", "recall@2", "map"])
    assert result.means == {"mrr": 0.5, "recall@2": 0.5, "map": pytest.approx((1 / 2 + 2 / 3) / 2)}


def test_whole_numbers_are_ids_too(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", [{"query_id": 1, "topk": [7, {"chunk_id": 3}]}])
    assert karat.evaluate(path, {"1": ["3"]}, ["mrr"]).score("mrr") == {"1": 0.5}


def test_a_log_without_ids_goes_by_the_text_of_the_query(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", [{"query": "how do refunds work", "topk": ["a"]}])
    result = karat.evaluate(path, [{"query": "how do refunds work", "gold": ["a"]}], ["mrr"])
    assert result.score("mrr") == {"how do refunds work": 1.0}


def test_everything_the_contract_names_is_read(tmp_path: Path) -> None:
    record = {
        "query_id": "q1",
        "system": "hybrid",
        "k_raw": 50,
        "topk": [{"rank": 1, "chunk_id": "a", "score": 0.9, "doc_version": "2025-01-01", "doc_id": "doc", "text": "t"}],
        "latency_ms": {"retrieve": 12.5, "rerank": 30},
        "index_version": "v7",
        "chunker": {"size": 512},
        "raw": [{"chunk_id": "z"}, {"chunk_id": "a"}],
        "query": "refund?",
        "rewritten_query": "how to refund",
        "topk_original": ["y"],
        "route": "kb",
        "entities": ["Visa"],
        "reranker": "ce-small",
        "usage": [{"stage": "rerank", "model": "m", "prompt_tokens": 10, "completion_tokens": 0, "calls": 1}],
        "error": None,
    }
    path = write(tmp_path / "run.jsonl", [record])
    hits = columns_of(path, "text", "doc_version", "latency")
    assert (hits.system, hits.queries, as_list(hits.ids)) == ("hybrid", ["q1"], ["a"])
    assert (hits.rank.tolist(), hits.score.tolist(), list(hits.docs)) == ([1.0], [0.9], ["doc"])
    assert hits.columns == {"text": ["t"], "doc_version": ["2025-01-01"]}
    assert {stage: ms.tolist() for stage, ms in hits.latency.items()} == {"retrieve": [12.5], "rerank": [30.0]}
    assert hits.fields == {
        "query": ["refund?"],
        "rewritten_query": ["how to refund"],
        "route": ["kb"],
        "entities": [["Visa"]],
        "usage": [[Usage("rerank", "m", 10, 0, 1)]],
    }
    result = karat.evaluate(path, GOLD, ["mrr"])
    assert result.provenance["k_raw"] == 50
    assert result.provenance["index_version"] == "v7"
    assert result.provenance["chunker"] == {"size": 512}
    assert result.provenance["reranker"] == "ce-small"


def test_texts_are_read_only_when_something_asks_for_them(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", [{"query_id": "q1", "topk": [{"chunk_id": "a", "text": "refund"}]}])
    assert columns_of(path).columns == {}
    assert columns_of(path, "text").columns == {"text": ["refund"]}


def test_latency_of_a_stage_that_only_some_queries_have(tmp_path: Path) -> None:
    records = [
        {"query_id": "q1", "topk": ["a"], "latency_ms": {"retrieve": 10}},
        {"query_id": "q2", "topk": ["c"], "latency_ms": {"retrieve": 20, "rerank": 5}},
    ]
    result = karat.evaluate(write(tmp_path / "r.jsonl", records), GOLD, ["latency", "latency(stage=rerank)"])
    assert result.score("latency") == {"q1": 10.0, "q2": 25.0}
    assert result.score("latency(stage=rerank)") == {"q1": None, "q2": 5.0}


def test_unknown_fields_are_kept_as_provenance(tmp_path: Path) -> None:
    records = [
        {"query_id": "q1", "topk": ["a"], "embedder": "e5", "flags": {"hyde": True}, "seed": 1},
        {"query_id": "q2", "topk": ["c"], "embedder": "e5", "flags": {"hyde": True}, "seed": 2},
    ]
    provenance = karat.evaluate(write(tmp_path / "r.jsonl", records), GOLD, ["mrr"]).provenance
    assert provenance["embedder"] == "e5"
    assert provenance["flags"] == {"hyde": True}
    assert provenance["seed"] == {"values": 2, "first": 1}


def test_what_requests_say_is_not_provenance(tmp_path: Path) -> None:
    """Reports are passed on, so they say of fields that are not settings only how many values there are."""
    words = "my landlord wants to evict me"
    records = [
        {
            "request": {"id": query, "text": f"{words} {query}", "tenant": "k1"},
            "retrieval": {"passages": [{"ref": "a"}], "took": 3},
            "client": f"client {query}",
            "trace": {"spans": [{"input": words}]},
            "prompt": words,
            "embedder": "e5",
        }
        for query in ("q1", "q2")
    ]
    columns = "query_id=request.id,topk=retrieval.passages,chunk_id=ref"
    expected = {"client": {"values": 2}, "trace": {"values": 1}, "prompt": {"values": 1}, "embedder": "e5"}
    for run in (write(tmp_path / "r.jsonl", records), records):
        assert karat.evaluate(run, GOLD, ["mrr"], columns=columns).provenance == expected
    plain = [{"query_id": "q1", "topk": ["a"], "request": {"text": words}}]
    for run in (write(tmp_path / "plain.jsonl", plain), plain):
        assert karat.evaluate(run, GOLD, ["mrr"]).provenance == {"request": {"values": 1}}


@pytest.mark.parametrize("at", [1, 700, 2999], ids=["first block", "a later block", "last line"])
def test_unknown_fields_that_first_appear_in_the_middle_of_the_file(tmp_path: Path, at: int) -> None:
    records: list[dict[str, Any]] = [
        {"query_id": f"q{i}", "topk": ["a", "b"], "padding": "x" * 200} for i in range(3000)
    ]
    for record in records[at:]:
        record["git_commit"] = "abc"
    path = write(tmp_path / "run.jsonl", records)
    assert path.stat().st_size > 2 * (1 << 18)  # more than two blocks
    result = karat.evaluate(path, {"q0": ["a"], "q2999": ["b"]}, ["mrr"])
    assert result.provenance["git_commit"] == "abc"
    assert result.score("mrr") == {"q0": 1.0, "q2999": 0.5}
    assert result.audit["unknown_queries"] == 2998


@pytest.mark.parametrize("name", ['we"ird', "new\nline", "back\\slash", "", "`tick`", "extra_0", "naïve", "struct"])
def test_unknown_fields_may_have_any_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "run.jsonl", [{"query_id": "q1", "topk": ["a"], "other": 0, name: "kept"}])
    assert karat.evaluate(path, GOLD, ["mrr"]).provenance[name] == "kept"


def test_thousands_of_different_fields_take_no_time(tmp_path: Path) -> None:
    records = [{"query_id": f"q{i}", "topk": ["a"], f"debug_{i}": i} for i in range(2000)]
    path = write(tmp_path / "run.jsonl", records)
    start = time.process_time()
    result = karat.evaluate(path, {"q1": ["a"]}, ["mrr"])
    assert time.process_time() - start < 5
    assert result.provenance["debug_1999"] == 1999


def test_several_systems_in_one_file_are_several_runs(tmp_path: Path) -> None:
    records = [
        {"query_id": "q1", "system": "bm25", "topk": ["a"], "index_version": 1},
        {"query_id": "q1", "system": "dense", "topk": ["x", "a"], "index_version": 2},
        {"query_id": "q2", "system": "bm25", "topk": ["c"], "index_version": 1},
        {"query_id": "q2", "system": "dense", "topk": ["x"], "index_version": 2},
    ]
    path = write(tmp_path / "run.jsonl", records)
    results = evaluate_all(path, GOLD, ["mrr"])
    assert {name: r.score("mrr") for name, r in results.items()} == {
        "bm25": {"q1": 1.0, "q2": 1.0},
        "dense": {"q1": 0.5, "q2": 0.0},
    }
    assert {name: r.provenance["index_version"] for name, r in results.items()} == {"bm25": 1, "dense": 2}
    assert karat.evaluate(path, GOLD, ["mrr"], system="dense").means == {"mrr": 0.25}


def test_several_systems_are_several_results(tmp_path: Path) -> None:
    records = [{"query_id": "q1", "system": s, "topk": ["a"]} for s in ("bm25", "dense")]
    assert list(karat.evaluate(write(tmp_path / "run.jsonl", records), GOLD)) == ["bm25", "dense"]


def test_a_system_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    records = [{"query_id": "q1", "system": s, "topk": ["a"]} for s in ("bm25", "dense")]
    with refused("unknown-system", InputError) as caught:
        karat.evaluate(write(tmp_path / "run.jsonl", records), GOLD, system="colbert")
    assert "'colbert'" in caught.value.what
    assert "bm25, dense" in caught.value.hint


def test_blank_lines_and_a_missing_last_line_break_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('\n{"query_id":"q1","topk":["a"]}\n\n   \n{"query_id":"q2","topk":["c"]}')
    assert karat.evaluate(path, GOLD, ["mrr"]).means == {"mrr": 1.0}


def test_errors_name_the_line_also_after_blank_lines_and_blocks(tmp_path: Path) -> None:
    good = [json.dumps({"query_id": f"q{i}", "topk": ["a"], "padding": "x" * 300}) for i in range(2000)]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join([*good[:1000], "", "", *good[1000:], '{"query_id":"last","topk":[{}]}']))
    with pytest.raises(InputError) as caught:
        karat.evaluate(path, {"q1": ["a"]})
    assert (caught.value.line, caught.value.query) == (2003, "last")
    assert caught.value.field == "topk[0].chunk_id"


def test_a_run_can_be_read_again_and_again(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", [{"query_id": "q1", "topk": ["x", "a"]}, {"query_id": "q2", "topk": ["c"]}])
    run = karat.read_run(path)
    first, second = karat.evaluate(run, GOLD, ["mrr"]), karat.evaluate(run, GOLD, ["mrr"])
    assert saved_form(first) == saved_form(second)
    assert first.means == {"mrr": 0.75}


def test_records_in_memory_are_as_good_as_a_file(tmp_path: Path) -> None:
    records = [
        {"query_id": "q1", "topk": [{"chunk_id": "x", "score": 2}, {"chunk_id": "a", "score": 1}], "seed": 3},
        {"query_id": "q2", "topk": ["c"], "latency_ms": {"all": 5}},
    ]
    asked = ["mrr", "ndcg@5", "latency"]
    from_file = saved_form(karat.evaluate(write(tmp_path / "run.jsonl", records), GOLD, asked))
    from_memory = saved_form(karat.evaluate(records, GOLD, asked))
    assert (from_memory.scores, from_memory.audit) == (from_file.scores, from_file.audit)
    assert from_memory.provenance == from_file.provenance == {"seed": 3}


def test_a_json_list_of_records_is_read_when_the_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps([{"query_id": "q1", "topk": ["x", "a"]}], indent=1))
    assert karat.evaluate(karat.read_run(path, format="run-log"), {"q1": ["a"]}, ["mrr"]).means == {"mrr": 0.5}


def many_records() -> list[dict[str, Any]]:
    """Every rule at once: ties, duplicates, documents, ranks, partial scores, two systems, an empty list."""
    made: list[dict[str, Any]] = []
    for system in ("one", "two"):
        for i in range(40):
            ids = [f"d{(i + j) % 9}#{j % 3}" for j in range(i % 12)]
            hits: list[Any] = [{"chunk_id": c, "score": (j * 7) % 4 / 2} for j, c in enumerate(ids)]
            if i % 5 == 1:
                hits = [{"chunk_id": c, "rank": len(ids) - j} for j, c in enumerate(ids)]
            if i % 5 == 2:
                hits = [{**h, "doc_id": f"d{j % 4}"} for j, h in enumerate(hits)]
            if i % 5 == 3:
                hits = [*ids[:2], *hits]
            made.append({"query_id": f"q{i}", "system": system, "topk": hits})
    return made


MANY_GOLD: dict[str, Any] = {
    f"q{i}": {f"d{i % 9}": 2, f"d{(i + 2) % 9}#2": 1, f"d{(i + 4) % 9}#1": 0} for i in range(45)
}
MANY_METRICS = ["recall@5", "precision@3", "ndcg@5", "map", "mrr", "bpref", "judged@5", "distinct_docs@3"]


@pytest.mark.parametrize("hits", [1, 17])
def test_large_logs_are_read_in_slices_and_score_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, hits: int
) -> None:
    path = write(tmp_path / "run.jsonl", many_records())
    before = {s: saved_form(r) for s, r in evaluate_all(path, MANY_GOLD, MANY_METRICS).items()}
    monkeypatch.setattr(run_log, "_SLICE_HITS", hits)
    monkeypatch.setattr(record_reader, "_BATCH_BYTES", 300)
    monkeypatch.setattr(record_reader, "_COLUMN_BATCHES", 1)
    slices = list(karat.read_run(path).slices(frozenset(), Audit()))
    assert len(slices) > 10
    assert {type(s.ids).__name__ for s in slices} == {"ndarray"}
    after = {s: saved_form(r) for s, r in evaluate_all(path, MANY_GOLD, MANY_METRICS).items()}
    assert set(after) == {"one", "two"}
    for system, saved in after.items():
        assert saved.scores == before[system].scores
        assert {e.code: e.count for e in saved.audit} == {e.code: e.count for e in before[system].audit}


def test_a_first_line_longer_than_what_is_looked_at_is_still_recognised(tmp_path: Path) -> None:
    """Keys in any order: hits before reranking, with their texts, often stand before the final ones."""
    raw = [{"chunk_id": f"r{i}", "text": "word " * 1000} for i in range(50)]
    path = write(tmp_path / "run.jsonl", [{"query_id": "q1", "raw": raw, "topk": ["x", "a"]}])
    assert karat.evaluate(path, {"q1": ["a"]}, ["mrr"]).means == {"mrr": 0.5}


def test_the_writer_makes_what_the_reader_reads(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with karat.RunLogWriter(str(path), system="mine", index_version="v1") as log:
        log.write("q1", [("x", 2.5), ("a", 1.5)], latency_ms={"retrieve": 3})
        log.write("q2", ["c", {"chunk_id": "d", "text": "t"}], trace="t-1")
    result = karat.evaluate(path, GOLD, ["mrr", "latency"])
    assert (result.system, result.score("mrr")) == ("mine", {"q1": 0.5, "q2": 1.0})
    assert result.score("latency") == {"q1": 3.0, "q2": None}
    assert result.provenance == {"index_version": "v1", "trace": "t-1"}
    assert [json.loads(line)["topk"][1]["rank"] for line in path.read_text().splitlines()] == [2, 2]


def test_the_writer_writes_whole_lines_to_a_stream() -> None:
    out = io.BytesIO()
    log = karat.RunLogWriter(out, system="s")
    log.write("q1", ["a"])
    assert out.getvalue().endswith(b"}\n")
    assert json.loads(out.getvalue()) == {
        "query_id": "q1",
        "system": "s",
        "topk": [{"rank": 1, "chunk_id": "a"}],
    }


def test_the_lists_before_reranking_can_be_scored(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text('{"query_id": "q", "topk": ["x"], "raw": [{"chunk_id": "y"}, {"chunk_id": "a"}]}\n')
    found = karat.evaluate(karat.read_run(log, hits="raw"), {"q": ["a"]}, ["recall@2", "mrr"])
    assert found.means == {"recall@2": 1.0, "mrr": 0.5}
    assert karat.evaluate(log, {"q": ["a"]}, ["recall@2"]).means == {"recall@2": 0.0}


def test_a_log_without_them_says_so(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    log.write_text('{"query_id": "q", "topk": ["x"]}\n')
    with refused("missing-field", field="raw"):
        karat.evaluate(karat.read_run(log, hits="raw"), {"q": ["a"]}, ["recall@2"])


def test_other_formats_have_none(tmp_path: Path) -> None:
    run = tmp_path / "run.trec"
    run.write_text("q Q0 a 1 0.5 s\n")
    with refused("no-such-lists"):
        karat.read_run(run, hits="raw")
