"""Does recall@5 track what users made of the answers: from files, as a user has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat

Call = Callable[..., tuple[int, str, str]]
COUNT = 120


def write(path: Path, records: list[Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """In English thumbs follow recall; in German they are given evenly, whatever was found."""
    gold, run, thumbs = [], [], []
    for i in range(COUNT):
        found, english = i // 2 % 3, i % 2 == 0
        gold.append({"query_id": f"q{i}", "gold": ["a", "b"], "tags": {"language": "en" if english else "de"}})
        run.append({"query_id": f"q{i}", "topk": [*["a", "b"][:found], "x", "y"], "resolved": found == 2})
        liked = found > 0 if english else i // 6 % 2 == 0
        thumbs.append({"query_id": f"q{i}", "thumb": "up" if liked else "down"})
    csv = tmp_path / "thumbs.csv"
    csv.write_text("query_id,thumb,note\n" + "".join(f"{t['query_id']},{t['thumb']},x\n" for t in thumbs))
    return {
        "gold": write(tmp_path / "gold.jsonl", gold),
        "run": write(tmp_path / "run.jsonl", run),
        "thumbs": write(tmp_path / "thumbs.jsonl", thumbs),
        "csv": str(csv),
    }


def rows(call: Call, files: dict[str, str], signal: str) -> dict[tuple[str, str | None], dict[str, Any]]:
    code, out, _ = call(
        "eval", files["run"], "--gold", files["gold"], "--quality", signal, "--resamples", "500", "--json"
    )
    assert code == 0
    return {(row["metric"], row["segment"]): row for row in json.loads(out)["analyses"]["quality"]["rows"]}


def test_by_metric_and_by_segment(files: dict[str, str], karat_command: Call) -> None:
    found = rows(karat_command, files, files["thumbs"])
    assert found["recall@5", None]["n"] == COUNT
    assert found["recall@5", None]["reading"] == "tracks"
    assert found["recall@5", "language en"]["reading"] == "tracks"
    assert found["recall@5", "language de"]["reading"] == "not shown"
    assert {"mrr", "ndcg@10"} <= {metric for metric, _ in found}
    result = karat.evaluate(files["run"], files["gold"], ["recall@5"])
    lines = map(json.loads, Path(files["thumbs"]).read_text().splitlines())
    liked = np.array([line["thumb"] == "up" for line in lines], float)
    order = [np.unique(v, return_inverse=True)[1] for v in (result.values["recall@5"], liked)]
    ranks = [(np.cumsum(np.bincount(o)) - np.bincount(o) / 2)[o] for o in order]
    assert found["recall@5", None]["rho"] == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_every_way_to_say_it(files: dict[str, str], karat_command: Call) -> None:
    whole = rows(karat_command, files, files["thumbs"])["recall@5", None]
    assert rows(karat_command, files, f"{files['csv']}:thumb")["recall@5", None] == whole
    assert rows(karat_command, files, f"{files['run']}:resolved")["recall@5", None]["reading"] == "tracks"
    thumbs = {q["query_id"]: q["thumb"] for q in map(json.loads, Path(files["thumbs"]).read_text().splitlines())}
    entries = map(json.loads, Path(files["gold"]).read_text().splitlines())
    gold = [{**entry, "thumb": thumbs[entry["query_id"]]} for entry in entries]
    for given, labelled in ((thumbs, files["gold"]), ("thumb", gold)):
        found = karat.evaluate(files["run"], labelled, ["recall@5"], quality=given, analyses=True, resamples=500)
        assert found.analyses.found["quality"].rows[0].rho == pytest.approx(whole["rho"])


def test_nothing_is_said_where_nobody_asked(files: dict[str, str], karat_command: Call) -> None:
    out = karat_command("eval", files["run"], "--gold", files["gold"], "--json")[1]
    assert "quality" not in json.loads(out)["analyses"]


@pytest.mark.parametrize(
    ("lines", "code", "fields"),
    [
        ([{"query_id": "q0", "thumb": "maybe"}], "bad-value", {"line": 1, "field": "thumb", "query": "q0"}),
        ([{"query_id": "q0", "thumb": 1, "note": 2}], "missing-option", {"line": 1}),
        ([{"thumb": 1}], "missing-field", {"line": 1, "field": "query_id"}),
        ([{"query_id": "q0", "thumb": 1}] * 2, "duplicate-query", {"line": 2, "query": "q0"}),
        ([{"query_id": "other", "thumb": 1}], "no-overlap", {}),
    ],
)
def test_signals_that_cannot_be_used(files: dict[str, str], tmp_path: Path, lines: Any, code: str, fields: Any) -> None:
    path = write(tmp_path / "signal.jsonl", lines)
    with refused(code, file=path, **fields):
        karat.evaluate(files["run"], files["gold"], ["recall@5"], quality=path)


def test_a_gold_set_of_more_than_5000_queries_is_noted() -> None:
    for size, noted in ((5000, 0), (5001, 5001)):
        gold = {f"q{i}": ["a"] for i in range(size)}
        assert karat.evaluate({"q0": ["a"]}, gold, ["mrr"]).audit["large_gold"] == noted
