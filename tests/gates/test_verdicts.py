"""Verdicts over whole runs: who blocks, what the exit code is, and what is said."""

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.gates.criteria import Criteria, Gate
from karat.gates.gate import gate, judge_result
from karat.gates.verdict_form import GateVerdict, Verdicts
from karat.gates.verdicts import GateJudge, overall
from karat.results.evaluate import evaluate_all
from karat.results.result import Result
from karat.results.save import saved_form
from karat.results.saved import read_result
from karat.statistics.intervals import Sampling

FAST = Sampling(resamples=1000)
METRICS = ("hit@1", "mrr")


def gold_of(size: int, **tags: Any) -> list[dict[str, Any]]:
    """`tags`: attribute → value of each query, by its number."""
    return [{"query_id": f"q{i:04}", "gold": ["a"], **{n: of(i) for n, of in tags.items()}} for i in range(size)]


def run_of(hits: Any) -> dict[str, list[str]]:
    """A run that finds the answer first where `hits` says so, and second elsewhere."""
    return {f"q{i:04}": ["a", "b"] if hit else ["b", "a"] for i, hit in enumerate(hits)}


def share(good: int, size: int) -> list[bool]:
    return [i < good for i in range(size)]


def scored(hits: Any, gold: list[dict[str, Any]] | None = None, **options: Any) -> Result:
    hits = list(hits)
    asked = options.pop("metrics", METRICS)
    return karat.evaluate(run_of(hits), gold or gold_of(len(hits)), asked, sampling=FAST, **options)


def verdict(result: Result, baseline: Result | None = None, **fields: Any) -> GateVerdict:
    (found,) = judge_result(result, Criteria([Gate(**fields)]), baseline).verdicts
    return found


@pytest.mark.parametrize(
    ("good", "fields", "outcome", "blocks"),
    [
        # The mean decides; the severity says whether it blocks.
        (90, {"threshold": 0.8}, "pass", False),
        (70, {"threshold": 0.8}, "fail", True),
        (70, {"threshold": 0.8, "severity": "warning"}, "fail", False),
        (82, {"threshold": 0.8}, "pass", False),
        # Not proven: blocks for `on: bound` unless told otherwise, and never as a warning.
        (82, {"threshold": 0.8, "on": "bound"}, "inconclusive", True),
        (82, {"threshold": 0.8, "on": "bound", "inconclusive": "warn"}, "inconclusive", False),
        (82, {"threshold": 0.8, "on": "bound", "inconclusive": "pass"}, "inconclusive", False),
        (82, {"threshold": 0.8, "on": "bound", "severity": "warning"}, "inconclusive", False),
        (99, {"threshold": 0.8, "on": "bound"}, "pass", False),
        (60, {"threshold": 0.8, "on": "bound"}, "fail", True),
    ],
)
def test_outcome_severity_and_policy(good: int, fields: dict[str, Any], outcome: str, blocks: bool) -> None:
    found = judge_result(scored(share(good, 100)), Criteria([Gate(metric="hit@1", **fields)]), None)
    (one,) = found.verdicts
    assert (one.outcome, one.blocks, found.exit_code) == (outcome, blocks, int(blocks))
    assert found.outcome == (outcome if blocks else "pass")


@pytest.mark.parametrize(
    ("drop", "fields", "outcome", "blocks"),
    [
        (0, {"regression_max": 0.03}, "pass", False),
        (2, {"regression_max": 0.03}, "pass", False),
        (3, {"regression_max": 0.02}, "inconclusive", False),  # 3 of 100 may be chance
        (3, {"regression_max": 0.02, "inconclusive": "block"}, "inconclusive", True),
        (15, {"regression_max": 0.03}, "fail", True),
        (15, {"regression_max": 0.03, "severity": "warning"}, "fail", False),
        (2, {"regression_max": 0.03, "on": "bound"}, "inconclusive", True),
        (1, {"regression_max": 0.10, "on": "bound"}, "pass", False),
        (40, {"regression_max": 0.10, "on": "bound"}, "fail", True),
    ],
)
def test_a_regression(drop: int, fields: dict[str, Any], outcome: str, blocks: bool) -> None:
    before, after = scored(share(80, 100)), scored(share(80 - drop, 100))
    found = verdict(after, before, metric="hit@1", **fields)
    assert (found.outcome, found.blocks) == (outcome, blocks)
    (part,) = found.parts
    assert part.difference is not None
    assert (part.difference.losses, part.difference.wins) == (drop, 0)
    if outcome == "inconclusive":
        assert part.needed is not None
        numbers = [int(n.replace(",", "")) for n in re.findall(r"\b\d[\d,]*", found.reason)]
        assert any(part.needed <= number <= 1.1 * part.needed for number in numbers)  # rounded up
    if drop:
        assert re.search(rf"\b80\.0%.*\b{80 - drop}\.0%.*−{drop}\.0 pp", found.reason)


def test_the_same_rankings_pass_at_once_even_where_proof_is_asked_for() -> None:
    small = scored(share(3, 5))
    found = verdict(small, small, metric="hit@1", regression_max=0.0, on="bound")
    assert (found.outcome, found.value, found.n) == ("pass", 0.6, 5)


def test_the_exit_code_is_the_worst_of_all_gates() -> None:
    def of(outcome: str, blocks: bool) -> GateVerdict:
        return GateVerdict("g", "mrr", None, "error", outcome, blocks, "", None, None, None, 0, "pp", [])

    passing, told, blocked = of("pass", False), of("fail", False), of("fail", True)
    unproven, invalid = of("inconclusive", True), of("invalid", True)
    assert overall([passing, told]) == ("pass", 0)
    assert overall([passing, unproven]) == ("inconclusive", 1)
    assert overall([blocked, unproven]) == ("fail", 1)
    assert overall([told, unproven]) == ("inconclusive", 1)
    assert overall([blocked, invalid, passing]) == ("invalid", 2)


def test_without_a_baseline_the_floor_decides_and_it_says_how_to_save_one() -> None:
    for good, outcome in ((90, "pass"), (70, "fail")):
        found = verdict(scored(share(good, 100)), metric="hit@1", threshold=0.8, regression_max=0.03)
        assert found.outcome == outcome
        assert [part.outcome for part in found.parts] == [outcome, "not checked"]
        assert "karat eval" in found.reason
    only = verdict(scored(share(70, 100)), metric="hit@1", regression_max=0.03)
    assert (only.outcome, only.blocks) == ("invalid", True)  # nothing was checked


def saved(folder: Path, name: str, result: Result, **changes: Any) -> Path:
    """As `karat eval -o` writes it, with some of it changed."""
    import msgspec

    content = json.loads(msgspec.json.encode(saved_form(result)))
    for path, value in changes.items():
        place = content
        *steps, last = path.split("__")
        for step in steps:
            place = place[step]
        place[last] = value
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content))
    return file


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"dataset__version": "2"}, "2 and 1"),
        ({"definitions": {"hit@1": 99, "mrr": 1}}, "hit@1"),
        ({"settings__missing": "skip"}, "missing"),
        ({"settings__k": 7}, "k is 7 and 5"),
        ({"settings__doc_of": "/"}, "doc_of"),
    ],
)
@pytest.mark.parametrize("role", ["baseline", "anchor"])
def test_what_does_not_measure_the_same_is_no_baseline(
    tmp_path: Path, changes: dict[str, Any], word: str, role: str
) -> None:
    """Refused as a whole, exit code 2: whatever came out would be about the change of the data."""
    result = read_result(saved(tmp_path, "run", scored(share(8, 10)), dataset__version="1"))
    file = saved(tmp_path, "before", scored(share(8, 10)), **{"dataset__version": "1", **changes})
    asked = [Gate(metric="hit@1", regression_max=0.1, anchor=str(file) if role == "anchor" else None)]
    with refused("not-comparable", ConfigError) as caught:
        gate(result, None, asked, baseline=file if role == "baseline" else None)
    assert caught.value.exit_code == 2
    assert word in caught.value.what
    assert caught.value.hint
    assert "--force" not in caught.value.hint  # which gate does not have


def test_a_saved_baseline_needs_only_what_is_compared_with_it(tmp_path: Path) -> None:
    run, gold = run_of(share(8, 10)), gold_of(10)
    file = saved(tmp_path, "before", scored(share(8, 10), metrics=["hit@1"]), schema="karat/result/1", tables=None)
    found = gate(run, gold, ["hit@1 drop <= 0.1", "mrr >= 0.5"], baseline=file, sampling=FAST)
    assert [v.outcome for v in found.verdicts] == ["pass", "pass"]
    assert "mrr" in " ".join(found.notes)
    with refused("missing-metric", ConfigError) as caught:
        gate(run, gold, ["hit@1 drop <= 0.1", "mrr drop <= 0.5"], baseline=file, sampling=FAST)
    assert "mrr" in caught.value.what
    assert "-m mrr" in caught.value.hint


def test_a_saved_run_is_judged_by_metrics_that_were_not_named(tmp_path: Path) -> None:
    file = saved(tmp_path, "run", scored(share(8, 10), metrics=["hit@1"]))
    (found,) = gate(file, None, "mrr >= 0.5").verdicts
    assert (found.outcome, found.value) == ("pass", 0.9)


def test_a_saved_run_that_cannot_tell_a_metric_is_refused(tmp_path: Path) -> None:
    """Karat 0.1 saved no tables."""
    result = scored(share(8, 10), metrics=["hit@1"])
    file = saved(tmp_path, "run", result, schema="karat/result/1", tables=None)
    with refused("missing-metric", ConfigError):
        gate(file, None, "mrr >= 0.5")


def test_queries_that_only_one_side_has_are_told() -> None:
    before = scored(share(8, 10))
    after = scored(share(16, 20))
    found = judge_result(after, Criteria([Gate(metric="hit@1", regression_max=0.1)]), before)
    assert any("10" in note for note in found.notes)
    part = found.verdicts[0].parts[0]
    assert part.difference is not None
    assert (part.difference.n, found.verdicts[0].n) == (10, 20)


def test_a_baseline_of_other_queries_is_refused() -> None:
    other = karat.evaluate({"x": ["a"]}, {"x": ["a"]}, METRICS)
    with refused("no-common-query", ConfigError):
        verdict(scored(share(8, 10)), other, metric="hit@1", regression_max=0.1)


def test_a_segment_that_the_baseline_lacks_cannot_be_judged() -> None:
    gold = gold_of(20, language=lambda i: "en" if i < 10 else "pt")
    before = scored(share(8, 10), gold[:10])
    after = scored(share(16, 20), gold)
    criteria = Criteria([Gate(metric="hit@1", regression_max=0.1, each="language")])
    found = judge_result(after, criteria, before)
    assert [(v.segment, v.outcome) for v in found.verdicts] == [("language en", "pass"), ("language pt", "invalid")]
    assert found.exit_code == 2
    assert found.verdicts[1].reason


@pytest.mark.parametrize("missing", ["worst", "skip"])
def test_too_many_missing_queries_cannot_be_judged(tmp_path: Path, missing: Any) -> None:
    """10 of 100 are allowed, 11 are not; the saved result says the same."""
    for there, outcome in ((90, "pass"), (89, "invalid")):
        run = run_of([True] * there)
        result = karat.evaluate(run, gold_of(100), METRICS, missing=missing, sampling=FAST)
        live = verdict(result, metric="hit@1", threshold=0.5)
        again = gate(saved(tmp_path, "run", result), None, "hit@1 >= 0.5")
        assert live.outcome == again.verdicts[0].outcome == outcome
        assert again.exit_code == (2 if outcome == "invalid" else 0)
    assert re.findall(r"\d+\.\d%", live.reason) == ["11.0%", "10.0%"]  # missing, allowed
    lenient = judge_result(result, Criteria([Gate(metric="hit@1", threshold=0.5)], max_missing=0.2), None)
    assert lenient.exit_code == 0


def test_too_few_queries_cannot_be_judged() -> None:
    result = scored(share(8, 10))
    assert verdict(result, metric="hit@1", threshold=0.5, min_queries=10).outcome == "pass"
    found = verdict(result, metric="hit@1", threshold=0.5, min_queries=11, severity="warning")
    assert (found.outcome, found.blocks, found.n) == ("invalid", True, 10)
    assert re.findall(r"\d+", found.reason) == ["10", "11"]  # there, asked for


def test_segments_by_any_kind_of_value() -> None:
    gold = gold_of(
        12, language=lambda i: ["en", "pt-BR"][i % 2], level=lambda i: float(i % 3), hard=lambda i: i % 2 == 0
    )
    result = scored([i % 2 for i in range(12)], gold)
    for segment, label, n in (
        ({"language": "pt-BR"}, "language pt-BR", 6),
        ({"level": 1}, "level 1", 4),
        ({"level": 1.0}, "level 1", 4),
        ({"level": "1"}, "level 1", 4),
        ({"hard": True}, "hard yes", 6),
        ({"language": "en", "level": 2}, "language en, level 2", 2),
    ):
        found = verdict(result, metric="mrr", threshold=0.5, segment=segment)
        assert (found.segment, found.n) == (label, n)
    assert verdict(result, metric="hit@1", threshold=0.5, segment={"hard": False}).outcome == "pass"
    assert verdict(result, metric="hit@1", threshold=0.5, segment={"hard": True}).outcome == "fail"


def test_a_segment_without_a_query() -> None:
    gold = gold_of(4, language=lambda i: "pt-BR" if i else "en", topic=lambda i: "a" if i else "b")
    result = scored(share(4, 4), gold)
    found = verdict(result, metric="mrr", threshold=0.5, segment={"language": "pt-br"})
    assert (found.outcome, found.n) == ("invalid", 0)
    assert "pt-BR" in found.reason  # which was meant
    both = verdict(result, metric="mrr", threshold=0.5, segment={"language": "en", "topic": "a"})
    assert (both.outcome, both.segment) == ("invalid", "language en, topic a")
    for fields in ({"segment": {"langage": "en"}}, {"each": "langage"}):
        with refused("unknown-attribute", ConfigError, name="langage") as caught:
            verdict(result, metric="mrr", threshold=0.5, **fields)
        assert "language" in caught.value.hint


def test_a_large_segment_is_found_fast() -> None:
    gold = gold_of(4000, language=lambda i: "en" if i % 2 else "pt")
    result = scored(share(2000, 4000), gold)
    begin = time.process_time()
    assert verdict(result, metric="hit@1", threshold=0.4, segment={"language": "en"}).n == 2000
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("on", ["mean", "bound"])
@pytest.mark.parametrize("regression", [None, 0.1])
def test_an_undefined_metric_cannot_be_judged(on: Any, regression: float | None) -> None:
    """Also in one segment of several: the others keep their verdicts."""
    gold = gold_of(40, language=lambda i: "en" if i < 20 else "xx")
    for entry in gold[20:]:
        entry["gold"] = []
        entry["no_answer"] = True
    result = scored(share(40, 40), gold)
    criteria = Criteria([Gate(metric="hit@1", threshold=0.5, regression_max=regression, each="language", on=on)])
    found = judge_result(result, criteria, result if regression is not None else None)
    assert [(v.outcome, v.n) for v in found.verdicts] == [("pass", 20), ("invalid", 0)]
    assert "hit@1" in found.verdicts[1].reason
    assert found.exit_code == 2


def test_segments_of_noise_go_red_rarely() -> None:
    """Eight segments of 40 queries, a system against itself with other luck: the naked difference goes red in most."""
    rng = np.random.default_rng(5)
    size, rounds = 320, 60
    gold = gold_of(size, topic=lambda i: f"t{i % 8}")
    one = scored(share(size, size), gold, metrics=["hit@1"])
    asked = Criteria([Gate(metric="hit@1", regression_max=0.03, each="topic")])
    red = naked = told = 0
    for _ in range(rounds):
        chance = rng.random(size) < 0.8
        sides = [np.where(rng.random(size) < 0.8, chance, rng.random(size) < 0.8).astype(float) for _ in range(2)]
        before, after = (_with(one, values) for values in sides)
        judge = GateJudge(after, baseline=None)
        judge.baseline = _baseline(before)
        verdicts = judge.verdicts(asked)
        red += any(v.blocks for v in verdicts)
        told += any(v.outcome == "inconclusive" for v in verdicts)
        naked += any((sides[1] - sides[0])[i::8].mean() < -0.03 for i in range(8))
    assert naked > 0.7 * rounds
    assert red <= 0.1 * rounds
    assert told > 0.5 * rounds  # and it is said aloud


def _with(result: Result, values: Any) -> Result:
    from msgspec.structs import replace

    return replace(result, values={"hit@1": values})


def _baseline(result: Result) -> Any:
    from karat.gates.verdicts import Baseline

    return Baseline("before", result)


def test_one_bad_segment_of_eight_is_named() -> None:
    gold = gold_of(320, topic=lambda i: f"t{i % 8}")
    before = scored([True] * 320, gold)
    after = scored([i % 8 != 3 or i % 3 > 0 for i in range(320)], gold)
    found = judge_result(after, Criteria([Gate(metric="hit@1", regression_max=0.03, each="topic")]), before)
    assert [v.segment for v in found.verdicts if v.outcome == "fail"] == ["topic t3"]
    assert found.outcome == "fail"


def test_a_missed_floor_does_not_lower_the_bar_for_regressions() -> None:
    """Two segments miss the floor by their mean, which is no evidence of a regression anywhere."""
    gold = gold_of(160, topic=lambda i: f"t{i % 4}")
    low = [i % 4 in (2, 3) and i % 16 < 4 for i in range(160)]
    before = scored([not x for x in low], gold)
    lost = set(range(0, 24, 4))  # six of t0's 40 queries: fails alone, not as one of four
    after = scored([not low[i] and i not in lost for i in range(160)], gold)
    alone = verdict(after, before, metric="hit@1", regression_max=0.03, segment={"topic": "t0"})
    assert alone.outcome == "fail"
    for floor in (None, 0.999):
        asked = Criteria([Gate(metric="hit@1", threshold=floor, regression_max=0.03, each="topic")])
        parts = {v.segment: v.parts for v in judge_result(after, asked, before).verdicts}
        (part,) = [p for p in parts["topic t0"] if p.kind == "regression"]
        assert part.outcome == "inconclusive"
        assert part.needed is not None


def test_conversations_widen_the_doubt() -> None:
    """Ten conversations of ten queries that fall together are ten cases, not a hundred."""
    gold = gold_of(100, conversation_id=lambda i: f"c{i // 10}")
    before = scored([True] * 100, gold)
    after = scored([i >= 20 for i in range(100)], gold)  # two whole conversations
    together = verdict(after, before, metric="hit@1", regression_max=0.05)
    apart = verdict(
        scored([i >= 20 for i in range(100)], gold, cluster="none"),
        scored([True] * 100, gold, cluster="none"),
        metric="hit@1",
        regression_max=0.05,
    )
    assert (together.outcome, apart.outcome) == ("inconclusive", "fail")
    assert together.value == apart.value == 0.8


def outcomes(found: Verdicts) -> list[Any]:
    return [(v.gate, v.segment, v.outcome, v.blocks, v.reason, v.value, v.low, v.high, v.n) for v in found.verdicts]


def test_a_saved_result_gated_again_says_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    gold = gold_of(
        90,
        language=lambda i: ["en", "pt", "es"][i % 3],
        conversation_id=lambda i: f"c{i // 3}",
        query=lambda i: "word " * (i % 20),
    )
    run, before = run_of(rng.random(90) < 0.7), run_of(rng.random(90) < 0.8)
    asked = [
        "hit@1 >= 0.7 on bound",
        "mrr drop <= 0.01 in each language",
        "hit@1 drop <= 0.02 on bound",
        "mrr >= 0.8 in each query_length",
        "mrr >= 0.2 in language=pt",
    ]
    live = gate(run, gold, asked, baseline=before, sampling=FAST)
    files = [
        saved(tmp_path, name, karat.evaluate(r, gold, METRICS, sampling=FAST))
        for name, r in (("r", run), ("b", before))
    ]
    again = gate(files[0], None, asked, baseline=files[1])
    assert outcomes(again) == outcomes(live)
    assert again.exit_code == live.exit_code


def test_a_slow_slide_is_caught_by_the_anchor(tmp_path: Path) -> None:
    """Each step is within the limit; against the last release the slide is not."""
    steps = [scored(share(good, 200)) for good in (180, 176, 172, 168, 164)]
    anchor = saved(tmp_path, "release", steps[0])
    last = None
    for before, after in itertools.pairwise(steps):
        assert verdict(after, before, metric="hit@1", regression_max=0.03).outcome == "pass"
        last = verdict(after, before, metric="hit@1", regression_max=0.03, anchor=str(anchor))
    assert last is not None
    assert last.outcome == "fail"
    assert "release.json" in last.reason
    assert [p.outcome for p in last.parts] == ["pass", "fail"]


def test_an_anchor_alone_is_a_check(tmp_path: Path) -> None:
    anchor = saved(tmp_path, "release", scored(share(90, 100)))
    found = verdict(scored(share(60, 100)), metric="hit@1", regression_max=0.03, anchor=str(anchor))
    assert [p.outcome for p in found.parts] == ["fail", "not checked"]


def test_an_anchor_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text("{}\n")
    for name, code in (("none.json", "no-such-file"), ("run.jsonl", "not-a-result")):
        with refused(code, ConfigError, file=tmp_path / name) as caught:
            verdict(scored(share(6, 10)), metric="hit@1", regression_max=0.1, anchor=str(tmp_path / name))
        assert "karat eval" in str(caught.value)
    both = evaluate_all(
        [{"query_id": "q0000", "system": s, "topk": ["a"]} for s in "xy"], gold_of(1), METRICS, sampling=FAST
    )
    import msgspec

    from karat.results.saved import SavedResults

    file = tmp_path / "two.json"
    file.write_bytes(msgspec.json.encode(SavedResults(results=[saved_form(r) for r in both.values()])))
    with refused("several-systems", ConfigError):
        verdict(scored(share(6, 10)), metric="hit@1", regression_max=0.1, anchor=str(file))


def test_an_old_baseline_gets_a_note() -> None:
    """By the days of the code, which a checkout or a download does not change."""
    before, after = scored(share(8, 10)), scored(share(8, 10))
    before.provenance["code_date"], after.provenance["code_date"] = "2026-01-01", "2026-07-20"
    found = gate(after, None, "hit@1 drop <= 0.1", baseline=before)
    assert [re.findall(r"\d+", note) for note in found.notes] == [["200"]]
    assert found.exit_code == 0
    before.provenance["code_date"] = "2026-07-01"
    assert gate(after, None, "hit@1 drop <= 0.1", baseline=before).notes == []


def test_a_baseline_that_lacks_queries_hides_no_regression() -> None:
    run, gold = run_of(share(6, 10)), gold_of(10)
    half = dict(list(run_of(share(8, 10)).items())[:5])
    (found,) = gate(run, gold, "hit@1 drop <= 0.1", baseline=half).verdicts
    assert found.outcome == "invalid"
    assert re.findall(r"\d+\.\d%", found.reason) == ["50.0%", "10.0%"]  # missing, allowed


def test_what_the_baseline_lacks_is_no_gain_of_the_candidate() -> None:
    """The five queries that the baseline never answered would hide five that the candidate lost."""
    gold, there = gold_of(100), run_of([True] * 100)
    baseline = dict(list(there.items())[5:])
    candidate = run_of([True] * 94 + [False] * 6)
    (found,) = gate(candidate, gold, "hit@1 drop <= 0.05", baseline=baseline, sampling=FAST).verdicts
    assert found.outcome == "fail"


def test_queries_without_an_answer_may_lack() -> None:
    gold = {f"q{i:04}": ["a"] for i in range(80)}
    rows = [{"query_id": q, "gold": ids} for q, ids in gold.items()]
    rows += [{"query_id": f"n{i}", "no_answer": True} for i in range(20)]
    (found,) = gate({q: ["a"] for q in gold}, rows, "hit@1 >= 0.5", sampling=FAST).verdicts
    assert found.outcome == "pass"


def test_several_systems_in_one_file_must_be_told_apart() -> None:
    run = [{"query_id": "q0000", "system": s, "topk": ["a"]} for s in "xy"]
    with refused("several-systems", ConfigError) as caught:
        gate(run, gold_of(1), "hit@1 >= 0.5")
    assert "x, y" in caught.value.what
    assert "--system" in caught.value.hint
    with refused("several-systems", ConfigError):
        gate(run_of([True]), gold_of(1), "hit@1 >= 0.5", baseline=run)


def timed(times: Any) -> list[dict[str, Any]]:
    return [
        {"query_id": f"q{i:04}", "topk": ["a"], "latency_ms": {"retrieve": t, "rerank": 2 * t}}
        for i, t in enumerate(times)
    ]


def test_latency_quantiles_are_better_when_lower() -> None:
    slow, fast, gold = timed(range(20, 120)), timed(range(10, 110)), gold_of(100)

    def outcome(text: str, baseline: Any = None) -> GateVerdict:
        (found,) = gate(slow, gold, text, baseline=baseline, sampling=FAST).verdicts
        return found

    assert outcome("latency_p50 <= 250 ms").outcome == "pass"
    assert outcome("latency_p50 <= 150 ms").outcome == "fail"
    assert outcome("latency_p50(stage=rerank) <= 140 ms").outcome == "pass"
    assert outcome("latency_p50(stage=retrieve) <= 60 ms").outcome == "fail"
    assert outcome("latency_p90 <= 330 ms on bound").outcome == "inconclusive"
    assert outcome("latency_p90 <= 200 ms on bound").outcome == "fail"
    worse = outcome("latency_p50 rise <= 5 ms", fast)
    assert (worse.outcome, worse.unit) == ("fail", "ms")
    numbers = r"178\.5 ms.*208\.5 ms.*\+30\.0 ms.*\+5\.0 ms"
    assert re.search(numbers, worse.reason)
    (better,) = gate(fast, gold, "latency_p50 rise <= 5 ms", baseline=slow, sampling=FAST).verdicts
    assert better.outcome == "pass"
    assert re.search(r"208\.5 ms.*178\.5 ms.*−30\.0 ms", better.reason)


def test_a_quantile_of_few_queries_has_no_interval() -> None:
    (found,) = gate(timed(range(10, 30)), gold_of(20), "latency_p90 <= 100 ms").verdicts
    assert (found.outcome, found.low, found.parts[0].certain) == ("pass", None, False)
    (proof,) = gate(timed(range(10, 30)), gold_of(20), "latency_p90 <= 100 ms on bound").verdicts
    assert (proof.outcome, proof.blocks) == ("inconclusive", True)


def test_a_stage_that_was_not_logged_cannot_be_judged() -> None:
    found = gate(timed([1, 2]), gold_of(2), "latency_p50(stage=rerankk) <= 10")
    assert (found.exit_code, found.verdicts[0].outcome) == (2, "invalid")


def test_lower_is_better_by_sign_for_means_too() -> None:
    gold = gold_of(60)
    both = {f"q{i:04}": ["a#1", "b#1"] for i in range(60)}
    same = {f"q{i:04}": ["a#1", "a#2"] for i in range(60)}
    (found,) = gate(same, gold, "redundancy@2 rise <= 0.1", baseline=both, sampling=FAST).verdicts
    assert found.outcome == "fail"
    assert re.search(r"\b0\.0%.*\b50\.0%", found.reason)
    (found,) = gate(both, gold, "redundancy@2 rise <= 0.1", baseline=same, sampling=FAST).verdicts
    assert found.outcome == "pass"
    (found,) = gate(both, gold, "redundancy@2 <= 0.1 on bound", sampling=FAST).verdicts
    assert found.outcome == "pass"


def test_a_micro_average_counts_items_not_queries() -> None:
    """One query of nine items, found, and nine of one item, not found: half of the items, a tenth of the queries."""
    items = [f"i{n}" for n in range(9)]
    gold = {"big": items, **{f"s{n}": ["x"] for n in range(9)}}
    run = {"big": items, **{f"s{n}": ["y"] for n in range(9)}}
    (micro,) = gate(run, gold, "recall(average=micro)@10 >= 0.5", sampling=FAST).verdicts
    (macro,) = gate(run, gold, "recall@10 >= 0.5", sampling=FAST).verdicts
    assert (micro.value, micro.outcome, macro.value, macro.outcome) == (0.5, "pass", 0.1, "fail")
    better = {**run, "s0": ["x"]}
    (found,) = gate(run, gold, "recall(average=micro)@10 drop <= 0.01", baseline=better, sampling=FAST).verdicts
    (part,) = found.parts
    assert part.difference is not None
    assert part.difference.delta == pytest.approx(-1 / 18)


def test_a_number_that_looks_like_the_limit_is_told_with_more_digits() -> None:
    found = verdict(scored(share(849_6, 1_0000)), metric="hit@1", threshold=0.85)
    assert re.search(r"\b84\.96%.*\b85\.00%", found.reason)


def test_gates_of_a_file_carry_their_place(tmp_path: Path) -> None:
    file = tmp_path / "ship-criteria.yaml"
    file.write_text("gates:\n  - metric: hit@1\n    threshold: 0.5\n  - {metric: mrr, threshold: 0.2}\n")
    found = gate(run_of(share(8, 10)), gold_of(10), file)
    assert [(v.file, v.line) for v in found.verdicts] == [(str(file), 2), (str(file), 4)]
    found = gate(run_of(share(8, 10)), gold_of(10), "hit@1 >= 0.5")
    assert [(v.file, v.line) for v in found.verdicts] == [(None, None)]


def test_the_breakdown_is_by_tags_that_part_the_queries() -> None:
    gold = gold_of(40, language=lambda i: ["en", "pt"][i % 2], all_same=lambda i: "x", unique=lambda i: f"u{i}")
    after, before = scored(share(20, 40), gold), scored(share(30, 40), gold)
    alone = judge_result(after, Criteria([Gate(metric="hit@1", threshold=0.1)]), None)
    assert {row.segment for row in alone.segments} == {"language"}
    found = judge_result(after, Criteria([Gate(metric="hit@1", threshold=0.1)]), before)
    assert found.comparison is not None
    assert {g.segment for g in found.comparison.pairs[0].segments} == {"language"}
    assert found.comparison.statistics["level"] == found.statistics["level"]


@pytest.mark.parametrize("on", ["mean", "bound"])
@pytest.mark.parametrize("sizes", [(20, 40, 16), (100, 8, 32)])
def test_each_and_segment_agree_on_a_floor(on: Any, sizes: tuple[int, ...]) -> None:
    """By the mean of each value: 15 of 20 miss a floor of 85 %, whether the value is named or one of several."""
    topics = [f"t{t}" for t, size in enumerate(sizes) for _ in range(size)]
    gold = gold_of(len(topics), topic=lambda i: topics[i])
    rate = {"t0": 0.75, "t1": 0.875, "t2": 0.25}
    order = [topics[:i].count(topic) for i, topic in enumerate(topics)]
    hits = [place < rate[topic] * sizes[int(topic[1])] for place, topic in zip(order, topics, strict=True)]
    result = scored(hits, gold)
    each = judge_result(result, Criteria([Gate(metric="hit@1", threshold=0.85, each="topic", on=on)]), None)
    found = {v.segment: v for v in each.verdicts}
    for topic, mean in rate.items():
        named = verdict(result, metric="hit@1", threshold=0.85, segment={"topic": topic}, on=on)
        same = found[f"topic {topic}"]
        assert (named.value, same.value) == (mean, mean)
        if on == "mean":
            assert same.outcome == named.outcome == ("pass" if mean >= 0.85 else "fail")
            assert (same.blocks, same.parts) == (named.blocks, named.parts)
        assert (same.outcome == "pass") == (named.outcome == "pass")
        assert same.blocks == named.blocks
    assert each.exit_code == 1


def test_separate_segment_gates_are_told_that_they_raise_more_false_alarms() -> None:
    """Eight gates, each alone right in 97.5 of 100 comparisons of a system with itself."""
    gold = gold_of(80, topic=lambda i: f"t{i % 8}", language=lambda i: f"l{i % 2}")
    result = scored(share(60, 80), gold)

    def notes(gates: list[Gate], baseline: Result | None = result) -> list[str]:
        return judge_result(result, Criteria(gates), baseline).notes

    by_topic = [Gate(metric="hit@1", regression_max=0.03, segment={"topic": f"t{t}"}) for t in range(8)]
    (note,) = notes(by_topic)
    assert re.findall(r"\d[\d.]*", note.replace("hit@1", "")) == ["8", "2.5", "18"]  # gates, percent of one and of all
    assert "each: topic" in note
    assert notes([Gate(metric="hit@1", regression_max=0.03, each="topic")]) == []
    assert notes(by_topic[:2]) == []  # together still right in 95 of 100
    assert notes(by_topic, None) == []  # no baseline, no comparison
    floors = [Gate(metric="hit@1", threshold=0.5, segment={"topic": f"t{t}"}) for t in range(8)]
    assert notes(floors) == []  # their means decide, in `each` too
    other = [Gate(metric="hit@1", regression_max=0.03, segment={"language": f"l{t}"}) for t in range(2)]
    assert notes([*by_topic[:2], *other, Gate(metric="mrr", regression_max=0.03, segment={"topic": "t5"})]) == []
    both = [Gate(metric="hit@1", regression_max=0.03, segment={"topic": f"t{t}", "language": "l0"}) for t in (0, 2, 4)]
    (note,) = notes(both)
    assert "each: language×topic" in note


def test_an_attribute_that_the_gold_set_lacks_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "ship-criteria.yaml"
    file.write_text("gates:\n  - metric: hit@1\n    threshold: 0.5\n    each: topik\n")
    with refused("unknown-attribute", ConfigError, file=file, line=4) as caught:
        gate(run_of(share(6, 10)), gold_of(10, topic=lambda i: f"t{i % 2}"), file)
    assert "topic" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "before", "after", "outcome"),
    [
        # The median of 3 × (10 … 109) ms is 178.5 ms: 10 % of it are 17.85 ms.
        ("latency_p50 rise <= 10% of baseline", 10, 15, "pass"),
        ("latency_p50 rise <= 10% of baseline", 10, 17, "fail"),
        ("latency_p50 rise <= 20% of the baseline", 10, 17, "pass"),
        ("latency_p50 rise <= 10% of baseline on bound", 10, 12, "pass"),
        ("latency_p50 rise <= 10% of baseline", 500, 515, "pass"),  # the same 45 ms of a far longer time
    ],
)
def test_a_limit_relative_to_the_baseline(text: str, before: int, after: int, outcome: str) -> None:
    old, new = timed(range(before, before + 100)), timed(range(after, after + 100))
    (found,) = gate(new, gold_of(100), text, baseline=old, sampling=FAST).verdicts
    assert found.outcome == outcome


def test_a_relative_limit_of_a_share_is_a_share_of_it() -> None:
    """5 of 40 points are 12.5 % of the baseline; a bare % is percentage points."""
    gold, before, after = gold_of(500), run_of(share(200, 500)), run_of(share(175, 500))

    def outcome(limit: str) -> str:
        return gate(after, gold, f"hit@1 drop <= {limit}", baseline=before, sampling=FAST).verdicts[0].outcome

    assert [outcome(limit) for limit in ("13% of baseline", "12% of baseline", "6%", "4%")] == [
        "pass",
        "fail",
        "pass",
        "fail",
    ]


def test_limits_are_told_in_the_unit_of_the_metric() -> None:
    """No limit of −0.0, and no mean reciprocal rank in percent."""
    before, after = scored(share(95, 100)), scored(share(60, 100))
    none = verdict(after, before, metric="hit@1", regression_max=0.0)
    tiny = verdict(after, before, metric="hit@1", regression_max=0.0001)
    assert "0.0 pp" not in none.reason.replace("35.0 pp", "")
    assert re.search(r"−0\.01 pp", tiny.reason)
    rank = verdict(after, before, metric="mrr", threshold=0.9, regression_max=0.05)
    assert (rank.unit, rank.outcome) == ("", "fail")
    assert "%" not in rank.reason
    assert " pp" not in rank.reason
    assert {"0.800", "0.975", "0.175", "0.050"} <= set(re.findall(r"0\.\d+", rank.reason))
