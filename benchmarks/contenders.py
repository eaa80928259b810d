"""One contender on one workload in one process; prints one JSON line.

    python benchmarks/contenders.py CONTENDER WORKLOAD file|one|dicts|untied|cold

    file    from the files on disk: reading and scoring are both counted
    one     as file, on one core
    dicts   from dicts {query: {document: score}} in memory, whose making is not counted; short calls are repeated
    untied  as dicts, but every hit has a score of its own: a check of the values, where peers differ on ties
    cold    from the files, in as few steps as a user would write, nothing warmed up: for whole-process times

Stages: import, warm (ranx only), make (the dicts), load, evaluate; what is compared is load + evaluate. Before that,
the process rests for a moment, since the linear algebra behind NumPy starts a thread that waits by spinning. This file
itself imports next to nothing, so that whole-process times are those of the contender. Arguments are taken as they
come and types are few for the same reason: argparse and typing would cost every measured process some milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

from shapes import METRICS, gold_file, is_jsonl, run_file

TYPE_CHECKING = False  # type checkers know this name and read the import all the same
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

Grades = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]
REST = 0.1  # seconds; such a thread stops spinning after a third of it
SHORT = 0.5  # seconds that calls from dicts may be repeated for
Means = dict[str, float]


class Stages:
    """CPU (all threads) and wall seconds of each stage."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = {}
        self.wall: dict[str, float] = {}

    def time(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        found = step(*arguments)
        self.cpu[name], self.wall[name] = time.process_time() - cpu, time.perf_counter() - wall
        return found

    def time_short(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        """The least of several calls where one takes milliseconds: a single one would measure its first-time costs and
        the moment."""
        found = self.time(name, step, *arguments)
        left = int(SHORT / max(self.wall[name], 1e-6))
        for _ in range(min(left, 20)):
            cpu, wall = self.cpu[name], self.wall[name]
            self.time(name, step, *arguments)
            self.cpu[name], self.wall[name] = min(cpu, self.cpu[name]), min(wall, self.wall[name])
        return found


class Contender:
    """What a user of the package would write, in the way that is fastest for that package."""

    def imports(self, mode: str) -> None:
        """All that the call will load, so that no import is counted as evaluation; if cold, only what a user names."""
        raise NotImplementedError

    def warm(self, workload: str, mode: str) -> None:
        """What a package does at its first call only, and nobody would count."""

    def load(self, workload: str) -> tuple[Any, Any]:
        """From files to what `evaluate` takes: gold and run."""
        raise NotImplementedError

    def evaluate(self, gold: Any, run: Any) -> Means:
        """Gold and run, as `load` gives them or as dicts, to the means of the seven metrics."""
        raise NotImplementedError


class Karat(Contender):
    def imports(self, mode: str) -> None:
        import karat

        self.call = karat.evaluate
        if mode != "cold":
            import numpy  # noqa: F401

            import karat.files.native.build

            import_folder("karat.formats")
            import_folder("karat.formats.kinds")
            import_folder("karat.scoring.metrics")

    def load(self, workload: str) -> tuple[str, str]:
        return gold_file(workload), run_file(workload)  # one call reads and scores; nothing to do before

    def evaluate(self, gold: Any, run: Any) -> Means:
        return self.call(run, gold, METRICS).means


class Peer(Contender):
    """A peer reads TREC files itself, and gets JSONL as dicts through orjson, the fastest way there is by hand."""

    names: list[str]  # of the seven metrics, in their order

    def load(self, workload: str) -> tuple[Any, Any]:
        return jsonl_dicts(workload) if is_jsonl(workload) else self.read(gold_file(workload), run_file(workload))

    def read(self, gold: str, run: str) -> tuple[Any, Any]:
        raise NotImplementedError


class PytrecEval(Peer):
    names = ["success_5", "recall_5", "recall_10", "P_5", "recip_rank", "map", "ndcg_cut_10"]
    asked = {"success.5", "recall.5,10", "P.5", "recip_rank", "map", "ndcg_cut.10"}

    def imports(self, mode: str) -> None:
        import pytrec_eval

        self.package = pytrec_eval

    def read(self, gold: str, run: str) -> tuple[Any, Any]:
        with open(gold) as gold_stream, open(run) as run_stream:
            return self.package.parse_qrel(gold_stream), self.package.parse_run(run_stream)

    def evaluate(self, gold: Any, run: Any) -> Means:
        found = self.package.RelevanceEvaluator(gold, self.asked).evaluate(run)
        sums = (sum(scores[name] for scores in found.values()) for name in self.names)
        return {metric: total / len(gold) for metric, total in zip(METRICS, sums, strict=True)}


class Ranx(Peer):
    names = ["hit_rate@5", "recall@5", "recall@10", "precision@5", "mrr", "map", "ndcg@10"]

    def imports(self, mode: str) -> None:
        import ranx

        self.package = ranx

    def warm(self, workload: str, mode: str) -> None:
        """ranx compiles at its first call; W2 in the same form makes it compile what will be used."""
        from_files = mode == "file" and not is_jsonl(workload)
        self.evaluate(*(self.load("W2") if from_files else make_dicts("W2")))

    def read(self, gold: str, run: str) -> tuple[Any, Any]:
        return self.package.Qrels.from_file(gold, kind="trec"), self.package.Run.from_file(run, kind="trec")

    def evaluate(self, gold: Any, run: Any) -> Means:
        found = self.package.evaluate(gold, run, self.names)  # dicts go in bare: Run objects cost far more to build
        return {metric: float(found[name]) for metric, name in zip(METRICS, self.names, strict=True)}


class IrMeasures(Peer):
    names = ["Success@5", "R@5", "R@10", "P@5", "RR", "AP", "nDCG@10"]

    def imports(self, mode: str) -> None:
        import ir_measures

        self.package = ir_measures
        if mode != "cold":
            import pytrec_eval  # noqa: F401  # does its work, and is loaded at the first call

    def read(self, gold: str, run: str) -> tuple[Any, Any]:
        # Generators, read as they are scored: faster and lighter than lists. So nearly all is spent in `evaluate`.
        return self.package.read_trec_qrels(gold), self.package.read_trec_run(run)

    def evaluate(self, gold: Any, run: Any) -> Means:
        measures = [self.package.parse_measure(name) for name in self.names]
        found = self.package.calc_aggregate(measures, gold, run)
        return {metric: float(found[measure]) for metric, measure in zip(METRICS, measures, strict=True)}


CONTENDERS = {"karat": Karat, "pytrec_eval": PytrecEval, "ranx": Ranx, "ir_measures": IrMeasures}


def import_folder(package: str) -> None:
    """Every module of a package that loads them when they are first needed."""
    from importlib import import_module
    from pkgutil import iter_modules

    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


def make_dicts(workload: str) -> tuple[Grades, Scores]:
    return jsonl_dicts(workload) if is_jsonl(workload) else trec_dicts(workload)


def jsonl_dicts(workload: str) -> tuple[Grades, Scores]:
    import orjson

    with open(gold_file(workload), "rb") as stream:
        entries = map(orjson.loads, stream)
        gold = {e["query_id"]: {item["chunk_id"]: item["grade"] for item in e["gold"]} for e in entries}
    with open(run_file(workload), "rb") as stream:
        entries = map(orjson.loads, stream)
        run = {e["query_id"]: {hit["chunk_id"]: hit["score"] for hit in e["topk"]} for e in entries}
    return gold, run


def trec_dicts(workload: str) -> tuple[Grades, Scores]:
    gold: Grades = {}
    run: Scores = {}
    with open(gold_file(workload)) as stream:
        for line in stream:
            query, _, document, grade = line.split()
            gold.setdefault(query, {})[document] = int(grade)
    with open(run_file(workload)) as stream:
        for line in stream:
            query, _, document, _, score, _ = line.split()
            run.setdefault(query, {})[document] = float(score)
    return gold, run


def untie(run: Scores) -> Scores:
    """The same lists in the order of the file, with scores that differ."""
    return {query: dict(zip(hits, map(float, range(len(hits), 0, -1)), strict=True)) for query, hits in run.items()}


def peak_megabytes() -> float:
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measure(name: str, workload: str, mode: str) -> dict[str, object]:
    contender, stages = CONTENDERS[name](), Stages()
    if mode == "one":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    stages.time("import", contender.imports, mode)
    if mode != "cold":
        stages.time("warm", contender.warm, workload, mode)
        time.sleep(REST)
    if mode in ("file", "one", "cold"):
        gold, run = stages.time("load", contender.load, workload)
    else:
        gold, run = stages.time("make", make_dicts, workload)
        run = untie(run) if mode == "untied" else run
    time_it = stages.time_short if mode == "dicts" else stages.time
    means = time_it("evaluate", contender.evaluate, gold, run)
    return {
        "contender": name,
        "workload": workload,
        "mode": mode,
        "cpu": stages.cpu,
        "wall": stages.wall,
        "memory": peak_megabytes(),
        "means": means,
    }


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
