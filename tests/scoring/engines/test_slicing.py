"""However a run is cut into slices, and wherever they are scored: the same numbers to the last bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace
from refusals import refused
from tests.scoring.engines.conftest import METRICS, assert_same, gold_of, hits_table

import karat
from karat.data.audit import Audit
from karat.data.hits import Hits, Run
from karat.errors import ConfigError, InputError, UnknownName
from karat.formats.parquet import ParquetRun
from karat.formats.table_file import Scan
from karat.results.analyses.base import Setup
from karat.results.save import saved_form
from karat.scoring.engines.base import Local
from karat.scoring.engines.find import find_engine
from karat.scoring.engines.processes import Processes
from karat.scoring.judged import Rules
from karat.scoring.one_pass import Golds, PassRequest
from karat.scoring.views import Need, View
from karat.statistics.sampling import Sampling

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "examples" / "helpdesk"


GOLD = karat.read_gold(gold_of(400, 12))
REQUEST = PassRequest(Rules(), View(), {View(): ()})


class CutRun(Run):
    """Another run in other slices."""

    def __init__(self, run: Run, cuts: list[int]) -> None:
        self._run, self._cuts, self.label = run, cuts, run.label

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        for hits in self._run.slices(columns, audit, lists):
            bounds = sorted({0, len(hits.queries), *(cut % (len(hits.queries) + 1) for cut in self._cuts)})
            for start, end in pairwise(bounds):
                keep = np.zeros(len(hits.queries), np.bool_)
                keep[start:end] = True
                some = hits.select_queries(keep)
                here = set(some.queries)
                others = {
                    name: other.select_queries(np.array([query in here for query in other.queries], np.bool_))
                    for name, other in hits.others.items()
                }
                yield replace(some, others=others)

    def provenance(self) -> dict[str, Any]:
        return self._run.provenance()


@settings(max_examples=15)
@given(st.lists(st.integers(0, 10_000), max_size=6))
def test_slices_do_not_change_a_bit(cuts: list[int]) -> None:
    run = CutRun(karat.read_run(DEMO / "bm25_rerank.jsonl"), cuts)
    assert_same(whole_run(), karat.evaluate(run, DEMO / "gold.jsonl", METRICS, corpus=DEMO / "corpus.jsonl"))


@cache
def whole_run() -> karat.Result:
    return karat.evaluate(DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl", METRICS, corpus=DEMO / "corpus.jsonl")


def test_slices_do_not_change_a_bit_of_any_metric() -> None:
    from karat.scoring.metrics.grammar import REGISTRY

    names = sorted(REGISTRY.builtin())
    run = karat.read_run(DEMO / "bm25_rerank.jsonl")
    options: Any = {"corpus": DEMO / "corpus.jsonl", "k": 5, "reference": DEMO / "bm25.jsonl"}
    usable = []
    for name in names:
        try:
            karat.Metric.parse(name)
            usable.append(name)
        except karat.KaratError:
            pass  # it needs a parameter
    assert len(usable) > 25
    whole = karat.evaluate(run, DEMO / "gold.jsonl", usable, **options)
    assert_same(whole, karat.evaluate(CutRun(run, [7, 20, 21, 33]), DEMO / "gold.jsonl", usable, **options))


def everything(setup: Setup) -> Need:
    return Need(lists=20, texts=True, open_hits=True, hashes=True, tops=12, returned=True)


def assert_all_the_same(left: karat.Result, right: karat.Result) -> None:
    """All that can be asked of a result."""
    assert_same(left, right)
    assert saved_form(left) == saved_form(right)
    assert left.sweep() == right.sweep()
    depths = dict.fromkeys(left.queries, 20)
    assert left.lists.first(depths, texts=True) == right.lists.first(depths, texts=True)
    for name in ("query", "rank"):
        ours, theirs = (getattr(side.unjudged_lists("chunk"), name) for side in (left, right))
        assert ours.tolist() == theirs.tolist()
    assert left.unjudged_lists("chunk").names == right.unjudged_lists("chunk").names
    assert left.data.hashes.tolist() == right.data.hashes.tolist()
    flags = (astuple(side.data.returned) for side in (left, right))
    for ours, theirs in zip(*flags, strict=True):
        assert ours.tolist() == theirs.tolist()


FULL: dict[str, Any] = {"sampling": Sampling(resamples=100), "consumers": [everything]}


@pytest.mark.parametrize("corpus", [None, DEMO / "corpus.jsonl"])
def test_slices_change_nothing_that_a_result_tells(corpus: Path | None) -> None:
    run, gold = karat.read_run(DEMO / "bm25_rerank.jsonl"), DEMO / "gold.jsonl"
    whole = karat.evaluate(run, gold, corpus=corpus, **FULL)
    assert_all_the_same(whole, karat.evaluate(CutRun(run, [7, 20, 21, 33]), gold, corpus=corpus, **FULL))


def test_processes_change_nothing_that_a_result_tells() -> None:
    run, gold = DEMO / "bm25_rerank.jsonl", DEMO / "gold.jsonl"
    engine = Processes(2, part=20_000, parts=2)
    assert len(karat.read_run(run).parts(engine.part) or []) > 3
    assert_all_the_same(karat.evaluate(run, gold, **FULL), karat.evaluate(run, gold, engine=engine, **FULL))


@pytest.mark.parametrize("rows", [1, 7, 100, 10_000])
def test_rows_at_a_time_do_not_matter(tmp_path: Path, rows: int) -> None:
    table, gold = hits_table(60, 10), gold_of(60, 10)
    table.write_parquet(tmp_path / "run.parquet")
    streamed = ParquetRun("run", [Scan(str(tmp_path / "run.parquet"))], rows=rows)
    assert_same(karat.evaluate(table, gold, METRICS), karat.evaluate(streamed, gold, METRICS))


def test_a_scattered_table_is_read_whole(tmp_path: Path) -> None:
    table, gold = hits_table(60, 10), gold_of(60, 10)
    table.sample(fraction=1.0, shuffle=True, seed=3).write_parquet(tmp_path / "run.parquet")
    scattered = ParquetRun("run", [Scan(str(tmp_path / "run.parquet"))], rows=50)
    found, expected = karat.evaluate(scattered, gold, METRICS), karat.evaluate(table, gold, METRICS)
    assert all(found.values[m].tobytes() == expected.values[m].tobytes() for m in METRICS)
    assert found.audit["rank_order"] > 50


def write_jsonl(table: pl.DataFrame, path: Path) -> None:
    grouped = table.group_by("query_id", maintain_order=True).agg(pl.struct(pl.exclude("query_id")).alias("topk"))
    with path.open("w") as file:
        for row in grouped.to_dicts():
            file.write(json.dumps({**row, "system": "s", "index_version": f"v{int(row['query_id'][1:]) % 2}"}) + "\n")


def write_trec(table: pl.DataFrame, path: Path) -> None:
    path.write_text("".join(f"{q} Q0 {i} {r} {s:.6f} tag\n" for q, i, r, s in table.iter_rows()))


@pytest.mark.parametrize(
    "write", [write_jsonl, write_trec, lambda table, path: table.write_parquet(path)], ids=["jsonl", "trec", "parquet"]
)
def test_processes_give_the_same(tmp_path: Path, write: Callable[[pl.DataFrame, Path], None]) -> None:
    table, gold = hits_table(400, 12), gold_of(400, 12)
    write(table, tmp_path / "run")
    engine = Processes(2, part=20_000, parts=2)
    assert len(karat.read_run(tmp_path / "run").parts(engine.part) or []) > 3
    local = karat.evaluate(tmp_path / "run", gold, METRICS)
    assert_same(local, apart := karat.evaluate(tmp_path / "run", gold, METRICS, engine=engine))
    assert local.provenance == apart.provenance


def test_processes_are_used_where_they_pay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hits_table(400, 12)
    table.write_parquet(tmp_path / "table")
    write_jsonl(table, tmp_path / "log")
    started: list[str] = []
    monkeypatch.setattr(Processes, "_judged", lambda self, run, parts, request, golds: started.append(run.label) or [])
    for cores, paid in ((1, []), (2, ["log"]), (4, ["log", "table"])):
        monkeypatch.setattr("karat.scoring.engines.processes.cores", lambda cores=cores: cores)
        for name in ("log", "table"):
            engine = Processes(part=20_000, parts=2)
            list(engine.parts(karat.read_run(tmp_path / name), REQUEST, Golds(GOLD)))
        assert [Path(label).name for label in started] == paid
        started.clear()


def test_processes_give_the_same_of_a_scattered_file(tmp_path: Path) -> None:
    table, gold = hits_table(400, 12), gold_of(400, 12)
    write_trec(table.sample(fraction=1.0, shuffle=True, seed=3), tmp_path / "run")
    local = karat.evaluate(tmp_path / "run", gold, METRICS)
    assert_same(local, karat.evaluate(tmp_path / "run", gold, METRICS, engine=Processes(2, part=20_000, parts=2)))


@pytest.mark.parametrize("known", [True, False])
def test_a_query_in_two_parts_of_a_log_is_read_as_ever(tmp_path: Path, known: bool) -> None:
    write_jsonl(hits_table(400, 12), tmp_path / "run")
    lines = (tmp_path / "run").read_text().splitlines(keepends=True)
    again = lines[1] if known else lines[0]  # q00000 has no gold
    (tmp_path / "run").write_text("".join([*lines, again]))
    gold, engine = gold_of(400, 12), Processes(2, part=20_000, parts=2)
    found = karat.evaluate(tmp_path / "run", gold, METRICS, engine=engine)
    assert_same(karat.evaluate(tmp_path / "run", gold, METRICS), found)
    assert found.audit["repeated_lines"] == 1
    (tmp_path / "run").write_text("".join([*lines, again.replace("{", "{ ", 1)]))
    with refused("duplicate-query", InputError, file=tmp_path / "run", line=401):
        karat.evaluate(tmp_path / "run", gold, METRICS, engine=engine)


def test_a_bad_line_is_named_as_ever(tmp_path: Path) -> None:
    write_jsonl(hits_table(400, 12), tmp_path / "run")
    with (tmp_path / "run").open("a") as file:
        file.write('{"query_id": "q9", "topk": [{"chunk_id": "a", "score": "high"}]}\n')
    with refused("wrong-type", InputError, file=tmp_path / "run", line=401, field="topk[0].score"):
        karat.evaluate(tmp_path / "run", gold_of(400, 12), METRICS, engine=Processes(2, part=20_000, parts=2))


def test_engines_by_name() -> None:
    assert isinstance(find_engine(None), Local)
    assert isinstance(find_engine("processes"), Processes)
    with refused("unknown-engine", UnknownName) as caught:
        find_engine("process")
    assert "processes" in caught.value.hint
    with refused("unknown-engine", ConfigError, got="int"):
        find_engine(3)


def test_the_command_line_names_an_engine(
    tmp_path: Path,
    karat_command: Callable[..., tuple[int, str, str]],
    karat_refuses: Callable[..., karat.KaratError],
) -> None:
    run, gold = str(DEMO / "bm25.jsonl"), str(DEMO / "gold.jsonl")
    plain = karat_command("eval", run, "--gold", gold, "--json")
    assert karat_command("eval", run, "--gold", gold, "--json", "--engine", "processes") == plain
    error = karat_refuses("eval", run, "--gold", gold, "--engine", "sparc")
    assert (error.code, "spark" in str(error.hint)) == ("unknown-engine", True)
    error = karat_refuses("eval", run, "--gold", gold, "--spark-master", "local[2]")
    assert (error.code, "--engine spark" in str(error.hint)) == ("contradiction", True)
