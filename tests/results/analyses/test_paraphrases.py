"""Queries that ask the same in other words: groups, their worst wording, their spread and their flips."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat.data.attributes import cluster_numbers
from karat.results.analyses.paraphrases import Paraphrases
from karat.results.save import restore, saved_form
from karat.statistics.sampling import Sampling

Record = dict[str, Any]
Command = Callable[..., tuple[int, str, str]]


def world(groups: int, variants: int = 2, seed: int = 1) -> tuple[list[Record], list[Record]]:
    """Questions with two right chunks, asked in several wordings, each of which finds none, one or both."""
    drawn, run, gold = random.Random(seed), list[Record](), list[Record]()
    for i in range(groups):
        for v in range(variants + 1):
            query = f"q{i}" + (f"~{v}" if v else "")
            entry: Record = {"query_id": query, "query": f"question {i}, wording {v}"}
            gold.append(entry | ({"variant_of": f"q{i}"} if v else {"gold": [f"a{i}", f"b{i}"], "topic": "xy"[i % 2]}))
            hits = [f"a{i}"] * (drawn.random() < 0.8) + [f"b{i}"] * (drawn.random() < 0.6) + ["other"]
            run.append({"query_id": query, "topk": [{"chunk_id": hit, "score": -n} for n, hit in enumerate(hits)]})
    return run, gold


def found(result: karat.Result) -> Paraphrases:
    assert "paraphrases" in result.analyses.found, result.analyses.lacking
    paraphrases = restore(saved_form(result)).analyses.found["paraphrases"]
    assert paraphrases == result.analyses.found["paraphrases"]
    assert isinstance(paraphrases, Paraphrases)
    return paraphrases


def test_numbers_of_groups() -> None:
    """Against plain code."""
    run, gold = world(30)
    result = karat.evaluate(run, gold, ["recall@5"], analyses=True)
    values = result.score("recall@5")
    groups = [[values[f"q{i}"], values[f"q{i}~1"], values[f"q{i}~2"]] for i in range(30)]
    shown = found(result)
    assert (shown.groups, shown.queries) == (30, 90)
    assert shown.average.mean == pytest.approx(statistics.mean(map(statistics.mean, groups)))
    assert shown.worst.mean == pytest.approx(statistics.mean(map(min, groups)))
    assert shown.spread.mean == pytest.approx(statistics.mean(max(g) - min(g) for g in groups))
    assert shown.deviation.mean == pytest.approx(statistics.mean(map(statistics.stdev, groups)))
    assert shown.flipped == sum(min(g) == 0 < max(g) for g in groups) > 0
    assert shown.all_or_nothing == sum(min(g) == 0 and max(g) == 1 for g in groups)
    assert [e.spread for e in shown.examples] == sorted((max(g) - min(g) for g in groups), reverse=True)[:5]
    assert [w.value for w in shown.examples[0].wordings] == sorted(
        (w.value for w in shown.examples[0].wordings), reverse=True
    )
    row = restore(saved_form(result))["worst_variant@5"]
    assert (row.n, row.mean, row.low) == (30, shown.worst.mean, shown.worst.low)


def test_metrics_have_segments_and_other_bases() -> None:
    run, gold = world(20)
    result = karat.evaluate(run, gold, ["recall@5", "worst_variant(of=hit)@5", "variant_spread@2"])
    values = result.score("worst_variant(of=hit)@5")
    assert [query for query, value in values.items() if value is not None] == [f"q{i}" for i in range(20)]
    assert {row.value: row.summary[1].n for row in result.segment_by("topic")} == {"x": 10, "y": 10}
    assert {row.value: row.queries for row in result.segment_by("topic")} == {"x": 30, "y": 30}  # tags are taken over


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_the_order_of_queries_does_not_matter(shuffled: random.Random) -> None:
    run, gold = world(6, seed=shuffled.randrange(100))
    metrics = ["worst_variant@1", "variant_spread@5", "worst_variant(of=ndcg)@5"]
    first = karat.evaluate(run, gold, metrics)
    shuffled.shuffle(run)
    second = karat.evaluate(run, gold, metrics)
    assert [first[m] for m in metrics] == [second[m] for m in metrics]


def test_workers_give_the_same() -> None:
    run, gold = world(40)
    metrics = ["recall@5", "worst_variant@5", "variant_spread@5"]
    one, two = (karat.evaluate(run, gold, metrics, engine=engine) for engine in ("local", "processes"))
    assert one.summary_rows == two.summary_rows


def test_paraphrases_are_not_independent() -> None:
    """Three equal wordings of each question are no more evidence than one."""
    alone = {f"q{i}": [f"a{i}" if i % 3 else "x"] for i in range(60)}
    gold = [{"query_id": query, "gold": [f"a{query[1:]}"]} for query in alone]
    more = [{"query_id": f"{q}~{v}", "variant_of": q} for q in alone for v in (1, 2)]
    run = {f"{q}{end}": hits for q, hits in alone.items() for end in ("", "~1", "~2")}
    single = karat.evaluate(alone, gold, ["recall@5"])["recall@5"]
    grouped = karat.evaluate(run, [*gold, *more], ["recall@5"])
    each = karat.evaluate(run, [*gold, *more], ["recall@5"], cluster="none")["recall@5"]
    assert grouped.cluster == "variant_of"

    def width(row: Any) -> float:
        return float(row.high - row.low)

    assert width(grouped["recall@5"]) == pytest.approx(width(single), rel=0.05)
    assert width(each) < 0.7 * width(single)


def test_conversations_and_groups_together() -> None:
    gold = [
        {"query_id": "a", "gold": ["x"], "conversation_id": 1},
        {"query_id": "b", "gold": ["x"], "conversation_id": 1},
        {"query_id": "c", "variant_of": "b", "conversation_id": 2},
        {"query_id": "d", "gold": ["x"], "conversation_id": 2},
        {"query_id": "e", "gold": ["x"]},
    ]
    result = karat.evaluate({query: ["x"] for query in "abcde"}, gold, ["recall@5"])
    assert result.cluster == "conversation_id or variant_of"
    assert result.columns.clusters is not None
    assert result.columns.clusters.tolist() == [0, 0, 0, 0, 1]
    restored = restore(saved_form(result))
    assert restored.columns.clusters is not None
    assert restored.columns.clusters.tolist() == [0, 0, 0, 0, 1]
    assert cluster_numbers(result.gold, "variant_of").tolist() == [0, 1, 1, 2, 3]


def test_what_a_variant_takes_over() -> None:
    gold = karat.read_gold(
        [
            {
                "query_id": "q",
                "gold": {"a": 2},
                "negatives": ["n"],
                "language": "en",
                "topic": "t",
                "k": 3,
                "as_of": "2025",
            },
            {"query_id": "r", "variant_of": "q", "language": "de"},
            {"query_id": "s", "variant_of": "r"},
            {"query_id": "t", "variant_of": "q", "gold": ["b"]},
            {"query_id": "none", "no_answer": True},
            {"query_id": "none2", "variant_of": "none"},
        ]
    )
    items = [gold.ids[gold.offsets[i] : gold.offsets[i + 1]] for i in range(6)]
    assert items == [["a", "n"], ["a", "n"], ["a", "n"], ["b"], [], []]
    assert gold.grades.tolist() == [2, 0, 2, 0, 2, 0, 1]
    assert gold.tags["language"] == ["en", "de", "en", "en", None, None]
    assert gold.fields["as_of"] == ["2025"] * 4 + [None] * 2
    assert gold.fields["variant_of"] == ["q"] * 4 + ["none"] * 2
    assert gold.k.tolist() == [3, 3, 3, 3, 0, 0]
    assert gold.no_answer.tolist() == [0, 0, 0, 0, 1, 1]
    assert (gold.audit["gold_of_original"], gold.audit["no_answer_queries"]) == (3, 2)


def test_other_formats(tmp_path: Path) -> None:
    table = tmp_path / "gold.csv"
    table.write_text("query_id,doc_id,grade,variant_of\nq,a,1,\nr,a,1,q\n")
    assert karat.read_gold(table).fields["variant_of"] == ["q", "q"]
    lines = tmp_path / "gold.yaml"
    lines.write_text("- {query_id: q, gold: [a]}\n- {query_id: r, variant_of: q}\n")
    assert karat.evaluate({"q": ["a"], "r": ["a"]}, lines, ["worst_variant@5"]).means == {"worst_variant@5": 1.0}


@pytest.mark.parametrize(
    ("gold", "query", "code"),
    [
        ([{"query_id": "q", "gold": ["a"]}, {"query_id": "r", "variant_of": "w"}], "r", "unknown-query"),
        ([{"query_id": a, "gold": ["a"], "variant_of": b} for a, b in ("qr", "rs", "sq")], "q", "contradiction"),
        ([{"query_id": "q", "gold": ["a"], "tags": {"variant_of": ["r"]}}], "q", "wrong-type"),
    ],
)
def test_bad_groups(gold: list[Record], query: str, code: str) -> None:
    with pytest.raises(karat.KaratError) as caught:
        karat.read_gold(gold)
    assert (caught.value.code, getattr(caught.value, "query", None)) == (code, query)


def test_groups_with_one_measured_query() -> None:
    """A variant that the run lacks failed; if missing queries are skipped, its group says nothing."""
    run, gold = world(5, variants=1)
    del run[1]
    failed, skipped = (
        karat.evaluate(run, gold, ["recall@5"], analyses=True, missing=missing) for missing in ("worst", "skip")
    )
    assert (found(failed).groups, failed["worst_variant@5"].n) == (5, 5)
    assert failed.score("recall@5")["q0~1"] == 0
    assert (found(skipped).groups, skipped["worst_variant@5"].n, skipped.audited["lone_variants"]) == (4, 4, 1)


def test_a_gold_set_without_variants_is_not_asked() -> None:
    result = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@5", "worst_variant@5"], analyses=True)
    assert result.cluster is None
    assert "paraphrases" not in {*result.analyses.found, *result.analyses.lacking}
    assert result.means == {"recall@5": 1.0, "worst_variant@5": None}


def test_what_is_shown_and_gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    for name, records in zip(("run", "gold"), world(30), strict=True):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    call = ("run.jsonl", "--gold", "gold.jsonl")
    code, out, _ = karat_command("eval", *call, "--explain", "-o", "report.md", "-o", "report.html", "-o", "r.json")
    assert code == 0
    assert "same variant_of are resampled together" in " ".join(out.split())
    for shown in (out, Path("report.md").read_text(), Path("report.html").read_text()):
        assert "Paraphrases" in shown
        assert "worst wording" in shown
    assert json.loads(Path("r.json").read_text())["analyses"]["paraphrases"]["groups"] == 30
    worst = karat.evaluate("run.jsonl", "gold.jsonl")["worst_variant@5"].mean
    assert worst is not None
    gates = [f"worst_variant@5 >= {worst + change:.3f}" for change in (-0.01, 0.01)]
    assert [karat_command("gate", *call, "--gate", gate)[0] for gate in gates] == [0, 1]
    assert karat_command("gate", "r.json", "--gate", gates[0])[0] == 0


def test_intervals_over_groups_cover() -> None:
    """The worst of three wordings: simulated questions with their own difficulty."""
    rng, hits, rounds = np.random.default_rng(3), 0, 200
    truth = 0.25  # mean of p³ for p uniform in 0 … 1
    from karat.results.summary import mean_row

    for _ in range(rounds):
        p = rng.random(40)
        worst = (rng.random((40, 3)) < p[:, None]).all(axis=1).astype(float)
        row = mean_row("worst", worst, np.arange(40), Sampling(resamples=500))
        assert row.low is not None
        assert row.high is not None
        hits += row.low <= truth <= row.high
    assert hits / rounds >= 0.93
