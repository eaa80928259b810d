"""Seven metrics of a large Parquet run, by Karat and by SQL in DuckDB; prints one page of Markdown.

    python benchmarks/duckdb_sql.py [--quick] [--largest] [--repeat N] [--data FOLDER] [--output DUCKDB.md]

The same run and gold (benchmarks/scale_data.py) for both, each turn a fresh process, from start to end. DuckDB joins
the hits with the gold and computes the metrics query by query, then their means. Karat does more: it also computes
intervals, ceilings and the spread, and checks ranks, repeated hits and queries (the audit). Values must be the same for
every query, up to rounding, or it ends with exit code 1. The SQL numbers the hits of a query by their ranks, as Karat
does: ranks may begin at 0 or have gaps. A second file has scores only, as search engines often write it. For
comparison, a third query takes the ranks of the first file as they are, which is right for this file, but not for
every run; it has no target. `--largest` adds a hundred million hits (3 GB of disk).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from pages import Target, conditions, joined, publish, table, target_table

HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
KARAT_NAME, DUCKDB_NAME, TRUSTING = "Karat", "DuckDB", "DuckDB, trusting ranks"
METRICS = ["hit@5", "recall@5", "recall@10", "precision@5", "mrr", "map", "ndcg(gain=linear)@10"]
WANTED, MEMORY = 4.0, 300.0  # times as fast, MB
MILLION = 1_000_000

KARAT = """
import sys
import numpy as np
import karat
result = karat.evaluate(sys.argv[1], sys.argv[2], sys.argv[4:])
for row in result.summary_rows:
    print(row, file=sys.stderr)
np.savez(sys.argv[3], queries=np.array(result.queries), **{n.replace("/", "_"): v for n, v in result.values.items()})
"""
SQL = """
WITH judged AS (
    SELECT query_id, rank, grade FROM {run} AS run JOIN read_parquet('{gold}') AS gold
    USING (query_id, chunk_id)
), found AS (
    SELECT query_id, rank, row_number() OVER (PARTITION BY query_id ORDER BY rank) AS nth FROM judged WHERE grade > 0
), per_found AS (
    SELECT query_id, count(*) FILTER (rank <= 5) AS in5, count(*) FILTER (rank <= 10) AS in10, min(rank) AS first,
        sum(nth / rank::DOUBLE) AS precisions
    FROM found GROUP BY query_id
), gains AS (
    SELECT query_id, sum(grade / log2(rank + 1)) AS gain FROM judged WHERE rank <= 10 AND grade > 0 GROUP BY query_id
), best AS (
    SELECT query_id, grade, row_number() OVER (PARTITION BY query_id ORDER BY grade DESC) AS place
    FROM read_parquet('{gold}') WHERE grade > 0
), wanted AS (
    SELECT query_id, count(*) AS relevant, sum(grade / log2(place + 1)) FILTER (place <= 10) AS ideal
    FROM best GROUP BY query_id
)
SELECT query_id, (coalesce(in5, 0) > 0)::DOUBLE, coalesce(in5, 0) / relevant, coalesce(in10, 0) / relevant,
    coalesce(in5, 0) / 5, coalesce(1 / first, 0), coalesce(precisions, 0) / relevant, coalesce(gain, 0) / ideal
FROM wanted LEFT JOIN per_found USING (query_id) LEFT JOIN gains USING (query_id) ORDER BY query_id
"""
NUMBERED = """(
    SELECT query_id, chunk_id, row_number() OVER (PARTITION BY query_id ORDER BY {order}) AS rank
    FROM read_parquet('{run}')
)"""
ORDERS = {"ranks": "rank", "scores": "score DESC, chunk_id DESC"}
TRUSTED = "read_parquet('{run}')"
DUCKDB = """
import sys
import duckdb
import numpy as np
engine = duckdb.connect()
engine.execute("SET enable_progress_bar = false")
found = list(engine.execute(sys.argv[4]).fetchnumpy().values())
names = sys.argv[5:]
for name, values in zip(names, found[1:]):
    print(name, values.mean(), file=sys.stderr)
np.savez(sys.argv[3], queries=np.array(found[0], dtype=str), **dict(zip(names, map(np.asarray, found[1:]))))
"""


class Case(NamedTuple):
    hits: int
    depth: int  # hits of a query
    kind: str  # which columns order the hits: ranks or scores

    def __str__(self) -> str:
        return f"{self.hits:,} hits, {self.kind}"

    def hits_of(self, run: str, *, trusted: bool) -> str:
        """SQL for the hits with their places."""
        return TRUSTED.format(run=run) if trusted else NUMBERED.format(run=run, order=ORDERS[self.kind])


class Spent(NamedTuple):
    cpu: float
    memory: float  # MB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size: does everything run?")
    parser.add_argument("--largest", action="store_true", help="also a hundred million hits")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--data", default=os.path.join(HERE, "data", "scale"))
    parser.add_argument("--output")
    given = parser.parse_args()
    given.data = os.path.abspath(given.data)
    million = MILLION // 100 if given.quick else MILLION
    sizes = [(10 * million, 100), *([(100 * million, 1000)] if given.largest else [])]
    cases = [Case(*size, kind) for size in sizes for kind in ORDERS]
    spent = {(case, name): least(given.data, case, name, given.repeat) for case in cases for name in contenders(case)}
    publish(_page(spent, cases, given.repeat), given.output)


def contenders(case: Case) -> list[str]:
    return [KARAT_NAME, DUCKDB_NAME, *([TRUSTING] if case.kind == "ranks" else [])]


def least(data: str, case: Case, name: str, repeats: int) -> Spent:
    """The least CPU and the highest peak of some turns. The values of DuckDB are compared with Karat's."""
    run, gold = _made_apart(data, case)
    turns = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.npz")
            turns.append(turn(name, run, gold, out, case))
            _compare(f"{run}.values.npz", out, name)
        print(case, name, turns[-1], file=sys.stderr, flush=True)
    return Spent(min(one.cpu for one in turns), max(one.memory for one in turns))


def _made_apart(data: str, case: Case) -> tuple[str, str]:
    """The files of a case, made by another process: the peak of a process includes that of the one that starts it."""
    script = "import sys, duckdb_sql; print(*duckdb_sql.files(*sys.argv[1:]), sep='\\n')"
    asked = [data, str(case.hits), str(case.depth), case.kind]
    made = subprocess.run(
        [sys.executable, "-c", script, *asked], cwd=HERE, stdout=subprocess.PIPE, text=True, check=True
    )
    run, gold = made.stdout.splitlines()[-2:]
    return run, gold


def files(data: str, hits: str, depth: str, kind: str) -> tuple[str, str]:
    from scale_data import make

    run, gold = make(data, int(hits), int(depth))
    return run if kind == "ranks" else without_ranks(run), gold


def without_ranks(run: str) -> str:
    """The same run without its column of ranks."""
    import duckdb

    target = f"{run.removesuffix('.parquet')}.unranked.parquet"
    if not os.path.exists(target):
        copy = f"COPY (SELECT query_id, chunk_id, score FROM read_parquet('{run}')) TO '{target}.part' (FORMAT parquet)"
        duckdb.connect(config={"memory_limit": "2GB"}).execute(copy)
        os.replace(f"{target}.part", target)
    return target


def turn(name: str, run: str, gold: str, out: str, case: Case) -> Spent:
    by_karat = name == KARAT_NAME
    sql = [] if by_karat else [SQL.format(run=case.hits_of(run, trusted=name == TRUSTING), gold=gold)]
    script = KARAT if by_karat else DUCKDB
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", script, run, gold, out, *sql, *METRICS], stderr=errors, env=ENVIRONMENT
        )
        _, status, used = os.wait4(process.pid, 0)
        if status:
            errors.seek(0)
            raise SystemExit(errors.read().decode()[-2000:])
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _compare(kept: str, out: str, name: str) -> None:
    """Keep Karat's values, and hold DuckDB's against them."""
    if name == KARAT_NAME:
        os.replace(out, kept) if os.stat(out).st_dev == os.stat(os.path.dirname(kept)).st_dev else _copy(out, kept)
        return
    import numpy as np

    ours, theirs = np.load(kept), np.load(out)
    order = np.argsort(ours["queries"])
    if not np.array_equal(ours["queries"][order], theirs["queries"]):
        raise SystemExit("DuckDB has other queries")
    for metric in METRICS:
        if not np.allclose(ours[metric][order], theirs[metric], rtol=0, atol=1e-9):
            raise SystemExit(f"{metric}: DuckDB has other values")


def _copy(source: str, target: str) -> None:
    Path(target).write_bytes(Path(source).read_bytes())


def _page(spent: dict[tuple[Case, str], Spent], cases: list[Case], repeats: int) -> str:
    targets, lines = [], []
    for case in cases:
        ours, theirs = spent[case, KARAT_NAME], spent[case, DUCKDB_NAME]
        ratio = theirs.cpu / ours.cpu
        targets.append(Target(f"{case}, DuckDB / Karat, CPU", f"≥ {WANTED:g}×", f"{ratio:.2f}×", ratio >= WANTED))
        reached = ours.memory <= MEMORY
        targets.append(Target(f"{case}, peak memory", f"≤ {MEMORY:.0f} MB", f"{ours.memory:.0f} MB", reached))
        for name in contenders(case):
            one = spent[case, name]
            lines.append([str(case), f"{case.hits // case.depth:,}", name, f"{one.cpu:.2f}", f"{one.memory:.0f}"])
    times = "1 repeat" if repeats == 1 else f"{repeats} repeats"
    parts = [
        "# Benchmarks: SQL in DuckDB",
        "Written by `benchmarks/duckdb_sql.py`: seven metrics of the same Parquet files, equal for every query.",
        conditions(f"{times}; lowest CPU time (user + system, all threads) of whole processes", ["karat", "duckdb"]),
        target_table(targets),
        table(["run", ">queries", "contender", ">CPU s", ">peak MB"], lines),
        "Karat's time includes intervals, ceilings and the audit; the queries are in the script. DuckDB numbers the "
        "hits of a query by rank or score, as Karat does. Trusting ranks, it takes them as they are, and neither sorts "
        "nor reads scores. That is right only where ranks begin at 1 and have no gaps, so it has no target.",
    ]
    return joined(parts)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
