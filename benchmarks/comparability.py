"""What ranx, ir_measures and ragas say of made-up runs, kept for tests/parity/test_like.py, and how far Karat is off.

    python -m pip install ranx ir_measures ragas rapidfuzz "langchain-community<0.4"
    python benchmarks/comparability.py --write tests/parity/peers.json
    python benchmarks/comparability.py --run RUN.trec --qrels QRELS.txt

Each tool that is installed is asked. The made-up runs have queries without relevant gold, queries that the run lacks or
that the gold lacks, lists shorter than k, and scores that differ only beyond 32 bits. None has ties: ranx leaves the
order of equal scores to an unstable sort.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from typing import Any

Scores = dict[str, dict[str, float]]
Grades = dict[str, dict[str, int]]
Values = dict[str, dict[str, float]]  # Karat's name → query → value

CUTOFFS = (1, 3, 5, 10, 100)
RANX = {
    "map": "map",
    "mrr": "mrr",
    "rprecision": "r-precision",
    "rbp(p=0.8)": "rbp.8",
    "precision": "precision",
    "recall": "recall",
    "hit": "hit_rate",
    "ndcg": "ndcg",
    "ndcg_burges": "ndcg_burges",
    **{f"precision@{k}": f"precision@{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall@{k}" for k in CUTOFFS},
    **{f"f1@{k}": f"f1@{k}" for k in CUTOFFS},
    **{f"hit@{k}": f"hit_rate@{k}" for k in CUTOFFS},
    **{f"map@{k}": f"map@{k}" for k in CUTOFFS},
    **{f"mrr@{k}": f"mrr@{k}" for k in CUTOFFS},
    **{f"ndcg@{k}": f"ndcg@{k}" for k in CUTOFFS},
    **{f"ndcg_burges@{k}": f"ndcg_burges@{k}" for k in CUTOFFS},
}
IR_MEASURES = {
    "map": "AP",
    "mrr": "RR",
    "rprecision": "Rprec",
    "bpref": "Bpref",
    "ndcg": "nDCG",
    **{f"precision@{k}": f"P@{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"R@{k}" for k in CUTOFFS},
    **{f"hit@{k}": f"Success@{k}" for k in CUTOFFS},
    **{f"map@{k}": f"AP@{k}" for k in CUTOFFS},
    **{f"mrr@{k}": f"RR@{k}" for k in CUTOFFS},
    **{f"ndcg@{k}": f"nDCG@{k}" for k in CUTOFFS},
}
BINARY = {"rbp(p=0.8)"}  # ranx gains the grade itself, which is RBP for grades 0 and 1 only


def make_world(seed: int, *, highest: int, close: bool) -> tuple[Scores, Grades]:
    """`close`: some scores of a list differ only beyond 32 bits."""
    chance = Random(seed)
    names = [f"d{i}" for i in range(60)]
    run: Scores = {}
    gold: Grades = {}
    for number in range(24):
        query = f"q{number:02d}"
        if number % 8 != 1:
            hits = chance.sample(names, chance.choice([1, 3, 12, 40]))
            scores = [chance.uniform(0, 20) for _ in hits]
            if close and len(scores) > 2:
                scores[1] = scores[0] * (1 + 1e-9)
            run[query] = dict(zip(hits, scores, strict=True))
        if number % 8 != 3:
            judged = chance.sample(names, chance.randint(3, 15))
            most = 0 if number % 8 == 5 else highest
            gold[query] = {name: chance.randint(0, most) for name in judged}
            gold[query][judged[0]] = most
    return run, gold


def ask_ranx(run: Scores, gold: Grades) -> Values:
    from ranx import Qrels, Run, evaluate

    asked = Run(run)
    binary = max(grade for grades in gold.values() for grade in grades.values()) <= 1
    named = {ours: theirs for ours, theirs in RANX.items() if binary or ours not in BINARY}
    asked = asked.make_comparable(Qrels(gold))
    evaluate(Qrels(gold), asked, list(named.values()), make_comparable=True)
    found = {name: dict(values) for name, values in asked.scores.items()}
    return {ours: {query: float(value) for query, value in found[theirs].items()} for ours, theirs in named.items()}


def ask_ir_measures(run: Scores, gold: Grades) -> Values:
    import ir_measures

    parsed = {ir_measures.parse_measure(theirs): ours for ours, theirs in IR_MEASURES.items()}
    found: Values = {}
    for value in ir_measures.iter_calc(list(parsed), gold, run):
        found.setdefault(parsed[value.measure], {})[value.query_id] = float(value.value)
    return found


def ask_ragas(run: Scores, gold: Grades) -> Values:
    """By ids; and of its precision by a model, which is none here, what it makes of the model's verdicts."""
    from ragas.dataset_schema import SingleTurnSample
    from ragas.metrics import IDBasedContextPrecision, IDBasedContextRecall, NonLLMContextPrecisionWithReference

    precision, recall = IDBasedContextPrecision(), IDBasedContextRecall()
    ordered = NonLLMContextPrecisionWithReference()
    found: Values = {"precision@1000": {}, "recall@1000": {}, "map": {}}
    for query in run.keys() & gold.keys():
        hits = sorted(run[query], key=run[query].__getitem__, reverse=True)
        relevant = [name for name, grade in gold[query].items() if grade > 0]
        sample = SingleTurnSample(retrieved_context_ids=hits, reference_context_ids=relevant)
        found["precision@1000"][query] = float(asyncio.run(precision._single_turn_ascore(sample, None)))
        found["recall@1000"][query] = float(asyncio.run(recall._single_turn_ascore(sample, None)))
        verdicts = [int(name in relevant) for name in hits]
        found["map"][query] = float(ordered._calculate_average_precision(verdicts))
    return found


TOOLS = {"ranx": ask_ranx, "ir_measures": ask_ir_measures, "ragas": ask_ragas}
WORLDS = {
    "binary": {"seed": 1, "highest": 1, "close": False},
    "graded": {"seed": 2, "highest": 3, "close": False},
    "close": {"seed": 3, "highest": 3, "close": True},
}


def installed(tool: str) -> str | None:
    try:
        return version(tool)
    except PackageNotFoundError:
        return None


def write(path: Path) -> None:
    tools = {tool: found for tool in TOOLS if (found := installed(tool))}
    worlds = {}
    for name, kind in WORLDS.items():
        run, gold = make_world(**kind)
        worlds[name] = {"run": run, "gold": gold, **{tool: TOOLS[tool](run, gold) for tool in tools}}
    made: dict[str, Any] = {"made_by": "benchmarks/comparability.py", "versions": tools, "worlds": worlds}
    path.write_text(json.dumps(made, sort_keys=True).replace("NaN", "null") + "\n")
    print(f"wrote {path}: {', '.join(f'{tool} {found}' for tool, found in tools.items())}")


def show(run: Path, qrels: Path) -> None:
    """On files of yours: values of each tool, and how many of them are Karat's."""
    import karat

    scores: Scores = {}
    for line in run.read_text().splitlines():
        query, _, name, _, score, *_ = line.split()
        scores.setdefault(query, {})[name] = float(score)
    gold: Grades = {}
    for line in qrels.read_text().splitlines():
        query, _, name, grade = line.split()
        gold.setdefault(query, {})[name] = max(int(grade), 0)
    for tool in (tool for tool in TOOLS if installed(tool)):
        theirs = TOOLS[tool](scores, gold)
        result = karat.evaluate(scores, gold, list(theirs), like=tool)
        values = equal = 0
        for metric, (_, column) in zip(result.metrics, theirs.items(), strict=True):
            ours = result.score(str(metric))
            values += len(column)
            equal += sum(ours.get(query) is not None and abs(ours[query] - v) < 1e-9 for query, v in column.items())
        print(f"{tool} {installed(tool)}: {equal:,} of {values:,} values are equal")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--qrels", type=Path)
    given = parser.parse_args()
    if given.write:
        write(given.write)
    if given.run:
        show(given.run, given.qrels)
