"""Two periods with different queries: the mix of questions apart from the quality of answers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.results.comparison.drift import Drift, drift_between

Record = dict[str, Any]
Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., karat.KaratError]
SHARES = ({"billing": 0.2, "setup": 0.8}, {"billing": 0.5, "setup": 0.4, "api": 0.1})
RIGHT = ({"billing": 0.6, "setup": 0.95}, {"billing": 0.5, "setup": 0.95, "api": 0.8})


def periods(n: int = 120, seed: int = 1) -> tuple[list[Record], list[Record], list[Record]]:
    """Two runs, and a gold set for both. The first two queries of the gold set were never asked."""
    drawn = random.Random(seed)
    gold: list[Record] = [{"query_id": f"never{i}", "gold": ["x"], "topic": "setup"} for i in (1, 2)]
    runs: tuple[list[Record], list[Record]] = ([], [])
    for period, run in enumerate(runs):
        for i in range(n):
            kind = drawn.choices(list(SHARES[period]), list(SHARES[period].values()))[0]
            query = f"p{period}_{i}"
            gold.append({"query_id": query, "gold": [query], "topic": kind, "conversation_id": f"{period}_{i // 4}"})
            hit = query if drawn.random() < RIGHT[period][kind] else "wrong"
            run.append({"query_id": query, "topk": [{"chunk_id": hit, "score": 1.0}], "latency_ms": {"search": 5}})
    return *runs, gold


def drift(before: Any, after: Any, gold: Any, by: str = "topic", metrics: Any = ("recall@5",), **options: Any) -> Drift:
    sides = [karat.evaluate(run, gold, metrics, **options) for run in (before, after)]
    [found] = drift_between(sides, [by])
    assert found == sides[1].drift(sides[0], by)
    return found


def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, records in zip(("may", "june", "gold"), periods(), strict=True):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_numbers() -> None:
    """Against plain code; every part adds up."""
    may, june, gold = periods()
    found = drift(may, june, gold)
    [recall] = found.metrics
    topic = {entry["query_id"]: entry["topic"] for entry in gold}
    scores = [{r["query_id"]: float(r["topk"][0]["chunk_id"] == r["query_id"]) for r in run} for run in (may, june)]
    assert (recall.before, recall.after) == tuple(pytest.approx(sum(s.values()) / len(s)) for s in scores)
    assert recall.mix.value + recall.quality.value == pytest.approx(recall.change.value, abs=1e-12)
    assert recall.change.value == pytest.approx(recall.after - recall.before, abs=1e-12)
    assert sum(k.mix.value for k in recall.kinds) == pytest.approx(recall.mix.value, abs=1e-12)
    assert sum(k.quality.value for k in recall.kinds) == pytest.approx(recall.quality.value, abs=1e-12)
    middle = (recall.before + recall.after) / 2
    for kind in recall.kinds:
        own = [[v for q, v in s.items() if topic[q] == kind.kind] for s in scores]
        share = [len(o) / len(s) for o, s in zip(own, scores, strict=True)]
        assert (kind.queries_before, kind.queries_after) == tuple(map(len, own))
        assert (kind.share_before, kind.share_after) == tuple(map(pytest.approx, share))
        mean = [sum(o) / len(o) if o else None for o in own]
        assert (kind.before, kind.after) == tuple(m if m is None else pytest.approx(m) for m in mean)
        m0, m1 = (m if m is not None else mean[1 - i] for i, m in enumerate(mean))
        assert m0 is not None
        assert m1 is not None
        assert kind.mix.value == pytest.approx((share[1] - share[0]) * ((m0 + m1) / 2 - middle))
        assert kind.quality.value == pytest.approx((m1 - m0) * sum(share) / 2)
    [api] = [kind for kind in recall.kinds if kind.kind == "api"]
    assert (api.before, api.change, api.quality.value) == (None, None, 0.0)
    assert any("2 queries" in note for note in found.notes)
    assert re.findall(r"(?:more|less|mostly) (\w+)[.;]", recall.in_words) == ["setup", "billing"]


def test_conversations_are_resampled_together() -> None:
    """All queries of a conversation alike: intervals must be about twice as wide as for single queries."""
    may, june, gold = periods()
    for run in (may, june):
        for at, record in enumerate(run):
            record["topk"][0]["chunk_id"] = record["query_id"] if at // 4 % 3 else "wrong"

    def width(cluster: str | None) -> float:
        change = drift(may, june, gold, cluster=cluster).metrics[0].change
        assert change.low is not None
        assert change.high is not None
        return change.high - change.low

    assert width(None) > 1.6 * width("none")


def test_whose_query_it_is() -> None:
    """A query that a run lacks failed only if no other gold set has it."""
    before = karat.evaluate({"a": ["a"], "b": ["b"]}, {"a": ["a"], "b": ["b"], "lost": ["c"]}, ["recall@5"])
    after = karat.evaluate({"d": ["d"]}, {"d": ["d"], "a": ["a"]}, ["recall@5"])
    found = drift_between([before, after], ["gold_items"])[0]
    assert (found.queries_before, found.queries_after) == (3, 1)
    assert found.metrics[0].before == pytest.approx(2 / 3)


def test_several_values_are_a_kind() -> None:
    gold = [{"query_id": str(i), "gold": ["x"], "tags": {"topic": ["b", "a"] if i % 2 else ["a"]}} for i in range(8)]
    runs = [{str(i): ["x"] for i in some} for some in (range(4), range(4, 8))]
    found = drift(*runs, gold)
    assert {(kind.kind, kind.queries_before) for kind in found.metrics[0].kinds} == {("a", 2), ("a + b", 2)}
    assert found.metrics[0].in_words.startswith("recall@5 did not change")


def test_micro_averages_and_other_metrics() -> None:
    may, june, gold = periods()
    found = drift(may, june, gold, metrics=["recall(average=micro)@5", "latency", "latency_p90"])
    assert [metric.metric for metric in found.metrics] == ["recall(average=micro)@5", "latency"]
    for metric in found.metrics:
        assert metric.mix.value + metric.quality.value == pytest.approx(metric.change.value, abs=1e-12)
    assert any("latency_p90" in note for note in found.notes)


def test_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command) -> None:
    write(tmp_path, monkeypatch)
    call = ("compare", "may.jsonl", "june.jsonl", "--gold", "gold.jsonl", "--drift", "topic")
    code, out, _ = karat_command(*call, "-o", "d.html", "-o", "d.md", "-o", "d.json", "-o", "metrics.kinds=kinds.csv")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert "Read this first" not in out
    saved = json.loads(Path("d.json").read_text())
    for shown in (" ".join(out.split()), Path("d.md").read_text(), Path("d.html").read_text()):
        assert saved["metrics"][2]["in_words"] in shown
        assert "billing" in shown
    assert saved["schema"] == "karat/drift/1"
    assert len(Path("kinds.csv").read_text().splitlines()) == 1 + sum(len(m["kinds"]) for m in saved["metrics"])
    code, out, _ = karat_command(*call, "-m", "recall@5", "--drift", "gold_items", "--json")
    assert [(one["by"], len(one["metrics"])) for one in json.loads(out)] == [("topic", 1), ("gold_items", 1)]


def test_saved_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command) -> None:
    """Each with a gold set of its own, or with the same."""
    write(tmp_path, monkeypatch)
    lines = Path("gold.jsonl").read_text().splitlines(keepends=True)
    for period, name in enumerate(("may", "june")):
        Path("own.jsonl").write_text("".join(line for line in lines if f'"p{period}_' in line))
        for gold, to in (("own.jsonl", f"{name}-own.json"), ("gold.jsonl", f"{name}.json")):
            assert karat_command("eval", f"{name}.jsonl", "--gold", gold, "-o", to)[0] == 0
    found = []
    for sides in (
        ("may.jsonl", "june.jsonl", "--gold", "gold.jsonl"),
        ("may.json", "june.json"),
        ("may-own.json", "june-own.json"),
    ):
        code, out, _ = karat_command("compare", *sides, "--drift", "topic", "-m", "recall@3", "--json")
        assert code == 0
        found.append(json.loads(out)["metrics"])
    assert found[0] == found[1] == found[2]


def test_without_a_gold_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command) -> None:
    """Each run has its own queries; what needs no labels can be compared."""
    monkeypatch.chdir(tmp_path)
    for name, words in (("may", 3), ("june", 20)):
        lines = [
            {"query_id": f"{name}{i}", "query": "word " * (words if i else 3), "topk": [], "latency_ms": {"a": words}}
            for i in range(30)
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = karat_command(
        "compare", "may.jsonl", "june.jsonl", "--drift", "query_length", "-m", "latency", "--json"
    )
    assert code == 0, err
    [latency] = json.loads(out)["metrics"]
    assert {kind["kind"]: kind["queries_after"] for kind in latency["kinds"]} == {
        "short (< 8 words)": 1,
        "long (> 15 words)": 29,
    }


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--drift", "topi"), "unknown-attribute"),
        (("may.jsonl", "--drift", "topic"), "not-two-runs"),
        (("--drift", "topic", "--segment", "topic"), "contradiction"),
        (("--drift", "topic", "--bounds"), "contradiction"),
    ],
)
def test_bad_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_refuses: Refuses, more: tuple[str, ...], code: str
) -> None:
    write(tmp_path, monkeypatch)
    assert karat_refuses("compare", "may.jsonl", "june.jsonl", "--gold", "gold.jsonl", *more).code == code


def test_ids_that_do_not_match_are_not_a_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command
) -> None:
    write(tmp_path, monkeypatch)
    Path("june.jsonl").write_text(Path("june.jsonl").read_text().replace('"chunk_id": "', '"chunk_id": "other/'))
    code, out, _ = karat_command("compare", "may.jsonl", "june.jsonl", "--gold", "gold.jsonl", "--drift", "topic")
    assert code == 2
    assert "not compared: recall@1" in out


@pytest.mark.parametrize(("n", "narrow"), [(60, True), (400, False)])
def test_values_without_an_upper_end_need_many_queries_of_each_kind(n: int, narrow: bool) -> None:
    runs = [[{"query_id": f"{p}{i}", "topk": ["a"], "latency_ms": float(i)} for i in range(n)] for p in "ab"]
    gold = [{"query_id": f"{p}{i}", "gold": ["a"], "topic": f"t{i % 2}"} for p in "ab" for i in range(n)]
    found = drift(*runs, gold, metrics=("latency", "recall@5"), resamples=200)
    assert {one.metric: one.narrow for one in found.metrics} == {"latency": narrow, "recall@5": False}
