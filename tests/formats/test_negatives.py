"""Negatives of a gold set are judged, with grade 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import karat

METRICS = ["bpref", "judged@3", "judged@10", "rbp_residual(p=0.5)", "ndcg@5", "recall@3", "precision@3"]
IDS = [f"d{n}#p{m}" for n in range(4) for m in range(2)]


def write(path: Path, entries: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return str(path)


def naive_bpref(hits: list[str], gold: set[str], negatives: set[str]) -> float:
    total = 0.0
    for place, hit in enumerate(hits):
        if hit in gold:
            above = sum(other in negatives for other in hits[:place])
            total += 1 - min(above, len(gold)) / min(len(gold), len(negatives)) if above else 1
    return total / len(gold)


def naive_judged(hits: list[str], known: set[str], k: int) -> float:
    return sum(hit in known for hit in hits[:k]) / len(hits[:k])


@given(
    hits=st.lists(st.sampled_from(IDS), unique=True, min_size=1),
    roles=st.lists(st.sampled_from("gn-"), min_size=len(IDS), max_size=len(IDS)).filter(lambda roles: "g" in roles),
)
def test_as_naive_code_and_trec_eval_count_them(hits: list[str], roles: list[str]) -> None:
    gold, negatives = ({i for i, role in zip(IDS, roles, strict=True) if role == wanted} for wanted in "gn")
    entry = {"query_id": "q", "gold": sorted(gold), "negatives": sorted(negatives)}
    found = karat.evaluate({"q": hits}, [entry], ["bpref", "judged@3"]).means
    assert found["bpref"] == pytest.approx(naive_bpref(hits, gold, negatives))
    assert found["judged@3"] == pytest.approx(naive_judged(hits, gold | negatives, 3))
    qrels = {"q": dict.fromkeys(gold, 1) | dict.fromkeys(negatives, 0)}
    scores = {"q": {hit: float(len(hits) - place) for place, hit in enumerate(hits)}}
    assert found["bpref"] == pytest.approx(
        pytrec_eval.RelevanceEvaluator(qrels, {"bpref"}).evaluate(scores)["q"]["bpref"]
    )


def _jsonl(folder: Path) -> Any:
    entry = {"query_id": "q", "gold": [{"chunk_id": "a#1", "grade": 2}], "negatives": ["n#1", "n#1", 7]}
    return write(folder / "gold.jsonl", [entry])


def _passages(folder: Path) -> Any:
    gold = [{"chunk_id": "a#1", "grade": 2}, {"doc_id": "a", "quote": "no such words", "grade": 0}]
    return [{"query_id": "q", "gold": gold, "negatives": ["n#1", 7]}]


def _samples(folder: Path) -> Any:
    sample = {"id": "q", "input": "why?", "expected_output": {"a#1": 2}, "metadata": {"negatives": ["n#1", 7]}}
    (folder / "gold.json").write_text(json.dumps({"samples": [sample]}))
    return str(folder / "gold.json")


def _beir(folder: Path) -> Any:
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta#1\t2\nq\t7\t0\n")
    write(folder / "queries.jsonl", [{"_id": "q", "text": "why?", "metadata": {"negatives": ["n#1"]}}])
    return str(folder)


def _parquet(folder: Path) -> Any:
    rows = {"query_id": ["q", "q"], "chunk_id": ["a#1", "x#9"], "grade": [2, 0], "negatives": [["n#1", "7"]] * 2}
    pl.DataFrame(rows).write_parquet(folder / "gold.parquet")
    return str(folder / "gold.parquet")


@pytest.mark.parametrize("source", [_jsonl, _passages, _samples, _beir, _parquet])
def test_every_format_that_can_say_them(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    run = {"q": ["?#1", "n#1", "a#1", "7"]}
    values = karat.evaluate(run, source(tmp_path), ["judged@3", "judged@4", "ndcg@4"]).means
    assert values == pytest.approx({"judged@3": 2 / 3, "judged@4": 3 / 4, "ndcg@4": 1 / np.log2(4)})


def test_many_queries_are_as_with_grade_0(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    said, spelled, run = [], [], {}
    for q in range(60):
        ids = [IDS[i] for i in rng.permutation(len(IDS))]
        gold, negatives, query = ids[: q % 3], ids[4 : 4 + q % 4], f"q{q}"
        said.append({"query_id": query, "gold": [{"chunk_id": i} for i in gold], "negatives": negatives})
        grades = dict.fromkeys(gold, 1) | dict.fromkeys(negatives, 0)
        spelled.append({"query_id": query, "gold": [{"chunk_id": i, "grade": g} for i, g in grades.items()]})
        run[query] = [IDS[i] for i in rng.permutation(len(IDS))[:6]]
    first = karat.evaluate(run, write(tmp_path / "said.jsonl", said), METRICS)
    second = karat.evaluate(run, write(tmp_path / "spelled.jsonl", spelled), METRICS)
    for metric in METRICS:
        np.testing.assert_array_equal(first.values[metric], second.values[metric])


def test_a_negative_document_judges_its_chunks_but_not_the_one_that_is_gold() -> None:
    entry = {"query_id": "q", "gold": ["d#2"], "negatives": ["d"]}
    values = karat.evaluate({"q": ["d#1", "d#2", "e#1"]}, [entry], ["judged@3", "mrr"]).means
    assert values == pytest.approx({"judged@3": 2 / 3, "mrr": 0.5})


def test_an_explicit_grade_of_0_may_be_a_negative_too_and_one_below_0_stays_unjudged() -> None:
    entry = {"query_id": "q", "gold": {"a": 1, "n": 0, "u": -1}, "negatives": ["n", "u"]}
    result = karat.evaluate({"q": ["u", "n", "a"]}, [entry], ["judged@3"])
    assert result.means["judged@3"] == pytest.approx(2 / 3)
    assert result.audit["negative_grades"] == 1


@pytest.mark.parametrize("gold", [["r", "b"], [{"chunk_id": "r", "grade": 2}], [{"doc_id": "r"}], {"r": 0.5}])
def test_an_id_that_is_gold_and_negative_is_refused(tmp_path: Path, gold: Any) -> None:
    entries = [{"query_id": "p", "gold": ["r"]}, {"query_id": "q", "gold": gold, "negatives": ["n", "r"]}]
    path = write(tmp_path / "gold.jsonl", entries)
    with refused("contradiction", file=path, line=2, query="q", field="negatives[1]", got="r"):
        karat.read_gold(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_it_is_refused_with_its_row_in_a_table(tmp_path: Path, suffix: str) -> None:
    rows = {"query_id": ["p", "q", "p", "q"], "chunk_id": ["a", "b", "c", "r"], "negatives": ["n", "r", "n", "r"]}
    path = tmp_path / f"gold.{suffix}"
    if suffix == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        pl.DataFrame(rows).write_csv(path, separator="," if suffix == "csv" else "\t")
    # The first row of its query; a file of text has a line with names before it.
    with refused("contradiction", file=str(path), line=2 + (suffix != "parquet"), query="q", got="r"):
        karat.read_gold(path)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("form", ["list", "under a name", "samples"])
def test_it_is_refused_with_its_line_in_a_json_document(tmp_path: Path, form: str, indent: int | None) -> None:
    entries: Any = [{"query_id": "p,]", "gold": ["r"]}, {"query_id": "q", "gold": ["r"], "negatives": ["r"]}]
    if form == "samples":
        entries = [
            {"id": e["query_id"], "expected_output": e["gold"], "metadata": {"negatives": e.get("negatives", [])}}
            for e in entries
        ]
    document = {"list": entries, "under a name": {"dataset": {"version": "1"}, "queries": entries}}
    text = json.dumps(document.get(form, {"samples": entries}), indent=indent)
    path = tmp_path / "gold.json"
    path.write_text(text)
    named = next(at for at, line in enumerate(text.splitlines(), 1) if '"q"' in line)
    with refused("contradiction", file=str(path), line=named - (indent or 0), query="q"):
        karat.read_gold(path)


@pytest.mark.parametrize(("negatives", "code"), [("n", "wrong-type"), ([True], "wrong-type"), ([""], "empty-id")])
def test_what_are_no_ids_is_refused(tmp_path: Path, negatives: Any, code: str) -> None:
    sample = {"id": "q", "expected_output": ["a"], "metadata": {"x": 1}, "negatives": negatives}
    (tmp_path / "gold.json").write_text(json.dumps({"samples": [sample]}))
    if isinstance(negatives, str):  # a scalar is a tag of the sample
        assert karat.read_gold(tmp_path / "gold.json").tags["negatives"] == ["n"]
        return
    with refused(code, file=tmp_path / "gold.json", query="q", field="negatives"):
        karat.read_gold(tmp_path / "gold.json")


def test_a_pool_leaves_them_out(tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    gold = write(tmp_path / "gold.jsonl", [{"query_id": "q", "query": "why?", "gold": ["a"], "negatives": ["n"]}])
    run = write(tmp_path / "run.jsonl", [{"query_id": "q", "topk": ["n", "x", "a"]}])
    pool = tmp_path / "pool.jsonl"
    assert karat_command("pool", run, "--gold", gold, "-o", str(pool))[0] == 0
    assert [json.loads(line)["chunk_id"] for line in pool.read_text().splitlines()] == ["x"]


def test_a_baseline_of_the_old_definition_is_invalid(
    tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    gold = write(tmp_path / "gold.jsonl", [{"query_id": "q", "gold": ["a"], "negatives": ["n"]}])
    run = write(tmp_path / "run.jsonl", [{"query_id": "q", "topk": ["n", "a"]}])
    criteria, old = tmp_path / "ship-criteria.yaml", tmp_path / "old.json"
    criteria.write_text("gates:\n  - {metric: bpref, regression_max: 0.1}\n")
    asked = ("gate", run, "--gold", gold, "--criteria", str(criteria), "--baseline", str(old))
    assert karat_command("eval", run, "--gold", gold, "-m", "bpref", "-m", "judged@5", "-o", str(old))[0] == 0
    assert karat_command(*asked)[0] == 0
    saved = json.loads(old.read_text())
    assert saved["definitions"] == {"bpref": 2, "judged@5": 2}
    old.write_text(json.dumps(saved | {"definitions": {"bpref": 1, "judged@5": 1}}))
    assert karat_command(*asked)[0] == 2
