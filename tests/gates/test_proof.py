"""What `on: bound` proves: exact chances of a false pass, summed over everything that can be drawn."""

from __future__ import annotations

import json
import math
import sys
from functools import cache
from pathlib import Path

import pytest

import karat
from karat.cli.main import main
from karat.gates.gate import gate
from karat.gates.verdict_form import GateVerdict
from karat.results.save import saved_form
from karat.results.saved import saved_text
from karat.statistics.sampling import Sampling

FAST = Sampling(resamples=2000)
GOLD = {f"q{i:03}": ["a"] for i in range(50)}


def lists(wins: int, losses: int, size: int = 50) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """(baseline, candidate): some queries are won, some lost, and all others are found in both, in other lists."""
    found, not_found = ["a", "x", "y"], ["x", "y", "z"]
    before = {f"q{i:03}": not_found if i < wins else found for i in range(size)}
    after = {
        q: found if i < wins else not_found if i < wins + losses else ["a", "b", "y"] for i, q in enumerate(before)
    }
    return before, after


@cache
def outcomes(wins: int, losses: int) -> dict[float, str]:
    """Limit → what a proof of at most this drop comes to."""
    before, after = lists(wins, losses)
    gates = [f"hit@3 drop <= {limit} on bound" for limit in LIMITS]
    found = gate(after, GOLD, gates, baseline=before, sampling=FAST).verdicts
    return {limit: verdict.outcome for limit, verdict in zip(LIMITS, found, strict=True)}


LIMITS = (0.03, 0.045, 0.05, 0.07)


@pytest.mark.parametrize(
    ("drop", "differ"),
    [(0.03, 0.04), (0.03, 0.05), (0.03, 0.07), (0.045, 0.045), (0.045, 0.055), (0.05, 0.05), (0.07, 0.09)],
)
def test_a_drop_at_the_limit_passes_in_one_of_twenty_sets_at_most(drop: float, differ: float) -> None:
    """`differ`: share of the queries on which the two disagree. Won, lost and other queries are multinomial."""
    win, loss = (differ - drop) / 2, (differ + drop) / 2
    false = seen = 0.0
    for wins in range(12):
        for losses in range(12):
            chance = math.comb(50, wins) * math.comb(50 - wins, losses) * win**wins * loss**losses
            chance *= (1 - win - loss) ** (50 - wins - losses)
            if chance > 1e-4:
                seen += chance
                false += chance * (outcomes(wins, losses)[drop] == "pass")
    assert seen > 0.99
    assert false <= 0.05


def proof(before: object, after: object, gold: object, text: str) -> GateVerdict:
    (found,) = gate(after, gold, text, baseline=before, sampling=FAST).verdicts
    return found


def test_equal_scores_of_other_rankings_prove_nothing_by_themselves() -> None:
    """Four queries on which nothing happened to change leave room for far more than three points."""
    before, after = lists(0, 0, size=4)
    gold = dict(list(GOLD.items())[:4])
    found = proof(before, after, gold, "recall@5 drop <= 0.03 on bound")
    assert (found.outcome, found.blocks) == ("inconclusive", True)
    assert proof(before, before, gold, "recall@5 drop <= 0 on bound").outcome == "pass"
    # 1 − 0.05^(1/n) ≤ 0.03 from n = 99 on; estimated from four queries.
    assert found.parts[0].needed == pytest.approx(99, rel=0.35)
    assert proof(before, after, gold, "recall@5 drop <= 0.03").outcome == "pass"  # the mean decides


@pytest.mark.parametrize(
    ("metric", "outcome"),
    [("hit@1", "pass"), ("recall@3", "pass"), ("recall@4", "inconclusive"), ("mrr", "inconclusive")],
)
def test_rankings_are_the_same_down_to_the_cutoff(metric: str, outcome: str) -> None:
    """Lists that part at the fourth place; hashes are kept at 1, 3, 5, 10, 20 and in full."""
    gold = {f"q{i}": ["a"] for i in range(10)}
    before = {query: ["a", "b", "c", "d"] for query in gold}
    after = {query: ["a", "b", "c", "e"] for query in gold}
    assert proof(before, after, gold, f"{metric} drop <= 0.03 on bound").outcome == outcome


def test_metrics_by_document_have_the_same_cutoff() -> None:
    """It counts chunks: what comes after the first three is not looked at, whatever documents these are of."""
    gold = {f"q{i}": ["a#1", "b#1"] for i in range(10)}
    first = ["a#1", "a#2", "a#3"]
    before = {query: [*first, "b#1", "c#1"] for query in gold}
    after = {query: [*first, "c#1", "b#1"] for query in gold}
    assert karat.evaluate(before, gold, ["recall(level=doc)@3"]).means == {"recall(level=doc)@3": 0.5}
    assert proof(before, after, gold, "recall(level=doc)@3 drop <= 0.03 on bound").outcome == "pass"
    assert proof(before, after, gold, "recall(level=doc)@5 drop <= 0.03 on bound").outcome == "inconclusive"


def test_each_query_goes_by_its_own_cutoff() -> None:
    gold = [{"query_id": f"q{i}", "gold": ["a"], "k": 3 if i else 1} for i in range(10)]
    before = {f"q{i}": ["a", "b", "c", "d"] for i in range(10)}
    deeper = before | {"q0": ["a", "c", "b", "d"], "q1": ["a", "b", "c", "e"]}
    assert proof(before, deeper, gold, "recall drop <= 0.03 on bound").outcome == "pass"
    above = before | {"q1": ["a", "c", "b", "d"]}
    assert proof(before, above, gold, "recall drop <= 0.03 on bound").outcome == "inconclusive"


def test_saved_results_know_whether_their_rankings_are_the_same(tmp_path: Path) -> None:
    before, after = lists(0, 0, size=10)
    gold = dict(list(GOLD.items())[:10])
    for name, run in (("before", before), ("after", after)):
        (tmp_path / f"{name}.json").write_bytes(saved_text(saved_form(karat.evaluate(run, gold, ["recall@5"]))))
    text = "recall@5 drop <= 0.03 on bound"
    assert proof(tmp_path / "before.json", tmp_path / "before.json", None, text).outcome == "pass"
    assert proof(tmp_path / "before.json", tmp_path / "after.json", None, text).outcome == "inconclusive"


def test_the_command_blocks_what_is_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = lists(0, 0, size=10)
    for name, run in (("before", before), ("after", after)):
        lines = (json.dumps({"query_id": q, "topk": [{"chunk_id": c} for c in ids]}) for q, ids in run.items())
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    gold = tmp_path / "gold.jsonl"
    gold.write_text("\n".join(json.dumps({"query_id": q, "gold": ["a"]}) for q in before))

    def exit_code(run: str) -> int:
        asked = ["--gold", str(gold), "--baseline", str(tmp_path / "before.jsonl")]
        asked += ["--gate", "recall@5 drop <= 3pp on bound"]
        monkeypatch.setattr(sys, "argv", ["karat", "gate", str(tmp_path / f"{run}.jsonl"), *asked])
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0)

    assert (exit_code("before"), exit_code("after")) == (0, 1)
