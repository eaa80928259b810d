"""Latencies from the times at which a query or a stage started and ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

import karat

pytestmark = pytest.mark.usefixtures("reader")
START = datetime(2025, 6, 1, 12, tzinfo=UTC)
MS = {"q0": {"retrieve": 40.0, "rerank": 12.5}, "q1": {"retrieve": 3.25, "rerank": 0.0}, "q2": {"retrieve": 1000.0}}
GOLD = {q: ["a"] for q in MS}


def later(ms: float) -> str:
    return (START + timedelta(milliseconds=ms)).isoformat()


def seconds(ms: float) -> float:
    return START.timestamp() + ms / 1000


def pairs(stages: dict[str, float], time: Callable[[float], Any]) -> dict[str, tuple[Any, Any]]:
    """Stages one after the other."""
    found, at = {}, 0.0
    for stage, ms in stages.items():
        found[stage] = time(at), time(at + ms)
        at += ms
    return found


FORMS: dict[str, Callable[[dict[str, float]], dict[str, Any]]] = {
    "logged": lambda stages: {"latency_ms": stages},
    "by stage": lambda stages: {
        "timestamps": {s: {"started_at": a, "ended_at": b} for s, (a, b) in pairs(stages, later).items()}
    },
    "two objects": lambda stages: {
        "started_at": {s: a for s, (a, _) in pairs(stages, seconds).items()},
        "ended_at": {s: b for s, (_, b) in pairs(stages, seconds).items()},
    },
    "milliseconds": lambda stages: {
        "timestamps": {
            s: {"started_at": a, "ended_at": b}
            for s, (a, b) in pairs(stages, lambda ms: seconds(ms) * 1000).items()
        }
    },
    "zones": lambda stages: {
        "timestamps": {
            s: {"started_at": a.replace("+00:00", "Z"), "ended_at": b.replace("12:", "14:").replace("+00", "+02")}
            for s, (a, b) in pairs(stages, later).items()
        }
    },
    "some of both": lambda stages: {
        "latency_ms": {"retrieve": stages["retrieve"]},
        "timestamps": {
            s: {"started_at": a, "ended_at": b} for s, (a, b) in pairs(stages, later).items() if s == "rerank"
        },
    },
}  # fmt: skip


def write(path: Path, fields: Callable[[dict[str, float]], dict[str, Any]]) -> str:
    lines = ({"query_id": q, "topk": [{"chunk_id": "a", "score": 1.0}], **fields(ms)} for q, ms in MS.items())
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("form", FORMS)
def test_stages(tmp_path: Path, form: str) -> None:
    result = karat.evaluate(write(tmp_path / "run.jsonl", FORMS[form]), GOLD, ["latency", "latency(stage=rerank)"])
    expected = {q: sum(stages.values()) for q, stages in MS.items()}
    assert result.score("latency") == pytest.approx(expected, abs=1e-3)
    assert result.score("latency(stage=rerank)") == pytest.approx({"q0": 12.5, "q1": 0.0, "q2": None}, abs=1e-3)


def test_the_whole_query_is_the_total(tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]) -> None:
    run = write(tmp_path / "run.jsonl", lambda ms: {"started_at": later(0), "ended_at": later(sum(ms.values()) + 5)})
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps(GOLD))
    code, printed, _ = karat_command("eval", run, "--gold", str(gold), "-m", "latency", "--json")
    scores = {q: row["latency"] for q, row in json.loads(printed)["scores"].items()}
    assert (code, scores) == (0, {q: sum(stages.values()) + 5 for q, stages in MS.items()})


def test_what_has_no_end_has_no_latency(tmp_path: Path) -> None:
    run = write(tmp_path / "run.jsonl", lambda ms: {"started_at": "whenever", "ended_at": None})
    assert karat.evaluate(run, GOLD, ["latency"]).means == {"latency": None}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"started_at": "noon", "ended_at": later(5)}, "started_at"),
        ({"started_at": later(5), "ended_at": later(0)}, "ended_at"),
        ({"started_at": later(5), "ended_at": True}, "ended_at"),
        ({"timestamps": {"a": {"started_at": later(0), "ended_at": [1]}}}, "timestamps.a.ended_at"),
    ],
)
def test_impossible_times_are_named(tmp_path: Path, fields: dict[str, Any], field: str) -> None:
    run = write(tmp_path / "run.jsonl", lambda ms: fields if ms == MS["q1"] else {})
    with refused("bad-value", file=run, line=2, field=field, query="q1"):
        karat.evaluate(run, GOLD, ["latency"])
    assert karat.evaluate(run, GOLD, ["mrr"]).means == {"mrr": 1.0}  # nobody asks


def write_table(path: Path, fields: Callable[[dict[str, float]], dict[str, Any]]) -> str:
    pl.DataFrame([{"query_id": q, "topk": ["a"], **fields(ms)} for q, ms in MS.items()]).write_parquet(path)
    return str(path)


@pytest.mark.parametrize("form", FORMS)
def test_stages_in_a_table_with_a_row_per_query(tmp_path: Path, form: str) -> None:
    run = write_table(tmp_path / "run.parquet", FORMS[form])
    for one in (run, pl.read_parquet(run)):
        result = karat.evaluate(one, GOLD, ["latency", "latency(stage=rerank)"])
        assert result.score("latency") == pytest.approx({q: sum(ms.values()) for q, ms in MS.items()}, abs=1e-3)
        assert result.score("latency(stage=rerank)") == pytest.approx({"q0": 12.5, "q1": 0.0, "q2": None}, abs=1e-3)


def test_times_of_a_table(tmp_path: Path) -> None:
    end = {q: START + timedelta(milliseconds=7 + len(ms)) for q, ms in MS.items()}
    run = write_table(tmp_path / "run.parquet", lambda ms: {"started_at": START, "ended_at": end[named(ms)]})
    assert karat.evaluate(run, GOLD, ["latency"]).score("latency") == {"q0": 9.0, "q1": 9.0, "q2": 8.0}


def named(ms: dict[str, float]) -> str:
    return next(q for q, stages in MS.items() if stages is ms)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"latency_ms": {"retrieve": -1.0}}, "latency_ms.retrieve"),
        ({"started_at": "noon", "ended_at": later(5)}, "started_at"),
        ({"started_at": later(5), "ended_at": later(0)}, "ended_at"),
    ],
)
def test_impossible_times_of_a_table_are_named(tmp_path: Path, fields: dict[str, Any], field: str) -> None:
    run = write_table(tmp_path / "run.parquet", lambda ms: fields if ms == MS["q1"] else dict.fromkeys(fields))
    with refused("bad-value", file=run, field=field, query="q1"):
        karat.evaluate(run, GOLD, ["latency"])


def test_a_map_in_parquet_is_read(tmp_path: Path) -> None:
    hits = pa.array([["a"]] * len(MS), pa.list_(pa.string()))
    values = [list(MS["q0"].items()), None, list(MS["q2"].items())]
    columns = {"query_id": pa.array(list(MS)), "topk": hits}
    times = pa.array(values, pa.map_(pa.string(), pa.float64()))
    pq.write_table(pa.table({**columns, "latency_ms": times}), tmp_path / "map.parquet")
    result = karat.evaluate(tmp_path / "map.parquet", GOLD, ["latency", "latency(stage=rerank)"])
    assert result.score("latency") == {"q0": 52.5, "q1": None, "q2": 1000.0}
    assert result.score("latency(stage=rerank)") == {"q0": 12.5, "q1": None, "q2": None}
