"""The page of results: every figure is computed here from what was measured; none is written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pages import Target, conditions, joined, table, target_table
from shapes import LINEAR, METRICS, SHAPES, WITHOUT_RANK, rows

TOLERANCE = 1e-6
LINEAR_WITHIN = 1.25  # a row of the largest run may cost so much more than one of the smallest
PEERS = ["pytrec_eval", "ranx", "ir_measures"]
ON_ONE_CORE = ["W1", "W3"]  # also measured so
SHOWN = {"karat": "**Karat**", "ranx": "ranx (warm)"}
PACKAGES = ["karat", "numpy", "polars", "msgspec", "pytrec-eval-terrier", "ranx", "numba", "ir_measures", "orjson"]


class Cell(NamedTuple):
    contender: str
    workload: str
    mode: str  # file, dicts, untied or cold: see contenders.py


class Start(NamedTuple):
    """A whole process."""

    cpu: float
    wall: float

    def better(self, other: Start | None) -> Start:
        return self if other is None else Start(min(self.cpu, other.cpu), min(self.wall, other.wall))


class Best(NamedTuple):
    """Least seconds of load + evaluate, greatest memory (MB) of the repeats so far."""

    cpu: float
    wall: float
    load: float  # CPU
    process: Start
    memory: float
    means: dict[str, float]

    def better(self, other: Best | None) -> Best:
        if other is None:
            return self
        return Best(
            cpu=min(self.cpu, other.cpu),
            wall=min(self.wall, other.wall),
            load=min(self.load, other.load),
            process=self.process.better(other.process),
            memory=max(self.memory, other.memory),
            means=self.means,
        )


class Measured(NamedTuple):
    best: dict[Cell, Best]
    starts: dict[str, Start]
    checks: dict[Cell, dict[str, float]]  # means of runs that were made for their values only
    help_loads: set[str]  # packages that `karat --help` loads
    repeats: int

    def of(self, contender: str, workload: str, mode: str) -> Best:
        return self.best[Cell(contender, workload, mode)]

    def cpu_ratio(self, peer: str, workload: str, mode: str) -> float:
        return self.of(peer, workload, mode).cpu / self.of("karat", workload, mode).cpu


class Agreement(NamedTuple):
    compared: str
    peer: str
    difference: float  # the greatest of the seven means

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE


def page(measured: Measured, command: str, before: float) -> str:
    """All tables, as Markdown."""
    parts = [
        "# Benchmarks: results",
        "Written by `benchmarks/run.py`; [README.md](README.md) says what is measured, and how. Seven metrics: "
        + ", ".join(f"`{m}`" for m in METRICS)
        + ". Ratios are peer / Karat: above 1, Karat is faster or needs less memory.",
        conditions(
            f"Command: `{command}` ({_repeats(measured)}; lowest CPU and wall time, highest memory)", PACKAGES, before
        ),
        "## Targets",
        target_table(targets(measured)),
        *_workload_sections(measured),
        "## Whole process",
        "W2 from the start of Python to its end, imports and (for ranx) compiling or loading compiled code included.",
        _whole_process_table(measured),
        "## Start",
        _start_table(measured),
        f"`karat --help` loads numpy: {_yes('numpy' in measured.help_loads)}; "
        f"polars: {_yes('polars' in measured.help_loads)}.",
        "## Cost and rows",
        "Karat on TREC runs of one shape (1,000 hits per query) and growing size, from file.",
        _linear_table(measured),
        "## Cores",
        "Karat from file on one core, and on all of this machine. Files of 50 MB or more are read with two threads.",
        _cores_table(measured),
        "## Same values",
        _agreement_text(),
        _agreement_table(measured),
        "Differences that are expected, and why:",
        _expected_table(measured),
    ]
    return joined(parts)


def _two_cores(measured: Measured, workload: str) -> float:
    """Wall time on all cores, divided by that on one."""
    return measured.of("karat", workload, "file").wall / measured.of("karat", workload, "one").wall


def _cores_table(measured: Measured) -> str:
    rows = []
    for workload in ON_ONE_CORE:
        both = [measured.of("karat", workload, mode) for mode in ("one", "file")]
        figures = [figure for best in both for figure in (f"{best.cpu:.3f}", f"{best.wall:.3f}", f"{best.memory:.0f}")]
        rows.append([workload, *figures, f"{_two_cores(measured, workload):.2f}×"])
    return table(["", ">CPU s, one", ">wall s", ">MB", ">CPU s, two", ">wall s", ">MB", ">wall, two / one"], rows)


def _repeats(measured: Measured) -> str:
    return "1 repeat" if measured.repeats == 1 else f"{measured.repeats} repeats, interleaved"


def targets(measured: Measured) -> list[Target]:
    """What Karat set out to reach, judged on the measured numbers."""
    found = [
        _at_least(measured, p, "W1", "file", w) for p, w in (("pytrec_eval", 20), ("ranx", 30), ("ir_measures", 30))
    ]
    memory = measured.of("karat", "W1", "file").memory
    found.append(Target("W1 from file, peak memory", "≤ 120 MB", f"{memory:.0f} MB", memory <= 120))
    cores = _two_cores(measured, "W1")
    found.append(Target("W1 from file, wall time on two cores / on one", "≤ 0.6×", f"{cores:.2f}×", cores <= 0.6))
    found.append(_at_least(measured, "pytrec_eval", "W3", "file", 5))
    process = measured.of("karat", "W2", "cold").process.cpu / measured.of("pytrec_eval", "W2", "cold").process.cpu
    found.append(Target("W2, whole process, CPU of pytrec_eval's", "≤ 1.25×", f"{process:.2f}×", process <= 1.25))
    found += [_at_least(measured, p, w, "dicts", 1.5) for w in ("W1", "W2", "W3") for p in PEERS]
    costs = [_per_million(measured, w) for w in (*LINEAR, "W1")]
    growth = costs[-1] / costs[0]
    what = f"cost of a row, {rows('W1') / 1e6:.2f} M rows against {rows(LINEAR[0]) / 1e6:.1f} M"
    found.append(Target(what, f"≤ {LINEAR_WITHIN}×", f"{growth:.2f}×", growth <= LINEAR_WITHIN))
    seconds = _over_bare(measured, "import karat").wall
    found.append(Target("`import karat`", "≤ 0.3 s", f"{seconds:.3f} s", seconds <= 0.3))
    heavy = sorted({"numpy", "polars"} & measured.help_loads)
    found.append(Target("`karat --help` loads numpy or polars", "neither", ", ".join(heavy) or "neither", not heavy))
    return found


def _at_least(measured: Measured, peer: str, workload: str, mode: str, wanted: float) -> Target:
    ratio = measured.cpu_ratio(peer, workload, mode)
    what = f"{workload} from {mode}, CPU against {_shown(peer)}"
    return Target(what, f"≥ {wanted:g}×", f"{ratio:.2f}×", ratio >= wanted)


def _workload_sections(measured: Measured) -> Iterator[str]:
    kinds = {"W1": "TREC run and qrels", "W2": "TREC run and qrels", "W3": "JSONL run log and gold"}
    for workload, kind in kinds.items():
        queries, depth = SHAPES[workload]
        yield f"## {workload}: {queries:,} queries × {depth:,} hits, {kind}"
        peers = " Peers get dicts made by orjson." if workload == "W3" else ""
        yield f"From file: reading and scoring (reading –: it reads while it scores).{peers}"
        yield _timing_table(measured, workload, "file")
        yield "From dicts in memory: scoring alone; peak memory includes the dicts."
        yield _timing_table(measured, workload, "dicts")


def _timing_table(measured: Measured, workload: str, mode: str) -> str:
    karat = measured.of("karat", workload, mode)
    reading = [">of it reading"] if mode == "file" else []
    lines = []
    for name in ("karat", *PEERS):
        best = measured.of(name, workload, mode)
        line = [_shown(name), _seconds(best.cpu), _seconds(best.wall), f"{best.memory:,.0f}"]
        if reading:
            line.insert(2, _seconds(best.load) if best.load >= 0.001 else "–")
        lines.append(line + _ratios(best, karat))
    return table(["", ">CPU s", *reading, ">wall s", ">peak MB", ">× CPU", ">× wall", ">× memory"], lines)


def _ratios(peer: Best, karat: Best) -> list[str]:
    pairs = [(peer.cpu, karat.cpu), (peer.wall, karat.wall), (peer.memory, karat.memory)]
    return [f"{a / b:.2f}" for a, b in pairs]


def _whole_process_table(measured: Measured) -> str:
    karat = measured.of("karat", "W2", "cold")
    lines = []
    for name in ("karat", *PEERS):
        best = measured.of(name, "W2", "cold")
        cpu, wall = best.process
        shown = "ranx (cold)" if name == "ranx" else _shown(name)
        ratios = [cpu / karat.process.cpu, wall / karat.process.wall, best.memory / karat.memory]
        lines.append([shown, _seconds(cpu), _seconds(wall), f"{best.memory:,.0f}", *(f"{r:.2f}" for r in ratios)])
    return table(["", ">CPU s", ">wall s", ">peak MB", ">× CPU", ">× wall", ">× memory"], lines)


def _start_table(measured: Measured) -> str:
    lines = []
    for name, start in measured.starts.items():
        over = _over_bare(measured, name)
        more = ["–", "–"] if name == "bare Python" else [_seconds(over.cpu), _seconds(over.wall)]
        lines.append([name if name == "bare Python" else f"`{name}`", _seconds(start.cpu), _seconds(start.wall), *more])
    return table(["", ">CPU s", ">wall s", ">CPU over bare Python", ">wall over bare Python"], lines)


def _over_bare(measured: Measured, name: str) -> Start:
    start, bare = measured.starts[name], measured.starts["bare Python"]
    return Start(max(start.cpu - bare.cpu, 0.0), max(start.wall - bare.wall, 0.0))


def _linear_table(measured: Measured) -> str:
    lines = []
    for workload in (*LINEAR, "W1"):
        best = measured.of("karat", workload, "file")
        millions = rows(workload) / 1e6
        line = [f"{millions:.2f}", _seconds(best.cpu), _seconds(best.wall)]
        lines.append([*line, _seconds(best.cpu / millions), _seconds(best.wall / millions), f"{best.memory:,.0f}"])
    head = [">million rows", ">CPU s", ">wall s", ">CPU s per million", ">wall s per million", ">peak MB"]
    return table(head, lines)


def _per_million(measured: Measured, workload: str) -> float:
    return measured.of("karat", workload, "file").cpu / (rows(workload) / 1e6)


def agreement(measured: Measured) -> list[Agreement]:
    """Karat's seven means against each peer's, on input that leaves no room for a rule of one's own."""
    found = []
    for workload, mode in (("W1", "file"), ("W2", "file"), ("W1", "dicts"), ("W2", "dicts"), ("W3", "dicts")):
        karat = measured.of("karat", workload, mode).means
        for peer in ("pytrec_eval", "ir_measures"):
            theirs = measured.of(peer, workload, mode).means
            found.append(Agreement(f"{workload} from {mode}", peer, _difference(karat, theirs)))
    without_rank = measured.checks[Cell("karat", WITHOUT_RANK, "file")]
    for peer in ("pytrec_eval", "ir_measures"):
        theirs = measured.of(peer, "W3", "file").means
        found.append(Agreement("W3 from file, log without ranks", peer, _difference(without_rank, theirs)))
    for workload in ("W1", "W2", "W3"):
        karat, theirs = (measured.checks[Cell(name, workload, "untied")] for name in ("karat", "ranx"))
        found.append(Agreement(f"{workload} from dicts, without ties", "ranx", _difference(karat, theirs)))
    return found


def _difference(one: dict[str, float], other: dict[str, float]) -> float:
    return max(abs(one[m] - other[m]) for m in METRICS)


def _agreement_text() -> str:
    return (
        f"Largest difference of Karat's seven means from a peer's; {TOLERANCE:g} or less is agreement. Karat, "
        "pytrec_eval and ir_measures have one rule for hits with equal scores (trec_eval's). ranx has another, so it "
        "is compared on the same lists with scores that all differ. In W3 Karat takes the log's ranks, which the peers "
        "do not read, so the values are compared on the same log without ranks."
    )


def _agreement_table(measured: Measured) -> str:
    lines = [
        [a.compared, a.peer, f"{a.difference:.1e}", "agree" if a.agrees else "**disagree**"]
        for a in agreement(measured)
    ]
    return table(["input", "peer", ">difference", ""], lines)


def _expected_table(measured: Measured) -> str:
    lines = []
    for workload, mode in (("W1", "file"), ("W2", "file"), ("W1", "dicts"), ("W2", "dicts"), ("W3", "dicts")):
        karat, ranx = (measured.of(name, workload, mode).means for name in ("karat", "ranx"))
        lines.append([f"{workload} from {mode}", "ranx", f"{_difference(karat, ranx):.1e}", "order of tied hits"])
    karat = measured.of("karat", "W3", "file").means
    for peer in PEERS:
        difference = _difference(karat, measured.of(peer, "W3", "file").means)
        lines.append(["W3 from file", peer, f"{difference:.1e}", "the log's ranks order its tied hits"])
    return table(["input", "peer", ">difference", "reason"], lines)


def _shown(name: str) -> str:
    return SHOWN.get(name, name)


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
