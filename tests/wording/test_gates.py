"""What is said of gates: mistakes in criteria, the reasons of verdicts, and what the commands print."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import karat
from golden import check
from karat.cli.scoring import sides_of
from karat.gates.criteria import Criteria, Gate, check_gates, find_criteria, parse_gate, read_criteria
from karat.gates.gate import gate
from karat.gates.selftest import selftest
from karat.results.result import Result
from karat.results.save import saved_form
from karat.results.saved import read_result
from karat.statistics.intervals import Sampling
from wording import Transcript, file, refusals

Case = Callable[[], object]
FAST = Sampling(resamples=1000)
METRICS = ("hit@1", "mrr")


def criteria(content: str | bytes) -> Case:
    return lambda: read_criteria(Path(file("ship-criteria.yaml", content)))


def text(condition: str) -> Case:
    return lambda: parse_gate(condition)


def gold_of(size: int, **tags: Any) -> list[dict[str, Any]]:
    """`tags`: attribute → value of each query, by its number."""
    return [{"query_id": f"q{i:04}", "gold": ["a"], **{n: of(i) for n, of in tags.items()}} for i in range(size)]


def run_of(good: int, size: int) -> dict[str, list[str]]:
    return {f"q{i:04}": ["a", "b"] if i < good else ["b", "a"] for i in range(size)}


def scored(good: int = 8, size: int = 10, metrics: Any = METRICS, **tags: Any) -> Result:
    return karat.evaluate(run_of(good, size), gold_of(size, **tags), metrics, sampling=FAST)


def saved(name: str, result: Result, **changes: Any) -> str:
    return file(name, json.dumps({**json.loads(msgspec.json.encode(saved_form(result))), **changes}))


def against(gates: str, **changes: Any) -> Case:
    """A saved run against a saved baseline that differs in something."""
    first = {"dataset": {"version": "1"}}
    return lambda: gate(
        read_result(saved("run.json", scored(), **first)),
        None,
        gates,
        baseline=saved("before.json", scored(), **{**first, **changes}),
    )


def anchored(anchor: str) -> Case:
    return lambda: gate(scored(), None, [Gate(metric="hit@1", regression_max=0.1, anchor=anchor)])


def settings(**changes: Any) -> dict[str, Any]:
    return {**json.loads(msgspec.json.encode(saved_form(scored())))["settings"], **changes}


def two_systems() -> list[dict[str, Any]]:
    return [{"query_id": "q0000", "system": system, "topk": ["a"]} for system in "xy"]


CRITERIA: dict[str, Case] = {
    "no file": lambda: find_criteria(Path()),
    "a file that is not there": lambda: read_criteria(Path("none.yaml")),
    "an empty file": criteria(""),
    "an empty list": criteria("gates: []\n"),
    "not YAML": criteria("gates:\n  - metric: [mrr\n"),
    "indented with tabs": criteria("gates:\n\t- metric: mrr\n"),
    "a key twice": criteria("gates:\n  - {metric: mrr, metric: map}\n"),
    "a tag that does not fit": criteria("gates: [{metric: mrr, threshold: !!int ''}]"),
    "an unknown field": criteria("gates:\n  - metric: recall@5\n    treshold: 0.8\n"),
    "a field of no meaning": criteria("gates:\n  - {metric: mrr, threshold: 0.5, colour: 1}\n"),
    "text in place of a number": criteria("gates:\n  - metric: mrr\n    threshold: high\n"),
    "a number in place of text": criteria("gates: [{metric: 5, threshold: 0.5}]"),
    "a text in place of a gate": criteria("gates:\n  - recall@5 >= 0.8\n"),
    "an unknown choice": criteria("gates: [{metric: mrr, threshold: 0.5, on: men}]"),
    "an unknown policy": criteria("gates: [{metric: mrr, threshold: 0.5, inconclusive: fail}]"),
    "an unknown metric": criteria("gates:\n  - metric: recal@5\n    threshold: 0.8\n"),
    "a name that is not a metric": criteria("gates:\n  - name: our recall\n    threshold: 0.8\n"),
    "no metric": criteria("gates:\n  - threshold: 0.8\n"),
    "no condition": criteria("gates:\n  - metric: mrr\n"),
    "floor and ceiling": criteria("gates: [{metric: mrr, threshold: 0.5, max: 0.7}]"),
    "a floor of a latency": criteria("gates: [{metric: latency_p90, threshold: 60}]"),
    "a ceiling of a recall": criteria("gates: [{metric: mrr, max: 0.7}]"),
    "segment and each": criteria("gates: [{metric: mrr, threshold: 0.5, segment: {a: b}, each: a}]"),
    "an empty segment": criteria("gates: [{metric: mrr, threshold: 0.5, segment: {}}]"),
    "a value that a metric cannot have": criteria("gates: [{metric: mrr, threshold: 85}]"),
    "an infinite value": criteria("gates: [{metric: latency_p90, max: .inf}]"),
    "a negative drop": criteria("gates: [{metric: mrr, regression_max: -0.1}]"),
    "a drop by more than there is": criteria("gates: [{metric: mrr, regression_max: 3}]"),
    "no query": criteria("gates: [{metric: mrr, threshold: 0.5, min_queries: 0}]"),
    "an anchor of a floor": criteria("gates: [{metric: mrr, threshold: 0.5, anchor: a.json}]"),
    "a share over 1": criteria("gates: [{metric: mrr, threshold: 0.5}]\nmax_missing: 2\n"),
    "from Python: nothing": lambda: check_gates([]),
}

TEXTS: dict[str, Case] = {
    condition: text(condition)
    for condition in (
        "recall@5 > 0.85",
        "recall@5 >= 0.85 on median",
        "recall@5 >= 1.2.3",
        "recall@5 drop >= 0.1",
        "recall@5 rise <= 0.1",
        "latency_p90 drop <= 5",
        "latency_p90 <= 60%",
        "recall@5 >= 0.8 ms",
        "recall@5 >= 85",
        "recall@5 <= 0.9",
        "latency_p90 >= 5",
        "recal@5 >= 0.85",
    )
}

BASELINES: dict[str, Case] = {
    "another version of the dataset": against("hit@1 drop <= 0.1", dataset={"version": "2"}),
    "another definition": against("hit@1 drop <= 0.1", definitions={"hit@1": 99, "mrr": 1}),
    "another setting": lambda: against("hit@1 drop <= 0.1", settings=settings(k=7))(),
    "a metric that the baseline lacks": lambda: gate(
        scored(), None, "mrr drop <= 0.1", baseline=saved("before.json", scored(metrics=["hit@1"]), tables=None)
    ),
    "a metric that the run lacks": lambda: gate(
        saved("run.json", scored(metrics=["hit@1"]), tables=None), None, "mrr >= 0.5"
    ),
    "other queries": lambda: gate(
        scored(), None, "hit@1 drop <= 0.1", baseline=karat.evaluate({"x": ["a"]}, {"x": ["a"]}, METRICS)
    ),
    "an anchor that is not there": anchored("none.json"),
    "an anchor that is not a result": lambda: anchored(file("run.jsonl", "{}\n"))(),
    "two systems": lambda: gate(two_systems(), gold_of(1), "hit@1 >= 0.5"),
    "two runs": lambda: gate(["a.jsonl", "b.jsonl"], gold_of(1), "hit@1 >= 0.5"),
    "a baseline of two systems": lambda: gate(run_of(1, 1), gold_of(1), "hit@1 >= 0.5", baseline=two_systems()),
    "one system of the same file": lambda: sides_of(
        file("runs.jsonl", "{}\n"), "gold.jsonl", Criteria([]), "runs.jsonl", {"system": "new"}
    ),
    "an attribute that the gold set lacks": lambda: gate(
        run_of(6, 10), gold_of(10, topic=lambda i: f"t{i % 2}"), "hit@1 >= 0.5 in each topik"
    ),
    "too few rounds of a selftest": lambda: selftest(
        scored(), read_criteria(Path(file("c.yaml", "gates: [{metric: mrr, threshold: 0.5}]"))), rounds=3
    ),
}


def test_errors_of_gates(tmp_path: Path) -> None:
    groups: Mapping[str, Mapping[str, Case]] = {"Criteria": CRITERIA, "Gates as text": TEXTS, "Baselines": BASELINES}
    check("wording/errors_gates.txt", refusals(groups, tmp_path))


def timed(times: range) -> list[dict[str, Any]]:
    return [{"query_id": f"q{i:04}", "topk": ["a"], "latency_ms": {"rerank": t}} for i, t in enumerate(times)]


def test_reasons_of_verdicts(tmp_path: Path) -> None:
    both = {"topic": lambda i: f"t{i % 4}", "language": lambda i: "en" if i % 2 else "pt-BR"}
    anchor = tmp_path / "release.json"
    anchor.write_bytes(msgspec.json.encode(saved_form(scored(180, 200))))
    old, new = scored(8, 10), scored(8, 10)
    old.provenance["code_date"], new.provenance["code_date"] = "2026-01-01", "2026-07-20"
    cases = {
        "a floor": gate(scored(90, 100), None, "hit@1 >= 0.8"),
        "a floor that is missed": gate(scored(70, 100), None, "hit@1 >= 0.8"),
        "a floor that is missed by little": gate(scored(849_6, 1_0000), None, "hit@1 >= 0.85"),
        "proof of a floor": gate(scored(82, 100), None, "hit@1 >= 0.8 on bound"),
        "proof that fails": gate(scored(60, 100), None, "hit@1 >= 0.8 on bound"),
        "no drop": gate(scored(3, 5), None, "hit@1 drop <= 0.0 on bound", baseline=scored(3, 5)),
        "a rise": gate(scored(80, 100), None, "hit@1 drop <= 0.03", baseline=scored(70, 100)),
        "a drop within the limit": gate(scored(78, 100), None, "hit@1 drop <= 0.03", baseline=scored(80, 100)),
        "a drop that may be chance": gate(scored(77, 100), None, "hit@1 drop <= 0.02", baseline=scored(80, 100)),
        "a drop": gate(scored(65, 100), None, "hit@1 drop <= 0.03", baseline=scored(80, 100)),
        "proof that there is no drop": gate(
            scored(78, 100), None, "hit@1 drop <= 0.03 on bound", baseline=scored(80, 100)
        ),
        "no baseline": gate(scored(90, 100), None, [Gate(metric="hit@1", threshold=0.8, regression_max=0.03)]),
        "an anchor": gate(
            scored(164, 200),
            None,
            [Gate(metric="hit@1", regression_max=0.03, anchor=str(anchor))],
            baseline=scored(168, 200),
        ),
        "each segment": gate(scored(50, 160, **both), None, "hit@1 >= 0.6 in each topic"),
        "a segment without a query": gate(scored(8, 10, **both), None, "hit@1 >= 0.6 in language=pt-br"),
        "a segment that the baseline lacks": gate(
            scored(16, 20, half=lambda i: "first" if i < 10 else "second"),
            None,
            "hit@1 drop <= 0.1 in each half",
            baseline=scored(8, 10, half=lambda _: "first"),
        ),
        "too few queries": gate(scored(8, 10), None, [Gate(metric="hit@1", threshold=0.5, min_queries=11)]),
        "missing queries": gate(run_of(89, 89), gold_of(100), "hit@1 >= 0.5", sampling=FAST),
        "a baseline without some queries": gate(run_of(6, 10), gold_of(10), "hit@1 drop <= 0.1", baseline=run_of(5, 5)),
        "an undefined metric": gate(scored(8, 10, metrics=["freshness@5"]), None, "freshness@5 >= 0.5"),
        "a latency": gate(timed(range(20, 120)), gold_of(100), "latency_p50 <= 60 ms", sampling=FAST),
        "a latency that rises": gate(
            *(timed(range(20, 120)), gold_of(100), "latency_p50 rise <= 5 ms"),
            baseline=timed(range(10, 110)),
            sampling=FAST,
        ),
        "a latency that rises by a share": gate(
            *(timed(range(20, 120)), gold_of(100), "latency_p50 rise <= 5% of baseline"),
            baseline=timed(range(10, 110)),
            sampling=FAST,
        ),
        "no drop allowed": gate(scored(65, 100), None, "hit@1 drop <= 0", baseline=scored(80, 100)),
        "a reciprocal rank": gate(scored(65, 100), None, "mrr drop <= 0.01", baseline=scored(80, 100)),
        "a latency of few queries": gate(timed(range(10, 30)), gold_of(20), "latency_p90 <= 100 ms"),
        "an old baseline": gate(new, None, "hit@1 drop <= 0.1", baseline=old),
        "segments one by one": gate(
            scored(16, 20, **both),
            None,
            [f"hit@1 drop <= 0.1 in topic=t{t}" for t in range(4)],
            baseline=scored(16, 20, **both),
        ),
        "equal scores of other lists": gate(
            {f"q{i}": ["a", "c"] for i in range(9)},
            {f"q{i}": ["a"] for i in range(9)},
            "recall@5 drop <= 0.03 on bound",
            baseline={f"q{i}": ["a", "b"] for i in range(9)},
        ),
        "queries that only one side has": gate(scored(16, 20), None, "hit@1 drop <= 0.1", baseline=scored(8, 10)),
        "a value of all queries and a change on some": gate(
            scored(16, 20), None, [Gate(metric="hit@1", threshold=0.5, regression_max=0.1)], baseline=scored(8, 10)
        ),
    }
    said = []
    for name, found in cases.items():
        said += [f"# {name}", *(f"[{v.outcome}] {v.reason}" for v in found.verdicts)]
        said += [*(f"note: {note}" for note in found.notes), ""]
    check("wording/gate_reasons.txt", "\n".join(said))


def test_gate(terminal: Transcript) -> None:
    plain = ("helpdesk/bm25_rerank.jsonl", "-g", "helpdesk/gold.jsonl")
    files = (*plain, "--resamples", "200")
    before = ("-b", "helpdesk/bm25.jsonl")
    terminal("gate", *files, "--gate", "recall@5 >= 0.3")
    terminal("gate", *files, *before, "--gate", "recall@5 >= 0.9", "--gate", "recall@5 >= 0.36 on bound")
    terminal("gate", *files, *before, "--gate", "recall@5 drop <= 0.02 in each language", "--gate", "mrr drop <= 0.02")
    terminal("gate", *files, "--gate", "recall@5 >= 0.3 in language=xx", "-o", "verdict.md", "-o", "annotations=-")
    terminal("gate", *files, "--gate", "recall@5 >= 0.3", "-o", "verdict.pdf")
    terminal("gate", "selftest", *plain, "--gate", "recall@5 drop <= 0.02", "--gate", "ndcg@5 >= 0.4", "--rounds", "20")
    terminal.text += Path("verdict.md").read_text().replace(karat.__version__, "…")
    check("wording/gate.txt", terminal.text)
