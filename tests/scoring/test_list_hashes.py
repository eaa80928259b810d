"""Equal hashes mean equal lists, whatever the run was written in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat.scoring.list_hashes import DEPTHS

ids = st.lists(st.text("ab#é0", min_size=1, max_size=3), max_size=30, unique=True)


def _hashes(run: Any, queries: list[str]) -> list[list[int]]:
    found = karat.evaluate(run, {query: ["x"] for query in queries}, ["recall@5"]).data.hashes
    assert found is not None
    rows: list[list[int]] = found.tolist()
    return rows


@given(st.lists(ids, min_size=2, max_size=4))
def test_hashes_are_equal_where_the_lists_are(lists: list[list[str]]) -> None:
    run = [{"query_id": f"q{n}", "topk": found} for n, found in enumerate(lists)]
    hashed = _hashes(run, [f"q{n}" for n in range(len(lists))])
    for one, its in zip(lists, hashed, strict=True):
        for other, others in zip(lists, hashed, strict=True):
            for column, depth in enumerate([*DEPTHS, None]):
                assert (one[:depth] == other[:depth]) == (its[column] == others[column])


@given(ids.filter(bool))
def test_hashes_of_dicts_are_those_of_records(found: list[str]) -> None:
    scores = {name: float(-place) for place, name in enumerate(found)}
    records = [{"query_id": "q", "topk": found}]
    assert _hashes({"q": dict(sorted(scores.items()))}, ["q"]) == _hashes(records, ["q"])


@pytest.mark.parametrize("ending", ["jsonl", "trec", "csv", "parquet"])
def test_hashes_of_files_are_those_of_records(ending: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    lists = {f"q{n}": [f"d{(7 * n + i) % 40}" for i in range(25)] for n in range(3)}
    file = tmp_path / f"run.{ending}"
    rows = [(q, d, 100.0 - i, i + 1) for q, found in lists.items() for i, d in enumerate(found)]
    if ending == "jsonl":
        file.write_text("".join(json.dumps({"query_id": q, "topk": found}) + "\n" for q, found in lists.items()))
    elif ending == "trec":
        file.write_text("".join(f"{q} Q0 {d} {rank} {score} s\n" for q, d, score, rank in rows))
    else:
        frame = polars.DataFrame(rows, schema=["query_id", "chunk_id", "score", "rank"], orient="row")
        frame.write_csv(file) if ending == "csv" else frame.write_parquet(file)
    records = [{"query_id": q, "topk": found} for q, found in lists.items()]
    assert _hashes(str(file), list(lists)) == _hashes(records, list(lists))
